//! Budgets of operations: counting, reports, demotion.

mod common;

use common::rt::{arc, far, fifo, lane, poa, real_time, server};
use common::{Echo, EchoRef};
use isorb::generated::*;
use isorb::poa::PoaPolicies;
use isorb::rt::policy::PriorityModel::ServerDeclared;
use isorb::rt::{Budget, BudgetStatus, Overrun, OverrunObserver, ThreadpoolOptions, WatchdogOptions};
use isorb::{Config, Kind, Orb, Reference};
use isorb_rt::sched::SchedClass;
use isorb_rt::time::thread_cpu_ns;
use isorb_testkit::wait_until;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const ECHO: &str = "IDL:Test/Echo:1.0";
const MS: u64 = 1_000_000;

/// For `sleep`: at most a minute, and until the watchdog has checked.
const UNTIL_DEMOTED: u32 = 60_000;

fn class() -> SchedClass {
    SchedClass::current().unwrap()
}

/// `sleep` uses this many milliseconds of processor time; `feed` waits.
#[derive(Default)]
struct Worker {
    classes: Mutex<Vec<SchedClass>>,
}

impl Echo for Worker {
    fn ping(&self, _: Upcall<'_>) -> Result<()> {
        self.classes.lock().unwrap().push(class());
        Ok(())
    }
    fn sleep(&self, _: Upcall<'_>, ms: u32) -> Result<u32> {
        let end = thread_cpu_ns() + u64::from(ms) * MS;
        while thread_cpu_ns() < end && !(ms == UNTIL_DEMOTED && class() == SchedClass::Other) {}
        self.classes.lock().unwrap().push(class());
        Ok(ms)
    }
    fn fail(&self, _: Upcall<'_>, _: u32) -> Result<()> {
        panic!("on purpose")
    }
    fn call_back<'u>(&'u self, _: Upcall<'u>, _: Option<&'u EchoRef>) -> Result<&'u str> {
        // Waits long and uses little time.
        std::thread::sleep(Duration::from_millis(50));
        Ok("")
    }
}

#[derive(Default)]
struct Overruns(Mutex<Vec<(String, bool)>>);

impl OverrunObserver for Overruns {
    fn overrun(&self, operation: &BudgetStatus, used: Duration, running: bool) {
        assert!(used > operation.budget.worst_case);
        self.0.lock().unwrap().push((operation.operation.clone(), running));
    }
}

fn budget(ms: u64, overrun: Overrun) -> Budget {
    Budget { worst_case: Duration::from_millis(ms), overrun }
}

fn setup() -> (Orb, Arc<Worker>, EchoRef, Arc<Overruns>) {
    let (server, client) = (server(), Orb::with_config(Config::default()).unwrap());
    let pool = server.rt().create_threadpool(lane(2_000, 1), &ThreadpoolOptions::default()).unwrap();
    let policies = PoaPolicies::new().threadpool(pool).priority_model(ServerDeclared, 2_000);
    let worker = arc::<Worker>();
    let object: EchoRef = poa(&server, "worker", policies).activate(worker.clone()).unwrap();
    let overruns = arc::<Overruns>();
    server.rt().set_overrun_observer(Some(overruns.clone()));
    let object = far(&client, &object);
    (server, worker, object, overruns)
}

#[test]
fn overruns_are_counted_at_their_end() {
    let (server, _, object, overruns) = setup();
    let rt = server.rt();
    rt.set_budget(ECHO, "sleep", budget(20, Overrun::Report)).unwrap();
    rt.set_budget(ECHO, "call_back", budget(40, Overrun::Report)).unwrap();
    object.sleep(1).unwrap();
    object.sleep(25).unwrap();
    object.call_back(None).unwrap();
    object.ping().unwrap();
    // The reply may be sent before the caller's thread sees the count. One thread serves all calls,
    // so the next call shows it.
    let status = rt.budgets();
    let of = |operation: &str| status.iter().find(|status| status.operation == operation).unwrap();
    assert_eq!((of("sleep").calls, of("sleep").overruns, of("sleep").demoted), (2, 1, 0));
    assert!(of("sleep").worst_seen >= Duration::from_millis(25));
    assert_eq!((of("call_back").calls, of("call_back").overruns), (1, 0), "waiting costs no processor time");
    assert_eq!(*overruns.0.lock().unwrap(), [("sleep".to_owned(), false)]);
    assert!(rt.clear_budget(ECHO, "sleep"));
    assert!(!rt.clear_budget(ECHO, "sleep"));
    object.sleep(25).unwrap();
    assert_eq!(overruns.0.lock().unwrap().len(), 1);
    assert_eq!(rt.set_budget(ECHO, "sleep", budget(0, Overrun::Report)).unwrap_err().kind, Kind::BadParam);
    server.shutdown(true).unwrap();
}

#[test]
fn the_watchdog_demotes_a_thread_that_goes_on_and_it_recovers() {
    let (server, worker, object, overruns) = setup();
    let rt = server.rt();
    rt.set_budget(ECHO, "sleep", budget(5, Overrun::Demote)).unwrap();
    rt.start_watchdog(&WatchdogOptions::default()).unwrap();
    let urgent = real_time(&server);
    for _ in 0..3 {
        // Without the right to real-time scheduling no thread is demoted; the upcall just exceeds
        // its budget.
        object.sleep(if urgent { UNTIL_DEMOTED } else { 60 }).unwrap();
        object.ping().unwrap();
    }
    let classes = std::mem::take(&mut *worker.classes.lock().unwrap());
    assert_eq!(classes.len(), 6);
    let status = rt.budgets().remove(0);
    assert_eq!((status.calls, status.overruns), (3, 3));
    if urgent {
        assert_eq!(status.demoted, 3);
        for pair in classes.chunks(2) {
            assert_eq!(pair, [SchedClass::Other, fifo(2_000)], "demoted until it returned");
        }
        assert_eq!(*overruns.0.lock().unwrap(), vec![("sleep".to_owned(), true); 3]);
    }
    // A panic ends the measurement as a return does.
    rt.set_budget(ECHO, "fail", budget(5, Overrun::Demote)).unwrap();
    assert_eq!(object.fail(0).unwrap_err().kind, Kind::Unknown);
    object.ping().unwrap();
    assert_eq!(rt.budgets().iter().find(|status| status.operation == "fail").unwrap().calls, 1);
    rt.stop_watchdog();
    rt.start_watchdog(&WatchdogOptions { period: Duration::from_millis(5), ..Default::default() }).unwrap();
    let short = WatchdogOptions { period: Duration::from_nanos(1), ..Default::default() };
    assert_eq!(rt.start_watchdog(&short).unwrap_err().kind, Kind::BadParam);
    server.shutdown(true).unwrap();
    wait_until("the watchdog ended with the ORB", || {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
        let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
        names.filter(|name| name.trim() == "isorb-watchdog").count() == 0
    });
}

#[test]
fn budgets_hold_for_derived_interfaces_and_not_for_others() {
    let (server, _, object, overruns) = setup();
    server.rt().set_budget("IDL:omg.org/CORBA/Object:1.0", "sleep", budget(1, Overrun::Report)).unwrap();
    server.rt().set_budget("IDL:Test/Other:1.0", "sleep", budget(1, Overrun::Report)).unwrap();
    object.sleep(5).unwrap();
    object.ping().unwrap();
    assert_eq!(overruns.0.lock().unwrap().len(), 1, "every interface is an Object");
    assert_eq!(object.object().type_id(), ECHO);
    server.shutdown(true).unwrap();
}
