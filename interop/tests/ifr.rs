//! The interface repository with clients of JacORB and omniORBpy: they ask an object of isorb for
//! its interface, and the repository for definitions of each kind.
//!
//! Where a peer is not built (`interop/setup.sh jacorb omniorbpy`), its test says so.

use isorb::{
    Any, Config, DynamicInterface, DynamicOperation, DynamicReply, DynamicServant, Kind, Orb, Result, Upcall,
};
use isorb_ifr::{Contents, RepositoryService, TypeCodes, operations};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

/// What both clients print. Numbers are those of `TCKind` and of the modes.
const LEARNED: &str = "\
interface IDL:Plant/Valve:1.0 Valve ::Plant::Valve
base IDL:Plant/Device:1.0
operation stop 1 0 []
operation move 21 0 [to:15:0,steps:21:2,reading:16:1,] raises IDL:Plant/Jammed:1.0
operation ping 1 1 [at:24:0,]
attribute name 18 1
attribute place 17 0
struct x:7 y:7
union part:17 part:17 text:10
constant -7
array 2 3
value Node 2 make
interfaces Device Valve
exceptions Jammed Locked
";

struct Silent;

impl DynamicServant for Silent {
    fn invoke(&self, _: Upcall<'_>, _: &DynamicOperation, _: Vec<Any>) -> Result<DynamicReply> {
        Err(Kind::NoImplement.into())
    }
}

fn learns(peer: &str) {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let build = std::env::var_os("ISORB_INTEROP_BUILD").map_or(here.join(".build"), PathBuf::from);
    let program = build.join(peer).join("ifr");
    if !program.exists() {
        println!("SKIPPED: {peer} is not built; run interop/setup.sh {peer}");
        return;
    }
    let orb = Orb::with_config(Config::default()).unwrap();
    let contents = Contents::compile(&[here.join("../crates/ifr/tests/plant.idl")], &[]).unwrap();
    let contents = Arc::new(contents);
    let service = RepositoryService::start(&orb, contents.clone()).unwrap();
    let valve = contents.find("IDL:Plant/Valve:1.0").unwrap();
    let operations = operations(&mut TypeCodes::new(contents.spec()), valve).unwrap();
    let interface = DynamicInterface::new("IDL:Plant/Valve:1.0", &[], operations).unwrap();
    let poa = orb.root_poa().unwrap();
    let id = poa.activate_object(Arc::new(interface).servant(Arc::new(Silent))).unwrap();
    let object = poa.id_to_reference(&id).unwrap();
    poa.manager().activate().unwrap();
    let mut client = Command::new(program);
    let ended = client.arg(service.object().to_string()).arg(object.to_string()).output().unwrap();
    let output = String::from_utf8_lossy(&ended.stdout).replace("\r\n", "\n");
    let error = String::from_utf8_lossy(&ended.stderr);
    let refused = format!("refused {}\n", isorb::minor::NO_PERMISSION_READ_ONLY);
    assert_eq!(output, format!("{LEARNED}{refused}"), "{error}");
    orb.shutdown(true).unwrap();
}

#[test]
fn jacorb_learns_interfaces() {
    learns("jacorb");
}

#[test]
fn omniorbpy_learns_interfaces() {
    learns("omniorbpy");
}
