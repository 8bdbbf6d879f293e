//! Admission against execution, in virtual time: two schedulers, the processors that drive them and
//! the link between, each as slow as the costs. An admitted set meets its deadlines whatever
//! best-effort channels and strangers send; a refused set that is added all the same does not.

mod world;

use isorb_reflective_memory::admission::{ChannelRequest, Costs, NodeAdmission, NodeConfig, Refused, Sender};
use isorb_reflective_memory::agents::{Guarantee, PushStats, Recorded};
use isorb_reflective_memory::wire::Channel;
use isorb_timeline::Timeline;
use isorb_trace::{Participant, RecordKind, Recording, Role};
use proptest::prelude::*;
use world::{Line, World};

const MS: u64 = 1_000_000;

fn channel(size: usize) -> Channel {
    Channel { id: 0, epoch: 1, token: 42, size, fragment: 1384, parity: 0 }
}

/// Admission at both ends, as at two nodes.
struct Nodes {
    near: NodeAdmission,
    far: NodeAdmission,
    near_link: Sender<'static>,
    granted: Vec<(usize, ChannelRequest, isorb_reflective_memory::admission::Grant)>,
}

impl Nodes {
    fn new(config: &NodeConfig) -> Nodes {
        let near_link = Sender { node: "near", link_bits_per_s: config.link_bits_per_s };
        let [near, far] = [(); 2].map(|()| NodeAdmission::new(config));
        Nodes { near, far, near_link, granted: Vec::new() }
    }

    fn admit(&mut self, size: usize, request: ChannelRequest) -> Result<(), Refused> {
        let far = self.far.admit_receive("line", &channel(size), request, self.near_link)?;
        match self.near.admit_push("line", &channel(size), request) {
            Ok(grant) => {
                self.granted.push((size, request, grant));
                Ok(())
            }
            Err(refused) => {
                self.far.release(&far);
                Err(refused)
            }
        }
    }

    /// The admitted channels, with the promotion times beside all others.
    fn enter(&self, world: &mut World) {
        for (size, request, grant) in &self.granted {
            let guarantee = Guarantee { promotion_ns: self.near.promotion(grant), ..grant.guarantee };
            world.line(*size, *request, Some(guarantee));
        }
    }
}

/// Three areas that would fill any link.
fn flood(world: &mut World) {
    for _ in 0..3 {
        world.line(50_000, ChannelRequest { period_ns: 5 * MS, deadline_ns: u64::MAX }, None);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn admitted_channels_are_answered_in_time(
        wishes in prop::collection::vec((32usize..12_000, 0usize..4, 15u64..100), 40),
        mbit in prop::sample::select(vec![10u64, 100, 1000]),
        flooded in any::<bool>(),
        near_speed in prop::sample::select(vec![1u64, 5, 20]),
    ) {
        let config = NodeConfig { link_bits_per_s: mbit * 1_000_000, ..NodeConfig::default() };
        let mut nodes = Nodes::new(&config);
        for (size, period, percent) in wishes {
            let period_ns = [20, 50, 100, 200][period] * MS;
            let _ = nodes.admit(size, ChannelRequest { period_ns, deadline_ns: period_ns * percent / 100 });
        }
        let mut world = World::new(&config);
        nodes.enter(&mut world);
        flood(&mut world);
        (world.flooded, world.near_speed) = (flooded, near_speed);
        world.run(600 * MS);
        for (line, (size, request, _)) in world.lines.iter().zip(&nodes.granted) {
            let values = line.written.len() as u64;
            prop_assert!(
                line.missed == 0 && line.shown == values && values >= 3,
                "{size} octets, {request:?}: worst {} ns, {} of {values} missed, {:?}",
                line.worst_ns, line.missed, world.near.push_stats(line.key)
            );
        }
    }
}

/// Eight values of 4 KiB take 30 ms of a link of 10 Mbit/s, and each must be there after 20; only a
/// third of the link is asked for.
#[test]
fn a_refused_set_misses_when_forced_in() {
    let config = NodeConfig { link_bits_per_s: 10_000_000, ..NodeConfig::default() };
    let request = ChannelRequest { period_ns: 100 * MS, deadline_ns: 20 * MS };
    let mut nodes = Nodes::new(&config);
    while nodes.admit(4096, request).is_ok() {}
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
        forced.line(4096, request, Some(like));
    }
    flood(&mut forced);
    forced.run(600 * MS);
    let missed: u64 = forced.lines[..8].iter().map(|line| line.missed).sum();
    assert!(missed >= 6, "each of six rounds has a last one, and it is late: {missed}");
}

/// Large values arrive faster than the reader's node receives them; an urgent small one arrives
/// behind them.
fn behind_large_values(in_order: bool) -> Line {
    let costs = Costs { push_ns: 50_000, datagram_ns: 50_000, kib_ns: 1_000, call_ns: None };
    let config = NodeConfig { costs, link_bits_per_s: 1_000_000_000, ..NodeConfig::default() };
    let mut nodes = Nodes::new(&config);
    for _ in 0..6 {
        nodes.admit(60_000, ChannelRequest { period_ns: 250 * MS, deadline_ns: 249 * MS }).unwrap();
    }
    // Each twentieth value is written two milliseconds after the large ones.
    nodes.admit(64, ChannelRequest { period_ns: 12_600_000, deadline_ns: 8 * MS }).unwrap();
    let mut world = World::new(&config);
    nodes.enter(&mut world);
    (world.near_speed, world.reader.in_order) = (10, in_order);
    world.run(600 * MS);
    assert!(world.lines[..6].iter().all(|line| (line.missed, line.shown) == (0, 3)));
    world.lines.swap_remove(6)
}

#[test]
fn at_the_readers_node_the_most_urgent_is_taken_in_first() {
    let urgent = behind_large_values(false);
    assert_eq!((urgent.missed, urgent.shown), (0, urgent.written.len() as u64), "worst {}", urgent.worst_ns);
    assert!(urgent.worst_ns < 2 * MS, "{}", urgent.worst_ns);
    let control = behind_large_values(true);
    assert!(control.missed >= 1, "in order of arrival it must be late: worst {}", control.worst_ns);
}

/// The same channels, never promoted: best effort always goes first.
#[test]
fn without_promotion_an_admitted_set_misses() {
    let config = NodeConfig { link_bits_per_s: 10_000_000, ..NodeConfig::default() };
    let missed = |promoted: bool| {
        let mut nodes = Nodes::new(&config);
        while nodes.admit(4096, ChannelRequest { period_ns: 100 * MS, deadline_ns: 60 * MS }).is_ok() {}
        let mut world = World::new(&config);
        for (size, request, grant) in &nodes.granted {
            let promotion_ns = if promoted { nodes.near.promotion(grant) } else { 1 << 50 };
            world.line(*size, *request, Some(Guarantee { promotion_ns, ..grant.guarantee }));
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
    nodes.admit(4096, ChannelRequest { period_ns: 100 * MS, deadline_ns: 90 * MS }).unwrap();
    let mut world = World::new(&config);
    world.near.record(100_000);
    nodes.enter(&mut world);
    flood(&mut world);
    world.run(300 * MS);
    let names = ["plant", "film", "mail", "news"];
    let agents =
        world.lines.iter().zip(names).map(|(line, name)| (line.key.number(), name.to_owned())).collect();
    let recorded = Recorded { track: world.near.recorded("memory-disp-0"), agents };
    let participant = |(releases, id, name)| Participant {
        role: if releases { Role::Supplier } else { Role::Consumer },
        id,
        name,
        deadline: None,
    };
    let recording = Recording {
        name: "near".into(),
        participants: recorded.rows().into_iter().map(participant).collect(),
        tracks: vec![recorded.track],
        ..Recording::default()
    };
    let timeline = Timeline::of("pushes", &[recording]);
    let row = |name: &str| timeline.rows.iter().find(|row| row.name == name);
    let upper = row("plant: upper").expect("it was promoted");
    let promoted: Vec<u64> =
        upper.marks.iter().filter(|mark| mark.kind == RecordKind::Timeout).map(|mark| mark.at).collect();
    assert_eq!((promoted.len(), upper.runs.len()), (3, 9), "three values of three datagrams: {upper:?}");
    let released = &row("plant").expect("it was released").marks;
    let middle: Vec<_> = (timeline.rows.iter().filter(|row| row.name.ends_with(": middle")))
        .flat_map(|row| &row.runs)
        .collect();
    for (value, at) in promoted.iter().enumerate() {
        let (release, last) = (released[value].at, upper.runs[3 * value + 2].end);
        assert!(release < *at && *at < last, "{release} {at} {last}");
        assert!(middle.iter().any(|run| release < run.start && run.start < *at), "best effort goes first");
        let between = middle.iter().filter(|run| *at < run.start && run.start < last).count();
        assert_eq!(between, 0, "after promotion no agent comes between");
    }
    assert!(timeline.page().contains("plant: upper"));
}

/// The most urgent agent costs sixty times what it declared.
fn with_a_hog(charged: bool) -> (Line, PushStats) {
    let costs = Costs { push_ns: 50_000, datagram_ns: 50_000, kib_ns: 1_000, call_ns: None };
    let config = NodeConfig { costs, link_bits_per_s: 10_000_000_000, ..NodeConfig::default() };
    let mut nodes = Nodes::new(&config);
    nodes.admit(50_000, ChannelRequest { period_ns: 200 * MS, deadline_ns: 60 * MS }).unwrap();
    nodes.admit(2_000, ChannelRequest { period_ns: 100 * MS, deadline_ns: 70 * MS }).unwrap();
    let mut world = World::new(&config);
    nodes.enter(&mut world);
    world.lines[0].hog = 60;
    world.charged = charged;
    world.run(600 * MS);
    let stats = world.stats(0);
    (world.lines.swap_remove(1), stats)
}

#[test]
fn a_task_that_costs_more_than_declared_harms_only_itself() {
    let (other, stats) = with_a_hog(true);
    assert!(stats.contained >= 3, "{stats:?}");
    assert_eq!((other.missed, other.shown), (0, 6), "worst {}", other.worst_ns);
    let (other, stats) = with_a_hog(false);
    assert_eq!(stats.contained, 0, "no agent was contained");
    assert!(other.missed > 0, "the control must fail: worst {}", other.worst_ns);
}
