//! The thread that keeps consumers and suppliers connected.
//!
//! ```text
//!   connection ends, push fails ─► suspect ─┐
//!   interval                               ─┴─► probe all proxies ─► those that are gone: connect anew
//!                                                     └ no answer: again after a growing delay
//! ```

use super::{Notice, RemoteChannelBuilder, RemoteError};
use crate::servants::backoff;
use crate::servants::stamped::rtec_event_channel_admin::EventChannelRef;
use isorb::poa::PoaPolicies;
use isorb::{ConnectionWatcher, Kind, Object, Orb, Poa, Policies, Reference, SyncScope, SystemException};
use isorb_rt::sched::ThreadSpec;
use isorb_rt::sync::{Parker, PiMutex};
use isorb_rt::time::Deadline;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// The first delay after a failure.
const FIRST_BACKOFF: Duration = Duration::from_millis(10);

/// A consumer or supplier that is to stay connected.
pub(super) trait Reconnectable: Send + Sync {
    /// Its proxy; `None` if it has none.
    fn proxy(&self) -> Option<Object>;

    /// Gives it another proxy.
    fn register(&self, channel: &EventChannelRef) -> Result<(), RemoteError>;
}

pub(super) struct Shared {
    pub orb: Orb,
    pub url: String,
    /// Has the servants of consumers.
    pub poa: Poa,
    pub sync_scope: SyncScope,
    /// Consumers and suppliers are those of a gateway.
    pub gateway: bool,
    /// How often the connection to the channel has ended.
    ended: AtomicU64,
    timeout: Duration,
    longest_backoff: Duration,
    notify: Box<dyn Fn(&Notice) + Send + Sync>,
    registrations: PiMutex<Vec<Weak<dyn Reconnectable>>>,
    connected: AtomicBool,
    /// The program knows that the channel refuses some of them.
    refused: AtomicBool,
    /// The end of the connection will be noticed.
    watched: AtomicBool,
    wake: Arc<Wake>,
}

#[derive(Default)]
struct Wake {
    parker: Parker,
    stopped: AtomicBool,
}

impl Shared {
    pub fn start(orb: &Orb, url: &str, settings: RemoteChannelBuilder) -> Result<Arc<Shared>, RemoteError> {
        let RemoteChannelBuilder { timeout, probe, longest_backoff, sync_scope, gateway, notify } = settings;
        let name = format!("event-remote-{:x}", isorb_rt::random_u64());
        let poa = orb
            .root_poa()?
            .create_poa(&name, None, PoaPolicies::new())
            .map_err(|error| SystemException::from(Kind::NoResources).detail(error.to_string()))?;
        poa.manager().activate().map_err(|_| SystemException::from(Kind::ObjAdapter))?;
        let shared = Arc::new(Shared {
            orb: orb.clone(),
            url: url.to_owned(),
            poa,
            sync_scope,
            gateway,
            ended: AtomicU64::new(0),
            timeout,
            longest_backoff,
            notify,
            registrations: PiMutex::default(),
            connected: AtomicBool::new(true),
            refused: AtomicBool::new(false),
            watched: AtomicBool::new(false),
            wake: Arc::default(),
        });
        shared.watch(&shared.resolve()?)?;
        let (weak, wake, interval) = (Arc::downgrade(&shared), shared.wake.clone(), probe);
        ThreadSpec::inheriting("event-remote")
            .spawn_supervised(move || run(&weak, &wake, interval))
            .map_err(|error| SystemException::from(Kind::NoResources).detail(error.to_string()))?;
        Ok(shared)
    }

    /// The channel, by its URL or name. It is an event channel, and answers.
    pub fn resolve(&self) -> Result<EventChannelRef, SystemException> {
        let url = &self.url;
        let named = |exception: SystemException| {
            let why = exception.detail.as_deref().unwrap_or_default();
            let sentence = format!("no event channel at {url}: {why}");
            exception.detail(sentence)
        };
        let found = match self.orb.string_to_object(url) {
            Err(unknown) if !url.contains(':') => {
                self.orb.string_to_object(&format!("corbaname:rir:#{url}")).map_err(|_| unknown)
            }
            found => found,
        };
        let object = self.timed(&found.map_err(named)?);
        object.narrow().map_err(named)?.ok_or_else(|| {
            let interface = EventChannelRef::INTERFACE.id;
            SystemException::from(Kind::BadParam)
                .detail(format!("{url} is no {interface}; give the URL that the channel prints as READY"))
        })
    }

    /// A reference with the time-out for calls.
    pub fn timed(&self, object: &Object) -> Object {
        object.with_policies(self.policies())
    }

    pub fn policies(&self) -> Policies {
        Policies { round_trip_timeout: Some(self.timeout), ..Policies::default() }
    }

    pub fn notify(&self, notice: &Notice) {
        (self.notify)(notice);
    }

    pub fn is_connected(&self) -> bool {
        self.connected.load(Acquire)
    }

    /// Changes when the connection to the channel ends, after which the channel may be another one.
    pub fn connection_number(&self) -> u64 {
        self.ended.load(Acquire)
    }

    /// Keeps it connected from now on.
    pub fn add(&self, registration: &Arc<impl Reconnectable + 'static>) {
        let registration: Arc<dyn Reconnectable> = registration.clone();
        let mut registrations = self.registrations.lock();
        registrations.retain(|known| known.strong_count() > 0);
        registrations.push(Arc::downgrade(&registration));
    }

    /// Has all proxies probed at once: something failed. While the channel is known not to answer,
    /// the thread tries by itself.
    pub fn suspect(&self) {
        if self.connected.load(Acquire) {
            self.wake.parker.unpark();
        }
    }

    fn watch(self: &Arc<Self>, channel: &EventChannelRef) -> Result<(), SystemException> {
        let watcher: Arc<dyn ConnectionWatcher> = self.clone();
        self.watched.store(true, Release);
        let opened = channel.object().open_connection(Some(Arc::downgrade(&watcher)));
        if opened.is_err() {
            self.watched.store(false, Release);
        }
        opened
    }

    /// Probes all proxies, and replaces those that are gone. Returns false if the channel refuses
    /// some of them, or did not say whether they are there: that ends the round only where it does
    /// not answer at all.
    fn check(self: &Arc<Self>) -> Result<bool, SystemException> {
        let mut channel = None;
        if !self.watched.load(Acquire) {
            let resolved = self.resolve()?;
            self.watch(&resolved)?;
            channel = Some(resolved);
        }
        let all: Vec<_> = self.registrations.lock().iter().filter_map(Weak::upgrade).collect();
        let mut complete = true;
        for registration in all {
            match registration.proxy().map(|proxy| self.timed(&proxy).non_existent()) {
                Some(Ok(false)) => continue,
                None | Some(Ok(true)) => {}
                Some(Err(exception)) if is_silence(exception.kind) => return Err(exception),
                Some(Err(exception)) => {
                    self.notify_refused(exception);
                    complete = false;
                    continue;
                }
            }
            let channel = match &channel {
                Some(channel) => channel,
                None => channel.insert(self.resolve()?),
            };
            match registration.register(channel) {
                Ok(()) => {}
                Err(RemoteError::System(exception)) if is_silence(exception.kind) => return Err(exception),
                Err(why) => {
                    let why = match why {
                        RemoteError::System(exception) => exception,
                        other => SystemException::from(Kind::BadParam).detail(other.to_string()),
                    };
                    self.notify_refused(why);
                    complete = false;
                }
            }
        }
        Ok(complete)
    }

    /// Notifies the program of the first refusal.
    fn notify_refused(&self, why: SystemException) {
        if !self.refused.swap(true, AcqRel) {
            self.notify(&Notice::Refused(why));
        }
    }

    /// The delay after so many failures. Half of it is random, so that the clients of a channel do
    /// not come back all at once.
    fn backoff(&self, failures: u32) -> Duration {
        let delay = backoff::delay(FIRST_BACKOFF, failures).min(self.longest_backoff);
        let half = u64::try_from(delay.as_nanos() / 2).unwrap_or(u64::MAX);
        Duration::from_nanos(half + isorb_rt::random_u64() % (half + 1))
    }
}

/// Whether the peer cannot be reached, or does not answer.
fn is_silence(kind: Kind) -> bool {
    matches!(kind, Kind::CommFailure | Kind::Transient | Kind::Timeout | Kind::Rebind)
}

impl ConnectionWatcher for Shared {
    fn changed(&self, ended: bool) {
        if ended {
            self.ended.fetch_add(1, AcqRel);
            self.watched.store(false, Release);
            self.suspect();
        }
    }
}

/// The thread, until the last handle is dropped.
fn run(shared: &Weak<Shared>, wake: &Wake, interval: Duration) {
    let mut due = Deadline::after(interval);
    let mut failures = 0;
    while !wake.stopped.load(Acquire) {
        wake.parker.park_until(due);
        let Some(shared) = shared.upgrade() else { return };
        match shared.check() {
            Ok(false) => {
                failures += 1;
                due = Deadline::after(shared.backoff(failures));
            }
            Ok(true) => {
                shared.refused.store(false, Release);
                (failures, due) = (0, Deadline::after(interval));
                if !shared.connected.swap(true, AcqRel) {
                    shared.notify(&Notice::Resumed);
                }
                // The connection may have ended while it was not suspected.
                if !shared.watched.load(Acquire) {
                    due = Deadline::at_ns(0);
                }
            }
            Err(why) => {
                failures += 1;
                due = Deadline::after(shared.backoff(failures));
                if shared.connected.swap(false, AcqRel) {
                    shared.notify(&Notice::Interrupted(why));
                }
            }
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.wake.stopped.store(true, Release);
        self.wake.parker.unpark();
        let _ = self.poa.destroy(true, false);
    }
}
