//! The thread that sends control messages to one neighbour, so that a neighbour that does not
//! answer delays neither events nor others.

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

/// The handle of that thread. The thread ends when this is dropped, after the current message.
pub(super) struct LinkNotifier(Arc<NotifierSignal>);

#[derive(Default)]
struct NotifierSignal {
    parker: Parker,
    ended: AtomicBool,
}

impl LinkNotifier {
    /// Starts the thread. `None` if that fails: then threads that have updates send them.
    pub(super) fn start(
        inner: Weak<Inner>,
        link: LinkId,
        setup: &ThreadSetup,
        priority: Priority,
    ) -> Option<LinkNotifier> {
        let signal = Arc::new(NotifierSignal::default());
        let own_signal = signal.clone();
        let body = move || {
            loop {
                own_signal.parker.park_until(Deadline::NONE);
                match inner.upgrade() {
                    Some(inner) if !own_signal.ended.load(Acquire) => inner.notify_neighbour(link),
                    _ => return,
                }
            }
        };
        setup.spawn(format!("event-tell-{}", link.0), priority, body).ok().map(|_| LinkNotifier(signal))
    }

    /// Wakes the thread to send updates.
    ///
    /// # Real-time
    /// Neither allocates nor blocks; a system call if the thread sleeps.
    pub(super) fn notify(&self) {
        self.0.parker.unpark();
    }
}

impl Drop for LinkNotifier {
    fn drop(&mut self) {
        self.0.ended.store(true, Release);
        self.0.parker.unpark();
    }
}
