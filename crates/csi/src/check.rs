//! The program's decision about users and passwords.

use std::sync::Arc;

/// Decides whether a password is right. [`Users`](crate::Users) does it by a file.
pub trait CredentialCheck: Send + Sync {
    /// Whether `password` is that of `user`.
    ///
    /// # Real-time
    /// Called on the thread of the request, for the first request with a user and password.
    fn is_valid(&self, user: &str, password: &[u8]) -> bool;

    /// A number that changes when an earlier answer may no longer be right. Passwords are then
    /// checked again.
    fn generation(&self) -> u64 {
        0
    }
}

impl<F: Fn(&str, &[u8]) -> bool + Send + Sync> CredentialCheck for F {
    fn is_valid(&self, user: &str, password: &[u8]) -> bool {
        self(user, password)
    }
}

impl<C: CredentialCheck + ?Sized> CredentialCheck for Arc<C> {
    fn is_valid(&self, user: &str, password: &[u8]) -> bool {
        (**self).is_valid(user, password)
    }

    fn generation(&self) -> u64 {
        (**self).generation()
    }
}
