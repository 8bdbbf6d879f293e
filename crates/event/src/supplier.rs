//! Publications of suppliers.

use crate::event::Header;
use crate::filter::{Compiled, Filter};
use crate::ownership::Ownership;
use std::collections::BTreeSet;

/// The most publications of a supplier.
pub const MAX_PUBLICATIONS: usize = 4096;

/// Events that a supplier will push (`RtecEventChannelAdmin::Publication`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Publication {
    /// Their type; 0 is any.
    pub event_type: i32,
    /// Their source; 0 is any.
    pub source: i32,
}

impl Publication {
    /// Events of a type from a source.
    pub fn new(event_type: i32, source: i32) -> Publication {
        Publication { event_type, source }
    }

    /// Returns true if an event may both match this publication and pass the filter. The answer may
    /// be true without such an event, if the publication leaves type or source open. It is never
    /// wrongly false.
    pub(crate) fn may_pass(&self, filter: &Filter) -> bool {
        let meet = |a: i32, b: i32| a == 0 || b == 0 || a == b;
        match filter {
            Filter::Event { event_type, source } => {
                meet(*event_type, self.event_type) && meet(*source, self.source)
            }
            Filter::Conjunction(filters) | Filter::Disjunction(filters) => {
                filters.iter().any(|filter| self.may_pass(filter))
            }
            Filter::Interval(_) | Filter::Deadline(_) => false,
            _ if self.event_type == 0 || self.source == 0 => true,
            filter => {
                let header = Header { event_type: self.event_type, source: self.source, ..Header::default() };
                Compiled::new(filter)
                    .is_ok_and(|compiled| compiled.leaves.iter().any(|leaf| leaf.test.matches(&header)))
            }
        }
    }
}

/// What a supplier says when it connects (`SupplierQOS`).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SupplierQos {
    /// What it will push, at most [`MAX_PUBLICATIONS`]. Empty: it does not say, and may push
    /// anything.
    pub publications: Vec<Publication>,
    /// It brings what comes from other channels, and sees itself to what it subscribes to there;
    /// what it pushes is not told to observers.
    pub gateway: bool,
    /// How it competes with other suppliers for the instances that it pushes; `None`: it does not.
    pub ownership: Option<Ownership>,
}

impl SupplierQos {
    /// A supplier of these.
    pub fn new(publications: impl IntoIterator<Item = Publication>) -> SupplierQos {
        SupplierQos { publications: publications.into_iter().collect(), ..SupplierQos::default() }
    }
}

/// What becomes of an event that its supplier has not declared, though it has declared others.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Undeclared {
    /// It is counted, and goes to the consumers of this channel; neighbours in a federation may not
    /// get it.
    #[default]
    Count,
    /// It is counted and reaches no consumer.
    Refuse,
}

/// A supplier's publications, as an event is held against them.
#[derive(Debug)]
pub(crate) struct Published(Box<[Publication]>);

impl Published {
    /// `None` for a supplier that may push anything.
    pub(crate) fn new(qos: &SupplierQos) -> Option<Published> {
        let sorted: BTreeSet<Publication> = qos.publications.iter().copied().collect();
        (!sorted.is_empty()).then(|| Published(sorted.into_iter().collect()))
    }

    /// Was it declared? Four searches, whatever is open in it.
    #[inline]
    pub(crate) fn has(&self, header: &Header) -> bool {
        let Header { event_type, source, .. } = *header;
        [(event_type, source), (event_type, 0), (0, source), (0, 0)]
            .into_iter()
            .any(|(event_type, source)| self.0.binary_search(&Publication { event_type, source }).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_open_in_a_publication_is_anything() {
        let header = |event_type, source| Header { event_type, source, ..Header::default() };
        let has = |publication, event_type, source| {
            Published::new(&SupplierQos::new([Publication::new(99, 99), publication]))
                .unwrap()
                .has(&header(event_type, source))
        };
        assert!(has(Publication::new(20, 1), 20, 1));
        assert!(!has(Publication::new(20, 1), 20, 2) && !has(Publication::new(20, 1), 21, 1));
        assert!(has(Publication::new(20, 0), 20, 7) && !has(Publication::new(20, 0), 21, 7));
        assert!(has(Publication::new(0, 1), 33, 1) && !has(Publication::new(0, 1), 33, 2));
        assert!(has(Publication::new(0, 0), -5, 12));
        assert!(Published::new(&SupplierQos::default()).is_none());
    }

    #[test]
    fn a_filter_that_no_publication_passes_is_known() {
        let exact = Publication::new(20, 1);
        let negated = Filter::Not(Box::new(Filter::of(20, 1)));
        for (filter, may) in [
            (Filter::of(20, 1), true),
            (Filter::of_type(20), true),
            (Filter::from_source(2), false),
            (Filter::of(21, 1), false),
            (Filter::Everything, true),
            (negated.clone(), false),
            (Filter::LogicalAnd(vec![Filter::of_type(20), Filter::from_source(1)]), true),
            (Filter::any_of([Filter::of(21, 1), Filter::of(20, 1)]), true),
            (Filter::interval(std::time::Duration::from_millis(1)), false),
        ] {
            assert_eq!(exact.may_pass(&filter), may, "{filter:?}");
        }
        assert!(Publication::new(20, 0).may_pass(&negated), "another source than 1");
        assert!(Publication::new(0, 1).may_pass(&Filter::of(20, 1)));
    }
}
