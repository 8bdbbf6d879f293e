//! The scheduling class of the thread that receives a group's messages.
//!
//! It reads for all members. Its class is at least that of their highest lane; otherwise a thread
//! of a class in between would delay that lane's requests.

use crate::sched::thread::forget_class;
use isorb_rt::sched::{NativeRange, SchedClass, ThreadId};
use isorb_rt::sync::PiMutex;

/// Of one thread.
#[derive(Debug, Default)]
pub(super) struct GroupThread(PiMutex<State>);

#[derive(Clone, Copy, Debug, Default)]
struct State {
    thread: Option<ThreadId>,
    /// As it was started.
    own: SchedClass,
    /// The highest class that it was raised to.
    raised: Option<SchedClass>,
}

impl GroupThread {
    /// Registers the calling thread.
    pub fn register(&self) {
        let mut state = self.0.lock();
        // A thread that is replaced after a panic begins at its own class again.
        forget_class();
        state.thread = Some(ThreadId::current());
        state.own = SchedClass::current().unwrap_or_default();
        if let Some(class) = state.raised.filter(|class| rank(*class) > rank(state.own)) {
            set_class(ThreadId::current(), class);
        }
    }

    /// Raises the thread to at least this class.
    pub fn raise(&self, class: SchedClass) {
        // A reservation belongs to one thread; the highest priority comes closest to it.
        let class = match class {
            SchedClass::Reserved(_) => SchedClass::Fifo(NativeRange::system().max),
            class => class,
        };
        let mut state = self.0.lock();
        if rank(class) <= state.raised.map_or(0, rank) {
            return;
        }
        state.raised = Some(class);
        if let Some(thread) = state.thread.filter(|_| rank(class) > rank(state.own)) {
            set_class(thread, class);
        }
    }

    /// Runs `f` at the class that the thread was started with.
    ///
    /// # Real-time
    /// A PI lock; two system calls where the thread was raised.
    pub fn at_its_own_class(&self, f: impl FnOnce()) {
        let State { own, raised, .. } = *self.0.lock();
        let Some(class) = raised.filter(|class| rank(*class) > rank(own)) else { return f() };
        set_class(ThreadId::current(), own);
        forget_class();
        f();
        set_class(ThreadId::current(), class);
        forget_class();
    }
}

/// Orders classes, the highest last.
fn rank(class: SchedClass) -> u8 {
    class.native_priority().unwrap_or(0)
}

/// Sets a thread's class; logs a refusal.
fn set_class(thread: ThreadId, class: SchedClass) {
    if let Err(error) = thread.set_class(class) {
        crate::log::warn(
            "isorb::dispatch",
            format_args!("the thread that receives a group's messages does not get class {class}: {error}"),
        );
    }
}
