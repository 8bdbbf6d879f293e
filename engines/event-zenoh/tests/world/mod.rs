//! What the tests share: router processes, sites, and consumers that record.
#![allow(dead_code, reason = "each test program uses a part")]

use isorb_event::{
    Channel, ConsumerQos, Event, Filter, Header, Origin, Priority, ProxyPushSupplier, Quality,
};
use isorb_event_zenoh::{Gateway, Settings};
use isorb_testkit::{Process, retry};
use std::net::TcpListener;
use std::process::Command;
use std::sync::{Arc, Mutex};

/// The program of this crate.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_isorb-event-zenoh");

/// A port that is free now.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

pub fn at(port: u16) -> String {
    format!("tcp/127.0.0.1:{port}")
}

/// A router as a process, which can be killed.
pub fn router(listen: &str, others: &[String]) -> Process {
    let mut command = Command::new(PROGRAM);
    command.args(["router", "--listen", listen]);
    if !others.is_empty() {
        command.args(["--router", &others.join(",")]);
    }
    Process::ready(&mut command).0
}

/// Two routers that are connected, and their addresses.
pub fn two_routers() -> ([Process; 2], [String; 2]) {
    let addresses = [at(free_port()), at(free_port())];
    let first = router(&addresses[0], &[]);
    let second = router(&addresses[1], &addresses[..1]);
    ([first, second], addresses)
}

/// An event as a consumer received it.
pub type Received = (Header, Vec<u8>, Origin);

#[derive(Clone, Default)]
pub struct Record(Arc<Mutex<Vec<Received>>>);

impl Record {
    pub fn all(&self) -> Vec<Received> {
        self.0.lock().unwrap().clone()
    }

    pub fn count(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    /// The numbers that [`numbered`] put into the events.
    pub fn numbers(&self) -> Vec<u64> {
        self.all().iter().map(|(header, ..)| header.creation_time).collect()
    }
}

/// Connects a consumer that records.
pub fn consumer(channel: &Channel, filter: Filter, priority: i16) -> (Record, ProxyPushSupplier) {
    let record = Record::default();
    let to = record.clone();
    let receive = move |events: &[Event<'_>]| {
        let received = |event: &Event<'_>| (event.header, event.data.octets.to_vec(), event.origin);
        to.0.lock().unwrap().extend(events.iter().map(received));
    };
    let priority = Priority::new(priority).unwrap();
    let qos = ConsumerQos::new("record", filter).quality(Quality { priority, ..Quality::default() });
    let proxy = channel.for_consumers().connect(Arc::new(receive), qos).unwrap();
    (record, proxy)
}

/// An event with a number.
pub fn numbered(event_type: i32, number: u64) -> Event<'static> {
    Event::new(event_type, 1).created(number)
}

/// A channel with its gateway.
pub struct Site {
    pub gateway: Gateway,
    pub channel: Channel,
}

impl Site {
    pub fn new(name: &str, routers: &[String]) -> Site {
        Site::with(Settings::new("plant", name, routers.to_vec()))
    }

    pub fn with(settings: Settings) -> Site {
        let channel = Channel::builder().build().unwrap();
        let gateway = retry("the gateway starts", || Gateway::start(&channel, settings.clone()));
        Site { gateway, channel }
    }
}
