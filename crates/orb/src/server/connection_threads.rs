//! The threads of connections that have one each.
//!
//! Starting a thread and ending it takes longer than waking one, and other clients wait to be
//! accepted meanwhile (`isorb-bench attacks`). So a thread waits a moment after the end of its
//! connection for another one.

use super::session;
use crate::Orb;
use crate::connection::Connection;
use isorb_rt::sched::{Cpus, SchedClass, SpawnError, ThreadSpec, current_cpus};
use isorb_rt::sync::{Parker, PiMutex};
use isorb_rt::time::Deadline;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Threads that wait at once.
const WAITING: usize = 16;
/// How long each does.
const WAITS: Duration = Duration::from_millis(100);

/// The threads that wait for a connection.
#[derive(Default)]
pub(crate) struct ConnectionThreads {
    waiting: PiMutex<Vec<Arc<WaitingThread>>>,
    closed: AtomicBool,
}

/// A thread that waits, and its next connection.
struct WaitingThread {
    /// With which the thread was started. Where a servant changes it, the thread is not used again.
    class: Option<SchedClass>,
    cpus: Option<Cpus>,
    next: PiMutex<Option<Arc<Connection>>>,
    handed: Parker,
}

impl ConnectionThreads {
    /// Has a thread of the caller's class serve a connection.
    ///
    /// # Errors
    /// [`SpawnError::Create`].
    ///
    /// # Real-time
    /// Takes PI locks and makes system calls; allocates where no thread waits. Does not wait.
    pub fn serve(self: &Arc<Self>, orb: &Orb, connection: &Arc<Connection>) -> Result<(), SpawnError> {
        if self.hand_over(connection) {
            return Ok(());
        }
        let (threads, orb, connection) = (self.clone(), orb.clone(), connection.clone());
        ThreadSpec::inheriting("isorb-conn").start(move || {
            let thread = Arc::new(WaitingThread::of_this_thread());
            let mut next = Some(connection);
            while let Some(connection) = next.take() {
                session::serve(&orb, &connection);
                drop(connection);
                next = threads.wait(&thread);
            }
        })
    }

    fn hand_over(&self, connection: &Arc<Connection>) -> bool {
        let mut waiting = self.waiting.lock();
        if waiting.is_empty() {
            return false;
        }
        let class = SchedClass::current().ok();
        let Some(found) = waiting.iter().rposition(|thread| thread.class == class) else { return false };
        let thread = waiting.swap_remove(found);
        *thread.next.lock() = Some(connection.clone());
        thread.handed.unpark();
        true
    }

    /// Waits for the next connection of this thread; `None` when there is none.
    fn wait(&self, thread: &Arc<WaitingThread>) -> Option<Arc<Connection>> {
        if !thread.is_as_it_was() {
            return None;
        }
        {
            let mut waiting = self.waiting.lock();
            if waiting.len() >= WAITING || self.closed.load(Ordering::SeqCst) {
                return None;
            }
            waiting.push(thread.clone());
        }
        thread.handed.park_until(Deadline::after(WAITS));
        let mut waiting = self.waiting.lock();
        let next = thread.next.lock().take();
        if next.is_none() {
            waiting.retain(|other| !Arc::ptr_eq(other, thread));
        }
        next
    }

    /// Ends the threads that wait, and each one after its connection.
    pub fn close(&self) {
        let waiting = self.waiting.lock();
        self.closed.store(true, Ordering::SeqCst);
        waiting.iter().for_each(|thread| thread.handed.unpark());
    }
}

impl WaitingThread {
    fn of_this_thread() -> WaitingThread {
        let (class, cpus) = (SchedClass::current().ok(), current_cpus().ok());
        WaitingThread { class, cpus, next: PiMutex::new(None), handed: Parker::new() }
    }

    fn is_as_it_was(&self) -> bool {
        self.class == SchedClass::current().ok() && self.cpus == current_cpus().ok()
    }
}
