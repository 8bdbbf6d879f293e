//! Events from other sites: from a sample of zenoh to a push at the channel.

use crate::counts::count;
use crate::message::decode;
use crate::outgoing::Outgoing;
use crate::streams::{Arrival, RecentMap, Streams};
use isorb_event::{Event, Origin, ProxyPushConsumer};
use isorb_rt::sync::PiMutex;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use zenoh::pubsub::Subscriber;
use zenoh::sample::{Locality, Sample, SampleKind};
use zenoh::{Session, Wait};
use zenoh_ext::{AdvancedSubscriber, AdvancedSubscriberBuilderExt, HistoryConfig, RecoveryConfig};

/// How long a request for history or missing events may take.
const QUERY_TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) struct Incoming {
    outgoing: Arc<Outgoing>,
    supplier: ProxyPushConsumer,
    /// Locked during the push, so that events are pushed in the order of their numbers.
    state: PiMutex<State>,
}

struct State {
    streams: Streams,
    /// The numbers that this gateway gave, by type and source. Missing events use up theirs, so
    /// that remote consumers of the channel miss them, too.
    numbers: RecentMap<(i32, i32), u64>,
}

/// A declaration of zenoh, which ends when this is dropped.
#[allow(dead_code, reason = "they are kept for their drop")]
pub(crate) enum Subscription {
    Plain(Subscriber<()>),
    WithHistory(AdvancedSubscriber<()>),
}

impl Incoming {
    pub fn new(outgoing: Arc<Outgoing>, supplier: ProxyPushConsumer) -> Incoming {
        let settings = &outgoing.settings;
        let history = settings.history.as_ref().map_or(0, |history| history.events);
        let streams = Streams::new(settings.streams, history);
        let state = PiMutex::new(State { streams, numbers: RecentMap::new(settings.streams) });
        Incoming { outgoing, supplier, state }
    }

    /// Subscribes to events of other sites.
    pub fn subscribe(self: &Arc<Self>, session: &Session, key: &str) -> zenoh::Result<Subscription> {
        let incoming = self.clone();
        let plain = session.declare_subscriber(key.to_string()).allowed_origin(Locality::Remote);
        let plain = plain.callback(move |sample| incoming.receive(&sample));
        Ok(match &self.outgoing.settings.history {
            None => Subscription::Plain(plain.wait()?),
            Some(history) => {
                let past =
                    HistoryConfig::default().detect_late_publishers().max_samples(history.events.max(1));
                let recovery = RecoveryConfig::default().heartbeat();
                let advanced = plain.history(past).recovery(recovery).query_timeout(QUERY_TIMEOUT);
                Subscription::WithHistory(advanced.wait()?)
            }
        })
    }

    /// These events are not wanted any more.
    pub fn interrupt(&self, unwanted: impl Fn(i32, i32) -> bool) {
        self.state.lock().streams.interrupt(unwanted);
    }

    fn receive(&self, sample: &Sample) {
        let Outgoing { id, incarnation, keys, settings, counters, .. } = &*self.outgoing;
        let octets = sample.payload().to_bytes();
        let key = keys.parse_data(sample.key_expr().as_str());
        let decoded = key
            .filter(|_| sample.kind() == SampleKind::Put)
            .and_then(|key| decode(&octets, key, settings.payload));
        let Some((event, sequence)) = decoded else {
            return count(&counters.malformed);
        };
        if sequence.incarnation == *incarnation {
            return; // Its own, from a cache.
        }
        let (event_type, source) = (event.header.event_type, event.header.source);
        let mut state = self.state.lock();
        let missing = match state.streams.arrived(sequence.incarnation, event_type, source, sequence.number) {
            Arrival::New(missing) => missing,
            Arrival::Again => return,
            Arrival::Repeated => return count(&counters.repeated),
            Arrival::Implausible => return count(&counters.malformed),
        };
        if missing > 0 {
            counters.missing.fetch_add(missing, Relaxed);
        }
        let next = |last: u64| last.saturating_add(missing).saturating_add(1);
        let number = match state.numbers.get((event_type, source)) {
            Some(last) => {
                *last = next(*last);
                *last
            }
            None => {
                state.numbers.insert((event_type, source), next(0));
                next(0)
            }
        };
        self.supplier.push(&Event { origin: Origin { supplier: *id, number }, ..event });
        count(&counters.received);
    }
}
