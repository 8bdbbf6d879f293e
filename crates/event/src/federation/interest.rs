//! What is wanted where.

use super::LinkId;
use crate::filter::Filter;
use crate::observer::Union;
use std::collections::BTreeMap;

/// What the consumers of one channel want.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interest {
    /// That channel.
    pub origin: u64,
    /// Rises with each change, and each time the channel says that it is still there.
    pub version: u64,
    /// Over how many links it has come.
    pub hops: u32,
    /// Questions about single events, any of which makes an event wanted; at most [`MAX_FILTERS`].
    pub filters: Vec<Filter>,
}

/// The most filters of an interest. Who wants more is sent everything, which is more than wanted but never less.
pub const MAX_FILTERS: usize = 4096;

/// By so many versions a way may lag behind another and still be one. Versions come with each tick, so a way that is cut somewhere is left
/// after two of them at the latest.
const LAG: u64 = 1;

/// These filters, or everything if they are too many.
pub(super) fn limited(filters: Vec<Filter>) -> Vec<Filter> {
    if filters.len() > MAX_FILTERS { vec![Filter::Everything] } else { filters }
}

/// All that was heard, by channel and by the link over which it came.
#[derive(Default)]
pub(super) struct Interests {
    heard: BTreeMap<u64, BTreeMap<LinkId, Heard>>,
    /// The versions of channels that fell silent: what others still pass on of them is no sign of life.
    silent: BTreeMap<u64, u64>,
}

struct Heard {
    interest: Interest,
    at: u64,
}

impl Interests {
    /// Notes what was heard. Says whether it is news, to be passed on; `limit` channels are known at most.
    pub(super) fn note(&mut self, link: LinkId, interest: Interest, now: u64, limit: usize) -> bool {
        if interest.filters.len() > MAX_FILTERS
            || !self.heard.contains_key(&interest.origin) && self.heard.len() >= limit
            || self.silent.get(&interest.origin).is_some_and(|version| *version >= interest.version)
        {
            return false;
        }
        self.silent.remove(&interest.origin);
        let ways = self.heard.entry(interest.origin).or_default();
        let rank = |interest: &Interest| (interest.version, std::cmp::Reverse(interest.hops));
        // The same by a shorter way is news, too: else who heard by the longer one first would keep others to it.
        let news = ways.values().all(|heard| rank(&interest) > rank(&heard.interest));
        let better = ways.get(&link).is_none_or(|known| rank(&interest) > rank(&known.interest));
        if better {
            ways.insert(link, Heard { interest, at: now });
        }
        news
    }

    /// Forgets what came over a link.
    pub(super) fn forget(&mut self, link: LinkId) {
        self.heard.values_mut().for_each(|ways| drop(ways.remove(&link)));
        self.heard.retain(|_, ways| !ways.is_empty());
    }

    /// Takes all that was heard for heard at `now`.
    pub(super) fn date(&mut self, now: u64) {
        self.heard.values_mut().flat_map(BTreeMap::values_mut).for_each(|heard| heard.at = now);
    }

    /// Forgets what was not renewed since `since`. Of at most `limit` channels the version is kept.
    pub(super) fn expire(&mut self, since: u64, limit: usize) {
        for (origin, ways) in &mut self.heard {
            let newest = ways.values().map(|heard| heard.interest.version).max();
            ways.retain(|_, heard| heard.at >= since);
            if let (true, Some(newest)) = (ways.is_empty(), newest) {
                self.silent.insert(*origin, newest);
            }
        }
        self.heard.retain(|_, ways| !ways.is_empty());
        while self.silent.len() > limit {
            self.silent.pop_first();
        }
    }

    /// The way to each channel, the shortest of those that keep up: its link, and what was heard by it. `is_up` says which links can be used.
    pub(super) fn ways<'a>(
        &'a self,
        is_up: impl Fn(LinkId) -> bool + 'a,
    ) -> impl Iterator<Item = (LinkId, &'a Interest)> {
        self.heard.values().filter_map(move |ways| {
            let newest = newest(ways)?.version;
            // Each version comes by all ways, and by the shortest not always first. To change the way for that would send events by both
            // in turn, and they would overtake each other.
            let keeps_up = |heard: &Heard| heard.interest.version.saturating_add(LAG) >= newest;
            let rank =
                |link: LinkId, heard: &Heard| (!is_up(link), !keeps_up(heard), heard.interest.hops, link);
            let (link, heard) = ways.iter().min_by_key(|(link, heard)| rank(**link, heard))?;
            Some((*link, &heard.interest))
        })
    }

    /// The union of what is wanted beyond a link, in a stable order.
    pub(super) fn beyond(&self, link: LinkId, is_up: impl Fn(LinkId) -> bool) -> Vec<Filter> {
        let mut union = Union::default();
        for (_, interest) in self.ways(is_up).filter(|(way, _)| *way == link) {
            let newest = self.heard.get(&interest.origin).and_then(newest);
            newest.unwrap_or(interest).filters.iter().for_each(|filter| union.add(filter));
        }
        limited(union.into_filters())
    }
}

/// What a channel has said last, whichever way it came.
fn newest(ways: &BTreeMap<LinkId, Heard>) -> Option<&Interest> {
    ways.values().map(|heard| &heard.interest).max_by_key(|interest| interest.version)
}
