//! The contract, kept by isorb on both sides: what can be tested without another ORB. The runner
//! with the others is `isorb-interop-matrix`.

use std::path::Path;
use std::process::{Command, Output};

fn matrix(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_isorb-interop-matrix"));
    command.args(arguments).env_remove("ISORB_INTEROP_ALLOW_MISSING");
    command
}

fn finish(mut command: Command) -> (Option<i32>, String) {
    let Output { status, stdout, .. } = command.output().unwrap();
    (status.code(), String::from_utf8(stdout).unwrap())
}

fn passes(mode: &str, at_least: usize) {
    // The runner finds the peer beside itself.
    assert!(Path::new(env!("CARGO_BIN_EXE_isorb-peer")).exists());
    let (code, text) = finish(matrix(&["--peer", "none", "--mode", mode]));
    assert_eq!(code, Some(0), "{text}");
    let summary = text.lines().last().unwrap();
    let passed: usize = summary.split(' ').next().unwrap().parse().unwrap();
    assert!(passed >= at_least && summary.contains(" 0 failed"), "{text}");
}

#[test]
fn a_thread_a_connection() {
    passes("plain", 34);
}

#[test]
fn a_shared_lane() {
    passes("lane", 34);
}

#[test]
fn older_giop() {
    passes("giop10", 31);
    passes("giop11", 34);
}

#[test]
fn code_sets() {
    passes("utf8", 5);
    passes("mixed-codesets", 4);
}

#[test]
fn calls_back_over_the_same_connection() {
    passes("bidir", 3);
}

#[test]
fn many_calls_on_one_connection() {
    passes("shared", 5);
}

#[test]
fn small_fragments() {
    passes("fragments", 8);
    passes("lane-fragments", 8);
}

#[test]
fn lanes_of_a_real_time_poa() {
    passes("real-time", 7);
}

#[test]
fn dynamic_calls_and_servants() {
    passes("dii", 28);
    passes("dsi", 28);
}

#[test]
fn calls_overtake_each_other_on_one_connection() {
    passes("interleaving", 1);
}

#[test]
fn a_missing_peer_is_a_failure_unless_allowed() {
    let nowhere = |allow| {
        let mut command = matrix(&["--peer", "omniorb", "--mode", "no such mode"]);
        command.env("ISORB_INTEROP_BUILD", "no such folder");
        if allow {
            command.env("ISORB_INTEROP_ALLOW_MISSING", "1");
        }
        finish(command)
    };
    let (code, text) = nowhere(false);
    assert!(
        code == Some(1)
            && text.contains("missing: omniorb")
            && text.ends_with("0 passed, 1 failed, 0 skipped\n")
    );
    let (code, text) = nowhere(true);
    assert!(
        code == Some(0)
            && text.contains("missing: omniorb")
            && text.ends_with("0 passed, 0 failed, 1 skipped\n")
    );
}
