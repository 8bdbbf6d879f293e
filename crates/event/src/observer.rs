//! Those who want to know what consumers want.

use crate::filter::Filter;
use crate::supplier::Publication;
use isorb_rt::priority::Priority;
use std::collections::HashSet;

/// Told what the channel's consumers want, whenever that changes (`RtecEventChannelAdmin::Observer`): gateways subscribe to it elsewhere.
pub trait Observer: Send + Sync {
    /// The union of what consumers want that are not gateways, with conjunctions taken apart, since their events may come from
    /// several channels, and without time-outs. Called one after the other, with rising `version`, on the thread of whoever made
    /// a change; an observer may make changes itself, and is told of them afterwards.
    fn wanted(&self, version: u64, wanted: &[Filter]);

    /// As [`wanted`](Self::wanted), for each priority at which there are consumers by itself, in ascending order. Called after it.
    fn wanted_at(&self, _version: u64, _wanted: &[(Priority, Vec<Filter>)]) {}

    /// The union of what suppliers declare that are not gateways; `None` while there is one that does not say what it pushes, or none at
    /// all. Called as [`wanted`](Self::wanted) is.
    fn published(&self, _version: u64, _published: Option<&[Publication]>) {}
}

/// What filters ask of single events, each question once, in order; time-outs are left out.
#[derive(Default)]
pub(crate) struct Union<'a> {
    seen: HashSet<&'a Filter>,
    all: Vec<&'a Filter>,
}

impl<'a> Union<'a> {
    pub(crate) fn add(&mut self, filter: &'a Filter) {
        match filter {
            Filter::Conjunction(filters) | Filter::Disjunction(filters) => {
                filters.iter().for_each(|filter| self.add(filter));
            }
            Filter::Interval(_) | Filter::Deadline(_) => {}
            filter => {
                if self.seen.insert(filter) {
                    self.all.push(filter);
                }
            }
        }
    }

    pub(crate) fn into_filters(self) -> Vec<Filter> {
        self.all.into_iter().cloned().collect()
    }
}
