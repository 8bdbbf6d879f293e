//! Remote observers: a bounded number, without dead ones.

use super::control::{Control, MonitoredPeer};
use crate::channel::Channel;
use crate::observer::Observer;
use isorb::Object;
use isorb_rt::sync::PiMutex;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

pub(super) struct Observers {
    channel: Channel,
    control: Arc<Control>,
    limit: usize,
    list: PiMutex<List>,
}

#[derive(Default)]
struct List {
    /// The monitored observers by the channel's handle, which is never reused, with their monitor
    /// number once known.
    known: BTreeMap<u32, (Arc<Watched>, Option<u64>)>,
    coming: usize,
}

/// A monitored observer.
struct Watched {
    observers: Weak<Observers>,
    handle: u32,
}

impl MonitoredPeer for Watched {
    fn lost(&self) {
        if let Some(observers) = self.observers.upgrade() {
            observers.remove(self.handle);
        }
    }
}

impl Observers {
    pub fn new(channel: &Channel, control: &Arc<Control>, limit: u32) -> Observers {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        Observers { channel: channel.clone(), control: control.clone(), limit, list: PiMutex::default() }
    }

    /// Adds the observer at `peer`. `None` if there are too many.
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
        // The channel has a limit of its own, and may be destroyed.
        let appended = observer().map(|observer| self.channel.append_observer(observer).ok());
        let mut list = self.list.lock();
        list.coming -= 1;
        let Some(handle) = appended? else {
            return Ok(None);
        };
        let watched = Arc::new(Watched { observers: Arc::downgrade(self), handle });
        // Insert it before monitoring: it may be lost at once.
        list.known.insert(handle, (watched.clone(), None));
        drop(list);
        let connected: Arc<dyn MonitoredPeer> = watched;
        let watch = self.control.watch(peer, Arc::downgrade(&connected), &[]);
        let still =
            self.list.lock().known.get_mut(&handle).map(|(_, number)| *number = Some(watch)).is_some();
        if !still {
            // Removed meanwhile by a thread that did not know the number.
            self.control.forget(watch);
        }
        Ok(Some(handle))
    }

    /// Removes an observer. Returns false for an unknown handle.
    pub fn remove(&self, handle: u32) -> bool {
        let known = self.list.lock().known.remove(&handle);
        if let Some((_, Some(watch))) = &known {
            self.control.forget(*watch);
        }
        drop(known);
        self.channel.remove_observer(handle)
    }
}
