//! Calls of different priorities that meet at a connection, on one processor.
//!
//! In each scene a call at priority 10 has, or makes, what a call at priority 30 needs, and a
//! thread at 20 computes. The tests assert an order of events, not a time: the urgent call returns
//! while the thread between them still computes. That thread computes until it sees the call
//! return, or for so long that the order is decided.

mod common;

use common::fake::{Fake, read, reply};
use common::{Echo, EchoRef};
use isorb::generated::*;
use isorb::poa::policies::{IdAssignment, Lifespan, ThreadModel};
use isorb::poa::{AdapterActivator, Poa, PoaPolicies};
use isorb::rt::Overrides;
use isorb::rt::policy::{PriorityBand, RtPolicy};
use isorb::transport::{Capabilities, Listener, Stream, Tcp, Transport};
use isorb::{Concurrency, Config, Object, Orb, Reference};
use isorb_cdr::Version;
use isorb_giop::{AddressProfile, Ior};
use isorb_rt::sched::{Cpus, SchedClass, Thread, ThreadSpec, current_cpus, set_current_cpus};
use isorb_rt::time::{Deadline, now_ns, sleep_until, thread_cpu_ns};
use isorb_testkit::runs_alone;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

const LOW: u8 = 10;
const MIDDLE: u8 = 20;
const HIGH: u8 = 30;
/// Of the thread that directs the scene, and plays the server.
const DIRECTOR: u8 = 40;

const MS: u64 = 1_000_000;
/// How long the thread between the priorities computes at most; less than the share that the kernel
/// leaves to real-time threads.
const BUSY: u64 = 300 * MS;

/// Plays a scene in a process of its own, on one processor, directed from above all priorities.
fn play(test: &str, scene: impl FnOnce()) {
    if !runs_alone(test) {
        return;
    }
    let cpu = current_cpus().unwrap().iter().last().unwrap();
    set_current_cpus(&Cpus::one(cpu)).unwrap();
    match SchedClass::Fifo(DIRECTOR).set_current() {
        Ok(()) => scene(),
        Err(error) => println!("skipped: no right to real-time scheduling here: {error}"),
    }
}

fn at<R: Send + 'static>(priority: u8, f: impl FnOnce() -> R + Send + 'static) -> Thread<R> {
    let name = format!("at-{priority}");
    ThreadSpec::new(name).class(SchedClass::Fifo(priority)).spawn(f).unwrap()
}

/// Waits until a thread sleeps in the kernel. Less urgent threads run meanwhile.
fn await_sleep<R>(thread: &Thread<R>) {
    let path = format!("/proc/self/task/{}/stat", thread.native_id());
    loop {
        sleep_until(Deadline::after(Duration::from_millis(2)));
        // The state follows the name, which ends with the last bracket.
        let stat = std::fs::read_to_string(&path).unwrap();
        if stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(" S")) {
            return;
        }
    }
}

/// A call with an end that other threads see.
struct Call {
    thread: Thread<Result<()>>,
    returned: Arc<AtomicBool>,
}

fn call(priority: u8, object: &EchoRef) -> Call {
    let returned = Arc::new(AtomicBool::new(false));
    let (object, flag) = (object.clone(), returned.clone());
    let thread = at(priority, move || {
        let result = object.ping();
        flag.store(true, SeqCst);
        result
    });
    Call { thread, returned }
}

impl Call {
    fn join(self) {
        self.thread.join().unwrap().unwrap();
    }

    /// Lets the thread between the priorities compute, after `go`; says whether the call returned
    /// first.
    fn overtakes(&self, go: impl FnOnce()) -> bool {
        let flag = self.returned.clone();
        let middle = at(MIDDLE, move || {
            let end = now_ns() + BUSY;
            while !flag.load(SeqCst) && now_ns() < end {}
            flag.load(SeqCst)
        });
        assert!(!self.returned.load(SeqCst), "the call has not been answered");
        go();
        middle.join().unwrap()
    }
}

fn answer(stream: &mut TcpStream, id: u32) {
    stream.write_all(&reply(id)).unwrap();
}

fn one_connection() -> Config {
    Config { connections_per_server: 1, ..Config::default() }
}

fn with(object: &EchoRef, policy: RtPolicy) -> EchoRef {
    let overrides = Overrides::new(&[policy]).unwrap();
    object.object().with_rt_overrides(&overrides).unchecked_narrow()
}

/// Calls at these priorities that wait on one connection, in this order, with the ids of their
/// requests. `bound` says that the connection announces its band first.
fn waiting(fake: &Fake, object: &EchoRef, priorities: &[u8], bound: bool) -> (TcpStream, Vec<(Call, u32)>) {
    let mut stream = None;
    let mut calls = Vec::new();
    for priority in priorities {
        let call = call(*priority, object);
        let stream = stream.get_or_insert_with(|| {
            let mut stream = fake.accept();
            if bound {
                let id = read(&mut stream).unwrap();
                answer(&mut stream, id);
            }
            stream
        });
        let id = read(stream).unwrap();
        await_sleep(&call.thread);
        calls.push((call, id));
    }
    (stream.unwrap(), calls)
}

/// The first call reads, the last one is urgent. Replies to the calls of `first`, then to the
/// urgent one, while the thread between computes.
fn the_last_call_overtakes(mut stream: TcpStream, mut calls: Vec<(Call, u32)>, first: &[usize]) {
    let (urgent, id) = calls.pop().unwrap();
    let ids: Vec<u32> = calls.iter().map(|(_, id)| *id).collect();
    let overtook = urgent.overtakes(|| {
        first.iter().for_each(|call| answer(&mut stream, ids[*call]));
        answer(&mut stream, id);
    });
    assert!(overtook, "the urgent call waits for a thread that is less urgent, replies first: {first:?}");
    urgent.join();
    (0..ids.len()).filter(|i| !first.contains(i)).for_each(|i| answer(&mut stream, ids[i]));
    calls.into_iter().for_each(|(call, _)| call.join());
}

#[test]
fn five_calls_wait_on_the_five_connections_of_a_server() {
    play("five_calls_wait_on_the_five_connections_of_a_server", || {
        let fake = Fake::new();
        let object = fake.object(Config::default());
        let mut low: Vec<_> = (0..5)
            .map(|_| {
                let call = call(LOW, &object);
                let mut stream = fake.accept();
                let id = read(&mut stream).unwrap();
                await_sleep(&call.thread);
                (call, stream, id)
            })
            .collect();
        let urgent = call(HIGH, &object);
        // It joins the first of equals.
        let id = read(&mut low[0].1).unwrap();
        await_sleep(&urgent.thread);
        let overtook = urgent.overtakes(|| answer(&mut low[0].1, id));
        assert!(overtook, "the urgent call waits for a reader that is less urgent");
        urgent.join();
        for (call, mut stream, id) in low {
            answer(&mut stream, id);
            call.join();
        }
    });
}

#[test]
fn the_reader_reads_for_a_more_urgent_call() {
    play("the_reader_reads_for_a_more_urgent_call", || {
        // In which order the replies come makes no difference. A call between is served first by
        // none of the orders.
        for first in [&[][..], &[0], &[1], &[1, 0], &[0, 1]] {
            let fake = Fake::new();
            let (stream, calls) =
                waiting(&fake, &fake.object(one_connection()), &[LOW, LOW + 5, HIGH], false);
            the_last_call_overtakes(stream, calls, first);
        }
    });
}

#[test]
fn one_band_holds_both_priorities() {
    play("one_band_holds_both_priorities", || {
        let fake = Fake::new();
        let band = RtPolicy::PriorityBands(vec![PriorityBand { low: 0, high: 32_767 }]);
        let object = with(&fake.object(one_connection()), band);
        let (stream, calls) = waiting(&fake, &object, &[LOW, HIGH], true);
        the_last_call_overtakes(stream, calls, &[]);
    });
}

#[test]
fn a_private_connection_is_shared() {
    play("a_private_connection_is_shared", || {
        let fake = Fake::new();
        let object = with(&fake.object(one_connection()), RtPolicy::PrivateConnection);
        let (stream, calls) = waiting(&fake, &object, &[LOW, HIGH], false);
        the_last_call_overtakes(stream, calls, &[0]);
    });
}

#[test]
fn a_thread_of_the_orb_reads_a_bidirectional_connection() {
    play("a_thread_of_the_orb_reads_a_bidirectional_connection", || {
        let fake = Fake::new();
        let concurrency = Concurrency::Connection;
        let object = fake.object(Config { bidirectional: true, concurrency, ..one_connection() });
        object.object().orb().root_poa().unwrap();
        // An ordinary call opens the connection, so that its thread is an ordinary one.
        let opens = object.clone();
        let opened = ThreadSpec::new("opens").spawn(move || opens.ping()).unwrap();
        let mut stream = fake.accept();
        let id = read(&mut stream).unwrap();
        answer(&mut stream, id);
        opened.join().unwrap().unwrap();
        let urgent = call(HIGH, &object);
        let id = read(&mut stream).unwrap();
        await_sleep(&urgent.thread);
        assert!(urgent.overtakes(|| answer(&mut stream, id)), "the urgent call waits for the ORB's thread");
        urgent.join();
    });
}

/// More than the buffers between both sides hold.
const MUCH: usize = 8 << 20;

#[test]
fn a_less_urgent_call_sends() {
    play("a_less_urgent_call_sends", || {
        let fake = Fake::new();
        let object = fake.object(one_connection());
        let long = object.clone();
        let low = at(LOW, move || long.feed(&vec![7; MUCH]));
        let mut stream = fake.accept();
        await_sleep(&low);
        let urgent = call(HIGH, &object);
        await_sleep(&urgent.thread);
        let reader = move || {
            let mut header = [0; 12];
            stream.read_exact(&mut header).unwrap();
            let size = u32::from_le_bytes(header[8..].try_into().unwrap());
            std::io::copy(&mut (&mut stream).take(size.into()), &mut std::io::sink()).unwrap();
            answer_all(&mut stream);
        };
        let overtook = urgent.overtakes(|| drop(at(DIRECTOR, reader)));
        assert!(overtook, "the urgent call waits for a thread that sends");
        urgent.join();
        low.join().unwrap().unwrap();
    });
}

fn answer_all(stream: &mut TcpStream) {
    while let Some(id) = read(stream) {
        answer(stream, id);
    }
}

/// TCP by a client that takes long to connect.
#[derive(Clone, Debug, Default)]
struct Slow(Duty);

impl Transport for Slow {
    fn name(&self) -> &'static str {
        "slow"
    }
    fn profile_tag(&self) -> u32 {
        0x1234_5678
    }
    fn capabilities(&self) -> Capabilities {
        Tcp.capabilities()
    }
    fn connect(&self, address: &str, timeout: Option<Duration>) -> std::io::Result<Box<dyn Stream>> {
        self.0.run();
        Tcp.connect(address, timeout)
    }
    fn listen(&self, address: &str) -> std::io::Result<Box<dyn Listener>> {
        Tcp.listen(address)
    }
}

#[test]
fn a_less_urgent_call_opens_the_connection() {
    play("a_less_urgent_call_opens_the_connection", || {
        let (fake, slow) = (Fake::new(), Slow::default());
        let added = Arc::new(slow.clone());
        let builder = Orb::builder().config(one_connection());
        let orb = builder.register(|info| Ok(info.add_transport(added)?)).build().unwrap();
        let address = fake.0.local_addr().unwrap().to_string();
        let (tag, version, key) = (slow.profile_tag(), Version::V1_2, b"fake".into());
        let profile = AddressProfile { tag, version, address, key, components: Vec::new() };
        let ior = Ior { type_id: EchoRef::INTERFACE.id.into(), profiles: vec![profile.to_tagged().unwrap()] };
        let object: EchoRef = Object::from_ior(&orb, ior).unwrap().unchecked_narrow();
        drop(at(DIRECTOR, move || answer_all(&mut fake.accept())));
        let overtook = slow.0.overtaken(&object);
        assert!(overtook, "the urgent call waits for a less urgent one that connects");
    });
}

/// What a less urgent thread begins, and finishes when it may: it sleeps, then it works.
#[derive(Clone, Debug, Default)]
struct Duty {
    begun: Arc<AtomicBool>,
    may_finish: Arc<AtomicBool>,
}

impl Duty {
    fn run(&self) {
        self.begun.store(true, SeqCst);
        while !self.may_finish.load(SeqCst) {
            sleep_until(Deadline::after(Duration::from_millis(1)));
        }
        let start = thread_cpu_ns();
        while thread_cpu_ns() - start < 2 * MS {}
    }

    /// A less urgent call begins the work, and an urgent one needs it.
    fn overtaken(&self, object: &EchoRef) -> bool {
        let low = call(LOW, object);
        while !self.begun.load(SeqCst) {
            sleep_until(Deadline::after(Duration::from_millis(1)));
        }
        let urgent = call(HIGH, object);
        await_sleep(&urgent.thread);
        let overtook = urgent.overtakes(|| self.may_finish.store(true, SeqCst));
        urgent.join();
        low.join();
        overtook
    }
}

/// The first request works.
impl Echo for Duty {
    fn ping(&self, _: Upcall<'_>) -> Result<()> {
        if !self.begun.load(SeqCst) {
            self.run();
        }
        Ok(())
    }
}

fn kept() -> PoaPolicies {
    PoaPolicies::new().lifespan(Lifespan::Persistent).id_assignment(IdAssignment::User)
}

impl AdapterActivator for Duty {
    fn unknown_adapter(&self, parent: &Poa, name: &str) -> Result<bool> {
        self.run();
        let poa = parent.create_poa(name, Some(&parent.manager()), kept())?;
        let _: EchoRef = poa.activate_with_id("x", Arc::new(common::Parrot::default())).unwrap();
        Ok(true)
    }
}

#[test]
fn a_less_urgent_request_runs_the_adapter_activator() {
    play("a_less_urgent_request_runs_the_adapter_activator", || {
        let (orb, work) = (common::rt::server(), Duty::default());
        let root = orb.root_poa().unwrap();
        let poa = root.create_poa("made", Some(&root.manager()), kept()).unwrap();
        let object = poa.create_reference_with_id("x", EchoRef::INTERFACE.id).unwrap();
        let object: EchoRef = object.unchecked_narrow();
        poa.destroy(false, true).unwrap();
        root.set_adapter_activator(Some(Arc::new(work.clone()))).unwrap();
        let overtook = work.overtaken(&object);
        assert!(overtook, "the urgent request waits for an activator that is less urgent");
        orb.shutdown(true).unwrap();
    });
}

#[test]
fn a_less_urgent_request_has_the_main_thread() {
    play("a_less_urgent_request_has_the_main_thread", || {
        let (orb, work) = (common::rt::server(), Duty::default());
        let policies = PoaPolicies::new().thread_model(ThreadModel::MainThread);
        let poa = common::rt::poa(&orb, "main", policies);
        let object: EchoRef = poa.activate(Arc::new(work.clone())).unwrap();
        let runs = orb.clone();
        let main = at(DIRECTOR, move || runs.run());
        await_sleep(&main);
        let overtook = work.overtaken(&object);
        assert!(overtook, "the urgent request waits for a permit that a less urgent one has");
        orb.shutdown(true).unwrap();
        main.join().unwrap();
    });
}
