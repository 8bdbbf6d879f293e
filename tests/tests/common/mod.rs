//! ORBs that speak TLS.
#![allow(dead_code, reason = "each test takes what it needs")]

use isorb::{Config, Orb, Reference};
use isorb_tests::Parrot;
use isorb_tests::steady::PathRef;
use isorb_tls::testing::Authority;
use isorb_tls::{Tls, TlsConfig};
use std::path::Path;
use std::sync::Arc;

/// An authority of this process.
pub fn authority(name: &str) -> Authority {
    Authority::at(&Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id())))
        .unwrap()
}

/// An ORB with a certificate for `name` that listens at `endpoints`.
pub fn orb(authority: &Authority, name: &str, endpoints: &[&str]) -> Orb {
    let endpoints = endpoints.iter().map(|endpoint| endpoint.to_string()).collect();
    let config = Config { endpoints, lane_threads: 1, ..Config::default() };
    orb_with(authority.member(name).unwrap(), config)
}

/// An ORB with TLS of this kind.
pub fn orb_with(tls: TlsConfig, config: Config) -> Orb {
    try_orb_with(tls, config).unwrap()
}

/// As [`orb_with`], where that may fail.
pub fn try_orb_with(tls: TlsConfig, config: Config) -> isorb::Result<Orb> {
    let tls = Tls::new(tls).unwrap();
    Orb::builder()
        .config(config)
        .register(|info| info.add_transport(Arc::new(tls)).map_err(|error| panic!("{error}")))
        .build()
}

/// The reference of an object of `server`.
pub fn serve(server: &Orb) -> String {
    let near: PathRef = server.root_poa().unwrap().activate(Arc::new(Parrot::default())).unwrap();
    let background = server.clone();
    std::thread::spawn(move || background.run());
    near.object().to_string()
}
