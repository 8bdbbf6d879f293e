//! The links of simulated members: joining and leaving, and the packets on them.

use super::super::event_log::EventBuffer;
use super::super::{ControlMessage, ForwardError, ForwardedEvent, LinkId};
use super::world::{Kind, SimEvent, World};
use crate::event::{Event, Header, Stamp};

/// In ms.
const TIME_OUT: u64 = 300;
/// The most events in flight to a stalled neighbour before sending fails.
const BUFFER: usize = 30;

/// One end of a link.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct End {
    pub node: usize,
    /// The incarnation of that member.
    pub life: u64,
    pub link: LinkId,
}

/// An end of a link and the edge that leads to it.
#[derive(Clone, Copy, Debug)]
pub(super) struct LinkEnd {
    pub end: End,
    pub edge: usize,
}

#[derive(Clone)]
pub(super) enum Packet {
    ControlMessage { from: End, number: u64, message: ControlMessage },
    Event { stamp: Stamp, header: Header, sender: u64, epoch: u64, previous: u64 },
    Leave,
}

/// A connection between two members, of which the second joins the first.
pub(super) struct Edge {
    ends: (usize, usize),
    stalled_until: u64,
    cut_until: u64,
    /// When the last packet of each kind arrives at each side: packets are not reordered.
    last: [[u64; 2]; 2],
    /// The link of the joining member, and the join call if one is under way.
    own: Option<(End, Option<u64>)>,
}

impl Edge {
    pub(super) fn between(ends: (usize, usize)) -> Edge {
        Edge { ends, stalled_until: 0, cut_until: 0, last: [[0; 2]; 2], own: None }
    }

    pub(super) fn heal(&mut self, now: u64) {
        (self.stalled_until, self.cut_until) = (self.stalled_until.min(now), self.cut_until.min(now));
    }

    fn has(&self, node: usize) -> bool {
        [self.ends.0, self.ends.1].contains(&node)
    }
}

impl World {
    /// Adds an end at a member.
    fn end(&mut self, node: usize, edge: usize) -> End {
        let link = self.new_link();
        self.nodes[node].protocol.join(link);
        let end = End { node, life: self.nodes[node].life, link };
        self.remote_ends.insert(end, (None, edge));
        end
    }

    /// Joins both ends, before any fault.
    pub(super) fn link(&mut self, edge: usize) {
        let (a, b) = self.edges[edge].ends;
        let [a, b] = [a, b].map(|node| self.end(node, edge));
        self.remote_ends.insert(a, (Some(b), edge));
        self.remote_ends.insert(b, (Some(a), edge));
        self.edges[edge].own = Some((b, None));
        self.process(a.node);
        self.process(b.node);
    }

    /// Leaves neighbours that are down and joins those that are not joined, as a member process
    /// does with each tick.
    pub(super) fn keep_joined(&mut self, node: usize) {
        if self.kind == Kind::Datagrams {
            return;
        }
        for edge in 0..self.edges.len() {
            if self.edges[edge].ends.1 != node || self.edges[edge].own.is_some_and(|(_, call)| call.is_some())
            {
                continue;
            }
            let own = self.edges[edge].own;
            if let Some((lost, _)) = own.filter(|(end, _)| !self.nodes[node].protocol.is_up(end.link)) {
                self.leave(lost);
                self.edges[edge].own = None;
            }
            if self.edges[edge].own.is_none() {
                self.begin_join(edge);
            }
        }
    }

    /// This end first: the neighbour sends its state while it joins.
    fn begin_join(&mut self, edge: usize) {
        let (a, b) = self.edges[edge].ends;
        let end = self.end(b, edge);
        self.serial += 1;
        let (call, from) = (self.serial, LinkEnd { end, edge });
        self.edges[edge].own = Some((end, Some(call)));
        self.carry(edge, SimEvent::JoinRequest(a, from, call));
        self.after(TIME_OUT, SimEvent::LinkState(from, call, None));
        self.process(b);
    }

    pub(super) fn join_requested(&mut self, node: usize, from: LinkEnd, call: u64) {
        let end = self.end(node, from.edge);
        self.remote_ends.insert(end, (Some(from.end), from.edge));
        self.process(node);
        self.carry(from.edge, SimEvent::LinkState(from, call, Some(end)));
    }

    pub(super) fn link_state(&mut self, way: LinkEnd, call: u64, there: Option<End>) {
        let LinkEnd { end, edge } = way;
        if self.edges[edge].own != Some((end, Some(call))) {
            return;
        }
        match there {
            Some(there) => {
                self.edges[edge].own = Some((end, None));
                self.remote_ends.entry(end).and_modify(|(far, _)| *far = Some(there));
                self.nodes[end.node].protocol.resend(end.link);
                self.send_messages(end.node, true);
            }
            None => {
                self.edges[edge].own = None;
                self.leave(end);
            }
        }
    }

    /// Carries a call or its reply over an edge, unless it is cut.
    fn carry(&mut self, edge: usize, what: SimEvent) {
        let Edge { stalled_until, cut_until, .. } = self.edges[edge];
        if cut_until <= self.now {
            let delay = stalled_until.saturating_sub(self.now) + 1 + self.random(5);
            self.after(delay, what);
        }
    }

    /// Removes an end and notifies the other one.
    pub(super) fn leave(&mut self, end: End) {
        let far = self.remote_ends.remove(&end);
        self.requests.remove(&end);
        if end.life == self.nodes[end.node].life {
            self.nodes[end.node].protocol.leave(end.link);
            self.process(end.node);
        }
        if let Some((Some(far), edge)) = far {
            self.carry(edge, SimEvent::Arrive(LinkEnd { end: far, edge }, Packet::Leave));
        }
    }

    /// Removes the links of a restarted member. Its neighbours notice when they send, and it joins
    /// those that it should.
    pub(super) fn ended(&mut self, node: usize) {
        self.remote_ends.retain(|end, _| end.node != node);
        self.requests.retain(|end, _| end.node != node);
        for edge in self.edges.iter_mut().filter(|edge| edge.ends.1 == node) {
            edge.own = None;
        }
    }

    pub(super) fn arrive(&mut self, LinkEnd { end, edge }: LinkEnd, packet: Packet) {
        let alive = end.life == self.nodes[end.node].life && self.remote_ends.contains_key(&end);
        let protocol = &mut self.nodes[end.node].protocol;
        match packet {
            Packet::Event { stamp, header, sender, epoch, previous } => {
                self.underway.entry(end).and_modify(|count| *count = count.saturating_sub(1));
                if alive {
                    let event = Event { stamp, header, ..Event::default() };
                    protocol.receive_event(
                        end.link,
                        &ForwardedEvent { level: 0, sender, epoch, previous, event },
                    );
                }
            }
            Packet::ControlMessage { from, number, message } => {
                let known = alive && protocol.receive_message(end.link, &message);
                if self.kind == Kind::Calls {
                    self.carry(edge, SimEvent::Answer(from, number, known));
                }
            }
            Packet::Leave if alive => self.leave(end),
            Packet::Leave => {}
        }
    }

    pub(super) fn answered(&mut self, end: End, number: u64, arrived: bool) {
        if self.requests.get(&end).is_some_and(|(requests, _)| *requests == number)
            && let Some((_, message)) = self.requests.remove(&end)
            && end.life == self.nodes[end.node].life
        {
            self.nodes[end.node].protocol.message_sent(end.link, &message, arrived);
        }
    }

    /// Processes a member's pending work.
    pub(super) fn process(&mut self, node: usize) {
        self.deliver(node);
        self.send_messages(node, false);
        let links: Vec<LinkId> = self.nodes[node].protocol.links.keys().copied().collect();
        let mut buffer = EventBuffer::default();
        for link in links {
            while let Some(sending) = self.nodes[node].protocol.send(link, &mut buffer) {
                let Event { stamp, header, .. } = buffer.event();
                assert!(self.is_wanted(stamp.channel, header.event_type), "no member wants {header:?}");
                let (sender, epoch, previous) = (node as u64 + 1, sending.epoch, sending.previous);
                let packet = Packet::Event { stamp, header, sender, epoch, previous };
                let end = End { node, life: self.nodes[node].life, link };
                let result = self.transmit(end, packet);
                self.nodes[node].protocol.sent(link, sending, result);
                self.send_messages(node, false);
            }
        }
    }

    pub(super) fn send_messages(&mut self, node: usize, try_again: bool) {
        let links: Vec<LinkId> = self.nodes[node].protocol.links.keys().copied().collect();
        for link in links {
            let end = End { node, life: self.nodes[node].life, link };
            if self.requests.contains_key(&end) {
                continue;
            }
            while let Some(message) = self.nodes[node].protocol.message(link, try_again) {
                self.serial += 1;
                let number = self.serial;
                let packet = Packet::ControlMessage { from: end, number, message: message.clone() };
                let sent = self.transmit(end, packet);
                if self.kind == Kind::Calls && sent.is_ok() {
                    self.requests.insert(end, (number, message));
                    self.after(TIME_OUT, SimEvent::Answer(end, number, false));
                    break;
                }
                self.nodes[node].protocol.message_sent(link, &message, sent.is_ok());
                if sent.is_err() {
                    break;
                }
            }
        }
    }

    /// Sends a packet. A lost event is accepted, until too many are in flight.
    fn transmit(&mut self, from: End, packet: Packet) -> Result<(), ForwardError> {
        let Some(&(Some(to), edge)) = self.remote_ends.get(&from) else {
            return Err(ForwardError::Down);
        };
        let Edge { ends, stalled_until, cut_until, .. } = self.edges[edge];
        let event = matches!(packet, Packet::Event { .. });
        let calls = self.kind == Kind::Calls;
        if cut_until > self.now {
            // It waits in a buffer that is discarded, unless the buffer is full.
            let full = event && calls && self.random(10) == 0;
            return if full { Err(ForwardError::Down) } else { Ok(()) };
        }
        let copies = if calls { 1 } else { [0, 2].get(self.random(50) as usize).copied().unwrap_or(1) };
        if event && calls {
            let waiting = self.underway.entry(to).or_default();
            if *waiting >= BUFFER {
                return Err(ForwardError::Down);
            }
            *waiting += 1;
        }
        for _ in 0..copies {
            let most = if calls || self.random(30) != 0 { 5 } else { 30 };
            let mut at = stalled_until.max(self.now) + 1 + self.random(most);
            if calls {
                let side = usize::from(to.node == ends.0);
                let last = &mut self.edges[edge].last[side][usize::from(event)];
                at = at.max(*last);
                *last = at;
            }
            self.after(at - self.now, SimEvent::Arrive(LinkEnd { end: to, edge }, packet.clone()));
        }
        Ok(())
    }

    pub(super) fn stall_link(&mut self, ms: u64) {
        let edge = self.random(self.edges.len() as u64) as usize;
        self.edges[edge].stalled_until = self.now + ms;
    }

    /// Cuts one link, unless another is cut or was recently.
    pub(super) fn cut_link(&mut self, ms: u64) {
        if self.edges.iter().any(|edge| edge.cut_until + 2_000 > self.now) {
            return;
        }
        let cut = self.random(self.edges.len() as u64) as usize;
        self.edges[cut].cut_until = self.now + ms;
        // Packets in flight are lost.
        let lost =
            |what: &SimEvent| matches!(what, SimEvent::Arrive(LinkEnd { edge, .. }, _) if *edge == cut);
        self.waiting.retain(|_, what| !lost(what));
        let remote_ends = &self.remote_ends;
        self.underway.retain(|end, _| remote_ends.get(end).is_none_or(|(_, edge)| *edge != cut));
    }

    pub(super) fn is_cut_off(&self, node: usize) -> bool {
        self.edges.iter().any(|edge| edge.has(node) && edge.cut_until > self.now)
    }
}
