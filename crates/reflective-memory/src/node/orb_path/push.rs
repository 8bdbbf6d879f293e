//! The pushing end of a channel on the ORB's paths.

use crate::Error;
use crate::agents::Mode;
use crate::fail_points::{FailPoint, fail_point};
use crate::idl::{CRM_CommRef, Times};
use crate::memory::{Reader, Sample, State, WaitError};
use crate::node::failover::FailoverRef;
use crate::node::idl_state;
use crate::wire::Channel;
use isorb_rt::time::{Deadline, now_ns};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// The other node hears of this one at least so often.
const BEAT_NS: u64 = 500_000_000;
/// How often the thread looks whether it is to end.
const LOOK: Duration = Duration::from_millis(100);
/// After a call that failed.
const AGAIN: Duration = Duration::from_millis(50);
/// The pause after reading an area that its writer changes too fast, or has damaged.
const UNREADABLE: Duration = Duration::from_millis(1);
/// Oneway pushes under way: at most so many, of so many bytes together (one at least).
const WINDOW: usize = 16;
const WINDOW_BYTES: usize = 1 << 20;

/// A channel to be.
pub(crate) struct OrbPush {
    pub source: Reader,
    pub channel: Channel,
    pub reader: FailoverRef<CRM_CommRef>,
    pub mode: Mode,
    pub oneway: bool,
    /// Ends the thread.
    pub stop: Arc<AtomicBool>,
    /// The channel is not stopped.
    pub running: Arc<AtomicBool>,
    /// Held for as long as there is the thread.
    pub _permit: ThreadPermit,
}

/// One of the threads that a node may have on the ORB's paths.
pub(crate) struct ThreadPermit {
    all: Arc<AtomicUsize>,
    number: usize,
}

impl ThreadPermit {
    pub fn take(all: &Arc<AtomicUsize>) -> ThreadPermit {
        ThreadPermit { all: all.clone(), number: all.fetch_add(1, Ordering::Relaxed) + 1 }
    }

    /// How many there were with this one.
    pub fn number(&self) -> usize {
        self.number
    }
}

impl Drop for ThreadPermit {
    fn drop(&mut self) {
        self.all.fetch_sub(1, Ordering::Relaxed);
    }
}

impl OrbPush {
    /// Starts the thread of the channel.
    pub fn start(self) -> Result<(), Error> {
        let size = self.channel.size;
        let window = if self.oneway { (WINDOW_BYTES / size.max(1)).clamp(1, WINDOW) } else { 1 };
        let free = (0..window).map(|_| Unacknowledged::new(size)).collect();
        let push = PushLoop {
            spec: self,
            free,
            under_way: VecDeque::with_capacity(window),
            pushes: 0,
            said: (State::Open, 0),
            answered: (0, 0),
            due_ns: 0,
        };
        crate::node::spawn("memory-orb-push", move || push.run())?;
        Ok(())
    }
}

/// A value that may have to be sent again.
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
    /// In the order of their pushes.
    under_way: VecDeque<Unacknowledged>,
    pushes: u64,
    /// What the reader's node was told last, and when.
    said: (State, u64),
    /// When the reader's node answered the last heartbeat, on its clock, and when the answer came.
    answered: (u64, u64),
    /// The next periodic push.
    due_ns: u64,
}

impl PushLoop {
    fn run(mut self) {
        while !self.stopped() {
            self.wait();
            let running = self.spec.running.load(Ordering::Acquire);
            while running && !self.stopped() && self.is_due() && self.take() {
                self.send();
            }
            self.settle();
            let state = self.state(running);
            if self.said.0 != state || now_ns().saturating_sub(self.said.1) >= BEAT_NS {
                let _ = self.beat(state);
            }
        }
    }

    fn stopped(&self) -> bool {
        self.spec.stop.load(Ordering::Acquire)
    }

    /// Until there is something to do, or a moment has passed.
    fn wait(&mut self) {
        match self.spec.mode {
            Mode::OnWrite => match self.spec.source.wait(Deadline::after(LOOK)) {
                Ok(()) if self.spec.running.load(Ordering::Acquire) => {}
                Ok(()) => std::thread::sleep(LOOK),
                Err(WaitError::Changed(state)) if state.is_final() => std::thread::sleep(LOOK),
                // A state that there is not comes back at once for as long as it stands there.
                Err(WaitError::Damaged) => std::thread::sleep(LOOK),
                Err(_) => {}
            },
            Mode::Periodic { .. } => {
                let left = Duration::from_nanos(self.due_ns.saturating_sub(now_ns()));
                std::thread::sleep(left.min(LOOK));
            }
        }
    }

    fn is_due(&mut self) -> bool {
        let Mode::Periodic { period_ns } = self.spec.mode else { return true };
        let now = now_ns();
        if now < self.due_ns {
            return false;
        }
        // Late looks do not shift the next; long pauses are not made up for.
        self.due_ns = self.due_ns.saturating_add(period_ns).max(now.saturating_sub(period_ns) + 1);
        true
    }

    fn state(&self, running: bool) -> State {
        match self.spec.source.state() {
            Some(State::Open) if !running => State::Stopped,
            Some(state) => state,
            None => State::WriterGone,
        }
    }

    /// Copies the next value out of the area; says whether there was one.
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
        if sample.is_err() {
            // There is something new, but nothing that can be read: the next wait would end at
            // once.
            std::thread::sleep(UNREADABLE);
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

    /// Sends the value that was taken last: oneway, or until it has arrived.
    fn send(&mut self) {
        let Some(value) = self.under_way.back() else { return };
        if self.spec.oneway {
            let _ = self.spec.push_oneway(value);
            fail_point(FailPoint::OnewaySent);
            return;
        }
        while !self.stopped() {
            if self.spec.push(value).is_ok() {
                break;
            }
            std::thread::sleep(AGAIN);
        }
        self.free.extend(self.under_way.drain(..));
        self.said.1 = now_ns();
    }

    /// Asks how far the other end has come and sends the rest again, until it has everything.
    fn settle(&mut self) {
        while !self.under_way.is_empty() && !self.stopped() {
            let running = self.spec.running.load(Ordering::Acquire);
            fail_point(FailPoint::Settling);
            let Ok(taken) = self.beat(self.state(running)) else {
                std::thread::sleep(AGAIN);
                continue;
            };
            while let Some(value) = self.under_way.pop_front_if(|value| value.push <= taken) {
                self.free.push(value);
            }
            for value in &self.under_way {
                let _ = self.spec.push_oneway(value);
            }
            fail_point(FailPoint::Settled);
        }
    }

    fn beat(&mut self, state: State) -> Result<u64, Error> {
        let Channel { id, token, .. } = self.spec.channel;
        let (answered, answer_arrived) = self.answered;
        let beaten = self.spec.reader.call(|reader| {
            let times = Times { sent: now_ns(), answered, answer_arrived };
            reader.beat(id, token, idl_state(Some(state)), times)
        });
        self.said = (state, now_ns());
        let (taken, answered) = beaten?;
        self.answered = (answered, self.said.1);
        Ok(taken)
    }
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
        // If it does not arrive, the next beat tries another address.
        let reader = self.reader.preferred();
        Ok(reader.push_oneway(id, token, sent.push, source, writer, written, now_ns(), value)?)
    }
}
