//! Handles: numbers that stand for objects of this library, so that a mistake is an error.
//!
//! A number has the index of a slot and the slot's generation, which changes when the object is
//! closed. So the number of a closed object is never that of a later one.

use crate::result::{Failure, ISORB_CRM_BUSY, ISORB_CRM_CLOSED, ISORB_CRM_LIMIT};
use isorb_rt::sync::{ExclusiveSlot, PiMutex, PiOnceLock, SlotError, SlotGuard};

/// Slots are made in chunks, which live as long as the process: a handle is looked up without a
/// lock.
const CHUNK: usize = 256;
const CHUNKS: usize = 64;

/// How many objects of a kind a process may have.
const MOST: usize = CHUNK * CHUNKS;

pub struct Handles<T> {
    chunks: [PiOnceLock<Box<[Slot<T>]>>; CHUNKS],
    /// Held by threads that open, close or share, so that these wait for each other.
    free: PiMutex<Free>,
}

/// Slots of two threads lie on different cache lines.
#[repr(align(64))]
struct Slot<T>(ExclusiveSlot<Option<Box<T>>>);

/// An object that the calling thread alone has; `None` in the slot of one that was closed.
type InUse<'a, T> = SlotGuard<'a, Option<Box<T>>>;

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
        let object = Box::new(object);
        let mut free = self.free.lock();
        let index = free.take().ok_or(Failure::Known(
            ISORB_CRM_LIMIT,
            "this process has 16,384 handles of this kind, which is the limit; close some",
        ))?;
        let slots = self.chunks[index / CHUNK]
            .get_or_init(|| (0..CHUNK).map(|_| Slot(ExclusiveSlot::new(None))).collect());
        let Slot(slot) = &slots[index % CHUNK];
        let generation = slot.generation();
        match slot.try_use(generation) {
            Ok(mut place) => *place = Some(object),
            // A thread tries the number before it was given.
            Err(error) => {
                free.released.push(index);
                return Err(refused(error));
            }
        }
        Ok(u64::from(generation) << 32 | (index as u64 + 1))
    }

    /// Uses an object. It is an error if another thread does so now.
    ///
    /// # Real-time
    /// One compare-exchange and one store; no wait.
    #[inline]
    pub fn with<R>(
        &self,
        handle: u64,
        body: impl FnOnce(&mut T) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        let (mut object, _) = self.begin(handle)?;
        body(object.as_deref_mut().ok_or(CLOSED)?)
    }

    /// A copy of the object's part that several threads may use at the same time: they take turns.
    /// Objects of this kind are not used by [`with`](Self::with).
    pub fn share<R>(&self, handle: u64, part: impl FnOnce(&T) -> R) -> Result<R, Failure> {
        let _turn = self.free.lock();
        let (object, _) = self.begin(handle)?;
        object.as_deref().map(part).ok_or(CLOSED)
    }

    /// Closes an object that `may_close`, and returns it.
    pub fn remove(
        &self,
        handle: u64,
        may_close: impl FnOnce(&T) -> Result<(), Failure>,
    ) -> Result<Box<T>, Failure> {
        let mut free = self.free.lock();
        let (mut object, index) = self.begin(handle)?;
        may_close(object.as_deref().ok_or(CLOSED)?)?;
        let removed = object.take().ok_or(CLOSED)?;
        // A slot without a generation left is not used again.
        if object.expire() != 0 {
            free.released.push(index);
        }
        Ok(removed)
    }

    /// Begins the use of an object. While the result lives, no other thread uses or closes it.
    #[inline]
    fn begin(&self, handle: u64) -> Result<(InUse<'_, T>, usize), Failure> {
        let index = (handle as u32 as usize).wrapping_sub(1);
        let Some(slots) = self.chunks.get(index / CHUNK).and_then(PiOnceLock::get) else {
            return Err(CLOSED);
        };
        let used = slots[index % CHUNK].0.try_use((handle >> 32) as u32);
        used.map(|object| (object, index)).map_err(refused)
    }
}

#[cold]
fn refused(error: SlotError) -> Failure {
    match error {
        SlotError::Expired => CLOSED,
        SlotError::InUse => Failure::Known(
            ISORB_CRM_BUSY,
            "another thread is using this writer or reader; give each thread its own, or take turns",
        ),
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

    /// Threads that use one object at the same time, while it is closed and another one opened:
    /// each of them has it alone, is told that it is busy, or that it is closed.
    #[test]
    fn threads_meet_at_one_handle() {
        struct Alone(std::cell::Cell<bool>);
        let handles = Handles::new();
        let current = std::sync::atomic::AtomicU64::new(handles.insert(Alone(false.into())).unwrap());
        let order = std::sync::atomic::Ordering::AcqRel;
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        let used = handles.with(current.fetch_or(0, order), |object| {
                            assert!(!object.0.replace(true), "two threads have it");
                            std::hint::spin_loop();
                            object.0.set(false);
                            Ok(())
                        });
                        assert!([0, ISORB_CRM_BUSY, ISORB_CRM_CLOSED].contains(&code(used)));
                    }
                });
            }
            for _ in 0..5_000 {
                let handle = current.fetch_or(0, order);
                match handles.remove(handle, |object| {
                    assert!(!object.0.get(), "closed while it is used");
                    Ok(())
                }) {
                    Ok(_) => current.store(
                        handles.insert(Alone(false.into())).unwrap(),
                        std::sync::atomic::Ordering::Release,
                    ),
                    Err(failure) => assert_eq!(code(Err::<(), _>(failure)), ISORB_CRM_BUSY),
                }
            }
        });
    }

    /// Sessions: no thread is told that another one has it.
    #[test]
    fn threads_share_and_do_not_meet() {
        let handles = Handles::new();
        let handle = handles.insert(7).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope
                    .spawn(|| (0..5_000).for_each(|_| assert_eq!(handles.share(handle, |n| *n).unwrap(), 7)));
            }
        });
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
