//! The pull model of the OMG's Event Service: consumers that pull events, and suppliers that are
//! polled.

use super::any;
use super::control::MonitoredPeer;
use super::cos::{ConsumerProxyState, connect_supplier, send};
use super::proxies::ProxySlot;
use super::service::Shared;
use super::standard::{cos_event_channel_admin as admin_idl, cos_event_comm as comm};
use crate::admin::ProxyPushConsumer;
use crate::dispatch::{Dispatch, ReadyConsumer};
use crate::event::Event;
use crate::{Failure, PushConsumer};
use admin_idl::{
    AlreadyConnected, proxy_pull_consumer::ConnectPullSupplierError,
    proxy_pull_supplier::ConnectPullConsumerError,
};
use comm::{
    Disconnected,
    pull_supplier::{PullError, TryPullError},
};
use isorb::{Any, Kind, Reference, Result, SystemException, Upcall};
use isorb_rt::log;
use isorb_rt::sched::ThreadSpec;
use isorb_rt::sync::{Parker, PiCondvar, PiMutex};
use isorb_rt::time::Deadline;
use std::collections::VecDeque;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How long a `pull` waits before it checks whether the consumer is still connected.
const PULL_SLICE: Duration = Duration::from_millis(200);
/// The pause after a poll without an event.
const PULL_PAUSE: Duration = Duration::from_millis(20);
/// The longest backoff after failed polls.
const LONGEST_REST: Duration = Duration::from_secs(30);

/// The dispatcher of one pull consumer: it serves the queue when the consumer pulls. So queued
/// events are bounded, subject to the overflow policy and counted, as for other consumers.
#[derive(Default)]
struct PullQueue {
    state: PiMutex<PullQueueState>,
    filled: PiCondvar,
}

#[derive(Default)]
struct PullQueueState {
    /// Set while events are queued.
    work: Option<ReadyConsumer>,
    /// Values taken from the queue and not yet returned by a pull.
    values: VecDeque<Any>,
    closed: bool,
}

impl PullQueue {
    fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        // The token refers to the connection, which refers to this.
        let work = state.work.take();
        drop(state);
        drop(work);
        self.filled.notify_all(&self.state);
    }

    fn is_closed(&self) -> bool {
        self.state.lock().closed
    }

    fn take(&self, deadline: Deadline) -> Option<Any> {
        loop {
            let mut state = self.state.lock();
            self.filled.wait_while(&mut state, deadline, |state| {
                state.work.is_none() && state.values.is_empty() && !state.closed
            });
            if let Some(value) = state.values.pop_front() {
                return Some(value);
            }
            let work = state.work.take()?;
            drop(state);
            if let Some(more) = work.run() {
                self.give(more);
            }
        }
    }

    fn give(&self, work: ReadyConsumer) {
        let mut state = self.state.lock();
        let late = match state.closed {
            true => Some(work),
            false => state.work.replace(work),
        };
        drop(state);
        drop(late);
        self.filled.notify_one(&self.state);
    }
}

impl Dispatch for PullQueue {
    fn ready(&self, work: ReadyConsumer) -> std::result::Result<(), ReadyConsumer> {
        self.give(work);
        Ok(())
    }

    fn reserve(&self, _: usize) {}

    fn close(&self) {
        PullQueue::close(self);
    }

    fn only_anys(&self) -> bool {
        true
    }
}

/// The consumer that stores the values of a pull.
struct PullQueueConsumer(Weak<PullQueue>);

impl PushConsumer for PullQueueConsumer {
    fn push(&self, events: &[Event<'_>]) -> std::result::Result<(), Failure> {
        let pull_queue = self.0.upgrade().ok_or(Failure::Failed)?;
        let values = events.iter().filter(|event| !event.data.any.is_empty());
        let values: Vec<Any> = values.map(|event| any::unpack(event.data.any)).collect();
        pull_queue.state.lock().values.extend(values);
        Ok(())
    }

    fn disconnected(&self) {
        if let Some(pull_queue) = self.0.upgrade() {
            pull_queue.close();
        }
    }
}

/// The proxy of a pull consumer.
pub(super) struct PullSupplierServant {
    shared: Arc<Shared>,
    me: Weak<PullSupplierServant>,
    pub slot: ProxySlot,
    /// It has pulled since the last check.
    active: AtomicBool,
    pull_queue: Arc<PullQueue>,
    ends: ConsumerProxyState,
}

impl PullSupplierServant {
    pub fn new(shared: &Arc<Shared>) -> Arc<PullSupplierServant> {
        Arc::new_cyclic(|me| PullSupplierServant {
            shared: shared.clone(),
            me: me.clone(),
            slot: ProxySlot::default(),
            active: AtomicBool::new(false),
            pull_queue: Arc::default(),
            ends: ConsumerProxyState::default(),
        })
    }

    fn is_connected(&self) -> bool {
        self.active.store(true, Relaxed);
        self.ends.is_connected() && !self.pull_queue.is_closed()
    }
}

impl MonitoredPeer for PullSupplierServant {
    fn lost(&self) {
        self.ends.end(&self.shared, &self.slot);
        self.pull_queue.close();
    }

    fn was_active(&self) -> bool {
        self.active.swap(false, Relaxed)
    }
}

impl comm::PullSupplier for PullSupplierServant {
    /// Waits for an event while the consumer is connected. If the client's time-out ends the call
    /// first, the event of the reply is lost, as the standard allows.
    fn pull<'u>(&'u self, cx: Upcall<'u>) -> Result<&'u Any, PullError> {
        while self.is_connected() {
            if let Some(value) = self.pull_queue.take(Deadline::after(PULL_SLICE)) {
                return Ok(cx.keep(value)?);
            }
        }
        Err(Disconnected {}.into())
    }

    fn try_pull<'u>(&'u self, cx: Upcall<'u>) -> Result<(&'u Any, bool), TryPullError> {
        if !self.is_connected() {
            return Err(Disconnected {}.into());
        }
        let value = self.pull_queue.take(Deadline::PAST);
        let has_event = value.is_some();
        Ok((cx.keep(value.unwrap_or_default())?, has_event))
    }

    fn disconnect_pull_supplier(&self, _: Upcall<'_>) -> Result<()> {
        self.lost();
        Ok(())
    }
}

impl admin_idl::ProxyPullSupplier for PullSupplierServant {
    fn connect_pull_consumer(
        &self,
        _: Upcall<'_>,
        pull_consumer: Option<&comm::PullConsumerRef>,
    ) -> Result<(), ConnectPullConsumerError> {
        let consumer = Arc::new(PullQueueConsumer(Arc::downgrade(&self.pull_queue)));
        let me: Weak<dyn MonitoredPeer> = self.me.clone();
        // A consumer without a reference cannot be pinged.
        let watch = pull_consumer.map(|peer| (peer.object(), me));
        self.ends.connect(&self.shared, &self.slot, consumer, Some(self.pull_queue.clone()), watch)
    }
}

/// The proxy of a pull supplier, which a thread of its own polls.
pub(super) struct PullConsumerServant {
    shared: Arc<Shared>,
    me: Weak<PullConsumerServant>,
    pub slot: ProxySlot,
    state: PiMutex<PullConsumerState>,
}

#[derive(Default)]
struct PullConsumerState {
    poll_thread: Option<Arc<PollThread>>,
    ended: bool,
}

/// Ends the polling thread.
#[derive(Default)]
struct PollThread {
    stop: AtomicBool,
    parker: Parker,
}

impl PollThread {
    fn stop(&self) {
        self.stop.store(true, Release);
        self.parker.unpark();
    }

    fn goes_on(&self) -> bool {
        !self.stop.load(Acquire)
    }
}

impl PullConsumerServant {
    pub fn new(shared: &Arc<Shared>) -> Arc<PullConsumerServant> {
        Arc::new_cyclic(|me| PullConsumerServant {
            shared: shared.clone(),
            me: me.clone(),
            slot: ProxySlot::default(),
            state: PiMutex::default(),
        })
    }

    fn stop(&self) {
        if let Some(poll_thread) = self.state.lock().poll_thread.take() {
            poll_thread.stop();
        }
    }

    /// The polling thread has stopped. A client may connect the proxy again.
    fn stopped(&self, poll_thread: &Arc<PollThread>, why: &str) {
        let mut state = self.state.lock();
        if !state.poll_thread.as_ref().is_some_and(|current| Arc::ptr_eq(current, poll_thread)) {
            return;
        }
        state.poll_thread = None;
        drop(state);
        self.shared.channel.lost_supplier();
        self.shared.proxies.free_again(&self.slot);
        log::warn(
            "isorb::event",
            format_args!("a pull supplier is no longer polled: {why}; it may connect again"),
        );
    }
}

impl Drop for PullConsumerServant {
    fn drop(&mut self) {
        self.stop();
    }
}

impl comm::PullConsumer for PullConsumerServant {
    fn disconnect_pull_consumer(&self, _: Upcall<'_>) -> Result<()> {
        self.state.lock().ended = true;
        self.stop();
        self.shared.proxies.retire(&self.slot);
        Ok(())
    }
}

impl admin_idl::ProxyPullConsumer for PullConsumerServant {
    fn connect_pull_supplier(
        &self,
        _: Upcall<'_>,
        pull_supplier: Option<&comm::PullSupplierRef>,
    ) -> Result<(), ConnectPullSupplierError> {
        let peer = pull_supplier.ok_or(Kind::BadParam).map_err(SystemException::from)?;
        let mut state = self.state.lock();
        if state.poll_thread.is_some() || state.ended {
            return Err(AlreadyConnected {}.into());
        }
        let supplier = connect_supplier(&self.shared)?;
        if !self.shared.proxies.connected(&self.slot) {
            return Err(SystemException::from(Kind::ObjectNotExist).into());
        }
        let peer = comm::PullSupplierRef::from_object(self.shared.timed(peer.object()));
        let poll_thread = Arc::new(PollThread::default());
        let (mine, me, options) = (poll_thread.clone(), self.me.clone(), &self.shared.options);
        let (limit, rest) = (options.quality.failures, options.push_timeout);
        let body = move || {
            let stopped = ping(&peer, &supplier, &mine, limit, rest);
            drop(supplier);
            if let (Some(why), Some(me)) = (stopped, me.upgrade()) {
                me.stopped(&mine, &why);
            }
        };
        let spawned = ThreadSpec::inheriting("event-pull").spawn(body);
        if let Err(error) = spawned {
            self.shared.proxies.free_again(&self.slot);
            return Err(SystemException::from(Kind::NoResources).detail(error.to_string()).into());
        }
        state.poll_thread = Some(poll_thread);
        Ok(())
    }
}

/// Polls a pull supplier until it is disconnected or has failed `limit` times in a row (0 for
/// never). Returns why it stopped. After a failure the pause doubles each time.
fn ping(
    peer: &comm::PullSupplierRef,
    supplier: &ProxyPushConsumer,
    poll_thread: &PollThread,
    limit: u32,
    first_rest: Duration,
) -> Option<String> {
    let mut failures = 0_u32;
    while poll_thread.goes_on() {
        let pause = match peer.try_pull() {
            Ok((value, true)) => {
                failures = 0;
                send(supplier, &value);
                continue;
            }
            Ok((_, false)) => {
                failures = 0;
                PULL_PAUSE
            }
            Err(TryPullError::Disconnected(_)) => return Some("it reports that it is disconnected".into()),
            Err(error) => {
                failures += 1;
                if limit != 0 && failures >= limit {
                    return Some(format!("it failed {failures} times in a row, the last time with {error}"));
                }
                first_rest.saturating_mul(1 << (failures - 1).min(16)).min(LONGEST_REST)
            }
        };
        poll_thread.parker.park_until(Deadline::after(pause));
    }
    None
}
