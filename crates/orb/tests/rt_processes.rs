//! Two processes on one processor: the high-priority call runs while the low-priority one computes,
//! and only because of its priority.
//!
//! The serving process is this program again. Its servant computes in `sleep` and returns the
//! number of `ping`s meanwhile.

mod common;

use common::rt::{lane, poa, server_with};
use common::{Echo, EchoRef};
use isorb::poa::PoaPolicies;
use isorb::rt::policy::PriorityBand;
use isorb::rt::policy::PriorityModel::ClientPropagated;
use isorb::rt::{RealTime, RealTimeConfig, ThreadpoolOptions};
use isorb::{Config, Orb, Reference, Result, Upcall};
use isorb_rt::sched::{Cpus, SchedClass, current_cpus, set_current_cpus};
use isorb_rt::time::thread_cpu_ns;
use std::io::{BufRead, BufReader, Lines, Read};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

const LOW: i16 = 1_000;
const HIGH: i16 = 20_000;
/// How long the servant computes.
const WORK_MS: u32 = 250;
const ROLE: &str = "ISORB_TEST_SERVES";

#[derive(Default)]
struct Computer {
    computing: AtomicBool,
    meanwhile: AtomicU32,
}

impl Echo for Computer {
    fn ping(&self, _: Upcall<'_>) -> Result<()> {
        if self.computing.load(Ordering::SeqCst) {
            self.meanwhile.fetch_add(1, Ordering::SeqCst);
        }
        Ok(())
    }
    fn sleep(&self, _: Upcall<'_>, ms: u32) -> Result<u32> {
        // In processor time, so that a machine that stands still does not shorten it.
        let end = thread_cpu_ns() + u64::from(ms) * 1_000_000;
        self.computing.store(true, Ordering::SeqCst);
        while thread_cpu_ns() < end {
            std::hint::spin_loop();
        }
        self.computing.store(false, Ordering::SeqCst);
        Ok(self.meanwhile.swap(0, Ordering::SeqCst))
    }
}

/// The first processor of this process, alone.
fn one_processor() -> Cpus {
    Cpus::one(current_cpus().unwrap().iter().next().unwrap())
}

/// Does nothing by itself: the other tests start it as their serving process.
#[test]
fn serves_the_other_tests() {
    let Ok(how) = std::env::var(ROLE) else {
        return println!("runs as the serving process of the other tests only");
    };
    set_current_cpus(&one_processor()).unwrap();
    let real_time = RealTimeConfig { mode: RealTime::Prefer, ..RealTimeConfig::default() };
    let orb = server_with(Config { real_time, ..Config::default() });
    let options = ThreadpoolOptions::default();
    let policies = match how.as_str() {
        "lanes" => {
            let lanes = [lane(LOW, 1), lane(HIGH, 1)];
            let pool = orb.rt().create_threadpool_with_lanes(&lanes, &options).unwrap();
            let bands = [PriorityBand { low: 0, high: 9_999 }, PriorityBand { low: 10_000, high: 32_767 }];
            PoaPolicies::new().threadpool(pool).priority_bands(bands)
        }
        _ => PoaPolicies::new().threadpool(orb.rt().create_threadpool(lane(LOW, 1), &options).unwrap()),
    };
    let poa = poa(&orb, "computer", policies.priority_model(ClientPropagated, LOW));
    let object: EchoRef = poa.activate(Arc::new(Computer::default())).unwrap();
    println!("\nSERVES {}", object.object());
    // Until the client releases it.
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    orb.shutdown(false).unwrap();
}

struct Serving {
    process: Child,
    /// Open as long as the process may write to it.
    output: Lines<BufReader<ChildStdout>>,
    object: String,
}

fn serving(how: &str) -> Serving {
    let mut process = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "serves_the_other_tests", "--nocapture"])
        .env(ROLE, how)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(process.stdout.take().unwrap()).lines();
    let object = output.by_ref().find_map(|line| Some(line.ok()?.strip_prefix("SERVES ")?.to_owned()));
    Serving { process, output, object: object.expect("the server says what it serves") }
}

impl Drop for Serving {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        self.output.by_ref().for_each(drop);
        let _ = self.process.wait();
    }
}

/// The number of pings at `ping` that run while the servant computes at `work`.
fn meanwhile(how: &str, work: i16, ping: i16) -> u32 {
    let serving = serving(how);
    let orb = Orb::with_config(Config::default()).unwrap();
    let echo: EchoRef = orb.resolve(&serving.object).unwrap();
    echo.object().validate_connection().unwrap();
    let done = Arc::new(AtomicBool::new(false));
    let at = |priority: i16| {
        let (orb, echo, done) = (orb.clone(), echo.clone(), done.clone());
        move |call: &dyn Fn(&EchoRef, &AtomicBool) -> u32| {
            set_current_cpus(&one_processor()).unwrap();
            orb.rt_current().set_the_priority(priority).unwrap();
            call(&echo, &done)
        }
    };
    let (pings, works) = (at(ping), at(work));
    // The work begins when the pinging thread has its priority: an ordinary thread would not get
    // the processor.
    let (ready, pings_go) = std::sync::mpsc::channel();
    let pinging = std::thread::spawn(move || {
        pings(&|echo, done| {
            echo.ping().unwrap();
            ready.send(()).unwrap();
            while !done.load(Ordering::SeqCst) {
                echo.ping().unwrap();
                std::thread::sleep(Duration::from_millis(2));
            }
            0
        })
    });
    pings_go.recv().unwrap();
    let working = std::thread::spawn(move || works(&|echo, _| echo.sleep(WORK_MS).unwrap()));
    let meanwhile = working.join().unwrap();
    done.store(true, Ordering::SeqCst);
    pinging.join().unwrap();
    meanwhile
}

#[test]
fn what_is_urgent_runs_while_what_is_not_computes() {
    let may = std::thread::spawn(|| SchedClass::Fifo(1).set_current().is_ok()).join().unwrap();
    if !may {
        return println!("skipped: this process may not schedule in real time");
    }
    let urgent = meanwhile("lanes", LOW, HIGH);
    assert!(urgent > 0, "urgent pings have a lane that preempts");
    // Controls: the same lanes in reverse, and the same priorities without lanes and bands.
    assert_eq!(meanwhile("lanes", HIGH, LOW), 0, "what is less urgent waits");
    assert_eq!(meanwhile("one thread", LOW, HIGH), 0, "without lanes what is urgent waits, too");
}
