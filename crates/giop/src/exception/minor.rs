//! Minor codes: the upper 20 bits identify the organisation that assigned the code, the lower 12
//! bits the code (clause 8.17.1.1).
//!
//! Constants are full values. A constant's name has the exception in front, because a number has
//! different meanings in different exceptions.

/// Codes that the OMG assigned.
pub const OMG_VMCID: u32 = 0x4f4d_0000;
/// Codes of this ORB ("IS").
pub const ISORB_VMCID: u32 = 0x4953_0000;
/// Codes of omniORB.
pub const OMNIORB_VMCID: u32 = 0x4154_0000;
/// Codes of TAO.
pub const TAO_VMCID: u32 = 0x5441_0000;

/// The bits of the organisation that assigned a minor code.
pub(super) const VMCID_MASK: u32 = 0xffff_f000;

macro_rules! codes {
    ($table:ident $vmcid:ident: $($constant:ident $kind:ident $code:literal $sentence:literal,)*) => {
        $(#[doc = concat!("`", stringify!($kind), "`: ", $sentence, ".")]
        pub const $constant: u32 = $vmcid | $code;)*

        pub(super) const $table: &[(Kind, u32, &str)] = &[$((Kind::$kind, $constant, $sentence),)*];
    };
}

use super::Kind;

codes! { OMG OMG_VMCID:
    UNKNOWN_USER_EXCEPTION Unknown 1 "the servant raised a user exception that its operation does not list",
    UNKNOWN_SYSTEM_EXCEPTION Unknown 2 "a system exception that is not in the standard",
    BAD_PARAM_VALUE_FACTORY BadParam 1 "a value factory could not be registered, removed or found",
    BAD_PARAM_URL_SCHEME BadParam 7 "the URL's scheme is not known",
    BAD_PARAM_URL_ADDRESS BadParam 8 "the URL's address is malformed",
    BAD_PARAM_URL_SPECIFIC BadParam 9 "the part of the URL after its scheme is malformed",
    BAD_PARAM_URL BadParam 10 "the URL is not valid",
    BAD_PARAM_ABSTRACT_BASE BadParam 11 "a non-abstract base where only abstract ones are allowed",
    BAD_PARAM_TYPECODE BadParam 13 "the type code is incomplete",
    BAD_PARAM_OBJECT_ID BadParam 14 "the object id cannot be a string",
    BAD_PARAM_NAME BadParam 15 "the name is no IDL identifier",
    BAD_PARAM_REPOSITORY_ID BadParam 16 "the repository id is malformed",
    BAD_PARAM_MEMBER_NAME BadParam 17 "a member's name is not valid or not unique",
    BAD_PARAM_LABEL BadParam 18 "two union members have the same label",
    BAD_PARAM_LABEL_TYPE BadParam 19 "a union label is not of the discriminator's type",
    BAD_PARAM_DISCRIMINATOR BadParam 20 "the type cannot be a union's discriminator",
    BAD_PARAM_EXCEPTION_TYPE BadParam 21 "the type is no exception",
    BAD_PARAM_UNLISTED_EXCEPTION BadParam 22 "a user exception that the operation does not list",
    BAD_PARAM_WCHAR_CODE_SET BadParam 23 "wide text came before a wide code set was agreed",
    BAD_PARAM_CONTEXT_RANGE BadParam 24 "the service context id is out of the range that its kind has",
    BAD_PARAM_ENUMERATOR BadParam 25 "the enumerator does not exist",
    BAD_PARAM_CONTEXT_ID BadParam 26 "there is no service context with this id",
    BAD_PARAM_NIL_INITIAL_REFERENCE BadParam 27 "an initial reference cannot be nil",
    BAD_PARAM_COMPONENT_ID BadParam 28 "there is no component with this id",
    BAD_PARAM_PROFILE_ID BadParam 29 "there is no profile with this id",
    BAD_PARAM_DUPLICATE_POLICY BadParam 30 "two policies of the same type",
    BAD_PARAM_UNION_BRANCH BadParam 34 "the discriminator is not one of the union member's labels",
    IMP_LIMIT_NO_PROFILE ImpLimit 1 "no profile of the reference can be used",
    INITIALIZE_PRIORITY_RANGE Initialize 1 "the range of priorities is too small",
    INV_OBJREF_WCHAR InvObjref 1 "the reference names no code set for wide text",
    INV_OBJREF_CODE_SETS InvObjref 2 "wide text needs a code set component, which the reference lacks",
    MARSHAL_NO_FACTORY Marshal 1 "there is no factory for the value",
    MARSHAL_LOCAL_OBJECT Marshal 4 "a value of this type cannot be sent",
    MARSHAL_WCHAR_CLIENT Marshal 5 "wide text without a wide code set (or on GIOP 1.0)",
    MARSHAL_WCHAR_SERVER Marshal 6 "wide text in a reply on GIOP 1.0",
    MARSHAL_CODE_SETS_CHANGED Marshal 9 "the code sets of a connection cannot change",
    BAD_TYPECODE_INCOMPLETE BadTypecode 1 "the type code is incomplete",
    BAD_TYPECODE_MEMBER BadTypecode 2 "the member's type is not allowed here",
    BAD_TYPECODE_PARAMETER BadTypecode 3 "the parameter's type is not allowed",
    NO_IMPLEMENT_VALUE NoImplement 1 "the value's implementation is missing",
    NO_IMPLEMENT_VALUE_VERSION NoImplement 2 "the value's implementation has another version",
    NO_IMPLEMENT_NO_PROFILE NoImplement 3 "no profile of the reference can be used",
    NO_IMPLEMENT_DII_LOCAL NoImplement 4 "dynamic calls to local objects are not possible",
    NO_IMPLEMENT_LOCAL NoImplement 8 "the operation is not there on local objects",
    NO_RESOURCES_INTERCEPTOR NoResources 1 "this information is not there for interceptors",
    NO_RESOURCES_PRIORITY NoResources 2 "no connection for the priority of the request",
    BAD_INV_ORDER_DEADLOCK BadInvOrder 3 "the operation would wait for itself",
    BAD_INV_ORDER_SHUTDOWN BadInvOrder 4 "the ORB has shut down",
    BAD_INV_ORDER_REQUEST_SENT_TWICE BadInvOrder 5 "a request object can be sent only once",
    BAD_INV_ORDER_SERVANT_MANAGER BadInvOrder 6 "the servant manager is set already",
    BAD_INV_ORDER_SERVER_ARGUMENTS BadInvOrder 7 "arguments were asked for twice or too late",
    BAD_INV_ORDER_SERVER_CONTEXT BadInvOrder 8 "the context was asked for twice, too early or too late",
    BAD_INV_ORDER_SERVER_RESULT BadInvOrder 9 "the result was set twice or too early",
    BAD_INV_ORDER_SENT BadInvOrder 10 "the request was sent already",
    BAD_INV_ORDER_NOT_SENT BadInvOrder 11 "the request was not sent yet",
    BAD_INV_ORDER_TAKEN BadInvOrder 12 "the result was taken already",
    BAD_INV_ORDER_SYNCHRONOUS BadInvOrder 13 "the request was a synchronous one",
    BAD_INV_ORDER_INTERCEPTOR BadInvOrder 14 "not allowed at this interception point",
    BAD_INV_ORDER_CONTEXT_EXISTS BadInvOrder 15 "there is a service context with this id already",
    BAD_INV_ORDER_POLICY_FACTORY BadInvOrder 16 "there is a factory for this policy type already",
    BAD_INV_ORDER_POA_DESTROYED BadInvOrder 17 "a POA that is being destroyed cannot create POAs",
    BAD_INV_ORDER_PRIORITY BadInvOrder 18 "the object has a priority already",
    TRANSIENT_DISCARDED Transient 1 "the POA discards requests, or has no room for another",
    TRANSIENT_NO_PROFILE Transient 2 "no profile of the reference can be used now",
    TRANSIENT_CANCELLED Transient 3 "the request was cancelled",
    TRANSIENT_POA_DESTROYED Transient 4 "the POA was destroyed",
    OBJ_ADAPTER_ACTIVATOR ObjAdapter 1 "the adapter activator raised a system exception",
    OBJ_ADAPTER_SERVANT_TYPE ObjAdapter 2 "the servant manager gave a servant of another type",
    OBJ_ADAPTER_NO_DEFAULT_SERVANT ObjAdapter 3 "the POA has no default servant",
    OBJ_ADAPTER_NO_SERVANT_MANAGER ObjAdapter 4 "the POA has no servant manager",
    OBJ_ADAPTER_INCARNATE ObjAdapter 5 "the servant that incarnate gave breaks a policy of the POA",
    OBJ_ADAPTER_IOR_INTERCEPTOR ObjAdapter 6 "an IOR interceptor failed",
    OBJ_ADAPTER_NULL_SERVANT ObjAdapter 7 "the servant manager gave no servant",
    DATA_CONVERSION_CHARACTER DataConversion 1 "a character is not in the code set in use",
    DATA_CONVERSION_PRIORITY DataConversion 2 "the priority cannot be mapped",
    OBJECT_NOT_EXIST_VALUE ObjectNotExist 1 "an unregistered value was passed as a reference",
    OBJECT_NOT_EXIST_NO_ADAPTER ObjectNotExist 2 "the object adapter does not exist and could not be made",
    OBJECT_NOT_EXIST_INACTIVE ObjectNotExist 4 "the object adapter is inactive",
    INV_POLICY_RECONCILE InvPolicy 1 "the reference's policy and the override contradict each other",
    INV_POLICY_TYPE InvPolicy 2 "the policy's type is not valid",
    INV_POLICY_NO_FACTORY InvPolicy 3 "no factory for the policy's type",
    BAD_OPERATION_SERVANT BadOperation 1 "the servant manager gave a servant of the wrong type",
    BAD_OPERATION_UNKNOWN BadOperation 2 "the object has no such operation or attribute",
    BAD_CONTEXT_NOT_FOUND BadContext 1 "the context does not exist",
    BAD_CONTEXT_NO_PROPERTY BadContext 2 "the context has no matching property",
    CODESET_NEGOTIATION CodesetIncompatible 1 "no code set in common",
    CODESET_UNSUPPORTED CodesetIncompatible 2 "the client chose a code set that the server did not offer",
    INTF_REPOS_UNAVAILABLE IntfRepos 1 "there is no interface repository",
    INTF_REPOS_NO_ENTRY IntfRepos 2 "the interface repository does not have the interface",
    TIMEOUT_POLLER Timeout 1 "no reply arrived while the poller waited",
}

codes! { ISORB ISORB_VMCID:
    MARSHAL_TRUNCATED Marshal 1 "the message ends inside a value",
    MARSHAL_LENGTH Marshal 2 "a length does not fit the bytes that are left",
    MARSHAL_TERMINATOR Marshal 3 "a string is not terminated properly",
    MARSHAL_VALUE Marshal 4 "a boolean, enumerator or discriminator has no such value",
    MARSHAL_BOUND Marshal 5 "a bounded string or sequence is longer than its bound",
    MARSHAL_DEPTH Marshal 6 "values are nested too deeply",
    MARSHAL_TYPECODE Marshal 7 "a type code is malformed",
    MARSHAL_TRAILING Marshal 8 "octets are left over after the last value",
    MARSHAL_OTHER Marshal 9 "a value could not be written or read",
    NO_MEMORY_SCOPE NoMemory 1 "the scope is full: make the region larger",
    NO_MEMORY_POOL NoMemory 2 "the pool of message buffers is exhausted",
    IMP_LIMIT_MESSAGE ImpLimit 1 "the message is larger than its limit",
    IMP_LIMIT_PENDING ImpLimit 2 "too many calls wait for a reply on one connection",
    IMP_LIMIT_NESTING ImpLimit 3 "calls are nested too deeply on one thread",
    IMP_LIMIT_LANE ImpLimit 4 "the message is longer than the message blocks of its lane (messages)",
    IMP_LIMIT_DEFERRED ImpLimit 5 "as many replies are deferred as may be (deferred_replies_per_connection, deferred_replies_per_poa)",
    IMP_LIMIT_VALUE_DEPTH ImpLimit 6 "values are nested in each other more deeply than allowed (value_depth)",
    IMP_LIMIT_VALUE_COUNT ImpLimit 7 "the message has more values than allowed (values_per_message)",
    IMP_LIMIT_PEER ImpLimit 8 "the client has as many calls at the server, or octets of messages, as one client may have (max_peer_calls, max_peer_octets)",
    NO_RESPONSE_DEFERRED NoResponse 1 "the servant deferred its reply and gave none",
    NO_RESOURCES_LANE NoResources 1 "all message blocks of the lane are in use (messages)",
    TRANSIENT_CONNECT Transient 1 "no connection could be opened",
    TRANSIENT_CLOSED Transient 2 "the peer closed the connection before it took the request",
    TRANSIENT_FORWARDS Transient 3 "the object was forwarded too often",
    TRANSIENT_BIDIRECTIONAL Transient 4 "the connection for calls back is gone",
    TRANSIENT_BUSY Transient 5 "the peer has not yet read an earlier request, and the call does not wait for it",
    TRANSIENT_SERVER_STOPPED Transient 6 "the server does not run, and is not started on demand",
    TRANSIENT_SERVER_START Transient 7 "the implementation repository could not start the server",
    TRANSIENT_SERVER_RESTARTS Transient 8 "the implementation repository has started the server as often as it may",
    TRANSIENT_SERVER_WAITING Transient 9 "too many requests wait at the implementation repository for the server",
    TRANSIENT_SERVER_SILENT Transient 10 "the server does not answer the implementation repository",
    TRANSIENT_SHORTAGE Transient 11 "no connection could be opened, since this process or host has no descriptor, port or memory left",
    COMM_FAILURE_LOST CommFailure 1 "the connection was lost while the call was under way",
    COMM_FAILURE_MESSAGE_ERROR CommFailure 2 "the peer could not read a message of ours",
    COMM_FAILURE_PROTOCOL CommFailure 3 "the peer broke the protocol",
    COMM_FAILURE_SEND CommFailure 4 "the request could not be sent completely",
    TIMEOUT_CALL Timeout 1 "the call's time ran out before the reply came",
    TIMEOUT_CONNECT Timeout 2 "the call's time ran out while connecting",
    TIMEOUT_SEND Timeout 3 "the call's time ran out while sending",
    INV_OBJREF_NIL InvObjref 1 "the reference is nil",
    INV_OBJREF_MALFORMED InvObjref 2 "the reference is malformed",
    REBIND_FORBIDDEN Rebind 1 "the client's rebind policy forbids another connection or target",
    NO_PERMISSION_BIDIRECTIONAL NoPermission 1 "calls back over the client's connection were not agreed",
    NO_PERMISSION_READ_ONLY NoPermission 2 "the interface repository is read from IDL files and cannot be changed",
}

/// Codes of omniORB that its users meet most often.
pub(super) const OMNIORB: &[(Kind, u32, &str)] = &[
    (Kind::Transient, OMNIORB_VMCID | 1, "a forwarded reference failed; the original one will be tried"),
    (Kind::Transient, OMNIORB_VMCID | 2, "no connection could be opened"),
    (Kind::Transient, OMNIORB_VMCID | 8, "the call timed out"),
    (Kind::Transient, OMNIORB_VMCID | 14, "the bidirectional connection is gone"),
    (Kind::Transient, OMNIORB_VMCID | 16, "the bidirectional connection is used by no POA"),
    (Kind::Transient, OMNIORB_VMCID | 17, "the connection was closed"),
    (
        Kind::Transient,
        OMNIORB_VMCID | 62,
        "the object was deactivated while its POA manager held the request",
    ),
    (Kind::CommFailure, OMNIORB_VMCID | 3, "the connection broke while arguments were sent"),
    (Kind::CommFailure, OMNIORB_VMCID | 4, "the connection broke while arguments were received"),
    (Kind::CommFailure, OMNIORB_VMCID | 5, "the connection broke while results were sent"),
    (Kind::CommFailure, OMNIORB_VMCID | 6, "the connection broke while results were received"),
    (Kind::CommFailure, OMNIORB_VMCID | 7, "the connection broke before the reply came"),
    (Kind::Timeout, OMNIORB_VMCID | 8, "the call timed out in the client"),
    (Kind::Timeout, OMNIORB_VMCID | 124, "the call timed out in the server"),
    (Kind::Marshal, OMNIORB_VMCID | 9, "the length of a value is not plausible"),
    (Kind::Marshal, OMNIORB_VMCID | 10, "the message ends inside a value"),
    (Kind::Marshal, OMNIORB_VMCID | 11, "the message is larger than the client allows (giopMaxMsgSize)"),
    (Kind::Marshal, OMNIORB_VMCID | 12, "the message is larger than the server allows (giopMaxMsgSize)"),
    (Kind::Marshal, OMNIORB_VMCID | 18, "a sequence is longer than its bound"),
    (Kind::Marshal, OMNIORB_VMCID | 19, "a string is longer than its bound"),
    (Kind::Marshal, OMNIORB_VMCID | 20, "a wide string is longer than its bound"),
    (Kind::Marshal, OMNIORB_VMCID | 22, "a string does not end in its zero octet"),
    (Kind::Marshal, OMNIORB_VMCID | 26, "the enumerator does not exist"),
    (Kind::Marshal, OMNIORB_VMCID | 42, "a fixed-point value is malformed"),
    (Kind::Marshal, OMNIORB_VMCID | 47, "a wide character has an impossible size"),
    (Kind::Marshal, OMNIORB_VMCID | 52, "a reference is malformed"),
    (Kind::Marshal, OMNIORB_VMCID | 69, "the message is larger than its limit (giopMaxMsgSize)"),
    (Kind::Marshal, OMNIORB_VMCID | 90, "an indirection in a type code leads nowhere"),
    (Kind::Marshal, OMNIORB_VMCID | 91, "the kind of a type code does not exist"),
    (Kind::InvObjref, OMNIORB_VMCID | 48, "the reference is nil"),
    (Kind::InvObjref, OMNIORB_VMCID | 54, "the reference is corrupt"),
    (Kind::InvObjref, OMNIORB_VMCID | 55, "the object has another interface than its reference says"),
    (Kind::BadOperation, OMNIORB_VMCID | 38, "the object has no such operation"),
    (Kind::BadInvOrder, OMNIORB_VMCID | 24, "wide text came before a wide code set was agreed"),
    (Kind::Unknown, OMNIORB_VMCID | 98, "the Python servant raised an exception that is no CORBA exception"),
    (Kind::ObjAdapter, OMNIORB_VMCID | 15, "bidirectional GIOP is not allowed by the POA"),
    (Kind::DataConversion, OMNIORB_VMCID | 40, "a value is out of range"),
    (Kind::DataConversion, OMNIORB_VMCID | 41, "text is malformed"),
    (Kind::BadParam, OMNIORB_VMCID | 46, "a wide character is out of range"),
    (Kind::Initialize, OMNIORB_VMCID | 13, "the endpoint could not be opened"),
];

/// The meaning of a minor code in an exception of this kind; `None` for an unknown code.
pub fn sentence(kind: Kind, minor: u32) -> Option<&'static str> {
    let table = match minor & VMCID_MASK {
        OMG_VMCID => OMG,
        ISORB_VMCID => ISORB,
        OMNIORB_VMCID => OMNIORB,
        _ => return None,
    };
    table.iter().find(|(k, m, _)| *k == kind && *m == minor).map(|(_, _, sentence)| *sentence)
}

/// The organisation that assigned a minor code; `None` for an unknown one.
pub fn assigner(minor: u32) -> Option<&'static str> {
    match minor & VMCID_MASK {
        OMG_VMCID => Some("OMG"),
        ISORB_VMCID => Some("isorb"),
        OMNIORB_VMCID => Some("omniORB"),
        TAO_VMCID => Some("TAO"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_code_has_two_meanings() {
        let all: alloc::vec::Vec<_> = OMG.iter().chain(ISORB).chain(OMNIORB).collect();
        for (i, (kind, minor, _)) in all.iter().enumerate() {
            assert!(!all[..i].iter().any(|(k, m, _)| k == kind && m == minor), "{kind} {minor:#x} twice");
        }
    }

    #[test]
    fn sentences_depend_on_the_kind() {
        assert!(sentence(Kind::Transient, OMG_VMCID | 1).unwrap().contains("discards"));
        assert!(sentence(Kind::DataConversion, OMG_VMCID | 1).unwrap().contains("code set"));
        assert_eq!(sentence(Kind::FreeMem, OMG_VMCID | 1), None);
        assert_eq!(assigner(0x4154_0002), Some("omniORB"));
        assert_eq!(assigner(2), None);
    }
}
