//! The failures of calls that could not send their request.

use super::attempt::Call;
use super::reply::{Failure, lost};
use crate::SystemException;
use crate::connection::{Connection, NoSlot, SendError};
use crate::object::Target;
use isorb_cdr::Version;
use isorb_giop::{Completion, Kind, minor};
use std::sync::Arc;

/// Why a request was not sent.
pub(super) enum Unsent {
    /// It could not be encoded.
    Made(SystemException),
    Send(SendError),
}

impl Call<'_, '_> {
    /// Sends a request that must not wait for its peer. The connection's monitor sends what the
    /// peer has no room for.
    #[inline(never)]
    pub(super) fn offer(
        &self,
        connection: &Arc<Connection>,
        message: &isorb_cdr::Message<'_>,
    ) -> Result<(), SendError> {
        let offered = connection.offer(message);
        if let Ok(false) | Err(SendError::NotSent) = offered {
            if !self.orb.connector().monitors.add(connection) {
                // Without a monitor the rest would never be sent.
                connection.break_off();
                return Err(SendError::Lost);
            }
            connection.request_room();
        }
        offered.map(drop)
    }

    /// The failure of an attempt that did not send its request.
    #[cold]
    pub(super) fn not_sent(&self, why: Unsent, connection: &Connection) -> Failure {
        let peer = connection.peer();
        match why {
            Unsent::Made(exception) => exception.into(),
            Unsent::Send(SendError::NotSent) if !self.waits => Failure::Final(busy(peer)),
            Unsent::Send(SendError::NotSent) => {
                Failure::Final(self.timed_out(peer).completed(Completion::No))
            }
            Unsent::Send(SendError::TooLong) => Failure::Final(too_long(connection)),
            Unsent::Send(SendError::TimedOut) => Failure::Final(self.timed_out(peer)),
            Unsent::Send(_) => Failure::NotProcessed(lost(peer, Completion::No)),
        }
    }

    /// The failure of an attempt that got no slot for its reply.
    #[cold]
    pub(super) fn no_slot(&self, why: NoSlot, peer: &str) -> Failure {
        Failure::Final(match why {
            NoSlot::TimedOut => self.timed_out(peer).completed(Completion::No),
            NoSlot::Full => no_slot(peer),
        })
    }
}

/// The exception of a call that may not even wait for a slot.
#[cold]
pub(super) fn no_slot(peer: &str) -> SystemException {
    let why = format!("as many calls to {peer} wait for others to be answered as may (queued_calls)");
    SystemException::from(Kind::ImpLimit).minor(minor::IMP_LIMIT_PENDING).detail(why)
}

/// Wide text without a code set in the reference is INV_OBJREF (clause 7.10.2.6); GIOP 1.0 has no
/// wide text.
#[cold]
pub(super) fn wide_text(error: isorb_cdr::Error, target: &Target) -> SystemException {
    if error.kind == isorb_cdr::ErrorKind::NoWideCodeSet && target.version > Version::V1_0 {
        return SystemException::from(Kind::InvObjref)
            .minor(minor::INV_OBJREF_WCHAR)
            .detail("the server's reference names no code set for wide text");
    }
    error.into()
}

#[cold]
fn busy(peer: &str) -> SystemException {
    SystemException::new(Kind::Transient, minor::TRANSIENT_BUSY, Completion::No)
        .detail(format!("{peer} has not yet read an earlier request"))
}

/// A call that must not wait does not announce the priority band of a connection, which is a call.
#[cold]
pub(super) fn not_announced() -> SystemException {
    SystemException::from(Kind::Rebind).detail("the priority band of the connection is not agreed yet")
}

#[cold]
pub(super) fn too_long(connection: &Connection) -> SystemException {
    let longest = connection.stream().capabilities().max_datagram.unwrap_or_default();
    SystemException::new(Kind::ImpLimit, 0, Completion::No).detail(format!(
        "the request is longer than a message to {} may be ({longest} octets); use another protocol for it",
        connection.peer()
    ))
}

/// Without a time-out, the call would wait for ever for a lost reply or an unnoticed death of the
/// peer.
#[cold]
pub(super) fn endless(peer: &str) -> SystemException {
    SystemException::new(Kind::InvPolicy, 0, Completion::No).detail(format!(
        "messages to {peer} may get lost, or its death go unnoticed: a request that is answered needs a time-out \
         (round_trip_timeout_ms, or a policy)"
    ))
}
