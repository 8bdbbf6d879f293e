//! Errors of stores.

pub use isorb_store::{Fault, OpenError};

use std::fmt;

/// Why an operation was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// The context does not exist.
    NoContext,
    /// The name is not bound.
    Unbound,
    /// The name is bound.
    AlreadyBound,
    /// The name is bound as the other kind.
    OtherKind,
    /// The context has bindings.
    NotEmpty,
    /// The store is full.
    Full,
    /// The store is broken.
    Failed(Fault),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::NoContext => f.write_str("the naming context does not exist"),
            Refusal::Unbound => f.write_str("the name is not bound"),
            Refusal::AlreadyBound => f.write_str("the name is bound already"),
            Refusal::OtherKind => f.write_str("the name is bound as the other kind"),
            Refusal::NotEmpty => f.write_str("the naming context has bindings"),
            Refusal::Full => f.write_str("the store holds as many contexts or bindings as it may"),
            Refusal::Failed(fault) => write!(f, "{fault}"),
        }
    }
}

impl std::error::Error for Refusal {}
