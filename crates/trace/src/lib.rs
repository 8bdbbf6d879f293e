//! Records of what threads did in time: how they are taken, and the file that keeps them.
//!
//! Real-time threads write fixed-size [`Record`]s to the rings of a [`Recorder`]. Code that only
//! one thread runs uses a [`RecordBuffer`]. A [`Recording`] adds the names of the participants;
//! [`encode`] writes it as a compact file and [`decode`] reads it back.
//!
//! It does not draw anything (`isorb-timeline` does) and knows no ORB.
//!
//! ```
//! use isorb_trace::{Participant, Record, RecordBuffer, RecordKind, Recording, Role};
//! use isorb_trace::{decode, encode};
//!
//! let mut buffer = RecordBuffer::new(16);
//! buffer.add(Record { at: 1_000, kind: RecordKind::Push, level: 0, id: 7, a: 0, b: 0 });
//! let recording = Recording {
//!     name: "cockpit".into(),
//!     participants: vec![Participant {
//!         role: Role::Supplier,
//!         id: 7,
//!         name: "gps".into(),
//!         deadline: None,
//!     }],
//!     tracks: vec![buffer.track("main")],
//!     ..Recording::default()
//! };
//! assert_eq!(decode(&encode(&recording))?, recording);
//! # Ok::<(), isorb_trace::DecodeError>(())
//! ```
#![forbid(unsafe_code)]

mod buffer;
mod file;
mod processors;
mod record;
mod recorder;
mod recording;
mod ring;

pub use buffer::RecordBuffer;
pub use file::{DecodeError, VERSION, decode, encode};
pub use record::{DropReason, Record, RecordKind, Track};
pub use recorder::{OpenRun, Recorder, RecorderLimits};
pub use recording::{NeighbourClock, Participant, Phase, Recording, Refusal, Role};
