//! The message blocks of a lane: reserved when it is created, its own, and enough for what it
//! declares.

mod common;

use common::raw::Raw;
use common::rt::{arc, lane, poa, server_with};
use common::{Echo, EchoRef};
use isorb::generated::*;
use isorb::poa::PoaPolicies;
use isorb::poa::policies::IdUniqueness;
use isorb::rt::policy::PriorityModel::ServerDeclared;
use isorb::rt::{LaneStatus, RequestBuffering, ThreadpoolLane, ThreadpoolOptions};
use isorb::{Config, Orb};
use isorb_giop::message::Response;
use isorb_giop::minor;
use isorb_rt::alloc_count::{CountingAllocator, process_allocations, thread_allocations};
use isorb_testkit::wait_until;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// The tests run one after the other, because allocations are counted for the process.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Allocations of all other threads. The test's thread has the clients, so these are the server's.
fn of_others() -> u64 {
    process_allocations() - thread_allocations()
}

/// `octets` returns its argument, `numbers` (with octets) its first one once the gate is open.
#[derive(Default)]
struct Gate {
    open: Mutex<(bool, u32)>,
    changed: Condvar,
}

impl Gate {
    fn set(&self, open: bool) {
        self.open.lock().unwrap().0 = open;
        self.changed.notify_all();
    }
}

impl Echo for Gate {
    fn feed(&self, _: Upcall<'_>, _: &[u8]) -> Result<()> {
        let mut open = self.open.lock().unwrap();
        open.1 += 1;
        self.changed.notify_all();
        drop(self.changed.wait_while(open, |open| !open.0).unwrap());
        Ok(())
    }
}

struct Server {
    orb: Orb,
    gate: Arc<Gate>,
    pool: u32,
    objects: Vec<EchoRef>,
}

impl Server {
    fn new(config: Config, lanes: &[ThreadpoolLane], options: &ThreadpoolOptions) -> Server {
        let orb = server_with(config);
        let pool = orb.rt().create_threadpool_with_lanes(lanes, options).unwrap();
        let first = lanes[0].lane_priority;
        let policies = PoaPolicies::new().threadpool(pool).priority_model(ServerDeclared, first);
        let policies = policies.id_uniqueness(IdUniqueness::Multiple);
        let (poa, gate) = (poa(&orb, "lanes", policies), arc::<Gate>());
        let of_lane =
            |lane: &ThreadpoolLane| poa.activate_with_priority(gate.clone(), lane.lane_priority).unwrap();
        let objects = lanes.iter().map(of_lane).collect();
        Server { orb, gate, pool, objects }
    }

    /// A connection that has sent a request.
    fn client(&self, lane: usize) -> Raw {
        let mut raw = Raw::connect(self.objects[lane].object());
        assert_eq!(raw.call("ping", &[]).status, 0);
        raw
    }

    fn status(&self, lane: usize) -> LaneStatus {
        self.orb.rt().threadpool_status(self.pool).unwrap().swap_remove(lane)
    }
}

const KIB: usize = 1 << 10;

fn buffering(requests: u32) -> ThreadpoolOptions {
    let buffering = RequestBuffering { max_buffered_requests: requests, max_request_buffer_size: 0 };
    ThreadpoolOptions { buffering: Some(buffering), ..ThreadpoolOptions::default() }
}

#[test]
fn every_declared_size_is_served_without_the_heap() {
    let _alone = alone();
    let server = Server::new(
        Config::default(),
        &[lane(700, 1).messages(256 * KIB, 12)],
        &ThreadpoolOptions::default(),
    );
    let mut client = server.client(0);
    let around = [0, 4 * KIB, 8 * KIB, 32 * KIB, 64 * KIB, 68 * KIB, 128 * KIB, 255 * KIB, 256 * KIB];
    let sizes = around.iter().flat_map(|size| [size.saturating_sub(150), *size]);
    let requests: Vec<_> =
        sizes.map(|size| (size, client.request(Response::Target, "octets", &vec![5; size]))).collect();
    let mut reply = vec![0; 300 * KIB];
    let before = of_others();
    for (size, request) in &requests {
        // Whole, in two parts, and behind another one.
        for cut in [0, 1, 13, 5000, 70_000, request.len() / 2] {
            let (first, rest) = request.split_at(cut.min(request.len()));
            client.write(first);
            if cut == 13 {
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
            client.write(rest);
            client.write(&requests[0].1);
            for expected in [*size, requests[0].0] {
                let (status, n) = client.receive_to(&mut reply);
                assert_eq!((status, n), (0, 16 + expected), "{size}, cut at {cut}");
            }
        }
    }
    assert_eq!(of_others() - before, 0, "allocations of the lane");
    server.orb.shutdown(true).unwrap();
}

/// The control of the tests above: without blocks of its own the lane takes them from the heap.
/// Longer ones than 128 KiB come from the system.
#[test]
fn a_lane_that_shares_blocks_takes_them_from_the_heap() {
    let _alone = alone();
    let server =
        Server::new(Config::default(), &[lane(700, 1).messages(256 * KIB, 0)], &ThreadpoolOptions::default());
    let mut client = server.client(0);
    let request = client.request(Response::Target, "octets", &vec![5; 100 * KIB]);
    let mut reply = vec![0; 300 * KIB];
    let before = of_others();
    client.write(&request);
    assert_eq!(client.receive_to(&mut reply).0, 0);
    assert!(of_others() > before);
    assert_eq!((server.status(0).message_bytes, server.status(0).free_blocks), (0, 0));
    server.orb.shutdown(true).unwrap();
}

#[test]
fn twelve_messages_of_256_kib_wait_and_run_at_a_time() {
    let _alone = alone();
    let server = Server::new(Config::default(), &[lane(700, 1).messages(256 * KIB, 12)], &buffering(16));
    let mut clients: Vec<_> = (0..13).map(|_| server.client(0)).collect();
    let request = clients[0].request(Response::Target, "feed", &vec![5; 256 * KIB]);
    let mut reply = [0; 200];
    for round in 0..3 {
        server.gate.set(false);
        let before = of_others();
        clients[..12].iter_mut().for_each(|client| client.write(&request));
        let waits = of_others() - before;
        wait_until("one runs, eleven wait", || server.status(0).buffered_requests == 11);
        let status = server.status(0);
        assert_eq!((status.running, status.free_blocks), (1, 0));
        // The thirteenth finds no block, and can call again.
        let before = of_others();
        clients[12].write(&request);
        let (status, n) = clients[12].receive_to(&mut reply);
        assert_eq!((status, exception(&reply[..n])), (2, ("NO_RESOURCES", minor::NO_RESOURCES_LANE)));
        server.gate.set(true);
        clients[..12].iter_mut().for_each(|client| assert_eq!(client.receive_to(&mut reply).0, 0));
        clients[12].write(&request);
        assert_eq!(clients[12].receive_to(&mut reply).0, 0);
        assert_eq!(of_others() - before + waits, 0, "allocations of the lane in round {round}");
    }
    assert_eq!(server.status(0).refused_messages, 3);
    server.orb.shutdown(true).unwrap();
}

#[test]
fn two_messages_of_16_mib_arrive_at_a_time() {
    let _alone = alone();
    const LONG: usize = 16 << 20;
    let config = Config { message_limit: LONG + 8 * KIB, ..Config::default() };
    let server = Server::new(config, &[lane(700, 1).messages(LONG, 2)], &ThreadpoolOptions::default());
    server.gate.set(true);
    let mut clients: Vec<_> = (0..2).map(|_| server.client(0)).collect();
    let request = clients[0].request(Response::Target, "feed", &vec![5; LONG]);
    let mut reply = [0; 200];
    let before = of_others();
    for _ in 0..3 {
        for piece in request.chunks(5 << 20) {
            clients.iter_mut().for_each(|client| client.write(piece));
        }
        clients.iter_mut().for_each(|client| assert_eq!(client.receive_to(&mut reply).0, 0));
    }
    assert_eq!(of_others() - before, 0, "allocations of the lane");
    server.orb.shutdown(true).unwrap();
}

/// Name and minor code of the system exception in a reply, without an allocation.
fn exception(reply: &[u8]) -> (&str, u32) {
    let word = |at: usize| u32::from_ne_bytes(reply[at..at + 4].try_into().unwrap());
    // Id, status, no contexts, a gap; then the exception's id, which is IDL:omg.org/CORBA/NAME:1.0.
    assert_eq!(word(8), 0);
    let n = word(12) as usize;
    let id = std::str::from_utf8(&reply[16..16 + n - 1]).unwrap();
    (id.split(['/', ':']).nth(3).unwrap(), word((16 + n).next_multiple_of(4)))
}

#[test]
fn a_longer_message_is_refused_without_the_heap_and_the_connection_goes_on() {
    let _alone = alone();
    let server = Server::new(
        Config::default(),
        &[lane(700, 1).messages(100 * KIB, 2), lane(800, 1).messages(KIB, 1)],
        &ThreadpoolOptions::default(),
    );
    server.gate.set(true);
    for (i, bytes) in [(0, 100 * KIB), (1, KIB)] {
        let mut client = server.client(i);
        let ping = client.request(Response::Target, "feed", &[1]);
        let longer: Vec<_> = [bytes + 8 * KIB, 4 * bytes + 20 * KIB, 5 << 20]
            .map(|size| (Response::Target, size))
            .into_iter()
            .chain([(Response::None, 300 * KIB)])
            .map(|(response, size)| (response, client.request(response, "feed", &vec![5; size])))
            .collect();
        let mut reply = [0; 200];
        let before = of_others();
        for (response, request) in &longer {
            client.write(request);
            client.write(&ping);
            if *response == Response::Target {
                let (status, n) = client.receive_to(&mut reply);
                assert_eq!((status, exception(&reply[..n])), (2, ("IMP_LIMIT", minor::IMP_LIMIT_LANE)));
            }
            assert_eq!(client.receive_to(&mut reply).0, 0, "the next request is served");
        }
        assert_eq!(of_others() - before, 0, "allocations of the lane");
        assert_eq!(server.status(i).refused_messages, 4);
    }
    // What cannot be answered ends its connection in order.
    let mut client = server.client(0);
    let mut request = client.request(Response::Target, "feed", &vec![5; 300 * KIB]);
    request[7] = 3;
    client.write(&request[..200 * KIB]);
    assert!(client.is_closed());
    // A reply that is too long is an exception of its call.
    let mut client = server.client(0);
    let request = client.request(Response::Target, "octets", &vec![5; 100 * KIB]);
    let mut reply = vec![0; 200 * KIB];
    client.write(&request);
    assert_eq!(client.receive_to(&mut reply).0, 0);
    server.orb.shutdown(true).unwrap();
}

#[test]
fn clients_that_announce_and_stall_cost_their_lane_short_blocks_and_others_nothing() {
    let _alone = alone();
    let lanes = [lane(700, 1).messages(200 * KIB, 2), lane(800, 1).messages(200 * KIB, 2)];
    let server = Server::new(Config::default(), &lanes, &ThreadpoolOptions::default());
    server.gate.set(true);
    let mut good = [server.client(0), server.client(1)];
    let request = good[0].request(Response::Target, "feed", &vec![5; 200 * KIB]);
    let request_of_other = good[1].request(Response::Target, "feed", &vec![5; 200 * KIB]);
    let mut reply = [0; 200];
    // Announce 200 KiB, and send a little of it.
    let mut silent: Vec<_> = (0..30).map(|_| server.client(0)).collect();
    silent.iter_mut().enumerate().for_each(|(i, client)| client.write(&request[..12 + 50 * i]));
    wait_until("all were looked at", || {
        good[0].write(&request);
        good[0].receive_to(&mut reply).0 == 0
    });
    // Send half of it: two of these hold the long blocks, until another client needs one.
    let mut slow: Vec<_> = (0..2).map(|_| server.client(0)).collect();
    slow.iter_mut().for_each(|client| client.write(&request[..150 * KIB]));
    wait_until("the blocks are in use", || server.status(0).free_blocks == 0);
    let before = of_others();
    good[1].write(&request_of_other);
    assert_eq!(good[1].receive_to(&mut reply).0, 0, "the other lane has its own blocks");
    assert_eq!(of_others() - before, 0, "allocations of the other lane");
    wait_until("a stalled client is evicted", || {
        good[0].write(&request);
        let (status, n) = good[0].receive_to(&mut reply);
        assert!(status == 0 || exception(&reply[..n]) == ("NO_RESOURCES", minor::NO_RESOURCES_LANE));
        status == 0
    });
    assert!(slow.iter_mut().any(Raw::is_closed));
    assert_eq!((server.status(0).evicted_connections, server.status(1).evicted_connections), (1, 0));
    server.orb.shutdown(true).unwrap();
}

/// Lanes that share the ORB's blocks: the least urgent one is evicted first, whatever its load, and
/// the more urgent one never for it.
#[test]
fn the_least_urgent_lane_is_evicted_first() {
    let _alone = alone();
    let config = Config { memory_limit: 4 << 20, message_limit: 4 << 20, ..Config::default() };
    let lanes = [lane(700, 1).messages(1, 0), lane(800, 1).messages(1, 0)];
    let server = Server::new(config, &lanes, &ThreadpoolOptions::default());
    server.gate.set(true);
    let [mut low, mut high] = [server.client(0), server.client(1)];
    let of = |client: &Raw| client.request(Response::Target, "feed", &vec![5; 3 << 20]);
    let (long_of_low, long_of_high) = (of(&low), of(&high));
    // The urgent lane gets what it needs from the other, which has most of a message.
    let most = ..3 << 20;
    low.write(&long_of_low[most]);
    high.write(&long_of_high[..2 << 20]);
    assert!(low.is_closed());
    // The urgent lane's client holds more, for longer, and stalls.
    std::thread::sleep(std::time::Duration::from_millis(300));
    for _ in 0..2 {
        low = server.client(0);
        low.offer(&long_of_low[most]);
        assert!(low.is_closed());
    }
    high.write(&long_of_high[2 << 20..]);
    let mut reply = [0; 200];
    assert_eq!(high.receive_to(&mut reply).0, 0);
    server.orb.shutdown(true).unwrap();
}
