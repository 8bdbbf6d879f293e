//! The real-time event channel. Suppliers push events, consumers receive those that they subscribed
//! to, in order of priority, and neither know each other. It is TAO's Real-time Event Service as
//! its paper describes it, without the parts that need an ORB: a program with suppliers and
//! consumers in one process needs no IDL.
//!
//! ```text
//!  supplier ─► ProxyPushConsumer ─► filtering ─► correlation ─► dispatching ─► consumer
//!                                    table       registration    Direct, or queues and threads
//!                    timers ───────────────────────┘
//! ```
//!
//! It is not a log (without a [history](ChannelBuilder::history) an event without subscribers is
//! lost), not a transport (see [`federation`] and
//! `servants`), and not a scheduler (it asks one when a consumer connects).
//!
//! ```
//! use isorb_event::{Channel, ConsumerQos, Event, Filter};
//! use std::sync::Arc;
//! use std::sync::atomic::{AtomicU32, Ordering};
//!
//! const POSITION: i32 = 16;
//! const GPS: i32 = 1;
//!
//! let channel = Channel::builder().build()?;
//! let received = Arc::new(AtomicU32::new(0));
//! let count = received.clone();
//! let display = move |events: &[Event<'_>]| {
//!     count.fetch_add(events.len() as u32, Ordering::Relaxed);
//! };
//! let qos = ConsumerQos::new("display", Filter::of(POSITION, GPS));
//! let _connected = channel.for_consumers().connect(Arc::new(display), qos)?;
//!
//! let gps = channel.for_suppliers().connect()?;
//! assert_eq!(gps.push(&Event::new(POSITION, GPS).octets(b"48.2N 16.3E")).taken, 1);
//! assert_eq!(gps.push(&Event::new(POSITION, 99)).taken, 0);
//! assert_eq!(received.load(Ordering::Relaxed), 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]
// Loom models have no servants, so some parts are unused.
#![cfg_attr(loom, allow(dead_code))]

mod admin;
mod batch;
mod chains;
mod changes;
mod channel;
mod clock;
mod config;
mod connection;
mod consumer;
mod content;
mod core;
mod correlation;
mod counters;
pub mod designator;
pub mod dispatch;
mod error;
mod event;
pub mod federation;
mod filter;
mod instances;
mod kernel;
pub mod latency;
#[cfg(all(test, loom))]
mod loom_tests;
mod modules;
mod observer;
mod ownership;
mod placement;
mod registrations;
mod registry;
#[cfg(not(loom))]
pub mod remote;
mod retention;
mod scheduled;
mod scheduled_processors;
#[cfg(not(loom))]
pub mod servants;
mod supplier;
mod table;
mod timer;
mod view;

pub use admin::{
    ConsumerAdmin, ConsumerQos, ProxyPushConsumer, ProxyPushSupplier, Pushed, Registrations, SupplierAdmin,
};
pub use chains::ChainId;
pub use channel::{Channel, ConsumerStatus};
pub use clock::{Clock, Monotonic, VirtualClock};
pub use config::{ChannelBuilder, Limits};
pub use consumer::{Failure, PushConsumer, Resume};
pub use content::{ContentError, ContentFilter, ContentLimits, PayloadError};
pub use counters::{Counts, Totals};
pub use dispatch::{Strategy, ThreadSetup, yield_now};
pub use error::{ConnectError, OtherPreemption, StartError, SwapError};
pub use event::{Data, Event, Header, Origin, SizeClass, Stamp};
#[cfg(not(loom))]
#[doc(hidden)]
pub use filter::parse_union;
pub use filter::{
    Dependency, Filter, MAX_DEPTH, MAX_OPERATIONS, MAX_TERMS, Malformed, OperationFilters, encode, parse,
    parse_operations,
};
pub use isorb_rt::priority::Priority;
pub use isorb_rt::queue::Overflow;
pub use latency::{Histogram, Latencies};
pub use modules::{
    Configuration, Fixed, FixedBroadcaster, FixedDiscriminator, FixedFiltering, ModuleSet, Replaceable,
};
pub use observer::Observer;
pub use ownership::Ownership;
pub use placement::{
    AsDeclared, Containment, NotAdmitted, Placement, Quality, RunTimeScheduler, SubPriority,
};
pub use retention::{HistoryQos, HistoryRequest, HistoryStatus, Lifespan, StreamStatus};
pub use scheduled::Scheduled;
pub use scheduled_processors::ScheduledProcessors;
pub use supplier::{MAX_PUBLICATIONS, Publication, SupplierQos, Undeclared};
