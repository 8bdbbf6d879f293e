//! The pushing end of a channel on the ORB's paths.

use super::CallPacing;
use crate::Error;
use crate::admission::value_octets;
use crate::agents::{Mode, PushStats};
use crate::fail_points::{FailPoint, fail_point};
use crate::idl::{CRM_CommRef, Times};
use crate::memory::{Reader, Sample, State, WaitError};
use crate::node::failover::FailoverRef;
use crate::node::idl_state;
use crate::wire::Channel;
use isorb_rt::log::{info, warn};
use isorb_rt::sched::{SchedClass, ThreadSpec};
use isorb_rt::sync::Parker;
use isorb_rt::time::{Deadline, now_ns};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// The interval between two heartbeats.
const BEAT_NS: u64 = 500_000_000;
/// The longest wait for a value, and the interval at which a thread that does not wait for one
/// checks the area's state.
const CHECK: Duration = Duration::from_millis(100);
/// The pause after a failed call.
const RETRY: Duration = Duration::from_millis(50);
/// A oneway that was sent so often and not accepted is reported.
const IN_VAIN: u32 = 20;
/// The pause after reading an area that its writer changes too fast, or has damaged.
const UNREADABLE: Duration = Duration::from_millis(1);
/// The limits of oneway pushes under way: their number, and their bytes together (one push is
/// always allowed).
const WINDOW: usize = 16;
const WINDOW_BYTES: usize = 1 << 20;

/// The parameters of a new channel.
pub(crate) struct OrbPush {
    /// The channel in log lines.
    pub name: String,
    pub source: Reader,
    pub channel: Channel,
    pub reader: FailoverRef<CRM_CommRef>,
    pub mode: Mode,
    pub oneway: bool,
    pub control: Arc<PushControl>,
    pub pacing: Arc<CallPacing>,
    /// Of a guaranteed channel.
    pub urgency: Option<Urgency>,
    /// Released when the thread ends.
    pub _permit: ThreadPermit,
}

/// The thread of a guaranteed channel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Urgency {
    pub class: SchedClass,
    /// Values are pushed no faster, so that a writer that breaks its promise delays no other
    /// channel.
    pub period_ns: u64,
    /// A call that takes longer counts as missed.
    pub deadline_ns: u64,
}

/// How the server ends, stops and restarts a channel. Each call wakes the thread from its pause.
#[derive(Debug, Default)]
pub(in crate::node) struct PushControl {
    ended: AtomicBool,
    stopped: AtomicBool,
    changed: Parker,
    counts: PushCounts,
}

/// What the thread of a channel did. Only that thread writes.
#[derive(Debug, Default)]
struct PushCounts {
    pushes: AtomicU64,
    missed: AtomicU64,
    worst_response_ns: AtomicU64,
    failed_calls: AtomicU64,
}

impl PushControl {
    /// The counts of the channel, as far as there are such on the ORB's paths.
    pub fn stats(&self) -> PushStats {
        let PushCounts { pushes, missed, worst_response_ns, failed_calls } = &self.counts;
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        PushStats {
            pushes: read(pushes),
            missed: read(missed),
            worst_response_ns: read(worst_response_ns),
            refused: read(failed_calls),
            ..PushStats::default()
        }
    }

    /// A push that began at `began_ns` was answered.
    fn answered(&self, began_ns: u64, deadline_ns: Option<u64>) {
        let response_ns = now_ns().saturating_sub(began_ns);
        self.counts.pushes.fetch_add(1, Ordering::Relaxed);
        self.counts.worst_response_ns.fetch_max(response_ns, Ordering::Relaxed);
        if deadline_ns.is_some_and(|deadline_ns| response_ns > deadline_ns) {
            self.counts.missed.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub fn end(&self) {
        self.ended.store(true, Ordering::Release);
        self.changed.unpark();
    }

    pub fn set_running(&self, running: bool) {
        self.stopped.store(!running, Ordering::Release);
        self.changed.unpark();
    }

    fn is_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    fn is_running(&self) -> bool {
        !self.stopped.load(Ordering::Acquire)
    }

    fn pause(&self, time: Duration) {
        self.changed.park_until(Deadline::after(time));
    }
}

/// A permit for one of the node's threads on the ORB's paths.
pub(crate) struct ThreadPermit {
    all: Arc<AtomicUsize>,
    number: usize,
}

impl ThreadPermit {
    pub fn take(all: &Arc<AtomicUsize>) -> ThreadPermit {
        ThreadPermit { all: all.clone(), number: all.fetch_add(1, Ordering::Relaxed) + 1 }
    }

    /// The number of permits in use, this one included.
    pub fn number(&self) -> usize {
        self.number
    }
}

impl Drop for ThreadPermit {
    fn drop(&mut self) {
        self.all.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The most values of this size under way at a time.
pub(in crate::node) fn window(size: usize, oneway: bool) -> usize {
    if oneway { (WINDOW_BYTES / size.max(1)).clamp(1, WINDOW) } else { 1 }
}

impl OrbPush {
    /// Starts the thread of the channel.
    pub fn start(self) -> Result<(), Error> {
        let (size, urgency) = (self.channel.size, self.urgency);
        let window = window(size, self.oneway);
        let free = (0..window).map(|_| Unacknowledged::new(size)).collect();
        let push = PushLoop {
            spec: self,
            free,
            under_way: VecDeque::with_capacity(window),
            pushes: 0,
            reported: (State::Open, 0),
            answered: (0, 0),
            due_ns: 0,
            fails: false,
        };
        let name = "memory-orb-push";
        let spec = match urgency {
            None => ThreadSpec::inheriting(name),
            Some(urgency) => ThreadSpec::new(name).class(urgency.class),
        };
        crate::node::started(name, spec.spawn(move || push.run()))?;
        Ok(())
    }
}

/// A value that may be sent again.
struct Unacknowledged {
    push: u64,
    sample: Option<Sample>,
    value: Box<[u8]>,
}

impl Unacknowledged {
    fn new(size: usize) -> Unacknowledged {
        Unacknowledged { push: 0, sample: None, value: vec![0; size].into() }
    }
}

struct PushLoop {
    spec: OrbPush,
    free: Vec<Unacknowledged>,
    /// The values in the order of their pushes.
    under_way: VecDeque<Unacknowledged>,
    pushes: u64,
    /// The state that the reader's node last received, which a push changes to open, and when the
    /// last heartbeat was answered or failed.
    reported: (State, u64),
    /// When the reader's node answered the last heartbeat, on its clock, and when the answer came.
    answered: (u64, u64),
    /// The next push of a periodic or guaranteed channel.
    due_ns: u64,
    /// The last call failed, and the log says so.
    fails: bool,
}

impl PushLoop {
    fn run(mut self) {
        while !self.is_ended() {
            self.wait();
            // A writer may be faster than the pushes, so that there is always a next value.
            while self.is_running() && !self.is_ended() && self.is_due() && self.take() {
                self.send();
                self.beat_if_due();
            }
            self.settle();
            self.beat_if_due();
        }
    }

    fn is_ended(&self) -> bool {
        self.spec.control.is_ended()
    }

    fn is_running(&self) -> bool {
        self.spec.control.is_running()
    }

    /// Waits for work, for a call to [`PushControl`], or for the next check.
    fn wait(&mut self) {
        let early_ns = self.due_ns.saturating_sub(now_ns());
        let OrbPush { source, control, mode, .. } = &mut self.spec;
        match mode {
            // The next value may be there already.
            Mode::OnWrite if control.is_running() && early_ns > 0 => {
                control.pause(Duration::from_nanos(early_ns).min(CHECK));
            }
            Mode::OnWrite if control.is_running() => match source.wait(Deadline::after(CHECK)) {
                Err(WaitError::Changed(state)) if state.is_final() => control.pause(CHECK),
                // An invalid state in the memory ends each wait at once.
                Err(WaitError::Damaged) => control.pause(CHECK),
                Ok(()) | Err(_) => {}
            },
            Mode::OnWrite => control.pause(CHECK),
            Mode::Periodic { .. } => {
                let left = Duration::from_nanos(self.due_ns.saturating_sub(now_ns()));
                control.pause(left.min(CHECK));
            }
        }
    }

    fn is_due(&mut self) -> bool {
        let now = now_ns();
        let Mode::Periodic { period_ns } = self.spec.mode else { return now >= self.due_ns };
        if now < self.due_ns {
            return false;
        }
        // A late push does not shift the next one; missed periods are skipped.
        self.due_ns = self.due_ns.saturating_add(period_ns).max(now.saturating_sub(period_ns) + 1);
        true
    }

    fn state(&self) -> State {
        match self.spec.source.state() {
            Some(State::Open) if !self.is_running() => State::Stopped,
            Some(state) => state,
            None => State::WriterGone,
        }
    }

    /// Copies the next value out of the area. Returns false if there is none.
    fn take(&mut self) -> bool {
        if self.free.is_empty() {
            self.settle();
        }
        let Some(mut value) = self.free.pop() else { return false };
        let source = &mut self.spec.source;
        let sample = match self.spec.mode {
            Mode::OnWrite => source.next(&mut value.value),
            Mode::Periodic { .. } if source.has_new() => source.latest(&mut value.value).map(Some),
            Mode::Periodic { .. } => Ok(None),
        };
        if let (Some(urgency), Mode::OnWrite, Ok(Some(_)) | Err(_)) =
            (self.spec.urgency, self.spec.mode, &sample)
        {
            // An area that cannot be read does not keep an urgent thread busy either.
            self.due_ns = next_due(self.due_ns, now_ns(), urgency.period_ns);
        }
        if sample.is_err() {
            // A new value cannot be read yet, so the next wait would end at once.
            self.spec.control.pause(UNREADABLE);
        }
        value.sample = sample.ok().flatten();
        if value.sample.is_none() {
            self.free.push(value);
            return false;
        }
        self.pushes += 1;
        value.push = self.pushes;
        self.under_way.push_back(value);
        fail_point(FailPoint::ValueTaken);
        true
    }

    /// Sends the value that was copied last: oneway, or repeatedly until it has arrived.
    fn send(&mut self) {
        let Some(last) = self.under_way.len().checked_sub(1) else { return };
        if self.spec.oneway {
            if !self.await_turn(last) {
                return;
            }
            let began_ns = now_ns();
            let sent = self.spec.push_oneway(&self.under_way[last]);
            self.pushed(sent, Some(began_ns));
            self.reported.0 = State::Open;
            fail_point(FailPoint::OnewaySent);
            return;
        }
        let mut began_ns = None;
        while !self.is_ended() {
            // A call that failed may have carried the value all the same.
            if !self.await_turn(last) {
                return;
            }
            let began_ns = *began_ns.get_or_insert_with(now_ns);
            let pushed = self.spec.push(&self.under_way[last]).map(drop);
            if self.pushed(pushed, Some(began_ns)) {
                break;
            }
            self.spec.control.pause(RETRY);
        }
        self.reported.0 = State::Open;
        self.free.extend(self.under_way.drain(..));
    }

    /// Sends the oneways again that the other end has not accepted.
    fn resend(&mut self) {
        for which in 0..self.under_way.len() {
            if !self.await_turn(which) {
                return;
            }
            let sent = self.spec.push_oneway(&self.under_way[which]);
            self.pushed(sent, None);
        }
        self.reported.0 = State::Open;
    }

    /// Waits until best effort may send one of the values. The other node hears meanwhile that this
    /// one lives. Returns false where the channel has ended: others have its turn then.
    fn await_turn(&mut self, which: usize) -> bool {
        if !self.spec.pacing.is_limited() {
            return true;
        }
        let octets = self.under_way.get(which).and_then(|value| value.sample).map_or(0, |sample| sample.len);
        if self.spec.urgency.is_some() {
            self.spec.pacing.count(now_ns(), value_octets(octets));
            return true;
        }
        let mut turn = self.spec.pacing.book(value_octets(octets));
        while !self.is_ended() {
            if !self.spec.pacing.is_limited() {
                return true;
            }
            let now = now_ns();
            let Err(at_ns) = turn.begin(now) else { return true };
            self.beat_if_due();
            self.spec.control.pause(Duration::from_nanos(at_ns - now).min(CHECK));
        }
        false
    }

    /// Counts the outcome of a call: of a push that began at `began_ns`, or of another one. The log
    /// tells the first failure, and when calls succeed again. Returns true for a success.
    fn pushed(&mut self, outcome: Result<(), Error>, began_ns: Option<u64>) -> bool {
        let OrbPush { name, control, urgency, .. } = &self.spec;
        match outcome {
            Ok(()) => {
                if let Some(began_ns) = began_ns {
                    control.answered(began_ns, urgency.map(|urgency| urgency.deadline_ns));
                }
                if std::mem::take(&mut self.fails) {
                    info("isorb::memory", format_args!("{name}: values are pushed again"));
                }
                true
            }
            Err(error) => {
                control.counts.failed_calls.fetch_add(1, Ordering::Relaxed);
                if !self.is_ended() && !std::mem::replace(&mut self.fails, true) {
                    warn(
                        "isorb::memory",
                        format_args!(
                            "{name}: a value could not be pushed: {error}; it is tried every {RETRY:?}, and \
                             values that are overwritten meanwhile are lost"
                        ),
                    );
                }
                false
            }
        }
    }

    /// Queries the last push that the other end accepted and sends the later ones again, until it
    /// has all.
    fn settle(&mut self) {
        // Rounds in which the other end accepted nothing, one after the other.
        let mut in_vain = 0_u32;
        while !self.under_way.is_empty() && !self.is_ended() {
            fail_point(FailPoint::Settling);
            let taken = match self.beat(self.state()) {
                Ok(taken) => taken,
                Err(error) => {
                    self.pushed(Err(error), None);
                    self.spec.control.pause(RETRY);
                    continue;
                }
            };
            let before = self.under_way.len();
            while let Some(value) = self.under_way.pop_front_if(|value| value.push <= taken) {
                self.free.push(value);
            }
            in_vain = if self.under_way.len() < before { 0 } else { in_vain.saturating_add(1) };
            if in_vain > 1 {
                // Its node answers, and drops the values: it is overloaded, or refuses them.
                self.spec.control.pause(RETRY);
            }
            if in_vain == IN_VAIN {
                warn(
                    "isorb::memory",
                    format_args!(
                        "{}: the reader's node answers, but has not accepted a value that was sent {IN_VAIN} \
                         times; it is sent every {RETRY:?}, and values that are overwritten meanwhile are lost",
                        self.spec.name
                    ),
                );
            }
            self.resend();
            fail_point(FailPoint::Settled);
        }
    }

    /// Sends a heartbeat if the last one is old or the state has changed. Pushes are none: the age
    /// of values at the reader's node is as certain as the last round trip is young.
    fn beat_if_due(&mut self) {
        let state = self.state();
        if self.reported.0 != state || now_ns().saturating_sub(self.reported.1) >= BEAT_NS {
            let _ = self.beat(state);
        }
    }

    fn beat(&mut self, state: State) -> Result<u64, Error> {
        let Channel { id, token, .. } = self.spec.channel;
        let (answered, answer_arrived) = self.answered;
        let beaten = self.spec.reader.call(|reader| {
            let times = Times { sent: now_ns(), answered, answer_arrived };
            reader.beat(id, token, idl_state(Some(state)), times)
        });
        self.reported = (state, now_ns());
        let (taken, answered) = beaten?;
        self.answered = (answered, self.reported.1);
        Ok(taken)
    }
}

/// When a guaranteed channel may push again: a period later on average. A late push does not shift
/// later ones, and at most [`BUCKET`](crate::admission::BUCKET) values go at once.
fn next_due(due_ns: u64, now_ns: u64, period_ns: u64) -> u64 {
    let slack_ns = period_ns.saturating_mul(crate::admission::BUCKET - 1);
    due_ns.max(now_ns.saturating_sub(slack_ns)).saturating_add(period_ns)
}

impl OrbPush {
    fn push(&self, sent: &Unacknowledged) -> Result<bool, Error> {
        let Some(sample) = sent.sample else { return Ok(false) };
        let (Channel { id, token, .. }, value) = (self.channel, &sent.value[..sample.len]);
        let (source, writer) = (sample.source, sample.epoch);
        let written = sample.written_ns;
        self.reader.call(|reader| reader.push(id, token, sent.push, source, writer, written, now_ns(), value))
    }

    fn push_oneway(&self, sent: &Unacknowledged) -> Result<(), Error> {
        let Some(sample) = sent.sample else { return Ok(()) };
        let (Channel { id, token, .. }, value) = (self.channel, &sent.value[..sample.len]);
        let (source, writer, written) = (sample.source, sample.epoch, sample.written_ns);
        // If it does not arrive, the next heartbeat tries another address.
        let reader = self.reader.preferred();
        Ok(reader.push_oneway(id, token, sent.push, source, writer, written, now_ns(), value)?)
    }
}

#[cfg(test)]
mod tests;
