//! Forwards of requests for objects of other servers, which an implementation repository knows.

use crate::{Object, Orb, Result};

/// Says where the objects are that an ORB does not have; see
/// [`Orb::set_request_forwarder`](crate::Orb::set_request_forwarder).
pub trait RequestForwarder: Send + Sync {
    /// A request or LocateRequest names an object that `orb` does not have. Returns its reference
    /// at the server that has it, or `None` if this forwarder does not know the key either.
    ///
    /// # Errors
    /// The client gets the exception instead of OBJECT_NOT_EXIST.
    ///
    /// # Real-time
    /// Runs on the thread that read the request, and may wait: give the ORB a thread for each
    /// connection ([`Concurrency::Connection`](crate::Concurrency::Connection)).
    fn forward(&self, orb: &Orb, key: &[u8]) -> Option<Result<Object>>;
}
