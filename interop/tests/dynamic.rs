//! Dynamic calls and servants against omniORB and JacORB: a bridge that knows `interop.idl` as data
//! stands between a peer's client and a peer's server, so that each case goes through a dynamic
//! servant and a dynamic call.
//!
//! Where a peer is not built (`interop/setup.sh omniorb jacorb`), its tests say so.

use isorb::{Config, Orb};
use isorb_interop::dynamic::relay_of;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Peers skip what they do not support.
const CASES: &str = "scalars,floats,strings,enums,structs,unions,sequences,arrays,fixeds,recursive,typedefs,anys,\
                     user_exceptions,system_exceptions,attributes,oneways,inheritance,references";

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // The end of its input ends it.
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

fn program(peer: &str, name: &str) -> Option<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let build = std::env::var_os("ISORB_INTEROP_BUILD").map_or(here.join(".build"), PathBuf::from);
    let program = build.join(peer).join(name);
    if !program.exists() {
        println!("SKIPPED: {peer} is not built; run interop/setup.sh {peer}");
        return None;
    }
    Some(program)
}

fn cross(server_peer: &str, client_peer: &str) {
    let (Some(server), Some(client)) = (program(server_peer, "server"), program(client_peer, "client"))
    else {
        return;
    };
    let folder = std::env::temp_dir()
        .join(format!("isorb-dynamic-{}-{server_peer}-{client_peer}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("suite.ior");
    let mut started = Command::new(server);
    started.arg("--ior-file").arg(&file).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut server = Server(started.spawn().unwrap());
    let output = BufReader::new(server.0.stdout.take().unwrap());
    let ready = output.lines().map_while(std::result::Result::ok).any(|line| line.starts_with("READY"));
    assert!(ready, "{server_peer}'s server ended before it was ready");

    // As the peers: a character is one octet.
    let config = Config { char_code_set: "ISO-8859-1".into(), ..Config::default() };
    let orb = Orb::with_config(config).unwrap();
    let target = orb.string_to_object(&std::fs::read_to_string(&file).unwrap()).unwrap();
    let suite = relay_of(&orb, target).unwrap();
    orb.root_poa().unwrap().manager().activate().unwrap();
    let mut started = Command::new(client);
    let ended = started.arg("--ior").arg(suite.to_string()).arg("--only").arg(CASES).output().unwrap();
    let output = String::from_utf8_lossy(&ended.stdout);
    let passed = output.lines().filter(|line| line.starts_with("ok ")).count();
    let error = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success() && passed >= 16, "{passed} passed: {output}\n{error}");
    orb.shutdown(true).unwrap();
    drop(server);
    let _ = std::fs::remove_dir_all(&folder);
}

#[test]
fn a_client_of_omniorb_reaches_a_server_of_omniorb() {
    cross("omniorb", "omniorb");
}

#[test]
fn a_client_of_jacorb_reaches_a_server_of_omniorb() {
    cross("omniorb", "jacorb");
}

#[test]
fn a_client_of_omniorb_reaches_a_server_of_jacorb() {
    cross("jacorb", "omniorb");
}

#[test]
fn a_client_of_jacorb_reaches_a_server_of_jacorb() {
    cross("jacorb", "jacorb");
}
