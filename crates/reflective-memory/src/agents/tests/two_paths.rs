//! Two paths between two nodes, of which the first is cut and comes back while values are under
//! way, and both repeat and reorder what goes over them: nothing is torn, shown twice or shown
//! again, and every push is counted once.

use super::*;
use crate::memory::Source;
use isorb_rt::clock_sync::RoundTrips;
use std::collections::{BTreeMap, HashSet};

const SIZE: usize = 4_000;
/// A path that is silent for so long has failed.
const AFTER_NS: u64 = 230 * MS;
/// The delay of a path; a delayed datagram arrives up to four times as late.
const DELAY_NS: u64 = MS;

fn address(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

/// The writer's node at each path's ports, and the reader's.
const NEAR: [u16; 2] = [1, 2];
const FAR: [u16; 2] = [3, 4];

/// Both nodes and what is under way between them.
struct Two {
    near: AgentScheduler,
    far: AgentScheduler,
    now: u64,
    random: u64,
    cut: bool,
    /// Datagrams by when they arrive, with the path and whether they go to the reader's node.
    under_way: BTreeMap<(u64, u64), (Via, bool, Vec<u8>)>,
    sent: u64,
    /// Pushes of which a datagram was sent over the first path while it was cut.
    into_the_cut: HashSet<u64>,
    /// The reader's choices, each as it was said first.
    choices: Vec<Vec<u8>>,
    /// The path that no datagram comes through.
    dead: Option<Via>,
}

fn is_choice(octets: &[u8]) -> bool {
    Datagram::read(octets).is_ok_and(|datagram| datagram.kind == Kind::Choice)
}

impl Two {
    fn random(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % below
    }

    fn send(&mut self, via: Via, there: bool, octets: &[u8]) {
        if !there && is_choice(octets) {
            self.choices.push(octets.to_vec());
        }
        if self.dead == Some(via) {
            return;
        }
        if via == Via::First && self.cut {
            self.into_the_cut.extend(Datagram::read(octets).ok().filter(|_| there).map(|d| d.push));
            return;
        }
        for _ in 0..1 + u64::from(self.random(10) == 0) {
            let late = if self.random(10) == 0 { self.random(4 * DELAY_NS) } else { 0 };
            self.sent += 1;
            self.under_way.insert((self.now + DELAY_NS + late, self.sent), (via, there, octets.to_vec()));
        }
        // A router carries it over to the other path as well.
        if self.dead.is_none() && self.random(20) == 0 && !(self.cut && via == Via::Second) {
            let other = if via == Via::First { Via::Second } else { Via::First };
            self.sent += 1;
            self.under_way.insert((self.now + 2 * DELAY_NS, self.sent), (other, there, octets.to_vec()));
        }
    }

    fn run(&mut self, until: u64) {
        let mut out = vec![0; 2000];
        while self.now < until {
            while let Some(first) = self.under_way.first_entry().filter(|first| first.key().0 <= self.now) {
                let (via, there, octets) = first.remove();
                match there {
                    true => self.far.received(address(NEAR[via as usize]), &octets, self.now),
                    false => self.near.received(address(FAR[via as usize]), &octets, self.now),
                };
            }
            let mut next = self.under_way.first_key_value().map_or(until, |((at, _), _)| *at);
            match self.near.next_action(self.now, &mut out) {
                Action::Send { to, via, len, push, .. } => {
                    assert_eq!(to, address(FAR[via as usize]));
                    self.send(via, true, &out[..len]);
                    self.near.charge(push, 1000);
                    // A datagram takes its time to go.
                    next = self.now + MS / 10;
                }
                Action::Report { .. } => panic!("the writer's node has no receive agents"),
                Action::Idle { until_ns } => next = next.min(until_ns.unwrap_or(until)),
            }
            loop {
                match self.far.next_action(self.now, &mut out) {
                    Action::Report { to, via, len, .. } => {
                        assert_eq!(to, address(NEAR[via as usize]));
                        self.send(via, false, &out[..len]);
                    }
                    Action::Send { .. } => panic!("the reader's node pushes nothing"),
                    Action::Idle { until_ns } => {
                        next = next.min(until_ns.unwrap_or(until));
                        break;
                    }
                }
            }
            self.now = next.clamp(self.now + 1, until);
        }
    }
}

fn begin(seed: u64, guarantee: Option<Guarantee>) -> (Two, Line) {
    let config = SchedulerConfig {
        pushes: 4,
        receives: 4,
        heartbeat_ns: 100 * MS,
        refresh_ns: 1000 * MS,
        link_bytes_per_s: 0,
    };
    let now = 1_000 * MS;
    let (mut near, mut far) = (AgentScheduler::new(config), AgentScheduler::new(config));
    let geometry = Geometry::new(SIZE, 1).unwrap();
    let [source, replica] = ["near", "far"].map(|name| Segment::create(name, geometry).unwrap());
    let id = far.reserve().unwrap();
    let channel = Channel { id, epoch: 1, token: 42, size: SIZE, fragment: 1000, parity: 0 };
    let spec = ReceiveSpec {
        channel,
        peer: address(NEAR[0]),
        target: replica.writer().unwrap(),
        fresh_ns: None,
        silence_ns: 350 * MS,
        second: Some(SecondPath { peer: address(NEAR[1]), after_ns: AFTER_NS }),
        deadline_ns: guarantee.map(|guarantee| guarantee.deadline_ns),
        clock: RoundTrips::default(),
    };
    far.add_receive(ReceiveAgent::new(spec).unwrap(), now).unwrap();
    let spec = PushSpec {
        channel,
        to: address(FAR[0]),
        second: Some(address(FAR[1])),
        source: source.reader().unwrap(),
        mode: Mode::OnWrite,
        guarantee,
        rate: 0,
        burst: 0,
    };
    let push = near.add_push(PushAgent::new(spec).unwrap(), now).unwrap();
    let (writer, reader) = (source.writer().unwrap(), replica.reader().unwrap());
    let two = Two {
        near,
        far,
        now,
        random: 0x9e37_79b9_7f4a_7c15 ^ seed,
        cut: false,
        under_way: BTreeMap::new(),
        sent: 0,
        into_the_cut: HashSet::new(),
        choices: Vec::new(),
        dead: None,
    };
    (two, Line { writer, reader, push, channel: id })
}

/// Gives how many pushes were counted as not complete, and how many went into the cut.
fn through_a_cut(seed: u64, guarantee: Option<Guarantee>) -> (u64, u64) {
    let (mut two, mut line) = begin(seed, guarantee);
    let (mut shown, mut out) = (0, vec![0; SIZE]);
    let cut_at = 200 + two.random(50);
    let back_at = cut_at + 300 + two.random(50);
    for n in 1..=1_000_u64 {
        // In the middle of a burst.
        two.cut = (cut_at..back_at).contains(&n);
        for burst in 0..3 {
            let number = 3 * (n - 1) + burst + 1;
            let source = Source { sequence: number, epoch: 1, bound_ns: 0 };
            line.writer.draft().put(0, &vec![number as u8; SIZE - number as usize % 50]).unwrap();
            line.writer.publish_as(SIZE - number as usize % 50, two.now, source).unwrap();
            two.near.written_to(line.push, two.now);
            two.run(two.now + MS / 5);
            // Each that is shown, in order.
            while let Some(sample) = line.reader.next(&mut out).unwrap() {
                assert!(sample.source > shown, "{} after {shown}", sample.source);
                assert_eq!(sample.len, SIZE - sample.source as usize % 50, "seed {seed}");
                assert!(out[..sample.len].iter().all(|octet| *octet == sample.source as u8), "torn");
                shown = sample.source;
            }
        }
        two.run(two.now + 4 * MS);
    }
    two.run(two.now + 3_000 * MS);
    assert_eq!(line.reader.latest(&mut out).unwrap().source, 3_000, "the latest comes in the end");
    // A push again of what does not change may be under way.
    let end = two.now + 5_000 * MS;
    let (stats, c) = loop {
        let begun = two.near.push_stats(line.push).unwrap().begun;
        let stats = two.far.receive_stats(line.channel).unwrap();
        let c = stats.counters;
        if c.complete + c.incomplete + c.lost == begun {
            break (stats, c);
        }
        assert!(two.now < end, "seed {seed}: {c:?} of {begun}");
        two.run(two.now + 7 * MS);
    };
    assert_eq!((c.forged, c.malformed, c.other_epoch), (0, 0, 0));
    assert!(c.repeated > 0 && c.late > 0, "{c:?}");
    assert_eq!(
        (stats.switches, stats.silent),
        (2, 0),
        "seed {seed}: there and back, and no death was reported"
    );
    (c.incomplete + c.lost, two.into_the_cut.len() as u64)
}

#[test]
fn values_under_way_on_two_paths_are_shown_once_and_counted_once() {
    for guarantee in [None, guarantee(4 * MS, 4 * MS, 2 * MS)] {
        for seed in 1..=8 {
            let (lost, cut) = through_a_cut(seed, guarantee);
            assert!(cut > 0, "nothing was under way");
            // Beside what went into the cut, reordering costs a push now and then.
            assert!(lost >= 1 && lost <= cut + 600, "seed {seed}: {lost} of {cut} in the cut");
        }
    }
}

/// A choice that was replayed, or delayed for long, sends no push into a path that has died since.
#[test]
fn a_choice_of_before_is_none() {
    let (mut two, mut line) = begin(1, None);
    let mut number = 0;
    let mut out = vec![0; SIZE];
    let mut write = |two: &mut Two| {
        number += 1;
        let source = Source { sequence: number, epoch: 1, bound_ns: 0 };
        line.writer.draft().put(0, &[number as u8; SIZE]).unwrap();
        line.writer.publish_as(SIZE, two.now, source).unwrap();
        two.near.written_to(line.push, two.now);
        two.run(two.now + 20 * MS);
        (number, line.reader.latest(&mut out).map_or(0, |sample| sample.source))
    };
    // There and back; then nothing is said any more.
    for dead in [Some(Via::First), None] {
        two.dead = dead;
        for _ in 0..200 {
            write(&mut two);
        }
    }
    assert_eq!(two.far.receive_stats(line.channel).unwrap().switches, 2);
    let sent_choices = two.choices.len();
    let (last, there) = write(&mut two);
    assert_eq!((last, sent_choices), (there, two.choices.len()), "all is well");
    let is_for = |octets: &Vec<u8>, via: Via| Datagram::read(octets).unwrap().index == via as u32;
    let old = two.choices.iter().find(|octets| is_for(octets, Via::Second)).unwrap().clone();
    let newest = two.choices.last().unwrap().clone();
    assert!(is_for(&newest, Via::First));

    two.dead = Some(Via::Second);
    let strays = two.near.strays();
    for via in [Via::First, Via::Second] {
        assert_eq!(two.near.received(address(FAR[via as usize]), &old, two.now), None);
    }
    assert_eq!(two.near.strays(), strays + 2, "it is counted");
    for _ in 0..100 {
        let (last, there) = write(&mut two);
        assert_eq!(last, there, "pushes still go by the path that works");
    }

    // An attacker that can make one up, with the token and a future number, is not obeyed for long:
    // the reader sees its losses.
    let mut head = [0; crate::wire::HEADER];
    let made_up =
        Datagram { push: Datagram::read(&newest).unwrap().push + 1, ..Datagram::read(&old).unwrap() };
    made_up.write_head(&mut head);
    assert!(two.near.received(address(FAR[0]), &head, two.now).is_some());
    let until = two.now + 2_000 * MS;
    while two.now < until {
        write(&mut two);
    }
    let (last, there) = write(&mut two);
    assert_eq!(last, there, "the reader has said again what it wants");
}
