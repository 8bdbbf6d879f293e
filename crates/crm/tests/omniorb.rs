//! RIO used by a client of another ORB. Skipped with a message where omniORB's tools or a C++ compiler are missing.

use isorb::{Config, Orb, Reference};
use isorb_crm::node::{NodeServer, ServerConfig};
use isorb_crm::{Library, Rio};
use std::path::{Path, PathBuf};
use std::process::Command;

struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Builds the client; none where what it takes is not installed.
fn build(folder: &Path) -> Option<PathBuf> {
    for (tool, argument) in [("omniidl", "-V"), ("c++", "--version")] {
        if !Command::new(tool).arg(argument).output().is_ok_and(|output| output.status.success()) {
            eprintln!("skipped: {tool} does not run (apt-get install omniidl omniorb libomniorb4-dev g++)");
            return None;
        }
    }
    if !Path::new("/usr/include/omniORB4").exists() {
        eprintln!("skipped: omniORB's headers are not installed (apt-get install libomniorb4-dev)");
        return None;
    }
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let run = |command: &mut Command| {
        let output = command.output().unwrap();
        assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    run(Command::new("omniidl")
        // What is included becomes part of the same file.
        .args(["-bcxx", "-Wbinline", "-C"])
        .arg(folder)
        .arg(here.join("../../idl/ReflectiveMemory.idl")));
    let program = folder.join("rio");
    run(Command::new("c++")
        .args(["-O0", "-w", "-o"])
        .arg(&program)
        .arg("-I")
        .arg(folder)
        .arg(here.join("tests/omniorb/rio.cc"))
        .arg(folder.join("ReflectiveMemorySK.cc"))
        .args(["-lomniDynamic4", "-lomniORB4", "-lomnithread", "-lpthread"]));
    Some(program)
}

#[test]
fn an_omniorb_client_writes_and_reads() {
    let folder = Folder(std::env::temp_dir().join(format!("isorb-crm-omniorb-{}", std::process::id())));
    std::fs::create_dir_all(&folder.0).unwrap();
    let Some(program) = build(&folder.0) else { return };
    let orb = Orb::with_config(Config { endpoints: vec!["127.0.0.1:0".into()], ..Config::default() });
    orb.root_poa().unwrap();
    let background = orb.clone();
    let thread = std::thread::spawn(move || background.run());
    let socket = folder.0.join("socket");
    let server = NodeServer::start(&orb, ServerConfig::new("node", &socket), None).unwrap();
    let library = Library::connect(&orb, &socket).unwrap();
    let (rio, _) = Rio::activate(&orb, &library).unwrap();
    let output = Command::new(program).arg(rio.object().to_string()).output().unwrap();
    assert_eq!(
        String::from_utf8_lossy(&output.stdout).trim(),
        "good",
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    drop((library, server));
    orb.shutdown(true).unwrap();
    thread.join().unwrap();
}
