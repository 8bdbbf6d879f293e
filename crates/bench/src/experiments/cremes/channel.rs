//! Through the event channel: one in each host, federated by datagrams; a thread for high and one for low consumers.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use isorb_event::face::{UdpGateway, UdpOptions};
use isorb_event::federation::Federation;
use isorb_event::{
    Channel, Config, ConsumerQos, Event, Filter, Limits, Priority, Quality, Strategy, ThreadSetup,
};
use isorb_rt::priority::Linear;
use isorb_rt::sched::NativeRange;
use isorb_rt::time::now_ns;

use super::echo::Echo;
use super::{Sender, Site, Wired};
use crate::experiments::BenchError;

const HIGH: i16 = 30_000;
const LOW: i16 = 1_000;
/// Event types below are the channel's own.
const FIRST_TYPE: i32 = 16;
const SOURCE: i32 = 1;

/// Gateways end before their channels.
struct Held {
    gateways: Vec<UdpGateway>,
    connected: Vec<isorb_event::ProxyPushSupplier>,
    channels: Vec<Channel>,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.gateways.clear();
        self.connected.clear();
        self.channels.iter().for_each(Channel::destroy);
    }
}

/// One high supplier and `low` ones, a consumer each in the other host.
pub fn wire(site: &Site<'_>, low: u32, size: usize, echo: &Echo) -> Result<Wired, BenchError> {
    let near = Channel::new(Config { id: 1, ..Config::default() }).map_err(refused)?;
    let levels: Vec<Priority> = [LOW, HIGH].into_iter().filter_map(Priority::new).collect();
    let mut threads = ThreadSetup::default();
    if site.cx.fifo.is_some() {
        threads.mapping = Some(Arc::new(Linear(NativeRange::new(1, 45).unwrap_or_default())));
    }
    // What waits for a consumer's thread is copied, and larger values are refused unless there is room for them.
    let limits = Limits { payload: size, events: 256, ..Limits::default() };
    let config =
        Config { id: 2, levels, threads, limits, ..Config::with(Strategy::Threads { per_level: 1 }) };
    let far = site.right(|| Channel::new(config).map_err(refused))?;
    // Before the consumers, whose wishes they tell each other.
    let one = Federation::new(&near, Quality::default()).map_err(refused)?;
    let other = Federation::new(&far, Quality::default()).map_err(refused)?;
    let mut connected = Vec::new();
    for pair in 0..=low {
        let echo = echo.clone();
        let consumer =
            move |events: &[Event<'_>]| events.iter().for_each(|event| echo.back(event.data.octets));
        let mut qos = ConsumerQos::of(format!("consumer-{pair}"), Filter::of(event_type(pair), SOURCE));
        if let Some(priority) = Priority::new(if pair == 0 { HIGH } else { LOW }) {
            qos.quality.priority = priority;
        }
        connected.push(far.for_consumers().connect(Arc::new(consumer), qos).map_err(refused)?);
    }
    let here = site.left(|| free(site.lab.left().address()))?;
    let there = site.right(|| free(site.lab.right().address()))?;
    // A thread that receives is of the class of whoever starts it.
    let gateway = |federation: &Federation, options| {
        let _ = site.class(1).set_current();
        Ok(UdpGateway::start(federation, options)?)
    };
    let gateways = vec![
        site.left(|| gateway(&one, UdpOptions::to_neighbour(here, there)))?,
        site.right(|| gateway(&other, UdpOptions::to_neighbour(there, here)))?,
    ];
    let until = Instant::now() + Duration::from_secs(20);
    while one.known() == 0 {
        if Instant::now() > until {
            return Err(BenchError::Channel("the channels do not hear each other".into()));
        }
        [&one, &other].into_iter().for_each(|member| member.tick(now_ns(), u64::MAX));
        std::thread::sleep(Duration::from_millis(10));
    }
    let mut senders: Vec<Sender> = Vec::new();
    for pair in 0..=low {
        let supplier = near.for_suppliers().connect().map_err(refused)?;
        senders.push(Box::new(move |value: &[u8]| {
            supplier.push(&Event::new(event_type(pair), SOURCE).octets(value));
        }));
    }
    Ok(Wired { senders, held: Box::new(Held { gateways, connected, channels: vec![near, far] }) })
}

fn event_type(pair: u32) -> i32 {
    FIRST_TYPE + i32::try_from(pair).unwrap_or(0)
}

/// A port that nobody has. Called in the host.
fn free(address: Ipv4Addr) -> Result<SocketAddr, BenchError> {
    Ok(UdpSocket::bind((address, 0))?.local_addr()?)
}

/// What a channel refused.
fn refused(error: impl std::fmt::Display) -> BenchError {
    BenchError::Channel(error.to_string())
}
