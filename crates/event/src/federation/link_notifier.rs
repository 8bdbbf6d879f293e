//! A thread that tells one neighbour what is to be message_sent, so that one that is frozen holds up neither events nor other neighbours.

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
pub(super) struct LinkNotifier(Arc<NotifierSignal>);

#[derive(Default)]
struct NotifierSignal {
    parker: Parker,
    ended: AtomicBool,
}

impl LinkNotifier {
    /// Starts it, or `None` where the system has no thread left: who finds that something is to be message_sent then says it.
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

    /// There is something to say.
    ///
    /// # Real-time
    /// Neither allocates nor blocks; a system call where the thread sleeps.
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
