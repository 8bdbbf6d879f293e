//! The progress of a call through a lane, and the number of tickets that the lane holds.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering};

/// How far a call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// The request waits for a thread.
    Queued,
    /// A thread of the lane runs the upcall.
    Running,
    /// The reply is there.
    Replied,
    /// There will be no reply: the lane closed, or user code panicked outside of the upcall.
    Dropped,
    /// The caller's deadline has passed.
    Abandoned,
}

impl State {
    const ALL: [State; 5] = [State::Queued, State::Running, State::Replied, State::Dropped, State::Abandoned];

    pub fn is_pending(self) -> bool {
        matches!(self, State::Queued | State::Running)
    }
}

const TICKET: u64 = 1 << 8;
const TICKETS: u64 = 0xff_ffff << 8;
const CALL_SHIFT: u32 = 32;

/// State, tickets and number of the call, in one word. A thread keeps its `Progress` from call to
/// call. A thread of a lane may still hold a ticket of an earlier call, or be about to drop it: it
/// changes nothing any more, because the number is another one.
#[derive(Debug)]
pub struct Progress(AtomicU64);

impl Progress {
    pub fn new() -> Progress {
        Progress(AtomicU64::new(0))
    }

    /// Begins a call, with one ticket. Returns the number of the call.
    pub fn begin(&self) -> u32 {
        let call = number(self.0.load(Ordering::Relaxed)).wrapping_add(1);
        // A swap, since a late thread of a lane may change the word at this moment.
        self.0.swap(u64::from(call) << CALL_SHIFT | TICKET | State::Queued as u64, Ordering::AcqRel);
        call
    }

    /// The state of the present call.
    pub fn state(&self) -> State {
        state(self.0.load(Ordering::Acquire))
    }

    /// Whether the caller of this call still waits.
    pub fn is_pending(&self, call: u32) -> bool {
        let word = self.0.load(Ordering::Acquire);
        number(word) == call && state(word).is_pending()
    }

    /// Takes the call from one state to another. Returns false if it is not, or not any more, in
    /// the first.
    pub fn change(&self, call: u32, from: State, to: State) -> bool {
        self.update(call, |word| (state(word) == from).then(|| with_state(word, to)))
    }

    /// Ends the present call for its caller if it is pending. Returns whether a thread had begun.
    pub fn abandon(&self) -> Option<bool> {
        let word = self.0.load(Ordering::Acquire);
        let begun = [(State::Queued, false), (State::Running, true)];
        let ended = begun.into_iter().find(|(from, _)| self.change(number(word), *from, State::Abandoned));
        ended.map(|(_, begun)| begun)
    }

    /// Ends a pending call with its reply. Returns true if the caller is to be woken.
    pub fn reply(&self, call: u32) -> bool {
        self.update(call, |word| state(word).is_pending().then(|| with_state(word, State::Replied)))
    }

    pub fn add_ticket(&self, call: u32) {
        self.update(call, |word| Some(word + TICKET));
    }

    /// Drops a ticket. The last one ends a pending call without a reply; returns true then, and the
    /// caller is to be woken.
    pub fn drop_ticket(&self, call: u32) -> bool {
        let mut ends = false;
        self.update(call, |word| {
            let left = word - TICKET;
            ends = left & TICKETS == 0 && state(left).is_pending();
            Some(if ends { with_state(left, State::Dropped) } else { left })
        }) && ends
    }

    fn update(&self, call: u32, mut next: impl FnMut(u64) -> Option<u64>) -> bool {
        let next = |word| if number(word) == call { next(word) } else { None };
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, next).is_ok()
    }
}

fn number(word: u64) -> u32 {
    (word >> CALL_SHIFT) as u32
}

fn state(word: u64) -> State {
    State::ALL[usize::from(word as u8).min(State::ALL.len() - 1)]
}

fn with_state(word: u64, state: State) -> u64 {
    word & !0xff | state as u64
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    /// A thread of the lane replies and drops its ticket late, while the caller begins its next
    /// call: that call is still pending.
    #[test]
    fn loom_a_late_ticket_does_not_end_the_next_call() {
        loom::model(|| {
            let progress = Arc::new(Progress::new());
            let first = progress.begin();
            let lane = thread::spawn({
                let progress = progress.clone();
                move || {
                    assert!(progress.change(first, State::Queued, State::Running));
                    assert!(progress.reply(first));
                    progress.drop_ticket(first)
                }
            });
            while progress.state().is_pending() {
                thread::yield_now();
            }
            assert_eq!(progress.state(), State::Replied);
            let second = progress.begin();
            assert!(progress.change(second, State::Queued, State::Running));
            assert!(!lane.join().unwrap(), "the ticket of a call with a reply ends nothing");
            assert_eq!(progress.state(), State::Running);
            assert!(progress.drop_ticket(second), "the last ticket ends the call");
            assert_eq!(progress.state(), State::Dropped);
        });
    }

    /// Of the caller's deadline, the reply and the last ticket one ends the call.
    #[test]
    fn loom_one_event_ends_a_call() {
        loom::model(|| {
            let progress = Arc::new(Progress::new());
            let call = progress.begin();
            progress.add_ticket(call);
            let others = [true, false].map(|replies| {
                let progress = progress.clone();
                thread::spawn(move || {
                    let replied = replies && progress.reply(call);
                    u32::from(replied) + u32::from(progress.drop_ticket(call))
                })
            });
            let abandoned = u32::from(progress.abandon().is_some());
            let ended: u32 = others.into_iter().map(|other| other.join().unwrap()).sum();
            assert_eq!(abandoned + ended, 1, "{progress:?}");
            assert!(!progress.state().is_pending());
        });
    }
}
