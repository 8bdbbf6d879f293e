//! `isorb timeline` as a user runs it, and its page as a browser gets it.

mod common;

use common::ISORB;
use isorb_event::{Channel, ConsumerQos, Event, Filter, Quality};
use isorb_testkit::{Browser, TempFolder, wait_until};
use isorb_trace::{
    NeighbourClock, Participant, Phase, Record, RecordKind, Recording, Refusal, Role, Track, encode,
};
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
    let printed = String::from_utf8_lossy(&output.stdout);
    assert_eq!(printed.lines().collect::<Vec<_>>(), [page.to_str().unwrap(), json.to_str().unwrap()]);

    let trace: serde_json::Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let of = |what: &str| events.iter().filter(|event| event["name"] == what).count();
    assert_eq!((of("display"), of("gps: push"), of("display: deadline missed")), (10, 10, 10));

    // The channel's own records tell the cause and the deadline of each run.
    let recording = isorb_trace::decode(&std::fs::read(&one).unwrap()).unwrap();
    let rows = isorb_timeline::Timeline::of("one", &[recording]).rows;
    let [gps, display] = &rows[..] else { panic!("two rows: {rows:?}") };
    assert!(gps.supplier && display.runs.len() == 5, "{rows:?}");
    assert!(display.runs.iter().all(|run| run.cause == Some(0) && run.deadline.is_some()), "{display:?}");

    let text = std::fs::read_to_string(&page).unwrap();
    assert!(text.contains("cockpit") && text.contains("tail"));
    let Some(shown) = in_browser(&page) else { return };
    // The script reached its end, and drew the rows of both channels.
    assert!(shown.contains("data-ready=\"yes\"") && shown.contains("data-rows=\"4\""), "{shown}");
    assert!(shown.contains("10 deadlines missed"), "{shown}");
    // Both channels have a head in the table, and times have units.
    for head in ["<th class=\"channel\" colspan=\"12\" scope=\"colgroup\">cockpit</th>", " ms</td>"] {
        assert!(shown.contains(head), "{head}: {shown}");
    }
}

/// The other host's clock is days ahead, and its trace says nothing of that: the first one's does.
#[test]
fn traces_of_hosts_with_clocks_days_apart_share_an_axis() {
    const AHEAD: i64 = 400 * 24 * 3600 * 1_000_000_000;
    let mut here = isorb_trace::decode(&recorded("cockpit")).unwrap();
    let mut there = isorb_trace::decode(&recorded("tail")).unwrap();
    let pushes = |recording: &Recording| -> Vec<u64> {
        let records = recording.tracks.iter().flat_map(|track| &track.records);
        records.filter(|record| record.kind == RecordKind::Push).map(|record| record.at).collect()
    };
    let (start, between) = (pushes(&here)[0], pushes(&there)[0] - pushes(&here)[0]);
    let clocks = vec![NeighbourClock { member: 2, at: start, offset: AHEAD, bound: 1_000 }];
    (here.member, here.clocks, there.member) = (1, clocks, 2);
    let records = there.tracks.iter_mut().flat_map(|track| &mut track.records);
    records.for_each(|record| record.at += AHEAD as u64);
    let folder = TempFolder::new();
    let files = [("one.trace", &here), ("two.trace", &there)].map(|(name, recording)| {
        let file = folder.path().join(name);
        std::fs::write(&file, encode(recording)).unwrap();
        file
    });
    let json = folder.path().join("trace.json");
    let output = timeline(&[&files[0], &files[1], Path::new("--perfetto"), &json]);
    assert!(output.status.success(), "{output:?}");
    let printed = String::from_utf8_lossy(&output.stdout);
    let says = "tail: its host's clock is 34560000.000000 s from that of cockpit; its times are right to ";
    assert!(printed.contains(says), "{printed}");
    let trace: serde_json::Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let pushes = events.iter().filter(|event| event["name"] == "gps: push");
    let mut at: Vec<f64> = pushes.map(|event| event["ts"].as_f64().unwrap()).collect();
    at.sort_by(f64::total_cmp);
    // Microseconds from the first push here to the first push there.
    assert_eq!(at.len(), 10);
    assert!((at[5] - at[0] - between as f64 / 1000.0).abs() < 1.0, "{at:?}, {between} ns");
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
    let participant =
        |id, name: &str, deadline| Participant { role: Role::Consumer, id, name: name.into(), deadline };
    Recording {
        name: "cockpit".into(),
        participants: vec![participant(1, "slow", Some(3_270_000)), participant(2, "fast", None)],
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
const pixel = (of, x, y) => of.data.slice((y * of.width + x) * 4).slice(0, 4).join(',');
const sample = document.createElement('canvas').getContext('2d');
sample.fillStyle = colour('miss');
sample.fillRect(0, 0, 1, 1);
const red = pixel(sample.getImageData(0, 0, 1, 1), 0, 0), ratio = window.devicePixelRatio || 1;
const image = pen.getImageData(0, 0, canvas.width, canvas.height);
for (const place of places.filter((place) => place.row)) for (const run of place.row.runs) {
  const end = pixel(image, Math.round(xOf(run[1]) * ratio), Math.round((place.y + MIDDLE - 15) * ratio));
  note(`at ${run[0]}: ${over(xOf((run[0] + run[1]) / 2), place.y + MIDDLE)} | ${end === red ? 'marked' : 'not marked'}`);
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
                "at 6000000: slow, level 0 | from 6 ms to 7 ms: ran for 1 ms | its event waited 10 µs | on low-thread | \
                 deadline at 9.26 ms | not marked",
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
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && printed.contains("letter.trace: this is not a trace file"),
        "{printed}"
    );
    let mut cut = recorded("cockpit");
    cut.pop();
    std::fs::write(&file, cut).unwrap();
    let printed = String::from_utf8_lossy(&timeline(&[&file]).stderr).into_owned();
    assert!(printed.contains("letter.trace: the trace file is cut off"), "{printed}");
    assert!(!folder.path().join("letter.html").exists());
}

/// A recording with every state that the page draws.
fn every_state() -> Recording {
    let r = |at_us: u64, kind, id, a: u64, b| Record { at: at_us * 1_000, kind, level: 1, id, a, b };
    let pushes =
        vec![r(1_000, RecordKind::Push, 1, 16 << 32 | 1, 0), r(9_000, RecordKind::Push, 1, 16 << 32 | 1, 0)];
    let alarm = vec![
        r(3_000, RecordKind::Preempt, 2, 2, 3),
        r(3_000, RecordKind::Begin, 3, 40_000, 0),
        r(4_000, RecordKind::End, 3, 1_000_000, 0),
        r(4_000, RecordKind::Resume, 2, 1_000_000, 3),
        r(12_000, RecordKind::Timeout, 3, 20_000, 1),
        r(15_000, RecordKind::Begin, 3, 40_000, 0),
    ];
    let display = vec![
        r(2_000, RecordKind::Begin, 2, 1_000_000, 0),
        r(6_000, RecordKind::End, 2, 4_000_000, 0),
        r(6_000, RecordKind::Miss, 2, 750_000, 5_250_000),
        r(6_000, RecordKind::Overrun, 2, 3_000_000, 2_000_000),
        r(7_000, RecordKind::Timeout, 2, 10_000, 0),
        r(8_000, RecordKind::Drop, 2, 0, 0),
        r(10_000, RecordKind::Begin, 2, 1_000_000, 0),
        r(12_500, RecordKind::End, 2, 2_500_000, 1),
        r(20_000, RecordKind::Timeout, 2, 0, 0),
    ];
    let track = |thread: &str, records| Track { thread: thread.into(), overwritten: 0, records };
    let participant = |role, id, name: &str, deadline| Participant { role, id, name: name.into(), deadline };
    Recording {
        name: "cockpit".into(),
        participants: vec![
            participant(Role::Supplier, 1, "gps", None),
            participant(Role::Consumer, 2, "display", Some(4_250_000)),
            participant(Role::Consumer, 3, "alarm", Some(2_000_000)),
        ],
        tracks: vec![track("supplier", pushes), track("urgent", alarm), track("slow", display)],
        phases: vec![Phase { from: 9_500_000, to: 14_000_000, caption: "GPS silent".into() }],
        refused: vec![Refusal { name: "video".into(), why: "it needs 61 ms of a period of 67 ms".into() }],
        ..Recording::default()
    }
}

#[test]
fn every_state_has_a_shape_and_fingers_and_keys_move_the_picture() {
    let folder = TempFolder::new();
    let file = folder.path().join("states.trace");
    std::fs::write(&file, encode(&every_state())).unwrap();
    assert!(timeline(&[&file]).status.success());
    let Some(mut browser) = Browser::start_or_skip() else { return };
    browser.open(&format!("file://{}", folder.path().join("states.html").display()));
    browser.look(1400, false);

    // Each state was drawn as often as it happened, and is in the legend.
    let drawn: serde_json::Value =
        serde_json::from_str(browser.run("return canvas.dataset.drawn").as_str().unwrap()).unwrap();
    let wanted = [
        ("running", 3),
        ("incomplete", 1),
        ("waiting", 3),
        ("release", 3),
        ("deadline", 3),
        ("preempted", 1),
        ("missed", 1),
        ("overrun", 1),
        ("failed", 1),
        ("lost", 1),
        ("interval", 2),
        ("timeout", 1),
        ("pushed", 2),
        ("cause", 2),
        ("phase", 1),
        ("refused", 1),
    ];
    for (state, times) in wanted {
        assert_eq!(drawn[state], times, "{state}: {drawn}");
    }
    let legend =
        browser.run("return [...document.querySelectorAll('#legend li')].map((li) => li.dataset.state)");
    let mut legend: Vec<&str> =
        legend.as_array().unwrap().iter().filter_map(|state| state.as_str()).collect();
    let mut states: Vec<&str> = wanted.iter().map(|(state, _)| *state).collect();
    legend.sort_unstable();
    states.sort_unstable();
    assert_eq!(legend, states);
    // No two states have the same shape: drawn in black, no two pictures are alike.
    let shapes = browser.run(
        "const black = new Proxy({}, { get: (_, name) => (name === 'back' ? '#fff' : '#000') });
         const pictures = Object.entries(SHAPES).map(([kind, shape]) => {
           const p = Object.assign(document.createElement('canvas'), { width: 60, height: 60 }).getContext('2d');
           shape.draw(p, 20, POINTS.has(kind) ? 20 : 40, 30, black, 10);
           return p.canvas.toDataURL();
         });
         return new Set(pictures).size",
    );
    assert_eq!(shapes, 16);
    assert_eq!(
        browser.run("return document.getElementById('refused').textContent"),
        "video was refused: it needs 61 ms of a period of 67 ms"
    );

    // Fingers: a swipe moves, a pinch zooms, a tap shows the numbers of what is below.
    browser.look(360, false);
    let part = "return [Number(canvas.dataset.from), Number(canvas.dataset.to)]";
    let range = |browser: &mut Browser| -> (f64, f64) {
        let range = browser.run(part);
        (range[0].as_f64().unwrap(), range[1].as_f64().unwrap())
    };
    let middle = browser.run(
        "canvas.scrollIntoView({ block: 'center' });
         const box = canvas.getBoundingClientRect();
         const row = places.find((place) => place.row?.name === 'display');
         return [xOf(3500000), box.top + row.y + MIDDLE, box.left]",
    );
    let (x, y) = (middle[0].as_f64().unwrap() + middle[2].as_f64().unwrap(), middle[1].as_f64().unwrap());
    browser.touch(&[&[(x, y)]]);
    wait_until("the tip is shown", || {
        let tip = browser.run("return tip.hidden ? '' : tip.textContent");
        tip.as_str().unwrap().contains("deadline missed by 750 µs")
    });
    let all = range(&mut browser);
    browser.touch(&[&[(120.0, y), (220.0, y)], &[(80.0, y), (260.0, y)], &[(40.0, y), (320.0, y)]]);
    wait_until("the pinch has zoomed", || {
        let zoomed = range(&mut browser);
        (zoomed.1 - zoomed.0) < (all.1 - all.0) * 0.6
    });
    let zoomed = range(&mut browser);
    browser.touch(&[&[(200.0, y)], &[(150.0, y)], &[(100.0, y)]]);
    wait_until("the swipe has moved the picture", || range(&mut browser).0 > zoomed.0 + 1.0);
    let moved = range(&mut browser);
    assert!(((moved.1 - moved.0) - (zoomed.1 - zoomed.0)).abs() < 2.0, "{moved:?}: it keeps its scale");

    // Keys and buttons do the same.
    browser.run("canvas.focus()");
    browser.key("0");
    wait_until("all is shown", || range(&mut browser) == all);
    browser.key("n");
    wait_until("the missed deadline is shown", || range(&mut browser).1 <= 20_000_000.0);
    browser.key("ArrowDown");
    browser.key("ArrowDown");
    browser.key(".");
    wait_until("the chosen run is told", || {
        let tip = browser.run("return tip.hidden ? '' : tip.textContent");
        tip.as_str().unwrap().contains("failed")
    });
    browser.run(
        "[...document.querySelectorAll('#tools button')].find((b) => b.textContent === 'GPS silent').click()",
    );
    wait_until("the phase is shown", || {
        let (from, to) = range(&mut browser);
        // The times count from the first record, at 1 ms.
        from > 5_000_000.0 && from < 8_500_000.0 && to > 13_000_000.0
    });
    browser.run("show(first, span); showTip(null)");
    browser.check_looks("timeline");
    assert_eq!(browser.console(), Vec::<serde_json::Value>::new());
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
