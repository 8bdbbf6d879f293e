//! The connected consumers and suppliers, under the administrative lock. Events do not take this
//! lock.

use crate::channel::ConsumerStatus;
use crate::connection::Connection;
use crate::correlation::Registration;
use crate::filter::{Filter, Pattern};
use crate::latency::Latencies;
use crate::modules::Pipeline;
use crate::observer::{Observer, Union};
use crate::supplier::{Publication, SupplierQos};
use crate::table::{TableEntry, Tables};
use isorb_rt::priority::Priority;
use isorb_rt::sched::Cpus;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

#[derive(Default)]
pub(crate) struct Registry {
    pub consumers: BTreeMap<u32, Entry>,
    /// The declarations of suppliers, gateways included.
    pub suppliers: BTreeMap<u32, SupplierQos>,
    pub next: u32,
    pub tables: Tables,
    pub pipeline: Pipeline,
    pub destroyed: bool,
    pub observers: Vec<(u32, Arc<dyn Observer>)>,
    pub next_observer: u32,
    /// Counts changes of subscriptions.
    pub version: u64,
    /// Whether the log says already that consumers, or suppliers, are refused.
    pub reported: Reported,
}

/// Which limits the log says to be reached, until there is room again.
#[derive(Default)]
pub(crate) struct Reported {
    pub consumers: bool,
    pub suppliers: bool,
}

pub(crate) struct Entry {
    pub connection: Arc<Connection>,
    pub registrations: Vec<Arc<Registration>>,
    pub filters: Vec<Filter>,
    /// Where a remote consumer is.
    pub address: String,
    pub suspended: bool,
    pub gateway: bool,
    /// Its admission numbers: one for each of its operations.
    pub admitted: Vec<u64>,
    /// The processor that its scheduler assigned it to.
    pub processor: Option<Cpus>,
}

impl Entry {
    /// Its registrations, condition and time-based filter, as tools show them.
    fn filter_text(&self) -> String {
        let mut text = self.filters.iter().map(Filter::to_string).collect::<Vec<_>>().join("; ");
        if let Some(content) = self.connection.content() {
            let separator = if text.is_empty() { "" } else { ", " };
            text = format!("{text}{separator}where {}", content.expression());
        }
        let separation = self.connection.quality.min_separation;
        if !separation.is_zero() {
            text = format!("{text}, at most one in {separation:?}");
        }
        if let Some(period) = self.connection.quality.instance_period {
            text = format!("{text}, each instance in {period:?}");
        }
        text
    }

    pub(crate) fn patterns(&self) -> Vec<Pattern> {
        let patterns = self.registrations.iter().flat_map(|registration| registration.patterns());
        patterns.map(|(_, pattern)| pattern).collect()
    }
}

impl Registry {
    /// Adds a consumer to the tables.
    pub(crate) fn list(&mut self, id: u32, shards: usize) {
        let Some(entry) = self.consumers.get(&id) else {
            return;
        };
        self.tables.join(&entry.connection);
        for registration in &entry.registrations {
            for (leaf, pattern) in registration.patterns() {
                let ask = !registration.is_certain(leaf);
                let hit = TableEntry {
                    connection: registration.connection().clone(),
                    registration: registration.clone(),
                    leaf: leaf as u16,
                    simple: !ask
                        && registration.is_plain()
                        && !registration.has_deadline()
                        && !entry.connection.has_content()
                        && !entry.connection.watches_instances(),
                    ask,
                };
                self.tables.insert(pattern, hit, shards);
            }
        }
    }

    /// Removes a consumer from the tables, so that events no longer meet it.
    pub(crate) fn unlist(&mut self, id: u32) {
        let Some(entry) = self.consumers.get(&id) else {
            return;
        };
        self.tables.leave(&entry.connection);
        for registration in &entry.registrations {
            for (_, pattern) in registration.patterns() {
                self.tables.remove(pattern, registration);
            }
        }
    }

    /// The state of all consumers, for tools.
    pub(crate) fn status(&self) -> Vec<ConsumerStatus> {
        let status = |entry: &Entry| ConsumerStatus {
            id: entry.connection.id,
            name: entry.connection.name.clone(),
            address: entry.address.clone(),
            filter: entry.filter_text(),
            gateway: entry.gateway,
            priority: entry.connection.priority(),
            level: entry.connection.level(),
            suspended: entry.suspended,
            own_dispatch: entry.connection.has_own_dispatch(),
            processor: entry.processor,
            waiting: entry.connection.waiting(),
            queue: entry.connection.quality.queue.max(1),
            deadline: entry.connection.deadline(),
            counts: entry.connection.counts(),
        };
        self.consumers.values().map(status).collect()
    }

    pub(crate) fn latencies(&self, consumers: &[u32]) -> Vec<Option<Latencies>> {
        consumers.iter().map(|id| self.consumers.get(id)?.connection.latencies()).collect()
    }

    /// The union of all publications, gateways excluded. `None` without suppliers, or if one
    /// declares nothing.
    pub(crate) fn published(&self) -> Option<Vec<Publication>> {
        let own = || self.suppliers.values().filter(|qos| !qos.gateway);
        if own().next().is_none() || own().any(|qos| qos.publications.is_empty()) {
            return None;
        }
        let all: BTreeSet<Publication> = own().flat_map(|qos| &qos.publications).copied().collect();
        Some(all.into_iter().collect())
    }

    /// The union of all filters, gateways excluded.
    pub(crate) fn wanted(&self) -> Vec<Filter> {
        let mut wanted = Union::default();
        let entries = self.consumers.values().filter(|entry| !entry.gateway && !entry.suspended);
        entries.flat_map(|entry| &entry.filters).for_each(|filter| wanted.add(filter));
        wanted.into_filters()
    }

    /// As [`wanted`](Self::wanted), for each priority separately.
    pub(crate) fn wanted_at(&self) -> Vec<(Priority, Vec<Filter>)> {
        let mut wanted = BTreeMap::<Priority, Union<'_>>::new();
        for entry in self.consumers.values().filter(|entry| !entry.gateway && !entry.suspended) {
            let union = wanted.entry(entry.connection.priority()).or_default();
            entry.filters.iter().for_each(|filter| union.add(filter));
        }
        wanted.into_iter().map(|(priority, union)| (priority, union.into_filters())).collect()
    }
}
