//! An event channel that admits by a schedule: a scheduler in another process, or a schedule file.
//! The application is a third process.

mod common;
mod page;

use common::events::Consumer;
use common::{Service, run};
use isorb::{Config, Kind, Orb};
use isorb_event::servants::stamped::{rtec_event_channel_admin as admin, rtec_event_comm as comm};
use isorb_sched_service::rtec_scheduler::{
    Criticality_t, Dependency_Type_t, Importance_t, Info_Type_t, SchedulerRef,
};
use isorb_testkit::{TempFolder, retry, wait_until};
use page::state;
use std::sync::Arc;

const MS: u64 = 10_000;

fn event(type_: i32, creation_time: u64) -> comm::Event {
    let header = comm::EventHeader { type_, source: 0, ttl: 4, creation_time, ..Default::default() };
    comm::Event { header, data: Default::default() }
}

/// The application: an ORB of its own, the scheduler's client and the channel's.
struct Application {
    orb: Orb,
    channel: admin::EventChannelRef,
}

impl Application {
    fn new(channel: &Service) -> Application {
        let orb = Orb::with_config(Config::default()).unwrap();
        orb.root_poa().unwrap().manager().activate().unwrap();
        let channel = orb.resolve(&channel.url).unwrap();
        Application { orb, channel }
    }

    /// Connects a consumer as the operation of this handle; the channel's sentence where it is
    /// refused.
    fn connect(&self, handle: i32) -> Result<(admin::ProxyPushSupplierRef, Arc<Consumer>), String> {
        let consumer = Arc::new(Consumer::default());
        let reference: comm::PushConsumerRef =
            self.orb.root_poa().unwrap().activate(consumer.clone()).unwrap();
        let dependency = admin::Dependency { event: event(20, 0), rt_info: handle };
        let qos = admin::ConsumerQOS { dependencies: vec![dependency], is_gateway: false };
        let proxy = self.channel.for_consumers().unwrap().unwrap().obtain_push_supplier().unwrap().unwrap();
        match proxy.connect_push_consumer(&reference, &qos) {
            Ok(()) => Ok((proxy, consumer)),
            Err(admin::proxy_push_supplier::ConnectPushConsumerError::System(error)) => {
                assert_eq!(error.kind, Kind::NoResources, "{error}");
                Err(error.detail.expect("it says why").into_string())
            }
            Err(other) => panic!("{other:?}"),
        }
    }
}

fn operation(scheduler: &SchedulerRef, name: &str, cost: u64, period: u64) -> i32 {
    let handle = scheduler.create(name).unwrap();
    set(scheduler, handle, cost, period);
    handle
}

/// Times in milliseconds.
fn set(scheduler: &SchedulerRef, handle: i32, cost: u64, period: u64) {
    let (medium, important) = (Criticality_t::MediumCriticality, Importance_t::MediumImportance);
    let (cost, period) = (cost * MS, i32::try_from(period * MS).unwrap());
    scheduler.set(handle, medium, cost, cost, 0, period, important, 0, 0, Info_Type_t::Operation).unwrap();
}

fn after(scheduler: &SchedulerRef, handle: i32, before: i32) {
    scheduler.add_dependency(handle, before, 1, Dependency_Type_t::OneWayCall).unwrap();
}

/// Priority and deadline in milliseconds of each consumer, in the order of their numbers.
fn placed(page: &str) -> Vec<(i64, Option<u64>)> {
    let state = state(page);
    let mut consumers = state["consumers"].as_array().unwrap().clone();
    consumers.sort_by_key(|consumer| consumer["id"].as_u64());
    let deadline = |consumer: &serde_json::Value| consumer["deadline_ns"].as_u64().map(|ns| ns / 1_000_000);
    consumers.iter().map(|consumer| (consumer["priority"].as_i64().unwrap(), deadline(consumer))).collect()
}

fn channel(arguments: &[&str]) -> (Service, String) {
    Service::with_page(&[&["event-channel", "--real-time", "off", "--admin", "0"], arguments].concat())
}

#[test]
fn consumers_get_the_places_of_their_operations_or_are_refused_with_the_numbers() {
    let service = Service::start(&["scheduler"]);
    let client = Orb::with_config(Config::default()).unwrap();
    let scheduler: SchedulerRef = client.resolve(&service.url).unwrap();
    let imu = operation(&scheduler, "imu", 5, 20);
    let fuse = operation(&scheduler, "fuse", 3, 0);
    let map = operation(&scheduler, "map", 30, 100);
    after(&scheduler, fuse, imu);
    scheduler.compute_scheduling(1, 99).unwrap();

    let (served, page) = channel(&["--scheduler", &service.url]);
    let application = Application::new(&served);
    let connected: Vec<_> = [imu, fuse, map, 0].map(|handle| application.connect(handle).unwrap()).into();
    // The scheduler's priorities. A consumer that is no operation is promised nothing.
    let known = [imu, fuse, map].map(|handle| i64::from(scheduler.priority(handle).unwrap().0));
    assert_eq!(known, [99, 99, 98]);
    let places = placed(&page);
    assert_eq!(places.iter().map(|place| place.0).collect::<Vec<_>>(), [99, 99, 98, 0]);
    assert_eq!((places[0].1, places[2].1, places[3].1), (Some(20), Some(100), None));
    // The chain's deadline counts from the imu's clock: what that one and a round of the level may
    // take is gone.
    assert_eq!(places[1].1, Some(12));

    // They are served, whatever their place.
    let supplier =
        application.channel.for_suppliers().unwrap().unwrap().obtain_push_consumer().unwrap().unwrap();
    supplier.connect_push_supplier(None::<&comm::PushSupplierRef>, &admin::SupplierQOS::default()).unwrap();
    supplier.push(&vec![event(20, 7)]).unwrap();
    for (_, consumer) in &connected {
        wait_until("an event", || !consumer.0.lock().unwrap().is_empty());
    }

    let twice = application.connect(map).map(|_| ()).unwrap_err();
    assert_eq!(twice, "map cannot be admitted: another consumer is connected as this operation");
    assert_eq!(application.connect(99).map(|_| ()).unwrap_err(), "no operation is registered as 99");

    // One more than there is time for, and what it needs to fit.
    let video = operation(&scheduler, "video", 34, 120);
    let refused = application.connect(video).map(|_| ()).unwrap_err();
    assert!(refused.starts_with("video cannot be admitted: its response is "), "{refused}");
    assert!(refused.ends_with(", its deadline 120 ms"), "{refused}");
    set(&scheduler, video, 9, 120);
    application.connect(video).unwrap();
    // A place is free again when its consumer is gone.
    connected[2].0.disconnect_push_supplier().unwrap();
    application.connect(map).unwrap();

    let flood = operation(&scheduler, "flood", 50, 60);
    let refused = application.connect(flood).map(|_| ()).unwrap_err();
    assert!(refused.contains("the tasks ask for 160.8 % of the processor: flood 83.3 %, "), "{refused}");
}

/// Waits until the page, which changes twice a second, shows these levels and priorities for the
/// consumers with these handles.
fn await_levels(page: &str, wanted: &[(i32, (u64, i64))]) {
    retry(format!("{wanted:?}"), || {
        let state = state(page);
        let consumers = state["consumers"].as_array().unwrap();
        let placement = |handle: i32| {
            let row = consumers.iter().find(|consumer| consumer["name"] == *format!("remote {handle}"))?;
            Some((row["level"].as_u64()?, row["priority"].as_i64()?))
        };
        let is_so = wanted.iter().all(|(handle, wanted)| placement(*handle) == Some(*wanted));
        if is_so { Ok(()) } else { Err(state.to_string()) }
    });
}

/// Suppliers and consumers name their operations, and the scheduler learns what releases what. The
/// schedule file of the run then admits the same consumers.
#[test]
fn a_configuration_run_fills_the_schedule_with_what_releases_what() {
    let folder = TempFolder::new();
    let record = folder.text("recorded.toml");
    let service = Service::start(&["scheduler", "--record", &record]);
    let client = Orb::with_config(Config::default()).unwrap();
    let scheduler: SchedulerRef = client.resolve(&service.url).unwrap();
    let imu = operation(&scheduler, "imu", 5, 20);
    let fuse = operation(&scheduler, "fuse", 3, 0);
    let served =
        Service::start(&["event-channel", "--real-time", "off", "--scheduler", &service.url, "--record"]);
    let application = Application::new(&served);
    let _fuse = application.connect(fuse).unwrap();
    let supplier =
        application.channel.for_suppliers().unwrap().unwrap().obtain_push_consumer().unwrap().unwrap();
    let mut publication = admin::Publication { event: event(20, 0), dependency_info: Default::default() };
    publication.dependency_info.rt_info = imu;
    let qos = admin::SupplierQOS { publications: vec![publication], is_gateway: false };
    supplier.connect_push_supplier(None::<&comm::PushSupplierRef>, &qos).unwrap();
    let (_, dependencies, _, anomalies) = scheduler.compute_scheduling(1, 99).unwrap();
    let pairs: Vec<_> = dependencies.iter().map(|of| (of.rt_info, of.rt_info_depended_on)).collect();
    assert_eq!((pairs, anomalies), (vec![(fuse, imu)], vec![]));
    drop((served, service));

    let text = std::fs::read_to_string(&record).unwrap();
    assert!(text.contains("after = [\"imu\"]"), "{text}");
    let (served, page) = channel(&["--schedule", &record]);
    Application::new(&served).connect(fuse).unwrap();
    assert_eq!(placed(&page), [(99, Some(12))]);
}

/// The channel starts before the application. Operations that are registered later move connected
/// consumers, so that a more urgent one has the higher level whenever it connected. The channel
/// computes the schedule only with the priorities of its command line.
#[test]
fn later_registrations_move_connected_consumers() {
    let service = Service::start(&["scheduler"]);
    let client = Orb::with_config(Config::default()).unwrap();
    let scheduler: SchedulerRef = client.resolve(&service.url).unwrap();
    let (served, page) = channel(&["--scheduler", &service.url, "--priorities", "1..99"]);
    let application = Application::new(&served);
    let map = operation(&scheduler, "map", 10, 100);
    let _map = application.connect(map).unwrap();
    // The only one has the topmost level.
    await_levels(&page, &[(map, (15, 99))]);

    // By the application's own word ...
    let imu = operation(&scheduler, "imu", 2, 20);
    scheduler.compute_scheduling(1, 99).unwrap();
    let _imu = application.connect(imu).unwrap();
    await_levels(&page, &[(imu, (15, 99)), (map, (14, 98))]);
    // ... and by the channel's, with the same priorities.
    let radar = operation(&scheduler, "radar", 2, 50);
    let _radar = application.connect(radar).unwrap();
    await_levels(&page, &[(imu, (15, 99)), (radar, (14, 98)), (map, (13, 97))]);
    assert_eq!([imu, radar, map].map(|of| scheduler.priority(of).unwrap().0), [99, 98, 97]);

    // A consumer is refused if another one would be late.
    let flood = operation(&scheduler, "flood", 20, 27);
    let refused = application.connect(flood).map(|_| ()).unwrap_err();
    assert!(refused.starts_with("flood cannot be admitted: "), "{refused}");
    assert!(refused.contains("map, which is connected, would be late: its response is "), "{refused}");
    set(&scheduler, flood, 1, 200);
    let _flood = application.connect(flood).unwrap();
    await_levels(&page, &[(flood, (12, 96)), (map, (13, 97))]);

    // Other priorities than the channel has levels for.
    let late = operation(&scheduler, "late", 1, 300);
    scheduler.compute_scheduling(200, 300).unwrap();
    let refused = application.connect(late).map(|_| ()).unwrap_err();
    let message = "late cannot be admitted: the scheduler puts late at priority 296, where this channel has no level: it serves 85 to 99.";
    assert!(refused.starts_with(message), "{refused}");
}

#[test]
fn a_channel_with_too_few_levels_prints_a_warning() {
    let service = Service::start(&["scheduler"]);
    let client = Orb::with_config(Config::default()).unwrap();
    let scheduler: SchedulerRef = client.resolve(&service.url).unwrap();
    let (served, _page) = channel(&["--scheduler", &service.url, "--levels", "3"]);
    let application = Application::new(&served);
    let handles: Vec<i32> =
        (0..3).map(|at| operation(&scheduler, &format!("o{at}"), 1, 50 + at * 10)).collect();
    let refused = application.connect(handles[0]).map(|_| ()).unwrap_err();
    let message = "the operations need more levels of urgency than the 2 priorities from 32766 to 32767";
    assert_eq!(refused, message);

    let folder = TempFolder::new();
    let file = folder.text("s.toml");
    let operation =
        |at: u32| format!("[[operation]]\nname = 'o{at}'\ncost = '1 us'\nperiod = '{} ms'\n", 100 + at);
    let text = |count: u32| (0..count).map(operation).collect::<String>();
    std::fs::write(&file, text(64)).unwrap();
    let (code, _, error) = run(&["event-channel", "--real-time", "off", "--schedule", &file]);
    assert_eq!(code, Some(1));
    let message = "s.toml: the schedule has 64 levels of urgency, and a channel serves 63 and those without a promise: give fewer";
    assert!(error.contains(message), "{error}");
    std::fs::write(&file, text(63)).unwrap();
    let _served = channel(&["--schedule", &file]);
}

#[test]
fn a_chain_is_admitted_with_intermediate_deadlines() {
    for policy in ["edf", "mlf", "muf"] {
        let service = Service::start(&["scheduler", "--policy", policy]);
        let client = Orb::with_config(Config::default()).unwrap();
        let scheduler: SchedulerRef = client.resolve(&service.url).unwrap();
        let (served, page) = channel(&["--scheduler", &service.url]);
        let application = Application::new(&served);
        let sensor = operation(&scheduler, "sensor", 5, 100);
        let fuse = operation(&scheduler, "fuse", 10, 0);
        let show = operation(&scheduler, "show", 10, 0);
        after(&scheduler, fuse, sensor);
        after(&scheduler, show, fuse);
        for handle in [sensor, fuse, show] {
            application.connect(handle).unwrap();
        }
        // A fifth, two and two of the hundred from the sensor's clock on, each counted from its own
        // events.
        let deadlines: Vec<Option<u64>> = placed(&page).into_iter().map(|place| place.1).collect();
        assert_eq!(deadlines, [Some(20), Some(40), Some(40)], "{policy}");

        // Each step alone would be in time; one after the other they are not.
        set(&scheduler, fuse, 50, 0);
        let late = operation(&scheduler, "late", 46, 0);
        after(&scheduler, late, fuse);
        let refused = application.connect(late).map(|_| ()).unwrap_err();
        assert!(refused.contains("the tasks ask for 111.0 % of the processor: fuse 50.0 %"), "{refused}");
        set(&scheduler, late, 34, 0);
        let refused = application.connect(late).map(|_| ()).unwrap_err();
        assert!(refused.starts_with("late cannot be admitted: its response is "), "{policy}: {refused}");
        assert!(refused.ends_with(", its deadline 100 ms"), "{policy}: {refused}");
    }
}

#[test]
fn a_schedule_file_admits_without_a_scheduler() {
    let folder = TempFolder::new();
    let file = folder.text("s.toml");
    let text = "priorities = [10, 20]\n[[operation]]\nname = 'imu'\ncost = '2 ms'\nperiod = '10 ms'\n\
        [[operation]]\nname = 'late'\ncost = '5 ms'\nperiod = '40 ms'\ndeadline = '6 ms'\n";
    std::fs::write(&file, text).unwrap();
    let (served, page) = channel(&["--schedule", &file]);
    let application = Application::new(&served);
    application.connect(1).unwrap();
    assert_eq!(placed(&page), [(20, Some(10))]);
    let refused = application.connect(2).map(|_| ()).unwrap_err();
    assert_eq!(refused, "late cannot be admitted: its response is >= 7 ms, its deadline 6 ms");

    std::fs::write(&file, text.replace("'2 ms'", "'9 ms'")).unwrap();
    let (code, _, error) = run(&["event-channel", "--schedule", &file]);
    assert_eq!(code, Some(1));
    let message = "s.toml:1: the tasks ask for 102.5 % of the processor: imu 90.0 %, late 12.5 %";
    assert!(error.contains(message), "{error}");
    std::fs::write(&file, text.replace("'10 ms'", "'0'")).unwrap();
    let (code, _, error) = run(&["event-channel", "--schedule", &file]);
    assert!(code == Some(1) && error.contains("s.toml:3: imu: its period is zero"), "{error}");
    let (code, _, error) = run(&["event-channel", "--scheduler", "corbaloc::127.0.0.1:1/ScheduleService"]);
    assert!(code == Some(1) && error.contains("corbaloc::127.0.0.1:1/ScheduleService"), "{error}");
}

/// A push to another process takes more than a microsecond of the processor, so that a consumer
/// that declares one overruns.
#[test]
fn overruns_are_contained_as_configured() {
    let folder = TempFolder::new();
    let file = folder.text("s.toml");
    let text = "[[operation]]\nname = \"hasty\"\ncost = \"1 us\"\nperiod = \"100 ms\"\n";
    std::fs::write(&file, text).unwrap();
    for (choice, stays) in [("count", true), ("disconnect", false)] {
        let (served, page) = channel(&["--schedule", &file, "--overrun", choice]);
        let application = Application::new(&served);
        let _connected = application.connect(1).unwrap();
        let supplier =
            application.channel.for_suppliers().unwrap().unwrap().obtain_push_consumer().unwrap().unwrap();
        supplier
            .connect_push_supplier(None::<&comm::PushSupplierRef>, &admin::SupplierQOS::default())
            .unwrap();
        supplier.push(&vec![event(20, 7)]).unwrap();
        retry(choice, || {
            let state = state(&page);
            let consumers = state["consumers"].as_array().unwrap();
            let overruns = consumers.first().and_then(|consumer| consumer["overruns"].as_u64());
            let is_so = if stays { overruns == Some(1) } else { consumers.is_empty() };
            if is_so { Ok(()) } else { Err(state.to_string()) }
        });
    }
}

/// The verdict is for how consumers are really served: what contradicts it is refused at the start
/// and later, and what weakens it is said.
#[test]
fn consumers_are_served_as_they_were_admitted() {
    let folder = TempFolder::new();
    let file = folder.text("s.toml");
    std::fs::write(&file, "[[operation]]\nname = 'imu'\ncost = '2 ms'\nperiod = '10 ms'\n").unwrap();
    let (code, _, error) = run(&["event-channel", "--schedule", &file, "--push-threads", "0"]);
    assert!(
        code == Some(1) && error.contains("it needs --dispatching threads, single or upcalls"),
        "{error}"
    );
    // It ends since it cannot say where it is.
    let ends = ["event-channel", "--schedule", &file, "--ior-file", "/proc/ior", "--real-time", "off"];
    let (code, _, error) = run(&ends);
    assert!(
        code == Some(1) && error.contains("as if threads were real-time ones, and these are not"),
        "{error}"
    );
    let (_, _, error) = run(&[&ends[..1], &ends[3..]].concat());
    assert!(!error.contains("as if threads"), "without a schedule there is no admission: {error}");

    let own = ["--schedule", &file, "--push-threads", "0", "--dispatching", "threads"];
    let (served, _) = channel(&own);
    let control = |arguments: &[&str]| run(&[&["event-control", &served.url], arguments].concat());
    for (modules, dispatching, allowed) in [
        ("full", "single", false),
        ("full", "upcalls", false),
        ("full", "none", false),
        ("filtering", "threads", false),
        ("broadcaster", "none", false),
        ("full", "threads", true),
    ] {
        let (code, _, error) = control(&["--configuration", modules, "--dispatching", dispatching]);
        assert_eq!(code == Some(0), allowed, "{modules}, {dispatching}: {error}");
        assert_eq!(error.contains("its schedule admitted consumers for"), !allowed, "{error}");
    }
    // Where remote consumers have threads of their own, the channel's dispatching is no matter of
    // theirs.
    let (served, _) = channel(&["--schedule", &file]);
    let (code, _, error) = run(&["event-control", &served.url, "--configuration", "filtering"]);
    assert_eq!(code, Some(0), "{error}");
}
