//! A service ends in order at SIGTERM also if its thread for signals met an error of the kernel.

mod common;

use common::Service;
use isorb_testkit::{TempFolder, wait_for, wait_until};
use std::process::{Command, Stdio};

/// Sends a signal to a process.
fn signal(process: u32, name: &str) {
    assert!(Command::new("kill").args([name, &process.to_string()]).status().unwrap().success());
}

#[test]
fn a_failure_to_wait_for_signals_is_over_when_the_kernel_has_memory_again() {
    if Command::new("strace").arg("-V").stdout(Stdio::null()).status().is_err() {
        println!("skipped: strace is not installed");
        return;
    }
    let folder = TempFolder::new();
    let log = folder.file("strace");
    let mut naming = Service::start(&["naming", "--memory", "--port", "0"]);
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-o"]).arg(&log).args(["-e", "trace=recvfrom,read"]);
    strace.args(["-e", "inject=recvfrom,read:error=ENOMEM", "-p", &naming.id().to_string()]);
    let mut strace = strace.stderr(Stdio::null()).spawn().unwrap();
    wait_until("the fault", || std::fs::read_to_string(&log).is_ok_and(|log| log.contains("(INJECTED)")));
    signal(strace.id(), "-INT");
    strace.wait().unwrap();
    signal(naming.id(), "-TERM");
    assert_eq!(wait_for("the end", || naming.ended()).code(), Some(0));
}
