//! The proxies of a service: a bounded number. Proxies to which no peer connected are evicted
//! first.

use super::registrations::{Registration, RegistrationStore};
use isorb::poa::{ActivateError, ActivateWithIdError, ObjectId};
use isorb::{IntoServant, Kind, Poa, Reference, Result, Upcall};
use isorb_access::{PeerLimit, Share, take_share};
use isorb_rt::sync::PiMutex;
use isorb_rt::time::now_ns;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

pub(super) struct ProxyTable {
    poa: Poa,
    /// Connected proxies outlive the process.
    store: Option<RegistrationStore>,
    max_idle: Duration,
    peers: PeerLimit,
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
pub(super) struct ProxySlot {
    entry: OnceLock<(u64, ObjectId)>,
    /// Of the client that obtained it.
    share: OnceLock<Share>,
}

impl ProxyTable {
    /// The proxies of this POA. One that is unconnected for `max_idle` is removed. A client may
    /// have as many as `peers` says.
    pub fn new(
        poa: &Poa,
        max_idle: Duration,
        peers: PeerLimit,
        store: Option<RegistrationStore>,
    ) -> ProxyTable {
        ProxyTable { poa: poa.clone(), store, max_idle, peers, unconnected: PiMutex::default() }
    }

    fn activate_once<R: Reference, S>(&self, proxy: &Arc<S>) -> Result<R>
    where
        Arc<S>: IntoServant<R>,
    {
        match &self.store {
            None => self.poa.activate(proxy.clone()).map_err(|error| match error {
                ActivateError::System(exception) => exception,
                _ => Kind::Internal.into(),
            }),
            Some(store) => self.activate_as(&store.new_id(), proxy),
        }
    }

    fn activate_as<R: Reference, S>(&self, id: &ObjectId, proxy: &Arc<S>) -> Result<R>
    where
        Arc<S>: IntoServant<R>,
    {
        self.poa.activate_with_id(id, proxy.clone()).map_err(|error| match error {
            ActivateWithIdError::System(exception) => exception,
            _ => Kind::Internal.into(),
        })
    }

    /// Activates a proxy of an earlier process, unconnected.
    pub fn restore<R: Reference, S>(&self, id: &ObjectId, proxy: &Arc<S>, slot: &ProxySlot) -> Result<()>
    where
        Arc<S>: IntoServant<R>,
    {
        let _: R = self.activate_as(id, proxy)?;
        self.enter(id.clone(), slot);
        Ok(())
    }

    fn enter(&self, id: ObjectId, slot: &ProxySlot) {
        let mut unconnected = self.unconnected.lock();
        unconnected.next += 1;
        let number = unconnected.next;
        unconnected.since.insert(number, (now_ns(), id.clone()));
        drop(unconnected);
        let _ = slot.entry.set((number, id));
    }

    /// Makes a connection outlive the process, if the service is persistent.
    ///
    /// # Errors
    /// PERSIST_STORE: the disk does not take it.
    pub fn save(&self, slot: &ProxySlot, registration: impl FnOnce() -> Registration) -> Result<()> {
        match (&self.store, slot.entry.get()) {
            (Some(store), Some((_, id))) => store.put(id, &registration()),
            _ => Ok(()),
        }
    }

    /// Activates a proxy for the caller. If the table is full, it evicts the oldest unconnected
    /// one.
    ///
    /// # Errors
    /// IMP_LIMIT: the caller has as many as one client may, or all proxies are connected.
    pub fn activate<R: Reference, S>(&self, cx: Upcall<'_>, proxy: &Arc<S>, slot: &ProxySlot) -> Result<R>
    where
        Arc<S>: IntoServant<R>,
    {
        let share = take_share(cx, &self.peers)?;
        let mut activated = self.activate_once(proxy);
        while matches!(&activated, Err(error) if error.kind == Kind::ImpLimit) && self.evict() {
            activated = self.activate_once(proxy);
        }
        let reference: R = activated?;
        let id = self.poa.reference_to_id(reference.object()).map_err(|_| Kind::Internal)?;
        let _ = slot.share.set(share);
        self.enter(id, slot);
        Ok(reference)
    }

    /// Records that a peer connected. Returns false if the proxy was just evicted.
    pub fn connected(&self, slot: &ProxySlot) -> bool {
        let Some((number, _)) = slot.entry.get() else { return false };
        self.unconnected.lock().since.remove(number).is_some()
    }

    /// Records that no peer is connected any more; another may connect.
    pub fn free_again(&self, slot: &ProxySlot) {
        if let Some((number, id)) = slot.entry.get() {
            self.unconnected.lock().since.insert(*number, (now_ns(), id.clone()));
        }
    }

    /// Deactivates a proxy, and leaves its registration in the store.
    pub fn forget(&self, slot: &ProxySlot) {
        if let Some((number, id)) = slot.entry.get() {
            self.unconnected.lock().since.remove(number);
            let _ = self.poa.deactivate_object(id);
        }
    }

    /// Deactivates the proxy, and removes it from the store.
    pub fn retire(&self, slot: &ProxySlot) {
        if let Some((number, id)) = slot.entry.get() {
            let waited = self.unconnected.lock().since.remove(number);
            drop(waited);
            if let Some(store) = &self.store {
                store.remove(id);
            }
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
