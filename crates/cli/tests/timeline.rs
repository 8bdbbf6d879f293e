//! `isorb timeline` as a user runs it, and its page as a browser gets it.

use isorb_event::{Channel, Config, ConsumerQos, Event, Filter, Quality};
use isorb_timeline::{Recording, encode};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

fn folder(name: &str) -> PathBuf {
    let folder =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("timeline-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn timeline(arguments: &[&Path]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_isorb")).arg("timeline").args(arguments).output().unwrap()
}

/// A channel's recording in which one consumer cannot meet its deadline.
fn recorded(name: &str) -> Vec<u8> {
    let channel = Channel::new(Config { trace: true, ..Config::default() }).unwrap();
    let quality = Quality { deadline: Some(Duration::from_nanos(1)), ..Quality::default() };
    let qos = ConsumerQos::of("display", Filter::of_type(16)).quality(quality);
    let slow = |_: &[Event<'_>]| std::thread::sleep(Duration::from_millis(1));
    let _display = channel.for_consumers().connect(Arc::new(slow), qos).unwrap();
    let gps = channel.for_suppliers().connect().unwrap();
    for _ in 0..5 {
        gps.push(&Event::new(16, 1));
    }
    encode(&Recording::of(name, &channel, &[(gps.id(), "gps")]))
}

#[test]
fn trace_files_become_a_page_and_a_perfetto_trace() {
    let folder = folder("page");
    let (one, two) = (folder.join("one.trace"), folder.join("two.trace"));
    std::fs::write(&one, recorded("cockpit")).unwrap();
    std::fs::write(&two, recorded("tail")).unwrap();
    let json = folder.join("trace.json");
    let output = timeline(&[&one, &two, Path::new("--perfetto"), &json]);
    assert!(output.status.success(), "{output:?}");
    let page = folder.join("one.html");
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(said.lines().collect::<Vec<_>>(), [page.to_str().unwrap(), json.to_str().unwrap()]);

    let trace: serde_json::Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let of = |what: &str| events.iter().filter(|event| event["name"] == what).count();
    assert_eq!((of("display"), of("gps: push"), of("display: deadline missed")), (10, 10, 10));

    let text = std::fs::read_to_string(&page).unwrap();
    assert!(text.contains("cockpit") && text.contains("tail"));
    let Some(shown) = in_browser(&page, &folder) else {
        println!("skipped: chromium is not installed (apt-get install chromium)");
        std::fs::remove_dir_all(&folder).unwrap();
        return;
    };
    // The script reached its end, and drew the rows of both channels.
    assert!(shown.contains("data-ready=\"yes\"") && shown.contains("data-rows=\"4\""), "{shown}");
    assert!(shown.contains("10 deadlines missed"), "{shown}");
    // Both channels head their part of the table, whose times have units.
    for head in ["<th class=\"channel\" colspan=\"12\">cockpit</th>", " ms</td>"] {
        assert!(shown.contains(head), "{head}: {shown}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn what_is_no_trace_is_refused_by_name() {
    let folder = folder("bad");
    let file = folder.join("letter.trace");
    std::fs::write(&file, "Dear Sir").unwrap();
    let output = timeline(&[&file]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("letter.trace: this is not a trace file"), "{said}");
    let mut cut = recorded("cockpit");
    cut.pop();
    std::fs::write(&file, cut).unwrap();
    let said = String::from_utf8_lossy(&timeline(&[&file]).stderr).into_owned();
    assert!(said.contains("letter.trace: the trace file is cut off"), "{said}");
    assert!(!folder.join("letter.html").exists());
    std::fs::remove_dir_all(&folder).unwrap();
}

/// The document as the browser has it once its scripts have run; `None` without a browser. Fails where a script complained.
fn in_browser(page: &Path, folder: &Path) -> Option<String> {
    let (out, log) = (folder.join("dom"), folder.join("log"));
    let mut browser = Command::new("chromium")
        .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
        .args(["--enable-logging=stderr", "--dump-dom"])
        .arg(format!("--user-data-dir={}", folder.join("profile").display()))
        .arg(format!("file://{}", page.canonicalize().unwrap().display()))
        .stdin(Stdio::null())
        .stdout(std::fs::File::create(&out).unwrap())
        .stderr(std::fs::File::create(&log).unwrap())
        .spawn()
        .ok()?;
    let begun = Instant::now();
    while browser.try_wait().unwrap().is_none() {
        if begun.elapsed() > Duration::from_secs(120) {
            let _ = browser.kill();
            let _ = browser.wait();
            panic!("the browser did not end: {}", std::fs::read_to_string(&log).unwrap());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let log = std::fs::read_to_string(&log).unwrap();
    let complaints: Vec<_> = log.lines().filter(|line| line.contains("CONSOLE")).collect();
    assert!(complaints.is_empty(), "{complaints:?}");
    Some(std::fs::read_to_string(&out).unwrap())
}
