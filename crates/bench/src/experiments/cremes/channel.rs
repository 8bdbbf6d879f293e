//! Through the event channel: one in each host, federated by datagrams or by the ORB; a thread for
//! high and one for low consumers.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use isorb_event::federation::{Federation, Security};
use isorb_event::servants::{FederationServant, LinkOptions, UdpGateway, UdpOptions};
use isorb_event::{Channel, ConsumerQos, Event, Filter, Limits, Priority, Strategy, ThreadSetup};
use isorb_netlab::Host;
use isorb_rt::priority::Linear;
use isorb_rt::sched::NativeRange;
use isorb_rt::time::now_ns;

use super::echo::Echo;
use super::memory;
use super::site::{ReadySubject, Sender, Site};
use crate::experiments::BenchError;
use crate::experiments::nodes::Orbs;

const HIGH: i16 = 30_000;
const LOW: i16 = 1_000;
/// Event types below are the channel's own.
const FIRST_TYPE: i32 = 16;
const SOURCE: i32 = 1;

/// The transport of the federation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Link {
    /// A datagram an event.
    Datagrams,
    /// One-way calls over a connection, in the supplier's thread, as TAO's gateways have it.
    Orb,
}

/// Everything that must live while values flow, in the order of its end.
#[derive(Default)]
struct Deployment {
    gateways: Vec<UdpGateway>,
    neighbours: Vec<FederationServant>,
    _connected: Vec<isorb_event::ProxyPushSupplier>,
    _channels: Channels,
    orbs: Orbs,
}

#[derive(Default)]
struct Channels(Vec<Channel>);

impl Drop for Channels {
    fn drop(&mut self) {
        self.0.iter().for_each(Channel::destroy);
    }
}

/// One high supplier and `low` ones, a consumer each in the other host.
pub fn wire(
    site: &Site<'_>,
    by: Link,
    low: u32,
    size: usize,
    echo: &Echo,
) -> Result<ReadySubject, BenchError> {
    let near = Channel::builder().id(1).build().map_err(refused)?;
    let levels: Vec<Priority> = [LOW, HIGH].into_iter().filter_map(Priority::new).collect();
    let mut threads = ThreadSetup::default();
    if site.cx.fifo.is_some() {
        threads.mapping = Some(Arc::new(Linear(NativeRange::new(1, 45).unwrap_or_default())));
    }
    // Queued events are copied, and larger ones are refused unless the limits include them.
    let limits = Limits { payload: size, events: 256, ..Limits::default() };
    let config = Channel::builder()
        .strategy(Strategy::Threads { per_level: 1 })
        .id(2)
        .levels(levels)
        .threads(threads)
        .limits(limits);
    let far = site.right(|| config.build().map_err(refused))?;
    // Before the consumers, since the members announce the subscriptions to each other.
    // Both are hosts of the experiment, on a network of their own.
    let member = |channel| Federation::builder(channel).security(Security::Insecure).build().map_err(refused);
    let (one, other) = (member(&near)?, member(&far)?);
    let mut connected = Vec::new();
    for pair in 0..=low {
        let echo = echo.clone();
        let consumer =
            move |events: &[Event<'_>]| events.iter().for_each(|event| echo.back(event.data.octets));
        let mut qos = ConsumerQos::new(format!("consumer-{pair}"), Filter::of(event_type(pair), SOURCE));
        if let Some(priority) = Priority::new(if pair == 0 { HIGH } else { LOW }) {
            qos.quality.priority = priority;
        }
        connected.push(far.for_consumers().connect(Arc::new(consumer), qos).map_err(refused)?);
    }
    let channels = Channels(vec![near.clone(), far]);
    let mut held = Deployment { _connected: connected, _channels: channels, ..Deployment::default() };
    match by {
        Link::Datagrams => datagrams(site, [&one, &other], &mut held)?,
        Link::Orb => calls(site, [&one, &other], &mut held)?,
    }
    let until = Instant::now() + Duration::from_secs(20);
    // Over datagrams, subscriptions and their grants travel with a tick.
    let mut rounds = 0;
    while rounds < 20 {
        if Instant::now() > until {
            return Err(BenchError::Channel("the channels do not hear each other".into()));
        }
        rounds += u32::from(one.known() > 0 && other.known() > 0);
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
    Ok(ReadySubject { senders, elsewhere: None, held: Box::new(held), counts: None })
}

fn datagrams(
    site: &Site<'_>,
    [one, other]: [&Federation; 2],
    held: &mut Deployment,
) -> Result<(), BenchError> {
    let here = site.left(|| free(site.lab.left().address()))?;
    let there = site.right(|| free(site.lab.right().address()))?;
    // A receiving thread inherits the class of the thread that starts it.
    let gateway = |federation: &Federation, options| {
        let _ = site.class(1).set_current();
        Ok(UdpGateway::start(federation, options)?)
    };
    held.gateways.push(site.left(|| gateway(one, UdpOptions::to_neighbour(here, there)))?);
    held.gateways.push(site.right(|| gateway(other, UdpOptions::to_neighbour(there, here)))?);
    Ok(())
}

fn calls(site: &Site<'_>, [one, other]: [&Federation; 2], held: &mut Deployment) -> Result<(), BenchError> {
    let timeout = Duration::from_secs(20);
    // Threads that serve calls inherit the class of the thread that starts them.
    let member = |host: &Host, federation: &Federation| {
        let _ = site.class(1).set_current();
        let orb = memory::orb(host)?;
        let member = FederationServant::start(&orb, federation, LinkOptions::new(timeout))?;
        Ok((orb, member))
    };
    let (left, here) = site.left(|| member(site.lab.left(), one))?;
    let (right, there) = site.right(|| member(site.lab.right(), other))?;
    let url = there.object().to_string();
    // The connection is made by the call, in the host.
    site.left(|| here.join(&left.string_to_object(&url)?).map_err(refused))?;
    held.neighbours.extend([here, there]);
    held.orbs.0.extend([left, right]);
    Ok(())
}

fn event_type(pair: u32) -> i32 {
    FIRST_TYPE + i32::try_from(pair).unwrap_or(0)
}

/// A free port. Called in the host.
fn free(address: Ipv4Addr) -> Result<SocketAddr, BenchError> {
    Ok(UdpSocket::bind((address, 0))?.local_addr()?)
}

/// The error of a channel.
fn refused(error: impl std::fmt::Display) -> BenchError {
    BenchError::Channel(error.to_string())
}
