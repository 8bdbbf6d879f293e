//! Analysis of a set of tasks that are served in order of deadline or of laxity.

use crate::demand::Order;
use crate::{Analysis, Preemption, Task, TaskError, analyse};

/// Whether every deadline is met when the nearest deadline goes first, by the demand-bound test: exact with full preemption, whatever the
/// relation of deadlines to periods, and with jitter. Where it is met, each task's response is bounded by its deadline and nothing more is
/// said; where it is not, the verdict of one task that would be late carries the numbers.
///
/// A dispatcher that keeps the least laxity first at every moment meets every deadline if and only if this one does
/// (Dertouzos and Mok 1989), so this is its test too.
///
/// # Errors
/// [`TaskError`] for the first task whose numbers cannot be.
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
