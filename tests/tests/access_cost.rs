//! What access control costs a call that does nothing: user-space instructions under callgrind,
//! with a guard and without. The difference of two runs is what the calls took. The operation needs
//! `read`, as most do; an audited one would also count the record.

#[allow(missing_docs)]
mod generated {
    isorb::include_idl!("guarded");
}

use generated::rtec_event_channel_admin::{ProxyPushSupplier, ProxyPushSupplierRef};
use isorb::{Config, Guard, Orb, Reference, Result, Upcall};
use isorb_access::{AccessControl, Audit, Policy};
use std::process::Command;
use std::sync::Arc;

/// Number of calls, and whether there is a guard: for the process that is counted.
const CALLS: &str = "ISORB_TEST_CALLS";
const GUARDED: &str = "ISORB_TEST_GUARDED";

/// The most that the checks may add to optimised code.
const MOST: f64 = 0.02;

struct Idle;

impl ProxyPushSupplier for Idle {
    fn suspend_connection(&self, _: Upcall<'_>) -> Result<()> {
        Ok(())
    }
}

fn call(calls: usize, guarded: bool) {
    let control = AccessControl::new(Policy::built_in(false), Audit::to_log());
    let mut builder = Orb::builder().config(Config::default());
    if guarded {
        let guard: Arc<dyn Guard> = Arc::new(control);
        builder = builder.guard(guard);
    }
    let server = builder.build().unwrap();
    let root = server.root_poa().unwrap();
    let near: ProxyPushSupplierRef = root.activate(Arc::new(Idle)).unwrap();
    root.manager().activate().unwrap();
    let client = Orb::with_config(Config::default()).unwrap();
    let far: ProxyPushSupplierRef = client.resolve(&near.object().to_string()).unwrap();
    for _ in 0..calls {
        far.suspend_connection().unwrap();
    }
    server.shutdown(true).unwrap();
}

/// Instructions of a process with so many calls.
fn counted(calls: usize, guarded: bool) -> f64 {
    let file = std::env::temp_dir().join(format!("isorb-access-cost-{}", std::process::id()));
    let mut command = Command::new("valgrind");
    let output = format!("--callgrind-out-file={}", file.display());
    command.args(["-q", "--tool=callgrind", &output]).arg(std::env::current_exe().unwrap());
    command.args(["--exact", "checks_cost_little", "--nocapture"]).env(CALLS, calls.to_string());
    command.env(GUARDED, if guarded { "1" } else { "0" });
    let ended = command.output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let report = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    let total =
        report.lines().find_map(|line| line.strip_prefix("totals: ").or(line.strip_prefix("summary: ")));
    total.and_then(|total| total.trim().parse().ok()).unwrap_or_else(|| panic!("no total in the report"))
}

#[test]
fn checks_cost_little() {
    if let Ok(calls) = std::env::var(CALLS) {
        return call(calls.parse().unwrap(), std::env::var(GUARDED).is_ok_and(|guarded| guarded == "1"));
    }
    if cfg!(debug_assertions) {
        println!("skipped: the limit is for optimised code; run with --release");
        return;
    }
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("skipped: install valgrind to count instructions");
        return;
    }
    let each = |guarded| (counted(2_200, guarded) - counted(200, guarded)) / 2_000.0;
    let (plain, guarded) = (each(false), each(true));
    let added = (guarded - plain) / plain * 100.0;
    println!("instructions of a call: {plain:.0}, with a guard {guarded:.0}: {added:.2} % more");
    assert!(guarded - plain <= MOST * plain, "{plain:.0} instructions of a call, {guarded:.0} with a guard");
}
