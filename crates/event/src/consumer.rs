//! What stands at the other end of a connection.

use crate::event::Event;
use isorb_rt::priority::Priority;
use std::fmt;
use std::time::Duration;

/// A consumer of events (`RtecEventComm::PushConsumer`). A function of events is one.
pub trait PushConsumer: Send + Sync {
    /// Takes the events that satisfied one registration, in order of arrival: one, unless it is a conjunction. They are lent.
    ///
    /// Without dispatching it runs on the supplier's thread, and on several at once when several suppliers push; with
    /// dispatching one push at a time.
    ///
    /// # Errors
    /// [`Failure`]: counted; a consumer that fails again and again is disconnected (see
    /// [`Quality::failures`](crate::Quality::failures)). A panic counts as one.
    fn push(&self, events: &[Event<'_>]) -> Result<(), Failure>;

    /// Asked after each failure: how long the consumer is left alone, since it would fail again. What comes meanwhile waits in its queue
    /// as its policy has it; where no queue stands between it and the supplier, it is lost and counted. Zero, unless implemented, is not
    /// at all.
    fn backoff(&self) -> Duration {
        Duration::ZERO
    }

    /// Where the scheduler has put it: as it connects, and again whenever that changes. Those who connect wait until it returns.
    fn priority_changed(&self, _priority: Priority) {}

    /// The channel has disconnected it, and will not call again.
    fn disconnected(&self) {}
}

/// The consumer could not take what was pushed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Failure;

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the consumer failed")
    }
}

impl std::error::Error for Failure {}

impl<F: Fn(&[Event<'_>]) + Send + Sync> PushConsumer for F {
    fn push(&self, events: &[Event<'_>]) -> Result<(), Failure> {
        self(events);
        Ok(())
    }
}
