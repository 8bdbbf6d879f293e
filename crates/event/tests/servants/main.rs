//! The channel as CORBA objects, called over the wire.

mod bad_input;
mod bad_neighbour;
mod content;
mod datagrams;
mod frozen_consumers;
mod history;
mod lanes;
mod links;
mod lossy_datagrams;
mod omniorb;
mod ownership;
mod paced_links;
mod persistent;
mod probes;
mod pulling;
mod push_priorities;
mod real_time;
mod registrations;
mod remote;
mod secured;
mod standard;
mod tao;
mod unknown_proxies;
mod unreachable_peers;
mod wide;

use isorb::{Config, Orb};
use isorb_event::Channel;

/// An ORB that serves, and its channel.
pub fn server(channel: isorb_event::ChannelBuilder) -> (Orb, Channel) {
    server_at(channel, Config::default().endpoints)
}

/// The same at these endpoints.
pub fn server_at(channel: isorb_event::ChannelBuilder, endpoints: Vec<String>) -> (Orb, Channel) {
    let orb = Orb::with_config(Config { endpoints, ..Config::default() }).unwrap();
    orb.root_poa().unwrap().manager().activate().unwrap();
    (orb, channel.build().unwrap())
}

/// Another ORB, which serves call-backs.
pub fn client() -> Orb {
    let orb = Orb::with_config(Config::default()).unwrap();
    orb.root_poa().unwrap().manager().activate().unwrap();
    orb
}
