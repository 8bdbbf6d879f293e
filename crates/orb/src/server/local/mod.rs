//! Calls from this process to objects of a thread pool: the request goes to the lane's threads, and
//! the caller waits for the reply.
//!
//! A caller that is itself a thread of a lane serves nested calls while it waits: calls to its own
//! lane that its call has caused. The only thread of a lane would otherwise wait for itself, by way
//! of another lane.
//!
//! ```text
//!   caller: request into a block of the lane ─► queue, by priority ─► wakes a thread     waits
//!   thread of the lane: permit ─► upcall ─► reply into the call's block ────────────────► wakes the caller
//! ```

mod progress;

use super::buffered::BufferedRequest;
use crate::sched::thread;
use crate::{Result, SystemException};
use isorb_cdr::Message;
use isorb_giop::{Completion, Kind, minor};
use isorb_rt::sync::{Parker, PiMutex};
use isorb_rt::time::Deadline;
use isorb_scope::{Buffer, BufferPool};
use progress::{Progress, State};
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// A call that waits for a lane of this process.
pub(crate) struct LocalCall {
    progress: Progress,
    exchange: PiMutex<Exchange>,
    done: Parker,
}

struct Exchange {
    /// The lane that the waiting thread runs requests of; 0 for none.
    lane: u64,
    /// The call that the waiting thread serves, if that came from this process, too.
    cause: Option<Arc<LocalCall>>,
    /// A nested call for the waiting thread.
    nested: Option<BufferedRequest>,
    deadline: Deadline,
    reply: Buffer,
    len: usize,
    /// The lane had no block for the reply.
    unfit: bool,
}

/// Octets of the block for a reply that a thread keeps.
const REPLY: usize = 4096;

thread_local! {
    /// Kept from call to call.
    static SPARE: Cell<Option<Arc<LocalCall>>> = const { Cell::new(None) };
    /// The call that this thread serves.
    static SERVING: RefCell<Option<Arc<LocalCall>>> = const { RefCell::new(None) };
    /// Its number, unless this thread makes a call to itself inside of it.
    static NUMBER: Cell<Option<u32>> = const { Cell::new(None) };
    /// The call of this thread to itself that is answered later.
    static DEFERRED: Cell<Option<Arc<LocalCall>>> = const { Cell::new(None) };
}

/// A ticket for the reply to the call from this process that this thread serves, which comes after
/// the upcall.
///
/// # Real-time
/// As [`LocalCall::begin`] for a call of this thread to itself.
#[cold]
pub(crate) fn defer_local_call(deadline: Deadline) -> LocalTicket {
    if let (Some(number), Some(call)) = (NUMBER.get(), SERVING.with_borrow(Option::clone)) {
        call.progress.add_ticket(number);
        return LocalTicket { call, number };
    }
    let (call, ticket) = LocalCall::begin(deadline);
    call.progress.change(ticket.number, State::Queued, State::Running);
    DEFERRED.set(Some(call));
    ticket
}

/// Marks a call that this thread serves itself, until it is dropped.
pub(crate) struct OwnCallGuard {
    before: (Option<u32>, Option<Arc<LocalCall>>),
}

impl OwnCallGuard {
    pub fn begin() -> OwnCallGuard {
        OwnCallGuard { before: (NUMBER.take(), DEFERRED.take()) }
    }

    /// The call to wait for, if the servant replies later.
    pub fn deferred(&self) -> Option<Arc<LocalCall>> {
        DEFERRED.take()
    }
}

impl Drop for OwnCallGuard {
    fn drop(&mut self) {
        NUMBER.set(self.before.0);
        DEFERRED.set(self.before.1.take());
    }
}

/// The waiting call of a thread of `lane` that has caused the request that this thread serves.
pub(super) fn waiting_in(lane: u64) -> Option<Arc<LocalCall>> {
    let mut call = SERVING.with_borrow(Option::clone)?;
    loop {
        let cause = {
            let exchange = call.exchange.lock();
            if exchange.lane == lane {
                break;
            }
            exchange.cause.clone()?
        };
        call = cause;
    }
    Some(call)
}

/// Why a call through a lane has no reply.
#[derive(Debug)]
pub(crate) enum Unanswered {
    /// The deadline passed; whether the upcall had begun.
    TimedOut {
        begun: bool,
    },
    Failed(SystemException),
}

impl LocalCall {
    /// A call of this thread, and its first ticket.
    ///
    /// # Real-time
    /// Allocates at the first call of each depth of nesting, and at the one after a time-out.
    pub fn begin(deadline: Deadline) -> (Arc<LocalCall>, LocalTicket) {
        let fresh = || {
            let reply = Buffer::unpooled(REPLY);
            let exchange =
                Exchange { lane: 0, cause: None, nested: None, deadline, reply, len: 0, unfit: false };
            LocalCall { progress: Progress::new(), exchange: PiMutex::new(exchange), done: Parker::new() }
        };
        let call = SPARE.take().unwrap_or_else(|| Arc::new(fresh()));
        let mut exchange = call.exchange.lock();
        (exchange.deadline, exchange.len, exchange.unfit) = (deadline, 0, false);
        (exchange.lane, exchange.cause) = (thread::lane(), SERVING.with_borrow(Option::clone));
        drop(exchange);
        call.done.reset();
        let ticket = LocalTicket { number: call.progress.begin(), call: call.clone() };
        (call, ticket)
    }

    /// Gives the waiting thread a nested call. It is returned if that thread does not wait any
    /// more, or has another one.
    pub(super) fn nest(&self, request: BufferedRequest) -> Option<BufferedRequest> {
        let mut exchange = self.exchange.lock();
        if exchange.nested.is_some() || !self.progress.state().is_pending() {
            return Some(request);
        }
        exchange.nested = Some(request);
        drop(exchange);
        self.done.unpark();
        None
    }

    /// Waits for the reply, and reads it by `read`. Serves nested calls by `serve` meanwhile.
    ///
    /// # Errors
    /// [`Unanswered`].
    ///
    /// # Real-time
    /// Waits until the call's deadline. Neither allocates nor blocks otherwise.
    pub fn wait<T>(
        self: Arc<Self>,
        mut serve: impl FnMut(BufferedRequest),
        read: impl FnOnce(&[u8]) -> T,
    ) -> Result<T, Unanswered> {
        let deadline = self.exchange.lock().deadline;
        while self.progress.state().is_pending() {
            let woken = self.done.park_until(deadline);
            let mut exchange = self.exchange.lock();
            let nested = exchange.nested.take();
            if !woken {
                // Under the lock, so that no nested call comes any more.
                let gone = self.progress.abandon();
                drop(exchange);
                drop(nested);
                if let Some(begun) = gone {
                    // A thread of the lane may still use it; the next call makes another.
                    return Err(Unanswered::TimedOut { begun });
                }
            } else if let Some(request) = nested {
                drop(exchange);
                serve(request);
            }
        }
        if self.progress.state() == State::Dropped {
            let ended = SystemException::new(Kind::Transient, minor::TRANSIENT_DISCARDED, Completion::Maybe);
            return Err(Unanswered::Failed(ended));
        }
        let mut exchange = self.exchange.lock();
        let (nested, cause) = (exchange.nested.take(), exchange.cause.take());
        let result = match exchange.unfit {
            true => Err(Unanswered::Failed(no_block().completed(Completion::Yes))),
            false => Ok(read(&exchange.reply.bytes()[..exchange.len])),
        };
        if exchange.reply.capacity() > REPLY {
            // A block of the lane.
            exchange.reply = Buffer::unpooled(REPLY);
        }
        drop(exchange);
        drop((nested, cause));
        SPARE.set(Some(self));
        result
    }
}

/// The lane's side of a [`LocalCall`]. When the last ticket is dropped without a reply, the caller
/// learns that there is none.
pub(crate) struct LocalTicket {
    call: Arc<LocalCall>,
    /// Of the call: its caller may be at a later one when the ticket is dropped.
    number: u32,
}

impl LocalTicket {
    /// Runs the upcall by `f`, which gets the call's deadline, unless the caller has gone.
    pub fn run(&self, f: impl FnOnce(Deadline)) {
        struct Before(Option<Arc<LocalCall>>, Option<u32>);
        impl Drop for Before {
            fn drop(&mut self) {
                SERVING.set(self.0.take());
                NUMBER.set(self.1);
            }
        }
        if self.call.progress.change(self.number, State::Queued, State::Running) {
            let deadline = self.call.exchange.lock().deadline;
            let _before = Before(SERVING.replace(Some(self.call.clone())), NUMBER.replace(Some(self.number)));
            f(deadline);
        }
    }

    /// Whether the caller still waits.
    pub fn is_pending(&self) -> bool {
        self.call.progress.is_pending(self.number)
    }

    /// Copies the reply for the caller and wakes it.
    ///
    /// # Real-time
    /// Allocates nothing: a long reply takes a block of the lane.
    pub fn reply(&self, message: &Message<'_>, pool: &Arc<BufferPool>) {
        let call = &*self.call;
        {
            let mut exchange = call.exchange.lock();
            if !call.progress.is_pending(self.number) {
                return;
            }
            let len = message.len();
            if exchange.reply.capacity() < len {
                match pool.take(len) {
                    Some(block) => exchange.reply = block,
                    None => exchange.unfit = true,
                }
            }
            if !exchange.unfit {
                let mut at = 0;
                for piece in message.pieces() {
                    exchange.reply.bytes_mut()[at..at + piece.len()].copy_from_slice(piece);
                    at += piece.len();
                }
                exchange.len = at;
            }
        }
        if call.progress.reply(self.number) {
            call.done.unpark();
        }
    }
}

impl Clone for LocalTicket {
    fn clone(&self) -> LocalTicket {
        self.call.progress.add_ticket(self.number);
        LocalTicket { call: self.call.clone(), number: self.number }
    }
}

impl Drop for LocalTicket {
    fn drop(&mut self) {
        if self.call.progress.drop_ticket(self.number) {
            self.call.done.unpark();
        }
    }
}

/// All message blocks of a lane are in use.
pub(super) fn no_block() -> SystemException {
    SystemException::new(Kind::NoResources, minor::NO_RESOURCES_LANE, Completion::No)
}
