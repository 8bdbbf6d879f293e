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

use crate::connection::Connection;
use isorb_sched::Preemption;
use std::fmt;
use std::sync::Arc;

/// The dispatching module (paper 001, section 5.1). The channel puts a push into its consumer's queue and, unless somebody was told
/// already, tells the dispatcher that the consumer has [`ReadyConsumer`]. There is one such token a consumer, so its pushes are served one at
/// a time and in order, whatever the dispatcher does with tokens, and whichever dispatcher has it.
pub trait Dispatch: Send + Sync + 'static {
    /// Do consumers run on the supplier's thread? Then they are called directly, unless pushes wait from before.
    fn runs_inline(&self) -> bool {
        false
    }

    /// How a consumer gives way to a more urgent one; `None`, unless implemented: nobody puts them in order, and no scheduler can
    /// promise anything ([`RunTimeScheduler::preemption`](crate::RunTimeScheduler::preemption)).
    fn preemption(&self) -> Option<Preemption> {
        None
    }

    /// A consumer has work.
    ///
    /// # Errors
    /// The work comes back when the dispatcher takes no more: it has been replaced.
    fn ready(&self, work: ReadyConsumer) -> Result<(), ReadyConsumer>;

    /// Do its consumers take nothing but an event's any? Then others do not wait for them. Asked when one connects with it.
    fn only_anys(&self) -> bool {
        false
    }

    /// So many consumers are connected: so many tokens there may be.
    fn reserve(&self, consumers: usize);

    /// Takes no more work, sends what waits on by its route, and ends the threads. Waits for them, unless called on one of them.
    fn close(&self);

    /// Runs one push on the caller's thread, where nobody else does (driven by hand). Says whether there was one.
    fn step(&self) -> bool {
        false
    }
}

/// Where a dispatcher that is closed sends work: to the one that has taken its place.
pub trait Redispatch: Send + Sync {
    /// Takes it there.
    fn redispatch(&self, work: ReadyConsumer);
}

/// A consumer that has pushes waiting.
pub struct ReadyConsumer(pub(crate) Arc<Connection>);

impl ReadyConsumer {
    /// The level of priority where it is served, counted from the least urgent.
    #[inline]
    pub fn level(&self) -> u8 {
        self.0.level()
    }

    /// The order among its level, the lowest first: the sub-priority of the push that is next.
    #[inline]
    pub fn key(&self) -> u64 {
        self.0.key()
    }

    /// For how many nanoseconds the consumer is still to be left alone (see [`PushConsumer::backoff`](crate::PushConsumer::backoff)), by the
    /// channel's clock: a dispatcher sets its work aside, so that nobody waits behind it.
    #[inline]
    pub fn backoff_left(&self) -> u64 {
        self.0.backoff_left()
    }

    /// Which consumer it is.
    pub fn consumer(&self) -> u32 {
        self.0.id
    }

    /// Runs the consumer with the push that is next. Comes back while more wait.
    ///
    /// # Real-time
    /// Neither allocates nor blocks, but for what the consumer does; takes the lock of the consumer's queue, twice.
    pub fn run(self) -> Option<ReadyConsumer> {
        if self.0.serve() { Some(self) } else { None }
    }
}

impl fmt::Debug for ReadyConsumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ReadyConsumer").field(&self.0.id).finish()
    }
}
