//! `isorb event record`.

use super::Outcome;
use super::selection::{ConsumerArgs, seconds};
use crate::commands::arguments::{object_url, to_write};
use isorb::Orb;
use isorb_event::remote::{Notice, RemoteChannel};
use isorb_event_file::{RecordedEvent, Recorder, RecorderOptions, RecordingCounts};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// URL of the channel, from its line READY.
    #[arg(value_parser = object_url)]
    url: String,
    /// File to write; one that is there is replaced.
    #[arg(value_parser = to_write())]
    file: PathBuf,
    #[command(flatten)]
    consumer: ConsumerArgs,
    /// Time after which it ends, in seconds [default: when it is interrupted].
    #[arg(long, value_parser = seconds)]
    seconds: Option<Duration>,
    /// Number of events after which it ends.
    #[arg(long)]
    count: Option<u64>,
    /// Events that may wait for the disk, in MiB. The memory is twice as much.
    #[arg(long, value_name = "MIB", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=4096))]
    buffer: u32,
}

pub fn run(args: &Args, orb: &Orb) -> Outcome {
    let failed = |error: std::io::Error| format!("{}: {error}", args.file.display());
    let options = RecorderOptions { buffer: (args.buffer as usize) << 20 };
    // The channel first: without it no file is replaced.
    let gaps: Arc<OnceLock<Arc<Recorder>>> = Arc::default();
    let noted = gaps.clone();
    let (count, recorded) = (args.count.unwrap_or(u64::MAX), Arc::new(AtomicU64::new(0)));
    let so_far = recorded.clone();
    let channel = RemoteChannel::builder()
        .notify(move |notice| match (notice, noted.get()) {
            // What is lost behind the last event is not missing in the recording.
            (Notice::Lost(_) | Notice::Late { .. }, Some(_)) if so_far.load(Relaxed) >= count => {}
            (Notice::Lost(gap), Some(recorder)) => {
                recorder.record_loss(gap.event_type, gap.source, gap.lost());
            }
            (Notice::Late { event_type, source, .. }, Some(recorder)) => {
                recorder.record_late(*event_type, *source);
            }
            _ => isorb_rt::log::warn("isorb::event", format_args!("{notice}")),
        })
        .connect(orb, &args.url)?;
    let recorder = Arc::new(Recorder::create(&args.file, options).map_err(failed)?);
    let _ = gaps.set(recorder.clone());
    let begin = Instant::now();
    let (selection, records) = (args.consumer.selection.clone(), recorder.clone());
    let (end, ended) = mpsc::channel();
    let full = end.clone();
    let consumer =
        channel.consume_with(args.consumer.qos(), args.consumer.selection.filter(), move |event| {
            if selection.has(event.header.event_type) {
                let number = recorded.fetch_add(1, Relaxed) + 1;
                if number > count {
                    return;
                }
                records.record(&RecordedEvent {
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
                if number == count {
                    let _ = full.send(());
                }
            }
        })?;
    end_at_signals(end)?;
    writeln!(std::io::stdout(), "RECORDING {}", args.file.display())?;
    match args.seconds {
        // An error is the end of the time.
        Some(time) => drop(ended.recv_timeout(time)),
        None => ended.recv()?,
    }
    let took = begin.elapsed();
    drop(consumer);
    let finished = recorder.finish();
    print(&recorder.counts(), took)?;
    Ok(finished.map(drop)?)
}

/// Ends the recording at SIGINT and SIGTERM.
fn end_at_signals(end: Sender<()>) -> Outcome {
    let (wake, mut woken) = UnixStream::pair()?;
    for signal in [SIGINT, SIGTERM] {
        signal_hook::low_level::pipe::register(signal, wake.try_clone()?)?;
    }
    std::thread::Builder::new().name("isorb-signals".into()).spawn(move || {
        // A failure ends the recording too: no signal could end it any more.
        let _ = woken.read_exact(&mut [0]);
        let _ = end.send(());
    })?;
    Ok(())
}

fn print(counts: &RecordingCounts, took: Duration) -> Outcome {
    let RecordingCounts { events, octets, lost_on_the_way, buffer_full, not_written, after_end } = counts;
    let mut output = std::io::stdout();
    writeln!(output, "{events} events, {octets} octets of payload, in {:.1} s", took.as_secs_f64())?;
    if counts.lost() > 0 {
        writeln!(
            output,
            "{} lost: {lost_on_the_way} on their way (gaps in the numbers of suppliers), {buffer_full} because the \
             buffer was full (--buffer), {not_written} that the disk did not take",
            counts.lost()
        )?;
    }
    if *after_end > 0 {
        writeln!(output, "{after_end} more came while it ended, and are not in it")?;
    }
    Ok(())
}
