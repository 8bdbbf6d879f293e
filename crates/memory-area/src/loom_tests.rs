//! The protocol in every interleaving (`RUSTFLAGS="--cfg loom" cargo test -p isorb-memory-area
//! --release --lib loom`).

use crate::geometry::Geometry;
use crate::head::{Head, State};
use crate::ring::{Miss, Ring, Stamp};
use loom::sync::Arc;
use loom::sync::atomic::AtomicU64;
use loom::thread;

struct Area {
    head: Head,
    words: Vec<AtomicU64>,
    geometry: Geometry,
}

impl Area {
    fn new(histories: usize) -> Arc<Area> {
        let geometry = Geometry::new(16, histories).unwrap();
        let words = (0..geometry.buffers() * geometry.slot_words()).map(|_| AtomicU64::new(0)).collect();
        Arc::new(Area { head: Head::new(), words, geometry })
    }

    fn ring(&self) -> Ring<'_> {
        Ring { head: &self.head, words: &self.words, geometry: self.geometry }
    }
}

/// Value `n` is the number `n` twice, with `n` as its time.
fn write(ring: Ring<'_>, n: u64) {
    ring.open(n).put(0, &bytes(n)).unwrap();
    ring.publish(n, Stamp { len: 16, written_ns: n, bound_ns: 0, epoch: 1, source: n });
}

fn bytes(n: u64) -> [u8; 16] {
    let mut both = [0; 16];
    both[..8].copy_from_slice(&n.to_ne_bytes());
    both[8..].copy_from_slice(&n.to_ne_bytes());
    both
}

fn read(ring: Ring<'_>, n: u64) -> Result<(), Miss> {
    let ((first, second), stamp) = ring.read(n, |view| {
        (u64::from_ne_bytes(view.bytes(0).unwrap()), u64::from_ne_bytes(view.bytes(8).unwrap()))
    })?;
    assert_eq!((first, second, stamp.written_ns, stamp.len), (n, n, n, 16), "torn");
    Ok(())
}

#[test]
fn loom_a_reader_sees_whole_values() {
    loom::model(|| {
        let area = Area::new(0);
        let other = area.clone();
        // Three values in two buffers: the third overwrites the first.
        let writer = thread::spawn(move || (1..=3).for_each(|n| write(other.ring(), n)));
        let ring = area.ring();
        let latest = ring.latest();
        if latest > 0 {
            // A named value is there, or has been overwritten by a later one; it is never half
            // there.
            if let Err(miss) = read(ring, latest) {
                assert_eq!(miss, Miss::Overwritten);
            }
        }
        writer.join().unwrap();
        assert_eq!(ring.latest(), 3);
        read(ring, 3).unwrap();
        read(ring, 2).unwrap();
        assert_eq!(read(ring, 1), Err(Miss::Overwritten));
    });
}

#[test]
fn loom_an_abandoned_value_hurts_no_reader() {
    loom::model(|| {
        let area = Area::new(0);
        write(area.ring(), 1);
        let other = area.clone();
        let writers = thread::spawn(move || {
            // The first writer dies over the second value; the next one starts it again.
            other.ring().open(2).put(0, &[0xff; 8]).unwrap();
            assert_eq!(other.ring().recover(), 1);
            write(other.ring(), 2);
        });
        let ring = area.ring();
        let latest = ring.latest();
        read(ring, latest).unwrap();
        writers.join().unwrap();
        read(ring, 2).unwrap();
    });
}

/// Waits as a reader does, without a deadline: for a value beyond `seen`, or another state.
fn wait(area: &Area, seen: u64) -> (u64, Option<State>) {
    let look = || match (area.ring().latest(), area.head.state()) {
        (latest, state) if latest != seen || state != Some(State::Open) => Some((latest, state)),
        _ => None,
    };
    area.head.await_change(look, |seen| area.head.sleep(seen))
}

#[test]
fn loom_a_sleeper_misses_no_value() {
    loom::model(|| {
        let area = Area::new(0);
        area.head.set_state(State::Open);
        let other = area.clone();
        // As Writer::publish_as does it. Were the last value announced before it is there, the
        // reader would sleep for ever.
        let writer = thread::spawn(move || {
            for n in 1..=2 {
                write(other.ring(), n);
                other.head.announce();
            }
        });
        let mut seen = 0;
        while seen < 2 {
            let (latest, state) = wait(&area, seen);
            assert_eq!(state, Some(State::Open));
            assert!(latest > seen);
            seen = latest;
        }
        writer.join().unwrap();
    });
}

#[test]
fn loom_a_sleeper_misses_no_end() {
    loom::model(|| {
        let area = Area::new(0);
        area.head.set_state(State::Open);
        let other = area.clone();
        let writer = thread::spawn(move || other.head.set_state(State::WriterGone));
        assert_eq!(wait(&area, 0), (0, Some(State::WriterGone)));
        writer.join().unwrap();
    });
}

#[test]
fn loom_a_reader_that_waits_sees_the_value_or_is_woken() {
    loom::model(|| {
        let area = Area::new(0);
        let other = area.clone();
        // As a channel is opened while the writer writes: the agent that is new looks once, and
        // then when it rings.
        let writer = thread::spawn(move || {
            write(other.ring(), 1);
            other.head.wants_doorbell()
        });
        area.head.set_doorbell(true);
        let seen = area.ring().latest();
        let rang = writer.join().unwrap();
        assert!(seen == 1 || rang, "it would be missed");
    });
}

#[test]
fn loom_two_readers_do_not_disturb_each_other() {
    loom::model(|| {
        let area = Area::new(1);
        let (one, two) = (area.clone(), area.clone());
        let reader = thread::spawn(move || {
            let latest = one.ring().latest();
            if latest > 0 {
                read(one.ring(), latest).unwrap();
            }
        });
        let writer = thread::spawn(move || (1..=2).for_each(|n| write(two.ring(), n)));
        let latest = area.ring().latest();
        if latest > 0 {
            read(area.ring(), latest).unwrap();
        }
        writer.join().unwrap();
        reader.join().unwrap();
    });
}
