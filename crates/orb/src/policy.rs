//! Messaging policies that matter to callers (CORBA 3.3 part 1, clause 22.2), at three scopes.
//!
//! An effective value is that of the object reference, else of the thread, else of the ORB. Time is measured on the monotonic
//! clock: a change of the wall clock neither shortens nor lengthens a time-out.

use std::cell::Cell;
use std::time::Duration;

/// How far a oneway call goes before it returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum SyncScope {
    /// Returns when the message is on its way; here the same as `WithTransport`, since no thread sends behind the caller's back.
    None,
    /// Returns when the transport has taken the message. The default.
    #[default]
    WithTransport,
    /// Returns when the server has found the object, before the servant is called.
    WithServer,
    /// Returns when the servant has returned; its system exceptions arrive.
    WithTarget,
}

/// Whether a call may go to another place than the last one did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Rebind {
    /// Connections are reopened and forwards followed without a word. The default.
    #[default]
    Transparent,
    /// Lost connections are reopened, forwards are refused with REBIND.
    NoRebind,
    /// Neither: REBIND.
    NoReconnect,
}

/// A set of policies; `None` leaves a policy to the next wider scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Policies {
    /// Sync scope of oneways.
    pub sync_scope: Option<SyncScope>,
    /// RELATIVE_REQ_TIMEOUT: how long a request may take to be delivered. The shorter of this and the next one holds.
    pub request_timeout: Option<Duration>,
    /// RELATIVE_RT_TIMEOUT: how long a call may take from start to reply. Zero means no time-out at all.
    pub round_trip_timeout: Option<Duration>,
    /// Rebind.
    pub rebind: Option<Rebind>,
}

impl Policies {
    /// Fills what is not said here from a wider scope.
    #[must_use]
    pub const fn or(self, wider: Policies) -> Policies {
        Policies {
            sync_scope: if self.sync_scope.is_some() { self.sync_scope } else { wider.sync_scope },
            request_timeout: if self.request_timeout.is_some() {
                self.request_timeout
            } else {
                wider.request_timeout
            },
            round_trip_timeout: if self.round_trip_timeout.is_some() {
                self.round_trip_timeout
            } else {
                wider.round_trip_timeout
            },
            rebind: if self.rebind.is_some() { self.rebind } else { wider.rebind },
        }
    }

    /// The time-out of a whole call.
    pub fn timeout(&self) -> Option<Duration> {
        let bounded = |timeout: Option<Duration>| timeout.filter(|timeout| !timeout.is_zero());
        match (bounded(self.request_timeout), bounded(self.round_trip_timeout)) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }
}

thread_local! {
    static THREAD: Cell<Policies> = const { Cell::new(Policies {
        sync_scope: None, request_timeout: None, round_trip_timeout: None, rebind: None,
    }) };
}

/// The policies of the calling thread (CORBA::PolicyCurrent).
pub fn thread_policies() -> Policies {
    THREAD.get()
}

/// Sets the policies of the calling thread; gives the ones before.
pub fn set_thread_policies(policies: Policies) -> Policies {
    THREAD.replace(policies)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_narrower_scope_wins() {
        let second = Some(Duration::from_secs(1));
        let orb =
            Policies { round_trip_timeout: second, rebind: Some(Rebind::NoRebind), ..Default::default() };
        let object = Policies { round_trip_timeout: Some(Duration::ZERO), ..Default::default() };
        let both = object.or(Policies::default()).or(orb);
        assert_eq!((both.timeout(), both.rebind), (None, Some(Rebind::NoRebind)));
        let object = Policies { request_timeout: Some(Duration::from_millis(5)), ..Default::default() };
        assert_eq!(object.or(orb).timeout(), Some(Duration::from_millis(5)));
    }
}
