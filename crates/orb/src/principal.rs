//! The name of an authenticated client.

#[cfg(feature = "interceptors")]
use crate::connection::Connection;
use std::fmt;

/// The client of a request by the name under which it authenticated itself, with a user name and
/// password for example. An interceptor checked that
/// ([`ServerRequestInfo::set_principal`](crate::interceptor::ServerRequestInfo::set_principal)).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Principal {
    /// The name.
    pub name: String,
    /// The authenticated peer that vouches for the name; `None` if the client itself proved it.
    pub asserted_by: Option<String>,
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.asserted_by {
            None => write!(f, "principal {:?}", self.name),
            Some(by) => write!(f, "principal {:?} by the word of {by}", self.name),
        }
    }
}

/// A principal, and the connection of its request.
#[cfg(feature = "interceptors")]
#[derive(Clone, Copy)]
pub(crate) struct Authenticated<'u> {
    pub connection: &'u Connection,
    pub principal: &'u Principal,
}
