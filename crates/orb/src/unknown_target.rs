//! Oneway requests to objects that do not exist, of which their clients learn nothing.

use crate::Caller;

/// Is notified of oneway requests to objects that do not exist; see
/// [`Orb::observe_unknown_targets`](crate::Orb::observe_unknown_targets).
pub trait UnknownTargetObserver: Send + Sync {
    /// A oneway request for `operation` named an object that does not exist. Returns true if its
    /// connection is to be broken off, without CloseConnection, so that the client notices. Only a
    /// connection over which no request has found its object is broken off.
    ///
    /// # Real-time
    /// Runs on the thread that read the request. Must not wait.
    fn unknown_target(&self, operation: &str, caller: Caller<'_>) -> bool;
}
