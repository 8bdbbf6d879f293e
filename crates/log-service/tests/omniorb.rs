//! omniORB as a producer, consumer and administrator. Built here if omniidl and its headers are
//! installed; otherwise skipped with a message.

mod common;

use common::Served;
use isorb_log_service::store::FullAction;
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs a step of the build in `folder`. An error says why it failed.
fn step(folder: &Path, program: &str, arguments: &[&str]) -> Result<(), String> {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .map_err(|_| format!("{program} is not installed"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("{program} failed: {}", String::from_utf8_lossy(&output.stderr))),
    }
}

#[test]
fn a_client_on_omniorb_writes_reads_and_administers() {
    if !Path::new("/usr/include/omniORB4/CORBA.h").exists() {
        println!("skipped: no omniORB here (apt-get install omniidl libomniorb4-dev)");
        return;
    }
    let home = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("omniorb-log");
    std::fs::create_dir_all(&folder).unwrap();
    let idl = home.join("../../idl/CosLwLog.idl").canonicalize().unwrap();
    if let Err(why) = step(&folder, "omniidl", &["-bcxx", idl.to_str().unwrap()]) {
        println!("skipped: {why} (apt-get install omniidl)");
        return;
    }
    let source = home.join("tests/client.cc");
    let inputs = [
        "-o",
        "client",
        "-I.",
        source.to_str().unwrap(),
        "CosLwLogSK.cc",
        "-lomniORB4",
        "-lomnithread",
        "-lpthread",
    ];
    step(&folder, "g++", &inputs).unwrap();

    let served = Served::memory(1 << 20, FullAction::Wrap);
    let output = Command::new("timeout")
        .args(["-s", "KILL", "60", "./client", &served.service.object().to_string()])
        .current_dir(&folder)
        .output()
        .unwrap();
    let (text, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && text.trim() == "ok", "{text}{error}");
}
