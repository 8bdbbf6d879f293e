//! The connection to a remote supplier, over which only pings go: its end tells at once that the
//! supplier's process may have ended.
//!
//! ```text
//!   connected, or answered a ping ──► Binder: opens it ──► ended ──► ping ──► gone, or answered
//! ```

use super::binder::Bindable;
use super::service::Shared;
use isorb::{ConnectionWatcher, Object, Result};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{AcqRel, Release};
use std::sync::{Arc, Weak};

pub(super) struct SupplierPeer {
    me: Weak<SupplierPeer>,
    shared: Weak<Shared>,
    /// Opens the connection.
    object: Object,
    /// Its number in [`Shared::control`].
    watch: u64,
    /// The connection is open, or the binder opens it.
    watched: AtomicBool,
}

impl SupplierPeer {
    pub fn new(shared: &Arc<Shared>, object: &Object, watch: u64) -> Arc<SupplierPeer> {
        Arc::new_cyclic(|me| SupplierPeer {
            me: me.clone(),
            shared: Arc::downgrade(shared),
            object: shared.timed(object),
            watch,
            watched: AtomicBool::new(false),
        })
    }

    /// Its number in [`Shared::control`].
    pub fn watch(&self) -> u64 {
        self.watch
    }

    /// Has the binder open the connection, unless it is open.
    pub fn open(&self) {
        if let Some(shared) = self.shared.upgrade()
            && shared.options.ping.is_some()
            && !self.watched.swap(true, AcqRel)
        {
            shared.binder.put(self.me.clone());
        }
    }
}

impl Bindable for SupplierPeer {
    fn bind(&self) -> Result<()> {
        let watcher: Weak<dyn ConnectionWatcher> = self.me.clone();
        if self.object.open_connection(Some(watcher)).is_err() {
            // One that cannot be called, as behind an address translation, may push all the same.
            // If it does not, the pings of each round decide, and an answer leads here again.
            self.watched.store(false, Release);
        } else {
            // Servers end connections over which no request came. The answer does not matter.
            let _ = self.object.non_existent();
        }
        Ok(())
    }

    fn address(&self) -> String {
        self.object.address().unwrap_or_default()
    }
}

impl ConnectionWatcher for SupplierPeer {
    fn changed(&self, ended: bool) {
        if ended {
            self.watched.store(false, Release);
            if let Some(shared) = self.shared.upgrade() {
                shared.control.suspect(self.watch);
            }
        }
    }
}
