//! What an event channel did in time, for people: records in, text out.
//!
//! A [`Recording`] is what the trace of a [`Channel`](isorb_event::Channel) held at a moment, with the names of suppliers and consumers. It
//! is kept in a compact file ([`encode`], [`decode`]), read into rows of runs and marks ([`Timeline`]), and drawn: as a page in the
//! manner of figures 12 and 13 of paper 001 ([`Timeline::page`]), or as a trace for Perfetto ([`Timeline::perfetto`]).
//!
//! What it is not: a profiler (it knows the calls of consumers, not what they do), nor live (see `isorb event-channel --admin` for that).
//! Nothing here is meant for real-time threads.
//!
//! ```
//! use isorb_event::{Channel, Config, ConsumerQos, Event, Filter};
//! use isorb_timeline::{Recording, Timeline, decode, encode};
//! use std::sync::Arc;
//!
//! let channel = Channel::new(Config { trace: true, ..Config::default() })?;
//! let wants = ConsumerQos::of("display", Filter::of_type(16));
//! let _display = channel.for_consumers().connect(Arc::new(|_: &[Event<'_>]| ()), wants)?;
//! let gps = channel.for_suppliers().connect()?;
//! gps.push(&Event::new(16, 1));
//!
//! let file = encode(&Recording::of("cockpit", &channel, &[(gps.id(), "gps")]));
//! let timeline = Timeline::of("flight", &[decode(&file)?]);
//! assert_eq!(timeline.rows.len(), 2);
//! assert!(timeline.page().contains("display"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod format;
mod losses;
mod page;
mod perfetto;
mod recording;
mod rows;
mod summary;

pub use format::{Unreadable, VERSION, decode, encode};
pub use recording::{Party, Recording, Role};
pub use rows::{Gap, Mark, Row, Run, Timeline};
pub use summary::Summary;
