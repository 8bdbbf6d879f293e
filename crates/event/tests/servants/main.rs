//! The channel as CORBA objects, called through the wire.

mod bad_input;
mod bad_neighbour;
mod datagrams;
mod lanes;
mod links;
mod lossy_datagrams;
mod omniorb;
mod pulling;
mod push_priorities;
mod real_time;
mod standard;
mod unreachable_peers;
mod wide;

use isorb::{Config, Orb};
use isorb_event::Channel;
use std::time::{Duration, Instant};

/// An ORB that serves, and a channel in it.
pub fn server(channel: isorb_event::Config) -> (Orb, Channel) {
    let orb = Orb::with_config(Config::default()).unwrap();
    orb.root_poa().unwrap().manager().activate().unwrap();
    (orb, Channel::new(channel).unwrap())
}

/// Another ORB, which serves calls back.
pub fn client() -> Orb {
    let orb = Orb::with_config(Config::default()).unwrap();
    orb.root_poa().unwrap().manager().activate().unwrap();
    orb
}

/// Waits until it is so. Says what was waited for, should it never be.
pub fn until(what: &str, mut so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !so() {
        assert!(start.elapsed() < Duration::from_secs(60), "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
