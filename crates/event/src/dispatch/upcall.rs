//! Real-time upcalls: a consumer yields to more urgent ones, which run nested on its stack (TAO
//! event service paper, section 5.1.1, 'deferred pre-emption').

use super::queued::Shared;
use crate::connection::Connection;
use std::cell::RefCell;
use std::sync::Arc;

#[cfg(not(loom))]
thread_local! {
    /// The consumers on this thread's stack, the most urgent last, and the dispatcher that owns the
    /// thread.
    static STACK: RefCell<Vec<Running>> = const { RefCell::new(Vec::new()) };
    static WORKER: RefCell<Option<Arc<Shared>>> = const { RefCell::new(None) };
}
#[cfg(loom)]
loom::thread_local! {
    static STACK: RefCell<Vec<Running>> = RefCell::new(Vec::new());
    static WORKER: RefCell<Option<Arc<Shared>>> = RefCell::new(None);
}

struct Running {
    shared: Arc<Shared>,
    level: u8,
    connection: Arc<Connection>,
}

/// A consumer on the stack of a dispatching thread, while this lives.
pub(crate) struct Frame(());

impl Frame {
    pub(crate) fn enter(shared: &Arc<Shared>, level: u8, connection: &Arc<Connection>) -> Frame {
        let running = Running { shared: shared.clone(), level, connection: connection.clone() };
        STACK.with(|stack| stack.borrow_mut().push(running));
        Frame(())
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        STACK.with(|stack| drop(stack.borrow_mut().pop()));
    }
}

/// Marks this thread as one of a dispatcher.
pub(crate) fn serve(shared: &Arc<Shared>) {
    WORKER.with(|worker| *worker.borrow_mut() = Some(shared.clone()));
}

/// Returns true on a thread of this dispatcher.
pub(crate) fn is_worker_of(shared: &Arc<Shared>) -> bool {
    WORKER.with(|worker| worker.borrow().as_ref().is_some_and(|worker| Arc::ptr_eq(worker, shared)))
}

/// Called by a running consumer: runs the more urgent consumers that have become ready, nested on
/// its stack. Returns the number of pushes.
///
/// Only under [`Strategy::Upcalls`](super::Strategy::Upcalls). Elsewhere it does nothing, since the
/// operating system pre-empts or pre-emption is not allowed. Each nested consumer is more urgent
/// than the one below, so there is at most one for each priority level.
///
/// # Real-time
/// Does not allocate once the thread has nested as deep before. If no consumer is more urgent:
/// O(1), one lock.
pub fn yield_now() -> usize {
    let top = STACK.with(|stack| {
        stack.borrow().last().map(|top| (top.shared.clone(), top.level, top.connection.clone()))
    });
    let Some((shared, level, connection)) = top else {
        return 0;
    };
    let mut pushes = 0;
    while let Some(consumer) = shared.take_above(level) {
        let by = consumer.consumer();
        let since = connection.begin_yield(&consumer.0);
        shared.run(consumer);
        connection.end_yield(since, by);
        pushes += 1;
    }
    pushes
}
