//! The consumers by which a channel sends to its neighbours: one a link.

use super::node::Inner;
use super::{Link, LinkId};
use crate::admin::{ConsumerQos, ProxyPushSupplier};
use crate::consumer::{Failure, PushConsumer};
use crate::error::ConnectError;
use crate::event::Event;
use crate::filter::{Filter, MAX_TERMS};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};

impl Inner {
    /// Brings the gateways' subscriptions to what is wanted beyond their links. One thread at a time does so, without the lock,
    /// since connecting has consequences; who comes by meanwhile leaves it to that one.
    pub(super) fn subscribe(self: &Arc<Self>) {
        if !self.subscribing.take() {
            return;
        }
        loop {
            let ids: Vec<LinkId> = self.state.lock().links.keys().copied().collect();
            // First what is new, then what is not wanted any more: an event between goes by two ways, and is recognised; the other way
            // round it would go by none.
            ids.iter().for_each(|id| self.subscribe_link(*id, true));
            ids.iter().for_each(|id| self.subscribe_link(*id, false));
            if self.subscribing.pass() {
                return;
            }
        }
    }

    /// Subscribes for a link to what is wanted beyond it, and `besides` to what was. Where there is no room for it all stays as it is, and
    /// the next tick tries again.
    fn subscribe_link(self: &Arc<Self>, id: LinkId, besides: bool) {
        let mut state = self.state.lock();
        let mut wanted = state.subscription(id);
        let Some(joined) = state.links.get_mut(&id) else {
            return;
        };
        if besides {
            let old = joined.filters.iter().filter(|filter| !wanted.contains(filter));
            let old: Vec<Filter> = old.cloned().collect();
            wanted.extend(old);
        }
        if joined.filters.len() == wanted.len() && joined.filters.iter().all(|f| wanted.contains(f)) {
            return;
        }
        let (link, known) = (joined.link.clone(), joined.consumer.take());
        drop(state);
        let filters = wanted.chunks(MAX_TERMS).map(|some| Filter::any_of(some.iter().cloned())).collect();
        let (consumer, changed) = match known {
            // The same consumer: what waits in its queue still goes, and before what comes.
            Some(consumer) => {
                let changed = consumer.resubscribe(filters).is_ok();
                (Some(consumer), changed)
            }
            None => match self.connect(id, link, filters) {
                Ok(consumer) => (Some(consumer), true),
                Err(_) => (None, false),
            },
        };
        let mut state = self.state.lock();
        let gone = match state.links.get_mut(&id) {
            Some(joined) => {
                joined.consumer = consumer;
                if changed {
                    joined.filters = wanted;
                }
                None
            }
            None => consumer,
        };
        drop((state, gone));
    }

    fn connect(
        self: &Arc<Self>,
        id: LinkId,
        link: Arc<dyn Link>,
        filters: Vec<Filter>,
    ) -> Result<ProxyPushSupplier, ConnectError> {
        let gateway = Gateway { federation: Arc::downgrade(self), id, link };
        let qos = ConsumerQos {
            name: format!("gateway {}", id.0),
            filters,
            quality: self.quality.clone(),
            gateway: true,
            dispatch: self.dispatch.clone(),
        };
        self.channel.for_consumers().connect(Arc::new(gateway), qos)
    }

    /// Ends gateways that nothing is wanted of since the last tick, and for which nothing waits.
    pub(super) fn end_idle(&self) {
        let mut state = self.state.lock();
        let mut ended = Vec::new();
        for joined in state.links.values_mut() {
            let idle =
                joined.filters.is_empty() && joined.consumer.as_ref().is_some_and(|c| c.waiting() == 0);
            if idle && joined.idle {
                ended.extend(joined.consumer.take());
            }
            joined.idle = idle;
        }
        drop(state);
    }
}

/// The channel's consumer for one link.
struct Gateway {
    federation: Weak<Inner>,
    id: LinkId,
    link: Arc<dyn Link>,
}

impl PushConsumer for Gateway {
    fn push(&self, events: &[Event<'_>]) -> Result<(), Failure> {
        let Some(federation) = self.federation.upgrade() else {
            return Ok(());
        };
        let counters = &federation.counters;
        for event in events.iter().filter(|event| event.stamp.link != self.id.0) {
            if event.header.ttl <= 0 {
                counters.expired.fetch_add(1, Relaxed);
                continue;
            }
            let mut forwarded = *event;
            forwarded.header.ttl -= 1;
            match self.link.forward(&forwarded) {
                Ok(()) => counters.forwarded.fetch_add(1, Relaxed),
                Err(_) => counters.lost.fetch_add(1, Relaxed),
            };
        }
        Ok(())
    }
}
