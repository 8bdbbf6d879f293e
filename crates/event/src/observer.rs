//! Observers of subscriptions and publications.

use crate::core::Core;
use crate::error::ConnectError;
use crate::filter::Filter;
use crate::modules::ModuleSet;
use crate::supplier::Publication;
use isorb_rt::priority::Priority;
use std::collections::HashSet;
use std::sync::Arc;

/// Notified of the channel's subscriptions and publications (`RtecEventChannelAdmin::Observer`). A
/// gateway uses this to subscribe at another channel.
pub trait Observer: Send + Sync {
    /// The union of all consumers' filters, gateways excluded. Conjunctions are taken apart, since
    /// their events may come from several channels; time-outs are left out.
    ///
    /// Calls come one at a time with rising `version`, on a thread that made a change. An observer
    /// may make changes itself; they are notified afterwards.
    fn update_consumers(&self, version: u64, wanted: &[Filter]);

    /// As [`update_consumers`](Self::update_consumers), for each priority of consumers separately,
    /// in ascending order. Called after it.
    fn update_consumers_by_priority(&self, _version: u64, _wanted: &[(Priority, Vec<Filter>)]) {}

    /// The union of all suppliers' publications, gateways excluded. `None` without suppliers, or
    /// while one declares nothing. Called like [`update_consumers`](Self::update_consumers).
    fn update_suppliers(&self, _version: u64, _published: Option<&[Publication]>) {}
}

impl<M: ModuleSet> Core<M> {
    pub(crate) fn append_observer(&self, observer: Arc<dyn Observer>) -> Result<u32, ConnectError> {
        let mut registry = self.registry.lock();
        if registry.destroyed {
            return Err(ConnectError::Destroyed);
        }
        if registry.observers.len() >= self.limits.observers {
            return Err(ConnectError::TooManyObservers);
        }
        registry.next_observer += 1;
        let handle = registry.next_observer;
        registry.observers.push((handle, observer));
        drop(registry);
        self.notify_observers();
        Ok(handle)
    }

    pub(crate) fn remove_observer(&self, handle: u32) -> bool {
        let mut registry = self.registry.lock();
        let before = registry.observers.len();
        registry.observers.retain(|(known, _)| *known != handle);
        registry.observers.len() != before
    }

    /// Notifies observers of the current subscriptions and publications. An observer may change
    /// them, directly or through another thread. Then the thread that notifies does so once more.
    pub(crate) fn notify_observers(&self) {
        if !self.notifying.take() {
            return;
        }
        loop {
            let mut registry = self.registry.lock();
            let observers: Vec<_> = registry.observers.iter().map(|(_, observer)| observer.clone()).collect();
            if !observers.is_empty() {
                registry.version += 1;
                let (version, wanted) = (registry.version, registry.wanted());
                let (wanted_at, published) = (registry.wanted_at(), registry.published());
                drop(registry);
                for observer in &observers {
                    observer.update_suppliers(version, published.as_deref());
                    observer.update_consumers(version, &wanted);
                    observer.update_consumers_by_priority(version, &wanted_at);
                }
            } else {
                drop(registry);
            }
            if self.notifying.pass() {
                return;
            }
        }
    }
}

/// The single-event filters of several filters, each once, in order. Time-outs are left out.
#[derive(Default)]
pub(crate) struct Union<'a> {
    seen: HashSet<&'a Filter>,
    all: Vec<&'a Filter>,
}

impl<'a> Union<'a> {
    pub(crate) fn add(&mut self, filter: &'a Filter) {
        match filter {
            Filter::Conjunction(filters) | Filter::Disjunction(filters) => {
                filters.iter().for_each(|filter| self.add(filter));
            }
            Filter::Interval(_) | Filter::Deadline(_) => {}
            filter => {
                if self.seen.insert(filter) {
                    self.all.push(filter);
                }
            }
        }
    }

    pub(crate) fn into_filters(self) -> Vec<Filter> {
        self.all.into_iter().cloned().collect()
    }
}
