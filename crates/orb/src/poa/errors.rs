//! The exceptions of a POA's operations: one enum for each set of the standard's user exceptions,
//! with the system exceptions beside them.

use isorb_giop::{Completion, Kind, SystemException, minor};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

macro_rules! raises {
    ($($(#[$doc:meta])* $name:ident { $($variant:ident $(($field:ident: $type:ty))? = $sentence:literal,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum $name {
            $(#[doc = concat!($sentence, ".")]
            $variant $(($type))?,)*
            /// A system exception.
            System(SystemException),
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $($name::$variant $(($field))? => {
                        write!(f, concat!(stringify!($variant), $(" (", stringify!($field), " {})",)? ": ", $sentence)
                            $(, $field)?)
                    })*
                    $name::System(exception) => exception.fmt(f),
                }
            }
        }

        impl std::error::Error for $name {}

        impl From<SystemException> for $name {
            fn from(exception: SystemException) -> $name {
                $name::System(exception)
            }
        }

        impl From<Kind> for $name {
            fn from(kind: Kind) -> $name {
                $name::System(kind.into())
            }
        }

        impl From<$name> for SystemException {
            /// A system exception stays unchanged. A user exception that leaves an operation
            /// without listing it is UNKNOWN with minor code OMG|1; the sentence names it.
            fn from(error: $name) -> SystemException {
                match error {
                    $name::System(exception) => exception,
                    other => SystemException::from(Kind::Unknown)
                        .minor(minor::UNKNOWN_USER_EXCEPTION)
                        .detail(other.to_string()),
                }
            }
        }
    )*};
}

raises! {
    /// The errors of [`create_poa`](super::Poa::create_poa).
    CreateError {
        AdapterAlreadyExists = "the POA has a child of this name; find it with find_poa, or choose another name",
        InvalidPolicy(index: u16) = "the policy contradicts another one; see PoaPolicies for what goes together",
    }
    /// The errors of [`find_poa`](super::Poa::find_poa).
    FindError {
        AdapterNonExistent = "there is no child of this name, and no adapter activator made it; create it first",
    }
    /// The errors of activation under a new id.
    ActivateError {
        ServantAlreadyActive = "the servant is active and the POA has UNIQUE_ID; deactivate it first, or use MULTIPLE_ID",
        WrongPolicy = "the POA needs RETAIN and SYSTEM_ID for this; use activate_object_with_id, or other policies",
    }
    /// The errors of activation under a given id.
    ActivateWithIdError {
        ServantAlreadyActive = "the servant is active and the POA has UNIQUE_ID; deactivate it first, or use MULTIPLE_ID",
        ObjectAlreadyActive = "the id is active; deactivate it first, or choose another id",
        WrongPolicy = "the POA needs RETAIN for this; with NON_RETAIN a locator or a default servant serves the id",
    }
    /// The errors of operations on the id of an active object.
    ObjectIdError {
        ObjectNotActive = "no object is active under the id; activate it first",
        WrongPolicy = "the POA's policies keep no servant for an id; it needs RETAIN",
    }
    /// The errors of operations on a servant.
    ServantError {
        ServantNotActive = "the servant is not active here; activate it first, or use IMPLICIT_ACTIVATION",
        WrongPolicy = "the POA needs RETAIN with UNIQUE_ID or IMPLICIT_ACTIVATION for this; keep the id instead",
    }
    /// The errors of [`reference_to_servant`](super::Poa::reference_to_servant).
    ToServantError {
        ObjectNotActive = "the object is not active and there is no default servant; activate it first",
        WrongAdapter = "another POA made the reference; ask that one",
        WrongPolicy = "the POA needs RETAIN or USE_DEFAULT_SERVANT for this",
    }
    /// The errors of [`reference_to_id`](super::Poa::reference_to_id).
    ToIdError {
        WrongAdapter = "another POA made the reference; ask that one",
    }
    /// The errors of operations that only the POA's policies can forbid.
    PolicyError {
        WrongPolicy = "the POA's policies do not have this; create the POA with the policy that the operation names",
    }
    /// The errors of operations on members of groups.
    GroupError {
        NotAGroupObject = "the reference names no group behind an address of IP multicast; write corbaloc:miop:1.0@1.0-domain-1/225.1.1.1:5000",
        NotAMember = "the object is no member of the group; associate it first",
        WrongPolicy = "the POA needs SYSTEM_ID to make an id; use associate_reference_with_id with one of your own",
    }
    /// The errors of reading the default servant.
    DefaultServantError {
        NoServant = "no default servant is set; set one with set_servant",
        WrongPolicy = "the POA needs USE_DEFAULT_SERVANT for this",
    }
    /// The errors of a [`PoaManager`](super::PoaManager).
    ManagerError {
        AdapterInactive = "the POA manager was deactivated, which is for ever; create the POA again with a new manager",
    }
}

/// `PortableServer::Current::NoContext`: the thread runs no upcall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoContext;

impl fmt::Display for NoContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NoContext: this thread runs no upcall of a servant; ask from inside one")
    }
}

impl std::error::Error for NoContext {}

impl From<NoContext> for SystemException {
    fn from(error: NoContext) -> SystemException {
        SystemException::from(Kind::Unknown).minor(minor::UNKNOWN_USER_EXCEPTION).detail(error.to_string())
    }
}

/// A system exception before anything was executed.
pub(super) const fn no(kind: Kind, minor: u32) -> SystemException {
    SystemException::new(kind, minor, Completion::No)
}

/// The operation would wait for its own thread.
pub(super) const DEADLOCK: SystemException = no(Kind::BadInvOrder, minor::BAD_INV_ORDER_DEADLOCK);
/// The POA, or one above it, does not exist and cannot be created.
pub(super) const NO_ADAPTER: SystemException = no(Kind::ObjectNotExist, minor::OBJECT_NOT_EXIST_NO_ADAPTER);
/// The POA exists, the object does not.
pub(super) const NO_OBJECT: SystemException = no(Kind::ObjectNotExist, 0);
/// The manager discards requests, or a bounded queue is full.
pub(super) const DISCARDED: SystemException = no(Kind::Transient, minor::TRANSIENT_DISCARDED);
/// The POA was destroyed while the request was on its way to the servant.
pub(super) const DESTROYED: SystemException = no(Kind::Transient, minor::TRANSIENT_POA_DESTROYED);

/// Calls code of the application that stands between the client and its servant. A panic becomes
/// UNKNOWN for the caller and affects no other request, as in a servant.
///
/// # Errors
/// The error of the code; UNKNOWN.
pub(super) fn guarded<T, E: From<SystemException>>(
    name: &str,
    call: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|_| {
        Err(SystemException::new(Kind::Unknown, 0, Completion::Maybe)
            .detail(format!("{name} panicked"))
            .into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_say_what_to_do() {
        assert_eq!(
            CreateError::InvalidPolicy(3).to_string(),
            "InvalidPolicy (index 3): the policy contradicts another one; see PoaPolicies for what goes together"
        );
        assert!(ServantError::ServantNotActive.to_string().contains("activate it first"));
        let system = ObjectIdError::from(Kind::NoMemory);
        assert_eq!(system.to_string(), SystemException::from(Kind::NoMemory).to_string());
    }

    #[test]
    fn user_exceptions_leave_as_unknown() {
        let e = SystemException::from(ActivateError::WrongPolicy);
        assert_eq!((e.kind, e.minor), (Kind::Unknown, minor::UNKNOWN_USER_EXCEPTION));
        assert!(e.detail.unwrap().contains("SYSTEM_ID"));
        assert_eq!(SystemException::from(ActivateError::System(DEADLOCK)), DEADLOCK);
    }
}
