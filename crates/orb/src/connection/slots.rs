//! Places in which calls wait for their replies, found by request id without a search.

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
const NOBODY: u32 = u32::MAX;

pub(crate) struct Slots {
    /// Whether somebody has the first place, which is all that calls need that come one after the other.
    first: AtomicBool,
    /// The places behind it.
    others: IndexPool,
    places: Box<[Place]>,
    waiters: Waiters,
    low_bit: u32,
}

#[derive(Default)]
struct Place {
    id: AtomicU32,
    generation: AtomicU32,
    full: AtomicBool,
    delivered: PiMutex<Option<(Arrived, Buffer)>>,
}

impl Place {
    /// Drops what was delivered and nobody took.
    #[cold]
    fn drop_late(&self) {
        let late = self.delivered.lock().take();
        self.full.store(false, Ordering::Relaxed);
        drop(late);
    }
}

impl Slots {
    pub fn new(side: Side) -> Slots {
        let places: Box<[Place]> = (0..SLOTS).map(|_| Place::default()).collect();
        places.iter().for_each(|place| place.id.store(NOBODY, Ordering::Relaxed));
        let low_bit = if side == Side::Connector { 0 } else { 1 };
        Slots {
            first: AtomicBool::new(false),
            others: IndexPool::new(SLOTS - 1),
            places,
            waiters: Waiters::new(SLOTS),
            low_bit,
        }
    }

    /// A free place with a new request id.
    pub fn claim(&self) -> Option<Slot<'_>> {
        let index = if self.first.swap(true, Ordering::Acquire) { self.claim_other()? } else { 0 };
        let place = &self.places[index];
        let generation =
            place.generation.load(Ordering::Relaxed).wrapping_add(1) & (NOBODY >> (GENERATION_SHIFT + 1));
        place.generation.store(generation, Ordering::Relaxed);
        let id = generation << GENERATION_SHIFT | (index as u32) << SLOT_SHIFT | self.low_bit;
        place.id.store(id, Ordering::Release);
        Some(Slot { slots: self, index, id })
    }

    #[cold]
    fn claim_other(&self) -> Option<usize> {
        Some(self.others.take()? + 1)
    }

    /// Puts a reply into its place and wakes who waits there; `message` gets another block for it. A reply that nobody waits
    /// for, as after a time-out, is dropped.
    pub fn deliver(&self, arrived: Arrived, message: &mut Buffer, pool: &Arc<BufferPool>) {
        let index = (arrived.request_id >> SLOT_SHIFT) as usize % SLOTS;
        let place = &self.places[index];
        let mut delivered = place.delivered.lock();
        if arrived.request_id == NOBODY || place.id.load(Ordering::Acquire) != arrived.request_id {
            return;
        }
        let fresh = super::inbox::fresh_block(pool);
        *delivered = Some((arrived, std::mem::replace(message, fresh)));
        place.full.store(true, Ordering::Release);
        drop(delivered);
        self.waiters.wake(index);
    }

    /// Lets one that waits read; call it after letting go of the inbox.
    #[inline]
    pub fn hand_over(&self) {
        self.waiters.hand_over();
    }

    pub fn wake_all(&self) {
        for (index, place) in self.places.iter().enumerate() {
            if place.id.load(Ordering::Acquire) != NOBODY {
                self.waiters.wake(index);
            }
        }
    }
}

/// A place that a call has claimed; dropping it frees the place, and a reply that still comes is ignored.
pub(crate) struct Slot<'a> {
    slots: &'a Slots,
    index: usize,
    id: u32,
}

impl Slot<'_> {
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Says that this call waits and does not read; ends when dropped.
    pub fn announce(&self) -> Announced<'_> {
        self.slots.waiters.announce(self.index)
    }

    /// The reply, if somebody delivered it. What came late, for an earlier user of the place, is dropped.
    pub fn arrived(&self, into: &mut Buffer) -> Option<Arrived> {
        let mut delivered = self.place().delivered.lock();
        let (arrived, buffer) = delivered.take()?;
        self.place().full.store(false, Ordering::Relaxed);
        drop(delivered);
        if arrived.request_id != self.id {
            return None;
        }
        *into = buffer;
        Some(arrived)
    }

    /// Whether a reply was delivered here; exact for who holds the inbox.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.place().full.load(Ordering::Acquire)
    }

    /// As [`Slot::arrived`], without a lock when nothing was delivered. Exact for who holds the inbox, since only the holder
    /// delivers.
    #[inline]
    pub fn arrived_hint(&self, into: &mut Buffer) -> Option<Arrived> {
        if self.is_full() { self.arrived(into) } else { None }
    }

    fn place(&self) -> &Place {
        &self.slots.places[self.index]
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        let place = self.place();
        place.id.store(NOBODY, Ordering::Release);
        // Most calls read their own reply. One that is being delivered at this moment stays, for the next user to drop.
        if place.full.load(Ordering::Acquire) {
            place.drop_late();
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
