//! The failures of calls that could not send their request.

use super::attempt::Call;
use super::reply::{Failure, lost};
use crate::SystemException;
use crate::connection::{Connection, SendError};
use crate::object::Target;
use isorb_cdr::Version;
use isorb_giop::{Completion, Kind, minor};

/// Why a request was not sent.
pub(super) enum Unsent {
    /// It could not be encoded.
    Made(SystemException),
    Send(SendError),
}

impl Call<'_, '_> {
    /// The failure of an attempt that did not send its request.
    #[cold]
    pub(super) fn not_sent(&self, why: Unsent, connection: &Connection) -> Failure {
        let peer = connection.peer();
        match why {
            Unsent::Made(exception) => exception.into(),
            Unsent::Send(SendError::NotSent) => {
                Failure::Final(self.timed_out(peer).completed(Completion::No))
            }
            Unsent::Send(SendError::TooLong) => Failure::Final(too_long(connection)),
            Unsent::Send(SendError::TimedOut) => Failure::Final(self.timed_out(peer)),
            Unsent::Send(_) => Failure::NotProcessed(lost(peer, Completion::No)),
        }
    }
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
pub(super) fn no_slot() -> Failure {
    SystemException::from(Kind::ImpLimit).minor(minor::IMP_LIMIT_PENDING).into()
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
