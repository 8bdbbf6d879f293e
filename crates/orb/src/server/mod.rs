//! The serving side below the POA: endpoints, and the threads that read requests.
//!
//! The thread that reads a request runs it and sends its reply. Which thread reads depends on the
//! endpoint's concurrency: one for each connection ([`session`]), a fixed number for all
//! connections ([`lane`]), or the threads of a thread pool's lane ([`lane_server`]). What a request
//! means is known above ([`RequestHandler`](crate::orb_core::RequestHandler)).

mod buffered;
mod connection_threads;
mod contexts;
mod endpoint;
mod idle_reaper;
mod lane;
mod lane_server;
mod local;
mod reference;
mod reply;
mod ring_watch;
mod session;
mod thread_lane;

pub(crate) use contexts::apply_contexts;
#[cfg(feature = "miop")]
pub(crate) use endpoint::spawn_supervised;
pub(crate) use endpoint::{Endpoints, free_local_endpoints, listens_by, open_listener, open_local_listener};
pub(crate) use lane::{Lane, next_lane_number};
pub(crate) use lane_server::{Acceptor, LaneEndpoints, LaneServer};
pub(crate) use local::{LocalCall, LocalTicket, OwnCallGuard, Unanswered, defer_local_call};
pub(crate) use reference::make_reference;
pub(crate) use reply::{
    deliver, refuse_over_limit, replace_too_long, write_detailed_exception, write_exception,
};
pub(crate) use thread_lane::{BufferLimits, LaneConfig, ThreadLane};

use crate::connection::{Connection, PeerLimit, ReadError};
use crate::log::warn;
use isorb_giop::{Answer, ProtocolError, message};
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The target of this module's log records.
const LOG: &str = "isorb::server";

/// Whether a connection goes on after a message.
pub(crate) type Next = ControlFlow<()>;

/// Ends the connection instead of the thread that serves it when user code panics outside of an
/// upcall: the destructor of a value that a servant left in its scope, a transport of the program.
/// The panic is a log record (`isorb_rt::sched::ThreadSpec`).
#[inline]
fn guarded(serve: impl FnOnce() -> Next) -> Next {
    catch_unwind(AssertUnwindSafe(serve)).unwrap_or(Next::Break(()))
}

/// Reports a protocol error to the peer where the standard says so.
pub(crate) fn refuse(connection: &Connection, error: ProtocolError) {
    if error.answer() == Answer::MessageError {
        connection.send_control(&message::message_error(isorb_cdr::Version::V1_2));
    }
    warn(LOG, format_args!("{}: {error}; the connection is closed", connection.peer()));
}

/// Ends a connection after a failed read.
fn finish(connection: &Connection, error: ReadError) {
    match error {
        ReadError::Protocol(error) => refuse(connection, error),
        ReadError::Stalled => connection.abandon(),
        ReadError::NoMemory | ReadError::Refused { .. } => {
            let peer = connection.peer();
            let why = "no block for a message; the connection is closed";
            match connection.account().lane().filter(|lane| lane.own) {
                Some(lane) if lane.refuses() => {
                    warn(LOG, format_args!("{peer}: {why} ({}, messages)", lane.name));
                }
                Some(_) => {}
                None => warn(LOG, format_args!("{peer}: {why} (memory_limit)")),
            }
            connection.close();
        }
        ReadError::OverLimit => {
            connection.count_refusal(PeerLimit::Octets);
            let peer = connection.peer();
            let why = "a message beyond max_peer_octets cannot be answered; the connection is closed";
            warn(LOG, format_args!("{peer}: {why}"));
            connection.close();
        }
        _ => {}
    }
    connection.break_off();
}
