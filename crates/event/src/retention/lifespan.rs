//! For how long events are of use.

use crate::designator;
use std::time::Duration;

/// The lifespan of events of one type. An event that is older when its consumer would run is
/// dropped and counted ([`Counts::expired`](crate::Counts::expired)). Its age counts from its
/// arrival at this channel, on the channel's clock: the creation time may be another host's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lifespan {
    /// The type; [`ANY`](crate::designator::ANY) for those without a lifespan of their own.
    pub event_type: i32,
    /// The lifespan.
    pub span: Duration,
}

/// The lifespans of a channel, sorted by type.
pub(super) struct Lifespans(Box<[(i32, u64)]>);

impl Lifespans {
    /// Of several for a type the last one holds.
    pub fn new(lifespans: &[Lifespan]) -> Lifespans {
        let sorted: std::collections::BTreeMap<i32, u64> = lifespans
            .iter()
            .map(|of| (of.event_type, u64::try_from(of.span.as_nanos()).unwrap_or(u64::MAX).max(1)))
            .collect();
        Lifespans(sorted.into_iter().collect())
    }

    /// When an event that arrives `now` expires; 0 for never.
    ///
    /// # Real-time
    /// O(log n) in the lifespans.
    pub fn end(&self, event_type: i32, now: u64) -> u64 {
        let of = |event_type| self.0.binary_search_by_key(&event_type, |(known, _)| *known).ok();
        match of(event_type).or_else(|| of(designator::ANY)) {
            Some(at) => now.saturating_add(self.0[at].1),
            None => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_has_its_own_lifespan_or_that_of_all() {
        let of = |event_type, ms| Lifespan { event_type, span: Duration::from_millis(ms) };
        let lifespans = Lifespans::new(&[of(0, 5), of(20, 1), of(20, 2), of(21, 0)]);
        assert_eq!(lifespans.end(20, 7), 2_000_007);
        assert_eq!(lifespans.end(22, 7), 5_000_007);
        assert_eq!(lifespans.end(21, 7), 8, "it expires at once, and is not taken for eternal");
        assert_eq!(Lifespans::new(&[of(20, 1)]).end(21, 7), 0);
        assert_eq!(lifespans.end(20, u64::MAX), u64::MAX);
    }
}
