//! General Inter-ORB Protocol (CORBA 3.3 part 2, clause 9): messages, references, service contexts,
//! object URLs.
//!
//! The protocol without I/O: bytes in, values out, and back. This crate opens no socket, reads no
//! clock and starts no thread. The modules on a request's path ([`header`], [`message`]) borrow
//! from the message and allocate nothing; references ([`ior`], [`profile`], [`component`]) and URLs
//! ([`url`]) are owned.
//!
//! ```
//! use isorb_giop::{Header, message::{self, Request, Response}};
//! use isorb_cdr::{Encoder, Text};
//! use isorb_scope::Region;
//!
//! let mut e = Encoder::new(Vec::new(), Text::DEFAULT);
//! message::write_request(&mut e, 4, Response::Target, b"key", "sample", &[]);
//! let body = message::begin_body(&mut e);
//! e.put(3i32);
//! message::end_body(&mut e, body);
//! let mut written = e.finish().unwrap();
//! message::finish_header(&mut written).unwrap();
//!
//! let mut bytes = written.into_buffer();
//! let header = Header::parse(bytes.first_chunk().unwrap()).unwrap();
//! assert_eq!(header.total(), bytes.len());
//! let mut region = Region::new(64);
//! let scope = region.enter();
//! let mut d = message::start(&mut bytes, &header, &scope).unwrap();
//! let request = Request::read(&mut d).unwrap();
//! message::body(&mut d);
//! assert_eq!((request.operation.text(), d.get::<i32>()), (Ok("sample"), Ok(3)));
//! ```
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;

mod address_profile;
pub mod codeset;
pub mod component;
pub mod connection;
pub mod context;
pub mod csi;
mod cursor;
mod error;
pub mod exception;
pub mod explain;
pub mod fragment;
pub mod header;
pub mod ior;
pub mod lane_endpoints;
pub mod message;
#[cfg(feature = "miop")]
pub mod miop;
pub mod name;
mod octets;
pub mod policy;
pub mod profile;
pub mod url;

pub use address_profile::AddressProfile;
pub use error::{Answer, ProtocolError};
pub use exception::{Completion, Kind, SystemException, minor};
pub use header::{Header, MessageKind};
pub use ior::Ior;
pub use isorb_cdr::Version;
pub use name::{Name, NameComponent};
pub use profile::{IiopProfile, TaggedProfile};
pub use url::{ObjectUrl, UrlError, UrlErrorKind};
