//! Two schedulers in virtual time, the processors that drive them as the dispatching thread does,
//! and the link between.

use isorb_reflective_memory::admission::{ChannelRequest, Costs, NodeConfig};
use isorb_reflective_memory::agents::{
    AT_ONCE, Action, AgentScheduler, Band, Guarantee, INTAKE, Mode, PushAgent, PushKey, PushSpec, PushStats,
    ReceiveAgent, ReceiveSpec, SchedulerConfig, Via,
};
use isorb_reflective_memory::memory::{Geometry, Segment, Writer};
use isorb_reflective_memory::wire::{Channel, Datagram, Outcome};
use isorb_rt::clock_sync::RoundTrips;
use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

pub const MS: u64 = 1_000_000;
pub const FROM: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 1));
pub const TO: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 2));
/// UDP, IP and Ethernet around a datagram.
pub const AROUND: u64 = 66;

/// A channel and its observations.
pub struct Line {
    pub writer: Writer,
    pub key: PushKey,
    pub size: usize,
    pub period_ns: u64,
    pub deadline_ns: u64,
    /// When its values were written, by number from 1.
    pub written: Vec<u64>,
    pub shown: u64,
    pub worst_ns: u64,
    pub missed: u64,
    /// The factor by which it exceeds its declared costs.
    pub hog: u64,
    pub push: u64,
    pub guaranteed: bool,
}

/// The reader's node: its sockets, and the work of its thread.
#[derive(Default)]
pub struct ReaderEnd {
    pub now: u64,
    pub done: usize,
    pub idle: bool,
    /// The socket that all best effort has in common.
    pub common: VecDeque<Vec<u8>>,
    /// Those of guaranteed channels.
    pub own: Vec<VecDeque<Vec<u8>>>,
    /// The control: all datagrams arrive at the common socket.
    pub in_order: bool,
}

pub struct World {
    pub near: AgentScheduler,
    pub far: AgentScheduler,
    pub costs: Costs,
    pub bits_per_s: u64,
    pub now: u64,
    pub wire_free: u64,
    pub on_wire: VecDeque<(u64, Vec<u8>)>,
    pub reader: ReaderEnd,
    pub lines: Vec<Line>,
    /// Unwanted datagrams arrive all the time.
    pub flooded: bool,
    /// Whether the driver reports the costs of datagrams.
    pub charged: bool,
    /// The factor by which the writer's node is faster than the costs, which are the worst case.
    pub near_speed: u64,
}

impl World {
    pub fn new(config: &NodeConfig) -> World {
        let scheduler = SchedulerConfig {
            pushes: 128,
            receives: 128,
            heartbeat_ns: 100 * MS,
            refresh_ns: 1000 * MS,
            link_bytes_per_s: isorb_reflective_memory::admission::link_rate(config.link_bits_per_s),
        };
        World {
            near: AgentScheduler::new(scheduler),
            far: AgentScheduler::new(scheduler),
            costs: config.costs,
            bits_per_s: config.link_bits_per_s,
            now: 1_000 * MS,
            wire_free: 0,
            on_wire: VecDeque::new(),
            reader: ReaderEnd::default(),
            near_speed: 1,
            lines: Vec::new(),
            flooded: false,
            charged: true,
        }
    }

    /// A channel from node to node. Without a guarantee, best effort.
    pub fn line(&mut self, size: usize, request: ChannelRequest, guarantee: Option<Guarantee>) -> usize {
        let geometry = Geometry::new(size, 1).unwrap();
        let (source, replica) =
            (Segment::create("near", geometry).unwrap(), Segment::create("far", geometry).unwrap());
        let channel = Channel { id: self.far.reserve().unwrap(), ..super::channel(size) };
        let target = replica.writer().unwrap();
        let spec = ReceiveSpec {
            channel,
            peer: FROM,
            target,
            fresh_ns: None,
            silence_ns: 1 << 60,
            second: None,
            deadline_ns: guarantee.map(|g| g.deadline_ns),
            clock: RoundTrips::default(),
        };
        self.far.add_receive(ReceiveAgent::new(spec).unwrap(), self.now).unwrap();
        let reader = source.reader().unwrap();
        let spec = PushSpec {
            channel,
            to: TO,
            second: None,
            source: reader,
            mode: Mode::OnWrite,
            guarantee,
            rate: 0,
            burst: 0,
        };
        let key = self.near.add_push(PushAgent::new(spec).unwrap(), self.now).unwrap();
        self.lines.push(Line {
            writer: source.writer().unwrap(),
            key,
            size,
            period_ns: request.period_ns,
            deadline_ns: request.deadline_ns,
            written: Vec::new(),
            shown: 0,
            worst_ns: 0,
            missed: 0,
            hog: 1,
            push: 0,
            guaranteed: guarantee.is_some(),
        });
        self.lines.len() - 1
    }

    /// All write together, and then each at its period, for `span`; pushes under way then end.
    pub fn run(&mut self, span: u64) {
        let (start, mut out) = (self.now, vec![0; 2000]);
        let end = start + span;
        let mut sent_since_look = AT_ONCE;
        while self.now < end + 500 * MS {
            if sent_since_look == AT_ONCE {
                self.write(start, end);
                self.take_in();
                sent_since_look = 0;
            }
            match self.near.next_action(self.now, &mut out) {
                Action::Send { len, push, band, .. } => {
                    sent_since_look += 1;
                    self.send(&out[..len], push, band);
                }
                Action::Report { .. } => panic!("the writer's node has no receive agents"),
                Action::Idle { until_ns } => {
                    sent_since_look = AT_ONCE;
                    let next =
                        self.next_write(start, end).unwrap_or(u64::MAX).min(until_ns.unwrap_or(u64::MAX));
                    self.now = next.clamp(self.now + 1, end + 500 * MS);
                }
            }
        }
        self.arrive(u64::MAX);
    }

    /// Writes the values that are due by now, with the times at which they were due, and notifies
    /// the dispatching thread.
    pub fn write(&mut self, start: u64, end: u64) {
        for line in &mut self.lines {
            loop {
                let at = start + line.written.len() as u64 * line.period_ns;
                if at > self.now || at >= end {
                    break;
                }
                line.written.push(at);
                line.writer.write_at(&vec![line.written.len() as u8; line.size], at).unwrap();
            }
            self.near.written_to(line.key, self.now);
        }
    }

    pub fn next_write(&self, start: u64, end: u64) -> Option<u64> {
        let next = |line: &Line| start + line.written.len() as u64 * line.period_ns;
        self.lines.iter().map(next).filter(|at| *at < end).min()
    }

    pub fn take_in(&mut self) {
        if self.flooded {
            for _ in 0..INTAKE {
                self.near.received(TO, &[0; 10], self.now);
                self.now += self.costs.datagram_ns + 2 * self.costs.kib_ns;
                if self.near.is_urgent(self.now) {
                    return;
                }
            }
        }
    }

    pub fn send(&mut self, octets: &[u8], key: PushKey, band: Band) {
        let datagram = Datagram::read(octets).unwrap();
        let line = &mut self.lines[datagram.channel as usize];
        let first = std::mem::replace(&mut line.push, datagram.push) != datagram.push;
        let cost = (self.cost(octets) + if first { self.costs.push_ns } else { 0 })
            * self.lines[datagram.channel as usize].hog
            / self.near_speed;
        if self.near.is_recording() {
            self.near.sent(key, band, self.now, self.now + cost);
        }
        self.now += cost;
        if self.charged && band != Band::Middle {
            self.near.charge(key, cost);
        }
        let on_wire = (octets.len() as u64 + AROUND) * 8 * 1_000_000_000 / self.bits_per_s;
        self.wire_free = self.wire_free.max(self.now) + on_wire;
        self.on_wire.push_back((self.wire_free, octets.to_vec()));
        self.arrive(self.now);
    }

    /// The other node receives the datagrams that have arrived by then, as its dispatching thread
    /// does.
    pub fn arrive(&mut self, until: u64) {
        loop {
            if self.reader.idle || self.reader.done == AT_ONCE {
                if self.look(until).is_none() {
                    return;
                }
                let room = if self.far.has_arrivals() { 0 } else { INTAKE };
                for _ in 0..room {
                    let Some(octets) = self.reader.common.pop_front() else { break };
                    self.take(&octets, None);
                }
            }
            match self.far.next_arrival(self.reader.now) {
                Some((channel, via)) => {
                    match self.reader.own[channel as usize].pop_front() {
                        Some(octets) => self.take(&octets, Some(channel)),
                        None => self.far.emptied(channel, via),
                    }
                    self.reader.done += 1;
                }
                None => self.reader.idle = true,
            }
        }
    }

    /// Moves the datagrams since the last check to their sockets; none if there is no work before
    /// `until`.
    pub fn look(&mut self, until: u64) -> Option<()> {
        let reader = &mut self.reader;
        let waits = !reader.common.is_empty() || reader.own.iter().any(|own| !own.is_empty());
        if reader.idle && !waits {
            reader.now = reader.now.max(self.on_wire.front()?.0);
        }
        if reader.now > until {
            return None;
        }
        while let Some((_, octets)) = self.on_wire.pop_front_if(|(at, _)| *at <= reader.now) {
            let channel = Datagram::read(&octets).unwrap().channel as usize;
            match self.lines[channel].guaranteed && !reader.in_order {
                true => {
                    reader.own.resize_with(reader.own.len().max(channel + 1), VecDeque::new);
                    reader.own[channel].push_back(octets);
                    self.far.arrived(channel as u32, Via::First);
                }
                false => reader.common.push_back(octets),
            }
        }
        (reader.idle, reader.done) = (false, 0);
        Some(())
    }

    pub fn take(&mut self, octets: &[u8], own: Option<u32>) {
        let datagram = Datagram::read(octets).unwrap();
        let placed = self.reader.now + self.cost(octets);
        let done = placed + self.costs.push_ns;
        self.reader.now = placed;
        if self.far.received_for(own, FROM, octets, done) == Some(Outcome::Complete) {
            self.reader.now = done;
            let line = &mut self.lines[datagram.channel as usize];
            // An overtaken value counts as late.
            line.missed += datagram.sequence - line.shown - 1;
            line.shown = datagram.sequence;
            let took = done - line.written[datagram.sequence as usize - 1];
            line.worst_ns = line.worst_ns.max(took);
            line.missed += u64::from(took > line.deadline_ns);
        }
    }

    /// Processor time for a datagram, at either end.
    pub fn cost(&self, octets: &[u8]) -> u64 {
        self.costs.datagram_ns + octets.len().saturating_sub(64) as u64 * self.costs.kib_ns / 1024
    }

    pub fn stats(&self, line: usize) -> PushStats {
        self.near.push_stats(self.lines[line].key).unwrap()
    }
}
