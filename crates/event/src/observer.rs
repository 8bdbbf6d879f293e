//! Those who want to know what consumers want.

use crate::filter::Filter;

/// Told what the channel's consumers want, whenever that changes (`RtecEventChannelAdmin::Observer`): gateways subscribe to it elsewhere.
pub trait Observer: Send + Sync {
    /// The union of what consumers want that are not gateways, with conjunctions taken apart, since their events may come from
    /// several channels, and without time-outs. Called one after the other, with rising `version`, on the thread of whoever made
    /// a change; an observer may make changes itself, and is told of them afterwards.
    fn wanted(&self, version: u64, wanted: &[Filter]);
}

/// A filter's questions about single events: of which it is made, if time-outs are left out.
pub(crate) fn parts(filter: &Filter, into: &mut Vec<Filter>) {
    match filter {
        Filter::Conjunction(filters) | Filter::Disjunction(filters) => {
            filters.iter().for_each(|filter| parts(filter, into));
        }
        Filter::Interval(_) | Filter::Deadline(_) => {}
        filter if into.contains(filter) => {}
        filter => into.push(filter.clone()),
    }
}
