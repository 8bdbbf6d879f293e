//! Pairs of type and source: the part of a filter that a key expression can say.

use isorb_event::{Filter, MAX_TERMS};
use std::collections::BTreeSet;

/// Events of a type from a source; 0 is any.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub(crate) struct Pattern {
    pub event_type: i32,
    pub source: i32,
}

impl Pattern {
    pub const EVERYTHING: Pattern = Pattern { event_type: 0, source: 0 };

    pub fn matches(self, event_type: i32, source: i32) -> bool {
        [0, event_type].contains(&self.event_type) && [0, source].contains(&self.source)
    }

    /// Both together; `None` if no event matches both.
    fn and(self, other: Pattern) -> Option<Pattern> {
        let meet = |a: i32, b: i32| match (a, b) {
            (0, one) | (one, 0) => Some(one),
            (a, b) => (a == b).then_some(a),
        };
        Some(Pattern {
            event_type: meet(self.event_type, other.event_type)?,
            source: meet(self.source, other.source)?,
        })
    }

    pub fn filter(self) -> Filter {
        match self {
            Pattern::EVERYTHING => Filter::Everything,
            Pattern { event_type, source } => Filter::of(event_type, source),
        }
    }

    fn is_exact(self) -> bool {
        self.event_type != 0 && self.source != 0
    }
}

/// The patterns that include all events of these filters. Masks and negations need everything: the
/// channel that receives the events applies them.
pub(crate) fn patterns(filters: &[Filter]) -> BTreeSet<Pattern> {
    filters.iter().flat_map(of_filter).collect()
}

fn of_filter(filter: &Filter) -> BTreeSet<Pattern> {
    match filter {
        Filter::Event { event_type, source } => {
            BTreeSet::from([Pattern { event_type: *event_type, source: *source }])
        }
        Filter::Conjunction(filters) | Filter::Disjunction(filters) => patterns(filters),
        Filter::LogicalAnd(filters) => {
            let everything = BTreeSet::from([Pattern::EVERYTHING]);
            filters.iter().map(of_filter).fold(everything, |both, other| {
                both.iter().flat_map(|a| other.iter().filter_map(|b| a.and(*b))).collect()
            })
        }
        Filter::Interval(_) | Filter::Deadline(_) => BTreeSet::new(),
        _ => BTreeSet::from([Pattern::EVERYTHING]),
    }
}

/// Without those that others include. Everything, if more than `most` remain.
pub(crate) fn reduce(all: &BTreeSet<Pattern>, most: usize) -> BTreeSet<Pattern> {
    let has = |event_type, source| all.contains(&Pattern { event_type, source });
    if has(0, 0) {
        return BTreeSet::from([Pattern::EVERYTHING]);
    }
    let needed = |p: &&Pattern| !p.is_exact() || !(has(p.event_type, 0) || has(0, p.source));
    let reduced: BTreeSet<Pattern> = all.iter().filter(needed).copied().collect();
    if reduced.len() > most { BTreeSet::from([Pattern::EVERYTHING]) } else { reduced }
}

/// The registrations of a consumer of these patterns. An event passes one of them at most, so the
/// consumer receives it once: patterns that may overlap are in the first registration.
pub(crate) fn registrations(reduced: &BTreeSet<Pattern>) -> Vec<Filter> {
    let (exact, open): (Vec<Pattern>, Vec<Pattern>) = reduced.iter().partition(|p| p.is_exact());
    if open.len() > MAX_TERMS {
        return vec![Filter::Everything];
    }
    let all: Vec<Filter> = open.iter().chain(&exact).map(|pattern| pattern.filter()).collect();
    all.chunks(MAX_TERMS).map(|some| Filter::any_of(some.iter().cloned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(pairs: &[(i32, i32)]) -> BTreeSet<Pattern> {
        pairs.iter().map(|&(event_type, source)| Pattern { event_type, source }).collect()
    }

    #[test]
    fn patterns_include_what_a_filter_takes() {
        let not = Filter::Not(Box::new(Filter::of(20, 1)));
        for (filter, expected) in [
            (Filter::of(20, 1), &[(20, 1)][..]),
            (Filter::all_of([Filter::of(20, 1), Filter::of_type(21)]), &[(20, 1), (21, 0)]),
            (Filter::interval(std::time::Duration::from_secs(1)), &[]),
            (Filter::LogicalAnd(vec![Filter::of_type(20), Filter::from_source(3)]), &[(20, 3)]),
            (Filter::LogicalAnd(vec![Filter::of_type(20), Filter::of_type(21)]), &[]),
            (Filter::LogicalAnd(vec![Filter::of_type(20), not.clone()]), &[(20, 0)]),
            (not, &[(0, 0)]),
            (Filter::Everything, &[(0, 0)]),
        ] {
            assert_eq!(patterns(std::slice::from_ref(&filter)), set(expected), "{filter:?}");
        }
    }

    #[test]
    fn patterns_that_others_include_are_left_out() {
        let all = set(&[(20, 1), (20, 2), (20, 0), (21, 7), (0, 7), (22, 1)]);
        assert_eq!(reduce(&all, 10), set(&[(20, 0), (0, 7), (22, 1)]));
        assert_eq!(reduce(&all, 2), set(&[(0, 0)]), "more than two");
        assert_eq!(reduce(&set(&[(0, 0), (1, 1)]), 9), set(&[(0, 0)]));
    }

    #[test]
    fn an_event_passes_one_registration_at_most() {
        let passes = |filters: &[Filter], event_type: i32, source: i32| {
            let term = |filter: &Filter| match filter {
                Filter::Event { event_type: t, source: s } => {
                    Pattern { event_type: *t, source: *s }.matches(event_type, source)
                }
                _ => true,
            };
            let registration = |filter: &&Filter| match filter {
                Filter::Disjunction(terms) => terms.iter().any(term),
                filter => term(filter),
            };
            filters.iter().filter(registration).count()
        };
        let mut many: Vec<(i32, i32)> = (1..100).map(|i| (100 + i, i)).collect();
        many.extend([(20, 0), (0, 5), (0, 6)]);
        let filters = registrations(&reduce(&set(&many), 1_000));
        assert!(filters.len() > 2 && filters.iter().all(|filter| filter.check().is_ok()));
        for (event_type, source) in [(20, 5), (20, 9), (105, 5), (107, 7), (199, 99)] {
            assert_eq!(passes(&filters, event_type, source), 1, "{event_type} {source}");
        }
        assert_eq!(passes(&filters, 107, 8), 0);
        let open: Vec<(i32, i32)> = (1..60).map(|source| (0, source)).collect();
        assert_eq!(registrations(&reduce(&set(&open), 1_000)), [Filter::Everything]);
    }
}
