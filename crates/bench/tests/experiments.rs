//! The papers' experiments as commands: lines of JSON, the verdict last. No figure and no verdict
//! is judged.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, ErrorKind};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use serde_json::Value;

/// Runs an experiment as quickly as can be; its lines. `None` where the machine cannot run it.
fn lines(name: &str) -> Option<Vec<Value>> {
    let output = Command::new(env!("CARGO_BIN_EXE_isorb-bench"))
        .args([name, "--smoke", "--json"])
        .stdin(Stdio::null())
        .output()
        .expect("the binary was built for this test");
    let printed = String::from_utf8_lossy(&output.stderr);
    if !output.status.success()
        && printed.contains("no network lab")
        && (printed.contains("only root") || printed.contains("not installed"))
    {
        println!("skipped: {name}: {}", printed.lines().last().unwrap_or_default());
        return None;
    }
    assert!(output.status.success(), "{printed}");
    for word in ["kernel", "throttling", "paper:", name] {
        assert!(printed.contains(word), "{word} is not in\n{printed}");
    }
    let lines = String::from_utf8(output.stdout).expect("JSON is UTF-8");
    Some(lines.lines().map(|line| serde_json::from_str(line).expect("each line is an object")).collect())
}

/// The parts of a call, ours and the raw socket's.
const LAYERS: [&str; 10] = [
    "client-send",
    "to-server",
    "server-before",
    "upcall",
    "server-after",
    "to-client",
    "client-receive",
    "raw-to-server",
    "raw-server",
    "raw-to-client",
];

/// In these figures each part stands at two places, and takes time unless there may be nothing to
/// do.
fn check_layers(lines: &[Value], figures: &[&str]) {
    for (figure, part) in figures.iter().flat_map(|figure| LAYERS.map(|part| (*figure, part))) {
        let of = lines.iter().filter(|row| row["figure"] == figure && row["subject"] == part);
        let of: Vec<&Value> = of.collect();
        assert_eq!(of.len(), 2, "{figure}: {part}");
        for row in of {
            let value = |name: &str| row[name].as_f64().unwrap_or_default();
            assert!(value("n") > 0.0 && value("p99_ns") >= value("p50_ns"), "{row}");
            assert!(value("mean_ns") > 0.0 || ["upcall", "raw-server"].contains(&part), "{row}");
        }
    }
}

/// Checks that every row names its experiment, that the last line is a verdict, and that these
/// subjects were measured at so many places. Returns the rows, none where the machine cannot run
/// it.
fn check(name: &str, places: usize, subjects: &[&str]) -> Option<Vec<Value>> {
    let mut lines = lines(name)?;
    let verdict = lines.pop().expect("there is a last line");
    assert_eq!(verdict["experiment"], name);
    assert!(verdict["shape_holds"].is_boolean() && verdict.get("control_fails").is_some(), "{verdict}");
    assert!(verdict["paper"].as_str().is_some_and(|text| !text.is_empty()), "{verdict}");
    assert!(verdict["claims"].as_array().is_some_and(|claims| !claims.is_empty()), "{verdict}");
    assert!(lines.iter().all(|row| row["experiment"] == name && row["x"].is_number()));
    for subject in subjects {
        // A trace has a row for each number, not for each place.
        let of = lines.iter().filter(|row| row["subject"] == *subject && row["figure"] != "trace");
        let of: BTreeSet<_> = of.map(|row| row["x"].to_string()).collect();
        assert_eq!(of.len(), places, "{subject}");
    }
    Some(lines)
}

/// A test for each experiment: the places at which its subjects are measured in a smoke run.
macro_rules! experiments {
    ($($test:ident $name:literal $places:literal [$($subject:literal),*])*) => {
        $(#[test] fn $test() { check($name, $places, &[$($subject),*]); })*
    };
}

experiments! {
    cremes_jitter "cremes-jitter" 2
        ["memory-udp", "memory-orb", "memory-oneway", "event-channel", "event-channel-orb", "bare", "bare-again"]
    cremes_latency "cremes-latency" 2
        ["memory-udp", "memory-orb", "memory-oneway", "event-channel", "event-channel-orb", "bare", "bare-again"]
    cremes_size "cremes-size" 3
        ["memory-udp", "memory-orb", "memory-oneway", "event-channel", "event-channel-orb", "bare", "bare-again"]
    cremes_orb "cremes-orb" 2
        ["memory-orb", "memory-orb-best-effort", "memory-udp", "event-channel-orb", "bare", "bare-again"]
    demux "demux" 7 ["look-up", "scope", "heap", "path-control"]
    event_cost "event-cost" 1 ["bare-again", "channel-push-thread", "cold-keys"]
    interconnect "interconnect" 3 ["aligned", "aligned-again", "unaligned", "private", "ring-again"]
    log_load "log-load" 1 ["off", "off-again", "closed", "full", "never-read", "written-by-the-lane"]
    memory_cost "crm-cost" 10 ["guaranteed", "within"]
    paced "paced" 3 ["bare-threads", "lanes", "one-pool-control"]
    pi_mutex "pi-mutex" 1 ["std-again"]
    scope "scope" 5 ["scope", "scope-again", "scope-finalised", "heap"]
    server_work "server-work" 5 ["low", "medium", "high"]
    storm "storm" 1 ["no-limits"]
    tao_dispatch_cost "tao-dispatch-cost" 1 ["function", "method", "trait-object", "by-name"]
    tao_latency "tao-latency" 4
        ["1-supplier", "10-suppliers", "raw-loop", "among-500", "two-processes", "two-processes-local"]
    tao_overhead "tao-overhead" 6 ["raw", "raw-again", "isorb", "isorb-fragments"]
    tao_spacing "tao-spacing" 9 ["1-consumer", "20-consumers", "20-of-520-broadcast"]
    tao_timeline "tao-timeline" 3 ["threads", "upcalls", "single-threaded"]
    tao_utilisation "tao-utilisation" 5
        ["channel-high", "channel-low", "federated-low", "bare-low", "bare-again-low"]
    timer_resolution "timer-resolution" 12 ["absolute", "tick-1ms", "tick-10ms"]
    worst "worst" 1
        ["timer", "raw-tcp", "tcp-lane", "banded", "unix", "segment", "event-channel", "reflective-memory"]
    transports "transports" 3 ["raw-unix", "isorb-unix", "rustls", "isorb-tls"]
}

#[test]
fn inversion() {
    let Some(rows) = check("inversion", 0, &[]) else { return };
    if rows.is_empty() {
        return println!("skipped: inversion: no right to real-time scheduling");
    }
    let subjects = rows.iter().filter_map(|row| row["subject"].as_str());
    let expected =
        ["five-connections", "one-band", "two-bands", "private-shared", "bare-pi", "bare-futex-control"];
    assert!(subjects.eq(expected), "{rows:?}");
}

/// The bare program is beside the most clients, in both scenes.
#[test]
fn clients() {
    let Some(rows) = check("clients", 3, &["scope", "heap"]) else { return };
    for subject in ["raw-socket", "raw-socket-again"] {
        let of = rows.iter().filter(|row| row["subject"] == subject && row["n"].as_f64() > Some(0.0));
        let of: Vec<_> = of.map(|row| (row["figure"].as_str(), row["x"].as_f64())).collect();
        assert_eq!(of, [(Some("calm"), Some(200.0)), (Some("pressed"), Some(200.0))], "{subject}");
    }
}

#[test]
fn low_threads() {
    if let Some(lines) = check("low-threads", 4, &["lanes", "raw-socket", "raw-socket-again"]) {
        check_layers(&lines, &["layers-empty", "layers"]);
        let mut upcalls = lines.iter().filter(|row| row["subject"] == "upcall");
        assert!(upcalls.all(|row| row["mean_ns"].as_f64() > Some(0.0)), "upcalls do work");
    }
}

#[test]
fn network_load() {
    let raw = ["by-priority-raw", "by-priority-raw-again", "one-queue-raw", "one-queue-raw-again"];
    let subjects = [&["by-priority", "one-queue-control"][..], &raw].concat();
    if let Some(lines) = check("network-load", 3, &subjects) {
        check_layers(&lines, &["layers", "layers-one-queue"]);
    }
}

/// Subjects over the link are missing by name where there is no lab. Returns the rows, unless
/// skipped.
fn check_banded(name: &str) -> Option<Vec<Value>> {
    let within =
        ["tcp-banded", "tcp-shared", "unix-banded", "unix-shared", "segment-banded", "segment-shared"];
    let lines = check(name, 3, &within)?;
    for subject in ["link-banded", "link-shared", "link-sorted"] {
        let n = lines.iter().filter(|row| row["subject"] == subject && row["figure"] == "high").count();
        if n == 0 && !rustix::process::geteuid().is_root() {
            println!("skipped: {name}: {subject}");
        } else {
            assert_eq!(n, 3, "{subject}");
        }
    }
    Some(lines)
}

#[test]
fn banded() {
    check_banded("banded");
}

/// Bare threads are beside isorb's wherever they can be built, and are loaded as isorb's are.
#[test]
fn banded_load() {
    let Some(lines) = check_banded("banded-load") else { return };
    let bare = |figure: &str| {
        let of = lines.iter().filter(|row| row["subject"] == "bare" && row["figure"] == figure);
        of.map(|row| (row["n"].as_f64(), row["low_calls_per_s"].as_f64())).collect::<Vec<_>>()
    };
    let (beside, alone) = (bare("high"), bare("alone"));
    if beside.is_empty() && Command::new("g++").arg("--version").output().is_err() {
        println!("skipped: banded-load: bare");
        return;
    }
    let three =
        |of: &[_], test: fn(&(Option<f64>, Option<f64>)) -> bool| of.len() == 3 && of.iter().all(test);
    assert!(three(&beside, |&(n, lows)| n > Some(0.0) && lows > Some(0.0)), "{beside:?}");
    assert!(three(&alone, |&(n, lows)| n > Some(0.0) && lows == Some(0.0)), "{alone:?}");
}

/// Two hosts in one: the clients call servers that `serve` has started, and the report reads what
/// they measured.
#[test]
fn servers_of_another_host() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let [servers, rows, page] = ["servers.json", "two-hosts.jsonl", "two-hosts.html"].map(|f| folder.join(f));
    let bench = || Command::new(env!("CARGO_BIN_EXE_isorb-bench"));
    let mut serving = bench();
    serving.args(["serve", "--host", "127.0.0.1"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut serving = serving.spawn().expect("the binary was built for this test");
    let mut line = String::new();
    let output = serving.stdout.take().expect("it is a pipe");
    BufReader::new(output).read_line(&mut line).expect("it is open");
    std::fs::write(&servers, &line).expect("the folder is there");
    let output = bench()
        .args(["worst", "--smoke", "--json", "--servers"])
        .arg(&servers)
        .output()
        .expect("the binary was built for this test");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    drop(serving.stdin.take());
    assert!(serving.wait().expect("it was started").success());
    let text = String::from_utf8(output.stdout).expect("JSON is UTF-8");
    for subject in ["raw-tcp", "raw-tcp-again", "tcp-lane", "banded"] {
        assert_eq!(text.matches(&format!("\"subject\":\"{subject}\"")).count() % 2, 0, "{subject}: {text}");
        assert!(text.contains(&format!("\"subject\":\"{subject}\"")), "{subject}: {text}");
    }
    assert!(!text.contains("\"subject\":\"unix\""), "{text}");
    std::fs::write(&rows, &text).expect("the folder is there");
    let read = bench().arg("report").arg("--read").arg(&rows).arg("--output").arg(&page).output();
    assert!(read.expect("the binary was built for this test").status.success());
    let page = std::fs::read_to_string(&page).expect("it was written");
    assert!(page.contains("id=\"worst-cases\"") && page.contains("two-hosts.jsonl"), "{page}");
}

#[test]
fn an_experiment_that_cannot_run_here_ends_with_a_sentence() {
    const NOBODY: u32 = 65_534;
    for name in ["network-load", "cremes-latency"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_isorb-bench"));
        command.args([name, "--smoke", "--json"]).stdin(Stdio::null());
        if rustix::process::geteuid().is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        let output = match command.output() {
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                return println!("skipped: other users may not run the binary where it lies");
            }
            output => output.expect("the binary was built for this test"),
        };
        let printed = String::from_utf8_lossy(&output.stderr);
        let last = printed.lines().last().unwrap_or_default();
        assert_eq!(output.status.code(), Some(1), "{printed}");
        assert!(last.starts_with("isorb-bench: no network lab: "), "{printed}");
        assert!(last.contains("only root") || last.contains("not installed"), "{printed}");
        assert_eq!(output.stdout, b"", "no verdict");
    }
}
