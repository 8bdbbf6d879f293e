//! The slots of calls that were begun and are waited for later, by a thread or by a [`Waker`].

use super::slots::Delivery;
use isorb_rt::pool::IndexPool;
use isorb_rt::sync::{PiMutex, Waiters};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::task::Waker;

/// No thread waits.
const NO_WAITER: u32 = u32::MAX;
/// No waker waits until any time.
const NEVER: u64 = u64::MAX;

pub(crate) struct PendingSlots {
    free: IndexPool,
    slots: Box<[PendingSlot]>,
}

#[derive(Default)]
struct PendingSlot {
    delivery: Delivery,
    /// Where a thread parks that waits.
    waiter: ParkedAt,
    waker: PiMutex<Option<Waker>>,
    /// Until when the waker waits, in nanoseconds.
    until: WakeTime,
}

struct ParkedAt(AtomicU32);
struct WakeTime(AtomicU64);

impl Default for ParkedAt {
    fn default() -> ParkedAt {
        ParkedAt(AtomicU32::new(NO_WAITER))
    }
}

impl Default for WakeTime {
    fn default() -> WakeTime {
        WakeTime(AtomicU64::new(NEVER))
    }
}

impl PendingSlots {
    pub fn new(limit: usize) -> PendingSlots {
        PendingSlots {
            free: IndexPool::new(limit),
            slots: (0..limit).map(|_| PendingSlot::default()).collect(),
        }
    }

    pub fn claim(&self) -> Option<usize> {
        self.free.take()
    }

    /// Frees a slot. A later reply is ignored.
    pub fn give(&self, index: usize) {
        self.forget(index);
        self.slots[index].delivery.leave();
        self.free.give(index);
    }

    pub fn delivery(&self, index: usize) -> &Delivery {
        &self.slots[index].delivery
    }

    pub fn get(&self, index: usize) -> Option<&Delivery> {
        self.slots.get(index).map(|slot| &slot.delivery)
    }

    /// A thread waits as `waiter` from now on, or none does. The caller looks for the reply after
    /// this.
    pub fn set_waiter(&self, index: usize, waiter: Option<usize>) {
        self.slots[index].waiter.0.store(waiter.map_or(NO_WAITER, |waiter| waiter as u32), Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// Wakes `waker` when the reply is there, and at `until`. The caller looks for the reply after
    /// this.
    ///
    /// # Real-time
    /// Allocates nothing by itself; clones the waker unless it is the one that is registered.
    pub fn register(&self, index: usize, waker: &Waker, until: u64) {
        let slot = &self.slots[index];
        let mut registered = slot.waker.lock();
        match &mut *registered {
            Some(known) => known.clone_from(waker),
            None => *registered = Some(waker.clone()),
        }
        slot.until.0.store(until, Ordering::Release);
        drop(registered);
        fence(Ordering::SeqCst);
    }

    /// Forgets the waker of a slot.
    pub fn forget(&self, index: usize) {
        drop(self.take(index));
    }

    fn take(&self, index: usize) -> Option<Waker> {
        let slot = &self.slots[index];
        slot.until.0.store(NEVER, Ordering::Release);
        slot.waker.lock().take()
    }

    /// Wakes the call of a slot.
    pub fn wake(&self, index: usize, waiters: &Waiters) {
        fence(Ordering::SeqCst);
        let waiter = self.slots[index].waiter.0.load(Ordering::SeqCst);
        if waiter != NO_WAITER {
            waiters.wake(waiter as usize);
        }
        if let Some(waker) = self.take(index) {
            waker.wake();
        }
    }

    pub fn wake_all(&self, waiters: &Waiters) {
        for (index, slot) in self.slots.iter().enumerate() {
            if slot.delivery.is_claimed() {
                self.wake(index, waiters);
            }
        }
    }

    /// Wakes the wakers with a time that has passed. Returns the earliest time that is left.
    pub fn expire(&self, now_ns: u64) -> u64 {
        let mut next = NEVER;
        for (index, slot) in self.slots.iter().enumerate() {
            let until = slot.until.0.load(Ordering::Acquire);
            if until <= now_ns {
                if let Some(waker) = self.take(index) {
                    waker.wake();
                }
            } else {
                next = next.min(until);
            }
        }
        next
    }
}
