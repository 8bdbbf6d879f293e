//! Threads of the ORB that panic: each is replaced, says so in a log record, and serves on. So does
//! a thread that cannot send a reply. The faults come from a transport and a servant of the
//! program.

mod common;

use common::rt::{Witness, arc, lane, poa};
use common::{Echo, EchoRef};
use isorb::poa::PoaPolicies;
use isorb::rt::ThreadpoolOptions;
use isorb::rt::policy::PriorityModel::ServerDeclared;
use isorb::{Completion, Config, Kind, Orb, Reference};
use isorb_rt::log;
use isorb_rt::sched::panic_counts;
use isorb_testkit::wait_until;
use isorb_transport::{Capabilities, Listener, Locality, Stream, StreamCapabilities, Tcp, Transport, Wait};
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex, Once};
use std::time::Duration;

/// TCP as a transport of this host. Its server side fails as often as the test requests.
#[derive(Clone, Debug, Default)]
struct Faulty(Arc<Faults>);

#[derive(Debug, Default)]
struct Faults {
    accept: AtomicU32,
    shutdown: AtomicU32,
    send: AtomicU32,
}

#[derive(Debug)]
struct FaultyListener(Box<dyn Listener>, Arc<Faults>);
#[derive(Debug)]
struct FaultyStream(Box<dyn Stream>, Arc<Faults>);

fn fails(left: &AtomicU32) -> bool {
    left.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok()
}

impl Transport for Faulty {
    fn name(&self) -> &'static str {
        "faulty"
    }
    fn profile_tag(&self) -> u32 {
        0x1234_5678
    }
    fn capabilities(&self) -> Capabilities {
        Capabilities { crosses_hosts: false, ..Tcp.capabilities() }
    }
    fn locality(&self, address: &str) -> Option<Locality> {
        Some(Locality { host: "here".into(), identity: address.into() })
    }
    fn connect(&self, address: &str, timeout: Option<Duration>) -> io::Result<Box<dyn Stream>> {
        Tcp.connect(address, timeout)
    }
    fn listen(&self, address: &str) -> io::Result<Box<dyn Listener>> {
        let at = if address.is_empty() { "127.0.0.1:0" } else { address };
        Ok(Box::new(FaultyListener(Tcp.listen(at)?, self.0.clone())))
    }
}

impl Listener for FaultyListener {
    fn accept(&self, wait: Wait) -> io::Result<Box<dyn Stream>> {
        let stream = self.0.accept(wait)?;
        assert!(!fails(&self.1.accept), "accept, on purpose");
        Ok(Box::new(FaultyStream(stream, self.1.clone())))
    }
    fn address(&self) -> &str {
        self.0.address()
    }
    fn close(&self) {
        self.0.close();
    }
    fn fd(&self) -> BorrowedFd<'_> {
        self.0.fd()
    }
}

impl Stream for FaultyStream {
    fn recv(&self, into: &mut [u8], wait: Wait) -> io::Result<usize> {
        self.0.recv(into, wait)
    }
    fn send(&self, pieces: &[IoSlice<'_>], wait: Wait) -> io::Result<usize> {
        if fails(&self.1.send) {
            return Err(rustix::io::Errno::NOBUFS.into());
        }
        self.0.send(pieces, wait)
    }
    fn capabilities(&self) -> StreamCapabilities {
        self.0.capabilities()
    }
    fn set_recv_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.0.set_recv_timeout(timeout)
    }
    fn set_send_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.0.set_send_timeout(timeout)
    }
    fn shutdown(&self) {
        self.0.shutdown();
        assert!(!fails(&self.1.shutdown), "shutdown, on purpose");
    }
    fn peer(&self) -> &str {
        self.0.peer()
    }
    fn fd(&self) -> BorrowedFd<'_> {
        self.0.fd()
    }
}

static RECORDS: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct Collect;

impl log::Sink for Collect {
    fn write(&mut self, record: &log::Record<'_>) -> io::Result<()> {
        RECORDS.lock().unwrap().push(format!("{} {}", record.level(), record.text()));
        Ok(())
    }
}

/// Collects the records of this process.
fn collect() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| log::set_sink(Box::new(Collect)));
}

#[track_caller]
fn has_printed(parts: &[&str]) {
    assert!(log::flush(Duration::from_secs(60)));
    let records = RECORDS.lock().unwrap();
    let has_all = |record: &&String| parts.iter().all(|part| record.contains(part));
    assert!(records.iter().any(|record| has_all(&record)), "{parts:?}: {records:#?}");
}

fn orb(faulty: &Faulty, config: Config) -> Orb {
    let registered = Orb::builder().config(config);
    registered.register(|info| Ok(info.add_transport(Arc::new(faulty.clone()))?)).build().unwrap()
}

/// A server with its first endpoint of the faulty transport.
fn server(faulty: &Faulty, endpoint: &str, config: Config) -> Orb {
    collect();
    let endpoints = vec![format!("giop:faulty:127.0.0.1:0{endpoint}"), "127.0.0.1:0".into()];
    let server = orb(faulty, Config { endpoints, ..config });
    server.root_poa().unwrap().manager().activate().unwrap();
    server
}

/// The object as a client with new connections sees it, over the faulty transport.
fn far(near: &EchoRef) -> EchoRef {
    let client = orb(&Faulty::default(), Config { round_trip_timeout_ms: 5_000, ..Config::default() });
    client.resolve(&near.object().to_string()).unwrap()
}

/// Calls until a call succeeds. A connection that a panic took is no reason to fail.
fn served(near: &EchoRef) {
    wait_until("the server answers", || far(near).ping().is_ok());
}

#[test]
fn an_acceptor_that_panics_goes_on_accepting() {
    let faulty = Faulty::default();
    let server = server(&faulty, ";connection", Config::default());
    let near: EchoRef = server.root_poa().unwrap().activate(arc::<Witness>()).unwrap();
    served(&near);
    let before = panic_counts();
    faulty.0.accept.store(1, SeqCst);
    served(&near);
    served(&near);
    assert_eq!(faulty.0.accept.load(SeqCst), 0);
    let after = panic_counts();
    assert!(after.replaced > before.replaced && after.panics > before.panics, "{after:?}");
    has_printed(&["ERROR the thread isorb-accept panicked at ", "supervision.rs", "accept, on purpose"]);
    has_printed(&["WARN the thread isorb-accept is replaced after a panic"]);
    server.shutdown(true).unwrap();
}

#[test]
fn the_only_thread_of_a_lane_serves_on_after_a_panic() {
    let faulty = Faulty::default();
    let server = server(&faulty, ";lane=1", Config::default());
    let near: EchoRef = server.root_poa().unwrap().activate(arc::<Witness>()).unwrap();
    let first = far(&near);
    first.ping().unwrap();
    let before = panic_counts();
    // The first one is caught where the lane serves a connection, the second one ends its loop.
    faulty.0.shutdown.store(2, SeqCst);
    drop(first);
    served(&near);
    wait_until("the lane has closed the connection", || faulty.0.shutdown.load(SeqCst) == 0);
    served(&near);
    assert!(panic_counts().panics > before.panics + 1, "{:?}", panic_counts());
    server.shutdown(true).unwrap();
}

#[test]
fn the_only_thread_of_a_pools_lane_goes_on_accepting_at_its_priority() {
    let faulty = Faulty::default();
    let server = server(&faulty, "", Config::default());
    let pool =
        server.rt().create_threadpool_with_lanes(&[lane(20_000, 1)], &ThreadpoolOptions::default()).unwrap();
    let witness = arc::<Witness>();
    let near: EchoRef =
        poa(&server, "pooled", PoaPolicies::new().threadpool(pool).priority_model(ServerDeclared, 20_000))
            .activate(witness.clone())
            .unwrap();
    served(&near);
    let run = witness.take().pop().unwrap();
    faulty.0.accept.store(1, SeqCst);
    served(&near);
    served(&near);
    assert_eq!((faulty.0.accept.load(SeqCst), witness.take().pop()), (0, Some(run.clone())));
    has_printed(&["the thread ", &run.thread, "panicked", "accept, on purpose"]);
    has_printed(&["the thread ", &run.thread, " is replaced"]);
    server.shutdown(true).unwrap();
}

#[test]
fn a_reply_that_the_system_does_not_send_is_logged() {
    for (number, endpoint) in [";connection", ";lane=1"].into_iter().enumerate() {
        let faulty = Faulty::default();
        let server = server(&faulty, endpoint, Config::default());
        let near: EchoRef = server.root_poa().unwrap().activate(arc::<Witness>()).unwrap();
        let one = far(&near);
        one.ping().unwrap();
        faulty.0.send.store(1, SeqCst);
        assert_eq!(one.ping().unwrap_err().kind, Kind::CommFailure, "{endpoint}");
        assert!(log::flush(Duration::from_secs(60)));
        let is_of_reply = |record: &&String| {
            record.starts_with("WARN 127.0.0.1:")
                && record.contains("a message was not sent (No buffer space available")
        };
        // Each endpoint's.
        let found = RECORDS.lock().unwrap().iter().filter(is_of_reply).count();
        assert_eq!(found, number + 1, "{endpoint}");
        // The client connects again.
        served(&near);
        server.shutdown(true).unwrap();
    }
}

#[test]
fn the_idle_reaper_goes_on_after_a_panic() {
    let faulty = Faulty::default();
    let config = Config { connection_idle_timeout_ms: 50, ..Config::default() };
    let server = server(&faulty, ";connection", config);
    let near: EchoRef = server.root_poa().unwrap().activate(arc::<Witness>()).unwrap();
    let (one, another) = (far(&near), far(&near));
    let before = panic_counts();
    // Once: a second panic of the idle reaper within a second would end the process.
    faulty.0.shutdown.store(1, SeqCst);
    one.ping().unwrap();
    another.ping().unwrap();
    wait_until("it has panicked", || faulty.0.shutdown.load(SeqCst) == 0);
    wait_until("it is replaced", || panic_counts().replaced > before.replaced);
    served(&near);
    wait_until("it closes idle connections", || server.served_connections().is_empty());
    server.shutdown(true).unwrap();
}

/// Panics in `ping`.
struct Panics;

impl Echo for Panics {
    fn ping(&self, _: isorb::Upcall<'_>) -> isorb::Result<()> {
        panic!("in a servant, on purpose")
    }
}

#[test]
fn a_servant_that_panics_is_a_record_and_unknown_for_its_caller() {
    let faulty = Faulty::default();
    let server = server(&faulty, ";connection", Config::default());
    let near: EchoRef = server.root_poa().unwrap().activate(Arc::new(Panics)).unwrap();
    let before = panic_counts();
    let raised = far(&near).ping().unwrap_err();
    assert_eq!((raised.kind, raised.completed), (Kind::Unknown, Completion::Maybe));
    assert!(panic_counts().panics > before.panics);
    has_printed(&["ERROR the thread isorb-conn panicked at ", "in a servant, on purpose"]);
    server.shutdown(true).unwrap();
}

const CHILD: &str = "ISORB_SUPERVISION_CHILD";

/// Does nothing by itself: another test starts it as the process that ends. The variable holds the
/// rule, and how often the acceptor panics.
#[test]
fn the_process_that_ends() {
    let Ok(scene) = std::env::var(CHILD) else { return };
    let (rule, panics) = scene.split_once(' ').unwrap();
    let arguments = ["-ORBThreadPanic", rule].map(String::from);
    let faulty = Faulty::default();
    let registered = Orb::builder().arguments(
        arguments.into_iter().chain(["-ORBEndPoint", "giop:faulty:127.0.0.1:0"].map(String::from)),
    );
    let server =
        registered.register(|info| Ok(info.add_transport(Arc::new(faulty.clone()))?)).build().unwrap();
    server.root_poa().unwrap().manager().activate().unwrap();
    let near: EchoRef = server.root_poa().unwrap().activate(arc::<Witness>()).unwrap();
    faulty.0.accept.store(panics.parse().unwrap(), SeqCst);
    served(&near);
    println!("STILL THERE");
}

#[test]
fn a_thread_that_keeps_panicking_ends_the_process_as_configured() {
    let run = |scene: &str| -> (Output, String) {
        let mut program = Command::new(std::env::current_exe().unwrap());
        program
            .args(["--exact", "the_process_that_ends", "--nocapture"])
            .env(CHILD, scene)
            .env_remove("ISORB_LOG");
        let output = program.output().unwrap();
        let text = [&output.stdout[..], &output.stderr[..]].map(String::from_utf8_lossy).concat();
        (output, text)
    };
    for (scene, ends, part) in [
        ("replace 1", false, "the thread isorb-accept is replaced after a panic"),
        // Enough that two of them lie within a second on any machine.
        ("replace 1000", true, "the second one within a second ends the process (thread_panic)"),
        ("abort 1", true, "the first one ends the process (thread_panic)"),
        ("always-replace 3", false, "the thread isorb-accept is replaced after a panic"),
    ] {
        let (output, text) = run(scene);
        assert_eq!(
            (output.status.success(), text.contains("STILL THERE")),
            (!ends, !ends),
            "{scene}: {text}"
        );
        assert!(text.contains(part), "{scene}: {text}");
    }
}
