//! Peers that misbehave, and how they end.

use std::io::Write;
use std::process::{Child, ChildStdin, Command, Stdio};

use isorb_testkit::{Process, wait_until};

const EXE: &str = env!("CARGO_BIN_EXE_isorb-bench");

fn raw_server() -> (Process, String) {
    let mut server = Process::start(Command::new(EXE).args(["bench-peer", "raw-server"]));
    let address = server.expect_line("ready");
    (server, address)
}

fn raw_client(address: &str) -> (Child, ChildStdin) {
    let mut client = Command::new(EXE)
        .args(["bench-peer", "raw-client", address])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let input = client.stdin.take().unwrap();
    (client, input)
}

#[test]
fn a_server_ends_when_its_input_does() {
    assert!(raw_server().0.finish().success());
}

#[test]
fn a_client_obeys_and_ends_when_its_input_does() {
    let (server, address) = raw_server();
    let (client, mut input) = raw_client(&address);
    writeln!(input, "block void 0 3 0\nblock oneway 64 0 5").unwrap();
    drop(input);
    let output = client.wait_with_output().unwrap();
    assert!(output.status.success());
    // No samples of the first, one of eight octets of the second.
    assert!(output.stdout.starts_with(b"ready\nsamples 0\nsamples 1\n"));
    assert_eq!(output.stdout.len(), b"ready\nsamples 0\nsamples 1\n".len() + 8);
    assert!(server.finish().success());
}

#[test]
fn an_order_that_the_protocol_lacks_ends_the_client_with_a_failure() {
    let (server, address) = raw_server();
    let (mut client, mut input) = raw_client(&address);
    writeln!(input, "stop").unwrap();
    assert!(!client.wait().unwrap().success());
    assert!(server.finish().success());
}

#[test]
fn a_placed_program_does_not_start_without_its_parent() {
    // Process 1 is not the parent of what this test starts, which is how a parent that has died
    // shows.
    let output = Command::new(EXE)
        .args(["bench-peer", "start", "--parent", "1", "--", "echo", "started"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let parent = std::process::id();
    assert!(parent == 1 || (!output.status.success() && output.stdout.is_empty()));

    let output = Command::new(EXE)
        .args(["bench-peer", "start", "--parent", &parent.to_string(), "--", "echo", "started"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(output.stdout, b"started\n");
}

#[test]
fn the_subjects_of_a_harness_that_is_killed_end_with_it() {
    let mut harness = Command::new(EXE)
        .args("two-way --seconds 60 --placement one-core --subjects raw --cases void".split(' '))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let children = format!("/proc/{0}/task/{0}/children", harness.id());
    let mut peers = Vec::new();
    wait_until("the harness has its two peers", || {
        assert_eq!(harness.try_wait().unwrap(), None, "the harness ended");
        let text = std::fs::read_to_string(&children).unwrap_or_default();
        peers = text.split_whitespace().map(str::to_owned).collect();
        peers.len() == 2
    });
    harness.kill().unwrap();
    harness.wait().unwrap();
    // A zombie has ended: its new parent has not collected it yet.
    let alive = |id: &String| {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['Z', 'X']))
    };
    wait_until("the peers have ended", || !peers.iter().any(alive));
}
