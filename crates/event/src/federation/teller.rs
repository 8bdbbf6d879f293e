//! A thread that tells one neighbour what is to be said, so that one that is frozen holds up neither events nor other neighbours.

use super::LinkId;
use super::node::Inner;
use crate::dispatch::ThreadSetup;
use isorb_rt::priority::Priority;
use isorb_rt::sync::Parker;
use isorb_rt::time::Deadline;
use std::sync::Arc;
use std::sync::Weak;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};

/// The handle of that thread. It ends when this is dropped, after what it is saying.
pub(super) struct Teller(Arc<Bell>);

#[derive(Default)]
struct Bell {
    parker: Parker,
    ended: AtomicBool,
}

impl Teller {
    /// Starts it, or `None` where the system has no thread left: who finds that something is to be said then says it.
    pub(super) fn start(
        inner: Weak<Inner>,
        link: LinkId,
        setup: &ThreadSetup,
        priority: Priority,
    ) -> Option<Teller> {
        let bell = Arc::new(Bell::default());
        let rung = bell.clone();
        let body = move || {
            loop {
                rung.parker.park_until(Deadline::NONE);
                match inner.upgrade() {
                    Some(inner) if !rung.ended.load(Acquire) => inner.tell_now(link),
                    _ => return,
                }
            }
        };
        setup.spawn(format!("event-tell-{}", link.0), priority, body).ok().map(|_| Teller(bell))
    }

    /// There is something to say.
    ///
    /// # Real-time
    /// Neither allocates nor blocks; a system call where the thread sleeps.
    pub(super) fn ring(&self) {
        self.0.parker.unpark();
    }
}

impl Drop for Teller {
    fn drop(&mut self) {
        self.0.ended.store(true, Release);
        self.0.parker.unpark();
    }
}
