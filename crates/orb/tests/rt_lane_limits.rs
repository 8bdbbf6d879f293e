//! Limits of connections to a lane: silent connections are closed for new ones; connections that
//! have sent a request are kept.

mod common;

use common::rt::{Witness, arc, far, lane, poa, server_with};
use common::{EchoRef, raw::Raw};
use isorb::poa::PoaPolicies;
use isorb::rt::policy::PriorityModel::ServerDeclared;
use isorb::rt::{ThreadpoolLane, ThreadpoolOptions};
use isorb::{Config, Orb, Reference};
use isorb_testkit::{TempFolder, wait_until};
use socket2::{Domain, SockAddr, Socket, Type};
use std::io::{ErrorKind, Read};
use std::net::SocketAddr;

const PLACES: usize = 8;

/// A server with a lane for few connections, an object in that lane, and its pool. No connection is
/// closed for its missing first request, so a silent one could stay for ever.
fn full_soon(lane: ThreadpoolLane) -> (Orb, EchoRef, u32) {
    let config = Config { max_connections: PLACES, first_request_timeout_ms: 0, ..Config::default() };
    let server = server_with(config);
    let pool = server.rt().create_threadpool_with_lanes(&[lane], &ThreadpoolOptions::default()).unwrap();
    let policies = PoaPolicies::new().threadpool(pool).priority_model(ServerDeclared, PRIORITY);
    let object = poa(&server, "few", policies).activate(arc::<Witness>()).unwrap();
    (server, object, pool)
}

const PRIORITY: i16 = 700;

/// A connection that sends nothing.
fn silent(address: &SockAddr, kind: Type) -> Socket {
    let domain = if address.is_unix() { Domain::UNIX } else { Domain::IPV4 };
    let socket = Socket::new(domain, kind, None).unwrap();
    socket.connect(address).unwrap();
    socket
}

/// Whether the server has closed it; what was sent before is read.
fn has_ended(mut client: &Socket) -> bool {
    client.set_nonblocking(true).unwrap();
    loop {
        match client.read(&mut [0; 256]) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() != ErrorKind::WouldBlock,
        }
    }
}

fn connections(server: &Orb, pool: u32) -> usize {
    server.rt().threadpool_status(pool).unwrap()[0].connections
}

fn tcp(server: &Orb, pool: u32) -> SockAddr {
    let (host, port) = server.rt().threadpool_status(pool).unwrap()[0].address.clone();
    SocketAddr::new(host.parse().unwrap(), port).into()
}

#[test]
fn silent_clients_give_their_connections_to_others() {
    let folder = TempFolder::new();
    for (protocol, kind) in [("tcp", Type::STREAM), ("unix", Type::STREAM), ("segment", Type::SEQPACKET)] {
        let path = folder.file(protocol);
        let wanted = match protocol {
            "tcp" => lane(PRIORITY, 1),
            _ => lane(PRIORITY, 1).local_endpoint(format!("{protocol}:{}", path.display())),
        };
        let (server, object, pool) = full_soon(wanted);
        let mut known = Raw::connect(object.object());
        assert_eq!(known.call("ping", &[]).status, 0);
        let address = if protocol == "tcp" { tcp(&server, pool) } else { SockAddr::unix(&path).unwrap() };
        let crowd: Vec<Socket> = (0..3 * PLACES).map(|_| silent(&address, kind)).collect();
        // All have come: those that still waited would take places from newcomers.
        let kept = PLACES - 1;
        wait_until("the lane is full", || crowd.iter().filter(|client| !has_ended(client)).count() == kept);
        wait_until("so many are counted", || connections(&server, pool) == PLACES);
        // More new connections than the limit, one after the other; they stay open.
        let newcomers: Vec<(Orb, EchoRef)> = (0..PLACES - 1)
            .map(|_| {
                let orb = Orb::with_config(Config::default()).unwrap();
                let far = far(&orb, &object);
                // While all others are new as well, it is closed.
                wait_until("a newcomer is served", || far.ping().is_ok());
                (orb, far)
            })
            .collect();
        assert!(connections(&server, pool) <= PLACES, "{protocol}: more than may");
        // A client that was served before is still served, over the same connection.
        assert_eq!(known.call("ping", &[]).status, 0, "{protocol}");
        newcomers.iter().for_each(|(_, far)| far.ping().unwrap());
        drop(crowd);
        server.shutdown(true).unwrap();
    }
}

#[test]
fn the_client_that_is_idle_for_longest_is_evicted_for_a_newcomer() {
    let (server, object, pool) = full_soon(lane(PRIORITY, 2));
    let mut known: Vec<Raw> = (0..PLACES).map(|_| Raw::connect(object.object())).collect();
    known.iter_mut().for_each(|raw| assert_eq!(raw.call("ping", &[]).status, 0));
    let newcomer = Orb::with_config(Config::default()).unwrap();
    let served = far(&newcomer, &object);
    wait_until("a newcomer is served", || served.ping().is_ok());
    let mut left = 0;
    // Which one is the oldest is known to the server only: they all called a moment ago.
    for raw in &mut known {
        raw.send("ping", &[]);
        left += usize::from(raw.is_closed());
    }
    assert_eq!(left, 1, "it is told that its request was not processed");
    assert!(connections(&server, pool) <= PLACES);
    server.shutdown(true).unwrap();
}

/// The client that is idle for longest has just sent a request, which the busy lane has not read.
/// The next one gives way.
#[test]
fn a_newcomer_is_served_while_the_idlest_client_waits_for_a_busy_thread() {
    let (server, object, pool) = full_soon(lane(PRIORITY, 1));
    let witness = arc::<Witness>();
    let busy: EchoRef =
        server.root_poa().unwrap().find_poa("few", false).unwrap().activate(witness.clone()).unwrap();
    let mut known: Vec<Raw> = (0..PLACES - 1).map(|_| Raw::connect(object.object())).collect();
    known.iter_mut().for_each(|raw| assert_eq!(raw.call("ping", &[]).status, 0));
    let calls = common::rt::sleepers(&[far(&Orb::with_config(Config::default()).unwrap(), &busy)]);
    witness.await_inside(1);
    assert_eq!(connections(&server, pool), PLACES);
    // First the newcomer, then the request: the lane must see them in this order.
    let mut newcomer = Raw::connect(object.object());
    newcomer.send("ping", &[]);
    let [first, others @ ..] = &mut known[..] else { unreachable!() };
    first.send("ping", &[]);
    wait_until("the request is at the server", || first.waits_at_server());
    witness.open(1);
    calls.into_iter().for_each(|call| _ = call.join().unwrap().unwrap());
    assert_eq!(first.receive().status, 0, "it keeps its connection");
    assert_eq!(newcomer.receive().status, 0, "it got the place of another one");
    let mut left = 0;
    for raw in others {
        raw.send("ping", &[]);
        left += usize::from(raw.is_closed());
    }
    assert_eq!(left, 1);
    server.shutdown(true).unwrap();
}

/// A lane with all its threads busy reads nothing. Connections that have sent a request meanwhile
/// look silent to it, but are not.
#[test]
fn a_client_that_waits_for_a_busy_thread_is_not_silent() {
    let (server, object, pool) = full_soon(lane(PRIORITY, 2));
    let witness = arc::<Witness>();
    let busy: EchoRef =
        server.root_poa().unwrap().find_poa("few", false).unwrap().activate(witness.clone()).unwrap();
    let mut waiting: Vec<Raw> = (0..PLACES - 2).map(|_| Raw::connect(object.object())).collect();
    let clients: Vec<EchoRef> =
        (0..2).map(|_| far(&Orb::with_config(Config::default()).unwrap(), &busy)).collect();
    let calls = common::rt::sleepers(&clients);
    witness.await_inside(2);
    wait_until("all are there", || connections(&server, pool) == PLACES);
    // Longer than the grace of a new connection.
    std::thread::sleep(std::time::Duration::from_millis(1200));
    // First the new connection, then the requests: the lane must see them in this order.
    let address = tcp(&server, pool);
    let newcomers: Vec<Socket> = (0..PLACES).map(|_| silent(&address, Type::STREAM)).collect();
    waiting.iter_mut().for_each(|raw| raw.send("ping", &[]));
    wait_until("the requests are at the server", || waiting.iter().all(Raw::waits_at_server));
    witness.open(2);
    calls.into_iter().for_each(|call| _ = call.join().unwrap().unwrap());
    waiting.iter_mut().for_each(|raw| assert_eq!(raw.receive().status, 0));
    drop(newcomers);
    server.shutdown(true).unwrap();
}
