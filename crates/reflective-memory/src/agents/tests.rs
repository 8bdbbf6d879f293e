//! Planes in virtual time: two nodes and a link between them that takes its time a byte.

mod clocks;
mod credits;
mod group_credits;
mod heartbeats;
mod two_paths;

use super::*;
use crate::memory::{Geometry, Reader, Segment, State, Writer};
use crate::wire::Channel;
use isorb_rt::clock_sync::RoundTrips;
use std::net::{Ipv4Addr, SocketAddrV4};

const MS: u64 = 1_000_000;
const FROM: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 1));
const TO: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 2));

/// The writer's node, a link of so many ns a byte, the reader's node.
struct World {
    near: AgentScheduler,
    far: AgentScheduler,
    now: u64,
    ns_per_byte: u64,
    /// Loses the next so many datagrams.
    lose: usize,
    /// The first credit of channels.
    credit: Option<u64>,
    log: Vec<(u64, PushKey, Band)>,
}

/// A writer and what its remote reader sees.
struct Line {
    writer: Writer,
    reader: Reader,
    push: PushKey,
    channel: u32,
}

impl World {
    fn new(ns_per_byte: u64) -> World {
        let config = SchedulerConfig {
            pushes: 16,
            receives: 16,
            heartbeat_ns: 100 * MS,
            refresh_ns: 1000 * MS,
            link_bytes_per_s: 0,
        };
        let now = 1_000 * MS;
        World {
            near: AgentScheduler::new(config),
            far: AgentScheduler::new(config),
            now,
            ns_per_byte,
            lose: 0,
            credit: None,
            log: Vec::new(),
        }
    }

    fn line(&mut self, size: usize, mode: Mode, guarantee: Option<Guarantee>, fresh_ns: Option<u64>) -> Line {
        let geometry = Geometry::new(size, 1).unwrap();
        let (source, replica) =
            (Segment::create("near", geometry).unwrap(), Segment::create("far", geometry).unwrap());
        let id = self.far.reserve().unwrap();
        let channel = Channel { id, epoch: 1, token: 42, size, fragment: 1000, parity: 0 };
        let target = replica.writer().unwrap();
        let spec = ReceiveSpec {
            channel,
            peer: FROM,
            target,
            fresh_ns,
            silence_ns: 350 * MS,
            second: None,
            deadline_ns: None,
            clock: RoundTrips::default(),
        };
        let agent = ReceiveAgent::new(spec).unwrap();
        let agent = self.credit.into_iter().fold(agent, ReceiveAgent::credit);
        assert_eq!(self.far.add_receive(agent, self.now), Ok(id));
        let source_reader = source.reader().unwrap();
        let spec = PushSpec {
            channel,
            to: TO,
            second: None,
            source: source_reader,
            mode,
            guarantee,
            rate: 0,
            burst: 0,
        };
        let agent = self.credit.into_iter().fold(PushAgent::new(spec).unwrap(), PushAgent::credit);
        let push = self.near.add_push(agent, self.now).unwrap();
        Line { writer: source.writer().unwrap(), reader: replica.reader().unwrap(), push, channel: id }
    }

    /// Lets both nodes do what they do until `until`.
    fn run(&mut self, until: u64) {
        let mut out = vec![0; 2000];
        while self.now < until {
            match self.near.next_action(self.now, &mut out) {
                // They cost nothing here, so that the tests see pushes and heartbeats only.
                Action::Send { len, .. } if is_answer(&out[..len]) => {
                    self.far.received(FROM, &out[..len], self.now);
                }
                Action::Send { to, len, push, band, .. } => {
                    assert_eq!(to, TO);
                    self.now += len as u64 * self.ns_per_byte;
                    self.log.push((self.now, push, band));
                    if self.lose > 0 {
                        self.lose -= 1;
                    } else {
                        self.far.received(FROM, &out[..len], self.now);
                    }
                    self.near.charge(push, 1000);
                }
                Action::Report { .. } => panic!("the writer's node has no receive agents"),
                Action::Idle { until_ns } => self.now = until_ns.unwrap_or(until).clamp(self.now + 1, until),
            }
            while let Action::Report { to, len, .. } = self.far.next_action(self.now, &mut out) {
                assert_eq!(to, FROM);
                self.near.received(TO, &out[..len], self.now);
            }
        }
    }

    fn write(&mut self, line: &mut Line, value: &[u8]) {
        line.writer.write_at(value, self.now).unwrap();
        self.near.written_to(line.push, self.now);
    }
}

fn is_answer(octets: &[u8]) -> bool {
    Datagram::read(octets).is_ok_and(|datagram| datagram.kind == Kind::Answer)
}

fn latest(line: &mut Line) -> Option<(u64, Vec<u8>)> {
    let mut out = vec![0; 100_000];
    let sample = line.reader.latest(&mut out).ok()?;
    Some((sample.source, out[..sample.len].to_vec()))
}

fn guarantee(period: u64, deadline: u64, response: u64) -> Option<Guarantee> {
    let promotion_ns = deadline - response;
    Some(Guarantee { period_ns: period, deadline_ns: deadline, promotion_ns, cost_ns: MS })
}

#[test]
fn what_is_written_here_appears_there() {
    let mut world = World::new(1);
    let mut line = world.line(5000, Mode::OnWrite, None, None);
    world.run(1_010 * MS);
    assert_eq!(latest(&mut line), None);
    for n in 1..=3u8 {
        world.write(&mut line, &vec![n; 1000 * usize::from(n)]);
        world.run(world.now + MS);
        assert_eq!(latest(&mut line), Some((u64::from(n), vec![n; 1000 * usize::from(n)])));
    }
    let stats = world.near.push_stats(line.push).unwrap();
    assert_eq!((stats.pushes, stats.skipped, stats.datagrams), (3, 0, 6));
    let stats = world.far.receive_stats(line.channel).unwrap();
    assert_eq!((stats.shown, stats.counters.complete, stats.state), (3, 3, State::Open));
    assert_eq!(world.near.remove_push(line.push).map(|stats| stats.pushes), Some(3));
    assert_eq!(world.near.remove_push(line.push), None);
    assert!(world.far.remove_receive(line.channel).is_some());
}

#[test]
fn a_periodic_push_takes_the_latest_value_at_its_own_rate() {
    let mut world = World::new(1);
    let mut line = world.line(100, Mode::Periodic { period_ns: 10 * MS }, None, None);
    for n in 0..100u8 {
        world.write(&mut line, &[n]);
        world.run(1_000 * MS + u64::from(n) * MS + MS);
    }
    let stats = world.near.push_stats(line.push).unwrap();
    assert!((9..=11).contains(&stats.pushes), "{stats:?}");
    assert!(stats.skipped >= 80, "{stats:?}");
    let seen = world.far.receive_stats(line.channel).unwrap();
    assert_eq!(seen.shown, stats.pushes);
}

/// A guaranteed push of 10 datagrams every 40 ms with 30 ms to spare, against best effort that
/// never ends.
fn under_load(promotion: bool) -> (PushStats, Vec<(u64, PushKey, Band)>, Vec<PushKey>) {
    let mut world = World::new(1_000);
    let mut greedy: Vec<Line> = (0..3).map(|_| world.line(50_000, Mode::OnWrite, None, None)).collect();
    let response = if promotion { 15 * MS } else { 0 };
    let mut bounded = guarantee(40 * MS, 35 * MS, response);
    if !promotion {
        bounded = bounded.map(|bound| Guarantee { promotion_ns: 1 << 50, ..bound });
    }
    let mut real_time = world.line(10_000, Mode::OnWrite, bounded, None);
    for round in 0..50u64 {
        world.write(&mut real_time, &[round as u8; 10_000]);
        for step in 0..4 {
            for line in &mut greedy {
                world.write(line, &[round as u8; 50_000]);
            }
            world.run(1_000 * MS + round * 40 * MS + (step + 1) * 10 * MS);
        }
    }
    let stats = world.near.push_stats(real_time.push).unwrap();
    (stats, world.log, greedy.iter().map(|line| line.push).chain([real_time.push]).collect())
}

#[test]
fn a_guaranteed_push_waits_as_long_as_it_can_and_no_longer() {
    let (stats, log, keys) = under_load(true);
    assert_eq!(stats.missed, 0, "{stats:?}");
    assert!(stats.pushes >= 49 && stats.promoted >= 49, "{stats:?}");
    assert!(stats.worst_response_ns > 20 * MS, "best effort went first: {stats:?}");
    // After promotion, no other agent came between.
    let of = |key| log.iter().filter(move |(_, push, _)| *push == key);
    // Here and there a round begins a little early, and its first datagrams share with best effort.
    let upper = of(keys[3]).filter(|(_, _, band)| *band == Band::Upper).count();
    assert!(upper >= 450, "{upper}");
    let bytes: Vec<usize> = keys[..3].iter().map(|key| of(*key).count()).collect();
    let (least, most) = (bytes.iter().min().unwrap(), bytes.iter().max().unwrap());
    assert!(most - least <= 110, "best effort shared what was left: {bytes:?}");
}

#[test]
fn without_promotion_it_misses() {
    let (stats, _, _) = under_load(false);
    assert!(stats.missed > 0 || stats.pushes < 25, "the control must fail: {stats:?}");
}

#[test]
fn the_more_urgent_of_two_goes_first() {
    let mut world = World::new(1_000);
    let mut slow = world.line(50_000, Mode::OnWrite, guarantee(200 * MS, 200 * MS, 200 * MS), None);
    let mut fast = world.line(1_000, Mode::OnWrite, guarantee(20 * MS, 5 * MS, 5 * MS), None);
    world.write(&mut slow, &[1; 50_000]);
    for _ in 0..5 {
        world.run(world.now + 3 * MS);
        world.write(&mut fast, &[2; 1_000]);
        world.run(world.now + 20 * MS);
    }
    let stats = world.near.push_stats(fast.push).unwrap();
    assert_eq!((stats.pushes, stats.missed), (5, 0));
    assert!(stats.worst_response_ns < 3 * MS, "it waits for one datagram at most: {stats:?}");
    assert_eq!(world.near.push_stats(slow.push).unwrap().missed, 0);
}

#[test]
fn a_writer_that_is_faster_than_declared_is_held_to_it() {
    let mut world = World::new(1);
    let mut line = world.line(100, Mode::OnWrite, guarantee(50 * MS, 20 * MS, MS), None);
    for n in 0..100u8 {
        world.write(&mut line, &[n]);
        world.run(1_000 * MS + u64::from(n) * 5 * MS + 5 * MS);
    }
    let stats = world.near.push_stats(line.push).unwrap();
    // One a period with the guarantee, one between as best effort.
    assert!((19..=21).contains(&stats.pushes) && stats.early >= 80, "{stats:?}");
    // The newest value is what goes.
    world.run(world.now + 60 * MS);
    assert_eq!(latest(&mut line), Some((100, vec![99])));
}

/// The dispatcher looks late once. If what comes early had to wait for its period, each push from
/// then on would be as late.
#[test]
fn one_late_look_does_not_make_all_later_pushes_late() {
    let mut world = World::new(1);
    let mut line = world.line(100, Mode::OnWrite, guarantee(50 * MS, 20 * MS, 20 * MS), None);
    let start = world.now;
    for round in 0..20u64 {
        let at = start + round * 50 * MS;
        world.run(at);
        line.writer.write_at(&[round as u8; 100], at).unwrap();
        // The doorbell is read 18 ms late in the fourth round, and at once in all others.
        world.run(if round == 3 { at + 18 * MS } else { at });
        world.near.written_to(line.push, world.now);
        world.run(world.now + MS);
        assert_eq!(latest(&mut line).unwrap().0, round + 1, "round {round} is not there a millisecond later");
    }
    let stats = world.near.push_stats(line.push).unwrap();
    assert_eq!((stats.pushes, stats.missed, stats.contained), (20, 0, 0), "{stats:?}");
    assert_eq!(stats.early, 1, "only the one after it came early: {stats:?}");
}

#[test]
fn what_went_ahead_of_its_time_has_its_guarantee_when_that_comes() {
    let mut world = World::new(10_000);
    let bounded = guarantee(50 * MS, 45 * MS, 45 * MS);
    let mut line = world.line(2_000, Mode::OnWrite, bounded, None);
    let mut bulk = world.line(50_000, Mode::OnWrite, None, None);
    world.write(&mut line, &[1; 2_000]);
    world.run(world.now + 45 * MS);
    // Five milliseconds too early, and the link is full of others: ten milliseconds a datagram.
    for _ in 0..2 {
        world.write(&mut bulk, &[9; 50_000]);
    }
    world.write(&mut line, &[2; 2_000]);
    world.run(world.now + 40 * MS);
    let bands: Vec<Band> =
        world.log.iter().filter(|(_, push, _)| *push == line.push).map(|(_, _, band)| *band).collect();
    assert_eq!(bands.last(), Some(&Band::Upper), "{bands:?}");
    assert_eq!(latest(&mut line).unwrap().0, 2);
    let stats = world.near.push_stats(line.push).unwrap();
    assert_eq!((stats.pushes, stats.early, stats.missed), (2, 1, 0), "{stats:?}");
}

#[test]
fn heartbeats_do_not_hold_up_what_was_promoted() {
    let mut world = World::new(1_000);
    let mut urgent = world.line(1_000, Mode::OnWrite, guarantee(100 * MS, 20 * MS, 20 * MS), None);
    let idle: Vec<Line> = (0..14).map(|_| world.line(8, Mode::OnWrite, None, None)).collect();
    // All heartbeats are due at once, and so is a push.
    world.run(world.now + 100 * MS - 1);
    world.now += 1;
    world.write(&mut urgent, &[1; 1_000]);
    let begin = world.log.len();
    world.run(world.now + 10 * MS);
    assert_eq!(world.log[begin].1, urgent.push);
    assert!(world.log.len() >= begin + 15, "and the heartbeats follow");
    assert_eq!(world.far.receive_stats(idle[0].channel).unwrap().state, State::Open);
}

#[test]
fn a_reader_that_costs_more_than_declared_goes_on_as_best_effort() {
    let mut world = World::new(1_000);
    let cheap = Guarantee { period_ns: 100 * MS, deadline_ns: 100 * MS, promotion_ns: 0, cost_ns: 3_500 };
    let mut line = world.line(10_000, Mode::OnWrite, Some(cheap), None);
    world.write(&mut line, &[1; 10_000]);
    world.run(world.now + 50 * MS);
    let bands: Vec<Band> = world.log.iter().map(|(_, _, band)| *band).collect();
    // A datagram costs 1 us here: the fourth is the first over the budget.
    assert_eq!(bands[..4], [Band::Upper; 4]);
    assert_eq!(bands[4..10], [Band::Middle; 6]);
    let stats = world.near.push_stats(line.push).unwrap();
    assert_eq!((stats.contained, stats.pushes), (1, 1));
    assert_eq!(latest(&mut line).unwrap().0, 1, "it arrives all the same");
}

#[test]
fn the_rate_of_a_channel_is_kept() {
    let mut world = World::new(0);
    let geometry = Geometry::new(20_000, 0).unwrap();
    let source = Segment::create("near", geometry).unwrap();
    let channel = Channel { id: 0, epoch: 1, token: 1, size: 20_000, fragment: 1000, parity: 0 };
    let spec = PushSpec {
        channel,
        to: TO,
        second: None,
        source: source.reader().unwrap(),
        mode: Mode::OnWrite,
        guarantee: None,
        rate: 1_000_000,
        burst: 2_000,
    };
    let push = world.near.add_push(PushAgent::new(spec).unwrap(), world.now).unwrap();
    source.writer().unwrap().write(&[7; 20_000]).unwrap();
    world.near.written_to(push, world.now);
    let start = world.now;
    world.run(start + 100 * MS);
    let last = world.log.iter().filter(|(at, ..)| *at < start + 50 * MS).map(|(at, ..)| at).max().unwrap();
    // 20 datagrams of 1130 bytes on the wire at a megabyte a second, less the burst and the last.
    assert!((18 * MS..24 * MS).contains(&(last - start)), "{}", last - start);
}

#[test]
fn stale_silent_and_back() {
    let mut world = World::new(1);
    let mut line = world.line(100, Mode::OnWrite, None, Some(50 * MS));
    world.write(&mut line, &[1]);
    world.run(world.now + 30 * MS);
    assert_eq!(line.reader.state(), Some(State::Open));
    world.run(world.now + 40 * MS);
    assert_eq!(line.reader.state(), Some(State::Stale), "nothing was written for 50 ms");
    world.write(&mut line, &[2]);
    world.run(world.now + MS);
    assert_eq!(line.reader.state(), Some(State::Open));
    // Now the writer's node falls silent: within the bound its readers know.
    world.lose = usize::MAX;
    world.run(world.now + 349 * MS);
    assert_ne!(line.reader.state(), Some(State::WriterGone));
    world.run(world.now + 10 * MS);
    assert_eq!(line.reader.state(), Some(State::WriterGone));
    assert_eq!(latest(&mut line), Some((2, vec![2])), "the last complete value stays");
    world.lose = 0;
    world.write(&mut line, &[3]);
    world.run(world.now + MS);
    assert_eq!((line.reader.state(), latest(&mut line)), (Some(State::Open), Some((3, vec![3]))));
    let stats = world.far.receive_stats(line.channel).unwrap();
    assert_eq!((stats.silent, stats.stale), (1, 2));
}

#[test]
fn a_lost_value_that_does_not_change_comes_again() {
    let mut world = World::new(1);
    let mut line = world.line(100, Mode::OnWrite, guarantee(2_000 * MS, 10 * MS, MS), None);
    world.lose = 1;
    world.write(&mut line, &[9]);
    world.run(world.now + 500 * MS);
    assert_eq!(latest(&mut line), None);
    world.run(world.now + 1_200 * MS);
    assert_eq!(latest(&mut line), Some((1, vec![9])));
    world.run(world.now + 5_000 * MS);
    let stats = world.far.receive_stats(line.channel).unwrap();
    assert_eq!(stats.shown, 1, "what is shown already is not shown again");
    assert!(stats.counters.complete >= 4 && stats.counters.lost == 1, "{stats:?}");
    assert!(world.near.push_stats(line.push).unwrap().refreshed >= 4);
}

#[test]
fn a_stopped_channel_says_so_and_starts_again() {
    let mut world = World::new(1);
    let mut line = world.line(100, Mode::OnWrite, None, None);
    assert!(world.near.set_running(line.push, false, world.now));
    world.write(&mut line, &[1]);
    world.run(world.now + 300 * MS);
    assert_eq!((line.reader.state(), latest(&mut line)), (Some(State::Stopped), None));
    assert!(world.near.set_running(line.push, true, world.now));
    world.run(world.now + MS);
    assert_eq!((line.reader.state(), latest(&mut line)), (Some(State::Open), Some((1, vec![1]))));
    // The writer's end is told, too.
    line.writer.set_state(State::WriterGone);
    world.run(world.now + 300 * MS);
    assert_eq!(line.reader.state(), Some(State::WriterGone));
}

#[test]
fn tables_are_bounded() {
    let mut world = World::new(1);
    let lines: Vec<Line> = (0..16).map(|_| world.line(8, Mode::OnWrite, None, None)).collect();
    assert_eq!(world.far.reserve(), Err(SchedulerError::Full { capacity: 16 }));
    let segment = Segment::create("x", Geometry::new(8, 0).unwrap()).unwrap();
    let channel = Channel { id: 0, epoch: 1, token: 1, size: 8, fragment: 8, parity: 0 };
    let spec = |source| PushSpec {
        channel,
        to: TO,
        second: None,
        source,
        mode: Mode::OnWrite,
        guarantee: None,
        rate: 0,
        burst: 0,
    };
    let full = world.near.add_push(PushAgent::new(spec(segment.reader().unwrap())).unwrap(), world.now);
    assert_eq!(full, Err(SchedulerError::Full { capacity: 16 }));
    world.near.remove_push(lines[3].push).unwrap();
    let new =
        world.near.add_push(PushAgent::new(spec(segment.reader().unwrap())).unwrap(), world.now).unwrap();
    assert_ne!(new, lines[3].push);
    assert!(world.near.push_stats(lines[3].push).is_none(), "a stale name finds nothing");
    assert_eq!(world.far.received(FROM, &[0; 10], world.now), None);
    assert_eq!(world.far.strays(), 1);
}

#[test]
fn on_a_full_link_the_most_urgent_waits_for_one_datagram_at_most() {
    let mut world = World::new(0);
    // A megabyte a second: a datagram of 1130 bytes takes 1.13 ms, and the burst three.
    world.near = AgentScheduler::new(SchedulerConfig {
        pushes: 16,
        receives: 16,
        heartbeat_ns: 1_000 * MS,
        refresh_ns: 0,
        link_bytes_per_s: 1_000_000,
    });
    let mut bulk = world.line(50_000, Mode::OnWrite, None, None);
    let mut urgent = world.line(1_000, Mode::OnWrite, guarantee(100 * MS, 20 * MS, 20 * MS), None);
    for round in 1..=10u64 {
        world.write(&mut bulk, &[round as u8; 50_000]);
        world.run(world.now + 37 * MS);
        world.write(&mut urgent, &[round as u8; 1_000]);
        world.write(&mut bulk, &[round as u8; 50_000]);
        world.run(world.now + 63 * MS);
        assert_eq!(latest(&mut urgent).unwrap().0, round);
    }
    let stats = world.near.push_stats(urgent.push).unwrap();
    assert!(stats.worst_response_ns < 2 * MS, "{stats:?}");
    let sent: u64 =
        [bulk.push, urgent.push].iter().map(|key| world.near.push_stats(*key).unwrap().octets).sum();
    assert!(
        (800_000..1_010_000).contains(&sent),
        "the link is used and not overrun: {sent} octets in a second"
    );
}
