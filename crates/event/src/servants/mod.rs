//! The channel as CORBA objects.
//!
//! [`RtecEventService`] has TAO's interfaces ([`stamped`] and [`plain`] are the two layouts of an
//! event), [`CosEventService`] those of the OMG's Event Service. Both may serve one channel. Remote
//! consumers have a dispatcher, queues and a time-out of their own, so that a slow or dead one
//! delays no consumer in the process.

pub(crate) mod any;
pub(crate) mod backoff;
mod binder;
mod codec;
mod control;
mod cos;
mod cos_pull;
mod dependencies;
mod federation;
mod notifier;
mod observers;
mod proxies;
mod registered;
mod registrations;
mod remote_peer;
mod replay;
mod service;
mod supplier_peer;
mod supplier_proxy;
mod udp;
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

pub use cos::CosEventService;
pub use dependencies::{DependencyRecorder, Unscheduled};
pub use federation::{FederationServant, LinkError, LinkOptions, beyond_this_host};
pub use registered::{LevelsError, RegisteredOperations};
pub use registrations::RegistrationStore;
pub use service::{EventServiceOptions, Layout, RtecEventService, peer_proxies};
#[doc(hidden)]
pub use udp::DatagramFeed;
pub use udp::{UdpGateway, UdpOptions};
