//! The parts of a channel that all others share.

use crate::batch::EventListPool;
use crate::clock::Clock;
use crate::connection::Connection;
use crate::content::PayloadError;
use crate::counters::TotalCounters;
use crate::event::EventPool;
use crate::retention::{History, Retention};
use isorb_rt::priority::Priority;
use isorb_rt::sync::{Parker, PiMutex};
use isorb_trace::Recorder;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A connection that the channel is to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PendingDisconnect {
    Consumer(u32),
    Supplier(u32),
}

/// The most first losses that wait to be logged. The log is limited, too.
const MAX_LOSSES: usize = 64;

/// A loss that is logged once.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FirstLoss {
    /// The first event of a supplier that a consumer lost.
    Supplier {
        supplier: u32,
        event_type: i32,
        octets: usize,
        /// Consumers for which it was too large.
        too_large: u32,
        /// Consumers with a full queue.
        full: u32,
    },
    /// The first event that a consumer's content filter could not read.
    Payload { consumer: u32, event_type: i32, octets: usize, why: PayloadError },
}

impl fmt::Display for FirstLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            FirstLoss::Supplier { supplier, event_type, octets, too_large, full } => {
                write!(
                    f,
                    "supplier {supplier}: an event of type {event_type} with {octets} octets is lost for "
                )?;
                match too_large {
                    0 => write!(
                        f,
                        "{full} consumers: their queues or all copies were full; raise Quality::queue or \
                         Limits::events (--queue, --events)"
                    )?,
                    _ => write!(
                        f,
                        "{too_large} consumers, because no copy is so large: raise Limits::larger (--larger)"
                    )?,
                }
                f.write_str("; later losses are counted only")
            }
            FirstLoss::Payload { consumer, event_type, octets, why } => write!(
                f,
                "consumer {consumer}: an event of type {event_type} with {octets} octets is not delivered: \
                 {why}; later ones are counted only"
            ),
        }
    }
}

pub(crate) struct Kernel {
    pub clock: Arc<dyn Clock>,
    pub recorder: Recorder,
    pub events: EventPool,
    pub sets: EventListPool,
    /// The priority levels, the least urgent first.
    pub levels: Box<[Priority]>,
    /// See [`ChannelBuilder::block`](crate::ChannelBuilder::block).
    pub block: Duration,
    pub counting: bool,
    pub totals: TotalCounters,
    /// Whether consumers have histograms.
    pub latencies: bool,
    /// `None` for a channel that keeps no events and limits no lifespan.
    pub retention: Option<Retention>,
    /// See [`Limits::instances`](crate::Limits::instances).
    pub instances: usize,
    /// The connections to end at the next sweep.
    leaving: PiMutex<Vec<PendingDisconnect>>,
    /// Disconnected consumers that have not been notified, at most `max_unnotified`.
    unnotified: PiMutex<VecDeque<Arc<Connection>>>,
    max_unnotified: usize,
    /// The first losses of suppliers that have not been logged.
    losses: PiMutex<Vec<FirstLoss>>,
    /// Wakes the thread that sweeps.
    pub sweeper: Parker,
}

impl Kernel {
    #[allow(clippy::too_many_arguments, reason = "one place makes it, from one configuration")]
    pub(crate) fn new(
        clock: Arc<dyn Clock>,
        recorder: Recorder,
        events: EventPool,
        sets: EventListPool,
        levels: Box<[Priority]>,
        block: Duration,
        counting: bool,
        latencies: bool,
        retention: Option<Retention>,
        [consumers, suppliers, instances]: [usize; 3],
    ) -> Kernel {
        let leaving = PiMutex::new(Vec::with_capacity(consumers));
        Kernel {
            clock,
            recorder,
            events,
            sets,
            levels,
            block,
            counting,
            totals: TotalCounters::default(),
            latencies,
            retention,
            instances,
            leaving,
            unnotified: PiMutex::default(),
            max_unnotified: consumers.max(1),
            losses: PiMutex::new(Vec::with_capacity(suppliers.min(MAX_LOSSES))),
            sweeper: Parker::new(),
        }
    }

    /// The level that serves a priority: the most urgent one that is not above it, or the lowest.
    pub(crate) fn level(&self, priority: Priority) -> u8 {
        let above = self.levels.iter().take_while(|level| **level <= priority).count();
        above.saturating_sub(1) as u8
    }

    pub(crate) fn history(&self) -> Option<&History> {
        self.retention.as_ref()?.history.as_ref()
    }

    /// Asks for a connection to be ended at the next sweep.
    pub(crate) fn request_disconnect(&self, pending: PendingDisconnect) {
        let mut leaving = self.leaving.lock();
        // The vector has room for all consumers.
        if !leaving.contains(&pending) {
            leaving.push(pending);
        }
        drop(leaving);
        self.sweeper.unpark();
    }

    /// Has the first loss of a supplier logged by the thread that sweeps.
    #[cold]
    pub(crate) fn report_loss(&self, loss: FirstLoss) {
        let mut losses = self.losses.lock();
        if losses.len() < losses.capacity() {
            losses.push(loss);
        }
        drop(losses);
        self.sweeper.unpark();
    }

    pub(crate) fn log_losses(&self) {
        while let Some(loss) = { self.losses.lock().pop() } {
            isorb_rt::log::warn("isorb::event", format_args!("{loss}"));
        }
        if let Some(history) = self.history() {
            history.log_first_loss();
        }
    }

    pub(crate) fn next_pending_disconnect(&self) -> Option<PendingDisconnect> {
        self.leaving.lock().pop()
    }

    /// Queues the notification of a disconnected consumer. If too many are queued, the oldest is
    /// dropped.
    pub(crate) fn notify_later(&self, gone: Arc<Connection>) {
        let mut unnotified = self.unnotified.lock();
        let dropped = if unnotified.len() >= self.max_unnotified { unnotified.pop_front() } else { None };
        unnotified.push_back(gone);
        drop(unnotified);
        drop(dropped);
    }

    pub(crate) fn next_to_notify(&self) -> Option<Arc<Connection>> {
        self.unnotified.lock().pop_front()
    }
}
