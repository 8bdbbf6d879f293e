//! Recordings of events in a file: payloads, times, and what was lost.
//!
//! ```text
//!  event ─► Recorder: a bounded buffer ─► its thread ─► file ─► Reader ─► event
//! ```
//!
//! It knows no channel and no ORB: `isorb event record` and `isorb event replay` connect the two.
//! The octets of the file are described in `docs/reference/event-file.md`.
//!
//! ```
//! use isorb_event_file::{Reader, Record, RecordedEvent, Recorder, RecorderOptions};
//!
//! # let folder = isorb_testkit::TempFolder::new();
//! # let path = folder.file("flight.events");
//! let recorder = Recorder::create(&path, RecorderOptions::default())?;
//! recorder.record(&RecordedEvent { event_type: 16, octets: b"48.2N 16.3E", ..RecordedEvent::default() });
//! assert_eq!(recorder.finish()?.events, 1);
//!
//! let mut reader = Reader::open(&path)?;
//! let Some(Record::Event(event)) = reader.next()? else { panic!("an event") };
//! assert_eq!(event.octets, b"48.2N 16.3E");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod format;
mod reader;
mod recorder;

pub use format::{Loss, LossCause, Record, RecordedEvent, Totals, VERSION};
pub use reader::{Damage, OpenError, Reader};
pub use recorder::{Recorder, RecorderOptions, RecordingCounts};
