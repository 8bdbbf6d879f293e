//! Analysis of tasks that are served in order of deadline or of laxity.

use crate::demand::Order;
use crate::{Analysis, Preemption, Task, TaskError, analyse};

/// Whether earliest deadline first meets every deadline, by the demand-bound test: exact with full
/// preemption, for any relation of deadlines to periods, and with jitter. If so, the response bound
/// of each task is its deadline. If not, the verdict of one late task has the numbers.
///
/// Least laxity first, decided anew at every moment, meets every deadline if and only if earliest
/// deadline first does (Dertouzos and Mok 1989), so this is its test, too.
///
/// # Errors
/// [`TaskError`] for the first task with invalid parameters.
///
/// # Real-time
/// Off line, as [`crate::fixed_priority`].
///
/// ```
/// use isorb_sched::{Nanos, Preemption, Task, earliest_deadline};
/// let ms = Nanos::from_ms;
/// // 100 % of the processor: too much for fixed priorities here, not for this.
/// let tasks = [Task::new("a", ms(3), ms(6)), Task::new("b", ms(4), ms(8))];
/// assert!(earliest_deadline(&tasks, Preemption::Full)?.schedulable());
/// # Ok::<(), isorb_sched::TaskError>(())
/// ```
pub fn earliest_deadline(tasks: &[Task], preemption: Preemption) -> Result<Analysis, TaskError> {
    analyse(tasks, &vec![(0, Order::Deadline); tasks.len()], preemption, false)
}
