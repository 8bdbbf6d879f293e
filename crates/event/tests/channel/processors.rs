//! Consumers that are assigned to processors while the channel runs.

use crate::common::*;
use isorb_event::{
    Channel, ConnectError, ConsumerQos, Event, Filter, ProxyPushSupplier, Quality, ScheduledProcessors,
};
use isorb_rt::sched::{Cpus, current_cpus};
use isorb_sched::{Nanos, Plan, Policy};
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn plan() -> Plan {
    let ms = Nanos::from_ms;
    Plan::with_levels(Policy::RateMonotonic, &[ms(25), ms(100)], 1..=100).unwrap()
}

type Ran = Arc<Mutex<Vec<(&'static str, Cpus)>>>;

fn connect(
    channel: &Channel,
    ran: &Ran,
    name: &'static str,
    (cost, period): (u64, u64),
) -> Result<ProxyPushSupplier, ConnectError> {
    let quality = Quality {
        worst_case: Some(Duration::from_millis(cost)),
        period: Some(Duration::from_millis(period)),
        ..Quality::default()
    };
    let ran = ran.clone();
    let consumer = Arc::new(move |_: &[Event<'_>]| ran.lock().unwrap().push((name, current_cpus().unwrap())));
    channel.for_consumers().connect(consumer, ConsumerQos::new(name, Filter::of_type(20)).quality(quality))
}

#[test]
fn consumers_run_on_the_processor_that_admitted_them() {
    let allowed = current_cpus().unwrap();
    let cpus: Vec<usize> = (0..Cpus::MAX).filter(|cpu| allowed.contains(*cpu)).take(2).collect();
    let [one, other] = cpus[..] else { return };
    let scheduler = Arc::new(ScheduledProcessors::new(&plan(), 2));
    let channel = Channel::builder()
        .levels(scheduler.levels())
        .processors(vec![Cpus::one(one), Cpus::one(other)])
        .scheduler(scheduler.clone())
        .build()
        .unwrap();
    let ran = Ran::default();
    let radar = connect(&channel, &ran, "radar", (15, 25)).unwrap();
    let _map = connect(&channel, &ran, "map", (50, 100)).unwrap();
    // Half of the second one is free, and less of the first.
    let _log = connect(&channel, &ran, "log", (10, 100)).unwrap();
    let at = |name: &str| scheduler.response(name).map(|(at, _)| at);
    assert_eq!([at("radar"), at("map"), at("log")], [Some(0), Some(1), Some(1)]);
    let supplier = channel.for_suppliers().connect().unwrap();
    supplier.push(&event(20, 1, 0));
    wait_until("all have run", || ran.lock().unwrap().len() == 3);
    for (name, cpus) in ran.lock().unwrap().iter() {
        let expected = if *name == "radar" { one } else { other };
        assert!(cpus.len() == 1 && cpus.contains(expected), "{name}");
    }
    // Each processor says why not.
    let Err(ConnectError::NotAdmitted(why)) = connect(&channel, &ran, "video", (15, 25)) else { panic!() };
    let why = why.to_string();
    assert!(why.starts_with("video cannot be admitted on any of 2 processors: on processor 0, "), "{why}");
    assert!(why.contains("; on processor 1, "), "{why}");
    // A consumer that leaves makes room where it was.
    drop(radar);
    let _video = connect(&channel, &ran, "video", (15, 25)).unwrap();
    assert_eq!(at("video"), Some(0));
}

#[test]
fn a_channel_without_these_processors_refuses_their_consumers() {
    let scheduler = Arc::new(ScheduledProcessors::new(&plan(), 2));
    let config = Channel::builder().levels(scheduler.levels()).scheduler(scheduler.clone());
    let channel = config.own_threads(false).build().unwrap();
    let Err(ConnectError::NotAdmitted(why)) = connect(&channel, &Ran::default(), "radar", (5, 25)) else {
        panic!()
    };
    assert!(why.to_string().contains("ChannelBuilder::processors"), "{why}");
    // Nothing stays admitted.
    assert_eq!(scheduler.response("radar"), None);
    // A consumer without a promise needs none.
    let log = Log::default();
    let _c = log.connect(&channel, wants(Filter::of_type(20)));
    channel.for_suppliers().connect().unwrap().push(&event(20, 1, 7));
    assert_eq!(log.take_times(), [[7]]);
}
