//! Two nodes, a coordinator and libraries over real sockets; the parts are in one process, each
//! with an ORB of its own.
#![allow(dead_code, reason = "each test program uses its part")]

use isorb::{Config, Orb, Reference};
use isorb_netlab::Host;
use isorb_reflective_memory::coordinator::{Coordinator, MemoryStore};
use isorb_reflective_memory::idl::{Area, Glob_CommRef, Mode, Path, ReaderQoS, WriterQoS};
use isorb_reflective_memory::memory::State;
use isorb_reflective_memory::node::{NodeServer, ServerConfig};
use isorb_reflective_memory::{AreaReader, AreaWriter, Library};
use isorb_testkit::{RunningOrb, TempFolder, wait_for, wait_until};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Generous: the machine may be busy.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// No node counts as dead because the machine is busy: the silence in every test that waits for no
/// death.
pub const SILENCE: Duration = Duration::from_secs(30);
/// The silence in tests that wait for a death. Longer than a busy machine delays heartbeats.
pub const SHORT: Duration = Duration::from_secs(2);

pub struct World {
    // The fields are dropped in this order.
    pub near: Option<NodeServer>,
    pub far: Option<NodeServer>,
    pub near_orb: RunningOrb,
    pub far_orb: RunningOrb,
    pub app: RunningOrb,
    pub coordinator: RunningOrb,
    pub glob: String,
    pub sockets: [PathBuf; 2],
    _folder: TempFolder,
    configure: Configure,
}

/// Changes what a node's server (0 near, 1 far) is started with; its silence is [`SILENCE`] before.
pub type Configure = Box<dyn Fn(usize, &mut ServerConfig)>;

impl World {
    pub fn new() -> World {
        World::configured(Box::new(|_, _| {}))
    }

    /// A world in which a silent server soon counts as dead.
    pub fn of_mortals() -> World {
        World::configured(Box::new(|_, config| config.silence = SHORT))
    }

    pub fn configured(configure: Configure) -> World {
        World::with_far(RunningOrb::new(), configure)
    }

    /// The far node's server is called at this ORB's endpoints.
    pub fn with_far(far_orb: RunningOrb, configure: Configure) -> World {
        let folder = TempFolder::new();
        let coordinator = RunningOrb::new();
        let glob = Coordinator::start(&coordinator, Arc::new(MemoryStore::default())).unwrap();
        let mut world = World {
            near: None,
            far: None,
            near_orb: RunningOrb::new(),
            far_orb,
            app: RunningOrb::new(),
            coordinator,
            glob: glob.object().object().to_string(),
            sockets: ["near", "far"].map(|node| folder.file(node)),
            _folder: folder,
            configure,
        };
        world.near = Some(world.start(0));
        world.far = Some(world.start(1));
        world
    }

    pub fn start(&self, which: usize) -> NodeServer {
        let (orb, name) = [(&self.near_orb, "near"), (&self.far_orb, "far")][which];
        let glob: Glob_CommRef = orb.resolve(&self.glob).unwrap();
        let mut config = ServerConfig { silence: SILENCE, ..ServerConfig::new(name, &self.sockets[which]) };
        (self.configure)(which, &mut config);
        NodeServer::start(orb, config, Some(glob)).unwrap()
    }

    /// An area of the near node, written there and read at the far one.
    pub fn line(&self, size: u32) -> (AreaWriter, AreaReader) {
        let (near, far) = (self.library(0), self.library(1));
        near.create_area(&area("line", size)).unwrap();
        (near.map_writer("line", QOS).unwrap(), far.attach_reader("line", on_write()).unwrap())
    }

    pub fn library(&self, which: usize) -> Library {
        Library::connect(&self.app, &self.sockets[which]).unwrap()
    }
}

/// An ORB on a host of the lab, with a thread that runs it: with an endpoint at the host's address,
/// and one at another.
pub fn orb_on(host: &Host, second: Option<&str>) -> Orb {
    let mut endpoints = vec![format!("{}:0", host.address())];
    endpoints.extend(second.map(|second| format!("{second}:0")));
    host.run(move || {
        let orb = Orb::with_config(Config { endpoints, ..Config::default() }).unwrap();
        orb.root_poa().unwrap();
        let background = orb.clone();
        std::thread::spawn(move || background.run());
        orb
    })
    .unwrap()
}

/// A node's server on a host of the lab, and a library there. Its threads and sockets are the
/// host's.
pub fn node_on(
    host: &Host,
    orb: &Orb,
    name: &str,
    glob: &str,
    configure: impl FnOnce(&mut ServerConfig),
) -> (NodeServer, Library) {
    // The host's name is the lab's own.
    let socket = std::env::temp_dir().join(format!("{}-{name}.socket", host.namespace()));
    let mut config = ServerConfig::new(name, &socket);
    config.dispatcher.udp = (IpAddr::V4(host.address()), 0).into();
    configure(&mut config);
    host.run(|| {
        let glob = orb.resolve::<Glob_CommRef>(glob).unwrap();
        let server = NodeServer::start(orb, config, Some(glob)).unwrap();
        (server, Library::connect(orb, &socket).unwrap())
    })
    .unwrap()
}

pub fn area(name: &str, size: u32) -> Area {
    Area::new(name, size, 3)
}

pub fn on_write() -> ReaderQoS {
    ReaderQoS {
        how: Mode::PushOnWrite,
        period: 0,
        deadline: 0,
        histories: 2,
        guaranteed: false,
        // The machine of a test may grant no real-time class.
        soft: true,
        through: Path::PathUdp,
        parity: 0,
        type_hash: 0,
    }
}

pub const QOS: WriterQoS = WriterQoS { period: 50_000_000, size: 0, type_hash: 0 };

/// Reads until a value of this source number is there.
pub fn until(reader: &mut AreaReader, source: u64) -> Vec<u8> {
    let mut out = vec![0; reader.size()];
    wait_for(format!("value {source}"), || {
        let sample = reader.latest(&mut out).ok().filter(|sample| sample.source >= source)?;
        Some(out[..sample.len].to_vec())
    })
}

pub fn until_state(reader: &mut AreaReader, state: State) {
    wait_until(format!("{state:?}"), || reader.state() == Some(state));
}
