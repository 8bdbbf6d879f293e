//! The consumer's side of a connection.

pub use crate::connection::Resume;
use crate::event::Event;
use isorb_rt::priority::Priority;
use std::fmt;
use std::time::Duration;

/// A consumer of events (`RtecEventComm::PushConsumer`). Closures over events are consumers.
pub trait PushConsumer: Send + Sync {
    /// Receives the events that satisfied one registration, in order of arrival: one, unless it is
    /// a conjunction. The events are borrowed.
    ///
    /// Without dispatching it runs on the supplier's thread, and on several at once if several
    /// suppliers push. With dispatching, pushes are served one at a time.
    ///
    /// # Errors
    /// [`Failure::Failed`]: it is counted. A consumer that fails repeatedly is disconnected
    /// ([`Quality::failures`](crate::Quality::failures)). A panic counts as a failure.
    /// [`Failure::Busy`], [`Failure::Unsent`].
    fn push(&self, events: &[Event<'_>]) -> Result<(), Failure>;

    /// Whether one push may have several events of the channel's history, which do not belong
    /// together. For consumers to which a push costs more than an event, such as remote ones. False
    /// by default: each has a push of its own.
    fn takes_sets(&self) -> bool {
        false
    }

    /// Called after each failure: how long the channel does not call the consumer. Events that
    /// arrive meanwhile are queued by its policy; without a queue they are lost and counted. Zero
    /// by default: no backoff.
    fn backoff(&self) -> Duration {
        Duration::ZERO
    }

    /// Notifies the consumer of its priority, when it connects and whenever the scheduler changes
    /// it. Threads that connect wait for the return.
    fn priority_changed(&self, _priority: Priority) {}

    /// Passes the handle that ends a [`Failure::Busy`], once, before the first push. Must not wait.
    fn connected(&self, _resume: Resume) {}

    /// Notifies the consumer that the channel disconnected it and does not call it again.
    fn disconnected(&self) {}
}

/// Why a consumer did not process a push.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failure {
    /// It could not. The push is lost and counted.
    Failed,
    /// It takes nothing at present. The push stays the first of its queue, until
    /// [`Resume::resume`]. Not a failure, unless the consumer has no queue.
    Busy,
    /// It was not asked, since this process lacked something, such as a descriptor. The push is
    /// lost and counted as failed, but not towards
    /// [`Quality::failures`](crate::Quality::failures).
    Unsent,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Failure::Failed => "the consumer failed",
            Failure::Busy => "the consumer is busy",
            Failure::Unsent => "the consumer was not asked",
        })
    }
}

impl std::error::Error for Failure {}

impl<F: Fn(&[Event<'_>]) + Send + Sync> PushConsumer for F {
    fn push(&self, events: &[Event<'_>]) -> Result<(), Failure> {
        self(events);
        Ok(())
    }
}
