//! The interests of all members, and the routes to them.

use super::LinkId;
use super::sorted_map::SortedMap;
use crate::event::Header;
use crate::filter::{Compiled, Filter};
use crate::observer::Union;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The filters of one member's consumers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interest {
    /// The member.
    pub origin: u64,
    /// Its process: a number drawn at random when it started. Versions of two processes are not
    /// compared, so a forged or earlier version never stands above those of the process that runs.
    pub incarnation: u64,
    /// Rises with each change and with each tick of the process.
    pub version: u64,
    /// The number of links over which it came.
    pub hops: u32,
    /// Single-event filters, any of which makes an event wanted; at most [`MAX_FILTERS`]. A
    /// member that remembers them and passes them on has one copy.
    pub filters: Arc<[Filter]>,
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

/// A process of a member: the member's number and the incarnation.
type Process = (u64, u64);

/// The most processes of one member that are remembered at a time.
const MAX_PROCESSES: usize = 4;

/// The interests that were received, by process. The process with the version that rose last is the
/// member.
#[derive(Default)]
pub(super) struct Interests {
    known_origins: BTreeMap<Process, Origin>,
    /// The last versions of processes that fell silent. Copies of these that others still pass on
    /// are no sign of life.
    silent: BTreeMap<Process, u64>,
    /// The number of processes that announced themselves so far.
    born: u64,
}

struct Origin {
    /// The routes, by neighbour.
    routes: SortedMap<Peer, Route>,
    /// The newest version by any route, and its filters.
    version: u64,
    filters: Arc<[Filter]>,
    wanted: CompiledFilters,
    /// The sequence number of own events when the first of these filters arrived, until the member
    /// has received one.
    since: Option<u64>,
    /// When an interest last arrived. Until it expires the member keeps its filters, even without a
    /// route.
    at: u64,
    /// When the version last rose, and the order of the processes; the greatest is the member's.
    risen: (u64, u64),
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
        let Interest { origin, incarnation, version, hops, .. } = *interest;
        let process = (origin, incarnation);
        let current = self.process(origin);
        let is_known = self.known_origins.contains_key(&process);
        if interest.filters.len() > MAX_FILTERS
            || current.is_none() && self.known_origins.len() >= limit
            || self.silent.get(&process).is_some_and(|silent| *silent >= version)
        {
            return InterestChange::default();
        }
        self.silent.remove(&process);
        if !is_known {
            self.make_room(origin);
            self.born += 1;
        }
        let born = self.born;
        let new = || Origin {
            routes: SortedMap::default(),
            version: 0,
            filters: Arc::default(),
            wanted: CompiledFilters::default(),
            since: Some(sequence),
            at: now,
            risen: (now, born),
        };
        let known = self.known_origins.entry(process).or_insert_with(new);
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
            known.risen.0 = now;
            changed = !Arc::ptr_eq(&known.filters, &interest.filters) && known.filters != interest.filters;
            if changed {
                if known.filters.is_empty() {
                    known.since = Some(sequence);
                }
                known.wanted = CompiledFilters::new(&interest.filters);
                known.filters.clone_from(&interest.filters);
            }
        }
        InterestChange { newer, changed: changed || self.process(origin) != current }
    }

    /// Makes room for another process of a member: forgets the one with the version that has not
    /// risen for the longest time.
    fn make_room(&mut self, channel: u64) {
        let oldest =
            self.processes(channel).min_by_key(|(_, origin)| origin.risen).map(|(process, _)| *process);
        if let Some(oldest) = oldest.filter(|_| self.processes(channel).count() >= MAX_PROCESSES) {
            self.known_origins.remove(&oldest);
        }
    }

    fn processes(&self, channel: u64) -> impl Iterator<Item = (&Process, &Origin)> {
        self.known_origins.range((channel, 0)..=(channel, u64::MAX))
    }

    /// The process that is the member now.
    fn process(&self, channel: u64) -> Option<Process> {
        self.processes(channel).max_by_key(|(_, origin)| origin.risen).map(|(process, _)| *process)
    }

    fn origin(&self, channel: u64) -> Option<&Origin> {
        self.processes(channel).map(|(_, origin)| origin).max_by_key(|origin| origin.risen)
    }

    /// Removes the routes over a link.
    pub(super) fn forget(&mut self, link: LinkId) {
        self.known_origins.values_mut().for_each(|origin| origin.routes.retain(|peer, _| peer.link != link));
    }

    /// Sets the time of all received interests to `now`.
    pub(super) fn date(&mut self, now: u64) {
        for origin in self.known_origins.values_mut() {
            (origin.at, origin.risen.0) = (now, now);
            origin.routes.values_mut().for_each(|route| route.at = now);
        }
    }

    /// Removes interests that were not renewed since `since`. Keeps the versions of at most `limit`
    /// silent processes. Returns true if a process was removed.
    pub(super) fn expire(&mut self, since: u64, limit: usize) -> bool {
        let before = self.known_origins.len();
        for (process, origin) in &mut self.known_origins {
            origin.routes.retain(|_, route| route.at >= since);
            if origin.at < since {
                self.silent.insert(*process, origin.version);
            }
        }
        self.known_origins.retain(|_, origin| origin.at >= since);
        while self.silent.len() > limit {
            self.silent.pop_first();
        }
        self.known_origins.len() != before
    }

    /// The process of a member.
    pub(super) fn incarnation(&self, channel: u64) -> Option<u64> {
        self.process(channel).map(|(_, incarnation)| incarnation)
    }

    /// The known members.
    pub(super) fn channels(&self) -> impl Iterator<Item = u64> + '_ {
        let mut last = None;
        self.known_origins
            .keys()
            .map(|(channel, _)| *channel)
            .filter(move |channel| last.replace(*channel) != Some(*channel))
    }

    /// The members with a route.
    pub(super) fn reached(&self) -> impl Iterator<Item = u64> + '_ {
        let reached = |channel: &u64| self.origin(*channel).is_some_and(|origin| !origin.routes.is_empty());
        self.channels().filter(reached)
    }

    /// The neighbours that interests came from over a link.
    pub(super) fn neighbours(&self, link: LinkId) -> BTreeSet<u64> {
        let peers = self.known_origins.values().flat_map(|origin| origin.routes.keys());
        peers.filter(|peer| peer.link == link).map(|peer| peer.channel).collect()
    }

    pub(super) fn knows(&self, channel: u64) -> bool {
        self.processes(channel).next().is_some()
    }

    /// The route to a member: the shortest of those that keep up; among equals the current one.
    /// `is_up` tells which links can be used.
    pub(super) fn route(
        &self,
        channel: u64,
        used: Option<Peer>,
        is_up: impl Fn(LinkId) -> bool,
    ) -> Option<Peer> {
        self.best(self.origin(channel)?, used, is_up).map(|(peer, _)| peer)
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
        let process @ (_, incarnation) = self.process(channel)?;
        let origin = self.known_origins.get(&process)?;
        // A version over another route says nothing about the best one. But its filters must not
        // wait.
        let news =
            || origin.routes.iter().max_by_key(|(_, route)| (route.version, std::cmp::Reverse(route.hops)));
        let (peer, route) = match newest {
            true => news().map(|(peer, route)| (*peer, route))?,
            false => self.best(origin, used, is_up)?,
        };
        let (version, hops) = (route.version, route.hops.saturating_add(1));
        let filters = origin.filters.clone();
        Some((peer, Interest { origin: channel, incarnation, version, hops, filters }))
    }

    /// The smallest sequence number of own events at which one of these members subscribed without
    /// having received an event since.
    pub(super) fn since(&self, channels: &[u64]) -> Option<u64> {
        channels.iter().filter_map(|channel| self.origin(*channel)?.since).min()
    }

    /// These members have received events. A request without a number then comes from a restarted
    /// member, which had the earlier ones.
    pub(super) fn have_begun(&mut self, channels: &[u64]) {
        for channel in channels {
            let processes = self.known_origins.range_mut((*channel, 0)..=(*channel, u64::MAX));
            processes.for_each(|(_, origin)| origin.since = None);
        }
    }

    /// The numbers of all own events rise by `by`.
    pub(super) fn renumber(&mut self, by: u64) {
        self.known_origins
            .values_mut()
            .filter_map(|origin| origin.since.as_mut())
            .for_each(|since| *since += by);
    }

    /// The union of all filters, in a stable order.
    pub(super) fn union(&self) -> Vec<Filter> {
        let mut union = Union::default();
        let origins = self.channels().filter_map(|channel| self.origin(channel));
        origins.flat_map(|origin| origin.filters.iter()).for_each(|filter| union.add(filter));
        limited(union.into_filters())
    }

    /// Returns true if one of these members wants such an event.
    pub(super) fn want(&self, channels: &[u64], header: &Header) -> bool {
        let wants = |channel: &u64| self.origin(*channel).is_some_and(|origin| origin.wanted.has(header));
        channels.iter().any(wants)
    }
}

/// A member's filters, prepared for matching.
#[derive(Default)]
struct CompiledFilters {
    /// Type and source of plain filters, sorted; 0 is any.
    plain: Vec<(i32, i32)>,
    others: Vec<Compiled>,
}

impl CompiledFilters {
    fn new(filters: &[Filter]) -> CompiledFilters {
        let mut wanted = CompiledFilters::default();
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

    fn note(
        interests: &mut Interests,
        peer: u64,
        [origin, incarnation, version]: [u64; 3],
        now: u64,
    ) -> InterestChange {
        // Each process wants events of the type that is its incarnation.
        let filters = Arc::from([Filter::of_type(incarnation as i32)]);
        let interest = Interest { origin, incarnation, version, hops: 0, filters };
        interests.note(Peer { link: LinkId(1), channel: peer }, &interest, now, 0, 10)
    }

    fn wants(interests: &Interests, event_type: i32) -> bool {
        interests.want(&[1], &Header { event_type, source: 1, ..Header::default() })
    }

    #[test]
    fn members_and_routes_are_bounded() {
        let mut interests = Interests::default();
        for number in 1..=100 {
            note(&mut interests, number, [1, 20, 1], 1);
            note(&mut interests, 1, [number, 20, 1], 1);
        }
        assert_eq!((interests.known_origins.len(), interests.known_origins[&(1, 20)].routes.len()), (10, 10));
        // Interests over a known route are still accepted.
        assert!(note(&mut interests, 5, [1, 20, 2], 1).newer);
    }

    /// A federation of a thousand members has a million interests at its members, and each tick
    /// passes all of them on.
    #[test]
    fn filters_are_passed_on_without_a_copy() {
        let mut interests = Interests::default();
        let filters: Arc<[Filter]> = Arc::from([Filter::of_type(20), Filter::of_type(21)]);
        let peer = Peer { link: LinkId(1), channel: 1 };
        for version in 1..=3 {
            let interest =
                Interest { origin: 1, incarnation: 20, version, hops: 0, filters: filters.clone() };
            interests.note(peer, &interest, version, 0, 10);
        }
        let (_, passed) = interests.passed(1, false, None, |_| true).unwrap();
        assert_eq!(passed.version, 3);
        assert!(Arc::ptr_eq(&passed.filters, &filters));
    }

    /// No version outdoes another: a forger does not know the incarnation, and a restart renews it.
    #[test]
    fn the_greatest_version_of_another_process_cuts_no_member_off() {
        let mut interests = Interests::default();
        note(&mut interests, 1, [1, 20, 1], 1);
        for forged in 100..200 {
            assert!(note(&mut interests, 9, [1, forged, u64::MAX], 1).newer);
        }
        assert_eq!(interests.known_origins.len(), MAX_PROCESSES);
        // The member's next tick.
        assert!(note(&mut interests, 1, [1, 20, 2], 2).changed);
        assert!(wants(&interests, 20) && !wants(&interests, 199));
        // It restarts, and its former process and the forged ones fall silent.
        assert!(note(&mut interests, 1, [1, 21, 1], 3).changed);
        assert!(wants(&interests, 21) && !wants(&interests, 20));
        assert!(interests.expire(3, 10));
        assert!(!note(&mut interests, 2, [1, 20, 2], 3).newer, "a copy that others pass on");
        assert!(note(&mut interests, 1, [1, 21, 2], 4).newer && wants(&interests, 21));
    }
}
