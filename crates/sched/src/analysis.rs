//! Exact analysis of a set of tasks under fixed priorities.

use crate::demand::Order;
use crate::load::Utilisation;
use crate::response::{Preemption, Response, TermLimit};
use crate::table::Table;
use crate::{Nanos, Task, TaskError};

/// The number of terms that an analysis computes before it reports that it is undecided: about a
/// second.
const EFFORT: u64 = 100_000_000;

/// The verdicts on a set of tasks, in the order of the tasks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Analysis {
    /// One for each task.
    pub verdicts: Vec<Verdict>,
    /// The utilisation by all tasks.
    pub utilisation: Utilisation,
}

impl Analysis {
    /// Whether every task is known to meet every deadline.
    #[must_use]
    pub fn schedulable(&self) -> bool {
        self.verdicts.iter().all(Verdict::met)
    }
}

/// The verdict on a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict {
    /// Its longest response, from arrival to completion.
    pub response: Response,
    /// Its deadline.
    pub deadline: Nanos,
    /// How long less urgent tasks may delay it: its declared blocking, and the lack of preemption.
    pub blocking: Nanos,
}

impl Verdict {
    /// Whether it is known to meet every deadline.
    #[must_use]
    pub fn met(&self) -> bool {
        self.response.within(self.deadline)
    }

    /// The deadline less the longest response; `None` if the deadline is not known to be met.
    ///
    /// Under dual-priority scheduling this is the promotion time: a job may stay in the lower band
    /// for so long after its arrival, if the upper band has the analysed priorities (Davis and
    /// Wellings 1995).
    #[must_use]
    pub fn slack(&self) -> Option<Nanos> {
        self.response.bound().and_then(|time| self.deadline.ns().checked_sub(time.ns())).map(Nanos::new)
    }
}

/// Analyses `tasks` under their declared priorities: exact response times with release jitter,
/// blocking, deadlines shorter or longer than the period, and equal priorities served in order of
/// arrival.
///
/// A response over its deadline is reported as [`Response::Over`] with the first such response
/// found, not the longest.
///
/// # Errors
/// [`TaskError`] for the first task with invalid parameters.
///
/// # Real-time
/// Allocates; runs off line. Its time is bounded by a fixed amount of computing, after which tasks
/// are [`Response::Undecided`], which counts as not schedulable.
///
/// ```
/// use isorb_sched::{Nanos, Preemption, Task, fixed_priority};
/// let ms = Nanos::from_ms;
/// let tasks = [
///     Task::new("radar", ms(1), ms(4)).priority(3),
///     Task::new("track", ms(2), ms(6)).priority(2),
///     Task::new("display", ms(3), ms(13)).priority(1),
/// ];
/// let analysis = fixed_priority(&tasks, Preemption::Full)?;
/// assert!(analysis.schedulable());
/// assert_eq!(analysis.verdicts[2].response.bound(), Some(ms(10)));
/// assert_eq!(analysis.verdicts[2].slack(), Some(ms(3)));
/// # Ok::<(), isorb_sched::TaskError>(())
/// ```
pub fn fixed_priority(tasks: &[Task], preemption: Preemption) -> Result<Analysis, TaskError> {
    let levels: Vec<(u32, Order)> =
        tasks.iter().map(|task| (u32::MAX - task.priority, Order::Arrival)).collect();
    analyse(tasks, &levels, preemption, false)
}

/// Analyses `tasks` in levels: for each task its level, 0 the most urgent, and the order in which
/// jobs of that level are served. The order must be the same for all tasks of a level. Levels
/// preempt each other as `preemption` says. With `one_thread_per_level` the tasks of a level do not
/// preempt each other.
///
/// In a level that is not served in order of arrival the bound on a response is the deadline, where
/// all of the level meet it.
///
/// # Errors
/// As [`fixed_priority`].
///
/// # Panics
/// Where there are not as many levels as tasks.
///
/// # Real-time
/// As [`fixed_priority`].
pub fn analyse(
    tasks: &[Task],
    levels: &[(u32, Order)],
    preemption: Preemption,
    one_thread_per_level: bool,
) -> Result<Analysis, TaskError> {
    assert_eq!(tasks.len(), levels.len(), "one level a task");
    tasks.iter().try_for_each(Task::check)?;
    let mut order: Vec<usize> = (0..tasks.len()).collect();
    order.sort_by_key(|place| levels[*place].0);
    let mut table = Table::new(preemption, one_thread_per_level, tasks.len());
    for place in &order {
        let (level, order) = levels[*place];
        table.insert(u64::from(u32::MAX - level), order, &tasks[*place]);
    }
    let holds = table.holds_below();
    let mut verdicts = vec![None; tasks.len()];
    table.responses(0..table.len(), &mut TermLimit::new(EFFORT), |rank, result| {
        verdicts[order[rank]] = Some(Verdict {
            response: Response::of(result),
            deadline: tasks[order[rank]].deadline,
            blocking: Nanos::new(table.blocking(rank, &holds)),
        });
        true
    });
    Ok(Analysis { verdicts: verdicts.into_iter().flatten().collect(), utilisation: Utilisation::sum(tasks) })
}
