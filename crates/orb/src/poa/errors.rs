//! What the operations of a POA raise: the standard's user exceptions, one enum for each set of them, each with the
//! system exceptions beside.

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
            /// A system exception stays as it is. A user exception that leaves an operation which does not list it is
            /// UNKNOWN with minor code OMG|1; the sentence tells which it was.
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
    /// What [`create_poa`](super::Poa::create_poa) raises.
    CreateError {
        AdapterAlreadyExists = "the POA has a child of this name; find it with find_poa, or choose another name",
        InvalidPolicy(index: u16) = "the policy contradicts another one; see PoaPolicies for what goes together",
    }
    /// What [`find_poa`](super::Poa::find_poa) raises.
    FindError {
        AdapterNonExistent = "there is no child of this name, and no adapter activator made it; create it first",
    }
    /// What activation under a new id raises.
    ActivateError {
        ServantAlreadyActive = "the servant is active and the POA has UNIQUE_ID; deactivate it first, or use MULTIPLE_ID",
        WrongPolicy = "the POA needs RETAIN and SYSTEM_ID for this; use activate_object_with_id, or other policies",
    }
    /// What activation under a given id raises.
    ActivateWithIdError {
        ServantAlreadyActive = "the servant is active and the POA has UNIQUE_ID; deactivate it first, or use MULTIPLE_ID",
        ObjectAlreadyActive = "the id is active; deactivate it first, or choose another id",
        WrongPolicy = "the POA needs RETAIN for this; with NON_RETAIN a locator or a default servant serves the id",
    }
    /// What operations on the id of an active object raise.
    ObjectIdError {
        ObjectNotActive = "no object is active under the id; activate it first",
        WrongPolicy = "the POA's policies keep no servant for an id; it needs RETAIN",
    }
    /// What operations that start from a servant raise.
    ServantError {
        ServantNotActive = "the servant is not active here; activate it first, or use IMPLICIT_ACTIVATION",
        WrongPolicy = "the POA needs RETAIN with UNIQUE_ID or IMPLICIT_ACTIVATION for this; keep the id instead",
    }
    /// What [`reference_to_servant`](super::Poa::reference_to_servant) raises.
    ToServantError {
        ObjectNotActive = "the object is not active and there is no default servant; activate it first",
        WrongAdapter = "another POA made the reference; ask that one",
        WrongPolicy = "the POA needs RETAIN or USE_DEFAULT_SERVANT for this",
    }
    /// What [`reference_to_id`](super::Poa::reference_to_id) raises.
    ToIdError {
        WrongAdapter = "another POA made the reference; ask that one",
    }
    /// What operations raise that only the POA's policies can forbid.
    PolicyError {
        WrongPolicy = "the POA's policies do not have this; create the POA with the policy that the operation names",
    }
    /// What operations on members of groups raise.
    GroupError {
        NotAGroupObject = "the reference names no group behind an address of IP multicast; write corbaloc:miop:1.0@1.0-domain-1/225.1.1.1:5000",
        NotAMember = "the object is no member of the group; associate it first",
        WrongPolicy = "the POA needs SYSTEM_ID to make an id; use associate_reference_with_id with one of your own",
    }
    /// What reading the default servant raises.
    DefaultServantError {
        NoServant = "no default servant is set; set one with set_servant",
        WrongPolicy = "the POA needs USE_DEFAULT_SERVANT for this",
    }
    /// What a [`PoaManager`](super::PoaManager) raises.
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

/// The operation would wait for the thread that called it.
pub(super) const DEADLOCK: SystemException = no(Kind::BadInvOrder, minor::BAD_INV_ORDER_DEADLOCK);
/// Neither this POA nor the POAs above it can be found or made.
pub(super) const NO_ADAPTER: SystemException = no(Kind::ObjectNotExist, minor::OBJECT_NOT_EXIST_NO_ADAPTER);
/// The POA is there, the object is not.
pub(super) const NO_OBJECT: SystemException = no(Kind::ObjectNotExist, 0);
/// The POA discards, or a bounded queue is full.
pub(super) const DISCARDED: SystemException = no(Kind::Transient, minor::TRANSIENT_DISCARDED);
/// The POA went away while the request was on its way to the servant.
pub(super) const DESTROYED: SystemException = no(Kind::Transient, minor::TRANSIENT_POA_DESTROYED);

/// Calls code of the application that stands between the client and its servant. A panic there is UNKNOWN to the caller
/// and nothing to anybody else, as in a servant.
///
/// # Errors
/// What the code gives; UNKNOWN.
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
