//! Recording events into a file in memory (tmpfs), at a rate.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use isorb_event::{Channel, ConsumerQos, Event, Filter};
use isorb_event_file::{RecordedEvent, Recorder, RecorderOptions, RecordingCounts};
use isorb_rt::time::{Deadline, now_ns, sleep_until};

use super::super::refused;
use super::{CHANNEL, NAME};
use crate::blocks::keep;
use crate::experiments::{BenchError, Context};
use crate::figure::{Measured, Values};

pub const FIGURE: &str = "recording";
/// A buffer for less than the recorder's thread collects before it writes.
pub const SMALL_BUFFER: &str = "small-buffer";

/// Events a second, and their payload.
pub const RATE: u32 = 500_000;
const OCTETS: usize = 256;
/// The file has more than the payload of an event.
const IN_FILE: u64 = 352;
/// A tmpfs on all of today's distributions.
const FOLDER: &str = "/dev/shm";
const SMALL: usize = 64 << 10;

/// Records for three seconds, or 30. The control takes a tenth.
pub fn run(cx: &mut Context<'_>, out: &mut Measured) -> Result<(), BenchError> {
    let ms = cx.ms(3_000, 30_000);
    cx.progress(format!("{NAME}: a recording"));
    let octets = u64::from(ms) * u64::from(RATE) / 1000 * IN_FILE;
    let free = rustix::fs::statvfs(FOLDER).map_or(0, |of| of.f_bavail.saturating_mul(of.f_frsize));
    if free < octets.saturating_mul(2) {
        out.note(format!(
            "recording: not measured, since {FOLDER} has {} MiB free and twice the {} of the file are asked for",
            free >> 20,
            octets >> 20
        ));
        return Ok(());
    }
    for (name, buffer, ms) in
        [(CHANNEL, RecorderOptions::default().buffer, ms), (SMALL_BUFFER, SMALL, ms / 10)]
    {
        let folder = tempfile::tempdir_in(FOLDER).map_err(refused)?;
        // Its thread is an ordinary one, on any processor.
        let recorder = Recorder::create(folder.path().join("events"), RecorderOptions { buffer });
        let recorder = Arc::new(recorder.map_err(refused)?);
        let records = recorder.clone();
        let seconds = cx.on_thread(move || push(records, ms))??;
        let counts = recorder.finish().map_err(refused)?;
        out.row(FIGURE, name, 1.0, values(&counts, seconds, folder.path()));
    }
    Ok(())
}

/// Pushes at the rate, a millisecond's events at once. Returns the seconds that it took.
fn push(recorder: Arc<Recorder>, ms: u32) -> Result<f64, BenchError> {
    let channel = Channel::builder().build().map_err(refused)?;
    let record = move |events: &[Event<'_>]| {
        for event in events {
            recorder.record(&RecordedEvent {
                event_type: event.header.event_type,
                source: event.header.source,
                ttl: event.header.ttl,
                pad1: event.data.pad1,
                at_ns: 0,
                creation_time: event.header.creation_time,
                supplier: event.origin.supplier,
                number: event.origin.number,
                octets: event.data.octets,
                any: event.data.any,
            });
        }
    };
    let qos = ConsumerQos::new("recorder", Filter::of(20, 1));
    let _connected = channel.for_consumers().connect(Arc::new(record), qos).map_err(refused)?;
    let supplier = channel.for_suppliers().connect().map_err(refused)?;
    let event = Event::new(20, 1).octets(&[7; OCTETS]);
    let begin = now_ns();
    for at in 0..u64::from(ms) {
        // A thread that was late catches up.
        sleep_until(Deadline::at_ns(begin + at * 1_000_000));
        (0..RATE / 1000).for_each(|_| keep(supplier.push(&event)));
    }
    Ok(Duration::from_nanos(now_ns() - begin).as_secs_f64())
}

fn values(counts: &RecordingCounts, seconds: f64, folder: &Path) -> Values {
    let exact = |n: u64| n as f64;
    let file = std::fs::metadata(folder.join("events")).map_or(0, |file| file.len());
    vec![
        ("events", exact(counts.events)),
        ("lost", exact(counts.lost())),
        ("seconds", seconds),
        ("events_per_second", exact(counts.events + counts.lost()) / seconds),
        ("file_octets", exact(file)),
    ]
}
