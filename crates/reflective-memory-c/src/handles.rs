//! Handles: numbers that stand for objects of this library, so that a mistake is an error.
//!
//! A number has the index of a slot and the slot's generation, which changes when the object is
//! closed. So the number of a closed object is never that of a later one.

use crate::result::{Failure, ISORB_CRM_BUSY, ISORB_CRM_CLOSED, ISORB_CRM_LIMIT};
use isorb_rt::sync::{PiMutex, PiOnceLock};
use std::sync::atomic::{AtomicU32, Ordering};

/// Slots are made in chunks, which live as long as the process: a handle is looked up without a
/// lock.
const CHUNK: usize = 256;
const CHUNKS: usize = 64;

/// How many objects of a kind a process may have.
const MOST: usize = CHUNK * CHUNKS;

pub struct Handles<T> {
    chunks: [PiOnceLock<Box<[Slot<T>]>>; CHUNKS],
    free: PiMutex<Free>,
}

struct Slot<T> {
    generation: AtomicU32,
    object: PiMutex<Option<Box<T>>>,
}

struct Free {
    released: Vec<usize>,
    /// Slots from here on were never used.
    unused: usize,
}

const CLOSED: Failure =
    Failure::Known(ISORB_CRM_CLOSED, "the handle was closed, or was never one of this kind");

impl<T> Handles<T> {
    pub const fn new() -> Handles<T> {
        Handles {
            chunks: [const { PiOnceLock::new() }; CHUNKS],
            free: PiMutex::new(Free { released: Vec::new(), unused: 0 }),
        }
    }

    /// The number of a new object; never 0.
    pub fn insert(&self, object: T) -> Result<u64, Failure> {
        let index = self.free.lock().take().ok_or(Failure::Known(
            ISORB_CRM_LIMIT,
            "this process has 16,384 handles of this kind, which is the limit; close some",
        ))?;
        let slots = self.chunks[index / CHUNK].get_or_init(|| {
            (0..CHUNK).map(|_| Slot { generation: AtomicU32::new(1), object: PiMutex::new(None) }).collect()
        });
        let slot = &slots[index % CHUNK];
        *slot.object.lock() = Some(Box::new(object));
        Ok(u64::from(slot.generation.load(Ordering::Acquire)) << 32 | (index as u64 + 1))
    }

    /// Uses an object. It is an error if another thread does so now.
    ///
    /// # Real-time
    /// One compare-exchange; no wait.
    #[inline]
    pub fn with<R>(
        &self,
        handle: u64,
        body: impl FnOnce(&mut T) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        let (slot, _) = self.slot(handle)?;
        let mut object = slot.object.try_lock().map_err(|_| slot.busy(handle))?;
        // While it is locked no thread closes it.
        if !slot.is_current(handle) {
            return Err(CLOSED);
        }
        body(object.as_mut().ok_or(CLOSED)?)
    }

    /// A copy of the object's part that several threads may use at the same time.
    pub fn share<R>(&self, handle: u64, part: impl FnOnce(&T) -> R) -> Result<R, Failure> {
        let (slot, _) = self.slot(handle)?;
        let object = slot.object.lock();
        if !slot.is_current(handle) {
            return Err(CLOSED);
        }
        object.as_deref().map(part).ok_or(CLOSED)
    }

    /// Closes an object that `may_close`, and returns it.
    pub fn remove(
        &self,
        handle: u64,
        may_close: impl FnOnce(&T) -> Result<(), Failure>,
    ) -> Result<Box<T>, Failure> {
        let (slot, index) = self.slot(handle)?;
        let mut object = slot.object.try_lock().map_err(|_| slot.busy(handle))?;
        if !slot.is_current(handle) {
            return Err(CLOSED);
        }
        may_close(object.as_deref().ok_or(CLOSED)?)?;
        let removed = object.take().ok_or(CLOSED)?;
        let next = slot.generation.load(Ordering::Relaxed).wrapping_add(1);
        slot.generation.store(next, Ordering::Release);
        drop(object);
        // A slot without a generation left is not used again.
        if next != 0 {
            self.free.lock().released.push(index);
        }
        Ok(removed)
    }

    fn slot(&self, handle: u64) -> Result<(&Slot<T>, usize), Failure> {
        let index = (handle as u32 as usize).checked_sub(1).ok_or(CLOSED)?;
        let chunk = self.chunks.get(index / CHUNK).and_then(PiOnceLock::get).ok_or(CLOSED)?;
        let slot = &chunk[index % CHUNK];
        if slot.is_current(handle) { Ok((slot, index)) } else { Err(CLOSED) }
    }
}

impl<T> Slot<T> {
    #[inline]
    fn is_current(&self, handle: u64) -> bool {
        self.generation.load(Ordering::Acquire) == (handle >> 32) as u32
    }

    /// Another thread has the slot: uses this object, or has closed it.
    #[cold]
    fn busy(&self, handle: u64) -> Failure {
        if !self.is_current(handle) {
            return CLOSED;
        }
        Failure::Known(
            ISORB_CRM_BUSY,
            "another thread is using this writer or reader; give each thread its own, or take turns",
        )
    }
}

impl Free {
    fn take(&mut self) -> Option<usize> {
        self.released.pop().or_else(|| {
            let index = Some(self.unused).filter(|index| *index < MOST);
            self.unused += usize::from(index.is_some());
            index
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    fn code<R>(result: Result<R, Failure>) -> i32 {
        let mut code = 0;
        if let Err(failure) = result {
            code = crate::result::call(|| Err(failure));
        }
        code
    }

    #[test]
    fn the_number_of_a_closed_object_is_never_that_of_a_later_one() {
        let handles = Handles::new();
        let mut before = Vec::new();
        for n in 0..10 {
            let handle = handles.insert(n).unwrap();
            assert!(!before.contains(&handle));
            assert_eq!(handles.with(handle, |object| Ok(*object)).unwrap(), n);
            assert_eq!(*handles.remove(handle, |_| Ok(())).unwrap(), n);
            before.push(handle);
            for old in &before {
                assert_eq!(code(handles.with(*old, |_| Ok(()))), ISORB_CRM_CLOSED);
                assert_eq!(code(handles.share(*old, |_| ())), ISORB_CRM_CLOSED);
                assert_eq!(code(handles.remove(*old, |_| Ok(()))), ISORB_CRM_CLOSED);
            }
        }
        for nonsense in [0, 1 << 32, 1 << 32 | 2, u64::MAX, 1 << 32 | 5000] {
            assert_eq!(code(handles.with(nonsense, |_| Ok(()))), ISORB_CRM_CLOSED);
        }
    }

    #[test]
    fn an_object_in_use_is_busy_and_a_refused_close_changes_nothing() {
        let handles = Handles::new();
        let handle = handles.insert(7).unwrap();
        let ((inside, entered), (leave, left)) = (channel(), channel());
        std::thread::scope(|scope| {
            let handles = &handles;
            let user = scope.spawn(move || {
                handles.with(handle, |object| {
                    inside.send(()).unwrap();
                    left.recv().unwrap();
                    Ok(*object)
                })
            });
            entered.recv().unwrap();
            assert_eq!(code(handles.with(handle, |_| Ok(()))), ISORB_CRM_BUSY);
            assert_eq!(code(handles.remove(handle, |_| Ok(()))), ISORB_CRM_BUSY);
            leave.send(()).unwrap();
            assert_eq!(user.join().unwrap().unwrap(), 7);
        });
        let refused = handles.remove(handle, |_| Err(Failure::Known(9, "no")));
        assert_eq!(code(refused), 9);
        assert_eq!(handles.with(handle, |object| Ok(*object)).unwrap(), 7);
    }

    #[test]
    fn there_are_as_many_as_the_limit_says() {
        let handles = Handles::new();
        let all: Vec<u64> = (0..MOST).map(|n| handles.insert(n).unwrap()).collect();
        assert_eq!(code(handles.insert(0)), ISORB_CRM_LIMIT);
        handles.remove(all[1000], |_| Ok(())).unwrap();
        assert!(handles.insert(0).is_ok());
        assert_eq!(handles.with(all[MOST - 1], |object| Ok(*object)).unwrap(), MOST - 1);
    }
}
