//! `isorb timeline` as a user runs it, and its page as a browser gets it.

mod common;

use common::ISORB;
use isorb_event::{Channel, ConsumerQos, Event, Filter, Quality};
use isorb_testkit::{Browser, TempFolder};
use isorb_trace::{Participant, Record, RecordKind, Recording, Role, Track, encode};
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::Duration;

fn timeline(arguments: &[&Path]) -> Output {
    Command::new(ISORB).arg("timeline").args(arguments).output().unwrap()
}

/// A channel's recording in which one consumer cannot meet its deadline.
fn recorded(name: &str) -> Vec<u8> {
    let channel = Channel::builder().trace(true).build().unwrap();
    let quality = Quality { deadline: Some(Duration::from_nanos(1)), ..Quality::default() };
    let qos = ConsumerQos::new("display", Filter::of_type(16)).quality(quality);
    let slow = |_: &[Event<'_>]| std::thread::sleep(Duration::from_millis(1));
    let _display = channel.for_consumers().connect(Arc::new(slow), qos).unwrap();
    let gps = channel.for_suppliers().connect().unwrap();
    for _ in 0..5 {
        gps.push(&Event::new(16, 1));
    }
    encode(&channel.recording(name, &[(gps.id(), "gps")]))
}

#[test]
fn trace_files_become_a_page_and_a_perfetto_trace() {
    let folder = TempFolder::new();
    let (one, two) = (folder.path().join("one.trace"), folder.path().join("two.trace"));
    std::fs::write(&one, recorded("cockpit")).unwrap();
    std::fs::write(&two, recorded("tail")).unwrap();
    let json = folder.path().join("trace.json");
    let output = timeline(&[&one, &two, Path::new("--perfetto"), &json]);
    assert!(output.status.success(), "{output:?}");
    let page = folder.path().join("one.html");
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(said.lines().collect::<Vec<_>>(), [page.to_str().unwrap(), json.to_str().unwrap()]);

    let trace: serde_json::Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let of = |what: &str| events.iter().filter(|event| event["name"] == what).count();
    assert_eq!((of("display"), of("gps: push"), of("display: deadline missed")), (10, 10, 10));

    let text = std::fs::read_to_string(&page).unwrap();
    assert!(text.contains("cockpit") && text.contains("tail"));
    let Some(shown) = in_browser(&page) else { return };
    // The script reached its end, and drew the rows of both channels.
    assert!(shown.contains("data-ready=\"yes\"") && shown.contains("data-rows=\"4\""), "{shown}");
    assert!(shown.contains("10 deadlines missed"), "{shown}");
    // Both channels have a head in the table, and times have units.
    for head in ["<th class=\"channel\" colspan=\"12\">cockpit</th>", " ms</td>"] {
        assert!(shown.contains(head), "{head}: {shown}");
    }
}

/// A slow consumer that loses the processor to a fast one, then returns too late, and once more in
/// time.
fn late_and_in_time() -> Recording {
    let r = |at_us: u64, kind, level, id, a: u64, b| Record { at: at_us * 1_000, kind, level, id, a, b };
    let slow = vec![
        r(1_000, RecordKind::Begin, 0, 1, 20_000, 0),
        r(5_000, RecordKind::End, 0, 1, 4_000_000, 0),
        r(5_000, RecordKind::Miss, 0, 1, 750_000, 4_250_000),
        r(7_000, RecordKind::Begin, 0, 1, 10_000, 0),
        r(8_000, RecordKind::End, 0, 1, 1_000_000, 0),
    ];
    let fast = vec![
        r(2_000, RecordKind::Preempt, 0, 1, 3, 2),
        r(2_000, RecordKind::Begin, 3, 2, 5_000, 0),
        r(3_500, RecordKind::End, 3, 2, 1_500_000, 0),
        r(3_500, RecordKind::Resume, 0, 1, 1_500_000, 2),
    ];
    let track = |thread: &str, records| Track { thread: thread.into(), overwritten: 0, records };
    let participant = |id, name: &str| Participant { role: Role::Consumer, id, name: name.into() };
    Recording {
        name: "cockpit".into(),
        participants: vec![participant(1, "slow"), participant(2, "fast")],
        tracks: vec![track("low-thread", slow), track("high-thread", fast)],
        ..Recording::default()
    }
}

/// Moves a pointer over each run, over where nothing happened, and looks at the colour of each
/// run's end; writes down what it saw.
const POINTER: &str = r#"<script>
const seen = document.createElement('pre');
const note = (text) => { seen.textContent += text.replaceAll('\n', ' | ') + ';\n'; };
const over = (x, y) => {
  const box = canvas.getBoundingClientRect();
  canvas.dispatchEvent(new PointerEvent('pointermove', { clientX: box.left + x, clientY: box.top + y }));
  return tip.hidden ? 'nothing' : tip.textContent;
};
const pixel = (image, x, y) => image.data.slice((y * image.width + x) * 4).slice(0, 4).join(',');
const sample = document.createElement('canvas').getContext('2d');
sample.fillStyle = colour('miss');
sample.fillRect(0, 0, 1, 1);
const red = pixel(sample.getImageData(0, 0, 1, 1), 0, 0), ratio = window.devicePixelRatio || 1;
const drawn = pen.getImageData(0, 0, canvas.width, canvas.height);
for (const place of places.filter((place) => place.row)) for (const run of place.row.runs) {
  const end = pixel(drawn, Math.round(xOf(run[1]) * ratio), Math.round((place.y + 5) * ratio));
  note(`at ${run[0]}: ${over(xOf((run[0] + run[1]) / 2), place.y + ROW / 2)} | ${end === red ? 'marked' : 'not marked'}`);
}
note(`between: ${over(xOf(5500000), places[places.length - 1].y + ROW / 2)}`);
document.body.append(seen);
</script>"#;

#[test]
fn the_page_marks_missed_deadlines_and_shows_numbers_under_the_pointer() {
    let folder = TempFolder::new();
    let file = folder.path().join("flight.trace");
    std::fs::write(&file, encode(&late_and_in_time())).unwrap();
    assert!(timeline(&[&file]).status.success());
    let page = folder.path().join("flight.html");
    let text = std::fs::read_to_string(&page).unwrap();
    std::fs::write(&page, text + POINTER).unwrap();
    if let Some(shown) = in_browser(&page) {
        let shown = shown.rsplit("<pre>").next().unwrap();
        let seen: Vec<_> = shown.split(';').map(str::trim).take(4).collect();
        assert_eq!(
            seen,
            [
                "at 1000000: fast, level 3 | from 1 ms to 2.5 ms: ran for 1.5 ms | its event waited 5 µs | on high-thread | not marked",
                "at 0: slow, level 0 | from 0 ms to 4 ms: ran for 2.5 ms | its event waited 20 µs | on low-thread | \
                 pre-empted once, 1.5 ms in all, by fast | deadline missed by 750 µs | marked",
                "at 6000000: slow, level 0 | from 6 ms to 7 ms: ran for 1 ms | its event waited 10 µs | on low-thread | not marked",
                "between: nothing",
            ]
        );
    }
}

#[test]
fn a_file_that_is_not_a_trace_is_refused_by_name() {
    let folder = TempFolder::new();
    let file = folder.path().join("letter.trace");
    std::fs::write(&file, "Dear Sir").unwrap();
    let output = timeline(&[&file]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("letter.trace: this is not a trace file"), "{said}");
    let mut cut = recorded("cockpit");
    cut.pop();
    std::fs::write(&file, cut).unwrap();
    let said = String::from_utf8_lossy(&timeline(&[&file]).stderr).into_owned();
    assert!(said.contains("letter.trace: the trace file is cut off"), "{said}");
    assert!(!folder.path().join("letter.html").exists());
}

/// The page's HTML once its scripts have run; `None` without a browser. The scripts may not print
/// to the console.
fn in_browser(page: &Path) -> Option<String> {
    let mut browser = Browser::start_or_skip()?;
    browser.open(&format!("file://{}", page.canonicalize().unwrap().display()));
    let html = browser.run("return document.documentElement.outerHTML");
    assert_eq!(browser.console(), Vec::<serde_json::Value>::new());
    Some(html.as_str().unwrap().to_owned())
}
