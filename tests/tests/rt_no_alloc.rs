//! Calls under Real-Time CORBA's policies allocate nothing once each of their connections was used:
//! connections chosen by priority, changing priorities, overrides at every scope.

use isorb::interceptor::{IorInfo, IorInterceptor};
use isorb::poa::PoaPolicies;
use isorb::rt::policy::{
    PriorityBand, PriorityModel, PriorityModelPolicy, Protocol, RtPolicy, TcpProperties, to_component,
};
use isorb::rt::{
    ClassSelectors, Overrides, RealTime, RealTimeConfig, ThreadpoolLane, ThreadpoolOptions,
    set_thread_overrides,
};
use isorb::{Concurrency, Config, Orb, Reference, Result};
use isorb_rt::alloc_count::{CountingAllocator, process_allocations};
use isorb_tests::Parrot;
use isorb_tests::steady::*;
use std::sync::Arc;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Adds these policies to all references of its ORB.
struct Says(Vec<RtPolicy>);

impl IorInterceptor for Says {
    fn establish_components(&self, info: &mut IorInfo<'_>) -> Result<()> {
        let component = to_component(&self.0).ok().flatten();
        component.into_iter().for_each(|component| info.add_ior_component(component));
        Ok(())
    }
}

/// Priorities travel and choose lanes. Native priorities stay unchanged, so that the test needs no
/// rights and does not starve other processes.
fn config(concurrency: Concurrency) -> Config {
    let real_time = RealTimeConfig { mode: RealTime::Off, ..RealTimeConfig::default() };
    Config { concurrency, lane_threads: 1, real_time, ..Config::default() }
}

/// A reference, the settings of its thread around each call, and the clean-up.
type Subject = (&'static str, PathRef, Option<Overrides>, Vec<Orb>);

fn subject(
    name: &'static str,
    concurrency: Concurrency,
    exposed: Vec<RtPolicy>,
    object: &[RtPolicy],
    thread: &[RtPolicy],
    collocated: bool,
) -> Subject {
    let server = Orb::builder()
        .config(config(concurrency))
        .register(|info| info.add_ior_interceptor(Arc::new(Says(exposed))).map_err(|error| panic!("{error}")))
        .build();
    let server = server.unwrap();
    let client = if collocated { server.clone() } else { Orb::with_config(config(concurrency)).unwrap() };
    client.set_network_priority_mapping(Arc::new(ClassSelectors));
    let near: PathRef = server.root_poa().unwrap().activate(Arc::new(Parrot::default())).unwrap();
    let background = server.clone();
    std::thread::spawn(move || background.run());
    let far = client.string_to_object(&near.object().to_string()).unwrap();
    let far = far.with_rt_overrides(&Overrides::new(object).unwrap()).unchecked_narrow();
    let thread = (!thread.is_empty()).then(|| Overrides::new(thread).unwrap());
    (name, far, thread, vec![client, server])
}

/// The priorities of all calls, and of the lanes of [`laned`].
const PRIORITIES: [i16; 4] = [0, 9, 50, 32767];

/// A server with a lane for each priority, with this number of threads.
fn laned(name: &'static str, bands: &[PriorityBand], threads: u32) -> Subject {
    let server = Orb::with_config(config(Concurrency::Connection)).unwrap();
    let client = Orb::with_config(config(Concurrency::Connection)).unwrap();
    let lanes = PRIORITIES.map(|priority| ThreadpoolLane::new(priority, threads));
    let options = ThreadpoolOptions::default();
    let pool = server.rt().create_threadpool_with_lanes(&lanes, &options).unwrap();
    let policies = PoaPolicies::new().threadpool(pool).priority_model(PriorityModel::ClientPropagated, 0);
    let policies = if bands.is_empty() { policies } else { policies.priority_bands(bands) };
    let root = server.root_poa().unwrap();
    root.manager().activate().unwrap();
    let poa = root.create_poa("lanes", Some(&root.manager()), policies).unwrap();
    let near: PathRef = poa.activate(Arc::new(Parrot::default())).unwrap();
    let far = client.resolve(&near.object().to_string()).unwrap();
    (name, far, None, vec![client, server])
}

#[test]
fn the_steady_state_allocates_nothing_whatever_the_policies() {
    let propagated = || {
        RtPolicy::PriorityModel(PriorityModelPolicy {
            model: PriorityModel::ClientPropagated,
            server_priority: 0,
        })
    };
    let declared = || {
        RtPolicy::PriorityModel(PriorityModelPolicy {
            model: PriorityModel::ServerDeclared,
            server_priority: 9,
        })
    };
    let band = |low, high| PriorityBand { low, high };
    let bands = || RtPolicy::PriorityBands(vec![band(0, 9), band(10, 99), band(100, 32767)]);
    let tcp = TcpProperties { network_priority: true, send_buffer_size: 60_000, ..TcpProperties::default() };
    let tcp = || RtPolicy::ClientProtocol(vec![Protocol::iiop(tcp)]);
    let private = || RtPolicy::PrivateConnection;
    for concurrency in [Concurrency::Connection, Concurrency::Lane] {
        let subject = |name, exposed, object: &[RtPolicy], thread: &[RtPolicy]| {
            subject(name, concurrency, exposed, object, thread, false)
        };
        let subjects = [
            subject("propagated", vec![propagated()], &[], &[]),
            subject("declared, banded", vec![declared(), bands()], &[], &[]),
            subject("banded by the server", vec![propagated(), bands()], &[], &[]),
            subject("banded by the reference, private", vec![propagated()], &[bands(), private()], &[]),
            subject("no model, banded by the thread", vec![], &[], &[bands()]),
            subject("all at once", vec![propagated()], &[bands()], &[tcp(), private()]),
            laned("lanes", &[], 1),
            laned("lanes of two threads", &[], 2),
            laned("lanes and bands", &[band(0, 9), band(10, 32767)], 1),
            self::subject("in one ORB", concurrency, vec![propagated(), bands()], &[], &[], true),
        ];
        for (name, path, thread, orbs) in subjects {
            let current = orbs[0].rt_current();
            let call = || {
                orbs[0].scope(|scope| {
                    for priority in PRIORITIES {
                        current.set_the_priority(priority)?;
                        let before = thread.clone().map(set_thread_overrides);
                        path.ping()?;
                        path.set_level(4)?;
                        assert_eq!(path.who_in(scope)?, "parrot");
                        before.map(set_thread_overrides);
                    }
                    Ok::<_, isorb::SystemException>(())
                })
            };
            for _ in 0..5 {
                call().unwrap();
                // An idle connection is checked before its use, which needs a block the first time.
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
            let before = process_allocations();
            for _ in 0..50 {
                call().unwrap();
            }
            let made = process_allocations() - before;
            assert_eq!(made, 0, "{name}, {concurrency:?}: {made} allocations in 50 rounds");
            path.who().unwrap();
            assert!(process_allocations() > before, "the control allocates");
            orbs.iter().for_each(|orb| orb.shutdown(true).unwrap());
        }
    }
}
