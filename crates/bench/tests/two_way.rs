//! The whole way, with the subjects that need nothing installed: real processes, a few rounds. No
//! figure is judged.

use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn bench(words: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_isorb-bench"))
        .args(words.split(' '))
        .stdin(Stdio::null())
        .output()
        .expect("the binary was built for this test")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

const FIELDS: [&str; 13] = [
    "experiment",
    "subject",
    "placement",
    "size",
    "n",
    "min_ns",
    "mean_ns",
    "stddev_ns",
    "p50_ns",
    "p99_ns",
    "p999_ns",
    "max_ns",
    "ratio_to_raw_p50",
];

/// The subjects that need nothing installed.
const OWN: &str = "raw,raw-again,isorb,isorb-lane";

#[test]
fn raw_and_isorb_give_a_line_of_json_for_each_case_and_subject() {
    let cases = "void,octets:64,octets:1048576,string,structs,plain,oneway:1024";
    let output =
        bench(&format!("two-way --json --seconds 0 --placement one-core --subjects {OWN} --cases {cases}"));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let rows: Vec<Value> =
        text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows.len(), 7 * 4, "{}", text(&output.stderr));
    for row in &rows {
        let fields = row.as_object().unwrap();
        assert_eq!(fields.len(), FIELDS.len());
        assert!(FIELDS.iter().all(|&name| fields.contains_key(name)), "{row}");
        assert_eq!(row["placement"], "one-core");
        let ns = |name: &str| row[name].as_f64().unwrap();
        assert!(ns("n") >= 3.0);
        assert!(0.0 < ns("min_ns") && ns("min_ns") <= ns("p50_ns") && ns("p50_ns") <= ns("p99_ns"), "{row}");
        assert!(ns("p99_ns") <= ns("p999_ns") && ns("p999_ns") <= ns("max_ns"), "{row}");
        assert!(ns("ratio_to_raw_p50") > 0.0);
    }
    let raw = rows.iter().filter(|row| row["subject"] == "raw");
    assert!(raw.clone().count() == 7 && raw.clone().all(|row| row["ratio_to_raw_p50"] == 1.0));
    assert_eq!((&rows[0]["experiment"], &rows[0]["size"]), (&"two-way-void".into(), &0.into()));

    let printed = text(&output.stderr);
    for word in ["kernel", "scheduling", "throttling", "two-way-void, one-core", "isorb-lane", "calls/s"] {
        assert!(printed.contains(word), "{word} is not in\n{printed}");
    }
}

#[test]
fn the_table_is_on_standard_output_without_json() {
    let output =
        bench("two-way --seconds 0 --placement one-core --subjects raw --cases void --real-time off");
    assert!(output.status.success());
    let printed = text(&output.stdout);
    assert!(
        printed.contains("SCHED_OTHER") && printed.contains("two-way-void, one-core, microseconds"),
        "{printed}"
    );
    assert!(printed.lines().any(|line| line.trim_start().starts_with("raw ")), "{printed}");
}

#[test]
fn omniorb_follows_the_protocol() {
    let output = bench("two-way --json --seconds 0 --placement one-core --subjects omniorb,omniorb-tuned");
    let printed = text(&output.stderr);
    if printed.contains("omniorb: not installed") {
        println!("skipped: omniORB is not installed");
        return;
    }
    assert!(output.status.success(), "{printed}");
    assert_eq!(text(&output.stdout).lines().count(), 11 * 2, "every case\n{printed}");
    // There is nothing to compare with.
    assert!(text(&output.stdout).lines().all(|line| line.contains(r#""ratio_to_raw_p50":null"#)));
}

#[test]
fn instructions_are_counted() {
    let output = bench("instructions --json --subjects raw,isorb");
    if text(&output.stderr).contains("valgrind is not installed") {
        println!("skipped: valgrind is not installed");
        return;
    }
    assert!(output.status.success(), "{}", text(&output.stderr));
    let rows: Vec<Value> =
        text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows.len(), 2, "{}", text(&output.stderr));
    for row in &rows {
        assert_eq!(row.as_object().unwrap().len(), 3);
        assert!(row["client_instructions"].as_u64().unwrap() > 0, "{row}");
        assert!(row["server_instructions"].as_u64().unwrap() > 0, "{row}");
    }
    let client = |i: usize| rows[i]["client_instructions"].as_u64().unwrap();
    assert!(client(0) < client(1), "an ORB costs more than a socket");
}

#[test]
fn system_calls_are_counted() {
    let output = bench("syscalls --json --subjects raw");
    if text(&output.stderr).contains("strace is not installed") {
        println!("skipped: strace is not installed");
        return;
    }
    assert!(output.status.success(), "{}", text(&output.stderr));
    let row: Value = serde_json::from_str(text(&output.stdout).trim()).unwrap();
    for side in ["client_syscalls", "server_syscalls"] {
        assert_eq!((&row[side]["sendto"], &row[side]["recvfrom"]), (&1.0.into(), &1.0.into()), "{row}");
    }
}

#[test]
fn what_cannot_be_understood_ends_with_the_status_of_usage() {
    assert_eq!(bench("two-way --subjects unknown").status.code(), Some(2));
    assert_eq!(bench("--help").status.code(), Some(0));
}
