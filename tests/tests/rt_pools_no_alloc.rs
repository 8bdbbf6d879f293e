//! Thread pools: with any pool, a request allocates nothing once its threads and connections were
//! used.

use isorb::poa::PoaPolicies;
use isorb::rt::policy::PriorityBand;
use isorb::rt::policy::PriorityModel::{ClientPropagated, ServerDeclared};
use isorb::rt::{
    Budget, Overrun, RealTime, RealTimeConfig, RequestBuffering, ThreadpoolLane, ThreadpoolOptions,
    UpcallMemory, WatchdogOptions,
};
use isorb::{Config, Orb, Reference};
use isorb_rt::alloc_count::{CountingAllocator, process_allocations};
use isorb_tests::Parrot;
use isorb_tests::steady::*;
use std::sync::Arc;
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Priorities are CORBA priorities only, so that the test needs no rights and does not starve other
/// processes.
fn orb() -> Orb {
    orb_at(&["127.0.0.1:0"])
}

fn orb_at(endpoints: &[&str]) -> Orb {
    let real_time = RealTimeConfig { mode: RealTime::Off, ..RealTimeConfig::default() };
    let endpoints = endpoints.iter().map(|endpoint| endpoint.to_string()).collect();
    Orb::with_config(Config { real_time, endpoints, ..Config::default() }).unwrap()
}

const LANES: [i16; 3] = [10, 1_000, 20_000];

/// The allocations of a hundred rounds of calls at three priorities each.
fn allocations(
    lanes: bool,
    policies: impl FnOnce(PoaPolicies) -> PoaPolicies,
    options: &ThreadpoolOptions,
    collocated: bool,
    budget: bool,
) -> u64 {
    allocations_at(&orb(), lanes, policies, options, collocated, budget)
}

/// The same, at a server.
fn allocations_at(
    server: &Orb,
    lanes: bool,
    policies: impl FnOnce(PoaPolicies) -> PoaPolicies,
    options: &ThreadpoolOptions,
    collocated: bool,
    budget: bool,
) -> u64 {
    let root = server.root_poa().unwrap();
    root.manager().activate().unwrap();
    let rt = server.rt();
    let pool = match lanes {
        true => {
            let lanes = LANES.map(|priority| ThreadpoolLane::new(priority, 1).dynamic_threads(1));
            rt.create_threadpool_with_lanes(&lanes, options).unwrap()
        }
        false => rt.create_threadpool(ThreadpoolLane::new(5, 2), options).unwrap(),
    };
    let poa = root.create_poa("pool", Some(&root.manager()), policies(PoaPolicies::new().threadpool(pool)));
    let near: PathRef = poa.unwrap().activate(Arc::new(Parrot::default())).unwrap();
    if budget {
        let worst_case = Duration::from_secs(60);
        let budget = Budget { worst_case, overrun: Overrun::Demote };
        rt.set_budget(near.object().type_id(), "ping", budget).unwrap();
        rt.start_watchdog(&WatchdogOptions::default()).unwrap();
    }
    let client = if collocated { server.clone() } else { orb() };
    let far: PathRef = client.resolve(&near.object().to_string()).unwrap();
    let stamps = [Stamp { value: 1.5, at: 7 }; 40];
    let table = vec![vec!["a".to_owned(), "bb".to_owned()], vec![], vec!["ccc".to_owned()]];
    let call = || {
        client.scope(|scope| {
            for priority in LANES {
                client.rt_current().set_the_priority(priority)?;
                far.ping()?;
                assert_eq!(far.who_in(scope)?, "parrot");
                let mut other: &[Stamp] = &stamps[..3];
                assert_eq!(far.echo_stamps_in(scope, &stamps, &mut other)?.0.len(), 40);
                assert_eq!(far.echo_table_in(scope, &table)?.len(), 3);
            }
            Ok::<_, isorb::SystemException>(())
        })
    };
    for _ in 0..10 {
        call().unwrap();
    }
    let before = process_allocations();
    for _ in 0..100 {
        call().unwrap();
    }
    let made = process_allocations() - before;
    server.shutdown(true).unwrap();
    client.shutdown(true).unwrap();
    made
}

#[test]
fn pools_allocate_nothing_per_request() {
    let plain = ThreadpoolOptions::default;
    let all = || ThreadpoolOptions {
        buffering: Some(RequestBuffering::default()),
        allow_borrowing: true,
        ..ThreadpoolOptions::default()
    };
    let propagated = |policies: PoaPolicies| policies.priority_model(ClientPropagated, 10);
    let declared = |policies: PoaPolicies| policies.priority_model(ServerDeclared, 1_000);
    for (lanes, options) in [(true, plain()), (true, all()), (false, plain()), (false, all())] {
        for collocated in [false, true] {
            for budget in [false, true] {
                let what = format!("lanes {lanes}, collocated {collocated}, budget {budget}, {options:?}");
                assert_eq!(allocations(lanes, propagated, &options, collocated, budget), 0, "{what}");
                assert_eq!(allocations(lanes, declared, &options, collocated, budget), 0, "{what}, declared");
            }
        }
    }
    // In the same test, because the count is that of the process.
    bands_over_segments_and_unix_sockets_allocate_nothing();
    // The control: the same path with its memory from the heap.
    let heap = ThreadpoolOptions { memory: Some(UpcallMemory::Heap), ..plain() };
    assert!(allocations(true, propagated, &heap, false, false) >= 100, "the heap mode allocates");
}

fn bands_over_segments_and_unix_sockets_allocate_nothing() {
    for local in ["segment:", "unix:"] {
        let bands = LANES.map(|priority| PriorityBand { low: priority, high: priority });
        let banded =
            |policies: PoaPolicies| policies.priority_model(ClientPropagated, 10).priority_bands(bands);
        let server = orb_at(&["127.0.0.1:0", local]);
        let made = allocations_at(&server, true, banded, &ThreadpoolOptions::default(), false, false);
        assert_eq!(made, 0, "{local}");
    }
}
