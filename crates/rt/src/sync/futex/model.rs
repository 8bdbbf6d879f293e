//! A small kernel for loom: the queues of futex(2), with its rules for writing the word.
//!
//! It is stronger than the kernel in one respect: since it uses a lock of loom, every call orders
//! memory. It has no clock, so no deadline passes, and no signals.

use std::collections::VecDeque;

use loom::sync::atomic::AtomicU32;
use loom::sync::atomic::Ordering::{Relaxed, SeqCst};
use loom::sync::{Condvar, Mutex};
use rustix::io::Errno;

use super::{OWNER, WAITERS};
use crate::time::Deadline;

/// See the kernel's.
pub(crate) struct Word {
    pub(crate) value: AtomicU32,
    /// Threads asleep on the word, by a ticket each or, waiting to be moved to a lock, by their
    /// ids.
    asleep: Mutex<VecDeque<u32>>,
    woken: Condvar,
}

impl Word {
    pub(crate) fn new(value: u32) -> Self {
        Word { value: AtomicU32::new(value), asleep: Mutex::new(VecDeque::new()), woken: Condvar::new() }
    }

    pub(crate) fn wait(&self, seen: u32, _: Deadline) -> Result<(), Errno> {
        let me = thread_id();
        let mut asleep = self.asleep.lock().unwrap();
        if self.value.load(SeqCst) != seen {
            return Err(Errno::AGAIN);
        }
        asleep.push_back(me);
        while asleep.contains(&me) {
            asleep = self.woken.wait(asleep).unwrap();
        }
        Ok(())
    }

    pub(crate) fn wake_one(&self) {
        self.asleep.lock().unwrap().pop_front();
        self.woken.notify_all();
    }

    pub(crate) fn wait_requeue(&self, seen: u32, lock: &LockWord, deadline: Deadline) -> Result<(), Errno> {
        self.wait(seen, deadline)?;
        lock.wait_for_ownership(thread_id());
        Ok(())
    }

    pub(crate) fn requeue(&self, seen: u32, lock: &LockWord, all: bool) -> Result<usize, Errno> {
        let mut asleep = self.asleep.lock().unwrap();
        if self.value.load(SeqCst) != seen {
            return Err(Errno::AGAIN);
        }
        let count = if all { asleep.len() } else { asleep.len().min(1) };
        for id in asleep.drain(..count) {
            lock.enqueue(id);
        }
        self.woken.notify_all();
        Ok(count)
    }
}

/// See the kernel's.
pub(crate) struct LockWord {
    pub(crate) value: AtomicU32,
    queue: Mutex<VecDeque<u32>>,
    handed: Condvar,
}

impl LockWord {
    pub(crate) fn new() -> Self {
        LockWord { value: AtomicU32::new(0), queue: Mutex::new(VecDeque::new()), handed: Condvar::new() }
    }

    pub(crate) fn lock(&self, _: Deadline) -> Result<(), Errno> {
        let me = thread_id();
        if self.value.load(Relaxed) & OWNER == me {
            return Err(Errno::DEADLK);
        }
        self.enqueue(me);
        self.wait_for_ownership(me);
        Ok(())
    }

    pub(crate) fn unlock(&self) -> Result<(), Errno> {
        let mut queue = self.queue.lock().unwrap();
        if self.value.load(SeqCst) & OWNER != thread_id() {
            return Err(Errno::PERM);
        }
        // The kernel leaves the bit set for the new owner even without other waiters.
        let next = queue.pop_front().map_or(0, |id| id | WAITERS);
        self.value.store(next, SeqCst);
        self.handed.notify_all();
        Ok(())
    }

    /// Gives a free lock to `id`, or puts it into the queue and marks the word, so that the owner
    /// comes to the kernel.
    fn enqueue(&self, id: u32) {
        let mut queue = self.queue.lock().unwrap();
        loop {
            let held = self.value.load(SeqCst);
            let (marked, free) = if held & OWNER == 0 { (id, true) } else { (held | WAITERS, false) };
            if self.value.compare_exchange(held, marked, SeqCst, SeqCst).is_ok() {
                if !free {
                    queue.push_back(id);
                }
                self.handed.notify_all();
                return;
            }
        }
    }

    fn wait_for_ownership(&self, id: u32) {
        let mut queue = self.queue.lock().unwrap();
        while self.value.load(SeqCst) & OWNER != id {
            queue = self.handed.wait(queue).unwrap();
        }
    }
}

pub(crate) fn thread_id() -> u32 {
    loom::thread_local! {
        // Only compared for equality, never ordered, so that they differ from run to run does not
        // disturb loom.
        static ID: u32 = {
            static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(1);
            NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed) & OWNER
        };
    }
    ID.with(|id| *id)
}
