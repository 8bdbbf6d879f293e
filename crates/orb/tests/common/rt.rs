//! A servant that reports its priority, and one that blocks until it is released.

use super::{Echo, EchoRef};
use isorb::generated::*;
use isorb::poa::{Poa, PoaPolicies};
use isorb::rt::{Linear, NativeRange, Priority, PriorityMapping, RealTime, ThreadpoolLane};
use isorb::{Config, Orb, Reference};
use isorb_rt::sched::SchedClass;
use isorb_rt::time::thread_cpu_ns;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// The priority, class and thread of an upcall.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    pub priority: Option<i16>,
    pub class: SchedClass,
    pub thread: String,
}

/// Records each `ping`; `sleep` returns when [`Witness::open`] allows it.
#[derive(Default)]
pub struct Witness {
    runs: Mutex<Vec<Run>>,
    gate: Mutex<Gate>,
    changed: Condvar,
}

#[derive(Default)]
struct Gate {
    inside: u32,
    open: u32,
}

/// Only for the end of a failing test.
const LONG: Duration = Duration::from_secs(60);

impl Witness {
    /// The records since the last call.
    pub fn take(&self) -> Vec<Run> {
        std::mem::take(&mut *self.runs.lock().unwrap())
    }

    /// Waits until this many upcalls are blocked.
    pub fn await_inside(&self, number: u32) {
        let gate = self.gate.lock().unwrap();
        let (_gate, late) = self.changed.wait_timeout_while(gate, LONG, |gate| gate.inside < number).unwrap();
        assert!(!late.timed_out(), "fewer than {number} upcalls");
    }

    /// The number of blocked upcalls.
    pub fn inside(&self) -> u32 {
        self.gate.lock().unwrap().inside
    }

    /// Lets this many upcalls return.
    pub fn open(&self, number: u32) {
        self.gate.lock().unwrap().open += number;
        self.changed.notify_all();
    }

    fn note(&self, cx: Upcall<'_>) {
        let run = Run {
            priority: cx.priority().map(Priority::get),
            class: SchedClass::current().unwrap(),
            thread: std::thread::current().name().unwrap_or_default().into(),
        };
        self.runs.lock().unwrap().push(run);
    }
}

impl Echo for Witness {
    fn ping(&self, cx: Upcall<'_>) -> Result<()> {
        self.note(cx);
        Ok(())
    }
    fn text<'u>(&'u self, cx: Upcall<'u>, s: &'u str) -> Result<&'u str> {
        self.note(cx);
        Ok(s)
    }
    /// Results as long as the argument, in the upcall's scope.
    fn octets<'u>(&'u self, cx: Upcall<'u>, o: &'u [u8]) -> Result<&'u [u8]> {
        cx.slice(o)
    }
    fn sleep(&self, cx: Upcall<'_>, number: u32) -> Result<u32> {
        self.note(cx);
        let mut gate = self.gate.lock().unwrap();
        gate.inside += 1;
        self.changed.notify_all();
        let (mut gate, late) = self.changed.wait_timeout_while(gate, LONG, |gate| gate.open == 0).unwrap();
        assert!(!late.timed_out(), "the witness was not opened");
        (gate.open, gate.inside) = (gate.open - 1, gate.inside - 1);
        Ok(number)
    }
    fn feed(&self, cx: Upcall<'_>, _: &[u8]) -> Result<()> {
        self.note(cx);
        Ok(())
    }
    fn fail(&self, _: Upcall<'_>, _: u32) -> Result<()> {
        panic!("on purpose")
    }
    fn call_back<'u>(&'u self, cx: Upcall<'u>, to: Option<&'u EchoRef>) -> Result<&'u str> {
        self.note(cx);
        to.map_or(Ok(()), |to| to.ping())?;
        Ok("called")
    }
}

/// A server's ORB, its root POA's manager active.
pub fn server() -> Orb {
    server_with(Config::default())
}

pub fn server_with(config: Config) -> Orb {
    let orb = Orb::with_config(config).unwrap();
    orb.root_poa().unwrap().manager().activate().unwrap();
    orb
}

/// An active child of the root.
pub fn poa(orb: &Orb, name: &str, policies: PoaPolicies) -> Poa {
    let root = orb.root_poa().unwrap();
    root.create_poa(name, Some(&root.manager()), policies).unwrap()
}

/// An object as another ORB sees it.
pub fn far(client: &Orb, near: &EchoRef) -> EchoRef {
    client.resolve(&near.object().to_string()).unwrap()
}

/// Whether threads get real-time classes here; prints a message if not.
pub fn real_time(orb: &Orb) -> bool {
    let test = std::thread::spawn(|| SchedClass::Fifo(1).set_current().is_ok()).join().unwrap();
    if !test || orb.config().real_time.mode == RealTime::Off {
        println!("skipped in part: no right to real-time scheduling here");
    }
    test
}

pub fn arc<T: Default>() -> Arc<T> {
    Arc::default()
}

/// The class of a priority under the default mapping.
pub fn fifo(priority: i16) -> SchedClass {
    SchedClass::Fifo(Linear(NativeRange::system()).to_native(Priority::new(priority).unwrap()).unwrap())
}

pub fn lane(priority: i16, threads: u32) -> ThreadpoolLane {
    ThreadpoolLane::new(priority, threads)
}

pub fn poa_of(server: &Orb, name: &str, pool: u32) -> Poa {
    poa(server, name, PoaPolicies::new().threadpool(pool))
}

/// An object in a pool's POA and this many clients with connections of their own.
pub fn crowd(server: &Orb, pool: u32, name: &str, clients: usize) -> (Arc<Witness>, Vec<EchoRef>) {
    let witness = arc::<Witness>();
    let object: EchoRef = poa_of(server, name, pool).activate(witness.clone()).unwrap();
    let far = (0..clients).map(|_| far(&Orb::with_config(Config::default()).unwrap(), &object)).collect();
    (witness, far)
}

/// Calls `sleep` on separate threads.
pub fn sleepers(objects: &[EchoRef]) -> Vec<std::thread::JoinHandle<Result<u32, isorb::SystemException>>> {
    let start = |(i, object): (usize, &EchoRef)| {
        let object = object.clone();
        std::thread::spawn(move || object.sleep(i as u32))
    };
    objects.iter().enumerate().map(start).collect()
}

/// How long the low request computes; far less than the share that the kernel reserves for
/// real-time threads.
const BUSY_NS: u64 = 150_000_000;

/// The events of a scenario, in order.
#[derive(Default)]
pub struct Log {
    pub events: Mutex<Vec<&'static str>>,
    changed: Condvar,
}

impl Log {
    pub fn add(&self, event: &'static str) {
        self.events.lock().unwrap().push(event);
        self.changed.notify_all();
    }
    pub fn wait(&self, event: &'static str) {
        let events = self.events.lock().unwrap();
        drop(self.changed.wait_while(events, |events| !events.contains(&event)).unwrap());
    }
    /// Computes as a request of low priority does.
    pub fn compute(&self) {
        self.add("low begins");
        let end = thread_cpu_ns() + BUSY_NS;
        while thread_cpu_ns() < end {}
        self.add("low ends");
    }
}

/// All priorities map to one.
pub struct Flat;

impl PriorityMapping for Flat {
    fn to_native(&self, _: Priority) -> Option<u8> {
        Some(10)
    }
    fn to_corba(&self, _: u8) -> Option<Priority> {
        Some(Priority::MIN)
    }
}
