//! Event channels on different sites, federated through [zenoh](https://zenoh.io) routers.
//!
//! A [`Gateway`] connects a channel with the backbone. It announces what the channel's consumers
//! want, and sends what consumers of other sites want; nothing else crosses a router.
//!
//! ```text
//!   suppliers ─► channel ─► Gateway ─► zenoh router ─► zenoh router ─► Gateway ─► channel ─► consumers
//!                              ◄── interests: liveliness tokens ──────────┘
//! ```
//!
//! ```no_run
//! use isorb_event::Channel;
//! use isorb_event_zenoh::{Gateway, Settings};
//!
//! let channel = Channel::builder().build()?;
//! let gateway = Gateway::start(&channel, Settings::new("plant", "vienna", vec!["tcp/10.0.0.1:7447".into()]))?;
//! // Suppliers and consumers connect to the channel as ever.
//! println!("{:?}", gateway.counts());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A [`Bridge`] does the same for a channel in another process, by its URL. The program
//! `isorb-event-zenoh` runs a bridge, or a [`Router`].
//!
//! # What is promised
//! - A consumer receives the events of a type and source of one site in order and never twice.
//! - An event that came from another site is not sent on, and each hop takes one of its `ttl`. So
//!   there are no loops, as long as a channel has one gateway and is not linked with another site
//!   in a second way.
//! - An event that is lost on its way is counted ([`GatewayCounts`]), and the first of each kind is
//!   logged. Remote consumers of the channel learn of it, too, by the numbers of events.
//! - An event is sent once, at the most urgent of zenoh's priorities at which a consumer elsewhere
//!   wants it. The CORBA priorities of consumers map to zenoh's seven in equal parts.
//! - With [`Settings::history`], a site that begins to want events receives the last ones, and lost
//!   events are requested again, while the sender has them.
//!
//! # What is not
//! zenoh's links are neither encrypted nor authenticated here. A program that reaches a router can
//! read and forge events; a forged number costs a bounded number of events. Put routers into
//! networks that are trusted, or into a VPN.

mod backbone;
mod bridge;
mod counts;
mod gateway;
mod incoming;
mod interests;
mod keys;
mod message;
mod outgoing;
mod pattern;
mod settings;
mod streams;

pub use backbone::Router;
pub use bridge::{Bridge, BridgeError};
pub use counts::GatewayCounts;
pub use gateway::{Gateway, Watcher};
pub use settings::{GatewayError, History, Settings};
