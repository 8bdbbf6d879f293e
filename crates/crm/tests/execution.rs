//! Admission against execution, in virtual time: two planes, the processors that drive them and the link between, each as slow as the costs say.
//! An admitted set is answered within its deadlines whatever best effort and strangers send; a refused set, forced in, is not.

use isorb_crm::admission::{Costs, NodeAdmission, NodeConfig, Refused, Wish};
use isorb_crm::memory::{Geometry, Segment, Writer};
use isorb_crm::plane::{
    AT_ONCE, Band, Guarantee, INTAKE, Mode, Plane, PlaneConfig, PushAgent, PushKey, PushSpec, PushStats,
    ReceiveAgent, ReceiveSpec, Recorded, Step,
};
use isorb_crm::wire::{Channel, Datagram, Outcome};
use isorb_event::trace::What;
use isorb_timeline::{Party, Recording, Role, Timeline};
use proptest::prelude::*;
use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

const MS: u64 = 1_000_000;
const FROM: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 1));
const TO: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 2));
/// UDP, IP and Ethernet around a datagram.
const AROUND: u64 = 66;

/// A channel, and what was seen of it.
struct Line {
    writer: Writer,
    key: PushKey,
    size: usize,
    period_ns: u64,
    deadline_ns: u64,
    /// When its values were written, by number from 1.
    written: Vec<u64>,
    shown: u64,
    worst_ns: u64,
    missed: u64,
    /// It costs so many times what is declared.
    hog: u64,
    push: u64,
}

struct World {
    near: Plane,
    far: Plane,
    costs: Costs,
    bits_per_s: u64,
    now: u64,
    wire_free: u64,
    far_free: u64,
    on_wire: VecDeque<(u64, Vec<u8>)>,
    lines: Vec<Line>,
    /// Datagrams that nobody wants come in all the time.
    flooded: bool,
    /// The driver tells what datagrams cost.
    charged: bool,
}

impl World {
    fn new(config: &NodeConfig) -> World {
        let plane = PlaneConfig {
            pushes: 128,
            receives: 128,
            heartbeat_ns: 100 * MS,
            refresh_ns: 1000 * MS,
            link_bytes_per_s: isorb_crm::admission::link_rate(config.link_bits_per_s),
        };
        World {
            near: Plane::new(plane),
            far: Plane::new(plane),
            costs: config.costs,
            bits_per_s: config.link_bits_per_s,
            now: 1_000 * MS,
            wire_free: 0,
            far_free: 0,
            on_wire: VecDeque::new(),
            lines: Vec::new(),
            flooded: false,
            charged: true,
        }
    }

    /// A channel from node to node. Without a guarantee, best effort.
    fn line(&mut self, size: usize, wish: Wish, guarantee: Option<Guarantee>) -> usize {
        let geometry = Geometry::new(size, 1).unwrap();
        let (source, replica) =
            (Segment::create("near", geometry).unwrap(), Segment::create("far", geometry).unwrap());
        let channel = Channel { id: self.far.next_channel().unwrap(), ..channel(size) };
        let target = replica.writer().unwrap();
        let spec =
            ReceiveSpec { channel, peer: FROM, target, fresh_ns: None, silence_ns: 1 << 60, second: None };
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
            period_ns: wish.period_ns,
            deadline_ns: wish.deadline_ns,
            written: Vec::new(),
            shown: 0,
            worst_ns: 0,
            missed: 0,
            hog: 1,
            push: 0,
        });
        self.lines.len() - 1
    }

    /// All write together, and from then on each at its period, for `span`; then what is under way ends.
    fn run(&mut self, span: u64) {
        let (start, mut out) = (self.now, vec![0; 2000]);
        let end = start + span;
        let mut sent_since_look = AT_ONCE;
        while self.now < end + 500 * MS {
            if sent_since_look == AT_ONCE {
                self.write(start, end);
                self.take_in();
                sent_since_look = 0;
            }
            match self.near.step(self.now, &mut out) {
                Step::Send { len, push, band, .. } => {
                    sent_since_look += 1;
                    self.send(&out[..len], push, band);
                }
                Step::Choose { .. } => panic!("there is one path"),
                Step::Idle { until_ns } => {
                    sent_since_look = AT_ONCE;
                    let next =
                        self.next_write(start, end).unwrap_or(u64::MAX).min(until_ns.unwrap_or(u64::MAX));
                    self.now = next.clamp(self.now + 1, end + 500 * MS);
                }
            }
        }
        self.arrive(u64::MAX);
    }

    /// Values that are due by now, written when they were due; the dispatching thread hears of them now.
    fn write(&mut self, start: u64, end: u64) {
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

    fn next_write(&self, start: u64, end: u64) -> Option<u64> {
        let next = |line: &Line| start + line.written.len() as u64 * line.period_ns;
        self.lines.iter().map(next).filter(|at| *at < end).min()
    }

    fn take_in(&mut self) {
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

    fn send(&mut self, octets: &[u8], key: PushKey, band: Band) {
        let datagram = Datagram::read(octets).unwrap();
        let line = &mut self.lines[datagram.channel as usize];
        let first = std::mem::replace(&mut line.push, datagram.push) != datagram.push;
        let cost = (self.cost(octets) + if first { self.costs.push_ns } else { 0 })
            * self.lines[datagram.channel as usize].hog;
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

    /// The other node takes in what is there by then.
    fn arrive(&mut self, until: u64) {
        while let Some((at, octets)) = self.on_wire.pop_front_if(|(at, _)| *at <= until) {
            let datagram = Datagram::read(&octets).unwrap();
            self.far_free = self.far_free.max(at) + self.cost(&octets);
            let done = self.far_free + self.costs.push_ns;
            if self.far.received(FROM, &octets, done) == Some(Outcome::Complete) {
                let line = &mut self.lines[datagram.channel as usize];
                // A value that was overtaken was never there in time.
                line.missed += datagram.sequence - line.shown - 1;
                line.shown = datagram.sequence;
                let took = done - line.written[datagram.sequence as usize - 1];
                line.worst_ns = line.worst_ns.max(took);
                line.missed += u64::from(took > line.deadline_ns);
            }
        }
    }

    /// Processor time for a datagram, at either end.
    fn cost(&self, octets: &[u8]) -> u64 {
        self.costs.datagram_ns + octets.len().saturating_sub(64) as u64 * self.costs.kib_ns / 1024
    }

    fn stats(&self, line: usize) -> PushStats {
        self.near.push_stats(self.lines[line].key).unwrap()
    }
}

fn channel(size: usize) -> Channel {
    Channel { id: 0, epoch: 1, token: 42, size, fragment: 1384, parity: 0 }
}

/// Both ends, as two nodes would be asked.
struct Nodes {
    near: NodeAdmission,
    far: NodeAdmission,
    granted: Vec<(usize, Wish, isorb_crm::admission::Grant)>,
}

impl Nodes {
    fn new(config: &NodeConfig) -> Nodes {
        Nodes { near: NodeAdmission::new(config), far: NodeAdmission::new(config), granted: Vec::new() }
    }

    fn ask(&mut self, size: usize, wish: Wish) -> Result<(), Refused> {
        let far = self.far.admit_receive("line", &channel(size), wish)?;
        match self.near.admit_push("line", &channel(size), wish) {
            Ok(grant) => {
                self.granted.push((size, wish, grant));
                Ok(())
            }
            Err(refused) => {
                self.far.release(&far);
                Err(refused)
            }
        }
    }

    /// The admitted channels, as they are promoted when all are there.
    fn enter(&self, world: &mut World) {
        for (size, wish, grant) in &self.granted {
            let guarantee = Guarantee { promotion_ns: self.near.promotion(grant), ..grant.guarantee };
            world.line(*size, *wish, Some(guarantee));
        }
    }
}

/// Three areas that would fill any link.
fn flood(world: &mut World) {
    for _ in 0..3 {
        world.line(50_000, Wish { period_ns: 5 * MS, deadline_ns: u64::MAX }, None);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn admitted_channels_are_answered_in_time(
        wishes in prop::collection::vec((32usize..12_000, 0usize..4, 15u64..100), 40),
        mbit in prop::sample::select(vec![10u64, 100, 1000]),
        flooded in any::<bool>(),
    ) {
        let config = NodeConfig { link_bits_per_s: mbit * 1_000_000, ..NodeConfig::default() };
        let mut nodes = Nodes::new(&config);
        for (size, period, percent) in wishes {
            let period_ns = [20, 50, 100, 200][period] * MS;
            let _ = nodes.ask(size, Wish { period_ns, deadline_ns: period_ns * percent / 100 });
        }
        let mut world = World::new(&config);
        nodes.enter(&mut world);
        flood(&mut world);
        world.flooded = flooded;
        world.run(600 * MS);
        for (line, (size, wish, _)) in world.lines.iter().zip(&nodes.granted) {
            let values = line.written.len() as u64;
            prop_assert!(
                line.missed == 0 && line.shown == values && values >= 3,
                "{size} octets, {wish:?}: worst {} ns, {} of {values} missed, {:?}",
                line.worst_ns, line.missed, world.near.push_stats(line.key)
            );
        }
    }
}

/// Eight values of 4 KiB take 30 ms of a link of 10 Mbit/s, and each must be there after 20; only a third of the link is asked for.
#[test]
fn a_refused_set_misses_when_forced_in() {
    let config = NodeConfig { link_bits_per_s: 10_000_000, ..NodeConfig::default() };
    let wish = Wish { period_ns: 100 * MS, deadline_ns: 20 * MS };
    let mut nodes = Nodes::new(&config);
    while nodes.ask(4096, wish).is_ok() {}
    let admitted = nodes.granted.len();
    assert!((2..6).contains(&admitted), "{admitted}");
    let mut world = World::new(&config);
    nodes.enter(&mut world);
    flood(&mut world);
    world.run(600 * MS);
    assert!(world.lines[..admitted].iter().all(|line| line.missed == 0));

    let mut forced = World::new(&config);
    nodes.enter(&mut forced);
    let like = Guarantee { promotion_ns: 0, ..nodes.granted[0].2.guarantee };
    for _ in admitted..8 {
        forced.line(4096, wish, Some(like));
    }
    flood(&mut forced);
    forced.run(600 * MS);
    let missed: u64 = forced.lines[..8].iter().map(|line| line.missed).sum();
    assert!(missed >= 6, "each of six rounds has a last one, and it is late: {missed}");
}

/// The same channels, never promoted: best effort goes first for as long as there is any.
#[test]
fn without_promotion_an_admitted_set_misses() {
    let config = NodeConfig { link_bits_per_s: 10_000_000, ..NodeConfig::default() };
    let missed = |promoted: bool| {
        let mut nodes = Nodes::new(&config);
        while nodes.ask(4096, Wish { period_ns: 100 * MS, deadline_ns: 60 * MS }).is_ok() {}
        let mut world = World::new(&config);
        for (size, wish, grant) in &nodes.granted {
            let promotion_ns = if promoted { nodes.near.promotion(grant) } else { 1 << 50 };
            world.line(*size, *wish, Some(Guarantee { promotion_ns, ..grant.guarantee }));
        }
        flood(&mut world);
        world.run(600 * MS);
        world.lines[..nodes.granted.len()].iter().map(|line| line.missed + 6 - line.shown.min(6)).sum::<u64>()
    };
    assert_eq!(missed(true), 0);
    assert!(missed(false) > 0);
}

#[test]
fn promotion_shows_on_the_timeline() {
    let config = NodeConfig { link_bits_per_s: 10_000_000, ..NodeConfig::default() };
    let mut nodes = Nodes::new(&config);
    nodes.ask(4096, Wish { period_ns: 100 * MS, deadline_ns: 90 * MS }).unwrap();
    let mut world = World::new(&config);
    world.near.record(100_000);
    nodes.enter(&mut world);
    flood(&mut world);
    world.run(300 * MS);
    let names = ["plant", "film", "mail", "news"];
    let agents =
        world.lines.iter().zip(names).map(|(line, name)| (line.key.number(), name.to_owned())).collect();
    let recorded = Recorded { track: world.near.recorded("crm-0"), agents };
    let party = |(releases, id, name)| Party {
        role: if releases { Role::Supplier } else { Role::Consumer },
        id,
        name,
    };
    let recording = Recording {
        name: "near".into(),
        parties: recorded.rows().into_iter().map(party).collect(),
        tracks: vec![recorded.track],
        ..Recording::default()
    };
    let timeline = Timeline::of("pushes", &[recording]);
    let row = |name: &str| timeline.rows.iter().find(|row| row.name == name);
    let upper = row("plant: upper").expect("it was promoted");
    let promoted: Vec<u64> =
        upper.marks.iter().filter(|mark| mark.what == What::Timeout).map(|mark| mark.at).collect();
    assert_eq!((promoted.len(), upper.runs.len()), (3, 9), "three values of three datagrams: {upper:?}");
    let released = &row("plant").expect("it was released").marks;
    let film = &row("film: middle").expect("best effort is in the middle").runs;
    for (value, at) in promoted.iter().enumerate() {
        let (release, last) = (released[value].at, upper.runs[3 * value + 2].end);
        assert!(release < *at && *at < last, "{release} {at} {last}");
        assert!(film.iter().any(|run| release < run.start && run.start < *at), "best effort goes first");
        let between = film.iter().filter(|run| *at < run.start && run.start < last).count();
        assert_eq!(between, 0, "from promotion on nobody comes between");
    }
    assert!(timeline.page().contains("plant: upper"));
}

/// The most urgent agent costs sixty times what it declared.
fn with_a_hog(charged: bool) -> (Line, PushStats) {
    let costs = Costs { push_ns: 50_000, datagram_ns: 50_000, kib_ns: 1_000 };
    let config = NodeConfig { costs, link_bits_per_s: 10_000_000_000, ..NodeConfig::default() };
    let mut nodes = Nodes::new(&config);
    nodes.ask(50_000, Wish { period_ns: 200 * MS, deadline_ns: 60 * MS }).unwrap();
    nodes.ask(2_000, Wish { period_ns: 100 * MS, deadline_ns: 70 * MS }).unwrap();
    let mut world = World::new(&config);
    nodes.enter(&mut world);
    world.lines[0].hog = 60;
    world.charged = charged;
    world.run(600 * MS);
    let stats = world.stats(0);
    (world.lines.swap_remove(1), stats)
}

#[test]
fn who_costs_more_than_declared_harms_only_itself() {
    let (other, stats) = with_a_hog(true);
    assert!(stats.contained >= 3, "{stats:?}");
    assert_eq!((other.missed, other.shown), (0, 6), "worst {}", other.worst_ns);
    let (other, stats) = with_a_hog(false);
    assert_eq!(stats.contained, 0, "nobody told");
    assert!(other.missed > 0, "the control must fail: worst {}", other.worst_ns);
}
