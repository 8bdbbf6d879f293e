//! The connection to a remote consumer, which no push waits for.
//!
//! ```text
//!   push ──► not bound ──► Binder: opens the connection ──► resume
//!     │ bound
//!     └────► sent, or kept by the connection ──► its monitor sends it ──► resume
//! ```

use super::backoff::Backoff;
use super::binder::Bindable;
use super::service::Shared;
use crate::{Failure, Resume};
use isorb::rt::{Priority, RtCurrent};
use isorb::{ConnectionWatcher, Kind, Object, Result, SystemException, minor};
use isorb_rt::sync::PiMutex;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicI16, AtomicU64};
use std::sync::{Arc, Weak};
use std::time::Duration;

pub(super) struct RemotePeer {
    me: Weak<RemotePeer>,
    shared: Weak<Shared>,
    /// Opens the connection of its pushes.
    object: Object,
    /// `RTCurrent`, if pushes have threads of their own, which set the priority of the call. If
    /// not, a push waits, since the channel's threads have no dispatcher to return to.
    current: Option<RtCurrent>,
    /// The consumer's CORBA priority; negative until it is known.
    priority: AtomicI16,
    /// Its number in [`Shared::control`]; 0 until it is known.
    watch: AtomicU64,
    backoff: Backoff,
    /// Its connection was opened, and has not ended.
    bound: AtomicBool,
    /// The binder has it.
    binding: AtomicBool,
    resume: PiMutex<Option<Resume>>,
}

impl RemotePeer {
    pub fn new(shared: &Arc<Shared>, object: &Object) -> Arc<RemotePeer> {
        Arc::new_cyclic(|me| RemotePeer {
            me: me.clone(),
            shared: Arc::downgrade(shared),
            object: shared.by_level(object),
            current: shared.dispatch.as_ref().map(|_| object.orb().rt_current()),
            priority: AtomicI16::new(-1),
            watch: AtomicU64::new(0),
            backoff: Backoff::new(shared.options.push_timeout),
            bound: AtomicBool::new(shared.dispatch.is_none()),
            binding: AtomicBool::new(false),
            resume: PiMutex::default(),
        })
    }

    /// The reference for pushes.
    pub fn reference(&self, shared: &Shared) -> Object {
        if self.current.is_some() { shared.without_waits(&self.object) } else { self.object.clone() }
    }

    /// The reference for other calls.
    pub fn object(&self) -> &Object {
        &self.object
    }

    pub fn set_watch(&self, number: u64) {
        self.watch.store(number, Relaxed);
    }

    pub fn set_priority(&self, priority: Priority) {
        self.priority.store(priority.get(), Relaxed);
    }

    /// The first push would find no connection, so it is opened now.
    pub fn connected(&self, resume: Resume) {
        *self.resume.lock() = Some(resume);
        if !self.bound.load(Acquire) {
            self.request_binding();
        }
    }

    pub fn backoff(&self) -> Duration {
        self.backoff.delay()
    }

    /// Pushes by `send`.
    pub fn push(&self, send: impl FnOnce() -> Result<()>) -> std::result::Result<(), Failure> {
        if !self.bound.load(Acquire) {
            self.request_binding();
            return Err(Failure::Busy);
        }
        self.take_priority();
        let Err(exception) = send() else {
            self.backoff.record(None);
            return Ok(());
        };
        match (exception.kind, exception.minor) {
            (Kind::Transient, minor::TRANSIENT_BUSY) => return Err(Failure::Busy),
            (Kind::Rebind, _) if self.current.is_some() => {
                // Its connection ended before this push: nothing is lost.
                self.bound.store(false, Release);
                self.request_binding();
                self.suspect();
                return Err(Failure::Busy);
            }
            _ => {}
        }
        if failure_of(&exception) == Failure::Unsent {
            return Err(Failure::Unsent);
        }
        self.backoff.record(Some(exception.kind));
        if matches!(exception.kind, Kind::CommFailure | Kind::Transient | Kind::ObjectNotExist) {
            self.suspect();
        }
        Err(Failure::Failed)
    }

    /// Gives the pushing thread the consumer's CORBA priority. It selects the connection, and is
    /// propagated to the consumer under the client-propagated model.
    ///
    /// # Real-time
    /// If the last push had the same priority, one read of thread-local memory. Otherwise one PI
    /// lock, and a system call if the native priority changes.
    fn take_priority(&self) {
        let priority = self.priority.load(Relaxed);
        let Some(current) = self.current.as_ref().filter(|_| priority >= 0) else { return };
        if current.the_priority().map(Priority::get) != Ok(priority) {
            // If the system refuses, the push keeps the thread's priority.
            let _ = current.set_the_priority(priority);
        }
    }

    fn request_binding(&self) {
        if let Some(shared) = self.shared.upgrade()
            && !self.binding.swap(true, AcqRel)
        {
            shared.binder.put(self.me.clone());
        }
    }

    /// Its connection ended, or cannot be opened: its process may have ended, too.
    fn suspect(&self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.control.suspect(self.watch.load(Relaxed));
        }
    }

    fn resume(&self) {
        let resume = self.resume.lock().clone();
        if let Some(resume) = resume {
            resume.resume();
        }
    }
}

/// Whether the consumer failed, or this process.
pub(super) fn failure_of(exception: &SystemException) -> Failure {
    match (exception.kind, exception.minor) {
        // This process could not connect.
        (Kind::Transient, minor::TRANSIENT_SHORTAGE) => Failure::Unsent,
        _ => Failure::Failed,
    }
}

impl Bindable for RemotePeer {
    fn bind(&self) -> Result<()> {
        self.take_priority();
        let watcher: Weak<dyn ConnectionWatcher> = self.me.clone();
        if let Err(exception) = self.object.open_connection(Some(watcher)) {
            if !exception.is_shortage() {
                self.suspect();
            }
            return Err(exception);
        }
        self.bound.store(true, Release);
        self.binding.store(false, Release);
        self.resume();
        Ok(())
    }

    fn address(&self) -> String {
        self.object.address().unwrap_or_default()
    }
}

impl ConnectionWatcher for RemotePeer {
    fn changed(&self, ended: bool) {
        if ended {
            self.bound.store(false, Release);
            self.suspect();
        }
        self.resume();
    }
}
