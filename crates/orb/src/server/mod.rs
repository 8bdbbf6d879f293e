//! The serving side: endpoints, the threads that read, what happens to a message.
//!
//! The thread that reads a request runs it and sends its reply. Which thread reads is the endpoint's concurrency: one a
//! connection ([`session`]), a fixed number for all ([`lane`]), or those of a thread pool's lane ([`station`]).

mod bands;
mod dispatch;
mod endpoint;
#[cfg(feature = "miop")]
mod group;
mod lane;
mod long;
mod parcel;
mod posted;
#[cfg(feature = "miop")]
mod reader;
mod seen;
mod session;
mod station;
mod thread_lane;
mod warden;

pub(crate) use dispatch::{deliver, request, write_exception, write_refusal};
pub(crate) use endpoint::{Endpoints, beside_the_local, listens_by, open_listener, open_local_listener};
#[cfg(feature = "miop")]
pub(crate) use group::{Joined, Membership};
pub(crate) use lane::Lane;
pub(crate) use seen::Seen;
pub(crate) use station::{Blueprint, Door, Station};
pub(crate) use thread_lane::{BufferLimits, LaneConfig, ThreadLane};

use crate::Orb;
use crate::connection::{Arrived, Connection, ReadError};
use crate::poa::waiting_until;
use crate::workspace::{Work, with_work};
use isorb_cdr::Message;
use isorb_giop::{Answer, MessageKind, ProtocolError, message};
use isorb_rt::time::Deadline;
use isorb_scope::Buffer;
use std::hint::cold_path;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Sends a finished message over the connection that it belongs to. When it cannot, the connection breaks.
type Send<'a> = dyn FnMut(&Message<'_>) + 'a;

/// Whether the connection goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Continue,
    Close,
}

/// Handles a message that a reading thread got; it lies in `work.block`.
#[inline(always)]
fn on_message(
    orb: &Orb,
    connection: &Arc<Connection>,
    arrived: Arrived,
    work: &mut Work,
    send: &mut Send<'_>,
) -> Next {
    let handled = match arrived.header.kind {
        MessageKind::Request => request(orb, Some(connection), arrived, work, send),
        _ => match other_message(orb, connection, arrived, work, send) {
            Some(handled) => handled,
            None => return Next::Close,
        },
    };
    match handled {
        Ok(()) if connection.takes_replies() => Next::Continue,
        Ok(()) => Next::Close,
        Err(error) => {
            cold_path();
            refuse(connection, error);
            Next::Close
        }
    }
}

/// Handles a message that is no request; `None` when it is the last.
#[cold]
fn other_message(
    orb: &Orb,
    connection: &Arc<Connection>,
    arrived: Arrived,
    work: &mut Work,
    send: &mut Send<'_>,
) -> Option<Result<(), ProtocolError>> {
    Some(match arrived.header.kind {
        MessageKind::Request => Ok(()),
        MessageKind::LocateRequest => {
            connection.hear();
            dispatch::locate(orb, arrived, work, send)
        }
        // Who reads has delivered it.
        MessageKind::Reply | MessageKind::LocateReply => Ok(()),
        // The request runs already, or was answered: nothing to stop (clause 9.4.4 allows a reply all the same).
        MessageKind::CancelRequest => Ok(()),
        MessageKind::CloseConnection => {
            connection.close_in_order();
            return None;
        }
        MessageKind::MessageError => return None,
        MessageKind::Fragment => Err(ProtocolError::FragmentOrder),
    })
}

/// Ends the connection, and not the thread that serves it, when user code panics where it is not called as such: the destructor of
/// a value that a servant left in its scope.
#[inline]
fn guarded(serve: impl FnOnce() -> Next) -> Next {
    catch_unwind(AssertUnwindSafe(serve)).unwrap_or(Next::Close)
}

/// Handles what a caller read that was no reply: the end of the connection, or a call back.
pub(crate) fn off_path(orb: &Orb, connection: &Arc<Connection>, arrived: Arrived, block: &mut Buffer) {
    let next: crate::Result<Next> = match arrived.header.kind {
        MessageKind::Request | MessageKind::LocateRequest
            if !connection.bidirectional.load(std::sync::atomic::Ordering::Acquire) =>
        {
            refuse(connection, ProtocolError::Unexpected(arrived.header.kind));
            Ok(Next::Close)
        }
        _ => with_work(connection.pool(), |work| {
            std::mem::swap(&mut work.block, block);
            let mut send = |message: &Message<'_>| _ = connection.send(message);
            // A peer's request, which this thread serves while it waits for something else.
            let next =
                waiting_until(Deadline::NONE, || on_message(orb, connection, arrived, work, &mut send));
            std::mem::swap(&mut work.block, block);
            Ok(next)
        }),
    };
    if next != Ok(Next::Continue) {
        connection.break_off();
    }
}

/// Tells a peer that broke the protocol, where the standard says so.
pub(crate) fn refuse(connection: &Connection, error: ProtocolError) {
    if error.answer() == Answer::MessageError {
        connection.send_control(&message::message_error(isorb_cdr::Version::V1_2));
    }
    crate::log::note(format_args!("{}: {error}; the connection is closed", connection.peer()));
}

/// The end of a reading thread's work on a connection.
fn finish(connection: &Connection, error: ReadError) {
    match error {
        ReadError::Protocol(error) => refuse(connection, error),
        ReadError::Stalled => connection.give_up(),
        ReadError::NoMemory => {
            crate::log::note(format_args!(
                "{}: no memory for a message; the connection is closed",
                connection.peer()
            ));
        }
        _ => {}
    }
    connection.break_off();
}
