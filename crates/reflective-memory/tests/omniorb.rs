//! RIO used by a client of another ORB. Skipped with a message where omniORB's tools or a C++
//! compiler are missing.

mod world;

use isorb::{Config, Reference};
use isorb_naming::{Limits, MemoryStore, NamingService};
use isorb_reflective_memory::node::{NodeServer, ServerConfig};
use isorb_reflective_memory::{Library, Rio};
use isorb_testkit::{RunningOrb, TempFolder, compiles, omniorb_stubs, repository};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

/// Builds the client; none if its tools are not installed.
fn build(folder: &TempFolder) -> Option<PathBuf> {
    let (root, path) = (repository(), folder.path());
    // Included files become part of the same output.
    if !omniorb_stubs(path, &["-Wbinline"], &[&root.join("idl/ReflectiveMemory.idl")]) {
        return None;
    }
    let program = folder.file("rio");
    let mut command = Command::new("c++");
    command.args(["-O0", "-w", "-o"]).arg(&program).arg("-I").arg(path);
    command.arg(root.join("crates/reflective-memory/tests/omniorb/rio.cc"));
    command.arg(folder.file("ReflectiveMemorySK.cc"));
    command.args(["-lomniDynamic4", "-lomniORB4", "-lomnithread", "-lpthread"]);
    compiles(&mut command).then_some(program)
}

/// Runs the client to its end.
fn uses(program: &Path, args: &[&str]) {
    let output = Command::new(program).args(args).output().unwrap();
    let (printed, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(printed.trim(), "good", "{args:?}: {error}");
}

#[test]
fn an_omniorb_client_writes_and_reads_by_reference_and_by_name() {
    let folder = TempFolder::new();
    let Some(program) = build(&folder) else { return };
    let names = RunningOrb::new();
    let service = NamingService::start(&names, Arc::new(MemoryStore::new()), Limits::default()).unwrap();
    let mut config = Config { endpoints: vec!["127.0.0.1:0".into()], ..Config::default() };
    config.init_refs.insert("NameService".into(), service.object().to_string());
    let orb = RunningOrb::with_config(config);
    let socket = folder.file("socket");
    let server = NodeServer::start(&orb, ServerConfig::new("node", &socket), None).unwrap();
    let library = Library::connect(&orb, &socket).unwrap();
    let (rio, name) = Rio::activate(&orb, &library).unwrap();
    uses(&program, &[&rio.object().to_string()]);
    // Host, process and its start; the client knows only the naming service.
    assert!(name.contains(&format!("-{}-", std::process::id())), "{name}");
    let (host, port) = &names.endpoint_addresses()[0];
    let naming = format!("NameService=corbaloc::1.2@{host}:{port}/NameService");
    uses(&program, &["-ORBInitRef", &naming, "name", &name]);
    let other = Command::new(program).args(["-ORBInitRef", &naming, "name", "crm-missing"]).output().unwrap();
    let error = String::from_utf8_lossy(&other.stderr);
    assert!(!other.status.success() && error.contains("NotFound"), "the control finds nothing: {error}");
    drop((library, server));
}
