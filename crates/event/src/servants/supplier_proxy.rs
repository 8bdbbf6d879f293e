//! The state that the proxies of push suppliers share: the connection to the channel, and the peer
//! to be pinged.

use super::control::MonitoredPeer;
use super::proxies::ProxySlot;
use super::registrations::Registration;
use super::service::Shared;
use super::supplier_peer::SupplierPeer;
use crate::admin::ProxyPushConsumer;
use crate::ownership::Ownership;
use isorb::{Kind, Object, Result, SystemException};
use isorb_rt::sync::PiMutex;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};

pub(super) struct SupplierProxyState {
    shared: Arc<Shared>,
    me: Weak<SupplierProxyState>,
    /// The proxy's entry in the proxy table.
    pub slot: ProxySlot,
    /// It has pushed since the last check.
    active: AtomicBool,
    state: PiMutex<State>,
}

#[derive(Default)]
struct State {
    supplier: Option<Arc<ProxyPushConsumer>>,
    /// If it gave a reference.
    peer: Option<Arc<SupplierPeer>>,
    ended: bool,
    /// Of the supplier that connects next, or is connected.
    ownership: Option<Ownership>,
}

impl SupplierProxyState {
    pub fn of(shared: &Arc<Shared>) -> Arc<SupplierProxyState> {
        Arc::new_cyclic(|me| SupplierProxyState {
            shared: shared.clone(),
            me: me.clone(),
            slot: ProxySlot::default(),
            active: AtomicBool::new(false),
            state: PiMutex::default(),
        })
    }

    pub fn shared(&self) -> &Shared {
        &self.shared
    }

    /// The channel's end for a push; `None` if the supplier is not connected.
    ///
    /// # Real-time
    /// One PI lock, held for the copy of a pointer.
    pub fn supplier(&self) -> Option<Arc<ProxyPushConsumer>> {
        let supplier = self.state.lock().supplier.clone();
        if supplier.is_some() && !self.active.load(Relaxed) {
            self.active.store(true, Relaxed);
        }
        supplier
    }

    /// How the supplier competes for instances.
    pub fn ownership(&self) -> Option<Ownership> {
        self.state.lock().ownership
    }

    /// How the supplier that connects next competes.
    ///
    /// # Errors
    /// BAD_INV_ORDER: one is or was connected.
    pub fn set_ownership(&self, ownership: Ownership) -> Result<()> {
        let mut state = self.state.lock();
        if state.supplier.is_some() || state.ended {
            return Err(SystemException::from(Kind::BadInvOrder));
        }
        state.ownership = Some(ownership);
        Ok(())
    }

    /// Connects a supplier, which is pinged from now on if it gave a reference. Returns false if
    /// one is or was connected. With `save` the connection outlives the process before this
    /// returns, if the service is persistent.
    ///
    /// # Errors
    /// The errors of `connect`; OBJECT_NOT_EXIST if the proxy was evicted meanwhile.
    pub fn connect(
        &self,
        peer: Option<&Object>,
        save: Option<Registration>,
        connect: impl FnOnce(&Shared) -> Result<ProxyPushConsumer>,
    ) -> Result<bool> {
        let mut state = self.state.lock();
        if state.supplier.is_some() || state.ended {
            return Ok(false);
        }
        let supplier = connect(&self.shared)?;
        if !self.shared.proxies.connected(&self.slot) {
            return Err(SystemException::from(Kind::ObjectNotExist));
        }
        if let Some(registration) = save
            && let Err(full) = self.shared.proxies.save(&self.slot, || registration)
        {
            self.shared.proxies.free_again(&self.slot);
            return Err(full);
        }
        state.supplier = Some(Arc::new(supplier));
        let me: Weak<dyn MonitoredPeer> = self.me.clone();
        state.peer = peer.map(|peer| {
            let watch = self.shared.control.watch(peer, me, &[]);
            SupplierPeer::new(&self.shared, peer, watch)
        });
        if let Some(peer) = &state.peer {
            peer.open();
        }
        Ok(true)
    }

    /// Disconnects the supplier. Returns false if none was connected.
    pub fn end(&self) -> bool {
        let mut state = self.state.lock();
        state.ended = true;
        let (supplier, peer) = (state.supplier.take(), state.peer.take());
        drop(state);
        if let Some(peer) = peer {
            self.shared.control.forget(peer.watch());
        }
        self.shared.proxies.retire(&self.slot);
        supplier.is_some()
    }
}

impl MonitoredPeer for SupplierProxyState {
    fn lost(&self) {
        if self.end() {
            self.shared.channel.lost_supplier();
        }
    }

    fn was_active(&self) -> bool {
        self.active.swap(false, Relaxed)
    }

    fn answered(&self) {
        let peer = self.state.lock().peer.clone();
        if let Some(peer) = peer {
            peer.open();
        }
    }
}
