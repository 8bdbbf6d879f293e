//! The interests of all members, and the routes to them.

use super::LinkId;
use crate::event::Header;
use crate::filter::{Compiled, Filter};
use crate::observer::Union;
use std::collections::BTreeMap;

/// The filters of one member's consumers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interest {
    /// The member.
    pub origin: u64,
    /// Rises with each change and with each tick of the member.
    pub version: u64,
    /// The number of links over which it came.
    pub hops: u32,
    /// Single-event filters, any of which makes an event wanted; at most [`MAX_FILTERS`].
    pub filters: Vec<Filter>,
}

/// The most filters of an interest. A member with more is sent everything.
pub const MAX_FILTERS: usize = 4096;

/// How many versions a route may lag behind another and still be used. Versions come with each
/// tick, so a route that is cut is abandoned after three ticks.
const LAG: u64 = 2;

/// These filters, or everything if there are too many.
pub(super) fn limited(filters: Vec<Filter>) -> Vec<Filter> {
    if filters.len() > MAX_FILTERS { vec![Filter::Everything] } else { filters }
}

/// A neighbour: a member at the other end of a link. A multicast link has many.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Peer {
    pub link: LinkId,
    pub channel: u64,
}

/// The interests that were received, by member.
#[derive(Default)]
pub(super) struct Interests {
    heard: BTreeMap<u64, Origin>,
    /// The last versions of members that fell silent. Copies of these that others still pass on are
    /// no sign of life.
    silent: BTreeMap<u64, u64>,
}

struct Origin {
    /// The routes, by neighbour.
    routes: BTreeMap<Peer, Route>,
    /// The newest version by any route, and its filters.
    version: u64,
    filters: Vec<Filter>,
    wanted: Wanted,
    /// The sequence number of own events when the first of these filters arrived, until the member
    /// has received one.
    since: Option<u64>,
    /// When an interest last arrived. Until it expires the member keeps its filters, even without a
    /// route.
    at: u64,
}

struct Route {
    version: u64,
    hops: u32,
    at: u64,
}

/// The effect of a received interest.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct InterestChange {
    /// It must be passed on.
    pub newer: bool,
    /// The wanted filters changed.
    pub changed: bool,
}

impl Interests {
    /// Records an interest that arrived at `now`, when own events had reached `sequence`. At most
    /// `limit` members are known, each by at most `limit` routes.
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
        // The same version over a shorter route is news too. Otherwise a member that received it
        // over the longer route first would keep others to that.
        let newer = known.routes.values().all(|route| rank(version, hops) > rank(route.version, route.hops));
        let better = match known.routes.get(&peer) {
            Some(route) => rank(version, hops) > rank(route.version, route.hops),
            // A forger with ever new numbers gets no more routes.
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

    /// Removes the routes over a link.
    pub(super) fn forget(&mut self, link: LinkId) {
        self.heard.values_mut().for_each(|origin| origin.routes.retain(|peer, _| peer.link != link));
    }

    /// Sets the time of all received interests to `now`.
    pub(super) fn date(&mut self, now: u64) {
        for origin in self.heard.values_mut() {
            origin.at = now;
            origin.routes.values_mut().for_each(|route| route.at = now);
        }
    }

    /// Removes interests that were not renewed since `since`. Keeps the versions of at most `limit`
    /// silent members. Returns true if a member was removed.
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

    /// The known members.
    pub(super) fn channels(&self) -> impl Iterator<Item = u64> + '_ {
        self.heard.keys().copied()
    }

    /// The number of members with a route.
    pub(super) fn reached(&self) -> usize {
        self.heard.values().filter(|origin| !origin.routes.is_empty()).count()
    }

    pub(super) fn knows(&self, channel: u64) -> bool {
        self.heard.contains_key(&channel)
    }

    /// The route to a member: the shortest of those that keep up; among equals the current one.
    /// `is_up` tells which links can be used.
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
        // Each version comes by all routes, and not always by the shortest first.
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

    /// The interest to pass on for a member and the neighbour it came from: by the best route, or
    /// the `newest` by any.
    pub(super) fn passed(
        &self,
        channel: u64,
        newest: bool,
        used: Option<Peer>,
        is_up: impl Fn(LinkId) -> bool,
    ) -> Option<(Peer, Interest)> {
        let origin = self.heard.get(&channel)?;
        // A version over another route says nothing about the best one. But its filters must not
        // wait.
        let news =
            || origin.routes.iter().max_by_key(|(_, route)| (route.version, std::cmp::Reverse(route.hops)));
        let (peer, route) = match newest {
            true => news().map(|(peer, route)| (*peer, route))?,
            false => self.best(origin, used, is_up)?,
        };
        let (version, hops) = (route.version, route.hops.saturating_add(1));
        Some((peer, Interest { origin: channel, version, hops, filters: origin.filters.clone() }))
    }

    /// The smallest sequence number of own events at which one of these members subscribed without
    /// having received an event since.
    pub(super) fn since(&self, channels: &[u64]) -> Option<u64> {
        channels.iter().filter_map(|channel| self.heard.get(channel)?.since).min()
    }

    /// These members have received events. A request without a number then comes from a restarted
    /// member, which had the earlier ones.
    pub(super) fn have_begun(&mut self, channels: &[u64]) {
        for channel in channels {
            if let Some(origin) = self.heard.get_mut(channel) {
                origin.since = None;
            }
        }
    }

    /// The union of all filters, in a stable order.
    pub(super) fn union(&self) -> Vec<Filter> {
        let mut union = Union::default();
        self.heard.values().flat_map(|origin| &origin.filters).for_each(|filter| union.add(filter));
        limited(union.into_filters())
    }

    /// Returns true if one of these members wants such an event.
    pub(super) fn want(&self, channels: &[u64], header: &Header) -> bool {
        let wants = |channel| self.heard.get(channel).is_some_and(|origin| origin.wanted.has(header));
        channels.iter().any(wants)
    }
}

/// A member's filters, prepared for matching.
#[derive(Default)]
struct Wanted {
    /// Type and source of plain filters, sorted; 0 is any.
    plain: Vec<(i32, i32)>,
    others: Vec<Compiled>,
}

impl Wanted {
    fn new(filters: &[Filter]) -> Wanted {
        let mut wanted = Wanted::default();
        for filter in filters {
            match filter {
                Filter::Event { event_type, source } => wanted.plain.push((*event_type, *source)),
                // A malformed filter matches nothing.
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
    fn members_and_routes_are_bounded() {
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
        // Interests over a known route are still accepted.
        assert!(note(&mut interests, 5, 1, 2).newer);
    }
}
