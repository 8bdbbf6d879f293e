//! Analysis of a set of tasks that are served in order of deadline or of laxity.

use crate::demand::Order;
use crate::load::Utilisation;
use crate::response::{Effort, Preemption, Response, Stop};
use crate::table::Table;
use crate::{Analysis, Nanos, Task, TaskError, Verdict};

const EFFORT: u64 = 100_000_000;

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
    one_level(tasks, Order::Deadline, preemption)
}

/// One level of that order.
pub(crate) fn one_level(tasks: &[Task], order: Order, preemption: Preemption) -> Result<Analysis, TaskError> {
    tasks.iter().try_for_each(Task::check)?;
    let mut table = Table::new(preemption, false, tasks.len());
    for task in tasks {
        table.insert(0, order, task);
    }
    let holds = table.holds_below();
    let mut verdicts = Vec::with_capacity(tasks.len());
    table.responses(0..table.len(), &mut Effort::new(EFFORT), |place, result| {
        verdicts.push(Verdict {
            response: Response::of(result.map_err(|stop| match stop {
                Stop::Beside { .. } => Stop::Undecided(0),
                stop => stop,
            })),
            deadline: tasks[place].deadline,
            blocking: Nanos::new(table.blocking(place, &holds)),
        });
        true
    });
    Ok(Analysis { verdicts, utilisation: Utilisation::sum(tasks) })
}
