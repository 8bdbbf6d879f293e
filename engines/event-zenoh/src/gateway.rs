//! The gateway of a channel, and the thread that keeps its declarations.

mod thread;

use crate::backbone;
use crate::counts::{GatewayCounts, count};
use crate::incoming::Incoming;
use crate::interests::{Interests, Table};
use crate::keys::Interest;
use crate::outgoing::Outgoing;
use crate::pattern::patterns;
use crate::settings::{GatewayError, Settings};
use isorb_event::{Channel, Filter, Observer, Priority, SupplierQos};
use isorb_rt::log;
use isorb_rt::sched::{SchedClass, Thread, ThreadSpec};
use isorb_rt::sync::{Parker, PiMutex};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::Instant;
use thread::GatewayThread;
use zenoh::Wait;
use zenoh::sample::{Sample, SampleKind};

/// Is told which events other sites want, after each change: single pairs of type and source, or
/// everything.
pub type Watcher = Box<dyn Fn(&[Filter]) + Send + Sync>;

/// Connects a channel with those of other sites; see the [crate](crate). It ends when it is
/// dropped.
pub struct Gateway {
    shared: Arc<Shared>,
    channel: Channel,
    observer: u32,
    thread: Option<Thread<()>>,
}

/// The filters of the channel's consumers, by their priorities.
type FiltersByPriority = Vec<(Priority, Vec<Filter>)>;

struct Shared {
    outgoing: Arc<Outgoing>,
    interests: PiMutex<KnownInterests>,
    /// What other sites want and are sent.
    served: PiMutex<Table>,
    /// Those that are not announced yet.
    local: PiMutex<Option<FiltersByPriority>>,
    wake: Parker,
    stopped: AtomicBool,
}

#[derive(Default)]
struct KnownInterests {
    interests: Interests,
    /// Interests that vanished, and when.
    leaving: HashMap<String, (Interest, Instant)>,
    changed: bool,
}

impl KnownInterests {
    /// An interest vanished. Those that were not accepted leave nothing behind, so that what leaves
    /// is bounded, too.
    fn vanished(&mut self, key: &str, interest: Interest) {
        if self.interests.contains(&interest) {
            self.leaving.insert(key.to_string(), (interest, Instant::now()));
        }
    }
}

impl Gateway {
    /// Starts the gateway of a channel. The channel's consumers receive events of other sites from
    /// now on, and other sites those of its suppliers.
    ///
    /// # Errors
    /// [`GatewayError`]: among others, none of the routers answers. A program that is to wait for
    /// them tries again.
    ///
    /// # Real-time
    /// Allocates and calls. Starts the threads of zenoh, a thread `isorb-zenoh`, and one for each
    /// priority at which other sites want events; all are ordinary threads. Suppliers of the
    /// channel take two PI locks for short sections for an event that another site wants. Events of
    /// other sites enter the channel on a thread of zenoh: give the channel a dispatching strategy
    /// with threads, or its consumers run there.
    pub fn start(channel: &Channel, settings: Settings) -> Result<Gateway, GatewayError> {
        Gateway::start_watched(channel, settings, Box::new(|_| ()))
    }

    /// As [`start`](Self::start). `watcher` runs on the thread `isorb-zenoh`.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_watched(
        channel: &Channel,
        settings: Settings,
        watcher: Watcher,
    ) -> Result<Gateway, GatewayError> {
        settings.check()?;
        let session = backbone::open(&settings)?;
        let kept = settings.history.as_ref().map(|history| patterns(&history.filters)).unwrap_or_default();
        let outgoing = Arc::new(Outgoing::new(settings));
        let qos = SupplierQos { gateway: true, ..SupplierQos::default() };
        let supplier = channel.for_suppliers().connect_with(qos)?;
        let shared = Arc::new(Shared {
            outgoing: outgoing.clone(),
            interests: PiMutex::new(KnownInterests { changed: true, ..KnownInterests::default() }),
            served: PiMutex::default(),
            local: PiMutex::new(None),
            wake: Parker::new(),
            stopped: AtomicBool::new(false),
        });
        let notified = shared.clone();
        let interest_listener =
            session.liveliness().declare_subscriber(outgoing.keys.interests()).history(true);
        interest_listener.callback(move |sample| notified.interest(&sample)).background().wait()?;
        let mut gateway_thread = GatewayThread {
            incoming: Arc::new(Incoming::new(outgoing.clone(), supplier)),
            shared: shared.clone(),
            channel: channel.clone(),
            session,
            kept,
            watcher,
            collector: None,
            tokens: BTreeMap::new(),
            subscriptions: BTreeMap::new(),
            threads: BTreeMap::new(),
            said: GatewayCounts::default(),
        };
        let observer = channel.append_observer(Arc::new(LocalInterests(shared.clone())))?;
        gateway_thread.tick();
        let thread =
            ThreadSpec::new("isorb-zenoh").class(SchedClass::Other).spawn(move || gateway_thread.run());
        let thread = thread.map_err(|why| {
            channel.remove_observer(observer);
            GatewayError::Thread(why.to_string())
        })?;
        Ok(Gateway { shared, channel: channel.clone(), observer, thread: Some(thread) })
    }

    /// Its counts so far.
    pub fn counts(&self) -> GatewayCounts {
        self.shared.outgoing.counters.read()
    }

    /// Whether a router is connected, looked at a few times a second.
    pub fn is_connected(&self) -> bool {
        self.shared.outgoing.connected.load(Acquire)
    }

    /// Whether an event of this type and source is sent now, because another site wants it.
    pub fn is_wanted(&self, event_type: i32, source: i32) -> bool {
        self.shared.served.lock().priority(event_type, source).is_some()
    }

    /// The number in the [`Origin`](isorb_event::Origin) of events that came from other sites.
    pub fn id(&self) -> u64 {
        self.shared.outgoing.id
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.channel.remove_observer(self.observer);
        self.shared.stopped.store(true, Release);
        self.shared.wake.unpark();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway").field("site", &self.shared.outgoing.settings.site).finish_non_exhaustive()
    }
}

/// The channel's observer.
struct LocalInterests(Arc<Shared>);

impl Observer for LocalInterests {
    fn update_consumers(&self, _: u64, _: &[Filter]) {}

    fn update_consumers_by_priority(&self, _: u64, wanted: &[(Priority, Vec<Filter>)]) {
        *self.0.local.lock() = Some(wanted.to_vec());
        self.0.wake.unpark();
    }
}

impl Shared {
    /// An interest of a site came or went, on a thread of zenoh.
    fn interest(&self, sample: &Sample) {
        let Outgoing { incarnation, keys, settings, counters, .. } = &*self.outgoing;
        let key = sample.key_expr().as_str();
        let Some(interest) = keys.parse_interest(key) else {
            return count(&counters.ignored);
        };
        if interest.incarnation == *incarnation {
            return;
        }
        let mut known = self.interests.lock();
        if sample.kind() == SampleKind::Delete {
            return known.vanished(key, interest);
        }
        known.leaving.remove(key);
        if interest.site == settings.site && !known.interests.has_site(&interest.site) {
            log::warn(
                "isorb::event",
                format_args!(
                    "zenoh gateway: another gateway is called {}; give each site a name of its own (it may also be \
                     this one before a restart)",
                    interest.site
                ),
            );
        }
        match known.interests.add(interest, settings.interests) {
            Ok(changed) => known.changed |= changed,
            Err(_) => count(&counters.ignored),
        }
        if known.changed {
            self.wake.unpark();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::Pattern;

    #[test]
    fn interests_that_were_not_accepted_do_not_fill_the_memory_when_they_vanish() {
        let mut known = KnownInterests::default();
        let interest = |event_type| Interest {
            site: "graz".into(),
            incarnation: 1,
            priority: 7,
            pattern: Pattern { event_type, source: 0 },
        };
        assert_eq!(known.interests.add(interest(20), 10), Ok(true));
        (20..1_000).for_each(|event_type| known.vanished(&event_type.to_string(), interest(event_type)));
        assert_eq!(known.leaving.keys().collect::<Vec<_>>(), ["20"]);
    }
}
