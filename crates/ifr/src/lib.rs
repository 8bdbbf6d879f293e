//! The Interface Repository (CORBA 3.3 part 1, clause 14): a service that answers from IDL files,
//! and a client that finds the interfaces of objects for dynamic calls.
//!
//! A repository holds what IDL says, as objects: a tool that has only a reference learns what it
//! can call. This one is read from IDL files and cannot be changed over the ORB. It has no
//! components, homes and event types.
//!
//! ```text
//!   IDL files ─► Contents ─► RepositoryService ◄── lookup_id ── servers that answer _get_interface
//!                 │                 ▲
//!                 └─ TypeCodes      └── describe_interface ── InterfaceCache ─► Contract ─► DynamicOperation
//! ```
//!
//! ```no_run
//! use isorb_ifr::{Contents, InterfaceCache, RepositoryService};
//! use std::sync::Arc;
//!
//! // The service.
//! let orb = isorb::Orb::init(["-ORBEndPoint".into(), "127.0.0.1:3699".into()])?;
//! let contents = Contents::compile(&["plant.idl".into()], &[]).expect("correct IDL");
//! let service = RepositoryService::start(&orb, Arc::new(contents))?;
//! println!("{}", service.object());
//!
//! // A client: the reference of a pump is all that it has.
//! let pump = orb.string_to_object("corbaname::lab#pump")?;
//! let interfaces = InterfaceCache::new(Some(orb.resolve("corbaloc::lab:3699/InterfaceRepository")?));
//! let start = interfaces.of_object(&pump)?.operation("start")?;
//! let reply = isorb::DynamicRequest::new(&pump, &start).invoke()?;
//! # let _ = reply;
//! # Ok::<(), isorb::SystemException>(())
//! ```
//!
//! # Real-time
//! For tools and tests: everything here allocates.
#![forbid(unsafe_code)]

mod cache;
mod contents;
mod contract;
mod operations;
mod service;
mod type_codes;

isorb::include_idl!("interface_repository");

pub use cache::InterfaceCache;
pub use contents::Contents;
pub use contract::{Contract, MAX_EXCEPTIONS, MAX_OPERATIONS, MAX_PARAMETERS};
pub use operations::{operation, operations, wire_names};
pub use service::RepositoryService;
pub use type_codes::TypeCodes;
