//! The policy in force, and what it means for each connection and operation.

use crate::audit::Audit;
use crate::operations::{Audited, Requirement, need_of};
use crate::policy::{Caller, Policy, PolicyError};
use crate::scope::{Permission, Subject};
use isorb::Interface;
use isorb_rt::log;
use isorb_rt::sync::{PiMutex, PiOnceLock};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

pub(crate) const LOG: &str = "isorb::access";

/// Slots for interfaces, four times those of all services.
const INTERFACES: usize = 128;

/// Access control for one ORB: [`OrbBuilder::guard`](isorb::OrbBuilder::guard).
///
/// # Real-time
/// A request costs a look-up of its interface and of a number in its connection: no lock, no
/// allocation. The first request to an interface allocates, under a PI lock. The first request of a
/// connection after a change of the policy takes a PI lock and searches the roles. The first of all
/// identifies the caller too: over loopback TCP that is one query to the kernel, four system calls
/// without an allocation, however many sockets there are
/// ([`PeerIdentity::user`](isorb_transport::PeerIdentity::user)). What is denied, and changes, are
/// written to the log or the audit file.
pub struct AccessControl {
    file: Option<PathBuf>,
    policy: PiMutex<Arc<Policy>>,
    /// Counts the policies, from 1. A connection's memo has the number of its policy and its bits.
    generation: AtomicU32,
    denied: AtomicU64,
    limited: AtomicU64,
    audit: Audit,
    interfaces: Box<[PiOnceLock<Guarded>; INTERFACES]>,
}

/// What each operation of an interface needs, by index.
pub(crate) struct Guarded {
    interface: &'static Interface,
    needs: Box<[Requirement]>,
    /// The bit of an operation that the guard only admits; 0 for one that it records.
    bits: Box<[u32]>,
}

impl Guarded {
    fn new(interface: &'static Interface) -> Guarded {
        let needs: Box<[Requirement]> =
            interface.operations.names().iter().map(|name| need_of(interface.id, name)).collect();
        let bit = |need: &Requirement| if need.audited == Audited::Here { 0 } else { need.bit };
        Guarded { interface, bits: needs.iter().map(bit).collect(), needs }
    }
}

impl AccessControl {
    /// Control by a policy that the program made.
    pub fn new(policy: Policy, audit: Audit) -> AccessControl {
        AccessControl {
            file: None,
            policy: PiMutex::new(Arc::new(policy)),
            generation: AtomicU32::new(1),
            denied: AtomicU64::new(0),
            limited: AtomicU64::new(0),
            audit,
            interfaces: Box::new(std::array::from_fn(|_| PiOnceLock::new())),
        }
    }

    /// Control by a policy file.
    ///
    /// # Errors
    /// As [`Policy::read`].
    pub fn from_file(file: &Path, audit: Audit) -> Result<AccessControl, PolicyError> {
        let policy = Policy::read(file)?;
        // A service starts on a full disk too; the log says that the record is missing.
        let _ = audit.record(format_args!("policy {} is in force, {} roles", file.display(), policy.roles()));
        Ok(AccessControl { file: Some(file.into()), ..AccessControl::new(policy, audit) })
    }

    /// Reads the policy file again. Its rules hold for the next request of every connection.
    /// Returns `false` without a file.
    ///
    /// # Errors
    /// As [`Policy::read`]; the policy before stays in force.
    pub fn reload(&self) -> Result<bool, PolicyError> {
        let Some(file) = &self.file else { return Ok(false) };
        let policy = Policy::read(file)?;
        let roles = policy.roles();
        self.replace(policy);
        // The operator's own change holds on a full disk too.
        let _ = self.audit.record(format_args!("policy {} is in force, {roles} roles", file.display()));
        Ok(true)
    }

    /// Puts another policy in force.
    pub fn replace(&self, policy: Policy) {
        let mut current = self.policy.lock();
        *current = Arc::new(policy);
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// The policy in force.
    pub fn policy(&self) -> Arc<Policy> {
        self.policy.lock().clone()
    }

    /// The requests that were denied.
    pub fn denied(&self) -> u64 {
        self.denied.load(Ordering::Relaxed)
    }

    /// The requests that were refused at a limit for each client
    /// ([`PeerLimit`](crate::PeerLimit)).
    pub fn limited(&self) -> u64 {
        self.limited.load(Ordering::Relaxed)
    }

    /// Where changes are recorded. A change of a client that cannot be recorded is refused.
    pub fn audit(&self) -> &Audit {
        &self.audit
    }

    /// Whether a connection's memo has what an operation needs, and nothing is to be recorded. It
    /// is the path of nearly every request; `false` says nothing.
    #[inline(always)]
    pub(crate) fn is_known(&self, interface: &'static Interface, operation: u16, memo: &AtomicU64) -> bool {
        let known = memo.load(Ordering::Relaxed);
        if (known >> 32) as u32 != self.generation.load(Ordering::Acquire) {
            return false;
        }
        // A call here would have each request save registers, so an interface that found its
        // first slot taken goes the longer way.
        match self.interfaces[slot_of(interface, 0)].get() {
            Some(guarded) if std::ptr::eq(guarded.interface, interface) => {
                guarded.bits.get(usize::from(operation)).is_some_and(|bit| known as u32 & bit != 0)
            }
            _ => false,
        }
    }

    /// What an operation needs.
    pub(crate) fn need(&self, interface: &'static Interface, operation: u16) -> Requirement {
        for i in 0..INTERFACES {
            let slot = &self.interfaces[slot_of(interface, i)];
            let guarded = slot.get_or_init(|| Guarded::new(interface));
            if std::ptr::eq(guarded.interface, interface) {
                return guarded.needs[usize::from(operation)];
            }
        }
        need_of(interface.id, interface.operations.names()[usize::from(operation)])
    }

    /// The permissions of a caller with a memo.
    pub(crate) fn bits<'c>(&self, memo: Option<&AtomicU64>, caller: impl FnOnce() -> Caller<'c>) -> u32 {
        let generation = self.generation.load(Ordering::Acquire);
        if let Some(memo) = memo {
            let known = memo.load(Ordering::Relaxed);
            if (known >> 32) as u32 == generation {
                return known as u32;
            }
        }
        self.find_bits(memo, &caller())
    }

    #[cold]
    fn find_bits(&self, memo: Option<&AtomicU64>, caller: &Caller<'_>) -> u32 {
        // The number under the lock: that of this policy.
        let (policy, generation) = {
            let policy = self.policy.lock();
            (policy.clone(), self.generation.load(Ordering::Acquire))
        };
        let bits = policy.bits(*caller);
        if let Some(memo) = memo {
            memo.store(u64::from(generation) << 32 | u64::from(bits), Ordering::Relaxed);
        }
        bits
    }

    /// Whether the policy in force allows this.
    pub fn allows(&self, caller: Caller<'_>, permission: Permission, subject: Option<Subject<'_>>) -> bool {
        self.policy().allows(caller, permission, subject)
    }

    /// Counts and logs a denial.
    #[cold]
    pub(crate) fn deny(&self, why: &str) {
        self.denied.fetch_add(1, Ordering::Relaxed);
        log::warn(LOG, format_args!("denied: {why}"));
    }

    /// Counts and logs a refusal at a limit for each client.
    #[cold]
    pub(crate) fn limit(&self, why: &str) {
        self.limited.fetch_add(1, Ordering::Relaxed);
        log::warn(LOG, format_args!("refused: {why}"));
    }

    /// Whether there is no policy file.
    pub(crate) fn is_built_in(&self) -> bool {
        self.file.is_none()
    }

    /// What to do about a denial.
    pub(crate) fn hint(&self) -> String {
        match &self.file {
            Some(file) => format!("grant it by a role in {}", file.display()),
            None => "call over a unix socket or this host's loopback as the service's user, or give the service a \
                     --access-policy"
                .into(),
        }
    }
}

/// The slots that an interface may have, the best first. Interfaces are statics, some hundred
/// octets apart.
#[inline(always)]
fn slot_of(interface: &'static Interface, i: usize) -> usize {
    ((std::ptr::from_ref(interface).addr() >> 4) + i) % INTERFACES
}
