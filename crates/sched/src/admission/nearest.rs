//! What would be admitted instead of what was asked.

use super::Admission;
use crate::response::{Effort, Level, Stop};
use crate::{Nanos, Task, Utilisation};

/// The nearest wishes that would be granted, all else being as asked. Each was tried before it is named. The search is by quadrupling
/// and halving, to within a hundredth of what was asked or as near as its share of the effort allows; it presumes that a longer
/// period or deadline never makes matters worse, which holds with full preemption.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Nearest {
    /// A longer period; where the deadline was the period, the deadline with it.
    pub period: Option<Nanos>,
    /// A longer deadline, with the period as asked.
    pub deadline: Option<Nanos>,
}

/// Each of the two searches may compute a third of what a decision may.
pub(super) fn search(admission: &mut Admission, task: &Task) -> Nearest {
    let implicit = task.deadline == task.period;
    let period = smallest(admission, task.period, |period| {
        let deadline = if implicit { period } else { task.deadline };
        Task { period, deadline, ..task.clone() }
    });
    // With the share gone no deadline helps.
    let asked = Utilisation::of(task.cost, task.period);
    let room = admission.utilisation().plus(asked) <= admission.config.share;
    let deadline =
        room.then(|| smallest(admission, task.deadline, |deadline| Task { deadline, ..task.clone() }));
    Nearest { period, deadline: deadline.flatten() }
}

/// The smallest value over `asked` with which the task is known to fit.
pub(super) fn smallest(
    admission: &mut Admission,
    asked: Nanos,
    make: impl Fn(Nanos) -> Task,
) -> Option<Nanos> {
    let mut effort = Effort::new(admission.config.effort / 3);
    // Those who failed before fail first again: they are asked before everybody is.
    let mut witnesses = vec![Who::New];
    let mut fits = |value: Nanos| -> Result<bool, Stop> {
        let task = make(value);
        if admission.victim(&task, Some(&witnesses), &mut effort)?.is_some() {
            return Ok(false);
        }
        let victim = admission.victim(&task, None, &mut effort)?;
        witnesses.extend(victim);
        Ok(victim.is_none())
    };
    let (mut bad, mut good) = (asked, asked.times(2));
    while !fits(good).ok()? {
        // A thousand times as long and still refused: nothing of the kind will help.
        if good.ns() / 1024 > asked.ns() || good > Nanos::LONGEST {
            return None;
        }
        (bad, good) = (good, good.times(4));
    }
    while good.minus(bad).ns() > asked.ns() / 100 {
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

/// A task of a trial: the one that asks, or one that is admitted, by its rank without the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Who {
    New,
    Rank(usize),
}

impl Admission {
    /// The first of `among`, or of everybody, who would miss a deadline with the task in.
    pub(super) fn victim(
        &mut self,
        task: &Task,
        among: Option<&[Who]>,
        effort: &mut Effort,
    ) -> Result<Option<Who>, Stop> {
        let asked = Utilisation::of(task.cost, task.period);
        if task.check().is_err() || self.utilisation().plus(asked) > self.config.share {
            return Ok(Some(Who::New));
        }
        let new = self.insert(task);
        let mut ranks: Vec<usize> = match among {
            Some(among) => among.iter().map(|who| who.rank(new)).collect(),
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
                    std::cmp::Ordering::Equal => Who::New,
                    std::cmp::Ordering::Less => Who::Rank(rank),
                    std::cmp::Ordering::Greater => Who::Rank(rank - 1),
                })
            });
            matches!(answer, Ok(None))
        });
        self.table.remove(new);
        answer
    }
}

/// Whether every deadline of a level's task is met, with one sum where that is enough.
fn meets(level: &Level<'_>, deadline: u64, effort: &mut Effort) -> Result<bool, Stop> {
    if level.settles(deadline.saturating_sub(level.own.jitter), effort)? {
        return Ok(true);
    }
    match level.response(deadline, effort) {
        Ok(times) => Ok(times.response <= deadline),
        Err(Stop::Over(_) | Stop::Unbounded | Stop::Beside { .. }) => Ok(false),
        Err(stop @ Stop::Undecided(_)) => Err(stop),
    }
}

impl Who {
    fn rank(self, new: usize) -> usize {
        match self {
            Who::New => new,
            Who::Rank(rank) if rank < new => rank,
            Who::Rank(rank) => rank + 1,
        }
    }
}
