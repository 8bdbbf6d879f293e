//! The slots in which calls wait for their replies, found by request id without a search.

use super::{Arrived, Side};
use isorb_rt::pool::IndexPool;
use isorb_rt::sync::{Announced, PiMutex, Waiters};
use isorb_scope::{Buffer, BufferPool};
use std::hint::cold_path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Calls that may wait on one connection at a time.
const SLOTS: usize = 64;
/// Request id: generation, slot, side.
const SLOT_SHIFT: u32 = 1;
const GENERATION_SHIFT: u32 = SLOT_SHIFT + SLOTS.trailing_zeros();
/// No request has this id: its slot number is that of the last slot, its generation is skipped.
const NO_REQUEST: u32 = u32::MAX;

pub(crate) struct Slots {
    /// Whether the first slot is claimed. Sequential calls need no other.
    first: AtomicBool,
    /// The other slots.
    others: IndexPool,
    deliveries: Box<[Delivery]>,
    waiters: Waiters,
    low_bit: u32,
}

#[derive(Default)]
struct Delivery {
    id: AtomicU32,
    generation: AtomicU32,
    full: AtomicBool,
    delivered: PiMutex<Option<(Arrived, Buffer)>>,
}

impl Delivery {
    /// Drops a reply that was delivered too late.
    #[cold]
    fn drop_late(&self) {
        let late = self.delivered.lock().take();
        self.full.store(false, Ordering::Relaxed);
        drop(late);
    }
}

impl Slots {
    pub fn new(side: Side) -> Slots {
        let deliveries: Box<[Delivery]> = (0..SLOTS).map(|_| Delivery::default()).collect();
        deliveries.iter().for_each(|delivery| delivery.id.store(NO_REQUEST, Ordering::Relaxed));
        let low_bit = if side == Side::Connector { 0 } else { 1 };
        Slots {
            first: AtomicBool::new(false),
            others: IndexPool::new(SLOTS - 1),
            deliveries,
            waiters: Waiters::new(SLOTS),
            low_bit,
        }
    }

    /// A free slot with a new request id.
    pub fn claim(&self) -> Option<Slot<'_>> {
        let index = if self.first.swap(true, Ordering::Acquire) { self.claim_other()? } else { 0 };
        let delivery = &self.deliveries[index];
        let generation = delivery.generation.load(Ordering::Relaxed).wrapping_add(1)
            & (NO_REQUEST >> (GENERATION_SHIFT + 1));
        delivery.generation.store(generation, Ordering::Relaxed);
        let id = generation << GENERATION_SHIFT | (index as u32) << SLOT_SHIFT | self.low_bit;
        delivery.id.store(id, Ordering::Release);
        Some(Slot { slots: self, index, id })
    }

    #[cold]
    fn claim_other(&self) -> Option<usize> {
        Some(self.others.take()? + 1)
    }

    /// Puts a reply into its slot and wakes the call that waits there; `message` becomes an empty
    /// block. A reply for which no call waits, as after a time-out, is dropped.
    pub fn deliver(&self, arrived: Arrived, message: &mut Buffer, pool: &Arc<BufferPool>) {
        let index = (arrived.request_id >> SLOT_SHIFT) as usize % SLOTS;
        let delivery = &self.deliveries[index];
        let mut delivered = delivery.delivered.lock();
        if arrived.request_id == NO_REQUEST || delivery.id.load(Ordering::Acquire) != arrived.request_id {
            return;
        }
        let fresh = super::inbox::fresh_block(pool);
        *delivered = Some((arrived, std::mem::replace(message, fresh)));
        delivery.full.store(true, Ordering::Release);
        drop(delivered);
        self.waiters.wake(index);
    }

    /// Whether calls that are more urgent than the reader wait.
    #[inline]
    pub fn has_loans(&self) -> bool {
        self.waiters.has_loans()
    }

    /// Has the most urgent of the waiting calls read. To be called after each release of the inbox:
    /// until then the reader has the priority of the calls that wait for it.
    #[inline]
    pub fn hand_over(&self) {
        self.waiters.hand_over();
    }

    pub fn wake_all(&self) {
        for (index, delivery) in self.deliveries.iter().enumerate() {
            if delivery.id.load(Ordering::Acquire) != NO_REQUEST {
                self.waiters.wake(index);
            }
        }
    }
}

/// A slot that a call has claimed. Dropping it frees the slot; a later reply is ignored.
pub(crate) struct Slot<'a> {
    slots: &'a Slots,
    index: usize,
    id: u32,
}

impl Slot<'_> {
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Announces that this call waits and does not read, as long as the result lives.
    pub fn announce(&self) -> Announced<'_> {
        self.slots.waiters.announce(self.index)
    }

    /// The reply, if it was delivered. A late reply for an earlier user of the slot is dropped.
    pub fn arrived(&self, into: &mut Buffer) -> Option<Arrived> {
        let mut delivered = self.delivery().delivered.lock();
        let (arrived, buffer) = delivered.take()?;
        self.delivery().full.store(false, Ordering::Relaxed);
        drop(delivered);
        if arrived.request_id != self.id {
            return None;
        }
        *into = buffer;
        Some(arrived)
    }

    /// Whether a reply was delivered here. Exact for the thread that holds the inbox.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.delivery().full.load(Ordering::Acquire)
    }

    /// As [`Slot::arrived`], without a lock when nothing was delivered. Exact for the thread that
    /// holds the inbox, since only this thread delivers.
    #[inline]
    pub fn arrived_hint(&self, into: &mut Buffer) -> Option<Arrived> {
        if self.is_full() { self.arrived(into) } else { None }
    }

    fn delivery(&self) -> &Delivery {
        &self.slots.deliveries[self.index]
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        let delivery = self.delivery();
        delivery.id.store(NO_REQUEST, Ordering::Release);
        // Most calls read their own reply. One that is delivered at this moment stays; the next
        // user drops it.
        if delivery.full.load(Ordering::Acquire) {
            delivery.drop_late();
        }
        self.slots.waiters.reset(self.index);
        match self.index.checked_sub(1) {
            None => self.slots.first.store(false, Ordering::Release),
            Some(index) => {
                cold_path();
                self.slots.others.give(index);
            }
        }
    }
}
