//! The world in which simulated channels live.

use super::super::log::Copied;
use super::super::machine::Machine;
use super::super::{History, LinkId, NotForwarded, Notice, Passed};
use crate::event::{Data, Event, Header, Stamp};
use crate::filter::Filter;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

/// How channels reach each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// Calls that are answered, events in order; who does not answer in time is down.
    Calls,
    /// Nobody answers; some get lost, some come twice, some late.
    Datagrams,
}

/// In ms.
const TICK: u64 = 100;
const PATIENCE: u64 = 150 * TICK;
const TIME_OUT: u64 = 300;
/// So many events wait at a neighbour that takes none, before sending fails.
const BUFFER: usize = 30;
/// Of what a channel wants there are so many types.
const TYPES: u64 = 3;

enum What {
    Tick(usize),
    Push(usize),
    Arrive(End, Packet),
    /// A notice was answered, or was not in time.
    Answer(End, u64, bool),
}

/// An end of a link: whose, and which of its links.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
struct End {
    node: usize,
    /// The life of that channel.
    life: u64,
    link: LinkId,
}

enum Packet {
    Notice(Notice, u64),
    Event { stamp: Stamp, header: Header, sender: u64, epoch: u64, previous: u64 },
}

struct Node {
    machine: Machine,
    life: u64,
    stalled_until: u64,
    wants: Vec<i32>,
    /// What its consumers got of each source.
    got: BTreeMap<u64, Vec<u64>>,
}

/// A way between two channels.
struct Edge {
    ends: (usize, usize),
    stalled_until: u64,
    cut_until: u64,
    /// When the last packet of each kind arrives at each side: they do not overtake.
    last: [[u64; 2]; 2],
}

pub(super) struct World {
    now: u64,
    serial: u64,
    seed: u64,
    kind: Kind,
    history: usize,
    nodes: Vec<Node>,
    edges: Vec<Edge>,
    /// The other end of each end, and which edge is between.
    joined: HashMap<End, (End, usize)>,
    queue: BinaryHeap<Reverse<(u64, u64)>>,
    waiting: HashMap<u64, What>,
    /// Notices that were not answered yet, by the end that sent them.
    asked: HashMap<End, (u64, Notice)>,
    /// How many events are on their way to each end.
    underway: HashMap<End, usize>,
    /// What each source has pushed since all knew all: number and type.
    pushed: BTreeMap<u64, Vec<(u64, i32)>>,
    numbers: u64,
    begun: bool,
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
            nodes: Vec::new(),
            edges: Vec::new(),
            joined: HashMap::new(),
            queue: BinaryHeap::new(),
            waiting: HashMap::new(),
            asked: HashMap::new(),
            underway: HashMap::new(),
            pushed: BTreeMap::new(),
            numbers: 0,
            begun: false,
        };
        for node in 0..count {
            // The last one and about half of the others want something. The first pushes most.
            let wants = (1..=TYPES as i32).filter(|_| world.random(3) == 0).collect::<Vec<_>>();
            let wants = if node + 1 == count { vec![1] } else { wants };
            let wants = if node == 1 { Vec::new() } else { wants };
            let machine = world.machine(node, 0);
            world.nodes.push(Node { machine, life: 0, stalled_until: 0, wants, got: BTreeMap::new() });
            world.wish(node);
        }
        for &ends in edges {
            world.edges.push(Edge { ends, stalled_until: 0, cut_until: 0, last: [[0; 2]; 2] });
            world.join(world.edges.len() - 1);
        }
        for node in 0..count {
            let at = world.random(TICK);
            world.after(at, What::Tick(node));
        }
        world
    }

    fn machine(&self, node: usize, life: u64) -> Machine {
        let history = History { events: self.history, octets: 1 };
        Machine::new(node as u64 + 1, (life + 1) << 32, history)
    }

    fn wish(&mut self, node: usize) {
        let Node { machine, wants, .. } = &mut self.nodes[node];
        let wanted: Vec<Filter> = wants.iter().map(|event_type| Filter::of(*event_type, 0)).collect();
        machine.own_changed(&wanted);
    }

    pub(super) fn random(&mut self, below: u64) -> u64 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        self.seed % below.max(1)
    }

    fn after(&mut self, delay: u64, what: What) {
        self.serial += 1;
        self.queue.push(Reverse((self.now + delay, self.serial)));
        self.waiting.insert(self.serial, what);
    }

    fn join(&mut self, edge: usize) {
        let (a, b) = self.edges[edge].ends;
        let [a, b] = [a, b].map(|node| {
            self.serial += 1;
            let link = LinkId(self.serial as u32);
            self.nodes[node].machine.join(link);
            End { node, life: self.nodes[node].life, link }
        });
        self.joined.insert(a, (b, edge));
        self.joined.insert(b, (a, edge));
        self.settle(a.node);
        self.settle(b.node);
    }

    /// Suppliers begin, once all know all.
    pub(super) fn begin(&mut self) {
        self.begun = true;
        let most = self.nodes.len() - 1;
        for node in (0..=most).filter(|node| *node != 1) {
            let at = self.random(20);
            self.after(at, What::Push(node));
        }
    }

    pub(super) fn run_for(&mut self, ms: u64) {
        let until = self.now + ms;
        while let Some(&Reverse((at, serial))) = self.queue.peek() {
            if at > until {
                break;
            }
            self.queue.pop();
            self.now = self.now.max(at);
            if let Some(what) = self.waiting.remove(&serial) {
                self.happens(what);
            }
        }
        self.now = until;
    }

    fn happens(&mut self, what: What) {
        let node = match &what {
            What::Tick(node) | What::Push(node) => *node,
            What::Arrive(end, _) | What::Answer(end, ..) => end.node,
        };
        let until = self.nodes[node].stalled_until;
        if until > self.now {
            return self.after(until - self.now, what);
        }
        match what {
            What::Tick(_) => self.tick(node),
            What::Push(_) => self.push(node),
            What::Arrive(end, packet) => self.arrive(end, packet),
            What::Answer(end, number, arrived) => {
                if let Some((_, notice)) = self.asked.remove(&end).filter(|(asked, _)| *asked == number)
                    && end.life == self.nodes[node].life
                {
                    self.nodes[node].machine.said(end.link, &notice, arrived);
                }
            }
        }
        self.settle(node);
    }

    fn tick(&mut self, node: usize) {
        let now = self.now;
        self.nodes[node].machine.tick(now, PATIENCE);
        self.speak(node, true);
        while let Some(link) = self.nodes[node].machine.lost(PATIENCE) {
            self.nodes[node].machine.leave(link);
        }
        // Who has joined joins again.
        for edge in 0..self.edges.len() {
            let Edge { ends: (a, b), cut_until, .. } = self.edges[edge];
            let ends: Vec<End> = self.ends(edge).filter(|end| end.node == node).collect();
            let alive = ends.iter().any(|end| self.nodes[node].machine.is_up(end.link));
            if b == node && !alive && self.kind == Kind::Calls && cut_until <= now {
                ends.iter().for_each(|end| self.leave(*end));
                // The other end is no longer there either, unless it does not hear of it.
                let others: Vec<End> = self.ends(edge).filter(|end| end.node == a).collect();
                others.iter().for_each(|end| self.leave(*end));
                self.join(edge);
            }
        }
        self.after(TICK, What::Tick(node));
    }

    fn ends(&self, edge: usize) -> impl Iterator<Item = End> + '_ {
        let mut ends: Vec<End> =
            self.joined.iter().filter(|(_, (_, other))| *other == edge).map(|(end, _)| *end).collect();
        ends.sort_unstable();
        ends.into_iter()
    }

    fn leave(&mut self, end: End) {
        self.joined.remove(&end);
        self.asked.remove(&end);
        if end.life == self.nodes[end.node].life {
            self.nodes[end.node].machine.leave(end.link);
            self.settle(end.node);
        }
    }

    fn push(&mut self, node: usize) {
        self.numbers += 1;
        let event_type = 1 + self.random(TYPES) as i32;
        let number = self.numbers;
        let header = Header { event_type, source: node as i32 + 1, ttl: 50, creation_time: number };
        self.pushed.entry(node as u64 + 1).or_default().push((number, event_type));
        // As its collector would.
        if self.nodes[node].machine.wanted().contains(&Filter::of(event_type, 0)) {
            self.nodes[node].machine.pushed(&Event { header, ..Event::default() });
        }
        let pause = if node == 0 { 20 } else { 100 };
        let pause = self.random(pause);
        if self.begun {
            self.after(pause, What::Push(node));
        }
    }

    fn arrive(&mut self, end: End, packet: Packet) {
        if let Packet::Event { .. } = packet {
            self.underway.entry(end).and_modify(|count| *count = count.saturating_sub(1));
        }
        let Some(&(other, edge)) = self.joined.get(&end) else {
            return;
        };
        if end.life != self.nodes[end.node].life {
            return;
        }
        let machine = &mut self.nodes[end.node].machine;
        match packet {
            Packet::Event { stamp, header, sender, epoch, previous } => {
                let event = Event { stamp, header, data: Data::default() };
                machine.received(end.link, &Passed { level: 0, sender, epoch, previous, event });
            }
            Packet::Notice(notice, number) => {
                let known = machine.heard(end.link, &notice);
                if self.kind == Kind::Calls && self.edges[edge].cut_until <= self.now {
                    let delay = 1 + self.random(5);
                    self.after(delay, What::Answer(other, number, known));
                }
            }
        }
    }

    /// Lets a channel do what it has found to do.
    fn settle(&mut self, node: usize) {
        self.deliver(node);
        self.speak(node, false);
        let links: Vec<LinkId> = self.nodes[node].machine.links.keys().copied().collect();
        let mut copied = Copied::default();
        for link in links {
            while let Some(sending) = self.nodes[node].machine.send(link, &mut copied) {
                let Event { stamp, header, .. } = copied.event();
                let somebody = (0..self.nodes.len()).any(|other| {
                    other as u64 + 1 != stamp.channel && self.nodes[other].wants.contains(&header.event_type)
                });
                assert!(somebody, "nobody wants {header:?}");
                let packet = Packet::Event {
                    stamp,
                    header,
                    sender: node as u64 + 1,
                    epoch: sending.epoch,
                    previous: sending.previous,
                };
                let end = End { node, life: self.nodes[node].life, link };
                let result = self.transmit(end, packet);
                self.nodes[node].machine.sent(link, sending, result);
                self.speak(node, false);
            }
        }
    }

    fn speak(&mut self, node: usize, try_again: bool) {
        let links: Vec<LinkId> = self.nodes[node].machine.links.keys().copied().collect();
        for link in links {
            let end = End { node, life: self.nodes[node].life, link };
            if self.asked.contains_key(&end) {
                continue;
            }
            while let Some(notice) = self.nodes[node].machine.notice(link, try_again) {
                self.serial += 1;
                let number = self.serial;
                let sent = self.transmit(end, Packet::Notice(notice.clone(), number));
                if self.kind == Kind::Calls && sent.is_ok() {
                    self.asked.insert(end, (number, notice));
                    self.after(TIME_OUT, What::Answer(end, number, false));
                    break;
                }
                self.nodes[node].machine.said(link, &notice, sent.is_ok());
                if sent.is_err() {
                    break;
                }
            }
        }
    }

    /// Puts a packet on its way. An event is taken though it gets lost, until there are too many.
    fn transmit(&mut self, from: End, packet: Packet) -> Result<(), NotForwarded> {
        let Some(&(to, edge)) = self.joined.get(&from) else {
            return Err(NotForwarded::Down);
        };
        let Edge { ends, stalled_until, cut_until, .. } = self.edges[edge];
        let event = matches!(packet, Packet::Event { .. });
        let calls = self.kind == Kind::Calls;
        if cut_until > self.now {
            // It waits in a buffer that is thrown away, unless that is full.
            let full = event && calls && self.random(10) == 0;
            return if full { Err(NotForwarded::Down) } else { Ok(()) };
        }
        let copies = if calls { 1 } else { [0, 2].get(self.random(50) as usize).copied().unwrap_or(1) };
        if event && calls {
            let waiting = self.underway.entry(to).or_default();
            if *waiting >= BUFFER {
                return Err(NotForwarded::Down);
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
            let copy = match &packet {
                Packet::Notice(notice, number) => Packet::Notice(notice.clone(), *number),
                Packet::Event { stamp, header, sender, epoch, previous } => {
                    let (stamp, header) = (*stamp, *header);
                    Packet::Event { stamp, header, sender: *sender, epoch: *epoch, previous: *previous }
                }
            };
            self.after(at - self.now, What::Arrive(to, copy));
        }
        Ok(())
    }

    fn deliver(&mut self, node: usize) {
        let mut copied = Copied::default();
        let Node { machine, wants, got, .. } = &mut self.nodes[node];
        while machine.deliver(&mut copied) {
            let Event { stamp, header, .. } = copied.event();
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

    pub(super) fn stall_link(&mut self, ms: u64) {
        let edge = self.random(self.edges.len() as u64) as usize;
        self.edges[edge].stalled_until = self.now + ms;
    }

    pub(super) fn stall_node(&mut self, ms: u64) {
        let node = self.random(self.nodes.len() as u64) as usize;
        // No longer than others believe in it.
        self.nodes[node].stalled_until = self.now + ms;
    }

    /// Cuts one link, if no other is cut or was a while ago.
    pub(super) fn cut_link(&mut self, ms: u64) {
        if self.edges.iter().any(|edge| edge.cut_until + 2_000 > self.now) {
            return;
        }
        let edge = self.random(self.edges.len() as u64) as usize;
        self.edges[edge].cut_until = self.now + ms;
        // What is under way is lost.
        let ends: Vec<End> = self.ends(edge).collect();
        let lost = |what: &What| matches!(what, What::Arrive(end, _) if ends.contains(end));
        let numbers: Vec<u64> = self.waiting.iter().filter(|(_, what)| lost(what)).map(|(n, _)| *n).collect();
        numbers.iter().for_each(|number| drop(self.waiting.remove(number)));
        self.underway.retain(|end, _| !ends.contains(end));
    }

    /// Ends a channel and starts it anew, unless it is cut off.
    pub(super) fn restart(&mut self, node: usize) {
        let at = |edge: &usize| [self.edges[*edge].ends.0, self.edges[*edge].ends.1].contains(&node);
        let edges: Vec<usize> = (0..self.edges.len()).filter(at).collect();
        if edges.iter().any(|edge| self.edges[*edge].cut_until > self.now) {
            return;
        }
        let life = self.nodes[node].life + 1;
        self.nodes[node].machine = self.machine(node, life);
        self.nodes[node].life = life;
        // Whoever it was is no more.
        self.nodes[node].got.clear();
        self.wish(node);
        for edge in edges {
            let ends: Vec<End> = self.ends(edge).collect();
            // Its neighbours find out when it joins again.
            ends.iter().for_each(|end| self.leave(*end));
            self.join(edge);
        }
    }

    /// From now on it counts.
    pub(super) fn forget(&mut self) {
        self.pushed.clear();
    }

    pub(super) fn heal(&mut self) {
        let now = self.now;
        for edge in &mut self.edges {
            (edge.stalled_until, edge.cut_until) = (edge.stalled_until.min(now), edge.cut_until.min(now));
        }
        self.nodes.iter_mut().for_each(|node| node.stalled_until = node.stalled_until.min(now));
        self.begun = false;
    }

    /// Everybody pushes again, as many as the shortest history holds.
    pub(super) fn burst(&mut self) {
        for _ in 0..15 {
            (0..self.nodes.len()).filter(|node| *node != 1).for_each(|node| {
                self.push(node);
                self.settle(node);
            });
        }
    }

    /// How many events did not come that were wanted, and how many are counted as lost.
    pub(super) fn judge(&self) -> (u64, u64) {
        let mut missing = 0;
        for (at, node) in self.nodes.iter().enumerate() {
            for (source, pushed) in &self.pushed {
                if *source == at as u64 + 1 {
                    continue;
                }
                let got = node.got.get(source).map_or(&[][..], Vec::as_slice);
                let wanted = pushed.iter().filter(|(_, event_type)| node.wants.contains(event_type));
                missing += wanted.filter(|(number, _)| got.binary_search(number).is_err()).count() as u64;
            }
        }
        let lost = self.nodes.iter().map(|node| node.machine.counts.lost).sum();
        (missing, lost)
    }
}
