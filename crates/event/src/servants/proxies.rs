//! The proxies of a face, of which there are so many at most: who obtained one and never connected makes room.

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
    backoff: Duration,
    unconnected: PiMutex<Unconnected>,
}

/// Those that nobody has connected to yet, the oldest first, and since when they are there.
#[derive(Default)]
struct Unconnected {
    next: u64,
    since: BTreeMap<u64, (u64, ObjectId)>,
}

/// A proxy's place among them.
#[derive(Default)]
pub(super) struct ProxySlot(OnceLock<(u64, ObjectId)>);

impl ProxyTable {
    /// Those of this POA. Nobody connects after so long.
    pub fn new(poa: &Poa, backoff: Duration) -> ProxyTable {
        ProxyTable { poa: poa.clone(), backoff, unconnected: PiMutex::default() }
    }

    /// Makes a proxy an object; where there is no room for it, in the place of the oldest that nobody has connected to.
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

    /// Somebody has connected. `false` where the proxy has just made room for another.
    pub fn connected(&self, slot: &ProxySlot) -> bool {
        let Some((number, _)) = slot.0.get() else { return false };
        self.unconnected.lock().since.remove(number).is_some()
    }

    /// Nobody is connected any more, but may connect again.
    pub fn free_again(&self, slot: &ProxySlot) {
        if let Some((number, id)) = slot.0.get() {
            self.unconnected.lock().since.insert(*number, (now_ns(), id.clone()));
        }
    }

    /// The proxy is no object from now on.
    pub fn retire(&self, slot: &ProxySlot) {
        if let Some((number, id)) = slot.0.get() {
            let waited = self.unconnected.lock().since.remove(number);
            drop(waited);
            // Gone already, if two say so at once.
            let _ = self.poa.deactivate_object(id);
        }
    }

    /// Takes away those that waited for too long.
    pub fn expire(&self) {
        let backoff = u64::try_from(self.backoff.as_nanos()).unwrap_or(u64::MAX);
        let now = now_ns();
        let mut unconnected = self.unconnected.lock();
        let all = std::mem::take(&mut unconnected.since);
        let old = |since: &u64| now.saturating_sub(*since) >= backoff;
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
