//! `isorb doctor` as an operator runs it.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn doctor(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_isorb"))
        .arg("doctor")
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("the binary was built for this test")
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).expect("one object")
}

/// A tree with a few files, below the folder of this test.
fn tree(name: &str, files: &[(&str, &str)]) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    // Of an earlier run.
    let _ = fs::remove_dir_all(&folder);
    for (path, text) in files {
        let file = folder.join(path);
        fs::create_dir_all(file.parent().expect("it has a folder")).expect("it can be made");
        fs::write(file, text).expect("it can be written");
    }
    folder
}

const LIMITS: &str = "Max locked memory         65536                unlimited            bytes\n\
                      Max realtime priority     0                    99\n";

#[test]
fn the_exit_code_reports_blocking_findings() {
    let status = ("proc/self/status", "CapEff:\t0000000000000000\nCpus_allowed_list:\t0-1\n");
    let good = tree("good", &[("proc/self/limits", LIMITS), status]);
    let good = good.to_str().expect("a name of ours");
    let output = doctor(&["--root", good, "--json"]);
    assert!(output.status.success());
    let report = json(&output);
    let finding = |name: &str| {
        let findings = report["findings"].as_array().expect("a list");
        findings.iter().find(|f| f["check"] == name).unwrap_or_else(|| panic!("{name} is missing")).clone()
    };
    assert_eq!(finding("real-time-right")["level"], "good");
    assert!(report["wake_up"].as_array().is_some_and(Vec::is_empty));

    let swaps = ("proc/swaps", "Filename Type Size Used Priority\n/dev/sda2 partition 1 0 -2\n");
    let bad = tree("bad", &[("proc/self/limits", &LIMITS.replace("99", "0 ")), status, swaps]);
    let bad = bad.to_str().expect("a name of ours");
    let output = doctor(&["--root", bad]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stdout);
    for part in ["blocking", "RLIMIT_RTPRIO is 0", "LimitRTPRIO=90", "$ swapoff -a"] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    assert!(text.find("blocking") < text.find("warning"), "{text}");

    let swapping = tree("swapping", &[("proc/self/limits", LIMITS), status, swaps]);
    let swapping = swapping.to_str().expect("a name of ours");
    assert_eq!(doctor(&["--root", swapping]).status.code(), Some(0));
    assert_eq!(doctor(&["--root", swapping, "--strict"]).status.code(), Some(1));
}

#[test]
fn this_machine_is_measured() {
    let output = doctor(&["--seconds", "1", "--json"]);
    let report = json(&output);
    let classes = report["wake_up"].as_array().expect("a list");
    assert!(classes.iter().all(|class| class["n"].as_u64() >= Some(1000)), "{report}");
    if let Some(why) = report["not_measured"].as_str() {
        println!("skipped: this machine has no right to real-time scheduling, or no time: {why}");
        // The ordinary class needs no right.
        assert!(classes.len() == 1 || why.contains("did not get to run"), "{report}");
        return;
    }
    assert_eq!((classes.len(), &classes[1]["fifo"]), (2, &Value::from(90)));
    // No thread wakes up within a nanosecond, and every thread within an hour.
    assert_eq!(doctor(&["--seconds", "1", "--max-latency", "0"]).status.code(), Some(1));
    let blocked = report["verdict"] == "blocking";
    let output = doctor(&["--seconds", "1", "--max-latency", "3600000000", "--json"]);
    if let Some(why) = json(&output)["not_measured"].as_str() {
        return println!("skipped: this machine had no time: {why}");
    }
    assert_eq!(output.status.success(), !blocked);
}

#[test]
fn nonsense_is_refused() {
    for arguments in [["--priority", "0"], ["--priority", "100"], ["--seconds", "601"]] {
        assert_eq!(doctor(&arguments).status.code(), Some(2), "{arguments:?}");
    }
}
