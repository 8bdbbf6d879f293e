//! Consumers that are busy: no dispatcher has them until they resume.

use super::Connection;
use crate::dispatch::{ReadyConsumer, Redispatch};
use isorb_rt::sync::atomic::AtomicU8;
use isorb_rt::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::fmt;
use std::sync::{Arc, Weak};

/// A dispatcher has the consumer, or may get it.
const RUNNING: u8 = 0;
/// No dispatcher has the consumer.
const PARKED: u8 = 1;
/// It resumed after its last push began: that push may not have seen it.
const RESUMED: u8 = 2;

/// Whether a busy consumer waits for [`Resume::resume`].
#[derive(Default)]
pub(super) struct Parking(AtomicU8);

impl Parking {
    /// Returns false if the consumer resumed meanwhile.
    fn park(&self) -> bool {
        let parked = self.0.compare_exchange(RUNNING, PARKED, AcqRel, Acquire).is_ok();
        if !parked {
            self.0.store(RUNNING, Release);
        }
        parked
    }

    /// Returns true if the consumer was parked.
    fn unpark(&self) -> bool {
        let parked = self.0.swap(RESUMED, AcqRel) == PARKED;
        if parked {
            self.0.store(RUNNING, Release);
        }
        parked
    }
}

impl Connection {
    /// Takes the consumer from its dispatcher. Returns false if it resumed meanwhile.
    #[cold]
    pub(crate) fn park(&self) -> bool {
        self.parking.park()
    }
}

/// Ends a [`Failure::Busy`](crate::Failure::Busy): the consumer is offered its queued pushes again.
#[derive(Clone)]
pub struct Resume {
    connection: Weak<Connection>,
    channel: Weak<dyn Redispatch>,
}

impl Resume {
    pub(crate) fn new(connection: &Arc<Connection>, channel: Weak<dyn Redispatch>) -> Resume {
        Resume { connection: Arc::downgrade(connection), channel }
    }

    /// Has the consumer served again, if it is busy. Calls that come too early or too often are
    /// harmless.
    ///
    /// # Real-time
    /// Does not allocate. Takes the lock of the consumer's level if it was busy.
    pub fn resume(&self) {
        let Some(connection) = self.connection.upgrade() else { return };
        if !connection.parking.unpark() {
            return;
        }
        match connection.own_dispatch().cloned() {
            // A closed dispatcher of its own has no replacement.
            Some(own) => drop(own.ready(ReadyConsumer(connection))),
            None => {
                if let Some(channel) = self.channel.upgrade() {
                    channel.redispatch(ReadyConsumer(connection));
                }
            }
        }
    }
}

impl fmt::Debug for Resume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resume").finish_non_exhaustive()
    }
}
