//! The ORB's paths over connections that break in the middle of a push, at each byte of it, or
//! delay it: every value that the writer's area keeps is read once, in order and complete; values
//! that it did not keep are counted.

#[path = "../world/mod.rs"]
mod world;

mod relay;

use isorb_reflective_memory::idl::{Area, Path, ReaderQoS};
use isorb_reflective_memory::memory::State;
use isorb_reflective_memory::{AreaReader, AreaWriter};
use isorb_rt::time::Deadline;
use isorb_testkit::{RunningOrb, retry, wait_until};
use relay::{Cut, Relay};
use std::time::Duration;
use world::*;

const SIZE: usize = 24;

/// No two values begin with the same octets, and each has a length of its own.
fn value(n: u64) -> Vec<u8> {
    let mut value = [n.to_be_bytes(), (!n).to_be_bytes()].concat();
    value.resize(16 + n as usize % 8, n as u8);
    value
}

/// A reader that checks that each value arrives in its turn.
struct Each {
    reader: AreaReader,
    last: u64,
    /// The number of values that it has missed.
    missing: u64,
}

impl Each {
    fn until(&mut self, number: u64) {
        let deadline = Deadline::after(TIMEOUT);
        while self.last < number {
            assert!(!deadline.is_past(), "{number} does not come after {}", self.last);
            let _ = self.reader.wait(Duration::from_millis(100));
            self.look();
        }
    }

    fn look(&mut self) {
        let mut out = [0; SIZE];
        while let Some(sample) = self.reader.next(&mut out).unwrap() {
            assert_eq!(sample.missed, 0, "the reader was too slow");
            assert!(sample.source > self.last, "{} after {}", sample.source, self.last);
            assert_eq!(out[..sample.len], value(sample.source), "torn or invented");
            self.missing += sample.source - self.last - 1;
            self.last = sample.source;
        }
    }
}

/// A node behind relays, one for each endpoint, and a reader there of an area of this node.
struct Line {
    // In this order they end.
    reader: Each,
    writer: AreaWriter,
    world: World,
    relays: Vec<Relay>,
}

impl Line {
    fn new(through: Path, relays: usize, kept: u32, silence: Duration) -> Line {
        let several = relays > 1;
        let relays: Vec<Relay> = (0..relays).map(|_| Relay::start()).collect();
        let endpoints =
            relays.iter().map(|relay| format!("{};publish={}", relay.server, relay.address)).collect();
        let world = World::with_far(
            RunningOrb::at(endpoints),
            Box::new(move |_, config| {
                config.silence = silence;
                // Short, because a withheld call lasts until this time-out.
                config.answer = Duration::from_millis(if several { 500 } else { 5000 });
            }),
        );
        let (near, far) = (world.library(0), world.library(1));
        near.create_area(&Area::new("line", SIZE as u32, kept)).unwrap();
        let writer = near.map_writer("line", QOS).unwrap();
        let request = ReaderQoS { through, histories: 200, ..on_write() };
        // A busy machine may not answer so soon.
        let reader = retry("the reader", || far.attach_reader("line", request));
        let mut line = Line { reader: Each { reader, last: 0, missing: 0 }, writer, world, relays };
        line.write(1);
        line.reader.until(1);
        line
    }

    fn write(&mut self, values: u64) -> u64 {
        for _ in 0..values {
            let n = self.writer.sequence() + 1;
            self.writer.write(&value(n)).unwrap();
        }
        self.writer.sequence()
    }

    fn counted(&self) -> (u64, isorb_reflective_memory::wire::Counters) {
        let (status, _) = self.world.far.as_ref().unwrap().status(10);
        (status.replicas[0].handle, status.replicas[0].counts.map_or_else(Default::default, |c| c.counters))
    }

    fn until(&mut self, what: &str, so: impl Fn(&mut Line) -> bool) {
        wait_until(what, || so(self));
    }
}

/// Long, because no heartbeat arrives while a test withholds messages.
const NEVER: Duration = Duration::from_secs(600);

/// At every byte of a push with others behind it, and of the answer; every other time by a reset.
fn breaks_everywhere(through: Path) {
    let mut line = Line::new(through, 1, 200, NEVER);
    let (mut cuts, mut lengths) = (0, Vec::new());
    for cut in [Cut::Push as fn(usize) -> Cut, Cut::Answer] {
        for at in 0.. {
            line.relays[0].arm(cut(at), at % 2 == 1);
            let last = line.write(3);
            line.reader.until(last);
            // The answer may come after the value.
            line.until("a cut", |line| line.relays[0].cuts() > cuts || line.relays[0].too_short() > 0);
            if line.relays[0].too_short() > 0 {
                lengths.push(at);
                break;
            }
            cuts += 1;
        }
    }
    let last = line.write(3);
    line.reader.until(last);
    let (_, counted) = line.counted();
    println!("{through:?}: {cuts} cuts in messages of {lengths:?} bytes, {last} values, {counted:?}");
    assert!(lengths[0] > 100 && lengths[1] > 12, "{lengths:?}");
    assert_eq!((line.reader.missing, counted.lost, counted.complete), (0, 0, last), "{counted:?}");
    // If only the answer was lost, the value arrived twice; a value behind a lost one arrived
    // before its turn. Each became visible once.
    assert!(counted.repeated + counted.late > 0, "{counted:?}");
    assert_eq!((counted.forged, counted.malformed), (0, 0), "{counted:?}");
}

#[test]
fn two_way_pushes_survive_a_connection_that_breaks_at_any_byte() {
    breaks_everywhere(Path::PathOrb);
}

#[test]
fn oneway_pushes_survive_a_connection_that_breaks_at_any_byte() {
    breaks_everywhere(Path::PathOneway);
}

/// One path accepts pushes and withholds them; they arrive by the other, followed by more, and then
/// by the first as well.
fn comes_late(through: Path) {
    let mut line = Line::new(through, 2, 200, NEVER);
    for _ in 0..6 {
        let before = line.counted().1.repeated;
        let way = hold_what_is_used(&mut line);
        let last = line.write(20);
        line.reader.until(last);
        line.relays[way].hold(false);
        let held = line.relays[way].held_pushes();
        line.until("what was held comes", |line| line.counted().1.repeated >= before + held);
    }
    let last = line.write(1);
    line.reader.until(last);
    let (_, counted) = line.counted();
    assert_eq!((line.reader.missing, counted.lost, counted.complete), (0, 0, last), "{counted:?}");
}

/// Withholds the path that pushes take now, with some of them in it. Other calls may change the
/// path in between.
fn hold_what_is_used(line: &mut Line) -> usize {
    let deadline = Deadline::after(TIMEOUT);
    for way in [0, 1].into_iter().cycle() {
        line.relays[way].hold(true);
        let last = line.write(3);
        line.reader.until(last);
        if line.relays[way].held_pushes() > 0 {
            return way;
        }
        line.relays[way].hold(false);
        assert!(!deadline.is_past(), "pushes go by neither way");
    }
    unreachable!("there is always a next way to try");
}

#[test]
fn a_two_way_push_that_comes_late_is_not_shown() {
    comes_late(Path::PathOrb);
}

#[test]
fn a_oneway_push_that_comes_late_is_not_shown() {
    comes_late(Path::PathOneway);
}

/// Calls stall until the reader's node counts the writer's as dead and opens the channel anew.
fn is_opened_anew(through: Path, kept: u32) -> Line {
    let mut line = Line::new(through, 1, kept, Duration::from_millis(200));
    let last = line.write(5);
    line.reader.until(last);
    let handle = line.counted().0;
    line.relays[0].hold(true);
    // Some are under way, others wait in the area.
    line.write(20);
    line.until("it is told", |line| line.reader.reader.state() == Some(State::WriterGone));
    line.until("another channel", |line| line.counted().0 != handle);
    line.write(20);
    line.relays[0].hold(false);
    let last = line.write(1);
    line.reader.until(last);
    line.until("it is told that all is well", |line| line.reader.reader.state() == Some(State::Open));
    line
}

#[test]
fn a_channel_that_is_opened_anew_goes_on_where_it_was() {
    for through in [Path::PathOrb, Path::PathOneway] {
        let line = is_opened_anew(through, 200);
        let (_, counted) = line.counted();
        assert_eq!(
            (line.reader.missing, counted.lost, counted.complete),
            (0, 0, line.reader.last),
            "{counted:?}"
        );
    }
}

#[test]
fn what_an_area_did_not_keep_for_a_channel_that_was_opened_anew_is_counted() {
    for through in [Path::PathOrb, Path::PathOneway] {
        let line = is_opened_anew(through, 3);
        let (_, counted) = line.counted();
        assert!(line.reader.missing > 0, "the area kept all");
        assert_eq!((counted.lost, counted.complete + counted.lost), (line.reader.missing, line.reader.last));
    }
}
