//! Errors of consumers, graphs and configurations are reported with names and numbers before
//! anything is started.

use crate::common::*;
use isorb_event::dispatch::{Direct, Dispatch, Queued, ReadyConsumer};
use isorb_event::{
    Channel, Configuration, ConnectError, ConsumerQos, Event, Filter, Fixed, Limits, Observer,
    OtherPreemption, Priority, Quality, Scheduled, StartError, Strategy, SwapError, ThreadSetup,
};
use isorb_sched::graph::{Call, Dependency, Graph, Operation};
use isorb_sched::{Nanos, Plan, Policy, Preemption, RuntimeScheduler};
use std::sync::Arc;
use std::time::Duration;

fn scheduled(policy: Policy) -> Arc<Scheduled> {
    scheduled_for(policy, Preemption::Full)
}

fn scheduled_for(policy: Policy, preemption: Preemption) -> Arc<Scheduled> {
    let plan = Plan::with_levels(policy, &[10, 100].map(Nanos::from_ms), 1..=100).unwrap();
    Arc::new(Scheduled::new(RuntimeScheduler::new(plan.preemption(preemption))))
}

fn channel(scheduler: &Arc<Scheduled>) -> Channel {
    let (levels, scheduler) = (scheduler.levels(), scheduler.clone());
    let threads = Channel::builder().strategy(Strategy::Threads { per_level: 1 });
    threads.levels(levels).scheduler(scheduler).own_threads(false).build().unwrap()
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
fn consumers_that_would_miss_deadlines_are_refused_with_the_numbers() {
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
            let qos = ConsumerQos::new(name, Filter::of(20, 0)).quality(quality.clone());
            channel.for_consumers().connect(Arc::new(|_: &[Event<'_>]| ()), qos)
        };
        let _first = connect("imu", &declares(5, 10, None)).unwrap();
        for (quality, wanted) in &cases {
            let Err(ConnectError::NotAdmitted(why)) = connect("radar", quality) else {
                panic!("{policy:?}: admitted, where it should say {wanted}")
            };
            assert!(why.to_string().starts_with(wanted), "{policy:?}: {why}, not {wanted}");
            let names: Vec<String> = channel.consumers().into_iter().map(|consumer| consumer.name).collect();
            assert_eq!(names, ["imu"], "nothing of it is there");
        }
        let supplier = channel.for_suppliers().connect().unwrap();
        assert_eq!(supplier.push(&event(20, 0, 0)).taken, 1, "by imu only");
        // A refusal uses no capacity.
        let _second = connect("radar", &declares(2, 10, None)).unwrap();
    }
}

#[test]
fn malformed_graphs_are_refused_with_the_name_of_the_operation() {
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
    for (operations, wanted) in cases {
        let scheduler = scheduled(Policy::RateMonotonic);
        let mut graph = Graph::new();
        let added: Result<Vec<usize>, _> =
            operations.into_iter().map(|operation| graph.add(operation)).collect();
        let refused = match added {
            Err(error) => error.to_string(),
            Ok(_) => scheduler.admit_graph(&graph).unwrap_err().to_string(),
        };
        assert!(refused.contains(wanted), "{refused}, not {wanted}");
        // Nothing is promised: the whole processor is still available.
        channel(&scheduler)
            .for_consumers()
            .connect(
                Arc::new(|_: &[Event<'_>]| ()),
                ConsumerQos::new("all", Filter::of(20, 0)).quality(declares(10, 10, None)),
            )
            .unwrap();
    }
}

#[test]
fn configurations_beyond_memory_are_refused() {
    for limits in [
        Limits { events: usize::MAX, ..Limits::default() },
        Limits { payload: usize::MAX, ..Limits::default() },
        Limits { events: 1 << 40, payload: 1 << 40, ..Limits::default() },
    ] {
        let refused = Channel::builder().limits(limits).own_threads(false).build().unwrap_err();
        assert_eq!(refused, StartError::Memory);
        assert!(refused.to_string().contains("more memory than there is"), "{refused}");
    }
    let (channel, _) = still(Channel::builder());
    let quality = Quality { queue: usize::MAX, ..Quality::default() };
    let qos = wants(Filter::of(20, 0)).quality(quality);
    let refused = channel.for_consumers().connect(Log::default().consumer(), qos).unwrap_err();
    assert_eq!((refused, channel.consumers().len()), (ConnectError::Memory, 0));
}

#[test]
fn malformed_levels_are_refused() {
    let priority = |of| Priority::new(of).unwrap();
    for levels in
        [vec![], vec![priority(2), priority(1)], vec![priority(1); 2], (0..65).map(priority).collect()]
    {
        let count = levels.len();
        let refused = Channel::builder().levels(levels).build().unwrap_err();
        assert_eq!(refused, StartError::Levels { count });
        let wanted =
            format!("a channel has 1 to 64 levels of priority, in ascending order, and {count} were given; ");
        assert!(refused.to_string().starts_with(&wanted), "{refused}");
    }
}

struct Idle;

impl Observer for Idle {
    fn update_consumers(&self, _: u64, _: &[Filter]) {}
}

#[test]
fn observers_beyond_the_limit_are_refused() {
    let limits = Limits { observers: 2, ..Limits::default() };
    let (channel, _) = still(Channel::builder().limits(limits));
    let append = || channel.append_observer(Arc::new(Idle));
    let (first, _second) = (append().unwrap(), append().unwrap());
    for _ in 0..3 {
        let refused = append().unwrap_err();
        assert_eq!(refused, ConnectError::TooManyObservers);
        assert!(refused.to_string().contains("Limits::observers"), "{refused}");
    }
    assert!(channel.remove_observer(first) && !channel.remove_observer(first));
    let third = append().unwrap();
    assert!(third != first && append().is_err(), "there was room for one");
    channel.destroy();
    assert_eq!(append(), Err(ConnectError::Destroyed));
}

/// A dispatcher without a known order.
struct Anyhow;

impl Dispatch for Anyhow {
    fn ready(&self, _: ReadyConsumer) -> Result<(), ReadyConsumer> {
        Ok(())
    }

    fn reserve(&self, _: usize) {}

    fn close(&self) {}
}

/// Promises that assume one kind of pre-emption are not valid under another.
#[test]
fn a_dispatching_that_the_scheduler_does_not_assume_is_refused() {
    let strategies = [
        (Strategy::Direct, None, "runs them on the supplier's thread"),
        (Strategy::SingleThreaded, Some(Preemption::None), "runs each to its end"),
        (Strategy::ByHand { upcalls: false }, Some(Preemption::None), "runs each to its end"),
        (Strategy::Upcalls, Some(Preemption::Deferred), "lets them yield where they call yield_now"),
        (Strategy::ByHand { upcalls: true }, Some(Preemption::Deferred), "lets them yield where they call"),
        (Strategy::Threads { per_level: 1 }, Some(Preemption::Full), "pre-empts them at once"),
    ];
    let plans = [
        (Preemption::Full, "yield at once, but this", "Strategy::Threads"),
        (Preemption::Deferred, "yield where they call yield_now, but this", "Strategy::Upcalls"),
        (Preemption::None, "yield when they return, but this", "Strategy::SingleThreaded"),
    ];
    for (promised, counts_on, instead) in plans {
        let config = || {
            let scheduler = scheduled_for(Policy::RateMonotonic, promised);
            Channel::builder().levels(scheduler.levels()).scheduler(scheduler).own_threads(false)
        };
        let fitting = strategies.iter().find(|(_, does, _)| *does == Some(promised)).unwrap().0;
        let channel = config().strategy(fitting).build().unwrap();
        for (strategy, does, wanted) in strategies {
            let swap = || channel.reconfigure(Configuration::Full, strategy, Duration::from_secs(60));
            let start = config().strategy(strategy).build();
            let started = start.map(|channel| channel.destroy());
            if does == Some(promised) {
                assert_eq!((started, swap()), (Ok(()), Ok(())), "{promised:?} {strategy:?}");
                continue;
            }
            let other = OtherPreemption { promised, dispatching: does };
            assert_eq!(started, Err(StartError::Preemption(other)), "{strategy:?}");
            assert_eq!(swap(), Err(SwapError::Preemption(other)), "{strategy:?}");
            let message = StartError::Preemption(other).to_string();
            assert!([counts_on, wanted, instead].iter().all(|part| message.contains(part)), "{message}");
            assert_eq!(message, SwapError::Preemption(other).to_string());
        }
        // Without dispatching consumers are not ordered, whatever the strategy.
        for configuration in [
            Configuration::ForwardingDiscriminator,
            Configuration::SubscriptionAndFiltering,
            Configuration::Broadcaster,
        ] {
            let other = OtherPreemption { promised, dispatching: None };
            let started = config().strategy(fitting).configuration(configuration).build().map(drop);
            assert_eq!(started, Err(StartError::Preemption(other)), "{configuration:?}");
            let swapped = channel.reconfigure(configuration, fitting, Duration::from_secs(60));
            assert_eq!(swapped, Err(SwapError::Preemption(other)), "{configuration:?}");
        }
        assert_eq!(channel.configuration(), Configuration::Full, "nothing has changed");
        // By type, and with a dispatcher of the caller.
        let own = |strategy| {
            let levels = scheduled_for(Policy::RateMonotonic, promised).levels();
            Queued::alone(strategy, &levels, &ThreadSetup::default()).unwrap().unwrap()
        };
        for (strategy, does, _) in
            strategies.into_iter().filter(|(strategy, ..)| *strategy != Strategy::Direct)
        {
            let by_type = config().build_fixed(Fixed::<true, true, _>::new(own(strategy)));
            let fits = does == Some(promised);
            assert_eq!(by_type.map(|channel| channel.destroy()).is_ok(), fits, "{promised:?} {strategy:?}");
            let dispatch = Arc::new(own(strategy));
            let swapped = channel.reconfigure_with(Configuration::Full, dispatch, Duration::from_secs(60));
            assert_eq!(swapped.is_ok(), fits, "{promised:?} {strategy:?}");
        }
        assert!(config().build_fixed(Fixed::<true, true, _>::new(Direct)).is_err());
        let anyhow = channel.reconfigure_with(Configuration::Full, Arc::new(Anyhow), Duration::from_secs(60));
        assert_eq!(anyhow, Err(SwapError::Preemption(OtherPreemption { promised, dispatching: None })));
        channel.destroy();
    }
    // Without promises any dispatching is accepted.
    for (strategy, ..) in strategies {
        Channel::builder().strategy(strategy).own_threads(false).build().unwrap().destroy();
    }
}
