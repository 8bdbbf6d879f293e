//! Random task graphs under every policy: the simulator never exceeds the bounds of the analysis.

use isorb_sched::graph::{Call, Dependency, Kind, Operation};
use isorb_sched::schedule::{Config, Schedule};
use isorb_sched::sim::Variation;
use isorb_sched::{Criticality, Graph, Nanos, Policy, Preemption};
use proptest::prelude::*;

fn ns(ns: u64) -> Nanos {
    Nanos::new(ns)
}

#[derive(Clone, Debug)]
struct Node {
    cost: u64,
    section: u64,
    period: u64,
    deadline: u64,
    jitter: u64,
    offset: u64,
    kind: usize,
    critical: usize,
    after: Vec<usize>,
}

fn node() -> impl Strategy<Value = Node> {
    let after = prop::collection::vec(0..8_usize, 0..3);
    let period = prop::sample::select(vec![20_u64, 30, 40, 60, 80, 120]);
    let times = (1..8_u64, 1..8_u64, period, 20..400_u64, 0..9_u64, 0..40_u64);
    (times, 0..8_usize, 0..3_usize, after).prop_map(|(times, kind, critical, after)| {
        let (cost, section, period, deadline, jitter, offset) = times;
        Node { cost, section, period, deadline, jitter, offset, kind, critical, after }
    })
}

fn graph(nodes: &[Node]) -> Graph {
    let mut graph = Graph::new();
    for (at, node) in nodes.iter().enumerate() {
        let mut after: Vec<usize> = node.after.iter().filter(|_| at > 0).map(|on| on % at.max(1)).collect();
        after.sort_unstable();
        after.dedup();
        let clock = after.is_empty();
        graph
            .add(Operation {
                kind: match node.kind {
                    0 => Kind::Conjunction,
                    1 => Kind::Disjunction,
                    _ => Kind::Operation,
                },
                worst: ns(node.cost),
                section: Some(ns(node.section.min(node.cost))),
                period: ns(if clock { node.period } else { 0 }),
                jitter: ns(if clock { node.jitter } else { 0 }),
                // A conjunction waits no longer than a period for a faster member: they must come
                // that often from the start.
                offset: ns(node.offset % node.period),
                deadline: Some(ns(node.deadline)),
                priority: u32::try_from(node.critical).unwrap(),
                criticality: [Criticality::Low, Criticality::Medium, Criticality::High][node.critical],
                dependencies: after
                    .into_iter()
                    .map(|on| Dependency { on, call: Call::OneWay, times: 1 })
                    .collect(),
                ..Operation::new(format!("t{at}"))
            })
            .unwrap();
    }
    graph
}

fn config() -> impl Strategy<Value = Config> {
    let preemption = prop_oneof![Just(Preemption::Full), Just(Preemption::Deferred), Just(Preemption::None)];
    (prop::sample::select(Policy::ALL.to_vec()), preemption, any::<bool>()).prop_map(
        |(policy, preemption, one_thread_per_level)| Config {
            policy,
            preemption,
            one_thread_per_level,
            ..Config::default()
        },
    )
}

/// No run takes longer than its bound, with all clocks together and with varying arrivals (if
/// `sporadic`), jitter and costs.
fn within(schedule: &Schedule, seed: u64, sporadic: bool) -> Result<(), TestCaseError> {
    let mut state = seed | 1;
    let mut random = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        ns(state % below)
    };
    let varied = schedule.replay_varied(ns(3000), |_, _| Variation {
        later: if sporadic && random(4).is_zero() { random(9) } else { ns(0) },
        jitter: random(10),
        cheaper: if random(3).is_zero() { random(5) } else { ns(0) },
    });
    for trace in [schedule.replay(ns(1000)).unwrap(), varied.unwrap()] {
        for (place, verdict) in schedule.analysis.verdicts.iter().enumerate() {
            let (Some(bound), Some(seen)) = (verdict.response.bound(), trace.worst_response(place)) else {
                continue;
            };
            let name = &schedule.tasks[place].task.name;
            prop_assert!(seen <= bound, "{name} took {seen}, bound {bound}: {}", schedule.table());
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(3000) })]
    #[test]
    fn no_chain_takes_longer_than_its_bound(
        nodes in prop::collection::vec(node(), 1..7), config in config(), seed in any::<u64>(),
    ) {
        let schedule = graph(&nodes).schedule(config);
        prop_assume!(schedule.is_ok());
        let sporadic = nodes.iter().all(|node| node.kind != 0);
        within(&schedule.unwrap(), seed, sporadic)?;
    }
}

fn line(costs: [u64; 3], deadline: u64) -> Graph {
    let mut graph = Graph::new();
    let mut before = None;
    for (name, cost) in ["sensor", "fuse", "show"].into_iter().zip(costs) {
        let mut operation = Operation { worst: ns(cost), ..Operation::new(name) };
        match before {
            None => operation.period = ns(100),
            Some(on) => operation.dependencies = vec![Dependency { on, call: Call::OneWay, times: 1 }],
        }
        if name == "show" {
            operation.deadline = Some(ns(deadline));
        }
        before = Some(graph.add(operation).unwrap());
    }
    graph
}

/// Only the last operation has a deadline; the others have a share of it.
#[test]
fn every_policy_schedules_a_chain_by_its_end() {
    for policy in Policy::ALL {
        let config = Config { policy, ..Config::default() };
        let mut graph = line([2, 3, 5], 60);
        graph.add(Operation { worst: ns(5), period: ns(20), ..Operation::new("radar") }).unwrap();
        let schedule = graph.schedule(config.clone()).unwrap();
        assert!(schedule.schedulable(), "{policy}: {}", schedule.table());
        let trace = schedule.replay(ns(1000)).unwrap();
        assert_eq!(trace.missed().count(), 0, "{policy}");
        // With too little time for all three it is refused, and the last operation is named.
        let tight = line([2, 3, 5], 9).schedule(config).unwrap();
        let message: Vec<&str> = tight.anomalies.iter().map(|anomaly| &*anomaly.description).collect();
        let named = |message: &&str| {
            message.starts_with("show: its response is >= ") && message.ends_with(", its deadline 9 ns")
        };
        assert!(message.iter().any(named), "{policy}: {message:?}");
    }
}

/// In proportion to costs the first two would have too little time: a late task gets more.
#[test]
fn slack_goes_to_the_late_operation() {
    let config = Config { policy: Policy::EarliestDeadline, ..Config::default() };
    let mut graph = line([1, 1, 10], 100);
    graph.add(Operation { worst: ns(12), period: ns(100), ..Operation::new("beside") }).unwrap();
    let schedule = graph.schedule(config).unwrap();
    assert!(schedule.schedulable(), "{}", schedule.table());
    let of = |at: usize| schedule.tasks[at].task.deadline.minus(schedule.tasks[at].task.jitter);
    assert!(of(0) >= ns(12), "beside may have begun, and takes one_thread_per_level: {}", schedule.table());
}
