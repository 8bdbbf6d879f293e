//! Distributable threads by their identity.

use isorb_rt::sync::{PiMutex, PiOnceLock};
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// The identity of a distributable thread, the same in every process that it passes through.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Guid(pub [u8; 16]);

impl Guid {
    /// A fresh identity.
    pub(super) fn fresh() -> Guid {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        static ORIGIN: PiOnceLock<u64> = PiOnceLock::new();
        let origin = ORIGIN.get_or_init(|| {
            let since =
                std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
            since.as_nanos() as u64 ^ u64::from(std::process::id()).rotate_left(40)
        });
        let mut octets = [0; 16];
        octets[..8].copy_from_slice(&origin.to_be_bytes());
        octets[8..].copy_from_slice(&NEXT.fetch_add(1, Ordering::Relaxed).to_be_bytes());
        Guid(octets)
    }
}

impl fmt::Debug for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|octet| write!(f, "{octet:02x}"))
    }
}

/// The state of a distributable thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It runs.
    Active,
    /// It was cancelled: its next scheduling point raises THREAD_CANCELLED.
    Cancelled,
}

/// A distributable thread, as far as this process knows it. Cheap to clone.
#[derive(Clone)]
pub struct DistributableThread(Arc<Known>);

struct Known {
    id: Guid,
    cancelled: AtomicBool,
}

impl DistributableThread {
    /// Its identity.
    pub fn id(&self) -> Guid {
        self.0.id
    }

    /// Its state.
    pub fn state(&self) -> State {
        if self.0.cancelled.load(Ordering::Acquire) { State::Cancelled } else { State::Active }
    }

    /// Marks it as cancelled. False if it was cancelled before.
    pub(super) fn mark_cancelled(&self) -> bool {
        !self.0.cancelled.swap(true, Ordering::AcqRel)
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.0.cancelled.load(Ordering::Acquire)
    }
}

impl fmt::Debug for DistributableThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DistributableThread").field("id", &self.0.id).field("state", &self.state()).finish()
    }
}

impl PartialEq for DistributableThread {
    fn eq(&self, other: &DistributableThread) -> bool {
        self.0.id == other.0.id
    }
}

impl Eq for DistributableThread {}

/// The distributable threads that are in this process now.
#[derive(Default)]
pub(super) struct Threads(PiMutex<HashMap<Guid, Weak<Known>>>);

/// At this number, dead entries are removed.
const SWEEP_AT: usize = 256;

impl Threads {
    /// The thread with this identity, added to the table if it is new.
    pub fn enter(&self, id: Guid) -> DistributableThread {
        let mut known = self.0.lock();
        if let Some(thread) = known.get(&id).and_then(Weak::upgrade) {
            return DistributableThread(thread);
        }
        if known.len() >= SWEEP_AT && known.len() == known.capacity() {
            known.retain(|_, thread| thread.strong_count() > 0);
        }
        let thread = Arc::new(Known { id, cancelled: AtomicBool::new(false) });
        known.insert(id, Arc::downgrade(&thread));
        DistributableThread(thread)
    }

    /// The thread with this identity, if it is here.
    pub fn find(&self, id: Guid) -> Option<DistributableThread> {
        self.0.lock().get(&id).and_then(Weak::upgrade).map(DistributableThread)
    }
}
