//! A search for the nearest parameters that would be admitted.

use super::Admission;
use crate::response::{Level, Stop, TermLimit};
use crate::{Nanos, Task, Utilisation};

/// The nearest period and deadline that would be admitted, all else as requested. Each has been
/// tried. The search quadruples and halves, to within a hundredth of the request or as near as its
/// share of the effort allows. It assumes that a longer period or deadline never makes matters
/// worse, which holds with full preemption.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Nearest {
    /// A longer period, and the same deadline if that was the period.
    pub period: Option<Nanos>,
    /// A longer deadline with the requested period.
    pub deadline: Option<Nanos>,
}

/// Each of the two searches may compute a third of the effort of a decision.
pub(super) fn search(admission: &mut Admission, task: &Task) -> Nearest {
    let implicit = task.deadline == task.period;
    let period = smallest(admission, task.period, |period| {
        let deadline = if implicit { period } else { task.deadline };
        Task { period, deadline, ..task.clone() }
    });
    // If the utilisation is too high, no deadline helps.
    let requested = Utilisation::of(task.cost, task.period);
    let room = admission.utilisation().plus(requested) <= admission.config.share;
    let deadline =
        room.then(|| smallest(admission, task.deadline, |deadline| Task { deadline, ..task.clone() }));
    Nearest { period, deadline: deadline.flatten() }
}

/// The smallest value over `asked` with which the task is shown to fit.
pub(super) fn smallest(
    admission: &mut Admission,
    requested: Nanos,
    make: impl Fn(Nanos) -> Task,
) -> Option<Nanos> {
    let mut effort = TermLimit::new(admission.config.effort / 3);
    // Tasks that failed before probably fail again, so they are tested before all others.
    let mut witnesses = vec![TrialTask::New];
    let mut fits = |value: Nanos| -> Result<bool, Stop> {
        let task = make(value);
        if admission.victim(&task, Some(&witnesses), &mut effort)?.is_some() {
            return Ok(false);
        }
        let victim = admission.victim(&task, None, &mut effort)?;
        witnesses.extend(victim);
        Ok(victim.is_none())
    };
    let (mut bad, mut good) = (requested, requested.times(2));
    while !fits(good).ok()? {
        // If a thousand times the value is refused, larger ones are, too.
        if good.ns() / 1024 > requested.ns() || good > Nanos::LONGEST {
            return None;
        }
        (bad, good) = (good, good.times(4));
    }
    while good.minus(bad).ns() > requested.ns() / 100 {
        let middle = Nanos::new(bad.ns() + (good.ns() - bad.ns()) / 2);
        match fits(middle) {
            Ok(true) => good = middle,
            Ok(false) => bad = middle,
            Err(_) => break,
        }
        if middle == bad && good.minus(bad).ns() <= 1 {
            break;
        }
    }
    Some(good)
}

/// A task of a trial: the new one, or an admitted one by its rank without the new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TrialTask {
    New,
    Rank(usize),
}

impl Admission {
    /// The first task of `among`, or of all, that would miss its deadline with the new task.
    pub(super) fn victim(
        &mut self,
        task: &Task,
        among: Option<&[TrialTask]>,
        effort: &mut TermLimit,
    ) -> Result<Option<TrialTask>, Stop> {
        let requested = Utilisation::of(task.cost, task.period);
        if task.check().is_err() || self.utilisation().plus(requested) > self.config.share {
            return Ok(Some(TrialTask::New));
        }
        let new = self.insert(task);
        let mut ranks: Vec<usize> = match among {
            Some(among) => among.iter().map(|task| task.rank(new)).collect(),
            None => (self.first_affected(new)..self.table.len()).collect(),
        };
        ranks.sort_unstable();
        let mut answer = Ok(None);
        let mut ranks = ranks.into_iter().peekable();
        self.table.levels(0..self.table.len(), |rank, level| {
            if ranks.next_if_eq(&rank).is_none() {
                return ranks.peek().is_some();
            }
            answer = meets(level, self.table.entry(rank).deadline, effort).map(|met| {
                (!met).then_some(match rank.cmp(&new) {
                    std::cmp::Ordering::Equal => TrialTask::New,
                    std::cmp::Ordering::Less => TrialTask::Rank(rank),
                    std::cmp::Ordering::Greater => TrialTask::Rank(rank - 1),
                })
            });
            matches!(answer, Ok(None))
        });
        self.table.remove(new);
        answer
    }
}

/// Whether every task of a level meets its deadline, by one sum if that suffices.
fn meets(level: &Level<'_>, deadline: u64, effort: &mut TermLimit) -> Result<bool, Stop> {
    if level.settles(deadline.saturating_sub(level.own.jitter), effort)? {
        return Ok(true);
    }
    match level.response(deadline, effort) {
        Ok(times) => Ok(times.response <= deadline),
        Err(Stop::Over(_) | Stop::Unbounded | Stop::Beside { .. }) => Ok(false),
        Err(stop @ Stop::Undecided(_)) => Err(stop),
    }
}

impl TrialTask {
    fn rank(self, new: usize) -> usize {
        match self {
            TrialTask::New => new,
            TrialTask::Rank(rank) if rank < new => rank,
            TrialTask::Rank(rank) => rank + 1,
        }
    }
}
