//! Messaging policies for callers (CORBA 3.3 part 1, clause 22.2), at three scopes.
//!
//! An effective value is that of the object reference, else of the thread, else of the ORB. Time is
//! measured on the monotonic clock: a change of the wall clock neither shortens nor lengthens a
//! time-out.

mod create;

pub use create::{CreatePolicyError, PolicyErrorReason};

use crate::log::warn;
use isorb_rt::time::Deadline;
use std::cell::Cell;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The target of this module's log records.
const LOG: &str = "isorb::policy";

/// The point at which a oneway call returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum SyncScope {
    /// Does not wait for the peer to read: a message that the transport does not take whole is sent
    /// on by a thread of the caller's scheduling class. While it is under way, further calls over
    /// the connection are refused with TRANSIENT
    /// ([`TRANSIENT_BUSY`](crate::minor::TRANSIENT_BUSY)). Together with [`Rebind::NoReconnect`] a
    /// call opens no connection either, and is refused with REBIND without one
    /// ([`Object::open_connection`](crate::Object::open_connection)).
    None,
    /// Returns when the transport has taken the message. The default.
    #[default]
    WithTransport,
    /// Returns when the server has found the object, before the servant is called.
    WithServer,
    /// Returns when the servant has returned; its system exceptions arrive.
    WithTarget,
}

/// Whether a call may be bound to another target or connection than the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Rebind {
    /// The ORB reopens connections and follows forwards. The default.
    #[default]
    Transparent,
    /// The ORB reopens lost connections; a forward is REBIND.
    NoRebind,
    /// Neither: REBIND.
    NoReconnect,
}

/// A set of policies; `None` leaves a policy to the next wider scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Policies {
    /// Sync scope of oneways.
    pub sync_scope: Option<SyncScope>,
    /// RELATIVE_REQ_TIMEOUT: time for the delivery of a request. The shorter of this and the next
    /// one applies.
    pub request_timeout: Option<Duration>,
    /// RELATIVE_RT_TIMEOUT: time for a call from start to reply. Zero: no time-out.
    pub round_trip_timeout: Option<Duration>,
    /// REQUEST_START_TIME: the moment before which a request is not sent: the calling thread sleeps
    /// until then, and the time-outs begin then. A call that is begun without waiting
    /// (`…_begin`, `…_async`) does not sleep: INV_POLICY before that moment. For a thread or an
    /// object, as the end times.
    pub request_start: Option<Instant>,
    /// REPLY_START_TIME: the moment before which a call does not return its reply. The request is
    /// sent at once; system exceptions do not wait. A start after the end is TIMEOUT, COMPLETED_NO,
    /// and sends nothing.
    pub reply_start: Option<Instant>,
    /// REQUEST_END_TIME: the moment until which a request must be delivered. A call that begins
    /// later is TIMEOUT, COMPLETED_NO, and sends nothing. The earliest end of this, the next one
    /// and the time-outs applies. For a thread or an object: an ORB ignores it, since it would end
    /// all calls for ever, and says so in the log.
    pub request_end: Option<Instant>,
    /// REPLY_END_TIME: the moment until which a call must have its reply; otherwise as
    /// [`request_end`](Self::request_end).
    pub reply_end: Option<Instant>,
    /// Rebind.
    pub rebind: Option<Rebind>,
}

impl Policies {
    /// Everything left to the next wider scope.
    pub(crate) const OPEN: Policies = Policies {
        sync_scope: None,
        request_timeout: None,
        round_trip_timeout: None,
        request_start: None,
        reply_start: None,
        request_end: None,
        reply_end: None,
        rebind: None,
    };

    /// Takes the open policies from a wider scope.
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
            request_start: if self.request_start.is_some() {
                self.request_start
            } else {
                wider.request_start
            },
            reply_start: if self.reply_start.is_some() { self.reply_start } else { wider.reply_start },
            request_end: if self.request_end.is_some() { self.request_end } else { wider.request_end },
            reply_end: if self.reply_end.is_some() { self.reply_end } else { wider.reply_end },
            rebind: if self.rebind.is_some() { self.rebind } else { wider.rebind },
        }
    }

    /// Whether it has a start or an end time.
    pub(crate) fn sets_times(&self) -> bool {
        let times = [self.request_start, self.reply_start, self.request_end, self.reply_end];
        times.iter().any(Option::is_some)
    }

    /// The earliest end time.
    pub(crate) fn end(&self) -> Option<Instant> {
        [self.request_end, self.reply_end].into_iter().flatten().min()
    }

    /// The effective policies without any wider scope.
    #[inline]
    pub(crate) fn effective(&self) -> Effective {
        let timeout =
            Timeout::of_policy(self.request_timeout).min(Timeout::of_policy(self.round_trip_timeout));
        Effective {
            timeout: self.end().map_or(timeout, |end| timeout.min(Timeout::until_instant(end))),
            rebind: self.rebind.unwrap_or_default(),
            sync_scope: self.sync_scope.unwrap_or_default(),
        }
    }
}

/// The effective policies of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Effective {
    /// Of the whole call.
    pub timeout: Timeout,
    pub rebind: Rebind,
    pub sync_scope: SyncScope,
}

/// A time in nanoseconds, or none. One word, because each call compares several.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Timeout(u64);

impl Timeout {
    /// No time-out: longer than any other.
    pub const NONE: Timeout = Timeout(u64::MAX);

    /// No time is left: an end time has passed. No time-out of a policy is this.
    pub const OVER: Timeout = Timeout(0);

    /// The time that is left until `deadline`.
    #[cold]
    pub fn until(deadline: Deadline) -> Timeout {
        deadline.remaining().into()
    }

    /// The time that is left until `end`; [`Timeout::OVER`] when it has passed.
    #[cold]
    fn until_instant(end: Instant) -> Timeout {
        end.saturating_duration_since(Instant::now()).into()
    }

    /// The time-out of a policy; there zero means none, too.
    #[inline]
    fn of_policy(timeout: Option<Duration>) -> Timeout {
        Timeout::from(timeout.filter(|timeout| !timeout.is_zero()))
    }

    /// The present time in nanoseconds, and the deadline of a time-out that begins now. Deadlines
    /// of a second or more may be late by a tick of the kernel's clock.
    #[inline]
    pub fn begin(self) -> (u64, Deadline) {
        Deadline::from_now(self.0)
    }

    #[inline]
    pub fn duration(self) -> Option<Duration> {
        (self != Timeout::NONE).then(|| Duration::from_nanos(self.0))
    }
}

impl From<Duration> for Timeout {
    #[inline]
    fn from(timeout: Duration) -> Timeout {
        // The longest is 584 years.
        Timeout(u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX).min(u64::MAX - 1))
    }
}

impl From<Option<Duration>> for Timeout {
    #[inline]
    fn from(timeout: Option<Duration>) -> Timeout {
        timeout.map_or(Timeout::NONE, Timeout::from)
    }
}

/// Policies that any thread reads and sets without a lock. Each is a separate value: a thread that
/// reads one while several are set gets its old or its new value.
#[derive(Debug)]
pub(crate) struct SharedPolicies {
    /// 0 for none, else 1 + the value.
    sync_scope: AtomicU8,
    rebind: AtomicU8,
    request_timeout: AtomicTimeout,
    round_trip_timeout: AtomicTimeout,
}

impl SharedPolicies {
    pub fn new(policies: Policies) -> SharedPolicies {
        let shared = SharedPolicies {
            sync_scope: AtomicU8::new(0),
            rebind: AtomicU8::new(0),
            request_timeout: AtomicTimeout::none(),
            round_trip_timeout: AtomicTimeout::none(),
        };
        shared.set(policies);
        shared
    }

    /// Sets what is not `None`.
    pub fn set(&self, policies: Policies) {
        if let Some(scope) = policies.sync_scope {
            self.sync_scope.store(1 + scope as u8, Ordering::Relaxed);
        }
        if let Some(rebind) = policies.rebind {
            self.rebind.store(1 + rebind as u8, Ordering::Relaxed);
        }
        if policies.sets_times() {
            warn(
                LOG,
                format_args!(
                    "start and end times are ignored at the scope of an ORB: set them for a thread or an object"
                ),
            );
        }
        self.request_timeout.set(policies.request_timeout);
        self.round_trip_timeout.set(policies.round_trip_timeout);
    }

    /// The effective policies if no narrower scope sets any.
    #[inline(always)]
    pub fn effective(&self) -> Effective {
        Effective {
            timeout: self.request_timeout.effective().min(self.round_trip_timeout.effective()),
            // Defaults for 0 directly, without an option, because each call reads them.
            rebind: match self.rebind.load(Ordering::Relaxed) {
                0 | 1 => Rebind::Transparent,
                2 => Rebind::NoRebind,
                _ => Rebind::NoReconnect,
            },
            sync_scope: match self.sync_scope.load(Ordering::Relaxed) {
                1 => SyncScope::None,
                0 | 2 => SyncScope::WithTransport,
                3 => SyncScope::WithServer,
                _ => SyncScope::WithTarget,
            },
        }
    }

    /// The effective policies if only `object` sets narrower ones, and no start or end time: as
    /// `object.or(self.get()).effective()`, in a few instructions.
    #[inline]
    pub fn effective_under(&self, object: &Policies) -> Effective {
        let timeout = |own: Option<Duration>, wider: &AtomicTimeout| match own {
            Some(_) => Timeout::of_policy(own),
            None => wider.effective(),
        };
        let wider = self.effective();
        Effective {
            timeout: timeout(object.request_timeout, &self.request_timeout)
                .min(timeout(object.round_trip_timeout, &self.round_trip_timeout)),
            rebind: object.rebind.unwrap_or(wider.rebind),
            sync_scope: object.sync_scope.unwrap_or(wider.sync_scope),
        }
    }

    #[inline(always)]
    fn sync_scope(&self) -> Option<SyncScope> {
        match self.sync_scope.load(Ordering::Relaxed) {
            0 => None,
            1 => Some(SyncScope::None),
            2 => Some(SyncScope::WithTransport),
            3 => Some(SyncScope::WithServer),
            _ => Some(SyncScope::WithTarget),
        }
    }

    #[inline(always)]
    fn rebind(&self) -> Option<Rebind> {
        match self.rebind.load(Ordering::Relaxed) {
            0 => None,
            1 => Some(Rebind::Transparent),
            2 => Some(Rebind::NoRebind),
            _ => Some(Rebind::NoReconnect),
        }
    }

    pub fn get(&self) -> Policies {
        Policies {
            sync_scope: self.sync_scope(),
            request_timeout: self.request_timeout.get(),
            round_trip_timeout: self.round_trip_timeout.get(),
            request_start: None,
            reply_start: None,
            request_end: None,
            reply_end: None,
            rebind: self.rebind(),
        }
    }
}

/// A time-out of a policy in nanoseconds.
#[derive(Debug)]
struct AtomicTimeout(AtomicU64);

impl AtomicTimeout {
    fn none() -> AtomicTimeout {
        AtomicTimeout(AtomicU64::new(Timeout::NONE.0))
    }

    fn set(&self, timeout: Option<Duration>) {
        if let Some(timeout) = timeout {
            self.0.store(Timeout::from(timeout).0, Ordering::Relaxed);
        }
    }

    fn get(&self) -> Option<Duration> {
        Timeout(self.0.load(Ordering::Relaxed)).duration()
    }

    /// Zero means none.
    #[inline(always)]
    fn effective(&self) -> Timeout {
        match self.0.load(Ordering::Relaxed) {
            0 => Timeout::NONE,
            timeout => Timeout(timeout),
        }
    }
}

thread_local! {
    static THREAD: Cell<Policies> = const { Cell::new(Policies::OPEN) };
    /// Whether any is set; read in each call.
    static THREAD_SETS: Cell<bool> = const { Cell::new(false) };
}

/// The policies of the calling thread (CORBA::PolicyCurrent).
pub fn thread_policies() -> Policies {
    THREAD.get()
}

/// Sets the policies of the calling thread; returns the previous ones.
pub fn set_thread_policies(policies: Policies) -> Policies {
    THREAD_SETS.set(policies != Policies::OPEN);
    THREAD.replace(policies)
}

/// Whether the calling thread sets any policy.
#[inline]
pub(crate) fn thread_sets_policies() -> bool {
    THREAD_SETS.get()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_policies_are_set_one_by_one() {
        let mut expected = Policies { rebind: Some(Rebind::NoReconnect), ..Default::default() };
        let shared = SharedPolicies::new(expected);
        assert_eq!(shared.get(), expected);
        for scope in [SyncScope::None, SyncScope::WithTransport, SyncScope::WithServer, SyncScope::WithTarget]
        {
            expected.sync_scope = Some(scope);
            shared.set(Policies { sync_scope: Some(scope), ..Default::default() });
            assert_eq!(shared.get(), expected);
        }
        for rebind in [Rebind::Transparent, Rebind::NoRebind, Rebind::NoReconnect] {
            expected.rebind = Some(rebind);
            shared.set(Policies { rebind: Some(rebind), ..Default::default() });
            assert_eq!(shared.get(), expected);
        }
        expected.request_timeout = Some(Duration::ZERO);
        expected.round_trip_timeout = Some(Duration::new(3, 7));
        shared.set(expected);
        assert_eq!(shared.get(), expected);
        shared.set(Policies { request_timeout: Some(Duration::MAX), ..Default::default() });
        assert!(shared.get().request_timeout > Some(Duration::from_secs(500 * 365 * 24 * 3600)));
    }

    #[test]
    fn the_earliest_end_applies() {
        let second = Duration::from_secs(1);
        let hour = Instant::now() + 3600 * second;
        let both = Policies { round_trip_timeout: Some(second), reply_end: Some(hour), ..Default::default() };
        assert_eq!(both.effective().timeout.duration(), Some(second));
        let ends = Policies { request_end: Some(hour), reply_end: Some(hour + second), ..Default::default() };
        let left = ends.effective().timeout.duration().unwrap();
        assert!(left <= 3600 * second && left > 1800 * second, "{left:?}");
        let passed = Policies { reply_end: Some(Instant::now()), ..both };
        assert_eq!(passed.effective().timeout, Timeout::OVER);
        assert_eq!(passed.or(ends).reply_end, passed.reply_end);
        assert_eq!(Policies::OPEN.or(ends).effective().rebind, Rebind::Transparent);
    }

    #[test]
    fn the_narrower_scope_wins() {
        let second = Some(Duration::from_secs(1));
        let orb =
            Policies { round_trip_timeout: second, rebind: Some(Rebind::NoRebind), ..Default::default() };
        let object = Policies { round_trip_timeout: Some(Duration::ZERO), ..Default::default() };
        let both = object.or(Policies::default()).or(orb);
        assert_eq!((both.effective().timeout, both.rebind), (Timeout::NONE, Some(Rebind::NoRebind)));
        assert_eq!(both.effective(), SharedPolicies::new(both).effective());
        let object = Policies { request_timeout: Some(Duration::from_millis(5)), ..Default::default() };
        assert_eq!(object.or(orb).effective().timeout.duration(), Some(Duration::from_millis(5)));
        assert_eq!(object.or(orb).effective(), SharedPolicies::new(object.or(orb)).effective());
        assert_eq!(Policies::OPEN.effective(), SharedPolicies::new(Policies::OPEN).effective());
    }

    #[test]
    fn the_policies_of_an_object_alone_are_those_of_all_scopes() {
        let times =
            [None, Some(Duration::ZERO), Some(Duration::from_millis(5)), Some(Duration::from_secs(9))];
        let mut all = Vec::new();
        for (request_timeout, round_trip_timeout) in times.iter().flat_map(|a| times.map(|b| (*a, b))) {
            for sync_scope in [None, Some(SyncScope::None), Some(SyncScope::WithTarget)] {
                for rebind in [None, Some(Rebind::Transparent), Some(Rebind::NoReconnect)] {
                    let open = Policies::OPEN;
                    all.push(Policies { request_timeout, round_trip_timeout, sync_scope, rebind, ..open });
                }
            }
        }
        for orb in &all {
            let shared = SharedPolicies::new(*orb);
            for object in &all {
                let expected = object.or(shared.get()).effective();
                assert_eq!(shared.effective_under(object), expected, "{object:?} under {orb:?}");
            }
        }
        let now = Some(Instant::now());
        let some = |change: fn(&mut Policies, Option<Instant>)| {
            let mut policies = Policies::OPEN;
            change(&mut policies, now);
            policies.sets_times()
        };
        assert!(some(|p, now| p.request_start = now) && some(|p, now| p.reply_start = now));
        assert!(some(|p, now| p.request_end = now) && some(|p, now| p.reply_end = now));
        assert!(!some(|p, _| p.rebind = Some(Rebind::NoRebind)));
    }
}
