//! Remote consumers that do not read, do not answer or are gone cost no other consumer anything.

use crate::unreachable_peers::{by_hand, event};
use crate::{client, server};
use isorb::{Orb, Reference, Upcall};
use isorb_event::servants::stamped::{rtec_event_channel_admin as admin, rtec_event_comm as comm};
use isorb_event::servants::{EventServiceOptions, RtecEventService};
use isorb_event::{Channel, Data, Event, Limits, Quality};
use isorb_testkit::wait_until;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// A push for which no socket here has room for many.
const OCTETS: usize = 8 << 10;
/// What each of the consumers gets: more than the sockets of one connection hold.
const EVENTS: usize = 1_000;

/// Processes that answer the announcement of a priority band, and are left to the test from then
/// on: `answering` of them, the others answer nothing. Returns their address and their sockets.
fn peers(answering: usize) -> (SocketAddr, Receiver<TcpStream>) {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    // Accepted sockets inherit it.
    socket.set_recv_buffer_size(4 << 10).unwrap();
    socket.bind(&"127.0.0.1:0".parse::<SocketAddr>().unwrap().into()).unwrap();
    socket.listen(4_096).unwrap();
    let listener = std::net::TcpListener::from(socket);
    let at = listener.local_addr().unwrap();
    let (accepted, sockets) = channel();
    std::thread::spawn(move || {
        for number in 0.. {
            let (mut stream, _) = listener.accept().unwrap();
            if number < answering {
                answer(&mut stream);
            }
            if accepted.send(stream).is_err() {
                return;
            }
        }
    });
    (at, sockets)
}

/// Reads one request of GIOP 1.2, and replies without results.
fn answer(stream: &mut TcpStream) {
    let mut header = [0; 12];
    stream.read_exact(&mut header).unwrap();
    let size = u32::from_le_bytes(header[8..].try_into().unwrap());
    let mut body = vec![0; size as usize];
    stream.read_exact(&mut body).unwrap();
    let mut reply = Vec::from(*b"GIOP\x01\x02\x01\x01\x0c\0\0\0");
    reply.extend(&body[..4]);
    reply.extend([0; 8]);
    stream.write_all(&reply).unwrap();
}

struct World {
    _orb: Orb,
    channel: Channel,
    _face: RtecEventService,
    here: Orb,
    far: admin::EventChannelRef,
}

fn world(options: EventServiceOptions) -> World {
    let limits = Limits { payload: OCTETS, consumers: 2_048, ..Limits::default() };
    let (orb, channel) = server(Channel::builder().limits(limits));
    let face = RtecEventService::start(&orb, &channel, options).unwrap();
    let here = client();
    let far = here.resolve(&face.object().to_string()).unwrap();
    World { _orb: orb, channel, _face: face, here, far }
}

impl World {
    fn consume(&self, consumer: &comm::PushConsumerRef) -> admin::ProxyPushSupplierRef {
        let proxy = self.far.for_consumers().unwrap().unwrap().obtain_push_supplier().unwrap().unwrap();
        let dependencies = vec![admin::Dependency { event: event(20), rt_info: 0 }];
        proxy
            .connect_push_consumer(consumer, &admin::ConsumerQOS { dependencies, is_gateway: false })
            .unwrap();
        proxy
    }

    fn consume_at(&self, at: SocketAddr) -> admin::ProxyPushSupplierRef {
        let url = format!("corbaloc:iiop:1.2@{at}/peer");
        self.consume(&comm::PushConsumerRef::from_object(self.here.string_to_object(&url).unwrap()))
    }

    fn consume_healthy(&self) -> Arc<Counting> {
        let counting = Arc::new(Counting::default());
        self.consume(&self.here.root_poa().unwrap().activate(counting.clone()).unwrap());
        counting
    }

    /// Pushes so many events, never more ahead of `healthy` than its queue holds.
    fn push_to(&self, healthy: &Counting, events: usize) {
        let supplier = self.channel.for_suppliers().connect().unwrap();
        let octets = vec![7; OCTETS];
        let before = healthy.0.load(Relaxed);
        for number in 1..=events {
            let data = Data { octets: &octets, ..Data::default() };
            supplier.push(&Event { data, ..Event::new(20, 1) });
            if number % 16 == 0 || number == events {
                wait_until("the healthy consumer has it", || healthy.0.load(Relaxed) == before + number);
            }
        }
    }
}

#[derive(Default)]
pub struct Counting(pub AtomicUsize);

impl comm::PushConsumer for Counting {
    fn push(&self, _: Upcall<'_>, data: comm::EventSetView<'_>) -> isorb::Result<()> {
        self.0.fetch_add(data.len(), Relaxed);
        Ok(())
    }

    fn disconnect_push_consumer(&self, _: Upcall<'_>) -> isorb::Result<()> {
        Ok(())
    }
}

/// With a time-out longer than any test: a thread that waited for a frozen peer would never push
/// again.
fn patient() -> EventServiceOptions {
    let quality = Quality { queue: 64, ..Quality::default() };
    EventServiceOptions { push_timeout: Duration::from_secs(3_600), quality, ..by_hand() }
}

fn healthy_beside(frozen: usize) {
    let world = world(patient());
    // Each has an address of its own: a process has one connection.
    let sockets: Vec<_> = (0..frozen)
        .map(|_| {
            let (at, sockets) = peers(usize::MAX);
            world.consume_at(at);
            (sockets.recv().unwrap(), sockets)
        })
        .collect();
    let healthy = world.consume_healthy();
    world.push_to(&healthy, EVENTS);
    let all = world.channel.consumers();
    let stuck = all.iter().filter(|consumer| consumer.waiting == consumer.queue).count();
    assert_eq!(stuck, frozen, "each frozen consumer has a full queue, and only those");
    assert!(all.iter().all(|consumer| consumer.counts.failed == 0), "{all:?}");
    drop(sockets);
}

#[test]
fn a_healthy_consumer_gets_every_event_beside_3_frozen_ones() {
    healthy_beside(3);
}

#[test]
fn a_healthy_consumer_gets_every_event_beside_10_frozen_ones() {
    healthy_beside(10);
}

#[test]
fn a_healthy_consumer_gets_every_event_beside_60_frozen_ones() {
    healthy_beside(60);
}

#[test]
#[ignore = "takes 1,000 listening sockets with a thread each, and more open files than many users may have"]
fn a_healthy_consumer_gets_every_event_beside_1000_frozen_ones() {
    healthy_beside(1_000);
}

#[test]
fn a_frozen_consumer_that_reads_again_gets_the_events_of_its_queue() {
    let world = world(patient());
    let (at, sockets) = peers(usize::MAX);
    world.consume_at(at);
    let mut stream = sockets.recv().unwrap();
    let healthy = world.consume_healthy();
    world.push_to(&healthy, EVENTS);
    let frozen = || world.channel.consumers().into_iter().min_by_key(|consumer| consumer.id).unwrap();
    let before = frozen();
    assert_eq!(before.waiting, before.queue);
    let read = Arc::new(AtomicUsize::new(0));
    let reading = read.clone();
    std::thread::spawn(move || {
        let mut octets = vec![0; 64 << 10];
        while let Ok(n @ 1..) = stream.read(&mut octets) {
            reading.fetch_add(n, Relaxed);
        }
    });
    wait_until("its queue is empty", || frozen().waiting == 0);
    let counts = frozen().counts;
    assert_eq!(counts.pushed + counts.dropped, EVENTS as u64, "nothing is lost in silence");
    wait_until("all has arrived", || read.load(Relaxed) > counts.pushed as usize * OCTETS);
}

#[test]
fn newcomers_do_not_wait_behind_peers_that_never_answer() {
    let world = world(EventServiceOptions { push_timeout: Duration::from_millis(200), ..by_hand() });
    let (at, _sockets) = peers(0);
    for number in 0..40 {
        let url = format!("corbaloc:iiop:1.2@{at}/peer{number}");
        world.consume(&comm::PushConsumerRef::from_object(world.here.string_to_object(&url).unwrap()));
    }
    let healthy = world.consume_healthy();
    world.push_to(&healthy, 100);
}

#[test]
fn a_consumer_is_pinged_at_once_when_its_connection_ends() {
    let hour = Some(Duration::from_secs(3_600));
    let world = world(EventServiceOptions { ping: hour, ..EventServiceOptions::default() });
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = world.consume_at(socket.local_addr().unwrap());
    let (mut stream, _) = socket.accept().unwrap();
    answer(&mut stream);
    drop(socket);
    drop(stream);
    // No event is pushed.
    wait_until("it is disconnected", || proxy.object().non_existent() == Ok(true));
}

#[test]
fn an_event_outlives_the_connection_that_ended_before_it() {
    let world = world(patient());
    let (at, sockets) = peers(usize::MAX);
    world.consume_at(at);
    drop(sockets.recv().unwrap());
    let healthy = world.consume_healthy();
    world.push_to(&healthy, 1);
    // The new connection carries the event after the announcement of its band.
    let mut stream = sockets.recv().unwrap();
    let mut header = [0; 12];
    stream.read_exact(&mut header).unwrap();
    assert!(u32::from_le_bytes(header[8..].try_into().unwrap()) as usize > OCTETS);
}
