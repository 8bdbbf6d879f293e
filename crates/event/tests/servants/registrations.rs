//! Remote consumers with an operation for each of their registrations.

use crate::{client, server};
use isorb::{Kind, Orb, Reference, Upcall};
use isorb_event::servants::stamped::{rtec_event_channel_admin as admin, rtec_event_comm as comm};
use isorb_event::servants::{
    DependencyRecorder, EventServiceOptions, RegisteredOperations, RtecEventService, Unscheduled,
};
use isorb_event::{Channel, ConsumerQos, ConsumerStatus, Event, Filter, Quality, Strategy};
use isorb_rt::sched::{Cpus, current_cpus};
use isorb_sched_service::SchedulerService;
use isorb_sched_service::rtec_scheduler::{Criticality_t, Importance_t, Info_Type_t, SchedulerRef};
use isorb_testkit::wait_until;
use std::sync::{Arc, Mutex};

const SCHEDULE: &str = "priorities = [10, 20]\n\
    [[operation]]\nname = 'alarm'\ncost = '1 ms'\nperiod = '10 ms'\n\
    [[operation]]\nname = 'bulk'\ncost = '20 ms'\nperiod = '100 ms'\n\
    [[operation]]\nname = 'video'\ncost = '34 ms'\nperiod = '120 ms'\ndeadline = '35 ms'\n";

/// Types of the events that it gets, and how often it was told that it is disconnected.
#[derive(Default)]
struct Consumer(Mutex<Vec<i32>>, Mutex<u32>);

impl comm::PushConsumer for Consumer {
    fn push(&self, _: Upcall<'_>, data: comm::EventSetView<'_>) -> isorb::Result<()> {
        self.0.lock().unwrap().extend(data.iter().map(|event| event.header.type_));
        Ok(())
    }
    fn disconnect_push_consumer(&self, _: Upcall<'_>) -> isorb::Result<()> {
        *self.1.lock().unwrap() += 1;
        Ok(())
    }
}

fn event(type_: i32) -> comm::Event {
    comm::Event { header: comm::EventHeader { type_, ..Default::default() }, data: Default::default() }
}

/// Type or designator, and handle, of each entry.
fn qos(entries: &[(i32, i32)]) -> admin::ConsumerQOS {
    let entry = |&(type_, rt_info)| admin::Dependency { event: event(type_), rt_info };
    admin::ConsumerQOS { dependencies: entries.iter().map(entry).collect(), is_gateway: false }
}

struct World {
    _orb: Orb,
    channel: Channel,
    _service: RtecEventService,
    here: Orb,
    far: admin::EventChannelRef,
}

fn world(channel: isorb_event::ChannelBuilder, options: EventServiceOptions) -> World {
    let (orb, channel) = server(channel);
    let service = RtecEventService::start(&orb, &channel, options).unwrap();
    let here = client();
    let far = here.resolve(&service.object().to_string()).unwrap();
    World { _orb: orb, channel, _service: service, here, far }
}

fn scheduled() -> World {
    let file = isorb_sched::file::ScheduleFile::parse("s.toml", SCHEDULE).unwrap();
    let operations = RegisteredOperations::of_file(&file, isorb_sched::Preemption::Full).unwrap();
    let levels = operations.levels(2).unwrap();
    let strategy = Strategy::Threads { per_level: 1 };
    let channel = Channel::builder().scheduler(Arc::new(operations)).levels(levels).strategy(strategy);
    world(channel, EventServiceOptions { ping: None, ..EventServiceOptions::default() })
}

impl World {
    fn consume(
        &self,
        entries: &[(i32, i32)],
    ) -> Result<
        (admin::ProxyPushSupplierRef, Arc<Consumer>),
        admin::proxy_push_supplier::ConnectPushConsumerError,
    > {
        let consumer = Arc::new(Consumer::default());
        let reference: comm::PushConsumerRef =
            self.here.root_poa().unwrap().activate(consumer.clone()).unwrap();
        let proxy = self.far.for_consumers().unwrap().unwrap().obtain_push_supplier().unwrap().unwrap();
        proxy.connect_push_consumer(&reference, &qos(entries))?;
        Ok((proxy, consumer))
    }

    /// Name and priority of each consumer, by name.
    fn placed(&self) -> Vec<(String, i16)> {
        let of = |status: ConsumerStatus| (status.name, status.priority.get());
        let mut placed: Vec<_> = self.channel.consumers().into_iter().map(of).collect();
        placed.sort();
        placed
    }
}

#[test]
fn each_operation_of_a_list_has_its_priority() {
    let world = scheduled();
    let supplier = world.channel.for_suppliers().connect().unwrap();
    // As TAO's programs have it: a disjunction of types, each with its operation.
    let (proxy, consumer) = world.consume(&[(9, 0), (20, 2), (30, 1)]).unwrap();
    let placed = world.placed();
    assert_eq!(placed.iter().map(|(name, _)| &**name).collect::<Vec<_>>(), ["remote 1", "remote 2"]);
    assert!(placed[0].1 > placed[1].1, "{placed:?}");
    for event_type in [20, 30] {
        supplier.push(&Event::new(event_type, 1));
    }
    wait_until("both arrive", || consumer.0.lock().unwrap().len() == 2);
    let counts: Vec<u64> = world.channel.consumers().iter().map(|status| status.counts.pushed).collect();
    assert_eq!(counts, [1, 1]);
    proxy.suspend_connection().unwrap();
    assert!(world.channel.consumers().iter().all(|status| status.suspended));
    proxy.resume_connection().unwrap();
    assert!(world.channel.consumers().iter().all(|status| !status.suspended));
    // A second consumer of one of its operations.
    assert!(world.consume(&[(40, 2)]).is_err());
    proxy.disconnect_push_supplier().unwrap();
    assert!(world.channel.consumers().is_empty());
    world.consume(&[(40, 2)]).unwrap();
}

#[test]
fn every_operation_of_a_list_is_admitted_or_the_consumer_is_refused() {
    let world = scheduled();
    let Err(admin::proxy_push_supplier::ConnectPushConsumerError::System(error)) =
        world.consume(&[(9, 0), (30, 1), (31, 3)])
    else {
        panic!("video is late")
    };
    assert_eq!(error.kind, Kind::NoResources);
    let why = error.detail.unwrap();
    assert!(why.starts_with("video cannot be admitted: its response is ") && why.ends_with("35 ms"), "{why}");
    assert!(world.channel.consumers().is_empty());
    // The operation that could be admitted is free.
    world.consume(&[(9, 0), (30, 1), (20, 2)]).unwrap();
}

/// Radar and map do not fit on one processor.
const WIDE: &str = "[[operation]]\nname = 'radar'\ncost = '60 ms'\nperiod = '100 ms'\n\
    [[operation]]\nname = 'map'\ncost = '50 ms'\nperiod = '100 ms'\n\
    [[operation]]\nname = 'log'\ncost = '20 ms'\nperiod = '100 ms'\n";

#[test]
fn operations_run_on_their_processors_and_one_queue_is_not_on_two() {
    let allowed: Vec<usize> = current_cpus().unwrap().iter().take(2).collect();
    let [one, other] = allowed[..] else {
        println!("skipped: one processor is usable, and the test takes two");
        return;
    };
    let file = isorb_sched::file::ScheduleFile::parse("s.toml", WIDE).unwrap();
    let operations = RegisteredOperations::of_file_on(&file, &[one, other]).unwrap();
    assert!(operations.unplaced().is_empty());
    let levels = operations.levels(2).unwrap();
    let channel = Channel::builder().scheduler(Arc::new(operations)).levels(levels);
    let channel = channel.processors(vec![Cpus::one(one), Cpus::one(other)]);
    let world = world(channel, EventServiceOptions { ping: None, ..EventServiceOptions::default() });
    let ran = Arc::new(Mutex::new(Vec::new()));
    let here = |rt_info| {
        let ran = ran.clone();
        let consumer = move |_: &[Event<'_>]| ran.lock().unwrap().push((rt_info, current_cpus().unwrap()));
        let quality = Quality { rt_info, ..Quality::default() };
        let qos = ConsumerQos::new("here", Filter::of_type(20)).quality(quality);
        world.channel.for_consumers().connect(Arc::new(consumer), qos).unwrap()
    };
    let (radar, _map) = (here(1), here(2));
    world.channel.for_suppliers().connect().unwrap().push(&Event::new(20, 1));
    wait_until("both have run", || ran.lock().unwrap().len() == 2);
    let mut ran = ran.lock().unwrap().clone();
    ran.sort_by_key(|(rt_info, _)| *rt_info);
    assert_eq!(ran, [(1, Cpus::one(one)), (2, Cpus::one(other))]);
    drop(radar);
    // Remote ones, which have threads of their own otherwise.
    let (proxy, consumer) = world.consume(&[(9, 0), (30, 1), (31, 3)]).unwrap();
    let on: Vec<_> = world.channel.consumers().iter().map(|status| status.processor).collect();
    assert_eq!(on, [other, one, other].map(|cpu| Some(Cpus::one(cpu))));
    for event_type in [30, 31] {
        world.channel.for_suppliers().connect().unwrap().push(&Event::new(event_type, 1));
    }
    wait_until("both arrive", || consumer.0.lock().unwrap().len() == 2);
    proxy.disconnect_push_supplier().unwrap();
    let Err(admin::proxy_push_supplier::ConnectPushConsumerError::System(error)) =
        world.consume(&[(8, 0), (30, 1), (31, 3)])
    else {
        panic!("a conjunction of operations on two processors")
    };
    let why = error.detail.unwrap();
    let begin =
        format!("a conjunction of operations on the processors {one} and {other} cannot run on both: ");
    assert!(why.starts_with(&begin), "{why}");
    // Both are free again.
    world.consume(&[(30, 1)]).unwrap();
}

#[test]
fn a_consumer_with_several_registrations_is_told_once_that_it_is_disconnected() {
    let world = scheduled();
    let (proxy, consumer) = world.consume(&[(9, 0), (20, 2), (30, 1)]).unwrap();
    assert_eq!(world.channel.consumers().len(), 2);
    world.channel.destroy();
    wait_until("it is told", || *consumer.1.lock().unwrap() > 0);
    // Another one would have come before the answer to this.
    let _ = proxy.object().non_existent();
    assert_eq!(*consumer.1.lock().unwrap(), 1);
}

/// Without a schedule no operation is more urgent than another, and the order of all is kept.
#[test]
fn a_channel_without_operations_does_not_divide_a_list() {
    let world = world(Channel::builder(), EventServiceOptions::default());
    let (_proxy, consumer) = world.consume(&[(9, 0), (20, 2), (30, 1)]).unwrap();
    assert_eq!(world.channel.consumers().len(), 1);
    let supplier = world.channel.for_suppliers().connect().unwrap();
    for n in 0..40 {
        supplier.push(&Event::new(20 + n % 2 * 10, 1));
    }
    wait_until("all arrive", || consumer.0.lock().unwrap().len() == 40);
    let all: Vec<i32> = (0..40).map(|n| 20 + n % 2 * 10).collect();
    assert_eq!(*consumer.0.lock().unwrap(), all);
}

#[test]
fn a_configuration_run_records_what_releases_what() {
    let service = Arc::new(SchedulerService::new(isorb_sched::schedule::Config::default(), 32));
    let scheduling = client();
    let scheduler: SchedulerRef = scheduling.root_poa().unwrap().activate(service.clone()).unwrap();
    let operation = |name: &str, period| {
        let handle = scheduler.create(name).unwrap();
        let (medium, important) = (Criticality_t::MediumCriticality, Importance_t::MediumImportance);
        let kind = Info_Type_t::Operation;
        scheduler.set(handle, medium, 10_000, 10_000, 0, period, important, 0, 0, kind).unwrap();
        handle
    };
    let (imu, gps) = (operation("imu", 200_000), operation("gps", 1_000_000));
    let (fuse, show) = (operation("fuse", 0), operation("show", 0));
    let recorder = Arc::new(DependencyRecorder::new(scheduler.clone()));
    let options = EventServiceOptions { dependencies: Some(recorder), ..EventServiceOptions::default() };
    let world = world(Channel::builder().scheduler(Arc::new(Unscheduled)), options);
    let publish = |rt_info, event_type, calls| {
        let dependency_info = admin_info(calls, rt_info);
        let publications = vec![admin::Publication { event: event(event_type), dependency_info }];
        let supplier = world.far.for_suppliers().unwrap().unwrap().obtain_push_consumer().unwrap().unwrap();
        let qos = admin::SupplierQOS { publications, is_gateway: false };
        supplier.connect_push_supplier(None::<&comm::PushSupplierRef>, &qos).unwrap();
    };
    publish(imu, 20, 0);
    let _fuse = world.consume(&[(8, 0), (20, fuse), (21, fuse)]).unwrap();
    let _show = world.consume(&[(22, show)]).unwrap();
    // What consumes under no handle depends on none.
    let _other = world.consume(&[(20, 0)]).unwrap();
    publish(gps, 21, 3);
    publish(fuse, 22, 1);
    publish(fuse, 22, 1);
    let all = scheduler.get_dependency_set().unwrap();
    let mut all: Vec<_> =
        all.iter().map(|of| (of.rt_info, of.rt_info_depended_on, of.number_of_calls)).collect();
    all.sort_unstable();
    assert_eq!(all, [(fuse, imu, 1), (fuse, gps, 3), (show, fuse, 1)]);
    let anomalies = scheduler.recompute_scheduling(1, 99).unwrap();
    assert!(anomalies.is_empty(), "{anomalies:?}");
    assert!(scheduler.priority(show).is_ok());
}

fn admin_info(
    number_of_calls: i32,
    rt_info: i32,
) -> isorb_event::servants::stamped::rtec_base::Dependency_Info {
    isorb_event::servants::stamped::rtec_base::Dependency_Info {
        number_of_calls,
        rt_info,
        ..Default::default()
    }
}
