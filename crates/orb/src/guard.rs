//! Access control in front of servants.

use crate::{Interface, Result, Upcall};
use std::any::Any;

/// Decides which requests reach the servants of an ORB; set by
/// [`OrbBuilder::guard`](crate::OrbBuilder::guard). `isorb-access` has one that follows a policy
/// file.
pub trait Guard: Any + Send + Sync {
    /// Called before each operation of a servant, on its thread. `operation` is the index in
    /// [`Operations::names`](crate::Operations::names). Operations that every object has, such as
    /// `_is_a`, are not guarded.
    ///
    /// # Errors
    /// The exception for the client, by rule NO_PERMISSION. The servant is not called.
    ///
    /// # Real-time
    /// Part of each request: an implementation neither blocks nor allocates in the steady state.
    fn admit(&self, interface: &'static Interface, operation: u16, upcall: Upcall<'_>) -> Result<()>;
}
