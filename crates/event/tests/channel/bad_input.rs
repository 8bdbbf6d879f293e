//! What is wrong with a consumer is said, with its name and the numbers, before anything of it is there.

use crate::common::*;
use isorb_event::{
    Channel, Config, ConnectError, ConsumerQos, Event, Filter, Limits, Priority, Quality, Scheduled,
    StartError,
};
use isorb_sched::graph::{Call, Dependency, Graph, Operation};
use isorb_sched::{Nanos, Plan, Policy, RuntimeScheduler};
use std::sync::Arc;
use std::time::Duration;

fn scheduled(policy: Policy) -> Arc<Scheduled> {
    let plan = Plan::with_levels(policy, &[10, 100].map(Nanos::from_ms), 1..=100).unwrap();
    Arc::new(Scheduled::new(RuntimeScheduler::new(plan)))
}

fn channel(scheduler: &Arc<Scheduled>) -> Channel {
    let (levels, scheduler) = (scheduler.levels(), scheduler.clone());
    Channel::new(Config { levels, scheduler, own_threads: false, ..Config::default() }).unwrap()
}

/// Times in milliseconds.
fn declares(cost: u64, period: u64, deadline: Option<u64>) -> Quality {
    let ms = Duration::from_millis;
    Quality {
        worst_case: Some(ms(cost)),
        period: Some(ms(period)),
        deadline: deadline.map(ms),
        ..Quality::default()
    }
}

#[test]
fn consumers_that_cannot_be_in_time_are_refused_with_the_numbers() {
    let cases = [
        (declares(1, 0, None), "radar cannot be admitted: its period is zero"),
        (declares(0, 10, None), "radar cannot be admitted: its worst-case cost is zero"),
        (
            declares(3, 10, Some(2)),
            "radar cannot be admitted: its deadline of 2 ms is shorter than its cost of 3 ms",
        ),
        (
            declares(11, 10, None),
            "radar cannot be admitted: its deadline of 10 ms is shorter than its cost of 11 ms",
        ),
        (
            declares(6, 10, None),
            "radar cannot be admitted: it asks for 60.0 % of the resource, of which 50.0 % is given away",
        ),
    ];
    for policy in
        [Policy::RateMonotonic, Policy::EarliestDeadline, Policy::MinimumLaxity, Policy::MaximumUrgency]
    {
        let scheduler = scheduled(policy);
        let channel = channel(&scheduler);
        let connect = |name: &str, quality: &Quality| {
            let qos = ConsumerQos::of(name, Filter::of(20, 0)).quality(quality.clone());
            channel.for_consumers().connect(Arc::new(|_: &[Event<'_>]| ()), qos)
        };
        let _first = connect("imu", &declares(5, 10, None)).unwrap();
        for (quality, said) in &cases {
            let Err(ConnectError::NotAdmitted(why)) = connect("radar", quality) else {
                panic!("{policy:?}: admitted, where it should say {said}")
            };
            assert!(why.to_string().starts_with(said), "{policy:?}: {why}, not {said}");
            let names: Vec<String> = channel.consumers().into_iter().map(|consumer| consumer.name).collect();
            assert_eq!(names, ["imu"], "nothing of it is there");
        }
        let supplier = channel.for_suppliers().connect().unwrap();
        assert_eq!(supplier.push(&event(20, 0, 0)).taken, 1);
        // What was refused has taken nothing away.
        let _second = connect("radar", &declares(2, 10, None)).unwrap();
    }
}

#[test]
fn graphs_that_are_none_are_refused_by_the_name_of_the_operation() {
    let operation = |name: &str, cost: u64, period: u64, on: &[usize]| Operation {
        worst: Nanos::from_ms(cost),
        period: Nanos::from_ms(period),
        dependencies: on.iter().map(|on| Dependency { on: *on, call: Call::OneWay, times: 1 }).collect(),
        ..Operation::new(name)
    };
    let late = Operation { deadline: Some(Nanos::from_ms(8)), ..operation("show", 5, 0, &[0]) };
    let cases = [
        (vec![operation("imu", 2, 100, &[]), operation("show", 2, 0, &[7])], "show"),
        (
            vec![operation("imu", 2, 0, &[1]), operation("show", 2, 0, &[0])],
            "imu: it depends on itself: imu -> show -> imu",
        ),
        (vec![operation("imu", 2, 0, &[])], "imu: its period is zero, and no operation releases or calls it"),
        (
            vec![operation("imu", 0, 100, &[]), operation("show", 2, 0, &[0])],
            "imu cannot be admitted: its worst-case cost is zero",
        ),
        (
            vec![operation("imu", 90, 100, &[]), operation("show", 20, 0, &[0])],
            "show cannot be admitted: its deadline of 100 ms is shorter than its cost of 20 ms after a jitter of 90 ms",
        ),
        (
            vec![operation("imu", 5, 100, &[]), late],
            "show cannot be admitted: its deadline of 8 ms is shorter than its cost of 5 ms after a jitter of 5 ms",
        ),
    ];
    for (operations, said) in cases {
        let scheduler = scheduled(Policy::RateMonotonic);
        let mut graph = Graph::new();
        let added: Result<Vec<usize>, _> =
            operations.into_iter().map(|operation| graph.add(operation)).collect();
        let refused = match added {
            Err(error) => error.to_string(),
            Ok(_) => scheduler.admit_graph(&graph).unwrap_err().to_string(),
        };
        assert!(refused.contains(said), "{refused}, not {said}");
        // Nothing is promised: all of the processor can be had by another one.
        channel(&scheduler)
            .for_consumers()
            .connect(
                Arc::new(|_: &[Event<'_>]| ()),
                ConsumerQos::of("all", Filter::of(20, 0)).quality(declares(10, 10, None)),
            )
            .unwrap();
    }
}

#[test]
fn more_memory_than_there_is_is_refused() {
    for limits in [
        Limits { events: usize::MAX, ..Limits::default() },
        Limits { payload: usize::MAX, ..Limits::default() },
        Limits { events: 1 << 40, payload: 1 << 40, ..Limits::default() },
    ] {
        let refused = Channel::new(Config { limits, own_threads: false, ..Config::default() }).unwrap_err();
        assert_eq!(refused, StartError::Memory);
        assert!(refused.to_string().contains("more memory than there is"), "{refused}");
    }
    let (channel, _) = still(Config::default());
    let quality = Quality { queue: usize::MAX, ..Quality::default() };
    let qos = wants(Filter::of(20, 0)).quality(quality);
    let refused = channel.for_consumers().connect(Log::default().consumer(), qos).unwrap_err();
    assert_eq!((refused, channel.consumers().len()), (ConnectError::Memory, 0));
}

#[test]
fn levels_that_are_none_are_refused() {
    let priority = |of| Priority::new(of).unwrap();
    for levels in
        [vec![], vec![priority(2), priority(1)], vec![priority(1); 2], (0..65).map(priority).collect()]
    {
        let count = levels.len();
        let refused = Channel::new(Config { levels, ..Config::default() }).unwrap_err();
        assert_eq!(refused, StartError::Levels { count });
        let said =
            format!("a channel has 1 to 64 levels of priority, in ascending order, and {count} were given; ");
        assert!(refused.to_string().starts_with(&said), "{refused}");
    }
}
