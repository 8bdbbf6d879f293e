//! Access to isorb's services: which caller may read, bind names, supply events, write areas and
//! administer.
//!
//! It does not authenticate: the transports do
//! ([`PeerIdentity`](isorb_transport::PeerIdentity)). It encrypts nothing, and it does not look
//! into payloads.
//!
//! ```text
//!   policy file ─► parse ─► Policy (roles)
//!                             │
//!   request ─► Guard::admit ──┼─► the operation's permission (operations)    every request
//!   servant ─► authorize ─────┴─► the name, event type or area (scope)       changes
//!                             ├─► audit                                      changes
//!                             └─► share (what one client may hold)           what stays
//! ```
//!
//! All modules but `guard` know no ORB. Without a policy file every caller may do everything but
//! administer; that is for callers of the service's own user on the same host, and for root.
#![forbid(unsafe_code)]

mod audit;
mod control;
mod guard;
mod operations;
mod parse;
mod policy;
mod scope;
mod share;

pub use audit::Audit;
pub use control::AccessControl;
pub use guard::{
    authorize, authorize_owner, authorize_types, authorize_unrecorded, is_share_of, may_administer,
    take_share,
};
pub use operations::operations_of;
pub use policy::{Caller, Policy, PolicyError, Role};
pub use scope::{Permission, Subject};
pub use share::{PeerLimit, Share};
