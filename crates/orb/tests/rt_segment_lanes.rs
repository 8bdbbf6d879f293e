//! Lanes of thread pools over memory segments: a thread polls the rings of its connections and then
//! sleeps in its poller. No request is forgotten between the two, however calls, pauses, long
//! upcalls, and ends of clients and servers fall together. A lost wake-up is a time-out of a call.
#![cfg(feature = "segments")]

mod common;

use common::raw::Raw;
use common::rt::{Witness, arc, far, lane, poa, server_with};
use common::{Echo, EchoRef, Parrot};
use isorb::poa::PoaPolicies;
use isorb::rt::policy::PriorityModel::ServerDeclared;
use isorb::rt::{RequestBuffering, ThreadpoolLane, ThreadpoolOptions};
use isorb::transport::{Segments, Stream, Transport, Wait};
use isorb::{Config, Orb, Reference, TransportConfig};
use isorb_giop::message::Response;
use isorb_rt::alloc_count::{CountingAllocator, process_allocations, thread_allocations};
use isorb_rt::sched::{Cpus, current_cpus, set_current_cpus};
use isorb_testkit::{TempFolder, wait_until};
use std::io::{BufRead, BufReader, IoSlice};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const CLIENT: &str = "ISORB_LANE_CLIENT";
/// The tests run one after the other: allocations are those of the process.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

const TIMEOUT_MS: u64 = 120_000;

fn config(transport: TransportConfig) -> Config {
    let endpoints = vec!["127.0.0.1:0".into(), "segment:".into()];
    Config { endpoints, transport, round_trip_timeout_ms: TIMEOUT_MS, ..Config::default() }
}

/// A server with a lane of so many threads at a segment, and an object in it.
struct Server {
    orb: Orb,
    object: EchoRef,
    pool: u32,
    at: String,
    _folder: TempFolder,
}

impl Server {
    fn new(
        transport: TransportConfig,
        threads: u32,
        options: &ThreadpoolOptions,
        servant: Arc<impl Echo + 'static>,
    ) -> Server {
        Server::with_lane(transport, lane(700, threads), options, servant)
    }

    fn with_lane(
        transport: TransportConfig,
        lane: ThreadpoolLane,
        options: &ThreadpoolOptions,
        servant: Arc<impl Echo + 'static>,
    ) -> Server {
        let folder = TempFolder::new();
        let at = folder.file("lane").display().to_string();
        let orb = server_with(config(transport));
        let lanes = [lane.local_endpoint(format!("segment:{at}"))];
        let pool = orb.rt().create_threadpool_with_lanes(&lanes, options).unwrap();
        let policies = PoaPolicies::new().threadpool(pool).priority_model(ServerDeclared, 700);
        let object = poa(&orb, "lanes", policies).activate(servant).unwrap();
        Server { orb, object, pool, at, _folder: folder }
    }

    fn parrot(threads: u32) -> Server {
        Server::new(TransportConfig::default(), threads, &ThreadpoolOptions::default(), arc::<Parrot>())
    }

    fn client(&self) -> EchoRef {
        let protocols = vec!["segment".into()];
        let orb =
            Orb::with_config(config(TransportConfig { protocols, ..TransportConfig::default() })).unwrap();
        far(&orb, &self.object)
    }

    fn stream(&self) -> Box<dyn Stream> {
        let stream = Segments::default().connect(&self.at, None).unwrap();
        stream.set_recv_timeout(Some(Duration::from_millis(TIMEOUT_MS))).unwrap();
        stream
    }

    fn connections(&self) -> usize {
        self.orb.rt().threadpool_status(self.pool).unwrap()[0].connections
    }

    /// The octets of requests, and where they may be sent.
    fn raw(&self) -> Raw {
        Raw::connect(self.object.object())
    }
}

/// Pauses around the limit of polling, by a fixed pseudo-random sequence.
struct Pauses(u64);

impl Pauses {
    fn next(&mut self) {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        match self.0 >> 60 {
            0..=9 => {}
            10..=12 => (0..(self.0 >> 40) % 4000).for_each(|_| std::hint::spin_loop()),
            _ => std::thread::sleep(Duration::from_micros((self.0 >> 40) % 400)),
        }
    }
}

fn send(stream: &dyn Stream, octets: &[u8]) {
    let mut sent = 0;
    while sent < octets.len() {
        sent += stream.send(&[IoSlice::new(&octets[sent..])], Wait::Block).unwrap();
    }
}

/// The number of the request that the next reply is for.
fn replied(stream: &dyn Stream) -> u32 {
    let (id, status, _) = reply(stream);
    assert_eq!(status, 0, "no exception");
    id
}

/// The number of the request that the next reply is for, its status, and what follows.
fn reply(stream: &dyn Stream) -> (u32, u32, Vec<u8>) {
    let exactly = |into: &mut [u8]| {
        let mut n = 0;
        while n < into.len() {
            match stream.recv(&mut into[n..], Wait::Block).unwrap() {
                0 => panic!("the server closed the connection"),
                more => n += more,
            }
        }
    };
    let mut header = [0; 12];
    exactly(&mut header);
    let mut body = vec![0; u32::from_ne_bytes(header[8..].try_into().unwrap()) as usize];
    exactly(&mut body);
    let [id, status] = [0, 4].map(|at| u32::from_ne_bytes(body[at..at + 4].try_into().unwrap()));
    (id, status, body.split_off(8))
}

#[test]
fn every_call_of_every_client_is_answered() {
    let _alone = alone();
    for (threads, clients) in [(1, 1), (1, 3), (4, 4), (4, 20)] {
        let server = Server::parrot(threads);
        std::thread::scope(|scope| {
            for i in 0..clients {
                let client = server.client();
                scope.spawn(move || {
                    let mut pauses = Pauses(i);
                    for round in 0..400 / clients as u32 {
                        let octets = vec![i as u8; (round % 5) as usize * 4000];
                        let same = client
                            .object()
                            .orb()
                            .scope(|s| client.octets_in(s, &octets).map(|o| *o == octets[..]));
                        assert!(same.unwrap(), "{threads} threads, client {i}");
                        pauses.next();
                    }
                });
            }
        });
        server.orb.shutdown(true).unwrap();
    }
}

#[test]
fn requests_in_pieces_and_several_at_a_time_are_answered() {
    let _alone = alone();
    for threads in [1, 4] {
        let server = Server::parrot(threads);
        let mut raw = server.raw();
        let stream = server.stream();
        let mut pauses = Pauses(7);
        for round in 0..60 {
            raw.send("ping", &[]);
            raw.receive();
            let mut octets = Vec::new();
            (0..1 + round % 4).for_each(|_| octets.extend(raw.request(Response::Target, "octets", &[9; 40])));
            let cut = 1 + round % octets.len();
            for piece in octets.chunks(cut) {
                send(&*stream, piece);
                pauses.next();
            }
            (0..1 + round % 4).for_each(|_| _ = replied(&*stream));
        }
        drop((raw, stream));
        wait_until("the lane has let the clients go", || server.connections() == 0);
        server.orb.shutdown(true).unwrap();
    }
}

/// A request for which the lane has no block is refused, and the rest of it discarded: also of its
/// parts in memory of its client, which must not end up in the next request.
#[test]
fn a_refused_request_with_a_loan_leaves_the_next_one_as_it_is() {
    const LEN: usize = 64;
    let _alone = alone();
    // One thread takes such parts as they lie, of several each has them copied.
    for threads in [1, 3] {
        let transport = TransportConfig { segment_arena_bytes: 1 << 20, ..TransportConfig::default() };
        let lane = lane(700, threads).messages(64 << 10, 4);
        let server = Server::with_lane(transport, lane, &ThreadpoolOptions::default(), arc::<Parrot>());
        let (raw, stream) = (server.raw(), server.stream());
        // The lane knows the header of a request from the second one on.
        let next = raw.request(Response::Target, "octets", &[7; 500]);
        send(&*stream, &next);
        let answer = reply(&*stream);
        let mut long = raw.request(Response::Target, "octets", &vec![5; 1 << 20]);
        // In the argument; with the number of the request.
        for (id, begin) in [(70u32, 300), (71, 12), (72, 1000)] {
            long[12..16].copy_from_slice(&id.to_ne_bytes());
            let mut loan = stream.arena().unwrap().loan(LEN).unwrap();
            loan.octets_mut().unwrap().copy_from_slice(&long[begin..begin + LEN]);
            let pieces = [&long[..begin], &loan, &long[begin + LEN..]].map(IoSlice::new);
            let sent = stream.send(&pieces, Wait::Block).unwrap();
            assert!(sent >= begin + LEN, "{sent}");
            send(&*stream, &long[sent..]);
            let (refused, status, _) = reply(&*stream);
            assert_eq!((refused, status), (id, 2), "{threads} threads: the refusal of this request");
            assert!(!loan.is_sent(), "{threads} threads, at {begin}: it is returned");
            send(&*stream, &next);
            assert!(reply(&*stream) == answer, "{threads} threads, at {begin}: the same again");
        }
        server.orb.shutdown(true).unwrap();
    }
}

/// While one thread computes, another must notice requests on the same ring and on others.
#[test]
fn a_long_upcall_holds_up_no_other_request() {
    let _alone = alone();
    let buffering = RequestBuffering { max_buffered_requests: 8, max_request_buffer_size: 0 };
    let options = ThreadpoolOptions::default();
    for (threads, options) in [
        (4, &options),
        (2, &ThreadpoolOptions { buffering: Some(buffering), ..ThreadpoolOptions::default() }),
    ] {
        let witness = arc::<Witness>();
        let server = Server::new(TransportConfig::default(), threads, options, witness.clone());
        let others: Vec<EchoRef> = (0..3).map(|_| server.client()).collect();
        others.iter().for_each(|other| other.ping().unwrap());
        for _ in 0..40 {
            let busy = server.client();
            let call = std::thread::spawn(move || busy.sleep(1));
            witness.await_inside(1);
            for other in &others {
                (0..5).for_each(|_| other.ping().unwrap());
            }
            witness.open(1);
            call.join().unwrap().unwrap();
        }
        server.orb.shutdown(true).unwrap();
    }
}

#[test]
fn a_long_upcall_does_not_hold_up_its_own_connection() {
    let _alone = alone();
    let witness = arc::<Witness>();
    let server = Server::new(TransportConfig::default(), 3, &ThreadpoolOptions::default(), witness.clone());
    let (raw, stream) = (server.raw(), server.stream());
    let ping = raw.request(Response::Target, "octets", &[1]);
    let sleep = raw.request(Response::Target, "sleep", &[]);
    let mut pauses = Pauses(3);
    for _ in 0..40 {
        send(&*stream, &sleep);
        witness.await_inside(1);
        for _ in 0..3 {
            pauses.next();
            send(&*stream, &ping);
            replied(&*stream);
        }
        witness.open(1);
        replied(&*stream);
    }
    server.orb.shutdown(true).unwrap();
}

/// The client of another process: calls until it is killed.
#[test]
fn the_client() {
    let Ok(reference) = std::env::var(CLIENT) else { return };
    let protocols = vec!["segment".into()];
    let orb = Orb::with_config(config(TransportConfig { protocols, ..TransportConfig::default() })).unwrap();
    let far: EchoRef = orb.resolve(&reference).unwrap();
    for i in 0u64.. {
        far.ping().unwrap();
        if i == 100 {
            println!("calls");
        }
    }
}

#[test]
fn clients_that_are_killed_cost_the_others_nothing() {
    let _alone = alone();
    for threads in [1, 4] {
        let server = Server::parrot(threads);
        let survivor = server.client();
        survivor.ping().unwrap();
        for _ in 0..6 {
            let mut command = Command::new(std::env::current_exe().unwrap());
            command.args(["--exact", "the_client", "--nocapture"]).stdout(Stdio::piped());
            let mut child = command.env(CLIENT, server.object.object().to_string()).spawn().unwrap();
            let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
            assert!(lines.any(|line| line.unwrap().contains("calls")), "the client ended");
            survivor.ping().unwrap();
            child.kill().unwrap();
            child.wait().unwrap();
            survivor.ping().unwrap();
            wait_until("its connection is gone", || server.connections() == 1);
        }
        server.orb.shutdown(true).unwrap();
    }
}

/// A lane that polls without end, too, learns that it is to end.
#[test]
fn a_lane_ends_while_it_polls() {
    let _alone = alone();
    for (threads, segment_never_sleep) in [(1, false), (4, false), (1, true), (2, true)] {
        let transport = TransportConfig { segment_never_sleep, ..TransportConfig::default() };
        for round in 0..5 {
            let server =
                Server::new(transport.clone(), threads, &ThreadpoolOptions::default(), arc::<Parrot>());
            let ends = AtomicBool::new(false);
            let clients: Vec<EchoRef> = (0..2).map(|_| server.client()).collect();
            clients.iter().for_each(|client| client.ping().unwrap());
            std::thread::scope(|scope| {
                for client in &clients {
                    scope.spawn(|| while client.ping().is_ok() && !ends.load(Ordering::Relaxed) {});
                }
                std::thread::sleep(Duration::from_millis(round));
                server.orb.shutdown(true).unwrap();
                ends.store(true, Ordering::Relaxed);
            });
        }
    }
}

/// With processors of their own, neither side makes an event for the other.
#[test]
fn a_lane_that_never_sleeps_is_never_woken() {
    let _alone = alone();
    let processors: Vec<_> = current_cpus().unwrap().iter().map(Cpus::one).collect();
    let [near, other, ..] = &processors[..] else {
        return println!("skipped: this process has one processor, where nothing polls");
    };
    let transport = TransportConfig { segment_never_sleep: true, ..TransportConfig::default() };
    // The lane's threads inherit the processor.
    set_current_cpus(other).unwrap();
    let server = Server::new(transport, 1, &ThreadpoolOptions::default(), arc::<Parrot>());
    set_current_cpus(near).unwrap();
    let (raw, stream) = (server.raw(), server.stream());
    let octets = raw.request(Response::Target, "octets", &[1; 30]);
    let call = || {
        send(&*stream, &octets);
        replied(&*stream);
        stream.polled().unwrap().take_woke()
    };
    // Until each knows where the other runs.
    (0..100).for_each(|_| _ = call());
    assert_eq!((0..300).filter(|_| call()).count(), 0);
    server.orb.shutdown(true).unwrap();
}

#[test]
fn the_path_of_a_request_takes_nothing_from_the_heap() {
    let _alone = alone();
    for threads in [1, 4] {
        let server = Server::parrot(threads);
        let (raw, stream) = (server.raw(), server.stream());
        let octets = raw.request(Response::Target, "octets", &[1; 30]);
        let mut pauses = Pauses(11);
        let mut reply = [0; 256];
        let mut call = || {
            send(&*stream, &octets);
            let mut n = 0;
            while n < 12 || n < 12 + u32::from_ne_bytes(reply[8..12].try_into().unwrap()) as usize {
                n += stream.recv(&mut reply[n..], Wait::Block).unwrap();
            }
            pauses.next();
        };
        (0..500).for_each(|_| call());
        // Allocations of all other threads: the server's.
        let of_others = || process_allocations() - thread_allocations();
        let before = of_others();
        (0..500).for_each(|_| call());
        assert_eq!(of_others() - before, 0, "{threads} threads");
        server.orb.shutdown(true).unwrap();
    }
}
