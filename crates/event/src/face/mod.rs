//! The channel as CORBA objects.
//!
//! [`RealTimeFace`] has TAO's interfaces ([`stamped`] and [`plain`] are the two layouts of an event), [`StandardFace`] those of the
//! OMG's Event Service. Both may serve one channel. A remote consumer is served by a dispatcher of its own kind, so that a
//! slow or dead one holds up the threads of no consumer in the process, and has a queue of its own and a time-out.

mod any;
mod control;
mod cos;
mod cos_pull;
mod link;
mod observers;
mod options;
mod patience;
mod proxies;
mod registered;
mod supplying;
mod teller;
mod udp;
mod words;
/// The generated modules of the standard Event Service.
#[allow(missing_docs)]
pub mod standard {
    include!(concat!(env!("OUT_DIR"), "/cos/cos_event_channel_admin.rs"));
}
/// The generated modules of the links of a federation.
#[allow(missing_docs)]
pub mod isorb_link {
    include!(concat!(env!("OUT_DIR"), "/link/isorb_event.rs"));
}
pub mod plain;
pub mod stamped;

pub use cos::StandardFace;
pub use link::{LinkError, LinkOptions, Neighbourhood};
pub use options::{FaceOptions, Layout, RealTimeFace};
pub use registered::{LevelsError, RegisteredOperations};
pub use udp::{UdpGateway, UdpOptions};
