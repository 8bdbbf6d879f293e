//! What is wanted where, and which neighbour is the route there.

use super::LinkId;
use crate::event::Header;
use crate::filter::{Compiled, Filter};
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

/// By so many versions a route may lag behind another and still be one. Versions come with each tick, so a route that is cut somewhere is left
/// after three of them at the latest.
const LAG: u64 = 2;

/// These filters, or everything if they are too many.
pub(super) fn limited(filters: Vec<Filter>) -> Vec<Filter> {
    if filters.len() > MAX_FILTERS { vec![Filter::Everything] } else { filters }
}

/// A neighbour: a channel at the other end of a link. A link that is a multicast group has many.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Peer {
    pub link: LinkId,
    pub channel: u64,
}

/// All that was heard, by channel.
#[derive(Default)]
pub(super) struct Interests {
    heard: BTreeMap<u64, Origin>,
    /// The versions of channels that fell silent: what others still pass on of them is no sign of life.
    silent: BTreeMap<u64, u64>,
}

struct Origin {
    /// By the neighbours that told.
    routes: BTreeMap<Peer, Route>,
    /// The newest version, whichever route it came, and what it says is wanted.
    version: u64,
    filters: Vec<Filter>,
    wanted: Wanted,
    /// How far this channel's own events were when the first of those was wanted, until that is known there.
    since: Option<u64>,
    /// When it was last heard of. Until that is long ago it is believed to want what it wanted, though there may be no route to it now.
    at: u64,
}

struct Route {
    version: u64,
    hops: u32,
    at: u64,
}

/// What came of hearing an interest.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct InterestChange {
    /// It is to be passed on.
    pub newer: bool,
    /// Something else is wanted than before.
    pub changed: bool,
}

impl Interests {
    /// Notes what was heard at `now`, when this channel's own events had come to `sequence`; `limit` channels are known at
    /// most, by as many routes each.
    pub(super) fn note(
        &mut self,
        peer: Peer,
        interest: &Interest,
        now: u64,
        sequence: u64,
        limit: usize,
    ) -> InterestChange {
        let Interest { origin, version, hops, .. } = *interest;
        if interest.filters.len() > MAX_FILTERS
            || !self.heard.contains_key(&origin) && self.heard.len() >= limit
            || self.silent.get(&origin).is_some_and(|silent| *silent >= version)
        {
            return InterestChange::default();
        }
        self.silent.remove(&origin);
        let new = || Origin {
            routes: BTreeMap::new(),
            version: 0,
            filters: Vec::new(),
            wanted: Wanted::default(),
            since: Some(sequence),
            at: now,
        };
        let known = self.heard.entry(origin).or_insert_with(new);
        let rank = |version: u64, hops: u32| (version, std::cmp::Reverse(hops));
        // The same by a shorter route is news, too: else who heard by the longer one first would keep others to it.
        let newer = known.routes.values().all(|route| rank(version, hops) > rank(route.version, route.hops));
        let better = match known.routes.get(&peer) {
            Some(route) => rank(version, hops) > rank(route.version, route.hops),
            // Who calls himself by ever new numbers is no route beyond so many.
            None => known.routes.len() < limit,
        };
        if better {
            known.routes.insert(peer, Route { version, hops, at: now });
            known.at = now;
        }
        let mut changed = false;
        if version > known.version {
            known.version = version;
            changed = known.filters != interest.filters;
            if changed {
                if known.filters.is_empty() {
                    known.since = Some(sequence);
                }
                known.wanted = Wanted::new(&interest.filters);
                known.filters.clone_from(&interest.filters);
            }
        }
        InterestChange { newer, changed }
    }

    /// Forgets the routes over a link.
    pub(super) fn forget(&mut self, link: LinkId) {
        self.heard.values_mut().for_each(|origin| origin.routes.retain(|peer, _| peer.link != link));
    }

    /// Takes all that was heard for heard at `now`.
    pub(super) fn date(&mut self, now: u64) {
        for origin in self.heard.values_mut() {
            origin.at = now;
            origin.routes.values_mut().for_each(|route| route.at = now);
        }
    }

    /// Forgets what was not renewed since `since`. Of at most `limit` channels the version is kept. Says whether any channel is forgotten.
    pub(super) fn expire(&mut self, since: u64, limit: usize) -> bool {
        let before = self.heard.len();
        for (id, origin) in &mut self.heard {
            origin.routes.retain(|_, route| route.at >= since);
            if origin.at < since {
                self.silent.insert(*id, origin.version);
            }
        }
        self.heard.retain(|_, origin| origin.at >= since);
        while self.silent.len() > limit {
            self.silent.pop_first();
        }
        self.heard.len() != before
    }

    /// The channels that are known.
    pub(super) fn channels(&self) -> impl Iterator<Item = u64> + '_ {
        self.heard.keys().copied()
    }

    /// How many there is a route to.
    pub(super) fn reached(&self) -> usize {
        self.heard.values().filter(|origin| !origin.routes.is_empty()).count()
    }

    pub(super) fn knows(&self, channel: u64) -> bool {
        self.heard.contains_key(&channel)
    }

    /// The route to a channel: the shortest of those that keep up, and of equals the one that is used now. `is_up` says which links can be used.
    pub(super) fn route(
        &self,
        channel: u64,
        used: Option<Peer>,
        is_up: impl Fn(LinkId) -> bool,
    ) -> Option<Peer> {
        self.best(self.heard.get(&channel)?, used, is_up).map(|(peer, _)| peer)
    }

    fn best<'a>(
        &self,
        origin: &'a Origin,
        used: Option<Peer>,
        is_up: impl Fn(LinkId) -> bool,
    ) -> Option<(Peer, &'a Route)> {
        let newest = origin.routes.values().map(|route| route.version).max()?;
        // Each version comes by all routes, and by the shortest not always first.
        let keeps_up = |route: &Route| route.version.saturating_add(LAG) >= newest;
        let rank = |peer: Peer, route: &Route| {
            (!is_up(peer.link), !keeps_up(route), route.hops, used != Some(peer), peer)
        };
        origin
            .routes
            .iter()
            .min_by_key(|(peer, route)| rank(**peer, route))
            .map(|(peer, route)| (*peer, route))
    }

    /// What is passed on of a channel, and by which neighbour it came: as the route to it has it, or the `newest` that came by any.
    pub(super) fn passed(
        &self,
        channel: u64,
        newest: bool,
        used: Option<Peer>,
        is_up: impl Fn(LinkId) -> bool,
    ) -> Option<(Peer, Interest)> {
        let origin = self.heard.get(&channel)?;
        // A version that came by another route says nothing of the best one; but what it says is wanted must not wait for that.
        let news =
            || origin.routes.iter().max_by_key(|(_, route)| (route.version, std::cmp::Reverse(route.hops)));
        let (peer, route) = match newest {
            true => news().map(|(peer, route)| (*peer, route))?,
            false => self.best(origin, used, is_up)?,
        };
        let (version, hops) = (route.version, route.hops.saturating_add(1));
        Some((peer, Interest { origin: channel, version, hops, filters: origin.filters.clone() }))
    }

    /// How far this channel's own events were when the first of these channels wanted any, of those that have not been sent any yet as far as is
    /// known.
    pub(super) fn since(&self, channels: &[u64]) -> Option<u64> {
        channels.iter().filter_map(|channel| self.heard.get(channel)?.since).min()
    }

    /// These channels have been sent something: who asks without a number again was started anew, and has had what was before.
    pub(super) fn have_begun(&mut self, channels: &[u64]) {
        for channel in channels {
            if let Some(origin) = self.heard.get_mut(channel) {
                origin.since = None;
            }
        }
    }

    /// The union of what is wanted anywhere, in a stable order.
    pub(super) fn union(&self) -> Vec<Filter> {
        let mut union = Union::default();
        self.heard.values().flat_map(|origin| &origin.filters).for_each(|filter| union.add(filter));
        limited(union.into_filters())
    }

    /// Does any of these channels want such an event?
    pub(super) fn want(&self, channels: &[u64], header: &Header) -> bool {
        let wants = |channel| self.heard.get(channel).is_some_and(|origin| origin.wanted.has(header));
        channels.iter().any(wants)
    }
}

/// What a channel wants, as events are held against it.
#[derive(Default)]
struct Wanted {
    /// Type and source of plain questions, in order; 0 is any.
    plain: Vec<(i32, i32)>,
    others: Vec<Compiled>,
}

impl Wanted {
    fn new(filters: &[Filter]) -> Wanted {
        let mut wanted = Wanted::default();
        for filter in filters {
            match filter {
                Filter::Event { event_type, source } => wanted.plain.push((*event_type, *source)),
                // One that is malformed asks for nothing.
                filter => wanted.others.extend(Compiled::new(filter)),
            }
        }
        wanted.plain.sort_unstable();
        wanted
    }

    fn has(&self, header: &Header) -> bool {
        let Header { event_type, source, .. } = *header;
        [(event_type, source), (event_type, 0), (0, source), (0, 0)]
            .iter()
            .any(|question| self.plain.binary_search(question).is_ok())
            || self.others.iter().any(|other| other.leaves.iter().any(|leaf| leaf.test.matches(header)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_and_ways_to_each_are_so_many_at_most() {
        let mut interests = Interests::default();
        let note = |interests: &mut Interests, channel, origin, version| {
            let interest = Interest { origin, version, hops: 0, filters: Vec::new() };
            interests.note(Peer { link: LinkId(1), channel }, &interest, 1, 0, 10)
        };
        for number in 1..=100 {
            note(&mut interests, number, 1, 1);
            note(&mut interests, 1, number, 1);
        }
        assert_eq!((interests.heard.len(), interests.heard[&1].routes.len()), (10, 10));
        // Who is one goes on to be heard.
        assert!(note(&mut interests, 5, 1, 2).newer);
    }
}
