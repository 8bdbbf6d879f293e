//! The hooks of servants: the only part that knows the ORB.

use crate::Audit;
use crate::control::AccessControl;
use crate::operations::Audited;
use crate::policy::{Caller, Policy};
use crate::scope::{Permission, Subject};
use crate::share::{Client, PeerLimit, Share};
use isorb::{Guard, Interface, Kind, Result, SystemException, Upcall};
use isorb_rt::sync::PiOnceLock;
use std::any::Any;

impl Guard for AccessControl {
    #[inline]
    fn admit(&self, interface: &'static Interface, operation: u16, cx: Upcall<'_>) -> Result<()> {
        if cx.caller().memo().is_some_and(|memo| self.is_known(interface, operation, memo)) {
            return Ok(());
        }
        self.decide(interface, operation, cx)
    }
}

impl AccessControl {
    /// Decides about the first request of a connection, a request that is refused or recorded, and
    /// one without a connection.
    #[inline(never)]
    fn decide(&self, interface: &'static Interface, operation: u16, cx: Upcall<'_>) -> Result<()> {
        let need = self.need(interface, operation);
        if self.bits_of(cx) & need.bit == 0 {
            return Err(refuse(self, cx, need.permission, None));
        }
        if need.audited == Audited::Here {
            record(self, cx, None)?;
        }
        Ok(())
    }

    fn bits_of(&self, cx: Upcall<'_>) -> u32 {
        let caller = cx.caller();
        if caller.is_this_process() {
            return u32::MAX;
        }
        self.bits(caller.memo(), || identity(cx))
    }
}

/// Checks an operation about a subject, in the servant that knows it, and records the change. The
/// guard of the ORB has checked that the caller has the permission for some subject; an ORB without
/// a guard allows everything.
///
/// # Errors
/// NO_PERMISSION, which names the caller, the permission and where to grant it. NO_RESOURCES, if
/// the change cannot be recorded; it is not made.
///
/// # Real-time
/// Allocates, and may write the audit file. For operations that change something.
pub fn authorize(cx: Upcall<'_>, permission: Permission, subject: Subject<'_>) -> Result<()> {
    let Some(control) = control(cx) else { return Ok(()) };
    check(control, cx, permission, subject)?;
    record(control, cx, Some(subject))
}

/// As [`authorize`], for a service's steady work, which is not recorded.
///
/// # Errors
/// NO_PERMISSION, as [`authorize`].
///
/// # Real-time
/// A caller with the permission for all subjects costs two look-ups. Another one takes a lock and
/// searches the roles.
pub fn authorize_unrecorded(cx: Upcall<'_>, permission: Permission, subject: Subject<'_>) -> Result<()> {
    let Some(control) = control(cx) else { return Ok(()) };
    check(control, cx, permission, subject)
}

/// As [`authorize`], for what belongs to a process at one of these addresses. Without a policy file
/// the caller must be there, or have the permission to administer.
///
/// # Errors
/// As [`authorize`].
///
/// # Real-time
/// As [`authorize`], and resolves host names.
pub fn authorize_owner(
    cx: Upcall<'_>,
    permission: Permission,
    subject: Subject<'_>,
    owner: impl IntoIterator<Item = String>,
) -> Result<()> {
    let Some(control) = control(cx) else { return Ok(()) };
    if control.is_built_in() && !owner.into_iter().any(|host| cx.caller().is_at(&host)) {
        may_administer(cx)?;
    }
    authorize(cx, permission, subject)
}

/// Checks the types of events that a supplier announces or pushes.
///
/// # Errors
/// As [`authorize`].
///
/// # Real-time
/// A supplier of all types costs two look-ups. Another one takes a lock and searches the roles for
/// each type.
pub fn authorize_types(cx: Upcall<'_>, types: impl IntoIterator<Item = i32>) -> Result<()> {
    let Some(control) = control(cx) else { return Ok(()) };
    if control.bits_of(cx) & Permission::Supply.all() != 0 {
        return Ok(());
    }
    types
        .into_iter()
        .try_for_each(|number| check(control, cx, Permission::Supply, Subject::EventType(number)))
}

/// Checks that the caller may administer, also where the ORB has no guard: then callers of this
/// process's user on this host may, and root.
///
/// # Errors
/// As [`authorize`].
///
/// # Real-time
/// As the guard's check of a request.
pub fn may_administer(cx: Upcall<'_>) -> Result<()> {
    static BUILT_IN: PiOnceLock<AccessControl> = PiOnceLock::new();
    let control = control(cx).unwrap_or_else(|| {
        BUILT_IN.get_or_init(|| AccessControl::new(Policy::built_in(false), Audit::to_log()))
    });
    match control.bits_of(cx) & Permission::Administer.some() {
        0 => Err(refuse(control, cx, Permission::Administer, None)),
        _ => Ok(()),
    }
}

/// Counts one more of what `limit` bounds for the caller, until the share is dropped.
///
/// # Errors
/// IMP_LIMIT, which names the client, the limit and its setting. The guard of the ORB counts it
/// ([`AccessControl::limited`]) and logs it.
///
/// # Real-time
/// Allocates, and takes a short lock. The first call of a connection may ask the kernel for the
/// user. Without a limit it does nothing.
pub fn take_share(cx: Upcall<'_>, limit: &PeerLimit) -> Result<Share> {
    if limit.is_none() {
        return Ok(Share::default());
    }
    limit.take_for(Client::of(identity(cx))).map_err(|why| {
        if let Some(control) = control(cx) {
            control.limit(&format!("{}: {}: {why}", cx.caller(), cx.operation()));
        }
        SystemException::from(Kind::ImpLimit).detail(why)
    })
}

/// Whether the caller is the client that holds `share`.
///
/// # Real-time
/// As [`take_share`].
pub fn is_share_of(cx: Upcall<'_>, share: &Share) -> bool {
    share.is_of(Client::of(identity(cx)).as_ref())
}

fn control(cx: Upcall<'_>) -> Option<&AccessControl> {
    let guard: &dyn Any = cx.guard()?;
    guard.downcast_ref()
}

fn identity(cx: Upcall<'_>) -> Caller<'_> {
    let caller = cx.caller();
    match caller.identity() {
        _ if caller.is_this_process() => Caller::Process,
        Some(identity) => match caller.principal() {
            Some(principal) => Caller::Principal(identity, caller.user(), &principal.name),
            None => Caller::Peer(identity, caller.user()),
        },
        None => Caller::Unknown,
    }
}

fn check(
    control: &AccessControl,
    cx: Upcall<'_>,
    permission: Permission,
    subject: Subject<'_>,
) -> Result<()> {
    let all = control.bits_of(cx) & permission.all() != 0;
    if all || control.allows(identity(cx), permission, Some(subject)) {
        return Ok(());
    }
    Err(refuse(control, cx, permission, Some(subject)))
}

#[cold]
fn refuse(
    control: &AccessControl,
    cx: Upcall<'_>,
    permission: Permission,
    subject: Option<Subject<'_>>,
) -> SystemException {
    let what = format!("{}{}", cx.operation(), about(subject));
    let (caller, name) = (cx.caller(), permission.name());
    let user = caller.user().map_or_else(String::new, |user| format!(", user {user}"));
    control.deny(&format!("{caller}{user}: {what} needs the permission {name}; {}", control.hint()));
    SystemException::from(Kind::NoPermission)
        .detail(format!("{what} needs the permission {name}, which {caller} lacks; {}", control.hint()))
}

/// Records a change before it is made. One that cannot be recorded is not made.
fn record(control: &AccessControl, cx: Upcall<'_>, subject: Option<Subject<'_>>) -> Result<()> {
    let what = format_args!("{}: {}{}", cx.caller(), cx.operation(), about(subject));
    control.audit().record(what).map_err(|error| {
        let operation = cx.operation();
        SystemException::from(Kind::NoResources).detail(format!(
            "{operation} is not made, because it cannot be recorded: {error}; make space for the file of --audit"
        ))
    })
}

fn about(subject: Option<Subject<'_>>) -> String {
    match subject {
        Some(Subject::Name(name)) => format!(" {name:?}"),
        Some(Subject::EventType(number)) => format!(" of events of type {number}"),
        None => String::new(),
    }
}
