//! The threads of connections that have one each.
//!
//! Starting a thread and ending it takes some ten times as long as waking one, and a client that
//! connects again and again has as much time less. So a thread waits a moment after the end of its
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
    waiting: PiMutex<Vec<Arc<Place>>>,
    closed: AtomicBool,
}

/// Where a thread finds its next connection.
struct Place {
    /// What the thread was started with. A servant may change it; the thread is not used again then.
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
            let place = Arc::new(Place::of_this_thread());
            let mut next = Some(connection);
            while let Some(connection) = next.take() {
                session::serve(&orb, &connection);
                drop(connection);
                next = threads.wait(&place);
            }
        })
    }

    fn hand_over(&self, connection: &Arc<Connection>) -> bool {
        let mut waiting = self.waiting.lock();
        if waiting.is_empty() {
            return false;
        }
        let class = SchedClass::current().ok();
        let Some(found) = waiting.iter().rposition(|place| place.class == class) else { return false };
        let place = waiting.swap_remove(found);
        *place.next.lock() = Some(connection.clone());
        place.handed.unpark();
        true
    }

    /// Waits for the next connection of this thread; `None` when there is none.
    fn wait(&self, place: &Arc<Place>) -> Option<Arc<Connection>> {
        if !place.is_as_it_was() {
            return None;
        }
        {
            let mut waiting = self.waiting.lock();
            if waiting.len() >= WAITING || self.closed.load(Ordering::SeqCst) {
                return None;
            }
            waiting.push(place.clone());
        }
        place.handed.park_until(Deadline::after(WAITS));
        let mut waiting = self.waiting.lock();
        let next = place.next.lock().take();
        if next.is_none() {
            waiting.retain(|other| !Arc::ptr_eq(other, place));
        }
        next
    }

    /// Ends the threads that wait, and each one after its connection.
    pub fn close(&self) {
        let waiting = self.waiting.lock();
        self.closed.store(true, Ordering::SeqCst);
        waiting.iter().for_each(|place| place.handed.unpark());
    }
}

impl Place {
    fn of_this_thread() -> Place {
        let (class, cpus) = (SchedClass::current().ok(), current_cpus().ok());
        Place { class, cpus, next: PiMutex::new(None), handed: Parker::new() }
    }

    fn is_as_it_was(&self) -> bool {
        self.class == SchedClass::current().ok() && self.cpus == current_cpus().ok()
    }
}
