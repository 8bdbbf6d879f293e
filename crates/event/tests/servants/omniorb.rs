//! omniORB as a client of the OMG's Event Service. Built here if omniidl and its headers are
//! installed; otherwise skipped with a message.

use crate::server;
use isorb_event::Channel;
use isorb_event::servants::{CosEventService, EventServiceOptions};
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
fn a_client_on_omniorb_pushes_pulls_and_is_pushed() {
    if !Path::new("/usr/include/omniORB4/CORBA.h").exists() {
        println!("skipped: no omniORB here (apt-get install omniidl libomniorb4-dev)");
        return;
    }
    let home = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("omniorb-events");
    std::fs::create_dir_all(&folder).unwrap();
    let idl = home.join("../../idl").canonicalize().unwrap();
    let idl = idl.to_str().unwrap();
    for file in ["CosEventComm.idl", "CosEventChannelAdmin.idl"] {
        let arguments = ["-bcxx", "-I", idl, &format!("{idl}/{file}")];
        if let Err(why) = step(&folder, "omniidl", &arguments) {
            println!("skipped: {why} (apt-get install omniidl)");
            return;
        }
    }
    let source = home.join("tests/servants/client.cc");
    let inputs = [
        "-o",
        "client",
        "-I.",
        source.to_str().unwrap(),
        "CosEventCommSK.cc",
        "CosEventChannelAdminSK.cc",
        "-lomniDynamic4",
        "-lomniORB4",
        "-lomnithread",
        "-lpthread",
    ];
    step(&folder, "g++", &inputs).unwrap();

    let (orb, channel) = server(Channel::builder());
    let face = CosEventService::start(&orb, &channel, EventServiceOptions::default()).unwrap();
    let output = Command::new("timeout")
        .args(["-s", "KILL", "60", "./client", &face.object().to_string()])
        .current_dir(&folder)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.trim() == "ok",
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
