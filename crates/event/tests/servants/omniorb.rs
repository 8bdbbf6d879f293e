//! omniORB as a client of the OMG's Event Service. Built here if omniidl and its headers are
//! installed; otherwise skipped with a message.

use crate::server;
use isorb_event::Channel;
use isorb_event::servants::{CosEventService, EventServiceOptions};
use isorb_testkit::{TempFolder, compiles, omniorb_stubs, repository};
use std::process::Command;

#[test]
fn a_client_on_omniorb_pushes_pulls_and_is_pushed() {
    let folder = TempFolder::new();
    let root = repository();
    let files = ["CosEventComm", "CosEventChannelAdmin"].map(|name| root.join(format!("idl/{name}.idl")));
    if !omniorb_stubs(folder.path(), &[], &files.each_ref().map(|file| file.as_path())) {
        return;
    }
    let program = folder.file("client");
    let mut command = Command::new("g++");
    command.arg("-o").arg(&program).arg("-I").arg(folder.path());
    command.arg(root.join("crates/event/tests/servants/client.cc"));
    command.args(["CosEventCommSK.cc", "CosEventChannelAdminSK.cc"].map(|file| folder.file(file)));
    if !compiles(command.args(["-lomniDynamic4", "-lomniORB4", "-lomnithread", "-lpthread"])) {
        return;
    }

    let (orb, channel) = server(Channel::builder());
    let face = CosEventService::start(&orb, &channel, EventServiceOptions::default()).unwrap();
    let output = Command::new("timeout")
        .args(["-s", "KILL", "60"])
        .args([program.as_os_str(), face.object().to_string().as_ref()])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.trim() == "ok",
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
