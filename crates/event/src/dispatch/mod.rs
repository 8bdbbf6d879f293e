//! Dispatching: which thread runs a consumer, and in which order.

mod direct;
mod lane;
mod queued;
mod strategy;
mod upcall;

pub use direct::Direct;
pub(crate) use lane::MAX_LEVELS;
pub use queued::Queued;
pub use strategy::{Strategy, ThreadSetup};
pub use upcall::yield_now;

use crate::connection::{Connection, Served};
use isorb_sched::Preemption;
use std::fmt;
use std::sync::Arc;

/// The dispatching module (TAO event service paper, section 5.1).
///
/// The channel queues a push at its consumer and, unless the consumer is ready already, passes a
/// [`ReadyConsumer`] to the dispatcher. Each consumer has at most one such token. So its pushes are
/// served one at a time and in order, whichever dispatcher has the token.
pub trait Dispatch: Send + Sync + 'static {
    /// Returns true if consumers run on the supplier's thread. Then they are called directly,
    /// unless earlier pushes are queued.
    fn runs_inline(&self) -> bool {
        false
    }

    /// How a consumer is pre-empted by a more urgent one. `None` by default: consumers are not
    /// ordered, and no scheduler can promise anything
    /// ([`RunTimeScheduler::preemption`](crate::RunTimeScheduler::preemption)).
    fn preemption(&self) -> Option<Preemption> {
        None
    }

    /// Takes a consumer that has become ready.
    ///
    /// # Errors
    /// The consumer comes back if the dispatcher is closed.
    fn ready(&self, consumer: ReadyConsumer) -> Result<(), ReadyConsumer>;

    /// Returns true if its consumers use only an event's any; events without one are not queued for
    /// them. Asked when a consumer connects with it.
    fn only_anys(&self) -> bool {
        false
    }

    /// Reserves room for the tokens of `consumers` consumers.
    fn reserve(&self, consumers: usize);

    /// Stops accepting consumers, hands on those that are ready, and ends the threads. Waits for
    /// the threads, unless called on one of them.
    fn close(&self);

    /// Runs one push on the caller's thread, for [`Strategy::ByHand`]. Returns false if none was
    /// queued.
    fn step(&self) -> bool {
        false
    }
}

/// Hands ready consumers of a closed dispatcher to its replacement.
pub trait Redispatch: Send + Sync {
    /// Passes the consumer to the current dispatcher.
    fn redispatch(&self, consumer: ReadyConsumer);
}

/// A consumer with queued pushes.
pub struct ReadyConsumer(pub(crate) Arc<Connection>);

impl ReadyConsumer {
    /// The priority level at which it is served, counted from the least urgent.
    #[inline]
    pub fn level(&self) -> u8 {
        self.0.level()
    }

    /// Its order within the level, the lowest first: the sub-priority of its next push.
    #[inline]
    pub fn key(&self) -> u64 {
        self.0.key()
    }

    /// The remaining backoff in nanoseconds (see
    /// [`PushConsumer::backoff`](crate::PushConsumer::backoff)), by the channel's clock. A
    /// dispatcher sets the consumer aside, so that no other waits behind it.
    #[inline]
    pub fn backoff_left(&self) -> u64 {
        self.0.backoff_left()
    }

    /// The consumer's number.
    pub fn consumer(&self) -> u32 {
        self.0.id
    }

    /// Runs the consumer with its next push. Returns it while more pushes are queued, unless it is
    /// busy.
    ///
    /// # Real-time
    /// Apart from the consumer itself, neither allocates nor blocks. Takes the lock of the
    /// consumer's queue twice.
    pub fn run(self) -> Option<ReadyConsumer> {
        match self.0.serve() {
            Served::More => Some(self),
            Served::Empty => None,
            Served::Busy => {
                if self.0.park() {
                    None
                } else {
                    Some(self)
                }
            }
        }
    }
}

impl fmt::Debug for ReadyConsumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ReadyConsumer").field(&self.0.id).finish()
    }
}
