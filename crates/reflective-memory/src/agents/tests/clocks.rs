//! Ages across two clocks with origins and rates of their own, under standing queues: the stated
//! bound holds for each value, and the upper bound decides what is stale.

use super::*;
use isorb_rt::common_clock::{CommonClock, CommonTime};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A clock against true time.
#[derive(Clone, Copy, Debug)]
struct Clock {
    origin: u64,
    drift_ppm: i64,
}

impl Clock {
    fn at(self, true_ns: u64) -> u64 {
        self.origin + true_ns.wrapping_add_signed(true_ns as i64 * self.drift_ppm / 1_000_000)
    }
}

const DAY: u64 = 86_400_000 * MS;
const NEAR: Clock = Clock { origin: 400 * DAY, drift_ppm: 200 };
const FAR: Clock = Clock { origin: 3 * DAY, drift_ppm: -200 };
/// A way without a queue, and the steps of the simulation.
const WAY: u64 = 2 * MS;
const STEP: u64 = MS / 2;

/// What a reader was shown.
#[derive(Default)]
struct Shown {
    values: u64,
    /// The largest error of an age and the largest bound.
    error: u64,
    bound: u64,
    oldest: u64,
    /// How often the common clock was refuted.
    refuted: u64,
    states: Vec<State>,
}

/// Writes each 10 ms for ten seconds. From 3 s to 8 s the way to the reader takes `queue` longer.
/// With `answers` the writer's node gets probes.
fn run(queue: u64, answers: bool, fresh_ns: Option<u64>) -> Shown {
    run_with(queue, 4_000 * MS, answers, fresh_ns, None)
}

/// A common clock, simulated: true time, and `error_ns` more.
#[derive(Debug)]
struct Common {
    now: Arc<AtomicU64>,
    clock: Clock,
    error_ns: i64,
}

impl CommonClock for Common {
    fn read(&mut self) -> Option<CommonTime> {
        let now = self.now.load(Ordering::Relaxed);
        let ahead_ns = now.wrapping_sub(self.clock.at(now)).wrapping_add_signed(self.error_ns);
        Some(CommonTime { ahead_ns, bound_ns: 1_000 })
    }
}

/// As [`run`], with a queue from another time on; with `common` both nodes read a common clock, the
/// writer's with this error.
fn run_with(queue: u64, from: u64, answers: bool, fresh_ns: Option<u64>, common: Option<i64>) -> Shown {
    let mut world = World::new(0);
    let true_now = Arc::new(AtomicU64::new(world.now));
    if let Some(error_ns) = common {
        let of = |clock, error_ns| Box::new(Common { now: true_now.clone(), clock, error_ns });
        world.near.set_common_clock(of(NEAR, error_ns));
        world.far.set_common_clock(of(FAR, 0));
    }
    let line = world.line(100, Mode::OnWrite, None, fresh_ns);
    let World { near, far, .. } = &mut world;
    let Line { mut writer, mut reader, push, channel } = line;
    let (mut under_way, mut sent, mut out) = (BTreeMap::new(), 0_u64, vec![0; 2000]);
    let (mut seen, mut last, mut written) = (Shown::default(), 0, Vec::new());
    // The value that is shown: when it was written, and the bound of its age.
    let (mut shown, mut before) = (None::<(u64, u64)>, None);
    // The schedulers were made at one second of the world.
    for now in (1_000 * MS..11_000 * MS).step_by(STEP as usize) {
        true_now.store(now, Ordering::Relaxed);
        let (here, there) = (NEAR.at(now), FAR.at(now));
        // As the reader saw it at the end of the step before.
        if let (Some(fresh_ns), Some((written, bound)), Some(State::Open)) = (fresh_ns, shown, before) {
            let true_age = now - STEP - written;
            let most = bound.saturating_add(fresh_ns + true_age / 5_000 + STEP);
            assert!(!answers || now < 1_600 * MS || true_age <= most, "{true_age} old, and open");
        }
        if (now / STEP).is_multiple_of(20) {
            written.push(now);
            writer.write_at(&[1; 100], here).unwrap();
            near.written_to(push, here);
        }
        let is_queued = (from..9_000 * MS).contains(&now);
        while let Action::Send { len, .. } = near.next_action(here, &mut out) {
            sent += 1;
            let at = now + WAY + if is_queued { queue } else { 0 };
            under_way.insert((at, sent), (true, out[..len].to_vec()));
        }
        while let Action::Report { len, .. } = far.next_action(there, &mut out) {
            sent += 1;
            under_way.insert((now + WAY, sent), (false, out[..len].to_vec()));
        }
        while let Some(first) = under_way.first_entry().filter(|first| first.key().0 <= now) {
            match first.remove() {
                (true, octets) => drop(far.received(FROM, &octets, there)),
                (false, octets) if answers => drop(near.received(TO, &octets, here)),
                _ => {}
            }
        }
        let state = reader.state().unwrap();
        before = Some(state);
        // The first datagram in a queue comes later than the silence of a dead node.
        if state != State::WriterGone && seen.states.last() != Some(&state) {
            seen.states.push(state);
        }
        let Ok(sample) = reader.latest(&mut out) else { continue };
        if sample.sequence == last {
            continue;
        }
        last = sample.sequence;
        let true_age = now - written[sample.source as usize - 1];
        shown = Some((now - true_age, sample.bound_ns));
        let age = there - sample.written_ns;
        seen.values += 1;
        seen.oldest = seen.oldest.max(age);
        if answers && now > 1_600 * MS {
            let (error, bound) = (age.abs_diff(true_age), sample.bound_ns);
            // Each clock may count 200 ppm of the age itself.
            assert!(error <= bound + true_age / 5_000, "{error} of {bound}, {true_age} old");
            (seen.error, seen.bound) = (seen.error.max(error), seen.bound.max(bound));
        }
    }
    let stats = far.receive_stats(channel).unwrap();
    assert_eq!(stats.clock_steps, 0);
    seen.refuted = stats.clock_refuted;
    seen
}

#[test]
fn ages_hold_their_bound_under_standing_queues() {
    for queue in [0, 1, 10, 100, 530, 1_000] {
        let seen = run(queue * MS, true, None);
        assert!(seen.values > 900 - queue / 10, "{queue}: {}", seen.values);
        assert!(seen.oldest >= queue * MS + WAY / 2, "{queue}: {} of age", seen.oldest);
        // Half of a round trip without a queue, and the drift over the five seconds of the queue.
        let drift = 5_500 * MS * 400 / 1_000_000;
        assert!(seen.bound <= WAY + STEP + drift, "{queue}: {} of bound", seen.bound);
    }
}

#[test]
fn without_an_answer_the_queue_still_counts() {
    let seen = run(530 * MS, false, None);
    assert!(seen.oldest >= 528 * MS, "{} of age", seen.oldest);
}

#[test]
fn a_value_that_waited_in_the_network_is_stale() {
    // `run` checks at each step that what is older than the deadline and the bound is not open.
    for queue in [100, 530, 1_000] {
        let states = run(queue * MS, true, Some(60 * MS)).states;
        assert_eq!(states, [State::Open, State::Stale, State::Open], "{queue}");
    }
    assert_eq!(run(0, true, Some(60 * MS)).states, [State::Open]);
}

/// From the first datagram on there is a queue, so that no round trip is short.
#[test]
fn a_common_clock_bounds_ages_where_no_round_trip_was_short() {
    let of = |common| run_with(530 * MS, 0, true, None, common);
    let alone = of(None);
    assert!(alone.bound > 250 * MS, "{} of bound: the control must be wide", alone.bound);
    for error_ns in [-900, 0, 900] {
        let seen = of(Some(error_ns));
        assert!(seen.values > 700 && seen.oldest >= 528 * MS, "{} values, {}", seen.values, seen.oldest);
        // What the clock is wrong by, the drift while an answer is on its way, and until the next.
        assert!(seen.bound < 2 * MS && seen.refuted == 0, "{} of bound", seen.bound);
    }
}

/// The writer's node reads another clock than the reader's: international atomic time, say.
#[test]
fn a_common_clock_that_is_none_is_not_used() {
    let seen = run_with(0, 0, true, None, Some(37_000 * MS as i64));
    assert!(seen.refuted > 10 && seen.values > 900, "{} refuted", seen.refuted);
    let drift = 5_500 * MS * 400 / 1_000_000;
    assert!(seen.bound <= WAY + STEP + drift, "{} of bound", seen.bound);
}
