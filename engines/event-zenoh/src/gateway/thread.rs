//! The thread of a gateway: it keeps the declarations at zenoh and the consumer at the channel, and
//! looks at the connection.

use super::{Shared, Watcher};
use crate::counts::{GatewayCounts, report};
use crate::incoming::{Incoming, Subscription};
use crate::interests::{PRIORITIES, zenoh_priority};
use crate::keys::Interest;
use crate::outgoing::{Collector, Outgoing};
use crate::pattern::{Pattern, patterns, reduce, registrations};
use crate::settings::GatewayError;
use isorb_event::dispatch::Direct;
use isorb_event::{Channel, ConsumerQos, Filter, Priority, ProxyPushSupplier, Quality};
use isorb_rt::log;
use isorb_rt::sched::{SchedClass, Thread, ThreadSpec};
use isorb_rt::time::Deadline;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire};
use std::time::{Duration, Instant};
use zenoh::liveliness::LivelinessToken;
use zenoh::{Session, Wait};

/// How often the connection is looked at.
const TICK: Duration = Duration::from_millis(200);
/// An interest that vanished is served for this time: its site may be changing routers.
const GRACE: Duration = Duration::from_secs(5);

/// Keeps what is declared at zenoh and at the channel as it should be.
pub(super) struct GatewayThread {
    pub(super) shared: Arc<Shared>,
    pub(super) channel: Channel,
    pub(super) session: Session,
    pub(super) incoming: Arc<Incoming>,
    /// The events of the history.
    pub(super) kept: BTreeSet<Pattern>,
    pub(super) watcher: Watcher,
    /// The consumer of events that other sites want, and its filters.
    pub(super) collector: Option<(ProxyPushSupplier, Vec<Filter>)>,
    pub(super) tokens: BTreeMap<(u8, Pattern), LivelinessToken>,
    pub(super) subscriptions: BTreeMap<Pattern, Subscription>,
    /// The threads that send, by priority.
    pub(super) threads: BTreeMap<u8, Thread<()>>,
    pub(super) said: GatewayCounts,
}

impl GatewayThread {
    pub(super) fn run(mut self) {
        while !self.shared.stopped.load(Acquire) {
            self.shared.wake.park_until(Deadline::after(TICK));
            self.tick();
        }
        // First the consumers, so that no event comes or goes while the session ends.
        self.collector = None;
        self.subscriptions.clear();
        self.tokens.clear();
        self.shared.outgoing.stop();
        for (_, thread) in std::mem::take(&mut self.threads) {
            let _ = thread.join();
        }
        let _ = self.session.close().wait();
    }

    pub(super) fn tick(&mut self) {
        self.look_at_connection();
        let local = self.shared.local.lock().take();
        if let Some(local) = local
            && let Err(why) = self.announce(&local)
        {
            log::warn("isorb::event", format_args!("zenoh gateway: interests are announced later: {why}"));
            self.shared.local.lock().get_or_insert(local);
        }
        if self.take_interests()
            && let Err(why) = self.serve_interests()
        {
            log::warn(
                "isorb::event",
                format_args!("zenoh gateway: interests of others are served later: {why}"),
            );
            self.shared.interests.lock().changed = true;
        }
        let outgoing = &self.shared.outgoing;
        report(&outgoing.settings.site, outgoing.counters.read(), &mut self.said);
    }

    fn look_at_connection(&self) {
        let router = self.session.info().routers_zid().wait().next();
        let outgoing = &self.shared.outgoing;
        if outgoing.connected.swap(router.is_some(), AcqRel) == router.is_some() {
            return;
        }
        let site = &outgoing.settings.site;
        match router {
            Some(router) => log::info(
                "isorb::event",
                format_args!("zenoh gateway of site {site}: connected to the router {router} again"),
            ),
            None => log::warn(
                "isorb::event",
                format_args!("zenoh gateway of site {site}: no router is connected; it is tried again"),
            ),
        }
    }

    /// Announces what this site's consumers want, and subscribes to it.
    fn announce(&mut self, local: &[(Priority, Vec<Filter>)]) -> zenoh::Result<()> {
        let Outgoing { incarnation, keys, settings, .. } = &*self.shared.outgoing;
        let mut by_priority: BTreeMap<u8, BTreeSet<Pattern>> = BTreeMap::new();
        for (priority, filters) in local {
            by_priority.entry(zenoh_priority(*priority)).or_default().append(&mut patterns(filters));
        }
        let wanted: BTreeSet<(u8, Pattern)> = by_priority
            .iter()
            .flat_map(|(priority, all)| {
                reduce(all, settings.interests).into_iter().map(|pattern| (*priority, pattern))
            })
            .collect();
        let all: BTreeSet<Pattern> = wanted.iter().map(|(_, pattern)| *pattern).collect();
        let all = reduce(&all, settings.interests);
        // Subscribe first: what is announced is sent.
        for pattern in &all {
            if !self.subscriptions.contains_key(pattern) {
                let subscription = self.incoming.subscribe(&self.session, &keys.data(*pattern))?;
                self.subscriptions.insert(*pattern, subscription);
            }
        }
        for &(priority, pattern) in &wanted {
            if !self.tokens.contains_key(&(priority, pattern)) {
                let (site, incarnation) = (settings.site.clone(), *incarnation);
                let key = keys.interest(&Interest { site, incarnation, priority, pattern });
                let token = self.session.liveliness().declare_token(key).wait()?;
                self.tokens.insert((priority, pattern), token);
            }
        }
        self.tokens.retain(|announced, _| wanted.contains(announced));
        let before = self.subscriptions.len();
        self.subscriptions.retain(|pattern, _| all.contains(pattern));
        if self.subscriptions.len() != before {
            self.incoming.interrupt(|event_type, source| {
                !all.iter().any(|pattern| pattern.matches(event_type, source))
            });
        }
        Ok(())
    }

    /// Whether the interests of other sites have changed. Those that vanished some time ago are
    /// removed, unless this site is the one without a router.
    fn take_interests(&self) -> bool {
        let mut guard = self.shared.interests.lock();
        let known = &mut *guard;
        let is_connected = self.shared.outgoing.connected.load(Acquire);
        let interests = &mut known.interests;
        let mut changed = std::mem::take(&mut known.changed);
        known.leaving.retain(|_, (interest, since)| {
            if !is_connected {
                *since = Instant::now();
            }
            let is_gone = since.elapsed() >= GRACE;
            if is_gone {
                changed |= interests.remove(interest.clone());
            }
            !is_gone
        });
        changed
    }

    /// Subscribes at the channel to what other sites want, and starts the threads that send it.
    fn serve_interests(&mut self) -> Result<(), GatewayError> {
        let known = self.shared.interests.lock();
        let (table, others) = (known.interests.table(&self.kept), known.interests.table(&BTreeSet::new()));
        drop(known);
        for priority in table.priorities() {
            if !self.threads.contains_key(&priority) {
                let (outgoing, session) = (self.shared.outgoing.clone(), self.session.clone());
                let spec = ThreadSpec::new(format!("isorb-zenoh-{priority}")).class(SchedClass::Other);
                let thread = spec.spawn(move || outgoing.run(priority, &session));
                self.threads.insert(priority, thread.map_err(|why| GatewayError::Thread(why.to_string()))?);
            }
        }
        let most = self.shared.outgoing.settings.interests * usize::from(PRIORITIES);
        let patterns = reduce(&table.all(), most);
        let filters = registrations(&patterns);
        // An event is sent by the table of the moment, so this order loses and doubles none.
        self.shared.outgoing.set_wanted(Arc::new(table));
        if filters.is_empty() {
            self.collector = None;
        } else {
            self.collect(&filters)?;
        }
        *self.shared.served.lock() = others;
        let terms: Vec<Filter> = patterns.into_iter().map(Pattern::filter).collect();
        (self.watcher)(&terms);
        Ok(())
    }

    fn collect(&mut self, filters: &[Filter]) -> Result<(), GatewayError> {
        match &mut self.collector {
            Some((_, current)) if current == filters => {}
            Some((proxy, current)) => {
                proxy.resubscribe(filters.to_vec())?;
                *current = filters.to_vec();
            }
            None => {
                let qos = ConsumerQos {
                    name: "zenoh gateway".into(),
                    filters: filters.to_vec(),
                    quality: Quality { failures: 0, ..Quality::default() },
                    gateway: true,
                    dispatch: Some(Arc::new(Direct)),
                    ..ConsumerQos::default()
                };
                let collector = Arc::new(Collector(self.shared.outgoing.clone()));
                let proxy = self.channel.for_consumers().connect(collector, qos)?;
                self.collector = Some((proxy, filters.to_vec()));
            }
        }
        Ok(())
    }
}
