//! Processes that misbehave, and what becomes of them.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};

const EXE: &str = env!("CARGO_BIN_EXE_isorb-bench");

fn raw_server() -> (Child, BufReader<ChildStdout>, String) {
    let mut server = Command::new(EXE)
        .args(["bench-peer", "raw-server"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(server.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    let address = line.trim_end().strip_prefix("ready ").unwrap().to_owned();
    (server, output, address)
}

#[test]
fn a_server_ends_when_its_input_does() {
    let (mut server, _output, _) = raw_server();
    drop(server.stdin.take());
    assert!(server.wait().unwrap().success());
}

#[test]
fn a_client_obeys_and_ends_when_its_input_does() {
    let (mut server, _output, address) = raw_server();
    let mut client = Command::new(EXE)
        .args(["bench-peer", "raw-client", &address])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = client.stdin.take().unwrap();
    writeln!(input, "block void 0 3 0\nblock oneway 64 0 5").unwrap();
    drop(input);
    let output = client.wait_with_output().unwrap();
    assert!(output.status.success());
    // No samples of the first, one of eight octets of the second.
    assert!(output.stdout.starts_with(b"ready\nsamples 0\nsamples 1\n"));
    assert_eq!(output.stdout.len(), b"ready\nsamples 0\nsamples 1\n".len() + 8);
    drop(server.stdin.take());
    assert!(server.wait().unwrap().success());
}

#[test]
fn an_order_that_the_protocol_lacks_ends_the_client_with_a_failure() {
    let (mut server, _output, address) = raw_server();
    let mut client = Command::new(EXE)
        .args(["bench-peer", "raw-client", &address])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    writeln!(client.stdin.as_mut().unwrap(), "stop").unwrap();
    assert!(!client.wait().unwrap().success());
    drop(server.stdin.take());
    assert!(server.wait().unwrap().success());
}

#[test]
fn a_placed_program_does_not_start_without_its_parent() {
    // Process 1 is not the parent of what this test starts, which is how a parent that has died shows.
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
        .args([
            "two-way",
            "--seconds",
            "60",
            "--placement",
            "one-core",
            "--subjects",
            "raw",
            "--cases",
            "void",
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let children = format!("/proc/{0}/task/{0}/children", harness.id());
    let peers = loop {
        let text = std::fs::read_to_string(&children).unwrap_or_default();
        let ids: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        if ids.len() == 2 {
            break ids;
        }
        if harness.try_wait().unwrap().is_some() {
            panic!("the harness ended before it had its two peers");
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    };
    harness.kill().unwrap();
    harness.wait().unwrap();
    // Ended, or waiting for its new parent to take note of that. The test hangs where a peer goes on.
    let alive = |id: &String| {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['Z', 'X']))
    };
    while peers.iter().any(alive) {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}
