//! The standard's pull model: consumers that come for their events, and suppliers that are asked for theirs.

use super::any;
use super::control::Connected;
use super::cos::{Ends, connect_supplier, send};
use super::options::Shared;
use super::proxies::Slot;
use super::standard::{cos_event_channel_admin as admin_idl, cos_event_comm as comm};
use crate::admin::ProxyPushConsumer;
use crate::dispatch::{Dispatch, Work};
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
use isorb_rt::sync::{Parker, PiCondvar, PiMutex};
use isorb_rt::time::Deadline;
use std::collections::VecDeque;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How long a `pull` waits inside before it looks whether it still should.
const PULL_SLICE: Duration = Duration::from_millis(200);
/// How often a pull supplier is asked that had nothing.
const PULL_PAUSE: Duration = Duration::from_millis(20);
/// How long one that fails is left alone at most.
const LONGEST_REST: Duration = Duration::from_secs(30);

/// Serves one consumer's queue when somebody pulls. So what waits for him is bounded, and lost, refused or waited for by his quality's
/// policy, and counted, as for anybody else.
#[derive(Default)]
struct Pulled {
    state: PiMutex<PulledState>,
    filled: PiCondvar,
}

#[derive(Default)]
struct PulledState {
    /// There is one while events wait.
    work: Option<Work>,
    /// What the queue handed out, until the one who pulls has it.
    values: VecDeque<Any>,
    closed: bool,
}

impl Pulled {
    fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        // It refers to the connection, and that to this.
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

    fn give(&self, work: Work) {
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

impl Dispatch for Pulled {
    fn ready(&self, work: Work) -> std::result::Result<(), Work> {
        self.give(work);
        Ok(())
    }

    fn reserve(&self, _: usize) {}

    fn close(&self) {
        Pulled::close(self);
    }

    fn only_anys(&self) -> bool {
        true
    }
}

/// Where the queue puts what is pulled.
struct Landing(Weak<Pulled>);

impl PushConsumer for Landing {
    fn push(&self, events: &[Event<'_>]) -> std::result::Result<(), Failure> {
        let pulled = self.0.upgrade().ok_or(Failure)?;
        let values = events.iter().filter(|event| !event.data.any.is_empty());
        let values: Vec<Any> = values.map(|event| any::unpack(event.data.any)).collect();
        pulled.state.lock().values.extend(values);
        Ok(())
    }

    fn disconnected(&self) {
        if let Some(pulled) = self.0.upgrade() {
            pulled.close();
        }
    }
}

/// The proxy of a pull consumer.
pub(super) struct ToPull {
    shared: Arc<Shared>,
    me: Weak<ToPull>,
    pub slot: Slot,
    /// It has pulled since it was asked last.
    heard: AtomicBool,
    pulled: Arc<Pulled>,
    ends: Ends,
}

impl ToPull {
    pub fn new(shared: &Arc<Shared>) -> Arc<ToPull> {
        Arc::new_cyclic(|me| ToPull {
            shared: shared.clone(),
            me: me.clone(),
            slot: Slot::default(),
            heard: AtomicBool::new(false),
            pulled: Arc::default(),
            ends: Ends::default(),
        })
    }

    fn is_connected(&self) -> bool {
        self.heard.store(true, Relaxed);
        self.ends.is_connected() && !self.pulled.is_closed()
    }
}

impl Connected for ToPull {
    fn lost(&self) {
        self.ends.end(&self.shared, &self.slot);
        self.pulled.close();
    }

    fn was_heard(&self) -> bool {
        self.heard.swap(false, Relaxed)
    }
}

impl comm::PullSupplier for ToPull {
    /// Waits for an event as long as the consumer is connected. The client's own time-out may end the wait sooner; what came
    /// meanwhile is then lost, as the standard has it.
    fn pull<'u>(&'u self, cx: Upcall<'u>) -> Result<&'u Any, PullError> {
        while self.is_connected() {
            if let Some(value) = self.pulled.take(Deadline::after(PULL_SLICE)) {
                return Ok(cx.keep(value)?);
            }
        }
        Err(Disconnected {}.into())
    }

    fn try_pull<'u>(&'u self, cx: Upcall<'u>) -> Result<(&'u Any, bool), TryPullError> {
        if !self.is_connected() {
            return Err(Disconnected {}.into());
        }
        let value = self.pulled.take(Deadline::PAST);
        let has_event = value.is_some();
        Ok((cx.keep(value.unwrap_or_default())?, has_event))
    }

    fn disconnect_pull_supplier(&self, _: Upcall<'_>) -> Result<()> {
        self.lost();
        Ok(())
    }
}

impl admin_idl::ProxyPullSupplier for ToPull {
    fn connect_pull_consumer(
        &self,
        _: Upcall<'_>,
        pull_consumer: Option<&comm::PullConsumerRef>,
    ) -> Result<(), ConnectPullConsumerError> {
        let landing = Arc::new(Landing(Arc::downgrade(&self.pulled)));
        let me: Weak<dyn Connected> = self.me.clone();
        // One without a reference cannot be asked.
        let watch = pull_consumer.map(|peer| (peer.object(), me));
        self.ends.connect(&self.shared, &self.slot, landing, Some(self.pulled.clone()), watch)
    }
}

/// The proxy of a pull supplier: a thread of its own asks it.
pub(super) struct FromPull {
    shared: Arc<Shared>,
    me: Weak<FromPull>,
    pub slot: Slot,
    state: PiMutex<FromPullState>,
}

#[derive(Default)]
struct FromPullState {
    asking: Option<Arc<Asking>>,
    ended: bool,
}

/// What ends the thread that asks.
#[derive(Default)]
struct Asking {
    stop: AtomicBool,
    parker: Parker,
}

impl Asking {
    fn stop(&self) {
        self.stop.store(true, Release);
        self.parker.unpark();
    }

    fn goes_on(&self) -> bool {
        !self.stop.load(Acquire)
    }
}

impl FromPull {
    pub fn new(shared: &Arc<Shared>) -> Arc<FromPull> {
        Arc::new_cyclic(|me| FromPull {
            shared: shared.clone(),
            me: me.clone(),
            slot: Slot::default(),
            state: PiMutex::default(),
        })
    }

    fn stop(&self) {
        if let Some(asking) = self.state.lock().asking.take() {
            asking.stop();
        }
    }

    /// The thread has given up. Whoever has the proxy may connect it again.
    fn gave_up(&self, asking: &Arc<Asking>, why: &str) {
        let mut state = self.state.lock();
        if !state.asking.as_ref().is_some_and(|current| Arc::ptr_eq(current, asking)) {
            return;
        }
        state.asking = None;
        drop(state);
        self.shared.channel.lost_supplier();
        self.shared.proxies.free_again(&self.slot);
        isorb::note(format_args!("a pull supplier is asked no more: {why}; it may be connected again"));
    }
}

impl Drop for FromPull {
    fn drop(&mut self) {
        self.stop();
    }
}

impl comm::PullConsumer for FromPull {
    fn disconnect_pull_consumer(&self, _: Upcall<'_>) -> Result<()> {
        self.state.lock().ended = true;
        self.stop();
        self.shared.proxies.retire(&self.slot);
        Ok(())
    }
}

impl admin_idl::ProxyPullConsumer for FromPull {
    fn connect_pull_supplier(
        &self,
        _: Upcall<'_>,
        pull_supplier: Option<&comm::PullSupplierRef>,
    ) -> Result<(), ConnectPullSupplierError> {
        let peer = pull_supplier.ok_or(Kind::BadParam).map_err(SystemException::from)?;
        let mut state = self.state.lock();
        if state.asking.is_some() || state.ended {
            return Err(AlreadyConnected {}.into());
        }
        let supplier = connect_supplier(&self.shared)?;
        if !self.shared.proxies.connected(&self.slot) {
            return Err(SystemException::from(Kind::ObjectNotExist).into());
        }
        let peer = comm::PullSupplierRef::from_object(self.shared.timed(peer.object()));
        let asking = Arc::new(Asking::default());
        let (mine, me, options) = (asking.clone(), self.me.clone(), &self.shared.options);
        let (limit, rest) = (options.quality.failures, options.push_timeout);
        let body = move || {
            let gave_up = ask(&peer, &supplier, &mine, limit, rest);
            drop(supplier);
            if let (Some(why), Some(me)) = (gave_up, me.upgrade()) {
                me.gave_up(&mine, &why);
            }
        };
        let spawned = std::thread::Builder::new().name("event-pull".into()).spawn(body);
        if let Err(error) = spawned {
            self.shared.proxies.free_again(&self.slot);
            return Err(SystemException::from(Kind::NoResources).detail(error.to_string()).into());
        }
        state.asking = Some(asking);
        Ok(())
    }
}

/// Asks a pull supplier until it is disconnected, says so itself, or has failed `limit` times in a row (0 is never); says why it gave up. After a
/// failure it is left alone, twice as long each time.
fn ask(
    peer: &comm::PullSupplierRef,
    supplier: &ProxyPushConsumer,
    asking: &Asking,
    limit: u32,
    first_rest: Duration,
) -> Option<String> {
    let mut failures = 0_u32;
    while asking.goes_on() {
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
            Err(TryPullError::Disconnected(_)) => return Some("it says that it is disconnected".into()),
            Err(error) => {
                failures += 1;
                if limit != 0 && failures >= limit {
                    return Some(format!("it failed {failures} times in a row, at last with {error}"));
                }
                first_rest.saturating_mul(1 << (failures - 1).min(16)).min(LONGEST_REST)
            }
        };
        asking.parker.park_until(Deadline::after(pause));
    }
    None
}
