//! What would be admitted instead of what was asked.

use super::Admission;
use crate::response::Effort;
use crate::{Nanos, Task};

/// The nearest wishes that would be granted, all else being as asked. Each was tried before it is named; it is the smallest
/// such value to within a thousandth of what was asked, where a longer period or deadline never makes matters worse (which
/// holds with full preemption).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Nearest {
    /// A longer period; where the deadline was the period, the deadline with it.
    pub period: Option<Nanos>,
    /// A longer deadline, with the period as asked.
    pub deadline: Option<Nanos>,
}

/// The search may compute as much as a decision; then it answers what it knows.
pub(super) fn search(admission: &mut Admission, task: &Task) -> Nearest {
    let mut effort = Effort::new(admission.config.effort / 2);
    let implicit = task.deadline == task.period;
    let period = smallest(task.period, |period| {
        let deadline = if implicit { period } else { task.deadline };
        admission.fits(&Task { period, deadline, ..task.clone() }, &mut effort)
    });
    let mut effort = Effort::new(admission.config.effort / 2);
    let deadline =
        smallest(task.deadline, |deadline| admission.fits(&Task { deadline, ..task.clone() }, &mut effort));
    Nearest { period, deadline }
}

/// The smallest value over `asked` that fits: by doubling, then by halving the interval.
fn smallest(asked: Nanos, mut fits: impl FnMut(Nanos) -> bool) -> Option<Nanos> {
    let mut good = asked.times(2);
    let mut bad = asked;
    while !fits(good) {
        // A thousand times as long and still refused: nothing of the kind will help.
        if good.ns() / 1024 > asked.ns() || good > Nanos::LONGEST {
            return None;
        }
        (bad, good) = (good, good.times(2));
    }
    let grain = (asked.ns() / 1000).max(1);
    while good.minus(bad).ns() > grain {
        let middle = Nanos::new(bad.ns() + (good.ns() - bad.ns()) / 2);
        if fits(middle) {
            good = middle;
        } else {
            bad = middle;
        }
    }
    Some(good)
}
