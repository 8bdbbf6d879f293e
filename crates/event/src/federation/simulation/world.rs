//! The simulated world of members and links.

use super::super::event_log::EventBuffer;
use super::super::protocol::Protocol;
use super::super::{ControlMessage, History, LinkId};
use super::links::{Edge, End, LinkEnd, Packet};
use crate::event::{Event, Header};
use crate::filter::Filter;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, VecDeque};

/// The kind of the links.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// Calls with replies, events in order. A neighbour that does not reply in time is down.
    Calls,
    /// Datagrams without replies; some are lost, doubled or late.
    Datagrams,
}

/// In ms.
pub(super) const TICK: u64 = 100;
pub(super) const TIMEOUT: u64 = 150 * TICK;
/// The number of event types that each member wants.
const TYPES: u64 = 3;

pub(super) enum SimEvent {
    Tick(usize),
    /// A supplier of a member has an event, whatever the member does.
    Supply(usize),
    /// The event reached the member, in that incarnation.
    Push(usize, u64, Header),
    Arrive(LinkEnd, Packet),
    /// A message was answered, or timed out.
    Answer(End, u64, bool),
    /// A neighbour asks to join a member: its end, and the call.
    JoinRequest(usize, LinkEnd, u64),
    /// The join call returned the other end, or timed out.
    LinkState(LinkEnd, u64, Option<End>),
    /// A stalled member continues.
    Resume(usize),
}

/// A connection, over which events stay in order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Connection {
    Supplier,
    Notices(End),
    Events(End),
    /// A connection of its own.
    Once(u64),
}

pub(super) struct Node {
    pub protocol: Protocol,
    pub life: u64,
    stalled_until: u64,
    /// What arrived while it was stalled.
    backlog: BTreeMap<Connection, VecDeque<SimEvent>>,
    wants: Vec<i32>,
    /// What its consumers received from each source.
    got: BTreeMap<u64, Vec<u64>>,
}

pub(super) struct World {
    pub now: u64,
    pub serial: u64,
    seed: u64,
    pub kind: Kind,
    history: usize,
    /// Before each restart a member's clock of the day is set back.
    pub clock_goes_back: bool,
    pub nodes: Vec<Node>,
    pub edges: Vec<Edge>,
    /// The other end of each end, once known, and the edge between.
    pub remote_ends: HashMap<End, (Option<End>, usize)>,
    queue: BinaryHeap<Reverse<(u64, u64)>>,
    pub waiting: HashMap<u64, SimEvent>,
    /// Messages without a reply yet, by the sending end.
    pub requests: HashMap<End, (u64, ControlMessage)>,
    /// The number of events in flight to each end.
    pub underway: HashMap<End, usize>,
    /// The numbers that each member must receive of each source.
    owed: BTreeMap<(usize, u64), Vec<u64>>,
    numbers: u64,
    /// Suppliers push.
    begun: bool,
    /// All members know each other. From now on a member must receive what it wants, whether or not
    /// the source knows so when it pushes.
    known: bool,
}

impl World {
    pub(super) fn new(
        count: usize,
        edges: &[(usize, usize)],
        kind: Kind,
        history: usize,
        seed: u64,
    ) -> World {
        let mut world = World {
            now: 1_000,
            serial: 0,
            seed: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d,
            kind,
            history,
            clock_goes_back: false,
            nodes: Vec::new(),
            edges: Vec::new(),
            remote_ends: HashMap::new(),
            queue: BinaryHeap::new(),
            waiting: HashMap::new(),
            requests: HashMap::new(),
            underway: HashMap::new(),
            owed: BTreeMap::new(),
            numbers: 0,
            begun: false,
            known: false,
        };
        for node in 0..count {
            // The last member and about half of the others subscribe. The first pushes most.
            let wants = (1..=TYPES as i32).filter(|_| world.random(3) == 0).collect::<Vec<_>>();
            let wants = if node + 1 == count { vec![1] } else { wants };
            let wants = if node == 1 && count > 2 { Vec::new() } else { wants };
            let protocol = world.protocol(node, 0);
            let (backlog, got) = (BTreeMap::new(), BTreeMap::new());
            world.nodes.push(Node { protocol, life: 0, stalled_until: 0, backlog, wants, got });
            world.wish(node);
        }
        for &ends in edges {
            world.edges.push(Edge::between(ends));
            world.link(world.edges.len() - 1);
        }
        for node in 0..count {
            let at = world.random(TICK);
            world.after(at, SimEvent::Tick(node));
        }
        world
    }

    fn protocol(&self, node: usize, life: u64) -> Protocol {
        let history = History { events: self.history, octets: 1 };
        // The clock of the day, by which the numbers begin.
        let day = if self.clock_goes_back { 1_000 - life } else { 1_000 + life };
        Protocol::new(node as u64 + 1, u64::MAX / (life + 1), day << 32, history)
    }

    fn wish(&mut self, node: usize) {
        let Node { protocol, wants, .. } = &mut self.nodes[node];
        let wanted: Vec<Filter> = wants.iter().map(|event_type| Filter::of(*event_type, 0)).collect();
        protocol.own_changed(&wanted);
    }

    pub(super) fn random(&mut self, below: u64) -> u64 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        self.seed % below.max(1)
    }

    pub(super) fn after(&mut self, delay: u64, what: SimEvent) {
        self.serial += 1;
        self.queue.push(Reverse((self.now + delay, self.serial)));
        self.waiting.insert(self.serial, what);
    }

    /// Starts the suppliers; `known` if all members know each other.
    pub(super) fn begin(&mut self, known: bool) {
        (self.begun, self.known) = (true, known);
        for node in self.sources() {
            let at = self.random(20);
            self.after(at, SimEvent::Supply(node));
        }
    }

    /// All but the second, which is between others unless there are only two.
    fn sources(&self) -> impl Iterator<Item = usize> + use<> {
        let count = self.nodes.len();
        (0..count).filter(move |node| *node != 1 || count == 2)
    }

    pub(super) fn run_for(&mut self, ms: u64) {
        let until = self.now + ms;
        while let Some(&Reverse((at, serial))) = self.queue.peek() {
            if at > until {
                break;
            }
            self.queue.pop();
            self.now = self.now.max(at);
            match self.waiting.remove(&serial) {
                Some(SimEvent::Supply(node)) => self.supply(node),
                Some(SimEvent::Resume(node)) => self.resume(node),
                Some(what) => self.happens(what),
                None => {}
            }
        }
        self.now = until;
    }

    /// The member concerned, and the connection over which it came.
    fn at(&self, what: &SimEvent) -> (usize, Connection) {
        let once = Connection::Once(self.serial);
        match what {
            SimEvent::Tick(node)
            | SimEvent::Supply(node)
            | SimEvent::Resume(node)
            | SimEvent::JoinRequest(node, ..) => (*node, once),
            SimEvent::Push(node, ..) => (*node, Connection::Supplier),
            SimEvent::Arrive(LinkEnd { end, .. }, Packet::ControlMessage { .. }) => {
                (end.node, Connection::Notices(*end))
            }
            SimEvent::Arrive(LinkEnd { end, .. }, Packet::Event { .. }) => {
                (end.node, Connection::Events(*end))
            }
            SimEvent::Arrive(LinkEnd { end, .. }, Packet::Leave) => (end.node, once),
            SimEvent::Answer(end, ..) | SimEvent::LinkState(LinkEnd { end, .. }, ..) => (end.node, once),
        }
    }

    /// Arrives at a member, which handles it as soon as it can.
    fn happens(&mut self, what: SimEvent) {
        self.serial += 1;
        let (at, connection) = self.at(&what);
        let node = &mut self.nodes[at];
        let idle = node.backlog.is_empty();
        if node.stalled_until <= self.now && idle {
            return self.does(at, what);
        }
        node.backlog.entry(connection).or_default().push_back(what);
        if idle {
            self.after(self.nodes[at].stalled_until.saturating_sub(self.now), SimEvent::Resume(at));
        }
    }

    /// Handles one of the things that arrived meanwhile.
    fn resume(&mut self, at: usize) {
        let still = self.nodes[at].stalled_until.saturating_sub(self.now);
        if still > 0 {
            return self.after(still, SimEvent::Resume(at));
        }
        let which = self.random(self.nodes[at].backlog.len() as u64) as usize;
        let backlog = &mut self.nodes[at].backlog;
        let Some(connection) = backlog.keys().nth(which).copied() else {
            return;
        };
        // Several of one connection, before another connection is read.
        let some = [1, 3, 30, usize::MAX][self.random(4) as usize];
        let backlog = &mut self.nodes[at].backlog;
        let queue = backlog.entry(connection).or_default();
        let taken: Vec<SimEvent> = queue.drain(..some.min(queue.len())).collect();
        if queue.is_empty() {
            backlog.remove(&connection);
        }
        taken.into_iter().for_each(|what| self.does(at, what));
        if !self.nodes[at].backlog.is_empty() {
            let pause = self.random(5);
            self.after(pause, SimEvent::Resume(at));
        }
    }

    fn does(&mut self, node: usize, what: SimEvent) {
        match what {
            SimEvent::Tick(_) => self.tick(node),
            SimEvent::Push(_, life, header) => self.pushed(node, life, header),
            SimEvent::Arrive(way, packet) => self.arrive(way, packet),
            SimEvent::Answer(end, number, arrived) => self.answered(end, number, arrived),
            SimEvent::JoinRequest(_, from, call) => self.join_requested(node, from, call),
            SimEvent::LinkState(way, call, there) => self.link_state(way, call, there),
            SimEvent::Supply(_) | SimEvent::Resume(_) => {}
        }
        self.process(node);
    }

    fn tick(&mut self, node: usize) {
        let now = self.now;
        self.nodes[node].protocol.tick(now, TIMEOUT);
        self.send_messages(node, true);
        while let Some(link) = self.nodes[node].protocol.lost(TIMEOUT) {
            self.leave(End { node, life: self.nodes[node].life, link });
        }
        self.keep_joined(node);
        self.after(TICK, SimEvent::Tick(node));
    }

    fn supply(&mut self, node: usize) {
        self.push(node);
        let pause = if node == 0 { 20 } else { 100 };
        let pause = self.random(pause);
        if self.begun {
            self.after(pause, SimEvent::Supply(node));
        }
    }

    fn push(&mut self, node: usize) {
        self.numbers += 1;
        let event_type = 1 + self.random(TYPES) as i32;
        let number = self.numbers;
        let header = Header { event_type, source: node as i32 + 1, ttl: 50, creation_time: number };
        if self.known {
            self.owe(node, &header, |_| true);
        }
        self.happens(SimEvent::Push(node, self.nodes[node].life, header));
    }

    fn pushed(&mut self, node: usize, life: u64, header: Header) {
        // As the collector does.
        let wanted = self.nodes[node].protocol.wanted().contains(&Filter::of(header.event_type, 0));
        if wanted && life == self.nodes[node].life {
            let interests = &self.nodes[node].protocol.interests;
            let count = self.nodes.len() as u64;
            let receivers: Vec<u64> =
                (1..=count).filter(|channel| interests.want(&[*channel], &header)).collect();
            if !self.known {
                self.owe(node, &header, |other| receivers.contains(&(other as u64 + 1)));
            }
            self.nodes[node].protocol.pushed(&Event { header, ..Event::default() });
        }
    }

    /// Records which members must receive an event: of those that want it, the ones that `also`
    /// accepts.
    fn owe(&mut self, source: usize, header: &Header, also: impl Fn(usize) -> bool) {
        let wants = |node: &Node| node.wants.contains(&header.event_type);
        let others = self.nodes.iter().enumerate().filter(|(at, node)| *at != source && wants(node));
        for at in others.map(|(at, _)| at).filter(|at| also(*at)) {
            self.owed.entry((at, source as u64 + 1)).or_default().push(header.creation_time);
        }
    }

    pub(super) fn deliver(&mut self, node: usize) {
        let mut buffer = EventBuffer::default();
        let Node { protocol, wants, got, .. } = &mut self.nodes[node];
        while protocol.deliver(&mut buffer) {
            let Event { stamp, header, .. } = buffer.event();
            if wants.contains(&header.event_type) {
                let got = got.entry(stamp.channel).or_default();
                let last = got.last().copied().unwrap_or(0);
                assert!(
                    header.creation_time > last,
                    "twice or out of order at {node}: {header:?} after {last}"
                );
                got.push(header.creation_time);
            }
        }
    }

    /// Returns true if a member wants such an event of that source.
    pub(super) fn is_wanted(&self, source: u64, event_type: i32) -> bool {
        let mut others = self.nodes.iter().enumerate().filter(|(at, _)| *at as u64 + 1 != source);
        others.any(|(_, node)| node.wants.contains(&event_type))
    }

    /// A member does nothing for a time. Its suppliers go on, and its neighbours may leave it and
    /// join again.
    pub(super) fn stall_node(&mut self, ms: u64) {
        let node = self.random(self.nodes.len() as u64) as usize;
        // Not longer than others remember it.
        self.nodes[node].stalled_until = self.now + ms;
    }

    /// Restarts a member, unless it is cut off.
    pub(super) fn restart(&mut self, node: usize) {
        if self.is_cut_off(node) {
            return;
        }
        let life = self.nodes[node].life + 1;
        let protocol = self.protocol(node, life);
        let Node { backlog, .. } = &mut self.nodes[node];
        let ticks =
            std::mem::take(backlog).into_values().flatten().any(|what| matches!(what, SimEvent::Tick(_)));
        let former = &mut self.nodes[node];
        (former.protocol, former.life, former.stalled_until) = (protocol, life, self.now);
        // The old incarnation is gone.
        former.got.clear();
        self.wish(node);
        self.ended(node);
        if ticks {
            self.after(0, SimEvent::Tick(node));
        }
    }

    /// Counting starts here.
    pub(super) fn forget(&mut self) {
        self.owed.clear();
        self.known = true;
    }

    pub(super) fn heal(&mut self) {
        let now = self.now;
        for edge in &mut self.edges {
            edge.heal(now);
        }
        for node in 0..self.nodes.len() {
            self.nodes[node].stalled_until = self.nodes[node].stalled_until.min(now);
            self.after(0, SimEvent::Resume(node));
        }
        self.begun = false;
    }

    /// All members push again, as many events as the shortest history holds.
    pub(super) fn burst(&mut self) {
        for _ in 0..15 {
            self.sources().for_each(|node| self.push(node));
        }
    }

    /// The number of wanted events that did not arrive, and of those counted as lost.
    pub(super) fn judge(&self) -> (u64, u64) {
        let lost = self.nodes.iter().map(|node| node.protocol.counts.lost).sum();
        (self.missing(|_| 0), lost)
    }

    /// The number of events that did not arrive at a member after the first of their source.
    pub(super) fn holes(&self) -> u64 {
        self.missing(|got| got.first().copied().unwrap_or(0))
    }

    /// The number of events that did not arrive, of those that entered after the given one.
    fn missing(&self, after: impl Fn(&[u64]) -> u64) -> u64 {
        let missing = self.owed.iter().map(|((at, source), numbers)| {
            let got = self.nodes[*at].got.get(source).map_or(&[][..], Vec::as_slice);
            let missing = |number: &&u64| **number > after(got) && got.binary_search(number).is_err();
            numbers.iter().filter(missing).count() as u64
        });
        missing.sum()
    }

    pub(super) fn new_link(&mut self) -> LinkId {
        self.serial += 1;
        LinkId(self.serial as u32)
    }
}
