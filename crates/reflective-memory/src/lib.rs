//! Reflective memory: a writer's memory appears in its readers' memories, on this node and on
//! others.
//!
//! It follows CReMeS (Chung, González, Ramamritham, Shen, RTSS 2000). Inside a node, processes
//! share the memory itself ([`memory`]). Between nodes, agents push it by UDP ([`wire`]) or through
//! the ORB. It is for state, of which the latest value counts. It is not a queue.
//!
//! ```text
//!  application: Library, Rio ── local socket, Lib_Comm ──► NodeServer ── CRM_Comm ──► other nodes
//!        │ maps                                              │ dispatching threads  ╲
//!        ▼                                                   ▼            Glob_Comm: coordinator
//!  memory: areas ◄──────────────────────────────── agents: dual priority ── admission
//!                                                            └ wire: datagrams, parity, pacing
//! ```
//!
//! [`memory`], [`wire`], [`agents`] and [`admission`] use no socket, thread or clock and can be
//! used alone. The service uses only public items of the ORB. `docs/reference/reflective-memory.md`
//! is the reference.
#![forbid(unsafe_code)]

pub mod admission;
#[allow(missing_docs)]
mod generated {
    isorb::include_idl!("reflective_memory");
}
pub use generated::reflective_memory as idl;
pub use isorb_memory_area as memory;
pub mod agents;
pub mod coordinator;
mod data_type;
mod error;
mod fail_points;
#[cfg(test)]
mod frozen_tests;
#[cfg(test)]
mod hostile_tests;
#[cfg(test)]
mod kill_tests;
mod library;
pub mod node;
mod pattern;
mod qos;
#[cfg(test)]
mod registration_tests;
mod session_message;
mod session_socket;
pub use data_type::largest_value;
pub use error::Error;
pub use library::{
    AreaReader, AreaSet, AreaWriter, EventSink, Holder, Library, Notice, NoticeCounts, Notifier,
    RemoteChannel, Rio, Shown, StrongestReader, ValueError, ValueStore, wait_for,
};
pub mod wire;

/// Reads the messages of a session's socket until one is invalid or the peer is gone, and returns
/// their number, kind by kind, and whether the peer was gone. For the fuzz target.
#[doc(hidden)]
pub fn receive_session_messages(socket: impl rustix::fd::AsFd) -> ([usize; 6], bool) {
    let mut counts = [0; 6];
    loop {
        match session_socket::receive(&socket) {
            Ok(Some(message)) => {
                counts[message.kind as usize] += 1;
                assert!(is_sent_again(&message), "{message:?}");
            }
            Ok(None) => return (counts, true),
            Err(_) => return (counts, false),
        }
    }
}

/// Whether a message arrives as it was when it is sent on; where there is no room for it, too.
fn is_sent_again(message: &session_socket::Message) -> bool {
    use rustix::fd::{AsFd, OwnedFd};
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    thread_local! {
        /// Sockets without a message between two calls.
        static PAIR: Option<(OwnedFd, OwnedFd)> =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).ok();
    }
    let descriptors: Vec<_> =
        [&message.descriptor, &message.doorbell].into_iter().flatten().map(AsFd::as_fd).collect();
    PAIR.with(|pair| {
        let Some((from, to)) = pair else { return true };
        if session_socket::send(from, message.kind, message.number, &message.text, &descriptors).is_err() {
            return true;
        }
        session_socket::receive(to).is_ok_and(|again| {
            again.is_some_and(|again| {
                (again.kind, again.number, &again.text) == (message.kind, message.number, &message.text)
                    && again.descriptor.is_some() == message.descriptor.is_some()
            })
        })
    })
}

/// What [`area_type!`] needs.
#[doc(hidden)]
pub mod area_type_parts {
    pub use isorb_any::{AnyValue, TypeCode};
    pub use isorb_cdr::{Decode, Decoder, Encode, Encoder, Item, Result as CdrResult, by_value};
}
