//! Requests for streams: to neighbours, and from neighbours.

use super::interest::Peer;
use super::protocol::{MAX_CHANNELS, Protocol};
use super::streams::{Child, RequestState, Subscription, within};
use super::{LinkId, StreamPosition, StreamRequest};

impl Protocol {
    /// Handles a neighbour's request for a source's events, or its withdrawal.
    pub(super) fn receive_request(&mut self, peer: Peer, pull: &StreamRequest) {
        let known = pull.source == self.id || self.interests.knows(pull.source);
        let wanted = pull.parent == self.id && known && !pull.consumers.is_empty();
        let (id, at) = (self.id, self.now.unwrap_or(0));
        if pull.source == id
            && let Some(after) = pull.after
        {
            self.interests.have_begun(&pull.consumers);
            self.number_above(after);
        }
        let Some(link_state) = self.links.get_mut(&peer.link) else {
            return;
        };
        if !wanted || pull.consumers.len() > MAX_CHANNELS {
            let Some(stream) = link_state.streams.get_mut(&pull.source) else {
                return;
            };
            stream.children.remove(&peer.channel);
            if stream.children.is_empty() {
                link_state.streams.remove(&pull.source);
                link_state.fresh.remove(&pull.source);
            }
            return self.review(pull.source);
        }
        let mut consumers = pull.consumers.clone();
        // Events are not sent back to their source, and this member requests its own.
        consumers.retain(|consumer| *consumer != pull.source && *consumer != id);
        consumers.sort_unstable();
        consumers.dedup();
        let stream = link_state.streams.entry(pull.source).or_default();
        if stream.children.len() >= MAX_CHANNELS && !stream.children.contains_key(&peer.channel) {
            return;
        }
        let new = Child {
            number: pull.number,
            after: None,
            consumers: Vec::new(),
            state: RequestState::Pending,
            before: None,
            at,
        };
        let child = stream.children.or_insert(peer.channel, new);
        if child.number != pull.number {
            let granted = child.state == RequestState::Granted;
            child.before = if granted { Some(child.number) } else { child.before };
        }
        if child.number != pull.number || child.state == RequestState::Lapsed {
            (child.number, child.state) = (pull.number, RequestState::Pending);
        }
        if child.state == RequestState::Pending {
            child.after = pull.after;
        }
        (child.consumers, child.at) = (consumers, at);
        // From the position it learns whether it missed the latest events.
        link_state.pending.positions.insert(pull.source);
        self.review(pull.source);
    }

    /// Handles a neighbour's position.
    pub(super) fn receive_position(&mut self, peer: Peer, head: &StreamPosition) {
        let id = self.id;
        let incarnation = self.interests.incarnation(head.source);
        let Some(up) = self.upstreams.get_mut(&head.source) else {
            return;
        };
        let answers = |subscription: &Subscription| {
            subscription.peer == peer && head.granted.contains(&(id, subscription.number))
        };
        if let Some(mut subscription) = up.next.take_if(|next| answers(next)) {
            subscription.epoch = Some(head.epoch);
            // If a waiting neighbour claims to have more than exists, all events are new.
            let had = subscription.after.filter(|after| *after <= head.position.max(up.newest));
            subscription.position = had.unwrap_or(head.position);
            (up.position, up.gap, up.requested, up.behind) =
                (Some(subscription.position), false, false, None);
            let is_new_process = up.incarnation != incarnation;
            up.incarnation = incarnation;
            if subscription.after.is_none() {
                // The clock of another process of the source may be earlier.
                if is_new_process && head.position < up.newest {
                    (up.newest, up.delivered) = (head.position, head.position);
                }
                up.newest = up.newest.max(head.position);
                // Until the source learns that this member has begun, it begins with the same event
                // again.
                if let Some(link_state) = self.links.get_mut(&peer.link) {
                    link_state.pending.requests.insert(head.source);
                }
            }
            let left = up.current.replace(subscription).map(|old| old.peer.link);
            // The former neighbour need not send any more.
            if let Some(link_state) =
                left.filter(|link| *link != peer.link).and_then(|link| self.links.get_mut(&link))
            {
                link_state.pending.requests.insert(head.source);
            }
            return self.review(head.source);
        }
        if let Some(current) = up.current.as_mut().filter(|current| answers(current)) {
            current.epoch = Some(head.epoch);
            up.incarnation = incarnation;
            let behind = (head.position > current.position).then_some(current.position);
            if std::mem::replace(&mut up.behind, behind) == behind && behind.is_some() {
                up.gap = true;
                self.review(head.source);
            }
        }
    }

    pub(super) fn review_all(&mut self) {
        let mut all: Vec<u64> = self.interests.channels().collect();
        all.extend(self.upstreams.keys().filter(|source| !self.interests.knows(**source)));
        all.push(self.id);
        all.into_iter().for_each(|source| self.review(source));
    }

    /// Requests a source's events if the current request is not sufficient, and grants pending
    /// requests.
    pub(super) fn review(&mut self, source: u64) {
        if source == self.id {
            return self.grant_own();
        }
        let desired = self.desired(source);
        if desired.is_empty() {
            return self.stop(source);
        }
        let Some(route) = self.interests.route(source, self.used(source), |link| self.is_up(link)) else {
            // There is no route now. When there is one again, the stream continues here.
            if let Some(up) = self.upstreams.get_mut(&source) {
                (up.current, up.next) = (None, None);
            }
            return;
        };
        let waiting = self.waiting(source);
        let up = self.upstreams.entry(source).or_default();
        let target = up.next.as_ref().or(up.current.as_ref());
        let enough = target.is_some_and(|target| {
            let begins = if target.epoch.is_some() { Some(target.position) } else { target.after };
            // A neighbour with a position is sent what follows it, even if others are further.
            let early = |after: &Option<u64>| {
                after.is_none() || begins.is_some_and(|begins| begins <= after.unwrap_or(0))
            };
            target.peer == route && within(&desired, &target.consumers) && waiting.iter().all(early)
        });
        let missing = up.gap && !up.requested && up.next.is_none();
        if enough && !missing {
            self.narrow(source, desired);
            return self.grant(source);
        }
        let after = waiting.into_iter().flatten().chain(up.position).min();
        self.serial += 1;
        let subscription = Subscription {
            peer: route,
            number: self.serial,
            consumers: desired,
            after,
            epoch: None,
            position: 0,
        };
        (up.requested, up.gap) = (up.requested || missing, up.gap && !missing);
        let former = up.next.replace(subscription).map(|former| former.peer.link);
        for link in former.into_iter().chain([route.link]) {
            if let Some(link_state) = self.links.get_mut(&link) {
                link_state.pending.requests.insert(source);
            }
        }
    }

    /// The members that want a source's events by way of this one.
    fn desired(&self, source: u64) -> Vec<u64> {
        let children = self.links.values().filter_map(|link_state| link_state.streams.get(&source));
        let children = children.flat_map(|stream| stream.children.values());
        let mut desired: Vec<u64> = children.flat_map(|child| &child.consumers).copied().collect();
        desired.extend(Some(self.id).filter(|_| self.wants()));
        desired.sort_unstable();
        desired.dedup();
        desired
    }

    /// The positions of pending requests. On a shared link, where all receive the same, also the
    /// position of the link.
    fn waiting(&self, source: u64) -> Vec<Option<u64>> {
        let streams = self.links.values().filter_map(|link_state| link_state.streams.get(&source));
        streams
            .filter(|stream| stream.waiting().next().is_some())
            .flat_map(|stream| {
                let shared = stream.is_shared().then_some(Some(stream.position));
                stream.waiting().map(|child| child.after).chain(shared)
            })
            .collect()
    }

    /// Withdraws the request for a source that no member wants.
    fn stop(&mut self, source: u64) {
        let Some(up) = self.upstreams.get_mut(&source) else {
            return;
        };
        let links: Vec<LinkId> = up.subscriptions().map(|subscription| subscription.peer.link).collect();
        (up.current, up.next, up.position, up.gap) = (None, None, None, false);
        for link in links {
            if let Some(link_state) = self.links.get_mut(&link) {
                link_state.pending.requests.insert(source);
            }
        }
    }

    /// Narrows the request if fewer members want the events. The stream does not begin again.
    fn narrow(&mut self, source: u64, desired: Vec<u64>) {
        let Some(up) = self.upstreams.get_mut(&source) else {
            return;
        };
        let Some(target) = up.next.as_mut().or(up.current.as_mut()) else {
            return;
        };
        if target.consumers != desired {
            target.consumers = desired;
            if let Some(link_state) = self.links.get_mut(&target.peer.link) {
                link_state.pending.requests.insert(source);
            }
        }
    }

    /// Grants pending requests for another member's events, if these arrive as they should.
    fn grant(&mut self, source: u64) {
        let Some(up) = self.upstreams.get(&source) else {
            return;
        };
        let Some(current) = up.current.as_ref().filter(|current| current.epoch.is_some()) else {
            return;
        };
        let (end, newest) = (self.log.end(), up.newest.max(current.position));
        for link_state in self.links.values_mut() {
            let Some(stream) = link_state.streams.get_mut(&source) else {
                continue;
            };
            let shared = stream.is_shared().then_some(stream.position);
            let ready = |child: &Child| {
                child.state == RequestState::Pending
                    && within(&child.consumers, &current.consumers)
                    && child.after.into_iter().chain(shared).all(|after| after >= current.position)
            };
            let Some(position) = stream.grant(ready, |child| child.after.unwrap_or(newest)) else {
                continue;
            };
            self.serial += 1;
            // Events in the log so far are not newer than their positions, or arrive again.
            (stream.epoch, stream.position, stream.since) = (self.serial, position, end);
            link_state.fresh.insert(source);
            link_state.pending.positions.insert(source);
        }
    }

    /// Grants pending requests for own events, from their positions on, as far as the log reaches
    /// back.
    fn grant_own(&mut self) {
        let source = self.id;
        for link_state in self.links.values_mut() {
            let Some(stream) = link_state.streams.get_mut(&source) else {
                continue;
            };
            let consumers: Vec<u64> = stream.waiting().flat_map(|child| &child.consumers).copied().collect();
            if consumers.is_empty() {
                continue;
            }
            let begun = self.interests.since(&consumers).unwrap_or(self.sequence);
            let from = |child: &Child| child.after.unwrap_or(begun).min(self.sequence);
            let waits = |child: &Child| child.state == RequestState::Pending;
            let Some(position) = stream.grant(waits, from) else {
                continue;
            };
            self.serial += 1;
            (stream.epoch, stream.position, stream.since) = (self.serial, position, 0);
            link_state.fresh.insert(source);
            link_state.pending.positions.insert(source);
            let oldest = self.log.after(source, position);
            link_state.cursor = link_state.cursor.min(oldest.map_or(self.log.end(), |(index, _)| index));
            // Events of an earlier process with this id are not lost to any member.
            let gone = oldest.map_or(self.sequence, |(_, number)| number - 1);
            self.counts.lost += gone.saturating_sub(position.max(self.first));
        }
    }
}
