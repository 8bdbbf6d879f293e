//! The observers at the other end of a network: so many at most, and none that is gone.

use super::control::{Connected, Control};
use crate::channel::Channel;
use crate::observer::Observer;
use isorb::Object;
use isorb_rt::sync::PiMutex;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Arc, Weak};

pub(super) struct Observers {
    channel: Channel,
    control: Arc<Control>,
    limit: usize,
    list: PiMutex<List>,
}

#[derive(Default)]
struct List {
    /// By the channel's handle: what is watched, and under which number.
    known: BTreeMap<u32, (Arc<Watched>, u64)>,
    coming: usize,
}

/// An observer that may turn out to be gone.
struct Watched {
    observers: Weak<Observers>,
    /// 0 until it is known.
    handle: AtomicU32,
}

impl Connected for Watched {
    fn lost(&self) {
        if let Some(observers) = self.observers.upgrade() {
            observers.remove(self.handle.load(Acquire));
        }
    }
}

impl Observers {
    pub fn new(channel: &Channel, control: &Arc<Control>, limit: u32) -> Observers {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        Observers { channel: channel.clone(), control: control.clone(), limit, list: PiMutex::default() }
    }

    /// Adds one that is `peer` at its end. `None` if there are too many.
    pub fn append<E>(
        self: &Arc<Self>,
        peer: &Object,
        observer: impl FnOnce() -> Result<Arc<dyn Observer>, E>,
    ) -> Result<Option<u32>, E> {
        let mut list = self.list.lock();
        if list.known.len() + list.coming >= self.limit {
            return Ok(None);
        }
        list.coming += 1;
        drop(list);
        let made = observer();
        let appended = made.map(|observer| {
            let watched = Arc::new(Watched { observers: Arc::downgrade(self), handle: AtomicU32::new(0) });
            // The channel has a limit of its own, and may be at its end.
            let handle = self.channel.append_observer(observer).ok()?;
            watched.handle.store(handle, Release);
            let connected: Arc<dyn Connected> = watched.clone();
            Some((handle, watched, self.control.watch(peer, Arc::downgrade(&connected))))
        });
        let mut list = self.list.lock();
        list.coming -= 1;
        let Some((handle, watched, watch)) = appended? else {
            return Ok(None);
        };
        list.known.insert(handle, (watched, watch));
        Ok(Some(handle))
    }

    /// Says whether there was such an observer.
    pub fn remove(&self, handle: u32) -> bool {
        let known = self.list.lock().known.remove(&handle);
        if let Some((_, watch)) = &known {
            self.control.forget(*watch);
        }
        drop(known);
        self.channel.remove_observer(handle)
    }
}
