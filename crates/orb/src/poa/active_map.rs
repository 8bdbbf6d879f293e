//! The active object map: object id to servant.

use super::Poa;
use super::errors::no;
use super::key::{ObjectId, SystemId};
use crate::Servant;
use isorb_giop::{Kind, SystemException};
use isorb_rt::priority::Priority;
use isorb_rt::sync::atomic::{AtomicU32, Ordering};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Set in [`ActiveObject::running`] when the object was deactivated.
const DEACTIVATED: u32 = 1 << 31;

/// An object in the map and its servant.
#[derive(Debug)]
pub(super) struct ActiveObject {
    pub poa: Poa,
    pub id: ObjectId,
    pub servant: Servant,
    /// Its own CORBA priority, if it was activated with one.
    pub priority: Option<Priority>,
    slot: u32,
    /// The number of running upcalls, and [`DEACTIVATED`].
    running: AtomicU32,
}

impl ActiveObject {
    /// Counts a new upcall; with the map locked, for an active object.
    #[inline]
    pub fn enter(&self) {
        self.running.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a new upcall without the map's lock; `false` when the object is deactivated.
    #[inline(always)]
    pub fn begin_unless_deactivated(&self) -> bool {
        let mut running = self.running.load(Ordering::Relaxed);
        while running & DEACTIVATED == 0 {
            match self.running.compare_exchange_weak(
                running,
                running + 1,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return true,
                Err(now) => running = now,
            }
        }
        false
    }

    /// Counts an upcall that ended. True for the last one of a deactivated object.
    #[inline]
    #[must_use]
    pub fn leave(&self) -> bool {
        self.running.fetch_sub(1, Ordering::AcqRel) == DEACTIVATED | 1
    }

    /// Whether it was deactivated and only waits for its upcalls and its etherealisation to end.
    #[inline]
    pub fn is_deactivated(&self) -> bool {
        self.running.load(Ordering::Acquire) & DEACTIVATED != 0
    }
}

#[derive(Debug, Default)]
struct Slot {
    /// The number of ids made for this slot.
    generation: u32,
    /// The random number in the last of them.
    secret: u64,
    entry: Option<Arc<ActiveObject>>,
    /// Whether the id of the entry is the last one made for this slot.
    own: bool,
    /// Whether it is in the queue of free slots. It may be occupied again meanwhile.
    listed: bool,
}

impl Slot {
    /// Whether this is the last id that was made for the slot.
    #[inline(always)]
    fn made(&self, id: SystemId) -> bool {
        self.generation == id.generation && self.secret == id.secret
    }
}

/// Objects by id, and the number of objects by servant.
///
/// An id made by this map is its own address: {slot, generation}, and a number to prove it. Any
/// other id needs one hash look-up. So does an own id that was activated again after its slot had
/// gone to another object.
#[derive(Debug)]
pub(super) struct ActiveObjectMap {
    slots: Vec<Slot>,
    free: VecDeque<u32>,
    by_id: HashMap<ObjectId, u32>,
    by_servant: HashMap<usize, Uses>,
    occupied: usize,
    leaving: usize,
    limit: u32,
    system: bool,
    /// For the ids of persistent POAs.
    epoch: Option<u32>,
}

#[derive(Debug)]
struct Uses {
    objects: u32,
    /// One of the slots; the only one with UNIQUE_ID.
    slot: u32,
}

impl ActiveObjectMap {
    pub fn new(limit: u32, system: bool, epoch: Option<u32>) -> ActiveObjectMap {
        ActiveObjectMap {
            slots: Vec::new(),
            free: VecDeque::new(),
            by_id: HashMap::new(),
            by_servant: HashMap::new(),
            occupied: 0,
            leaving: 0,
            limit,
            system,
            epoch,
        }
    }

    /// The object of an id, active or deactivated.
    #[inline(always)]
    pub fn find(&self, id: &[u8]) -> Option<&Arc<ActiveObject>> {
        if let Some(own) = self.own(id)
            && let Some(slot) = self.slots.get(own.slot as usize)
            && slot.made(own)
            && slot.own
        {
            return slot.entry.as_ref();
        }
        self.find_by_id(id)
    }

    fn find_by_id(&self, id: &[u8]) -> Option<&Arc<ActiveObject>> {
        if self.by_id.is_empty() {
            return None;
        }
        self.slots[*self.by_id.get(id)? as usize].entry.as_ref()
    }

    /// An object of a servant; the only one with UNIQUE_ID.
    pub fn of_servant(&self, servant: &Servant) -> Option<&Arc<ActiveObject>> {
        self.slots[self.by_servant.get(&servant.identity())?.slot as usize].entry.as_ref()
    }

    /// The number of a servant's active objects.
    pub fn activations(&self, servant: &Servant) -> u32 {
        self.by_servant.get(&servant.identity()).map_or(0, |uses| uses.objects)
    }

    /// Whether this map, or that of an earlier process, may have made this id.
    pub fn is_plausible(&self, id: &[u8]) -> bool {
        match self.own(id) {
            Some(own) => {
                let last = self.slots.get(own.slot as usize).map_or(0, |slot| slot.generation);
                (1..=last).contains(&own.generation)
            }
            None => self.epoch.is_some() && id.len() == 12,
        }
    }

    /// An id that no other object has or had.
    ///
    /// # Errors
    /// IMP_LIMIT when the map is full.
    pub fn new_id(&mut self) -> Result<ObjectId, SystemException> {
        let (slot, id) = self.take_slot()?;
        self.list(slot);
        Ok(id)
    }

    /// Inserts a servant under a new id.
    ///
    /// # Errors
    /// IMP_LIMIT when the map is full.
    pub fn insert_new(
        &mut self,
        poa: &Poa,
        servant: Servant,
        priority: Option<Priority>,
    ) -> Result<Arc<ActiveObject>, SystemException> {
        let (slot, id) = self.take_slot()?;
        Ok(self.occupy(poa, slot, id, (servant, priority), true))
    }

    /// Inserts a servant under this id, which is not in the map.
    ///
    /// # Errors
    /// IMP_LIMIT when the map is full.
    pub fn insert(
        &mut self,
        poa: &Poa,
        id: &[u8],
        servant: Servant,
        priority: Option<Priority>,
    ) -> Result<Arc<ActiveObject>, SystemException> {
        if let Some(own) = self.own(id)
            && let Some(slot) = self.slots.get(own.slot as usize)
            && slot.made(own)
            && slot.entry.is_none()
        {
            return Ok(self.occupy(poa, own.slot, id.into(), (servant, priority), true));
        }
        let (slot, _) = self.take_slot()?;
        let id = ObjectId::from(id);
        self.by_id.insert(id.clone(), slot);
        Ok(self.occupy(poa, slot, id, (servant, priority), false))
    }

    /// Deactivates an object; it stays in the map until [`remove`](Self::remove). True when no
    /// upcall of it runs.
    pub fn deactivate(&mut self, active: &ActiveObject) -> bool {
        self.leaving += 1;
        let identity = active.servant.identity();
        if let Some(uses) = self.by_servant.get_mut(&identity) {
            uses.objects -= 1;
            if uses.objects == 0 {
                self.by_servant.remove(&identity);
            }
        }
        active.running.fetch_or(DEACTIVATED, Ordering::AcqRel) == 0
    }

    /// Removes a deactivated object.
    pub fn remove(&mut self, active: &ActiveObject) -> Option<Arc<ActiveObject>> {
        let entry = self.slots.get_mut(active.slot as usize)?.entry.take()?;
        self.by_id.remove(&active.id);
        self.occupied -= 1;
        self.leaving -= 1;
        self.list(active.slot);
        Some(entry)
    }

    /// All active objects.
    pub fn active(&self) -> Vec<Arc<ActiveObject>> {
        self.slots
            .iter()
            .filter_map(|slot| slot.entry.clone())
            .filter(|active| !active.is_deactivated())
            .collect()
    }

    /// Whether the map has no object, active or deactivated.
    pub fn is_empty(&self) -> bool {
        self.occupied == 0
    }

    /// The number of objects that are deactivated but not removed.
    pub fn leaving(&self) -> usize {
        self.leaving
    }

    #[inline]
    fn own(&self, id: &[u8]) -> Option<SystemId> {
        if self.system { SystemId::decode(id, self.epoch) } else { None }
    }

    /// A vacant slot and its id.
    fn take_slot(&mut self) -> Result<(u32, ObjectId), SystemException> {
        let number = loop {
            let Some(number) = self.free.pop_front() else {
                let number = u32::try_from(self.slots.len()).unwrap_or(u32::MAX);
                if number >= self.limit {
                    return Err(no(Kind::ImpLimit, 0).detail(
                        "the POA has as many active objects as its policies allow; raise PoaPolicies::max_objects",
                    ));
                }
                self.slots.push(Slot::default());
                break number;
            };
            let slot = &mut self.slots[number as usize];
            slot.listed = false;
            // A slot without generations left is abandoned, so that no id is made twice.
            if slot.entry.is_none() && slot.generation < u32::MAX {
                break number;
            }
        };
        let slot = &mut self.slots[number as usize];
        slot.generation += 1;
        // Ids of persistent POAs outlive the process, which would have to store the number.
        slot.secret = if self.system && self.epoch.is_none() { isorb_rt::random_u64() } else { 0 };
        let id = SystemId { slot: number, generation: slot.generation, secret: slot.secret };
        Ok((number, id.encode(self.epoch)))
    }

    fn occupy(
        &mut self,
        poa: &Poa,
        slot: u32,
        id: ObjectId,
        (servant, priority): (Servant, Option<Priority>),
        own: bool,
    ) -> Arc<ActiveObject> {
        let uses = self.by_servant.entry(servant.identity()).or_insert(Uses { objects: 0, slot });
        uses.objects += 1;
        let active = Arc::new(ActiveObject {
            poa: poa.clone(),
            id,
            servant,
            priority,
            slot,
            running: AtomicU32::new(0),
        });
        let target = &mut self.slots[slot as usize];
        (target.entry, target.own) = (Some(active.clone()), own);
        self.occupied += 1;
        active
    }

    /// Marks a slot as free. The queue is first in, first out, so that generations last long.
    fn list(&mut self, number: u32) {
        let slot = &mut self.slots[number as usize];
        if !slot.listed {
            slot.listed = true;
            self.free.push_back(number);
        }
    }
}
