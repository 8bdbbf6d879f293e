//! Two hosts and a bad link inside one machine, for tests and experiments.
//!
//! Three things that do not know each other:
//!
//! - A [`Lab`]: two network namespaces with a link of a stated rate between them, which sorts
//!   packets as asked ([`Sorting`]): not at all, by DSCP, or by the sockets' priority. Whole
//!   processes run in a host ([`Host::command`]), or threads of the test ([`Host::run`]). Dropping
//!   the lab removes it, and the next lab removes remains of a killed test. It needs root, `ip` and
//!   `tc`; [`Lab::build`] names the missing one.
//! - A [`Net`]: any number of namespaces at one switch. It can cut pairs off, and counts what
//!   each has sent.
//! - [`Impairment`]: loss, delay, jitter, duplication and reordering as a pure state machine, the
//!   same for the same seed; and relays that put it between a client and a server which know
//!   nothing of it ([`relay`]), on any machine and without rights.
//!
//! ```no_run
//! use isorb_netlab::{Lab, LinkSpec, Sorting};
//!
//! let lab = Lab::build(&LinkSpec { rate_kbit: 100_000, sorting: Sorting::one_queue() })?;
//! let server = lab.left().run(|| std::net::TcpListener::bind("0.0.0.0:7000"))??;
//! let status = lab.right().command("ss").arg("-t").status()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! It is not an emulator of wide networks: the link has a rate, a queue and an order; distance is
//! an impairment's delay.
#![forbid(unsafe_code)]

mod error;
mod host;
mod impair;
mod lab;
mod link;
mod net;
pub mod relay;
mod tool;

pub use error::LabError;
pub use host::Host;
pub use impair::{Impairment, Plan};
pub use lab::Lab;
pub use link::{Class, LinkSpec, Sorting};
pub use net::Net;
pub use tool::tool_place;
