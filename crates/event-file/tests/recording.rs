//! Recordings, whole and damaged, and on a full disk.

use isorb_event_file::{
    LossCause, OpenError, Reader, Record, RecordedEvent, Recorder, RecorderOptions, RecordingCounts, Totals,
};
use isorb_rt::alloc_count::allocations_during;
use isorb_testkit::{TempFolder, fill_disk, on_small_disk, wait_until};
use proptest::prelude::*;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

#[global_allocator]
static ALLOCATOR: isorb_rt::alloc_count::CountingAllocator = isorb_rt::alloc_count::CountingAllocator;

/// Without the data.
const PER_EVENT: usize = 12 + 56;
const HEADER: usize = 24;

fn event(number: u64, octets: &[u8]) -> RecordedEvent<'_> {
    let (event_type, source) = (16 + (number % 3) as i32, -1);
    RecordedEvent { event_type, source, number, supplier: 5, octets, ..RecordedEvent::default() }
}

/// A recording of events with these payloads, numbered from 1.
fn recording(path: &Path, payloads: &[Vec<u8>]) -> RecordingCounts {
    let recorder = Recorder::create(path, RecorderOptions { buffer: 1 << 20 }).unwrap();
    for (at, payload) in payloads.iter().enumerate() {
        recorder.record(&event(at as u64 + 1, payload));
    }
    recorder.finish().unwrap()
}

/// The numbers of the events that are whole, the number of damaged pieces, and the end if there is
/// one.
fn read(octets: &[u8]) -> Result<(Vec<u64>, u64, Option<Totals>), OpenError> {
    let mut reader = Reader::new(octets)?;
    let (mut numbers, mut end) = (Vec::new(), None);
    let mut before = 0;
    while let Some(record) = reader.next()? {
        match record {
            Record::Event(event) => {
                assert!(event.at_ns >= before);
                before = event.at_ns;
                assert_eq!(
                    (event.event_type, event.source, event.supplier),
                    (16 + (event.number % 3) as i32, -1, 5)
                );
                numbers.push(event.number);
            }
            Record::Loss(loss) => panic!("{loss:?}"),
            Record::End(totals) => end = Some(totals),
        }
    }
    Ok((numbers, reader.damage().pieces, end))
}

fn payloads() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let payload = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..40),
        // The begin of a record within one.
        Just(b"isEVisEV\x01\0\0\0".to_vec()),
    ];
    prop::collection::vec(payload, 1..20)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn what_is_recorded_is_read_also_from_a_part_of_the_file(payloads in payloads()) {
        let folder = TempFolder::new();
        let path = folder.file("events");
        let counts = recording(&path, &payloads);
        let octets: usize = payloads.iter().map(Vec::len).sum();
        let all: Vec<u64> = (1..=payloads.len() as u64).collect();
        prop_assert_eq!(counts, RecordingCounts { events: all.len() as u64, octets: octets as u64, ..Default::default() });
        let file = std::fs::read(&path).unwrap();
        let (numbers, pieces, end) = read(&file).unwrap();
        prop_assert_eq!((&numbers, pieces, end.map(|end| (end.events, end.lost))), (&all, 0, Some((counts.events, 0))));
        let mut reader = Reader::new(&file[..]).unwrap();
        for payload in &payloads {
            let Some(Record::Event(event)) = reader.next().unwrap() else { panic!("an event") };
            prop_assert_eq!(event.octets, &payload[..]);
        }
        // However short the file, the events before the cut are whole.
        let mut ends = Vec::new();
        payloads.iter().fold(HEADER, |at, payload| { ends.push(at + PER_EVENT + payload.len()); ends[ends.len() - 1] });
        for cut in 0..file.len() {
            let whole = ends.iter().filter(|end| **end <= cut).count();
            match read(&file[..cut]) {
                Err(OpenError::NotARecording) => prop_assert!(cut < 8),
                Err(OpenError::Header) => prop_assert!(cut < HEADER),
                Err(other) => panic!("{other:?}"),
                Ok((numbers, pieces, end)) => {
                    prop_assert_eq!(&numbers, &all[..whole]);
                    prop_assert!(pieces <= 1 && end.is_none());
                    let is_between = cut == HEADER || ends.contains(&cut);
                    prop_assert_eq!(pieces == 0, is_between);
                }
            }
        }
    }

    #[test]
    fn a_changed_octet_costs_one_event(payloads in payloads(), at in any::<prop::sample::Index>(), flip in 1..=255u8) {
        let folder = TempFolder::new();
        let path = folder.file("events");
        recording(&path, &payloads);
        let mut file = std::fs::read(&path).unwrap();
        let at = at.index(file.len());
        file[at] ^= flip;
        match read(&file) {
            Err(_) => prop_assert!(at < HEADER),
            Ok((numbers, pieces, end)) => {
                prop_assert!(at >= HEADER);
                let hit = payloads.iter().scan(HEADER, |end, payload| { *end += PER_EVENT + payload.len(); Some(*end) })
                    .position(|end| at < end);
                let expected: Vec<u64> = (1..=payloads.len() as u64).filter(|n| hit != Some(*n as usize - 1)).collect();
                prop_assert_eq!(numbers, expected);
                prop_assert_eq!((pieces > 0, end.is_some()), (true, hit.is_some()));
            }
        }
    }
}

#[test]
fn other_files_are_refused_with_a_sentence() {
    let refused = |octets: &[u8]| Reader::new(octets).err().map(|error| error.to_string()).unwrap();
    assert_eq!(refused(b"isorbtrc\x02"), "this is no recording of events");
    assert_eq!(refused(b""), "this is no recording of events");
    let folder = TempFolder::new();
    let path = folder.file("events");
    recording(&path, &[]);
    let mut file = std::fs::read(&path).unwrap();
    file[8] = 9;
    assert_eq!(refused(&file), "the recording has version 9; this program reads version 1");
    file[8] = 1;
    file[13] ^= 1;
    assert_eq!(refused(&file), "the header of the recording is damaged or cut off");
    assert!(matches!(Reader::open(folder.file("none")), Err(OpenError::Io(_))));
}

#[test]
fn losses_are_in_the_file_and_in_the_counts() {
    let folder = TempFolder::new();
    let path = folder.file("events");
    let recorder = Recorder::create(&path, RecorderOptions { buffer: 4096 }).unwrap();
    recorder.record(&event(1, b"x"));
    recorder.record_loss(17, 4, 3);
    recorder.record(&event(2, &[0; 8192]));
    let counts = recorder.finish().unwrap();
    assert_eq!((counts.events, counts.lost_on_the_way, counts.buffer_full, counts.lost()), (1, 3, 1, 4));
    let mut reader = Reader::open(&path).unwrap();
    let mut losses = Vec::new();
    while let Some(record) = reader.next().unwrap() {
        match record {
            Record::Loss(loss) => losses.push((loss.cause, loss.event_type, loss.source, loss.count)),
            Record::End(totals) => assert_eq!((totals.events, totals.lost), (1, 4)),
            Record::Event(_) => {}
        }
    }
    losses.sort_by_key(|loss| loss.1);
    assert_eq!(losses, [(LossCause::OnTheWay, 17, 4, 3), (LossCause::BufferFull, 18, -1, 1)]);
}

#[test]
fn the_loss_of_an_event_that_comes_late_is_taken_back() {
    let folder = TempFolder::new();
    let path = folder.file("events");
    let recorder = Recorder::create(&path, RecorderOptions { buffer: 4096 }).unwrap();
    recorder.record_loss(17, 4, 3);
    recorder.record_late(17, 4);
    recorder.record(&event(1, b"x"));
    // The thread has written the record of a loss long before.
    wait_until("it is written", || recorder.counts().events == 1);
    recorder.record_late(17, 4);
    let counts = recorder.finish().unwrap();
    assert_eq!((counts.events, counts.lost_on_the_way, counts.lost()), (1, 1, 1));
    recorder.record_late(17, 4);
    assert_eq!(recorder.counts(), counts, "the recording has ended");
    let mut reader = Reader::open(&path).unwrap();
    let mut end = None;
    while let Some(record) = reader.next().unwrap() {
        if let Record::End(totals) = record {
            end = Some((totals.events, totals.lost));
        }
    }
    assert_eq!(end, Some((1, 1)));
}

/// Two threads record while a third one ends the recording: each event is in the file, or behind
/// its end and counted.
#[test]
fn an_event_that_comes_while_the_recording_ends_is_written_or_counted() {
    let mut after_end = 0;
    for _ in 0..200 {
        let folder = TempFolder::new();
        let path = folder.file("events");
        let recorder = Recorder::create(&path, RecorderOptions { buffer: 1 << 20 }).unwrap();
        let (go, ready) = (AtomicBool::new(true), AtomicU64::new(0));
        let (counts, recorded) = std::thread::scope(|scope| {
            let record = || {
                let mut number = 0;
                while go.load(Relaxed) && number < 4_000 {
                    number += 1;
                    recorder.record(&event(number, b"x"));
                    ready.fetch_add(u64::from(number == 1), Relaxed);
                }
                number
            };
            let threads = [scope.spawn(record), scope.spawn(record)];
            wait_until("both record", || ready.load(Relaxed) == 2);
            let counts = recorder.finish().unwrap();
            go.store(false, Relaxed);
            (counts, threads.map(|thread| thread.join().unwrap()).iter().sum::<u64>())
        });
        let at_last = recorder.counts();
        assert_eq!(at_last.events + at_last.after_end, recorded, "{counts:?} {at_last:?}");
        assert_eq!((counts.events, at_last.lost()), (at_last.events, 0), "the end is the end");
        let (numbers, pieces, end) = read(&std::fs::read(&path).unwrap()).unwrap();
        let end = end.map(|end| (end.events, end.lost));
        assert_eq!((numbers.len() as u64, pieces, end), (counts.events, 0, Some((counts.events, 0))));
        after_end += at_last.after_end;
        recorder.record_loss(17, 4, u64::MAX);
        assert_eq!((recorder.counts().lost(), recorder.counts().after_end), (0, u64::MAX));
        if after_end > 0 {
            return;
        }
    }
    panic!("none came while it ended");
}

#[test]
fn an_event_allocates_nothing() {
    let folder = TempFolder::new();
    let recorder = Recorder::create(folder.file("events"), RecorderOptions { buffer: 8 << 20 }).unwrap();
    recorder.record(&event(1, &[7; 256]));
    let allocated =
        allocations_during(|| (2..1_000).for_each(|number| recorder.record(&event(number, &[7; 256]))));
    assert_eq!(allocated, 0);
    assert_eq!(recorder.finish().unwrap().events, 999);
}

#[test]
fn a_full_disk_is_counted_and_recording_recovers() {
    on_small_disk("a_full_disk_is_counted_and_recording_recovers", |disk| {
        let path = disk.join("events");
        let recorder = Recorder::create(&path, RecorderOptions { buffer: 1 << 20 }).unwrap();
        let payload = [7; 256];
        let mut number = 0;
        let mut push = || {
            number += 1;
            recorder.record(&event(number, &payload));
            number
        };
        (0..100).for_each(|_| _ = push());
        wait_until("they are written", || recorder.counts().events == 100);
        let filling = fill_disk(disk);
        wait_until("the disk is full for the recorder", || {
            push();
            recorder.counts().not_written > 0
        });
        filling.set_len(0).unwrap();
        let before = recorder.counts().events;
        wait_until("it records again", || {
            push();
            recorder.counts().events > before
        });
        let last = push();
        let counts = recorder.finish().unwrap();
        assert_eq!(counts.events + counts.not_written, last);
        let mut reader = Reader::open(&path).unwrap();
        let (mut events, mut lost, mut newest) = (0, 0, 0);
        while let Some(record) = reader.next().unwrap() {
            match record {
                Record::Event(event) => (events, newest) = (events + 1, event.number),
                Record::Loss(loss) => {
                    assert_eq!(loss.cause, LossCause::NotWritten);
                    lost += loss.count;
                }
                Record::End(totals) => {
                    assert_eq!((totals.events, totals.lost), (counts.events, counts.lost()))
                }
            }
        }
        assert!(reader.damage().is_none(), "{}", reader.damage());
        assert_eq!((events, lost, newest), (counts.events, counts.not_written, last));
    });
}

/// Records 500,000 events a second of 256 octets for some seconds, and prints what was lost:
/// `cargo test --release -p isorb-event-file -- --ignored --nocapture rate`, in a folder of
/// `ISORB_RECORD_FOLDER`.
#[test]
#[ignore = "a measurement"]
fn rate() {
    let folder = std::env::var("ISORB_RECORD_FOLDER").unwrap_or_else(|_| "/dev/shm".into());
    let seconds: u64 = std::env::var("ISORB_RECORD_SECONDS").map_or(5, |text| text.parse().unwrap());
    let path = Path::new(&folder).join(format!("isorb-rate-{}", std::process::id()));
    for rate in [500_000_u64, u64::MAX] {
        let recorder = Recorder::create(&path, RecorderOptions::default()).unwrap();
        // All that the disk takes would fill it.
        let seconds = if rate == u64::MAX { seconds.min(5) } else { seconds };
        let begin = std::time::Instant::now();
        let mut pushed = 0;
        while begin.elapsed().as_secs() < seconds {
            let due =
                (begin.elapsed().as_nanos() as u64).saturating_mul(rate.min(100_000_000) / 1_000) / 1_000_000;
            if pushed < due {
                (pushed..due.min(pushed + 1_000))
                    .for_each(|number| recorder.record(&event(number + 1, &[7; 256])));
                pushed = due.min(pushed + 1_000);
            } else {
                std::thread::sleep(std::time::Duration::from_micros(200));
            }
        }
        let took = begin.elapsed();
        let counts = recorder.finish().unwrap();
        println!(
            "offered {:.0} a second: recorded {:.0} a second, {} of {pushed} lost",
            pushed as f64 / took.as_secs_f64(),
            counts.events as f64 / took.as_secs_f64(),
            counts.lost()
        );
        std::fs::remove_file(&path).unwrap();
    }
}
