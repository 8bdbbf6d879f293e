//! The thread that hears a group, and how urgent it is.
//!
//! It reads for all members. Were it less urgent than one of their lanes, whatever runs between the two would delay that lane's requests.

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
    /// The most urgent of those that it was raised to.
    raised: Option<SchedClass>,
}

impl GroupThread {
    /// Said by the thread itself, once.
    pub fn is_me(&self) {
        let mut state = self.0.lock();
        state.thread = Some(ThreadId::current());
        state.own = SchedClass::current().unwrap_or_default();
        if let Some(class) = state.raised.filter(|class| rank(*class) > rank(state.own)) {
            give(ThreadId::current(), class);
        }
    }

    /// Makes the thread at least so urgent.
    pub fn raise(&self, class: SchedClass) {
        // A reservation is one thread's; what is nearest to it is the most urgent class without.
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
            give(thread, class);
        }
    }

    /// Runs `f` on the thread as it was started, and not as urgent as lanes that `f` has nothing to do with.
    ///
    /// # Real-time
    /// A PI lock; two system calls where the thread was raised.
    pub fn at_its_own_class(&self, f: impl FnOnce()) {
        let State { own, raised, .. } = *self.0.lock();
        let Some(class) = raised.filter(|class| rank(*class) > rank(own)) else { return f() };
        give(ThreadId::current(), own);
        forget_class();
        f();
        give(ThreadId::current(), class);
        forget_class();
    }
}

/// What comes later is served first.
fn rank(class: SchedClass) -> u8 {
    class.native_priority().unwrap_or(0)
}

/// What the system refuses is noted.
fn give(thread: ThreadId, class: SchedClass) {
    if let Err(error) = thread.set_class(class) {
        crate::log::note(format_args!("the thread that hears a group does not become {class}: {error}"));
    }
}
