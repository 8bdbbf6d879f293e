//! `isorb event` as a user runs it, against `isorb event-channel`.

mod common;

use common::{ISORB, Service, ended, get, isorb, run};
use isorb_event::remote::RemoteChannel;
use isorb_event::{Event, Filter, Ownership};
use isorb_event_file::{Reader, Record};
use isorb_testkit::{Process, TempFolder, document, fill_disk, freeze, on_small_disk, resume, wait_until};
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn channel(arguments: &[&str]) -> Service {
    Service::start(&[&["event-channel", "--real-time", "off"], arguments].concat())
}

/// Runs `isorb event` with these arguments. Returns what it prints.
fn good(arguments: &[&str]) -> String {
    let (code, output, error) = run(&[&["event"], arguments].concat());
    assert_eq!((code, &*error), (Some(0), ""), "{arguments:?}: {output}");
    output
}

/// Runs `isorb event`, which fails with these words.
fn refused(arguments: &[&str], words: &[&str]) -> String {
    let (code, output, error) = run(&[&["event"], arguments].concat());
    assert!(matches!(code, Some(1 | 2)), "{arguments:?}: {code:?} {output}");
    assert!(words.iter().all(|word| error.contains(word)), "{arguments:?}: {error}");
    output
}

fn push(url: &str, event_type: &str, value: &str) {
    assert_eq!(good(&["push", url, event_type, value]), "1 pushed\n");
}

/// The payloads of the events of a recording, as text, and whether it has an end.
fn payloads(file: &Path) -> (Vec<String>, bool) {
    let mut reader = Reader::open(file).unwrap();
    let (mut payloads, mut is_ended) = (Vec::new(), false);
    while let Some(record) = reader.next().unwrap() {
        match record {
            Record::Event(event) => payloads.push(String::from_utf8(event.octets.to_vec()).unwrap()),
            Record::Loss(loss) => panic!("{loss:?}"),
            Record::End(_) => is_ended = true,
        }
    }
    (payloads, is_ended)
}

/// From the first to the last event of a type in a recording.
fn span(file: &Path, event_type: i32) -> Duration {
    let (mut reader, mut at) = (Reader::open(file).unwrap(), Vec::new());
    while let Some(record) = reader.next().unwrap() {
        if let Record::Event(event) = record
            && event.event_type == event_type
        {
            at.push(event.at_ns);
        }
    }
    Duration::from_nanos(at[at.len() - 1] - at[0])
}

#[test]
fn a_late_watcher_sees_the_last_events() {
    let channel = channel(&["--keep-last", "2"]);
    for value in ["one", "two", "three"] {
        push(&channel.url, "16", value);
    }
    push(&channel.url, "17", "other");
    let output = good(&["watch", &channel.url, "--last", "9", "--count", "3", "--json"]);
    let lines: Vec<Value> = output.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let seen: Vec<_> = lines.iter().map(|line| (line["type"].as_i64(), line["payload"].as_str())).collect();
    assert_eq!(seen, [(Some(16), Some("two")), (Some(16), Some("three")), (Some(17), Some("other"))]);
    assert_eq!(lines[0]["number"], 1, "each command is a supplier of its own");
    let output = good(&["watch", &channel.url, "--since", "3600", "--types", "17..18", "--count", "1"]);
    assert!(output.starts_with("type 17") && output.contains("5 octets  other"), "{output}");
    let listed = good(&["ls", &channel.url]);
    let row = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let rows: Vec<_> = listed.lines().map(row).collect();
    assert!(rows.contains(&row("16 1 2 1 0")) && rows.contains(&row("17 1 1 0 0")), "{listed}");
}

#[test]
fn a_watcher_is_listed_and_sees_live_events_as_json_of_their_type() {
    let folder = TempFolder::new();
    std::fs::write(folder.file("gps.idl"), "module Gps { struct Fix { double lat; string name; }; };")
        .unwrap();
    let idl = folder.text("gps.idl");
    let typed = ["--idl", &idl, "--payload", "Gps::Fix"];
    let channel = channel(&[]);
    let watch = ["event", "watch", &channel.url, "--types", "16", "--json"];
    let mut watcher = Process::start(&mut isorb(&[&watch[..], &typed].concat()));
    wait_until("it is connected", || good(&["ls", &channel.url]).contains("remote 0"));
    let value = r#"{"lat":48.2,"name":"Vienna"}"#;
    assert_eq!(
        good(&[&["push", &channel.url, "16", value, "--count", "2"][..], &typed].concat()),
        "2 pushed\n"
    );
    for number in 1..=2 {
        let line: Value = serde_json::from_str(&watcher.next_line().unwrap()).unwrap();
        assert_eq!(
            (&line["payload"]["lat"], &line["payload"]["name"]),
            (&Value::from(48.2), &Value::from("Vienna"))
        );
        assert_eq!(line["number"], number);
    }
    // An event of another type of payload is shown, and does not end the command.
    good(&["push", &channel.url, "16", "ff", "--hex"]);
    let line: Value = serde_json::from_str(&watcher.next_line().unwrap()).unwrap();
    assert!(line["hex"] == "ff" && line["error"].as_str().unwrap().contains("Fix"), "{line}");
    refused(&[&["push", &channel.url, "16", "{}"][..], &typed].concat(), &["lat"]);
    refused(&["watch", &channel.url, "--last", "1", "--count", "1"], &["history", "--keep-last"]);
    refused(&["watch", &channel.url, "--types", "5..4"], &["5..4"]);
    refused(&["push", "corbaloc::127.0.0.1:1/EventService", "16"], &["no event channel", "127.0.0.1:1"]);
    refused(&["ls", "corbaloc::127.0.0.1:1/EventService"], &[]);
}

#[test]
fn the_channel_evaluates_a_condition_for_late_watchers_too() {
    let folder = TempFolder::new();
    std::fs::write(folder.file("gps.idl"), "module Gps { struct Fix { double lat; string name; }; };")
        .unwrap();
    let idl = folder.text("gps.idl");
    let typed = ["--idl", &idl, "--payload", "Gps::Fix"];
    let channel = channel(&["--keep-last", "9"]);
    for (lat, name) in [("1.5", "Nairobi"), ("48.2", "Vienna"), ("52.5", "Berlin")] {
        let value = format!(r#"{{"lat":{lat},"name":"{name}"}}"#);
        good(&[&["push", &channel.url, "16", &value][..], &typed].concat());
    }
    let watch = |condition| {
        [&["watch", &channel.url, "--last", "9", "--count", "1", "--where", condition][..], &typed].concat()
    };
    let output = good(&watch("lat > 40 && name != \"Vienna\""));
    assert!(output.contains("Berlin") && output.lines().count() == 1, "{output}");
    refused(&watch("lat > 40 && nme == 1"), &["nme", "^"]);
    refused(&["watch", &channel.url, "--where", "lat > 40"], &["--payload"]);
}

#[test]
fn recorded_events_are_replayed_with_their_payloads_and_times() {
    let folder = TempFolder::new();
    let file = folder.text("flight.events");
    let old = channel(&["--keep-last", "10"]);
    good(&["push", &old.url, "16", "early", "--count", "3", "--period", "40"]);
    let mut recorder = Process::start(&mut isorb(&["event", "record", &old.url, &file, "--last", "10"]));
    assert_eq!(recorder.expect_line("RECORDING"), file);
    good(&["push", &old.url, "17", "late", "--count", "2", "--period", "300"]);
    wait_until("the file has them", || payloads(file.as_ref()).0.len() == 5);
    let sent = Command::new("kill").args(["-INT", &recorder.id().to_string()]).status().unwrap();
    assert!(sent.success());
    let summary = recorder.next_line().unwrap();
    assert!(summary.starts_with("5 events, 23 octets of payload"), "{summary}");
    assert_eq!(recorder.next_line(), None, "nothing was lost");
    assert_eq!(
        payloads(file.as_ref()),
        (["early", "early", "early", "late", "late"].map(str::to_owned).into(), true)
    );

    let new = channel(&["--keep-last", "10"]);
    let begin = std::time::Instant::now();
    let output = good(&["replay", &file, &new.url, "--types", "17"]);
    let (took, recorded) = (begin.elapsed(), span(file.as_ref(), 17));
    assert!(output.starts_with("2 events replayed"), "{output}");
    assert!(took >= recorded && !recorded.is_zero(), "{took:?} for events {recorded:?} apart");
    let output = good(&["replay", &file, &new.url, "--speed", "0"]);
    assert!(output.starts_with("5 events replayed"), "{output}");
    let output = good(&["watch", &new.url, "--last", "10", "--count", "7", "--json"]);
    assert_eq!(output.matches("\"late\"").count(), 4);
    assert_eq!(output.matches("\"early\"").count(), 3);

    let perfetto = folder.text("flight.json");
    good(&["export", &file, "--perfetto", &perfetto]);
    let trace: Value = serde_json::from_slice(&std::fs::read(&perfetto).unwrap()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    assert_eq!(events.iter().filter(|event| event["ph"] == "i").count(), 5);
    assert!(events.iter().any(|event| event["args"]["name"] == "type 17, source 1"));
}

#[test]
fn a_damaged_recording_is_replayed_as_far_as_it_is_whole() {
    let folder = TempFolder::new();
    let file = folder.text("flight.events");
    let channel = channel(&["--keep-last", "10"]);
    good(&["push", &channel.url, "16", "one", "--count", "4"]);
    let output = good(&["record", &channel.url, &file, "--last", "10", "--count", "4"]);
    assert!(output.contains("\n4 events"), "{output}");
    let whole = std::fs::read(&file).unwrap();
    std::fs::write(&file, &whole[..whole.len() - 60]).unwrap();
    let replay = ["replay", &*file, &channel.url];
    let output = refused(&replay, &["flight.events", "cut off"]);
    assert!(output.starts_with("3 events replayed"), "{output}");
    let mut damaged = whole.clone();
    damaged[100] ^= 1;
    std::fs::write(&file, damaged).unwrap();
    let output = refused(&replay, &["flight.events", "damaged", "octet"]);
    assert!(output.starts_with("3 events replayed"), "{output}");
    std::fs::write(&file, b"something else").unwrap();
    refused(&replay, &["flight.events", "no recording"]);
    refused(&["replay", &folder.text("none"), &channel.url], &["none"]);
    refused(&["record", &channel.url, &folder.text("none/x"), "--seconds", "1"], &["none/x"]);
}

/// A recorder that stands still loses events in the channel. The numbers of their supplier have a
/// gap, which is in the file and in the summary.
#[test]
fn losses_on_the_way_are_recorded_and_printed() {
    let folder = TempFolder::new();
    let file = folder.text("flight.events");
    let channel = channel(&["--queue", "1", "--full", "drop-newest", "--payload", "70000"]);
    let mut recorder = Process::start(&mut isorb(&["event", "record", &channel.url, &file]));
    recorder.expect_line("RECORDING");
    let id = recorder.id().to_string();
    let signal = |signal: &str| assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
    let orb = common::events::orb();
    let supplier = RemoteChannel::connect(&orb, &channel.url).unwrap().supplier().unwrap();
    let push = |octets: &[u8]| supplier.push(&Event::new(21, 1).octets(octets)).unwrap();
    push(b"first");
    freeze(recorder.id());
    // More than the buffers of the sockets take.
    let large = vec![7; 65_000];
    (0..400).for_each(|_| push(&large));
    resume(recorder.id());
    let mut sums = (0, 0);
    wait_until("a later event tells of the gap", || {
        push(b"later");
        std::thread::sleep(std::time::Duration::from_millis(5));
        sums = recorded_and_lost(file.as_ref());
        sums.1 > 0 && sums.0 + sums.1 >= supplier.pushed()
    });
    signal("-TERM");
    let lines: Vec<String> = std::iter::from_fn(|| recorder.next_line()).collect();
    let (recorded, lost) = recorded_and_lost(file.as_ref());
    assert_eq!(recorded + lost, supplier.pushed());
    assert!(lines[0].starts_with(&format!("{recorded} events, ")), "{lines:?}");
    assert!(lines[1].starts_with(&format!("{lost} lost: {lost} on their way")), "{lines:?}");
}

/// The events of a recording, and those that it says were lost.
fn recorded_and_lost(file: &Path) -> (u64, u64) {
    let mut reader = Reader::open(file).unwrap();
    let mut sums = (0, 0);
    while let Some(record) = reader.next().unwrap() {
        match record {
            Record::Event(_) => sums.0 += 1,
            Record::Loss(loss) => sums.1 += loss.count,
            Record::End(_) => {}
        }
    }
    sums
}

#[test]
fn a_recorder_on_a_full_disk_says_so_and_goes_on() {
    on_small_disk("a_recorder_on_a_full_disk_says_so_and_goes_on", |disk| {
        let file = disk.join("flight.events");
        let channel = channel(&[]);
        // What it logs comes between the lines that it prints.
        let script = format!("exec {ISORB} event record {} {} 2>&1", channel.url, file.display());
        let mut recorder = Process::start(Command::new("sh").args(["-c", &script]));
        let mut until = |text: &str| while !recorder.next_line().expect(text).contains(text) {};
        until("RECORDING");
        push(&channel.url, "16", "before");
        wait_until("it is written", || payloads(&file).0.len() == 1);
        let filling = fill_disk(disk);
        // More than what is left of a page of the file.
        push(&channel.url, "16", &"x".repeat(8_000));
        until("events are not recorded and counted until the disk takes them again");
        filling.set_len(0).unwrap();
        push(&channel.url, "16", "after");
        until("the disk takes events again");
        assert_eq!(recorded_and_lost(&file), (2, 1));
        let sent = Command::new("kill").args(["-INT", &recorder.id().to_string()]).status().unwrap();
        assert!(sent.success());
        let lines: Vec<String> = std::iter::from_fn(|| recorder.next_line()).collect();
        assert!(lines.iter().any(|line| line.contains("1 that the disk did not take")), "{lines:?}");
    });
}

/// The script of the reference page reads what the recorder writes.
#[test]
fn the_python_of_the_reference_reads_a_recording() {
    let folder = TempFolder::new();
    let file = folder.text("flight.events");
    let channel = channel(&["--keep-last", "10"]);
    push(&channel.url, "16", "48.2N");
    push(&channel.url, "17", "300m");
    good(&["record", &channel.url, &file, "--last", "10", "--count", "2"]);
    let page = document("reference/event-file.md");
    let script = page.split("```python\n").nth(1).unwrap().split("```").next().unwrap();
    assert!(script.lines().count() <= 20);
    std::fs::write(folder.file("read.py"), script).unwrap();
    let mut python = Command::new("python3");
    let (code, output, error) = ended(python.arg(folder.file("read.py")).arg(&file));
    assert_eq!((code, &*error), (Some(0), ""));
    let lines: Vec<Vec<&str>> = output.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(
        lines.iter().map(|line| (line[1], line[2], line[3])).collect::<Vec<_>>(),
        [("16", "1", "b'48.2N'"), ("17", "1", "b'300m'")]
    );
    // It notices damage, too.
    let mut octets = std::fs::read(&file).unwrap();
    octets[60] ^= 1;
    std::fs::write(&file, octets).unwrap();
    let (code, ..) = ended(Command::new("python3").arg(folder.file("read.py")).arg(&file));
    assert_ne!(code, Some(0));
}

/// The value of a counter in the metrics of a service.
fn counter(place: &str, name: &str) -> u64 {
    let text = get(place, "/metrics");
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    value.unwrap_or_else(|| panic!("{name}: {text}"))
}

#[test]
fn a_weaker_supplier_is_heard_again_when_the_stronger_one_is_killed() {
    let start = ["event-channel", "--real-time", "off", "--metrics", "0"];
    let (channel, line) = Service::with_line(&mut isorb(&start), "METRICS");
    let place = line.strip_prefix("http://").and_then(|line| line.strip_suffix("/metrics")).unwrap();
    let orb = common::events::orb();
    let remote = RemoteChannel::connect(&orb, &channel.url).unwrap();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let seen = heard.clone();
    let consumer = remote
        .consume(Filter::of(20, 1), move |event| {
            seen.lock().unwrap().push(String::from_utf8(event.data.octets.to_vec()).unwrap());
        })
        .unwrap();
    let last = || heard.lock().unwrap().last().cloned().unwrap_or_default();
    let weak = remote.supplier_with([], Ownership::new(1)).unwrap();
    let is_heard = || weak.push_owned(&Event::new(20, 1).octets(b"weak")).unwrap();
    assert!(is_heard());
    wait_until("the weak one is heard", || last() == "weak");
    let push = ["event", "push", &channel.url, "20", "strong", "--count", "1000000", "--period", "5"];
    let mut strong =
        Process::unread(&mut isorb(&[&push[..], &["--strength", "9", "--lease", "500"]].concat()));
    wait_until("the strong one is heard", || last() == "strong");
    wait_until("the weak one is dropped", || !is_heard());
    strong.kill();
    wait_until("the weak one is heard again", is_heard);
    wait_until("its event arrives", || last() == "weak");
    // All that was dropped was the weak one's, and none of it counts as lost.
    assert_eq!(counter(place, "isorb_event_not_owned_total"), weak.not_owned());
    assert!(weak.not_owned() > 0 && counter(place, "isorb_event_owners_changed_total") >= 3);
    assert_eq!(consumer.last(weak.id(), 20, 1), Some(weak.pushed()));
    let listed = good(&["ls", &channel.url]);
    assert!(listed.contains("because a stronger supplier owns their type and source"), "{listed}");
    refused(&["push", &channel.url, "20", "--lease", "5"], &["--strength"]);
}

#[test]
fn a_watcher_is_told_which_source_fell_silent() {
    let channel = channel(&[]);
    let watch = ["event", "watch", &channel.url, "--types", "16", "--json", "--instance-period", "0.05"];
    let mut watcher = Process::start(&mut isorb(&watch));
    wait_until("it is connected", || good(&["ls", &channel.url]).contains("remote 0"));
    assert_eq!(good(&["push", &channel.url, "16", "x", "--source", "3"]), "1 pushed\n");
    let mut line = || -> Value { serde_json::from_str(&watcher.next_line().unwrap()).unwrap() };
    assert_eq!(line()["type"], 16);
    let silent = line();
    assert_eq!((&silent["type"], &silent["source"], &silent["created"]), (&15.into(), &3.into(), &16.into()));
}
