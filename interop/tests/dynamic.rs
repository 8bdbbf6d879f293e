//! Dynamic calls and servants against omniORB and JacORB: a bridge that knows `interop.idl` as data
//! stands between a peer's client and a peer's server, so that each case goes through a dynamic
//! servant and a dynamic call.
//!
//! Where a peer is not built (`interop/setup.sh omniorb jacorb`), its tests say so.

use isorb::{
    Any, Config, DynamicInterface, DynamicOperation, DynamicReply, DynamicRequest, DynamicServant, Kind,
    Object, Orb, Result, Upcall,
};
use isorb_ifr::{Contents, TypeCodes, operations};
use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

/// Without those that need a large message, and `scalars`: an `Any` holds text in UTF-8, where a
/// character above U+007F is more than a `char`. Peers skip what they do not support.
const CASES: &str = "floats,strings,enums,structs,unions,sequences,arrays,fixeds,recursive,typedefs,anys,\
                     user_exceptions,system_exceptions,attributes,oneways,inheritance,references";

/// What all relays have in common.
struct Bridge {
    orb: Orb,
    contents: Contents,
    /// Relays by the group that they stand for: the suite promises the same object each time.
    groups: Mutex<HashMap<String, Object>>,
    interfaces: Mutex<HashMap<String, Arc<DynamicInterface>>>,
}

/// Stands for an object of the server.
struct Relay {
    bridge: Arc<Bridge>,
    target: Object,
}

impl Bridge {
    fn relay(self: &Arc<Self>, target: Object) -> Result<Object> {
        let id = target.type_id().to_owned();
        let interface = match self.interfaces.lock().unwrap().get(&id).cloned() {
            Some(known) => known,
            None => {
                let spec = self.contents.spec();
                let definition = self.contents.find(&id).ok_or(Kind::IntfRepos)?;
                let operations = operations(&mut TypeCodes::new(spec), definition)
                    .map_err(|why| isorb::SystemException::from(Kind::Internal).detail(why))?;
                let bases = spec.all_bases(definition);
                let bases: Vec<&str> = bases.iter().map(|base| &*spec[*base].repository_id).collect();
                Arc::new(DynamicInterface::new(&id, &bases, operations)?)
            }
        };
        self.interfaces.lock().unwrap().insert(id, interface.clone());
        let poa = self.orb.root_poa()?;
        let active =
            poa.activate_object(interface.servant(Arc::new(Relay { bridge: self.clone(), target })))?;
        Ok(poa.id_to_reference(&active)?)
    }
}

impl DynamicServant for Relay {
    fn invoke(
        &self,
        _: Upcall<'_>,
        operation: &DynamicOperation,
        arguments: Vec<Any>,
    ) -> Result<DynamicReply> {
        let group = match operation.name() {
            "group" => arguments.first().and_then(Any::get::<String>),
            _ => None,
        };
        let mut request = DynamicRequest::new(&self.target, operation);
        for argument in arguments {
            request = request.argument(argument)?;
        }
        let reply = request.invoke()?;
        let (Some(group), DynamicReply::Results(results)) = (group, &reply) else { return Ok(reply) };
        if let Some(known) = self.bridge.groups.lock().unwrap().get(&group) {
            return Ok(DynamicReply::Results(vec![Any::new(&Some(known.clone()))?]));
        }
        let object = results.first().and_then(|any| self.bridge.orb.extract::<Option<Object>>(any)).flatten();
        let relay = self.bridge.relay(object.ok_or(Kind::InvObjref)?)?;
        self.bridge.groups.lock().unwrap().insert(group, relay.clone());
        Ok(DynamicReply::Results(vec![Any::new(&Some(relay))?]))
    }
}

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

    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let contents = Contents::compile(&[here.join("idl/interop.idl")], &[]).unwrap();
    // As the peers: a character is one octet.
    let config = Config { char_code_set: "ISO-8859-1".into(), ..Config::default() };
    let orb = Orb::with_config(config).unwrap();
    let target = orb.string_to_object(&std::fs::read_to_string(&file).unwrap()).unwrap();
    let bridge = Arc::new(Bridge {
        orb: orb.clone(),
        contents,
        groups: Mutex::default(),
        interfaces: Mutex::default(),
    });
    let suite = bridge.relay(target).unwrap();
    orb.root_poa().unwrap().manager().activate().unwrap();
    let mut started = Command::new(client);
    let ended = started.arg("--ior").arg(suite.to_string()).arg("--only").arg(CASES).output().unwrap();
    let output = String::from_utf8_lossy(&ended.stdout);
    let passed = output.lines().filter(|line| line.starts_with("ok ")).count();
    let error = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success() && passed >= 15, "{passed} passed: {output}\n{error}");
    // Each of them led to a relay.
    assert!(bridge.groups.lock().unwrap().len() >= 15);
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
