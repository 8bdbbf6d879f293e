//! What other sites want, and at which priority of zenoh.

use crate::keys::Interest;
use crate::pattern::Pattern;
use isorb_rt::priority::Priority;
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// zenoh's priorities for data: 1 (the most urgent) to 7.
pub(crate) const PRIORITIES: u8 = 7;

/// The priority of zenoh for a CORBA priority: seven equal parts.
pub(crate) fn zenoh_priority(priority: Priority) -> u8 {
    let part = i32::from(priority.get()) * i32::from(PRIORITIES) / (i32::from(i16::MAX) + 1);
    PRIORITIES - u8::try_from(part).unwrap_or(0).min(PRIORITIES - 1)
}

/// The interests of the other sites.
#[derive(Debug, Default)]
pub(crate) struct Interests(BTreeMap<(String, u64), BTreeSet<(u8, Pattern)>>);

/// Why an interest is ignored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TooMany;

impl Interests {
    /// Returns true if this changed anything.
    ///
    /// # Errors
    /// [`TooMany`] sites, or interests of this site.
    pub fn add(&mut self, interest: Interest, most: usize) -> Result<bool, TooMany> {
        let site = (interest.site, interest.incarnation);
        if !self.0.contains_key(&site) && self.0.len() >= most {
            return Err(TooMany);
        }
        let interests = self.0.entry(site).or_default();
        let entry = (interest.priority, interest.pattern);
        if interests.len() >= most * usize::from(PRIORITIES) && !interests.contains(&entry) {
            return Err(TooMany);
        }
        Ok(interests.insert(entry))
    }

    /// Returns true if this changed anything.
    pub fn remove(&mut self, interest: Interest) -> bool {
        let site = (interest.site, interest.incarnation);
        let Some(interests) = self.0.get_mut(&site) else { return false };
        let removed = interests.remove(&(interest.priority, interest.pattern));
        if interests.is_empty() {
            self.0.remove(&site);
        }
        removed
    }

    /// Whether this interest is known.
    pub fn contains(&self, interest: &Interest) -> bool {
        let site = (interest.site.clone(), interest.incarnation);
        self.0.get(&site).is_some_and(|all| all.contains(&(interest.priority, interest.pattern)))
    }

    /// Whether a gateway with another incarnation has this name.
    pub fn has_site(&self, name: &str) -> bool {
        self.0.keys().any(|(site, _)| site == name)
    }

    /// The patterns by priority, with those that are `kept` for the history.
    pub fn table(&self, kept: &BTreeSet<Pattern>) -> Table {
        let mut table = Table::default();
        let kept = kept.iter().map(|pattern| (PRIORITIES, *pattern));
        for (priority, pattern) in self.0.values().flatten().copied().chain(kept) {
            if let Some(patterns) = table.0.get_mut(usize::from(priority) - 1) {
                patterns.insert(pattern);
            }
        }
        table
    }
}

/// The patterns that other sites want, by zenoh's priority.
#[derive(Debug, Default)]
pub(crate) struct Table([HashSet<Pattern>; PRIORITIES as usize]);

impl Table {
    /// The most urgent priority at which an event is wanted; `None` if it is not.
    ///
    /// # Real-time
    /// At most 28 searches in hash tables. Does not allocate.
    pub fn priority(&self, event_type: i32, source: i32) -> Option<u8> {
        let pattern = |event_type, source| Pattern { event_type, source };
        let forms = [pattern(event_type, source), pattern(event_type, 0), pattern(0, source), pattern(0, 0)];
        let wanted = |patterns: &HashSet<Pattern>| {
            !patterns.is_empty() && forms.iter().any(|form| patterns.contains(form))
        };
        self.0.iter().zip(1..).find(|(patterns, _)| wanted(patterns)).map(|(_, priority)| priority)
    }

    pub fn all(&self) -> BTreeSet<Pattern> {
        self.0.iter().flatten().copied().collect()
    }

    /// The priorities at which events are wanted.
    pub fn priorities(&self) -> impl Iterator<Item = u8> + '_ {
        self.0.iter().zip(1..).filter(|(patterns, _)| !patterns.is_empty()).map(|(_, priority)| priority)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn want(site: &str, priority: u8, event_type: i32, source: i32) -> Interest {
        Interest { site: site.into(), incarnation: 1, priority, pattern: Pattern { event_type, source } }
    }

    #[test]
    fn priorities_keep_their_order() {
        let of = |priority| zenoh_priority(Priority::new(priority).unwrap());
        assert_eq!([0, 4_681, 4_682, 8_192, 16_384, 24_576, 32_767].map(of), [7, 7, 6, 6, 4, 2, 1]);
        assert!((0..32_767).all(|priority| of(priority) >= of(priority + 1)));
    }

    #[test]
    fn an_event_goes_out_once_at_the_most_urgent_priority() {
        let mut wants = Interests::default();
        for want in [want("a", 5, 20, 0), want("b", 2, 0, 1), want("b", 7, 30, 0)] {
            assert_eq!(wants.add(want.clone(), 10), Ok(true));
            assert_eq!(wants.add(want, 10), Ok(false));
        }
        let kept = BTreeSet::from([Pattern { event_type: 40, source: 4 }]);
        let table = wants.table(&kept);
        let found = [(20, 1), (20, 2), (21, 1), (30, 9), (40, 4), (40, 5)].map(|(t, s)| table.priority(t, s));
        assert_eq!(found, [Some(2), Some(5), Some(2), Some(7), Some(7), None]);
        assert_eq!(table.priorities().collect::<Vec<_>>(), [2, 5, 7]);
        assert!(wants.remove(want("b", 2, 0, 1)) && !wants.remove(want("b", 2, 0, 1)));
        assert_eq!(wants.table(&kept).priority(20, 1), Some(5));
    }

    #[test]
    fn a_site_that_wants_too_much_is_bounded() {
        let mut wants = Interests::default();
        let many: Vec<_> = (1..100).map(|event_type| wants.add(want("a", 1, event_type, 0), 2)).collect();
        assert_eq!(many.iter().filter(|added| added.is_ok()).count(), 14);
        assert_eq!(wants.add(want("b", 1, 20, 0), 2), Ok(true));
        assert_eq!(wants.add(want("c", 1, 20, 0), 2), Err(TooMany));
        assert!(wants.has_site("b") && !wants.has_site("c"));
    }
}
