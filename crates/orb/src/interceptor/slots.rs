//! `PortableInterceptor::Current`: slots in which a service passes data from a thread to its
//! requests, and from a request to the thread that serves it (clause 16.4).
//!
//! Tables have one of two scopes. [`PiCurrent`] reads and sets that of the thread. That of a
//! request belongs to the request's `…Info`. At the client it is a copy of the thread's table,
//! taken when the call begins. At the server it is empty at first and filled by
//! `receive_request_service_contexts`; from then on it is the thread's table as well, so that the
//! servant and the ending points share it. The client's interceptors and the server's starting
//! points run with a fresh table of the thread, so that calls made by an interceptor do not look
//! like the application's.

use isorb_any::Any;
use std::cell::RefCell;
use std::fmt;
use std::marker::PhantomData;

/// Tables that a thread keeps for later requests.
const MAX_SPARE: usize = 16;

/// A slot from [`allocate_slot_id`](super::OrbInitInfo::allocate_slot_id). It has no meaning for
/// another ORB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SlotId(pub(crate) u32);

/// `PortableInterceptor::InvalidSlot`: the slot was not allocated by this ORB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidSlot;

impl fmt::Display for InvalidSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "InvalidSlot: this ORB did not allocate the slot; take its id from OrbInitInfo::allocate_slot_id",
        )
    }
}

impl std::error::Error for InvalidSlot {}

impl From<InvalidSlot> for crate::SystemException {
    fn from(error: InvalidSlot) -> Self {
        crate::SystemException::from(isorb_giop::Kind::Unknown)
            .minor(isorb_giop::minor::UNKNOWN_USER_EXCEPTION)
            .detail(error.to_string())
    }
}

/// The values of all slots; `None` where none was set.
pub(crate) type Table = Vec<Option<Any>>;

/// The slots of the calling thread; from [`Orb::pi_current`](crate::Orb::pi_current).
#[derive(Clone, Copy, Debug)]
pub struct PiCurrent {
    pub(crate) orb: usize,
    pub(crate) slots: usize,
}

impl PiCurrent {
    /// The value of a slot in the scope of this thread; null where none was set.
    ///
    /// # Errors
    /// [`InvalidSlot`].
    ///
    /// # Real-time
    /// Clones a reference; neither allocates nor blocks.
    pub fn slot(self, id: SlotId) -> Result<Any, InvalidSlot> {
        self.check(id)?;
        Ok(read(|tables| tables.of(self.orb).and_then(|table| table.get(id.0 as usize)?.clone()))
            .unwrap_or_default())
    }

    /// Sets a slot in the scope of this thread.
    ///
    /// # Errors
    /// [`InvalidSlot`].
    ///
    /// # Real-time
    /// Allocates the thread's table with its first slot; then neither allocates nor blocks.
    pub fn set_slot(self, id: SlotId, value: Any) -> Result<(), InvalidSlot> {
        self.check(id)?;
        let before = change(|tables| {
            if tables.of(self.orb).is_none() {
                tables.base.push(Frame { orb: self.orb, table: vec![None; self.slots] });
            }
            let place = tables.of_mut(self.orb).and_then(|table| table.get_mut(id.0 as usize))?;
            place.replace(value)
        });
        drop(before);
        Ok(())
    }

    fn check(self, id: SlotId) -> Result<(), InvalidSlot> {
        if (id.0 as usize) < self.slots { Ok(()) } else { Err(InvalidSlot) }
    }

    /// A copy of the thread's table, for a request.
    pub(crate) fn copy(self) -> Table {
        if self.slots == 0 {
            return Table::new();
        }
        change(|tables| {
            let mut copy = tables.spare.pop().unwrap_or_default();
            match tables.of(self.orb) {
                Some(table) => copy.extend_from_slice(table),
                None => copy.resize(self.slots, None),
            }
            copy
        })
    }

    /// An empty table.
    pub(crate) fn empty(self) -> Table {
        if self.slots == 0 {
            return Table::new();
        }
        let mut table = change(|tables| tables.spare.pop()).unwrap_or_default();
        table.resize(self.slots, None);
        table
    }

    /// Makes `table` the thread's until the result is dropped; nothing if the ORB has no slots.
    pub(crate) fn enter(self, table: Table) -> Option<SlotTableGuard> {
        (self.slots > 0).then(|| {
            change(|tables| tables.stack.push(Frame { orb: self.orb, table }));
            SlotTableGuard { current: self, here: PhantomData }
        })
    }
}

/// Returns a table for later requests.
pub(crate) fn give_back(mut table: Table) {
    if table.capacity() > 0 {
        table.clear();
        let _ = TABLES.try_with(|tables| {
            let mut tables = tables.borrow_mut();
            if tables.spare.len() < MAX_SPARE {
                tables.spare.push(table);
            }
        });
    }
}

/// Empties the scope of this thread.
pub(crate) fn forget_thread_slots() {
    change(|tables| tables.base.clear());
}

/// A table that belongs to its thread for a while.
pub(crate) struct SlotTableGuard {
    current: PiCurrent,
    /// It stays on its thread.
    here: PhantomData<*const ()>,
}

impl SlotTableGuard {
    /// Empties the table, so that the next interception point has a fresh one.
    pub fn reset(&self) {
        change(|tables| {
            if let Some(table) = tables.of_mut(self.current.orb) {
                table.fill(None);
            }
        });
    }
}

impl Drop for SlotTableGuard {
    fn drop(&mut self) {
        if let Some(frame) = change(|tables| tables.stack.pop()) {
            give_back(frame.table);
        }
    }
}

struct Frame {
    orb: usize,
    table: Table,
}

#[derive(Default)]
struct Tables {
    /// The tables set by the application; one for each ORB.
    base: Vec<Frame>,
    /// The tables that apply at present, innermost last.
    stack: Vec<Frame>,
    spare: Vec<Table>,
}

impl Tables {
    fn of(&self, orb: usize) -> Option<&Table> {
        let mut innermost = self.stack.iter().rev().chain(&self.base);
        innermost.find(|frame| frame.orb == orb).map(|frame| &frame.table)
    }

    fn of_mut(&mut self, orb: usize) -> Option<&mut Table> {
        let mut innermost = self.stack.iter_mut().rev().chain(&mut self.base);
        innermost.find(|frame| frame.orb == orb).map(|frame| &mut frame.table)
    }
}

thread_local! {
    static TABLES: RefCell<Tables> = RefCell::default();
}

fn read<T>(f: impl FnOnce(&Tables) -> Option<T>) -> Option<T> {
    TABLES.try_with(|tables| f(&tables.borrow())).ok().flatten()
}

/// Values are of the ORB's own types: dropping one while the tables are borrowed runs no code of
/// the application.
fn change<T: Default>(f: impl FnOnce(&mut Tables) -> T) -> T {
    TABLES.try_with(|tables| f(&mut tables.borrow_mut())).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(n: u32) -> Any {
        Any::new(&n).unwrap()
    }

    #[test]
    fn scopes_are_apart() {
        let current = PiCurrent { orb: 1, slots: 2 };
        let (a, b) = (SlotId(0), SlotId(1));
        assert_eq!(current.slot(a), Ok(Any::null()));
        current.set_slot(a, number(1)).unwrap();
        let copy = current.copy();
        {
            let fresh = current.enter(current.empty()).unwrap();
            assert_eq!(current.slot(a), Ok(Any::null()));
            current.set_slot(a, number(2)).unwrap();
            fresh.reset();
            assert_eq!(current.slot(a), Ok(Any::null()));
            current.set_slot(b, number(3)).unwrap();
        }
        assert_eq!((current.slot(a), current.slot(b)), (Ok(number(1)), Ok(Any::null())));
        assert_eq!(copy, [Some(number(1)), None]);
        assert_eq!(current.slot(SlotId(2)), Err(InvalidSlot));
        assert_eq!(current.set_slot(SlotId(2), Any::null()), Err(InvalidSlot));
        let other = PiCurrent { orb: 2, slots: 2 };
        assert_eq!(other.slot(a), Ok(Any::null()));
        let elsewhere = std::thread::spawn(move || current.slot(a)).join().unwrap();
        assert_eq!(elsewhere, Ok(Any::null()));
        forget_thread_slots();
        assert_eq!(current.slot(a), Ok(Any::null()));
    }
}
