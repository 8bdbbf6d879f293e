//! The timeline of what event channels did: trace files in, a page or a Perfetto trace out.
//!
//! A [`Timeline`] builds rows of runs and marks from [`Recording`](isorb_trace::Recording)s. It is
//! drawn as a page in the manner of figures 12 and 13 of the TAO event service paper
//! ([`Timeline::page`]), or as a trace for Perfetto ([`Timeline::perfetto`]).
//!
//! It is not a profiler: it knows the calls of consumers, not what they do. It is not live either;
//! see `isorb event-channel --admin` for that. Nothing here is meant for real-time threads.
//!
//! ```
//! use isorb_timeline::Timeline;
//! use isorb_trace::{RecordKind, Participant, Record, Recording, Role, Track};
//!
//! let begin = Record { at: 1_000, kind: RecordKind::Begin, level: 2, id: 7, a: 0, b: 0 };
//! let end = Record { at: 1_500, kind: RecordKind::End, a: 500, ..begin };
//! let recording = Recording {
//!     name: "cockpit".into(),
//!     participants: vec![Participant {
//!         role: Role::Consumer,
//!         id: 7,
//!         name: "display".into(),
//!         deadline: Some(2_000),
//!     }],
//!     tracks: vec![Track { thread: "main".into(), overwritten: 0, records: vec![begin, end] }],
//!     ..Recording::default()
//! };
//! let timeline = Timeline::of("flight", &[recording]);
//! assert_eq!(timeline.rows[0].runs.len(), 1);
//! assert!(timeline.page().contains("display"));
//! ```
#![forbid(unsafe_code)]

mod causes;
mod clocks;
mod page;
mod perfetto;
mod preemptions;
mod rows;
mod summary;

pub use clocks::Clock;
pub use rows::{Gap, Mark, Phase, Refusal, Row, Run, Timeline};
pub use summary::Summary;
