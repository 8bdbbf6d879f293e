//! Pools that are declared heap-free: an upcall that allocates is counted and named, or ends the
//! process.

#[allow(missing_docs)]
mod generated {
    isorb::include_idl!("gate");
}

use generated::gates::*;
use isorb::poa::PoaPolicies;
use isorb::rt::{CountingAllocator, HeapFree, ThreadpoolLane, ThreadpoolOptions};
use isorb::{Config, Orb, Reference, Result, Upcall};
use std::process::Command;
use std::sync::Arc;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// `note` allocates as often as its argument says.
struct Allocates;

impl Gate for Allocates {
    fn pass<'u>(&'u self, cx: Upcall<'u>) -> Result<&'u [u8]> {
        cx.slice(&[1, 2, 3])
    }
    fn note(&self, _: Upcall<'_>, number: u32, _: &[u8]) -> Result<()> {
        (0..number).for_each(|_| drop(std::hint::black_box(vec![1u8; 10])));
        Ok(())
    }
}

/// The number of upcalls that were found to allocate, in this process and from another ORB.
fn calls(heap_free: HeapFree) -> u64 {
    let orb = Orb::with_config(Config::default()).unwrap();
    let root = orb.root_poa().unwrap();
    root.manager().activate().unwrap();
    let options = ThreadpoolOptions { heap_free: Some(heap_free), ..ThreadpoolOptions::default() };
    let pool = orb.rt().create_threadpool(ThreadpoolLane::new(5, 1), &options).unwrap();
    let poa = root.create_poa("heap-free", Some(&root.manager()), PoaPolicies::new().threadpool(pool));
    let near: GateRef = poa.unwrap().activate(Arc::new(Allocates)).unwrap();
    let client = Orb::with_config(Config::default()).unwrap();
    let far: GateRef = client.resolve(&near.object().to_string()).unwrap();
    let upcalls = || orb.rt().threadpool_status(pool).unwrap()[0].heap_upcalls;
    for gate in [&near, &far] {
        gate.note(0, b"").unwrap();
        gate.pass().unwrap();
    }
    assert_eq!(upcalls(), 0, "these upcalls allocate nothing");
    for gate in [&near, &far] {
        gate.note(7, b"").unwrap();
        gate.pass().unwrap();
    }
    let counted = upcalls();
    orb.shutdown(true).unwrap();
    counted
}

const CHILD: &str = "ISORB_TEST_HEAP_FREE";

#[test]
fn a_servant_that_allocates_is_found() {
    if std::env::var_os(CHILD).is_some() {
        calls(HeapFree::Abort);
        return;
    }
    assert_eq!(calls(HeapFree::No), 0);
    assert_eq!(calls(HeapFree::Report), 2);
    let this = std::env::current_exe().unwrap();
    let child = Command::new(this).arg("--nocapture").env(CHILD, "1").output().unwrap();
    let output = String::from_utf8_lossy(&child.stderr);
    assert!(!child.status.success(), "{output}");
    assert!(output.contains("allocated where nothing may be"), "{output}");
}
