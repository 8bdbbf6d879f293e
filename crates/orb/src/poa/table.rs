//! All POAs of an ORB by number, for transient object keys.

use super::Poa;
use isorb_rt::sync::{PiMutex, PiOnceLock};

/// The number of slots in the first block; each following block has twice as many.
const FIRST: u32 = 32;
/// 32 * (2^15 - 1) slots.
const BLOCKS: usize = 15;

/// The limit of POAs in one ORB.
pub(super) const MAX_POAS: u32 = FIRST * ((1 << BLOCKS) - 1);

/// An array that grows without moving, so that reading takes only the lock of the one slot:
/// requests for different POAs do not contend.
#[derive(Default)]
pub(super) struct Table {
    blocks: [PiOnceLock<Box<[PiMutex<Slot>]>>; BLOCKS],
}

#[derive(Default)]
struct Slot {
    generation: u32,
    poa: Option<Poa>,
}

impl Table {
    /// The POA in a slot, if it is the one of this generation.
    ///
    /// # Real-time
    /// Two array look-ups, one lock held for the clone of a shared pointer.
    #[inline(always)]
    pub fn find(&self, slot: u32, generation: u32) -> Option<Poa> {
        let slot_state = self.slot(slot)?.lock();
        if slot_state.generation == generation { slot_state.poa.clone() } else { None }
    }

    /// Reserves a free slot and returns the generation of its next POA. `None` for a slot without
    /// generations left, or without such a slot.
    pub fn reserve(&self, slot: u32) -> Option<u32> {
        let (block, _) = locate(slot)?;
        self.blocks[block].get_or_init(|| (0..FIRST << block).map(|_| PiMutex::default()).collect());
        let mut slot_state = self.slot(slot)?.lock();
        slot_state.generation = slot_state.generation.checked_add(1)?;
        Some(slot_state.generation)
    }

    /// Puts a POA into its reserved slot.
    pub fn put(&self, slot: u32, poa: Poa) {
        if let Some(slot_state) = self.slot(slot) {
            slot_state.lock().poa = Some(poa);
        }
    }

    /// Removes a POA from its slot.
    pub fn clear(&self, slot: u32) {
        let poa = self.slot(slot).and_then(|slot_state| slot_state.lock().poa.take());
        drop(poa);
    }

    #[inline(always)]
    fn slot(&self, slot: u32) -> Option<&PiMutex<Slot>> {
        let (block, offset) = locate(slot)?;
        self.blocks[block].get()?.get(offset)
    }
}

/// The block of a slot, and its index there.
#[inline(always)]
fn locate(slot: u32) -> Option<(usize, usize)> {
    let block = (slot / FIRST).checked_add(1)?.ilog2();
    let offset = slot - FIRST * ((1 << block) - 1);
    ((block as usize) < BLOCKS).then_some((block as usize, offset as usize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_slot_has_one_position() {
        let mut expected = (0, 0);
        for slot in 0..10_000 {
            assert_eq!(locate(slot), Some(expected));
            expected.1 += 1;
            if expected.1 == 32 << expected.0 {
                expected = (expected.0 + 1, 0);
            }
        }
        assert_eq!(locate(MAX_POAS - 1), Some((BLOCKS - 1, (32 << (BLOCKS - 1)) - 1)));
        assert_eq!(locate(MAX_POAS), None);
        assert_eq!(locate(u32::MAX), None);
        assert!(Table::default().find(3, 0).is_none());
    }
}
