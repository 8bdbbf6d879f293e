//! The run-time scheduler: levels, orders inside a level, and refusals.

use isorb_sched::{
    Criticality, Importance, Nanos, Order, Plan, Policy, Preemption, Reason, RuntimeScheduler, Task,
};

fn ms(ms: u64) -> Nanos {
    Nanos::from_ms(ms)
}

#[test]
fn levels_of_a_policy() {
    let tasks = [
        Task::new("gps", ms(1), ms(200)).criticality(Criticality::High),
        Task::new("imu", ms(1), ms(33)),
        Task::new("hud", ms(1), ms(33)).importance(Importance::VeryHigh),
    ];
    let plan = Plan::for_tasks(Policy::RateMonotonic, &tasks, 10..=20).unwrap();
    let scheduler = RuntimeScheduler::new(plan);
    let found: Vec<_> = tasks.iter().map(|task| scheduler.dispatch_of(task)).collect();
    assert_eq!(
        found.iter().map(|d| (d.level, d.thread_priority)).collect::<Vec<_>>(),
        [(1, 19), (0, 20), (0, 20)]
    );
    assert_eq!((found[1].static_subpriority, found[2].static_subpriority), (2, 0));
    assert_eq!(
        scheduler.dispatch_of(&Task::new("log", ms(1), ms(1000))).level,
        1,
        "the last level takes the rest"
    );
    assert_eq!(scheduler.queues().count(), 2);
    assert_eq!(scheduler.dispatch_configuration(2), None);

    let urgent = RuntimeScheduler::new(Plan::with_levels(Policy::MaximumUrgency, &[], 1..=9).unwrap());
    assert_eq!(urgent.queues().count(), 5);
    assert_eq!(urgent.dispatch_of(&tasks[0]).level, 1);
    assert_eq!(urgent.dispatch_of(&tasks[0]).order, Order::Laxity);
    assert_eq!(
        RuntimeScheduler::new(Plan::with_levels(Policy::EarliestDeadline, &[], 1..=1).unwrap())
            .queues()
            .count(),
        1
    );

    let error = Plan::for_tasks(Policy::RateMonotonic, &tasks, 5..=5).unwrap_err();
    assert_eq!(error.to_string(), "2 levels of urgency do not fit 1 thread priorities");
    #[expect(clippy::reversed_empty_ranges)]
    let error = Plan::for_tasks(Policy::RateMonotonic, &tasks, 6..=5).unwrap_err();
    assert_eq!(error.priorities, 0);
    assert!(Plan::with_levels(Policy::RateMonotonic, &[], 1..=9).is_err());
}

#[test]
fn sub_priorities_as_an_event_is_queued() {
    let task = Task::new("t", ms(2), ms(10)).deadline(ms(8));
    let dispatch = |policy| {
        RuntimeScheduler::new(Plan::for_tasks(policy, std::slice::from_ref(&task), 1..=1).unwrap())
            .dispatch_of(&task)
    };
    assert_eq!(dispatch(Policy::RateMonotonic).subpriority(5), 0);
    assert_eq!(dispatch(Policy::EarliestDeadline).subpriority(5), 8_000_005);
    assert_eq!(dispatch(Policy::MinimumLaxity).subpriority(5), 6_000_005);
    assert_eq!(dispatch(Policy::MinimumLaxity).laxity(5, 1_000_005), 5_000_000);
    assert_eq!(dispatch(Policy::MinimumLaxity).laxity(0, 7_000_000), -1_000_000);
    assert_eq!(dispatch(Policy::MinimumLaxity).laxity(0, u64::MAX), i64::MIN);
}

#[test]
fn consumers_come_and_go() {
    let plan = Plan::with_levels(Policy::RateMonotonic, &[ms(10), ms(100)], 1..=2).unwrap();
    let mut scheduler = RuntimeScheduler::new(plan);
    let slow = scheduler.connect(Task::new("slow", ms(50), ms(100)).deadline(ms(90))).unwrap();
    let fast = scheduler.connect(Task::new("fast", ms(3), ms(10)).priority(1)).unwrap();
    assert_eq!((slow.dispatch.level, fast.dispatch.level), (1, 0));
    assert_eq!(scheduler.dispatch(fast.id), Some(fast.dispatch));
    assert_eq!(scheduler.response(slow.id), Some(ms(74)));
    let refusal = scheduler.connect(Task::new("more", ms(2), ms(10))).unwrap_err();
    assert!(matches!(&refusal.reason, Reason::Deadline { victim, .. } if victim == "slow"), "{refusal}");
    assert!(scheduler.disconnect(slow.id));
    assert!(!scheduler.disconnect(slow.id));
    assert_eq!((scheduler.lookup("slow"), scheduler.dispatch(slow.id)), (None, None));
    scheduler.connect(Task::new("more", ms(2), ms(10))).unwrap();
    assert_eq!(scheduler.utilisation().to_string(), "50.0 %");
}

/// One thread: a running job delays a job that is due sooner, whatever the order of the queue.
#[test]
fn jobs_of_a_queue_by_deadline_do_not_preempt_each_other() {
    let mut scheduler =
        RuntimeScheduler::new(Plan::with_levels(Policy::EarliestDeadline, &[], 1..=1).unwrap());
    scheduler.connect(Task::new("bulk", ms(6), ms(100))).unwrap();
    let refusal = scheduler.connect(Task::new("alarm", ms(2), ms(50)).deadline(ms(7))).unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "alarm cannot be admitted: it would take at least 8 ms, over its deadline of 7 ms; a deadline of 8.039 ms would be admitted"
    );
    scheduler.connect(Task::new("alarm", ms(2), ms(50)).deadline(ms(8))).unwrap();
}

/// Under maximum urgency the less critical level has only the rest of the processor.
#[test]
fn critical_levels_go_first() {
    let mut scheduler = RuntimeScheduler::new(Plan::with_levels(Policy::MaximumUrgency, &[], 1..=5).unwrap());
    scheduler.connect(Task::new("flight", ms(30), ms(60)).criticality(Criticality::VeryHigh)).unwrap();
    let refusal = scheduler.connect(Task::new("map", ms(10), ms(20))).unwrap_err();
    assert!(matches!(&refusal.reason, Reason::Deadline { victim, .. } if victim == "map"), "{refusal}");
    scheduler.connect(Task::new("map", ms(10), ms(50))).unwrap();
}

#[test]
fn one_thread_for_all_levels() {
    let plan = Plan::with_levels(Policy::RateMonotonic, &[ms(10), ms(100)], 1..=2)
        .unwrap()
        .preemption(Preemption::None);
    let mut scheduler = RuntimeScheduler::new(plan);
    let fast = scheduler.connect(Task::new("fast", ms(4), ms(10))).unwrap();
    let refusal = scheduler.connect(Task::new("slow", ms(7), ms(100))).unwrap_err();
    assert!(matches!(&refusal.reason, Reason::Deadline { victim, .. } if victim == "fast"), "{refusal}");
    scheduler.connect(Task::new("slow", ms(6), ms(100))).unwrap();
    assert_eq!(scheduler.response(fast.id), Some(ms(10).minus(Nanos::new(1))));
}
