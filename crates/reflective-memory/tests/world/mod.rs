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
use isorb_rt::time::Deadline;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Generous: the machine may be busy.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// No node counts as dead because the machine is busy: the silence in every test that waits for no
/// death.
pub const SILENCE: Duration = Duration::from_secs(30);
/// For those that wait for one. Longer than a machine that is busy keeps heartbeats.
pub const SHORT: Duration = Duration::from_secs(2);

pub struct Running {
    pub orb: Orb,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Running {
    pub fn new() -> Running {
        Running::at(vec!["127.0.0.1:0".into()])
    }

    pub fn at(endpoints: Vec<String>) -> Running {
        Running::with(Config { endpoints, ..Config::default() })
    }

    pub fn with(config: Config) -> Running {
        let orb = Orb::with_config(config).unwrap();
        // The endpoint opens with the root POA.
        orb.root_poa().unwrap();
        let background = orb.clone();
        Running { orb, thread: Some(std::thread::spawn(move || background.run())) }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.orb.shutdown(true);
        let _ = self.thread.take().unwrap().join();
    }
}

pub struct World {
    // In this order they end.
    pub near: Option<NodeServer>,
    pub far: Option<NodeServer>,
    pub near_orb: Running,
    pub far_orb: Running,
    pub app: Running,
    pub coordinator: Running,
    pub glob: String,
    pub sockets: [PathBuf; 2],
    configure: Configure,
}

/// Changes what a node's server (0 near, 1 far) is started with; its silence is [`SILENCE`] before.
pub type Configure = Box<dyn Fn(usize, &mut ServerConfig)>;

impl World {
    pub fn new() -> World {
        World::configured(Box::new(|_, _| {}))
    }

    /// A server that is away counts as dead soon.
    pub fn of_mortals() -> World {
        World::configured(Box::new(|_, config| config.silence = SHORT))
    }

    pub fn configured(configure: Configure) -> World {
        World::with_far(Running::new(), configure)
    }

    /// The far node's server is called at this ORB's endpoints.
    pub fn with_far(far_orb: Running, configure: Configure) -> World {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let socket = |node: &str| {
            std::env::temp_dir().join(format!("isorb-memory-{}-{number}-{node}.socket", std::process::id()))
        };
        let coordinator = Running::new();
        let glob = Coordinator::start(&coordinator.orb, Arc::new(MemoryStore::default())).unwrap();
        let mut world = World {
            near: None,
            far: None,
            near_orb: Running::new(),
            far_orb,
            app: Running::new(),
            coordinator,
            glob: glob.object().object().to_string(),
            sockets: [socket("near"), socket("far")],
            configure,
        };
        world.near = Some(world.start(0));
        world.far = Some(world.start(1));
        world
    }

    pub fn start(&self, which: usize) -> NodeServer {
        let (orb, name) = [(&self.near_orb.orb, "near"), (&self.far_orb.orb, "far")][which];
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
        Library::connect(&self.app.orb, &self.sockets[which]).unwrap()
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
    Area { name: name.into(), size, histories: 3 }
}

pub fn on_write() -> ReaderQoS {
    ReaderQoS {
        how: Mode::PushOnWrite,
        period: 0,
        deadline: 0,
        histories: 2,
        guaranteed: false,
        through: Path::PathUdp,
        parity: 0,
    }
}

pub const QOS: WriterQoS = WriterQoS { period: 50_000_000, size: 0 };

/// Reads until a value of this source number is there.
pub fn until(reader: &mut AreaReader, source: u64) -> Vec<u8> {
    let deadline = Deadline::after(PATIENCE);
    let mut out = vec![0; reader.size()];
    loop {
        if let Ok(sample) = reader.latest(&mut out)
            && sample.source >= source
        {
            return out[..sample.len].to_vec();
        }
        assert!(!deadline.is_past(), "value {source} did not come; state {:?}", reader.state());
        let _ = reader.wait(Duration::from_millis(200));
    }
}

pub fn until_state(reader: &mut AreaReader, state: State) {
    let deadline = Deadline::after(PATIENCE);
    while reader.state() != Some(state) {
        assert!(!deadline.is_past(), "{:?} instead of {state:?}", reader.state());
        std::thread::sleep(Duration::from_millis(5));
    }
}
