//! An ORB in a process without the right to real-time scheduling: under `require` it does not start
//! and names the missing right and how to grant it; under `prefer` it continues, and logs it.
//!
//! Each test starts itself again. The child process drops its own rights and is observed from
//! outside.

mod common;

use common::EchoRef;
use common::rt::{Witness, arc, far, lane, poa, server_with};
use isorb::poa::PoaPolicies;
use isorb::rt::policy::PriorityModel::ServerDeclared;
use isorb::rt::{LockMemory, RealTime, SchedClass, ThreadpoolOptions};
use isorb::{Config, Kind, Orb};
use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};
use std::process::{Command, Output};

const CHILD: &str = "ISORB_TEST_WITHOUT_RIGHTS";

/// Whether this is the process without rights; it has dropped them then.
fn is_child() -> bool {
    if std::env::var_os(CHILD).is_none() {
        return false;
    }
    let none = |most| Rlimit { current: Some(most), maximum: Some(most) };
    setrlimit(Resource::Rtprio, none(0)).unwrap();
    setrlimit(Resource::Memlock, none(64 << 10)).unwrap();
    let empty = CapabilitySet::empty();
    // Those of this thread; its child threads have no more.
    set_capabilities(None, CapabilitySets { effective: empty, permitted: empty, inheritable: empty })
        .unwrap();
    true
}

/// Runs a test of this program in a process without rights.
fn child(test: &str) -> Output {
    let program = std::env::current_exe().unwrap();
    let words = ["--exact", test, "--nocapture", "--test-threads", "1"];
    Command::new(program).args(words).env(CHILD, "yes").env_remove("ISORB_LOG").output().unwrap()
}

/// The output of a child that has ended; both streams, because its test harness writes to them too.
fn printed(output: &Output) -> String {
    let text = [&output.stdout[..], &output.stderr[..]].map(String::from_utf8_lossy).concat();
    assert!(output.status.success(), "{text}");
    text
}

#[test]
fn require_refuses_to_start_and_says_how_to_grant_the_right() {
    if is_child() {
        let refused = Orb::init(["-ORBRealTime".into(), "require".into()]).map(|_| ()).unwrap_err();
        assert_eq!(refused.kind, Kind::NoPermission);
        return println!("REFUSED: {refused}");
    }
    let text = printed(&child("require_refuses_to_start_and_says_how_to_grant_the_right"));
    let program = std::env::current_exe().unwrap();
    let native = Config::default().real_time.native_max;
    for part in [
        "REFUSED: ",
        "real_time.mode is require",
        &format!("SCHED_FIFO {native}"),
        "RLIMIT_RTPRIO is 0 and the process lacks CAP_SYS_NICE",
        "/etc/security/limits.conf",
        &format!("rtprio {native}"),
        &format!("LimitRTPRIO={native}"),
        "AmbientCapabilities=CAP_SYS_NICE",
        &format!("setcap cap_sys_nice+ep {}", program.display()),
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

#[test]
fn the_right_to_lock_memory_is_named_too() {
    if is_child() {
        let mut config = Config::default();
        config.real_time.mode = RealTime::Prefer;
        config.real_time.lock_memory = LockMemory::All;
        let orb = Orb::with_config(config).unwrap();
        // The reports come with the first use of the rights.
        orb.rt_current().set_the_priority(100).unwrap();
        return;
    }
    let text = printed(&child("the_right_to_lock_memory_is_named_too"));
    let program = std::env::current_exe().unwrap();
    for part in [
        "RLIMIT_MEMLOCK is 65536 and the process lacks CAP_IPC_LOCK",
        "LimitMEMLOCK=infinity",
        &format!("setcap cap_ipc_lock+ep {}", program.display()),
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

#[test]
fn prefer_goes_on_and_says_what_is_missing_once() {
    if is_child() {
        // As `-ORBRealTime prefer`, which is the default.
        let server = Orb::init(["-ORBEndPoint".into(), "127.0.0.1:0".into()]).unwrap();
        server.root_poa().unwrap().manager().activate().unwrap();
        serve_at_a_priority(&server);
        return;
    }
    let text = printed(&child("prefer_goes_on_and_says_what_is_missing_once"));
    assert_eq!(
        text.matches("going on without real time: no right to real-time scheduling").count(),
        1,
        "{text}"
    );
    assert!(text.contains("setcap cap_sys_nice+ep"), "{text}");
}

#[test]
fn off_asks_for_nothing_and_says_nothing() {
    if is_child() {
        let mut config = Config { endpoints: vec!["127.0.0.1:0".into()], ..Config::default() };
        config.real_time.mode = RealTime::Off;
        serve_at_a_priority(&server_with(config));
        return;
    }
    let text = printed(&child("off_asks_for_nothing_and_says_nothing"));
    assert!(!text.contains("real time") && !text.contains("setcap"), "{text}");
}

/// Threads of the ordinary class have the niceness of the process; a lower value is not allowed.
#[test]
fn a_process_that_was_started_as_nice_serves_all_the_same() {
    if is_child() {
        rustix::process::setpriority_process(None, 19).unwrap();
        serve_at_a_priority(&server_with(Config::default()));
        return;
    }
    printed(&child("a_process_that_was_started_as_nice_serves_all_the_same"));
}

/// Lanes, priorities and calls work, in the ordinary class.
fn serve_at_a_priority(server: &Orb) {
    let lanes = [lane(100, 1), lane(20_000, 1)];
    let pool = server.rt().create_threadpool_with_lanes(&lanes, &ThreadpoolOptions::default()).unwrap();
    let policies = PoaPolicies::new().threadpool(pool).priority_model(ServerDeclared, 20_000);
    let witness = arc::<Witness>();
    let object: EchoRef = poa(server, "rt", policies).activate(witness.clone()).unwrap();
    let mut config = Config::default();
    config.real_time.mode = RealTime::Off;
    far(&Orb::with_config(config).unwrap(), &object).ping().unwrap();
    let run = witness.take().remove(0);
    assert_eq!((run.priority, &*run.thread, run.class), (Some(20_000), "pool1-20000", SchedClass::Other));
    server.shutdown(true).unwrap();
}

/// The control: with the right, `require` starts.
#[test]
fn require_starts_where_the_right_is_there() {
    let may =
        std::thread::spawn(|| SchedClass::Fifo(Config::default().real_time.native_max).set_current().is_ok());
    if !may.join().unwrap() {
        println!("SKIPPED: no right to real-time scheduling here");
        return;
    }
    Orb::init(["-ORBRealTime".into(), "require".into()]).unwrap();
}
