//! Nodes of reflective memory in this process.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use isorb::{Config, Orb};
use isorb_reflective_memory::Library;
use isorb_reflective_memory::idl::Glob_CommRef;
use isorb_reflective_memory::node::{NodeServer, ServerConfig};

use super::BenchError;

/// A node's server, and a program's access to it.
pub type Node = (NodeServer, Library);

/// ORBs that are shut down when this is dropped.
#[derive(Default)]
pub struct Orbs(pub Vec<Orb>);

impl Drop for Orbs {
    fn drop(&mut self) {
        for orb in &self.0 {
            // An ORB that has been shut down returns an error.
            let _ = orb.shutdown(false);
        }
    }
}

/// An ORB with an endpoint at an address, served by a thread.
pub fn orb(address: &str) -> Result<Orb, BenchError> {
    let orb = Orb::with_config(Config { endpoints: vec![format!("{address}:0")], ..Config::default() })?;
    orb.root_poa()?;
    let background = orb.clone();
    std::thread::spawn(move || background.run());
    Ok(orb)
}

/// A node, the coordinator being `glob`. `set` chooses what differs from the defaults.
pub fn node(
    orb: &Orb,
    name: &str,
    glob: &str,
    set: impl FnOnce(&mut ServerConfig),
) -> Result<Node, BenchError> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let file = format!("isorb-bench-{}-{number}-{name}.socket", std::process::id());
    let socket = std::env::temp_dir().join(file);
    let mut config = ServerConfig::new(name, &socket);
    // The machine may be busy for long; silence is not what is measured.
    config.silence = Duration::from_secs(30);
    set(&mut config);
    let glob = orb.resolve::<Glob_CommRef>(glob)?;
    let server = NodeServer::start(orb, config, Some(glob)).map_err(refused)?;
    Ok((server, Library::connect(orb, &socket).map_err(refused)?))
}

/// What reflective memory refused.
pub fn refused(error: impl std::fmt::Display) -> BenchError {
    BenchError::Memory(error.to_string())
}
