//! The scheduling services as a client uses them, over a connection.

use isorb::poa::policies::IdUniqueness;
use isorb::poa::{CreateError as PoaError, PoaPolicies};
use isorb::rt::policy::{PriorityBand, PriorityModel};
use isorb::rt::{Continuous, NativeRange, RequestBuffering, ThreadpoolOptions};
use isorb::{Config, Kind, Orb, Reference};
use isorb_rt::sched::SchedClass;
use isorb_rt::sync::CeilingError;
use isorb_sched::file::ScheduleFile;
use isorb_sched::schedule::Config as ScheduleConfig;
use isorb_sched_service::rtec_scheduler::scheduler::{
    AddDependencyError, ComputeSchedulingError, CreateError, DispatchConfigurationError,
    LastScheduledPriorityError, LookupError, PriorityError, SetError,
};
use isorb_sched_service::rtec_scheduler::{
    Anomaly_Severity, Criticality_t, Dependency_Type_t, Dispatching_Type_t, Importance_t, Info_Type_t,
    SchedulerRef,
};
use isorb_sched_service::{ClientScheduler, NameError, SchedulerService, ServerScheduler};
use std::sync::Arc;

const MS: u64 = 10_000;

/// A service, and a reference to it from another ORB.
fn service() -> (Orb, SchedulerRef) {
    let orb = Orb::init(["-ORBEndPoint".into(), "127.0.0.1:0".into()]).unwrap();
    let servant = SchedulerService::new(ScheduleConfig::default(), 8);
    let poa = orb.root_poa().unwrap();
    let reference: SchedulerRef = poa.activate(Arc::new(servant)).unwrap();
    poa.manager().activate().unwrap();
    let client = Orb::with_config(Config::default()).unwrap();
    let far = client.resolve(&reference.object().to_string()).unwrap();
    (orb, far)
}

fn set(scheduler: &SchedulerRef, handle: i32, cost: u64, period: i32) -> Result<(), SetError> {
    let (medium, important) = (Criticality_t::MediumCriticality, Importance_t::HighImportance);
    scheduler.set(handle, medium, cost, cost, 0, period, important, 0, 0, Info_Type_t::Operation)
}

#[test]
fn a_configuration_run() {
    let (_orb, scheduler) = service();
    let imu = scheduler.create("imu").unwrap();
    let gps = scheduler.create("gps").unwrap();
    let display = scheduler.create("display").unwrap();
    assert_eq!(
        scheduler.create("imu").unwrap_err(),
        CreateError::from(isorb_sched_service::rtec_scheduler::DUPLICATE_NAME {})
    );
    assert_eq!(scheduler.lookup("gps").unwrap(), gps);
    assert!(matches!(scheduler.lookup("radar"), Err(LookupError::UNKNOWN_TASK(_))));
    set(&scheduler, imu, 2 * MS, 330_000).unwrap();
    set(&scheduler, gps, 5 * MS, 2_000_000).unwrap();
    set(&scheduler, display, 4 * MS, 0).unwrap();
    assert!(matches!(set(&scheduler, 99, 1, 1), Err(SetError::UNKNOWN_TASK(_))));
    assert!(
        matches!(set(&scheduler, imu, 1, -1), Err(SetError::System(error)) if error.kind == Kind::BadParam)
    );
    scheduler.add_dependency(display, imu, 1, Dependency_Type_t::OneWayCall).unwrap();
    assert!(matches!(scheduler.priority(imu), Err(PriorityError::NOT_SCHEDULED(_))));
    assert!(matches!(scheduler.last_scheduled_priority(), Err(LastScheduledPriorityError::NOT_SCHEDULED(_))));

    let (infos, _, queues, anomalies) = scheduler.compute_scheduling(1, 99).unwrap();
    assert_eq!(infos.iter().map(|info| &*info.entry_point).collect::<Vec<_>>(), ["imu", "gps", "display"]);
    let found = &infos[2];
    assert_eq!((found.priority, found.preemption_priority, found.dependencies[0].rt_info), (99, 0, imu));
    assert_eq!(found.importance, Importance_t::HighImportance);
    assert_eq!(
        queues.iter().map(|queue| (queue.preemption_priority, queue.thread_priority)).collect::<Vec<_>>(),
        [(0, 99), (1, 98)]
    );
    assert!(anomalies.is_empty());
    assert_eq!(scheduler.priority(gps).unwrap(), (98, 0, 1));
    assert_eq!(scheduler.entry_point_priority("imu").unwrap(), (99, 0, 0));
    assert_eq!(scheduler.dispatch_configuration(1).unwrap(), (98, Dispatching_Type_t::StaticDispatching));
    assert!(matches!(
        scheduler.dispatch_configuration(2),
        Err(DispatchConfigurationError::UNKNOWN_PRIORITY_LEVEL(_))
    ));
    assert_eq!(scheduler.last_scheduled_priority().unwrap(), 1);
    assert_eq!(scheduler.get(gps).unwrap().worst_case_execution_time, 5 * MS);

    // A change invalidates the schedule.
    scheduler.remove_dependency(display, imu, 1, Dependency_Type_t::OneWayCall).unwrap();
    assert!(matches!(scheduler.priority(gps), Err(PriorityError::NOT_SCHEDULED(_))));
    let (_, _, queues, anomalies) = scheduler.compute_scheduling(1, 99).unwrap();
    assert!(queues.is_empty());
    assert_eq!(anomalies[0].severity, Anomaly_Severity::AnomalyFatal);
    assert_eq!(
        anomalies[0].description,
        "display: its period is zero, and no operation releases or calls it"
    );
}

#[test]
fn what_cannot_be_scheduled() {
    let (_orb, scheduler) = service();
    for (number, period) in [100_000, 200_000, 300_000].into_iter().enumerate() {
        let handle = scheduler.create(&format!("o{number}")).unwrap();
        set(&scheduler, handle, 5 * MS, period).unwrap();
    }
    for (first, last) in [(1, 2), (5, 4), (-1, 9), (1, 40_000)] {
        let refused = scheduler.compute_scheduling(first, last).unwrap_err();
        assert!(
            matches!(refused, ComputeSchedulingError::INSUFFICIENT_THREAD_PRIORITY_LEVELS(_)),
            "{first} to {last}"
        );
    }
    set(&scheduler, 1, 8 * MS, 100_000).unwrap();
    // The exception for it has no members. An anomaly has the names and utilisations, and nothing
    // is scheduled.
    let (_, _, queues, anomalies) = scheduler.compute_scheduling(1, 9).unwrap();
    assert!(queues.is_empty());
    assert_eq!(anomalies[0].severity, Anomaly_Severity::AnomalyFatal);
    assert_eq!(
        anomalies[0].description,
        "the tasks ask for 121.7 % of the processor: o0 80.0 %, o1 25.0 %, o2 16.7 %"
    );
    assert!(matches!(scheduler.priority(1), Err(PriorityError::NOT_SCHEDULED(_))));
    // 90 %, and the least urgent task is late.
    set(&scheduler, 1, 4 * MS, 100_000).unwrap();
    set(&scheduler, 2, 8 * MS, 200_000).unwrap();
    set(&scheduler, 3, 3 * MS, 270_000).unwrap();
    let (_, _, _, anomalies) = scheduler.compute_scheduling(1, 9).unwrap();
    assert!(anomalies.is_empty());
    set(&scheduler, 3, 5 * MS, 270_000).unwrap();
    let (_, _, _, anomalies) = scheduler.compute_scheduling(1, 9).unwrap();
    assert_eq!(anomalies[0].severity, Anomaly_Severity::AnomalyError);
    assert!(anomalies[0].description.starts_with("o2: its response is >= "), "{}", anomalies[0].description);
    for number in 3..8 {
        scheduler.create(&format!("o{number}")).unwrap();
    }
    let Err(CreateError::System(error)) = scheduler.create("more") else { panic!("it is full") };
    assert_eq!(error.kind, Kind::ImpLimit);
    assert_eq!(error.detail.as_deref(), Some("8 operations are registered, and no more may be"));
    assert_eq!(scheduler.lookup("o1").unwrap(), 2, "the next reply is like any other");
}

/// Registered operations may be wrong in each of these ways. The computation names the operation
/// and the numbers, and nothing has a priority then.
#[test]
fn bad_input_is_named() {
    let one_way = Dependency_Type_t::OneWayCall;
    type Wrong = fn(&SchedulerRef);
    let cases: [(Wrong, &str); 6] = [
        (
            |s| s.add_dependency(1, 1, 1, Dependency_Type_t::OneWayCall).unwrap(),
            "a: it depends on itself: a -> a",
        ),
        (
            |s| {
                s.add_dependency(1, 2, 1, Dependency_Type_t::TwoWayCall).unwrap();
                s.add_dependency(2, 1, 1, Dependency_Type_t::OneWayCall).unwrap();
            },
            "a: it depends on itself: a -> b -> a",
        ),
        (|s| set(s, 1, MS, 0).unwrap(), "a: its period is zero, and no operation releases or calls it"),
        (|s| set(s, 1, 0, 100_000).unwrap(), "a: its worst-case cost is zero"),
        (
            |s| set(s, 1, 11 * MS, 100_000).unwrap(),
            "a: its deadline of 10 ms is shorter than its cost of 11 ms",
        ),
        (
            |s| set(s, 1, 8 * MS, 100_000).unwrap(),
            "the tasks ask for 105.0 % of the processor: a 80.0 %, b 25.0 %",
        ),
    ];
    for (wrong, message) in cases {
        let (_orb, scheduler) = service();
        for (name, cost, period) in [("a", 2 * MS, 100_000), ("b", 5 * MS, 200_000)] {
            let handle = scheduler.create(name).unwrap();
            set(&scheduler, handle, cost, period).unwrap();
        }
        // What does not exist is refused at once.
        for (handle, on) in [(1, 3), (3, 1), (0, 1), (1, -1)] {
            let refused = scheduler.add_dependency(handle, on, 1, one_way).unwrap_err();
            assert!(matches!(refused, AddDependencyError::UNKNOWN_TASK(_)), "{handle} on {on}");
        }
        wrong(&scheduler);
        let (_, _, queues, anomalies) = scheduler.compute_scheduling(1, 9).unwrap();
        assert!(queues.is_empty());
        let found: Vec<_> = anomalies.iter().map(|a| (a.severity, &*a.description)).collect();
        assert_eq!(found[0], (Anomaly_Severity::AnomalyFatal, message));
        for handle in 1..=2 {
            assert!(matches!(scheduler.priority(handle), Err(PriorityError::NOT_SCHEDULED(_))), "{message}");
        }
    }
}

#[test]
fn priorities_by_name() {
    let file = ScheduleFile::parse(
        "s.toml",
        "[[activity]]\nname = 'guidance'\npriority = 180\n[[object]]\nname = 'gps'\npriority = 90",
    )
    .unwrap();
    let orb = Orb::init(["-ORBEndPoint".into(), "127.0.0.1:0".into()]).unwrap();
    let client = ClientScheduler::new(&orb, &file);
    client.schedule_activity("guidance").unwrap();
    assert_eq!(orb.rt_current().the_priority().unwrap().get(), 180);
    let unknown = client.schedule_activity("lunch").unwrap_err();
    assert_eq!(unknown, NameError::UnknownName("lunch".into()));
    assert_eq!(unknown.to_string(), "the schedule file has no priority for lunch");
    assert_eq!(orb.rt_current().the_priority().unwrap().get(), 180);

    let server = ServerScheduler::new(&orb, &file);
    assert_eq!(server.priority("gps").unwrap(), 90);
    let policies = PoaPolicies::default().priority_model(PriorityModel::ServerDeclared, 10);
    let poa = orb.root_poa().unwrap().create_poa("rt", None, policies).unwrap();
    let servant = || Arc::new(SchedulerService::new(ScheduleConfig::default(), 8));
    let object: SchedulerRef = server.schedule_object(&poa, servant(), "gps").unwrap();
    assert!(object.object().to_string().starts_with("IOR:"));
    let refused: Result<SchedulerRef, _> = server.schedule_object(&poa, servant(), "radar");
    assert_eq!(refused.map(|_| ()).unwrap_err(), NameError::UnknownName("radar".into()));
    // A POA with client-propagated priorities gives objects none.
    let refused: Result<SchedulerRef, _> = server.schedule_object(&orb.root_poa().unwrap(), servant(), "gps");
    assert!(matches!(refused.map(|_| ()), Err(NameError::Activate(_))));
}

#[test]
fn resources_by_name() {
    let text = "priorities = [10, 12]\n\
        [[operation]]\nname = 'fast'\ncost = '1 ms'\nperiod = '10 ms'\nholds = [{ resource = 'map', for = '1 ms' }]\n\
        [[operation]]\nname = 'middle'\ncost = '1 ms'\nperiod = '20 ms'\n\
        [[operation]]\nname = 'slow'\ncost = '1 ms'\nperiod = '40 ms'\n\
        holds = [{ resource = 'map', for = '1 ms' }, { resource = 'log', for = '1 ms' }]\n\
        [[resource]]\nname = 'map'\n[[resource]]\nname = 'log'\nceiling = 15\n\
        [[resource]]\nname = 'unused'\n[[resource]]\nname = 'beyond'\nceiling = 32767";
    let orb = Orb::with_config(Config::default()).unwrap();
    orb.rt().set_priority_mapping(Arc::new(Continuous(NativeRange { min: 1, max: 40 })));
    let server = ServerScheduler::new(&orb, &ScheduleFile::parse("s.toml", text).unwrap());
    let (map, log) = (server.resource("map").unwrap(), server.resource("log").unwrap());
    assert!(Arc::ptr_eq(&map, &server.resource("map").unwrap()), "one mutex for all");
    // Native priorities are one higher under this mapping.
    assert_eq!((map.ceiling(), log.ceiling()), (13, 16), "the most urgent user's, and as declared");
    assert_eq!(server.resource("lunch").unwrap_err(), NameError::UnknownName("lunch".into()));
    assert_eq!(server.resource("unused").unwrap_err(), NameError::NoCeiling("unused".into()));
    let beyond = server.resource("beyond").unwrap_err();
    assert!(matches!(&beyond, NameError::System(error) if error.kind == Kind::DataConversion), "{beyond}");
    let low = text.replace("name = 'map'\n[[", "name = 'map'\nceiling = 11\n[[");
    let low = ServerScheduler::new(&orb, &ScheduleFile::parse("s.toml", &low).unwrap());
    let refused = low.resource("log").unwrap_err();
    assert!(matches!(&refused, NameError::Schedule(error) if error.line == 3), "{refused}");

    // Threads at the priorities of the slow operation, and of one that does not use the map in the
    // schedule.
    // to use the map.
    std::thread::spawn(move || {
        let class = || SchedClass::current().unwrap();
        orb.rt_current().set_the_priority(10).unwrap();
        if class().native_priority().is_none() {
            drop(map.lock().unwrap());
            return println!("skipped in part: this process may not schedule in real time");
        }
        let own = class();
        let held = map.lock().unwrap();
        assert_eq!(class().native_priority(), Some(13));
        let inner = log.lock().unwrap();
        assert_eq!(class().native_priority(), Some(16));
        drop(inner);
        assert_eq!(class().native_priority(), Some(13));
        drop(held);
        assert_eq!(class(), own);
        orb.rt_current().set_the_priority(13).unwrap();
        assert!(matches!(map.lock().unwrap_err(), CeilingError::AboveCeiling { ceiling: 13, .. }));
    })
    .join()
    .unwrap();
}

#[test]
fn poas_of_the_schedule() {
    let file = ScheduleFile::parse(
        "s.toml",
        "[[object]]\nname = 'gps'\npriority = 90\n[[object]]\nname = 'radar'\npriority = 200\n[[object]]\nname = 'flir'\npriority = 200",
    )
    .unwrap();
    let orb = Orb::init(["-ORBEndPoint".into(), "127.0.0.1:0".into()]).unwrap();
    let root = orb.root_poa().unwrap();
    // A pool that buffers counts its requests, lane by lane.
    let options =
        ThreadpoolOptions { buffering: Some(RequestBuffering::default()), ..ThreadpoolOptions::default() };
    let server = ServerScheduler::new(&orb, &file).with_threads(2, options);
    assert_eq!(server.threadpool(), None, "none before it is needed");
    let poa = server.create_poa(&root, "scheduled", Some(&root.manager()), PoaPolicies::default()).unwrap();
    let other = server.create_poa(&poa, "below", Some(&root.manager()), PoaPolicies::default()).unwrap();
    let pool = server.threadpool().unwrap();
    let lanes = || orb.rt().threadpool_status(pool).unwrap();
    let served = || lanes().iter().map(|lane| (lane.lane_priority, lane.peak)).collect::<Vec<_>>();
    assert_eq!(served(), [(90, 0), (200, 0)], "one pool for both, with a lane for each priority");

    let servant = || Arc::new(SchedulerService::new(ScheduleConfig::default(), 8));
    let gps: SchedulerRef = server.schedule_object(&poa, servant(), "gps").unwrap();
    let radar: SchedulerRef = server.schedule_object(&other, servant(), "radar").unwrap();
    root.manager().activate().unwrap();
    let client = Orb::with_config(Config::default()).unwrap();
    let far =
        |object: &SchedulerRef| -> SchedulerRef { client.resolve(&object.object().to_string()).unwrap() };
    assert_eq!(far(&radar).create("o"), Ok(1));
    assert_eq!(served(), [(90, 0), (200, 1)], "its lane, and no other, served it");
    assert!(far(&gps).lookup("o").is_err(), "another object");
    assert_eq!(served(), [(90, 1), (200, 1)]);
    let refused: Result<SchedulerRef, _> = server.schedule_object(&poa, servant(), "lunch");
    assert_eq!(refused.map(|_| ()).unwrap_err(), NameError::UnknownName("lunch".into()));

    // The caller may not set what the schedule determines.
    let lifespan = PoaPolicies::new().id_uniqueness(IdUniqueness::Multiple);
    for policies in [
        lifespan.clone().priority_model(PriorityModel::ServerDeclared, 90),
        lifespan.clone().threadpool(pool),
        lifespan.clone().priority_bands([PriorityBand { low: 1, high: 300 }]),
    ] {
        let refused = server.create_poa(&root, "refused", None, policies).map(|_| ());
        assert_eq!(refused, Err(PoaError::InvalidPolicy(1)));
    }
    let twice = server.create_poa(&root, "scheduled", None, PoaPolicies::default()).map(|_| ());
    assert_eq!(twice, Err(PoaError::AdapterAlreadyExists));
    let empty = ServerScheduler::new(&orb, &ScheduleFile::parse("e.toml", "").unwrap());
    let refused = empty.create_poa(&root, "empty", None, PoaPolicies::default()).map(|_| ());
    let Err(PoaError::System(error)) = refused else { panic!("{refused:?}") };
    assert_eq!(error.kind, Kind::BadInvOrder);
    orb.shutdown(true).unwrap();
}

/// Twelve operations over the wire, each released twice by the one before: the answer names the
/// first with too many streams, and the service continues.
#[test]
fn a_graph_of_too_many_ways_is_an_anomaly_and_not_the_end() {
    let orb = Orb::init(["-ORBEndPoint".into(), "127.0.0.1:0".into()]).unwrap();
    let poa = orb.root_poa().unwrap();
    let servant = SchedulerService::new(ScheduleConfig::default(), 64);
    let reference: SchedulerRef = poa.activate(Arc::new(servant)).unwrap();
    poa.manager().activate().unwrap();
    let client = Orb::with_config(Config::default()).unwrap();
    let scheduler: SchedulerRef = client.resolve(&reference.object().to_string()).unwrap();
    let handles: Vec<i32> = (0..31).map(|at| scheduler.create(&format!("op{at}")).unwrap()).collect();
    for (at, handle) in handles.iter().enumerate() {
        set(&scheduler, *handle, 1, if at == 0 { 10_000_000 } else { 0 }).unwrap();
        for _ in 0..if at == 0 { 0 } else { 2 } {
            scheduler.add_dependency(*handle, handles[at - 1], 1, Dependency_Type_t::OneWayCall).unwrap();
        }
    }
    let (_, _, queues, anomalies) = scheduler.compute_scheduling(1, 99).unwrap();
    assert!(queues.is_empty());
    assert_eq!(anomalies[0].severity, Anomaly_Severity::AnomalyFatal);
    assert!(anomalies[0].description.starts_with("op14: 16384 streams release it"), "{anomalies:?}");
    assert_eq!(scheduler.lookup("op30").unwrap(), handles[30]);
}
