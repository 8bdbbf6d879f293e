//! The standard system exceptions by name.

use core::fmt;

macro_rules! kinds {
    ($($(#[$doc:meta])* $variant:ident $name:literal,)*) => {
        /// Which standard system exception (CORBA 3.3 part 1, clause 8.17.1 and annex A).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Kind {
            $($(#[$doc])* $variant,)*
        }

        impl Kind {
            /// All kinds.
            pub const ALL: &[Kind] = &[$(Kind::$variant),*];

            /// Its name in the standard, such as `BAD_PARAM`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Kind::$variant => $name,)*
                }
            }

            /// Its repository id, such as `IDL:omg.org/CORBA/BAD_PARAM:1.0`.
            pub const fn repository_id(self) -> &'static str {
                match self {
                    $(Kind::$variant => concat!("IDL:omg.org/CORBA/", $name, ":1.0"),)*
                }
            }
        }
    };
}

kinds! {
    /// No other exception describes the error.
    Unknown "UNKNOWN",
    /// An argument is not valid.
    BadParam "BAD_PARAM",
    /// Memory ran out.
    NoMemory "NO_MEMORY",
    /// A limit of the implementation was passed.
    ImpLimit "IMP_LIMIT",
    /// Communication was lost during a call.
    CommFailure "COMM_FAILURE",
    /// The object reference is malformed.
    InvObjref "INV_OBJREF",
    /// The caller has no permission.
    NoPermission "NO_PERMISSION",
    /// An invariant of the ORB is broken.
    Internal "INTERNAL",
    /// A value could not be written or read.
    Marshal "MARSHAL",
    /// The ORB could not be initialised.
    Initialize "INITIALIZE",
    /// The operation exists but is not implemented.
    NoImplement "NO_IMPLEMENT",
    /// A type code is malformed.
    BadTypecode "BAD_TYPECODE",
    /// The object has no such operation.
    BadOperation "BAD_OPERATION",
    /// A resource ran out.
    NoResources "NO_RESOURCES",
    /// The reply of a deferred call has not arrived.
    NoResponse "NO_RESPONSE",
    /// Persistent storage failed.
    PersistStore "PERSIST_STORE",
    /// Operations were called in the wrong order.
    BadInvOrder "BAD_INV_ORDER",
    /// The object could not be reached; a later attempt may succeed.
    Transient "TRANSIENT",
    /// Memory could not be freed.
    FreeMem "FREE_MEM",
    /// An identifier is not well formed.
    InvIdent "INV_IDENT",
    /// A flag is not valid.
    InvFlag "INV_FLAG",
    /// The interface repository could not be reached.
    IntfRepos "INTF_REPOS",
    /// A context object could not be processed.
    BadContext "BAD_CONTEXT",
    /// The object adapter failed.
    ObjAdapter "OBJ_ADAPTER",
    /// A value has no equivalent in the other representation.
    DataConversion "DATA_CONVERSION",
    /// The object does not exist and never will.
    ObjectNotExist "OBJECT_NOT_EXIST",
    /// A transaction is required.
    TransactionRequired "TRANSACTION_REQUIRED",
    /// The transaction was rolled back.
    TransactionRolledback "TRANSACTION_ROLLEDBACK",
    /// The transaction context is not valid.
    InvalidTransaction "INVALID_TRANSACTION",
    /// Policies contradict each other.
    InvPolicy "INV_POLICY",
    /// Client and server have no code set in common.
    CodesetIncompatible "CODESET_INCOMPATIBLE",
    /// A transparent rebind would have broken the client's policy.
    Rebind "REBIND",
    /// Time ran out.
    Timeout "TIMEOUT",
    /// No transaction service connection.
    TransactionUnavailable "TRANSACTION_UNAVAILABLE",
    /// The target's transaction policy does not match the transaction.
    TransactionMode "TRANSACTION_MODE",
    /// A required quality of service cannot be given.
    BadQos "BAD_QOS",
    /// The activity was used where it is not valid.
    InvalidActivity "INVALID_ACTIVITY",
    /// The activity is complete already.
    ActivityCompleted "ACTIVITY_COMPLETED",
    /// An activity is required.
    ActivityRequired "ACTIVITY_REQUIRED",
    /// The distributable thread was cancelled (RT-CORBA 2.0).
    ThreadCancelled "THREAD_CANCELLED",
}

impl Kind {
    /// The kind of a repository id; `None` when it names no standard system exception.
    pub fn from_repository_id(id: &str) -> Option<Kind> {
        let name = id.strip_prefix("IDL:omg.org/CORBA/")?.strip_suffix(":1.0")?;
        Kind::ALL.iter().copied().find(|kind| kind.name() == name)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
