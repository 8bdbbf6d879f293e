//! isorb: an isochronous object request broker.
//!
//! Real-Time CORBA in Rust. A servant is a type that implements the trait that the IDL compiler
//! made from an interface; the methods of a typed reference call it, wherever it is.
//!
//! ```text
//!   stub (generated) ─► invoke ─► connection ─► wire ─► connection ─► dispatch ─► POA ─► skeleton (generated) ─► servant
//! ```
//!
//! It is not an executor. It starts only the threads that its configuration asks for; a call runs
//! on the thread that made it, a request on the thread that read it.
#![forbid(unsafe_code)]

// Generated code says `::isorb`, here too.
extern crate self as isorb;

mod binding;
mod buffers;
mod caller;
mod config;
mod connection;
mod deferred;
mod dispatch;
// Its names are a static, which loom has not.
#[cfg(not(loom))]
mod dynamic;
pub mod generated;
#[cfg(feature = "miop")]
mod group;
mod guard;
mod hot;
mod indirect;
pub mod interceptor;
mod interface;
mod invoke;
mod lent;
#[cfg(not(loom))]
mod loan;
mod log;
mod object;
mod orb;
mod orb_core;
mod peer;
pub mod poa;
mod policy;
mod pool;
mod principal;
mod pseudo;
mod reference;
mod request_forwarder;
pub mod rt;
mod sched;
mod servant;
mod server;
mod settings;
mod standard;
mod statistics;
mod transports;
mod unknown_target;
mod upcall;
mod value;
mod value_type;

pub use caller::Caller;
pub use config::{Concurrency, Config};
pub use connection::ConnectionWatcher;
pub use deferred::Deferred;
#[cfg(not(loom))]
pub use dynamic::{DynamicInterface, DynamicOperation, DynamicReply, DynamicRequest, DynamicServant, Mode};
pub use guard::Guard;
pub use interface::{Interface, Operation, Operations};
pub use invoke::{AnyPending, Pending, PendingCall, Reply, wait_any};
pub use isorb_any::{
    Any, Codec, CodecError, DynAny, DynAnyError, ENCODING_CDR_ENCAPS, Encoding, TypeCode, UnknownEncoding,
};
#[doc(hidden)]
pub use isorb_cdr::by_value;
pub use isorb_cdr::{Arg, Fixed, Lent, LentIter, LongDouble, SeqArg, WChar, WString, each};
pub use isorb_giop::{Completion, Kind, SystemException, minor};
pub use isorb_scope::{Region, Scope};
pub use isorb_transport as transport;
#[cfg(not(loom))]
pub use loan::Loan;
pub use object::Object;
#[doc(hidden)]
pub use orb::SERVER_TOKEN;
pub use orb::{BufferCounts, ConnectionCounts, OrbBuilder, ServedConnection};
pub use orb_core::Orb;
pub use poa::Poa;
pub use policy::{
    CreatePolicyError, Policies, PolicyErrorReason, Rebind, SyncScope, set_thread_policies, thread_policies,
};
pub use principal::Principal;
pub use reference::{IsA, RefArg, Reference};
pub use request_forwarder::RequestForwarder;
pub use servant::{IntoServant, Outcome, Servant, Serves};
pub use standard::corba;
pub use statistics::{LaneRequests, OperationRequests, RequestCounts};
pub use transports::TransportConfig;
pub use unknown_target::UnknownTargetObserver;
pub use upcall::Upcall;
pub use value::{AbstractBase, CustomMarshal, Link, Value, ValueBase};
pub use value_type::{ReadState, ValueType};
#[doc(hidden)]
pub use zerocopy;

/// The names that most programs use: `use isorb::prelude::*;`.
pub mod prelude {
    pub use crate::poa::{Poa, PoaPolicies};
    pub use crate::{
        Any, Config, IsA, Kind, Object, Orb, Policies, Reference, Result, Scope, SystemException, Upcall,
    };
}

/// The result of an operation: the value, or the exception.
pub type Result<T, E = SystemException> = std::result::Result<T, E>;

/// Includes the code that `build.rs` generated from an IDL file: `isorb::include_idl!("sensors")`
/// for `sensors.idl`.
#[macro_export]
macro_rules! include_idl {
    ($name:literal) => {
        include!(concat!(env!("OUT_DIR"), "/", $name, ".rs"));
    };
}
