//! omniORB as a producer, consumer and administrator. Built here if omniidl and its headers are
//! installed; otherwise skipped with a message.

mod common;

use common::Served;
use isorb_log_service::store::FullAction;
use isorb_testkit::{TempFolder, compiles, omniorb_stubs, repository};
use std::process::Command;

#[test]
fn a_client_on_omniorb_writes_reads_and_administers() {
    let folder = TempFolder::new();
    let root = repository();
    if !omniorb_stubs(folder.path(), &[], &[&root.join("idl/CosLwLog.idl")]) {
        return;
    }
    let program = folder.file("client");
    let mut command = Command::new("g++");
    command.arg("-o").arg(&program).arg("-I").arg(folder.path());
    command.arg(root.join("crates/log-service/tests/client.cc")).arg(folder.file("CosLwLogSK.cc"));
    if !compiles(command.args(["-lomniORB4", "-lomnithread", "-lpthread"])) {
        return;
    }

    let served = Served::memory(1 << 20, FullAction::Wrap);
    let output = Command::new("timeout")
        .args(["-s", "KILL", "60"])
        .args([program.as_os_str(), served.service.object().to_string().as_ref()])
        .output()
        .unwrap();
    let (text, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && text.trim() == "ok", "{text}{error}");
}
