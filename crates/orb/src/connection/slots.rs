//! The slots in which calls wait for their replies, found by request id without a search.
//!
//! Calls with a waiting thread have the first slots. Those of calls that were only begun follow:
//! they are made when the first call is begun, and their replies may wake a
//! [`Waker`](std::task::Waker).

use super::pending::PendingSlots;
use super::{Arrived, Side};
use isorb_rt::pool::IndexPool;
use isorb_rt::sync::{Announced, PiCondvar, PiMutex, PiOnceLock, Waiters};
use isorb_rt::time::Deadline;
use isorb_scope::{Buffer, BufferPool};
use std::hint::cold_path;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Threads that may wait on one connection at a time.
pub(super) const SLOTS: usize = 64;
/// Request id: generation, slot, side.
const SLOT_SHIFT: u32 = 1;
/// No request has this id: its slot number is that of the last slot, its generation is skipped.
const NO_REQUEST: u32 = u32::MAX;

/// How many calls wait on a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlotLimits {
    /// Calls that are begun and not yet waited for.
    pub pending: usize,
    /// Calls that wait for a slot.
    pub queued: usize,
    /// Calls go out over accepted connections too (bidirectional GIOP).
    pub accepted: bool,
}

pub(crate) struct Slots {
    /// Whether the first slot is claimed. Sequential calls need no other.
    first: AtomicBool,
    waiter_slots: PiOnceLock<WaiterSlots>,
    low_bit: u32,
    /// Bits of a slot's number in a request id.
    bits: u32,
    limits: SlotLimits,
    pending: PiOnceLock<PendingSlots>,
    /// Calls that wait for a slot.
    queued: AtomicU32,
    queue: PiMutex<()>,
    freed: PiCondvar,
}

/// The slots of calls with a waiting thread. They are six times as large as all the rest of a
/// connection, and one over which no call goes out has none.
struct WaiterSlots {
    /// All slots but the first.
    others: IndexPool,
    deliveries: Box<[Delivery]>,
    waiters: Waiters,
}

impl Default for WaiterSlots {
    fn default() -> WaiterSlots {
        WaiterSlots {
            others: IndexPool::new(SLOTS - 1),
            deliveries: (0..SLOTS).map(|_| Delivery::default()).collect(),
            waiters: Waiters::new(SLOTS),
        }
    }
}

/// Why a call got no slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoSlot {
    /// As many calls wait as may.
    Full,
    TimedOut,
}

pub(crate) struct Delivery {
    id: AtomicU32,
    generation: AtomicU32,
    full: AtomicBool,
    delivered: PiMutex<Option<(Arrived, Buffer)>>,
}

impl Default for Delivery {
    fn default() -> Delivery {
        Delivery {
            id: AtomicU32::new(NO_REQUEST),
            generation: AtomicU32::default(),
            full: AtomicBool::default(),
            delivered: PiMutex::default(),
        }
    }
}

impl Delivery {
    /// Drops a reply that was delivered too late.
    #[cold]
    fn drop_late(&self) {
        let late = self.delivered.lock().take();
        self.full.store(false, Ordering::Relaxed);
        drop(late);
    }

    pub fn is_full(&self) -> bool {
        self.full.load(Ordering::Acquire)
    }

    pub fn is_claimed(&self) -> bool {
        self.id.load(Ordering::Acquire) != NO_REQUEST
    }

    /// Ends the claim. Most calls read their own reply. One that is delivered at this moment stays;
    /// the next user drops it.
    #[inline(always)]
    pub fn leave(&self) {
        self.id.store(NO_REQUEST, Ordering::Release);
        if self.is_full() {
            self.drop_late();
        }
    }
}

impl Slots {
    pub fn new(side: Side, limits: SlotLimits) -> Slots {
        let waiter_slots = PiOnceLock::new();
        if side == Side::Connector || limits.accepted {
            waiter_slots.get_or_init(WaiterSlots::default);
        }
        let all = (SLOTS + limits.pending.min(1 << 20)).next_power_of_two();
        Slots {
            first: AtomicBool::new(false),
            waiter_slots,
            low_bit: if side == Side::Connector { 0 } else { 1 },
            bits: all.trailing_zeros(),
            limits,
            pending: PiOnceLock::new(),
            queued: AtomicU32::new(0),
            queue: PiMutex::default(),
            freed: PiCondvar::new(),
        }
    }

    /// A free slot with a new request id, for a call with a thread that waits.
    #[inline(always)]
    pub fn claim(&self) -> Option<Slot<'_>> {
        let waiter_slots = self.waiter_slots.get_or_init(WaiterSlots::default);
        // The order matters to `claim_queued`.
        let index = if self.first.swap(true, Ordering::SeqCst) { waiter_slots.claim_other()? } else { 0 };
        let delivery = &waiter_slots.deliveries[index];
        let id = self.next_id(delivery, index);
        Some(Slot { slot: SlotRef { slots: self, waiter_slots, delivery, waiter: index, id } })
    }

    /// A new request id for a claimed slot.
    #[inline(always)]
    fn next_id(&self, delivery: &Delivery, index: usize) -> u32 {
        let shift = SLOT_SHIFT + self.bits;
        let generation =
            delivery.generation.load(Ordering::Relaxed).wrapping_add(1) & (NO_REQUEST >> (shift + 1));
        delivery.generation.store(generation, Ordering::Relaxed);
        let id = generation << shift | (index as u32) << SLOT_SHIFT | self.low_bit;
        delivery.id.store(id, Ordering::Release);
        id
    }

    /// Waits for a free slot. The most urgent of the threads that wait gets the next one.
    ///
    /// # Real-time
    /// Allocates nothing. Blocks until `deadline` at most.
    #[cold]
    pub fn claim_queued(&self, deadline: Deadline) -> Result<Slot<'_>, NoSlot> {
        let mut queue = self.queue.lock();
        if self.queued.load(Ordering::Relaxed) as usize >= self.limits.queued {
            return Err(NoSlot::Full);
        }
        // Either the thread that frees a slot sees this, or this thread sees the free slot.
        self.queued.fetch_add(1, Ordering::SeqCst);
        let slot = loop {
            if let Some(slot) = self.claim() {
                break Ok(slot);
            }
            if !self.freed.wait_until(&mut queue, deadline) {
                break self.claim().ok_or(NoSlot::TimedOut);
            }
        };
        self.queued.fetch_sub(1, Ordering::SeqCst);
        slot
    }

    #[cold]
    fn wake_queued(&self) {
        drop(self.queue.lock());
        self.freed.notify_one(&self.queue);
    }

    /// A free slot for a call that is only begun, with a request id. `None` if as many are begun as
    /// may be.
    ///
    /// # Real-time
    /// The first call allocates all slots.
    #[cold]
    pub fn claim_pending(&self) -> Option<(usize, u32)> {
        let pending = self.pending.get_or_init(|| PendingSlots::new(self.limits.pending));
        let index = pending.claim()?;
        Some((index, self.next_id(pending.delivery(index), SLOTS + index)))
    }

    /// The slots of calls that were begun.
    pub fn pending(&self) -> Option<&PendingSlots> {
        self.pending.get()
    }

    /// A slot of a call that was begun, for the thread of the slot `waiter`.
    pub fn pending_slot<'s>(&'s self, (index, id): (usize, u32), waiter: &Slot<'s>) -> Option<SlotRef<'s>> {
        let delivery = self.pending()?.delivery(index);
        Some(SlotRef { delivery, id, ..**waiter })
    }

    /// Puts a reply into its slot and wakes the call that waits there; `message` becomes an empty
    /// block. A reply for which no call waits, as after a time-out, is dropped.
    pub fn deliver(&self, arrived: Arrived, message: &mut Buffer, pool: &Arc<BufferPool>) {
        let index = (arrived.reply_id() >> SLOT_SHIFT) as usize & ((1 << self.bits) - 1);
        let pending = index.checked_sub(SLOTS);
        let Some(waiter_slots) = self.waiter_slots.get() else { return };
        let delivery = match pending {
            None => &waiter_slots.deliveries[index],
            Some(index) => match self.pending().and_then(|pending| pending.get(index)) {
                Some(delivery) => delivery,
                None => return,
            },
        };
        let mut delivered = delivery.delivered.lock();
        if arrived.reply_id() == NO_REQUEST || delivery.id.load(Ordering::Acquire) != arrived.reply_id() {
            return;
        }
        let fresh = super::inbox::fresh_block(pool);
        *delivered = Some((arrived, std::mem::replace(message, fresh)));
        delivery.full.store(true, Ordering::Release);
        drop(delivered);
        match (pending, self.pending()) {
            (Some(index), Some(pending)) => pending.wake(index, &waiter_slots.waiters),
            _ => waiter_slots.waiters.wake(index),
        }
    }

    /// Whether calls that are more urgent than the reader wait.
    #[inline]
    pub fn has_loans(&self) -> bool {
        self.waiter_slots.get().is_some_and(|waiter_slots| waiter_slots.waiters.has_loans())
    }

    /// Has the most urgent of the waiting calls read. To be called after each release of the inbox:
    /// until then the reader has the priority of the calls that wait for it.
    #[inline]
    pub fn hand_over(&self) {
        if let Some(waiter_slots) = self.waiter_slots.get() {
            waiter_slots.waiters.hand_over();
        }
    }

    pub fn wake_all(&self) {
        // A call that makes them from now on sees that the connection has ended.
        let Some(waiter_slots) = self.waiter_slots.get() else { return };
        for (index, delivery) in waiter_slots.deliveries.iter().enumerate() {
            if delivery.is_claimed() {
                waiter_slots.waiters.wake(index);
            }
        }
        if let Some(pending) = self.pending() {
            pending.wake_all(&waiter_slots.waiters);
        }
        drop(self.queue.lock());
        self.freed.notify_all(&self.queue);
    }
}

impl WaiterSlots {
    #[cold]
    fn claim_other(&self) -> Option<usize> {
        Some(self.others.take()? + 1)
    }
}

/// The slot of a call with a thread that waits for the reply, without the claim on it.
#[derive(Clone, Copy)]
pub(crate) struct SlotRef<'a> {
    slots: &'a Slots,
    waiter_slots: &'a WaiterSlots,
    delivery: &'a Delivery,
    /// The index under which the thread parks.
    waiter: usize,
    id: u32,
}

/// A slot that a call has claimed. Dropping it frees the slot; a later reply is ignored.
pub(crate) struct Slot<'a> {
    slot: SlotRef<'a>,
}

impl<'a> Deref for Slot<'a> {
    type Target = SlotRef<'a>;
    #[inline(always)]
    fn deref(&self) -> &SlotRef<'a> {
        &self.slot
    }
}

impl SlotRef<'_> {
    pub fn id(&self) -> u32 {
        self.id
    }

    /// The index under which the thread parks.
    pub fn waiter(&self) -> usize {
        self.waiter
    }

    /// Announces that this call waits and does not read, as long as the result lives.
    pub fn announce(&self) -> Announced<'_> {
        self.waiter_slots.waiters.announce(self.waiter)
    }

    /// The reply, if it was delivered. A late reply for an earlier user of the slot is dropped.
    pub fn arrived(&self, into: &mut Buffer) -> Option<Arrived> {
        let mut delivered = self.delivery.delivered.lock();
        let (arrived, buffer) = delivered.take()?;
        self.delivery.full.store(false, Ordering::Relaxed);
        drop(delivered);
        if arrived.reply_id() != self.id {
            return None;
        }
        *into = buffer;
        Some(arrived)
    }

    /// Whether a reply was delivered here. Exact for the thread that holds the inbox.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.delivery.is_full()
    }

    /// As [`SlotRef::arrived`], without a lock when nothing was delivered. Exact for the thread
    /// that holds the inbox, since only this thread delivers.
    #[inline]
    pub fn arrived_hint(&self, into: &mut Buffer) -> Option<Arrived> {
        if self.is_full() { self.arrived(into) } else { None }
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        let SlotRef { slots, waiter_slots, delivery, waiter, .. } = self.slot;
        delivery.leave();
        waiter_slots.waiters.reset(waiter);
        match waiter.checked_sub(1) {
            // Before the look at the queue, in one order with `claim_queued`.
            None => _ = slots.first.swap(false, Ordering::SeqCst),
            Some(index) => {
                cold_path();
                waiter_slots.others.give(index);
                std::sync::atomic::fence(Ordering::SeqCst);
            }
        }
        if slots.queued.load(Ordering::SeqCst) != 0 {
            cold_path();
            slots.wake_queued();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isorb_rt::sched::SchedClass;
    use std::time::Duration;

    #[test]
    fn the_most_urgent_call_gets_the_next_slot() {
        if SchedClass::Fifo(1).set_current().is_err() {
            eprintln!("skipped: it needs real-time priorities");
            return;
        }
        let slots = Slots::new(Side::Connector, SlotLimits { pending: 0, queued: 8, accepted: false });
        let mut taken: Vec<_> = std::iter::from_fn(|| slots.claim()).collect();
        assert_eq!(taken.len(), SLOTS);
        let order = PiMutex::new(Vec::new());
        std::thread::scope(|threads| {
            for (before, priority) in [2, 5, 3, 4].into_iter().enumerate() {
                let (slots, order) = (&slots, &order);
                threads.spawn(move || {
                    SchedClass::Fifo(priority).set_current().unwrap();
                    let slot = slots.claim_queued(Deadline::after(Duration::from_secs(60)));
                    order.lock().push(priority);
                    // The next call takes another one.
                    std::mem::forget(slot.unwrap());
                });
                while slots.queued.load(Ordering::SeqCst) as usize <= before {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            // The last of them is about to sleep, or does.
            drop(slots.queue.lock());
            for served in 1..=4 {
                taken.pop();
                while order.lock().len() < served {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        });
        assert_eq!(*order.lock(), [5, 4, 3, 2]);
    }
}
