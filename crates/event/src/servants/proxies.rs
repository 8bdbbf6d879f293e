//! The proxies of a service: a bounded number. Proxies to which no peer connected are evicted
//! first.

use isorb::poa::ActivateError;
use isorb::poa::ObjectId;
use isorb::{IntoServant, Kind, Poa, Reference, Result, SystemException};
use isorb_rt::sync::PiMutex;
use isorb_rt::time::now_ns;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

pub(super) struct ProxyTable {
    poa: Poa,
    max_idle: Duration,
    unconnected: PiMutex<Unconnected>,
}

/// The unconnected proxies, the oldest first, and since when they exist.
#[derive(Default)]
struct Unconnected {
    next: u64,
    since: BTreeMap<u64, (u64, ObjectId)>,
}

/// A proxy's entry in the table.
#[derive(Default)]
pub(super) struct ProxySlot(OnceLock<(u64, ObjectId)>);

impl ProxyTable {
    /// The proxies of this POA. One that is unconnected for `max_idle` is removed.
    pub fn new(poa: &Poa, max_idle: Duration) -> ProxyTable {
        ProxyTable { poa: poa.clone(), max_idle, unconnected: PiMutex::default() }
    }

    /// Activates a proxy. If the table is full, it evicts the oldest unconnected one.
    pub fn activate<R: Reference, S>(&self, proxy: &Arc<S>, slot: &ProxySlot) -> Result<R>
    where
        Arc<S>: IntoServant<R>,
    {
        let mut activated = self.poa.activate(proxy.clone());
        while matches!(&activated, Err(ActivateError::System(error)) if error.kind == Kind::ImpLimit)
            && self.evict()
        {
            activated = self.poa.activate(proxy.clone());
        }
        let reference: R = activated.map_err(no_room)?;
        let id = self.poa.reference_to_id(reference.object()).map_err(|_| Kind::Internal)?;
        let mut unconnected = self.unconnected.lock();
        unconnected.next += 1;
        let number = unconnected.next;
        unconnected.since.insert(number, (now_ns(), id.clone()));
        drop(unconnected);
        let _ = slot.0.set((number, id));
        Ok(reference)
    }

    /// Records that a peer connected. Returns false if the proxy was just evicted.
    pub fn connected(&self, slot: &ProxySlot) -> bool {
        let Some((number, _)) = slot.0.get() else { return false };
        self.unconnected.lock().since.remove(number).is_some()
    }

    /// Records that no peer is connected any more; another may connect.
    pub fn free_again(&self, slot: &ProxySlot) {
        if let Some((number, id)) = slot.0.get() {
            self.unconnected.lock().since.insert(*number, (now_ns(), id.clone()));
        }
    }

    /// Deactivates the proxy.
    pub fn retire(&self, slot: &ProxySlot) {
        if let Some((number, id)) = slot.0.get() {
            let waited = self.unconnected.lock().since.remove(number);
            drop(waited);
            // Two threads may do so at the same time.
            let _ = self.poa.deactivate_object(id);
        }
    }

    /// Deactivates the proxies that were unconnected for too long.
    pub fn expire(&self) {
        let max_idle = u64::try_from(self.max_idle.as_nanos()).unwrap_or(u64::MAX);
        let now = now_ns();
        let mut unconnected = self.unconnected.lock();
        let all = std::mem::take(&mut unconnected.since);
        let old = |since: &u64| now.saturating_sub(*since) >= max_idle;
        let (gone, kept) = all.into_iter().partition(|(_, (since, _))| old(since));
        unconnected.since = kept;
        drop(unconnected);
        let gone: BTreeMap<u64, (u64, ObjectId)> = gone;
        for (_, id) in gone.into_values() {
            let _ = self.poa.deactivate_object(id);
        }
    }

    fn evict(&self) -> bool {
        let oldest = self.unconnected.lock().since.pop_first();
        oldest.is_some_and(|(_, (_, id))| self.poa.deactivate_object(id).is_ok())
    }
}

fn no_room(error: ActivateError) -> SystemException {
    match error {
        ActivateError::System(exception) => exception,
        _ => Kind::Internal.into(),
    }
}
