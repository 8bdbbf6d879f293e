use super::*;
use crate::graph::{Call, Dependency, Kind, Operation};
use crate::schedule::Config;
use crate::{Counted, Dispatch, Order, Plan, Policy, Preemption, Task, analyse};
use proptest::prelude::*;

const fn ms(ms: u64) -> Nanos {
    Nanos::from_ms(ms)
}

fn operation(name: &str, cost: u64, period: u64, after: &[OperationId]) -> Operation {
    let dependencies = after.iter().map(|on| Dependency { on: *on, call: Call::OneWay, times: 1 }).collect();
    Operation { worst: ms(cost), period: ms(period), dependencies, ..Operation::new(name) }
}

/// One level for 20 ms, one for what is slower.
fn scheduler(policy: Policy) -> RuntimeScheduler {
    RuntimeScheduler::new(Plan::with_levels(policy, &[ms(20), ms(100)], 1..=10).unwrap())
}

fn line(costs: [u64; 3], period: u64, deadline: u64) -> Graph {
    let mut graph = Graph::new();
    let sensor = graph.add(operation("sensor", costs[0], period, &[])).unwrap();
    let fuse = graph.add(operation("fuse", costs[1], 0, &[sensor])).unwrap();
    let show = Operation { deadline: Some(ms(deadline)), ..operation("show", costs[2], 0, &[fuse]) };
    graph.add(show).unwrap();
    graph
}

#[test]
fn a_chain_is_admitted_as_a_whole_and_shares_its_deadline_out() {
    let mut scheduler = scheduler(Policy::RateMonotonic);
    let stages = scheduler.connect_graph(&line([2, 3, 5], 100, 80)).unwrap();
    let of = |at: usize| (stages[at].released, stages[at].connected.dispatch.deadline);
    // 2, 5 and 10 of 10 parts of 80 ms.
    assert_eq!([of(0), of(1), of(2)], [(ms(0), ms(16)), (ms(16), ms(40)), (ms(40), ms(80))]);
    assert_eq!(stages[2].own_deadline(), ms(40));
    assert!(stages.iter().all(|stage| stage.connected.response <= stage.connected.dispatch.deadline));
    // A later task may use some of the slack, but no stage may be late.
    assert!(scheduler.connect(Task::new("fits", ms(3), ms(20))).is_ok());
    let refusal = scheduler.connect(Task::new("flood", ms(9), ms(20))).unwrap_err();
    assert!(refusal.to_string().contains("over its deadline of"), "{refusal}");
}

#[test]
fn a_chain_that_fits_only_without_slack_between_is_admitted() {
    // Each stage may wait for all of its level, 24 ms, though the first two cost little.
    let mut scheduler = scheduler(Policy::RateMonotonic);
    scheduler.connect(Task::new("beside", ms(12), ms(100))).unwrap();
    let stages = scheduler.connect_graph(&line([1, 1, 10], 100, 100)).unwrap();
    assert!(stages[0].connected.dispatch.deadline >= ms(24), "its share would be 8 ms: {stages:?}");
    assert_eq!(stages[2].connected.dispatch.deadline, ms(100));
}

#[test]
fn a_refusal_names_the_task_and_the_numbers_and_changes_nothing() {
    let mut scheduler = scheduler(Policy::RateMonotonic);
    scheduler.connect(Task::new("radar", ms(5), ms(10))).unwrap();
    // Each of them alone would be admitted; one after the other they do not meet 30 ms.
    for cost in [4, 5, 6] {
        let alone = Task::new("alone", ms(cost), ms(100)).deadline(ms(30));
        let connected = scheduler.connect(alone).unwrap();
        scheduler.disconnect(connected.id);
    }
    let refusal = scheduler.connect_graph(&line([4, 5, 6], 100, 30)).unwrap_err().to_string();
    assert!(refusal.starts_with("sensor -> fuse -> show cannot be admitted as a whole: show "), "{refusal}");
    assert!(refusal.contains("30 ms"), "{refusal}");
    assert_eq!(scheduler.lookup("sensor"), None);
    assert_eq!(scheduler.utilisation(), crate::Utilisation::of(ms(5), ms(10)));
    // With time enough it is.
    assert!(scheduler.connect_graph(&line([4, 5, 6], 100, 90)).is_ok());
}

#[test]
fn what_is_no_chain_is_refused_with_its_names() {
    let mut graph = Graph::new();
    graph.add(operation("a", 1, 0, &[1])).unwrap();
    graph.add(operation("b", 1, 0, &[0])).unwrap();
    let refusal = scheduler(Policy::RateMonotonic).connect_graph(&graph).unwrap_err().to_string();
    assert!(refusal.contains("a -> b -> a") || refusal.contains("b -> a -> b"), "{refusal}");
}

#[derive(Clone, Debug)]
struct Node {
    cost: u64,
    period: u64,
    deadline: u64,
    kind: usize,
    after: Vec<usize>,
}

fn graph(nodes: &[Node]) -> Graph {
    let mut graph = Graph::new();
    for (i, node) in nodes.iter().enumerate() {
        let after: Vec<usize> = node.after.iter().map(|before| before % i.max(1)).filter(|_| i > 0).collect();
        let mut after = after;
        after.sort_unstable();
        after.dedup();
        let mut made =
            operation(&format!("t{i}"), node.cost, if after.is_empty() { node.period } else { 0 }, &after);
        made.kind = [Kind::Operation, Kind::Conjunction, Kind::Disjunction][node.kind % 3];
        made.deadline = Some(ms(node.deadline));
        graph.add(made).unwrap();
    }
    graph
}

fn node() -> impl Strategy<Value = Node> {
    let after = prop::collection::vec(0..8usize, 0..3);
    (1..8u64, prop::sample::select(vec![20u64, 40, 80, 160]), 20..400u64, 0..3usize, after)
        .prop_map(|(cost, period, deadline, kind, after)| Node { cost, period, deadline, kind, after })
}

/// The end of every policy's chain is promised, and what would break it is refused.
#[test]
fn every_policy_lets_chains_in() {
    for policy in Policy::ALL {
        let mut scheduler = scheduler(policy);
        let stages = scheduler.connect_graph(&line([2, 3, 5], 100, 80)).unwrap();
        let end = stages.last().unwrap();
        assert_eq!(end.connected.dispatch.deadline, ms(80), "{policy}");
        for pair in stages.windows(2) {
            assert_eq!(pair[1].released, pair[0].connected.dispatch.deadline, "{policy}");
        }
        // A stage counts from its own events.
        let now = 7_000_000_000;
        let queued = end.connected.dispatch.subpriority(now);
        let due = now + end.own_deadline().ns();
        let expected = match policy.order() {
            Order::Arrival => 0,
            Order::Deadline => due,
            Order::Laxity => due - ms(5).ns(),
        };
        assert_eq!(queued, expected, "{policy}");
        let flood = Task::new("flood", ms(17), ms(20)).criticality(crate::Criticality::VeryHigh).priority(9);
        let refusal = scheduler.connect(flood).unwrap_err().to_string();
        assert!(
            refusal.contains("flood cannot be admitted: ") && refusal.contains("deadline of "),
            "{refusal}"
        );
    }
}

#[test]
fn a_chain_without_time_for_itself_is_refused_by_name() {
    for policy in Policy::ALL {
        let refusal = scheduler(policy).connect_graph(&line([4, 5, 6], 100, 14)).unwrap_err().to_string();
        assert_eq!(
            refusal,
            "sensor -> fuse -> show cannot be admitted as a whole: show cannot be admitted: \
             its deadline of 14 ms is shorter than its cost of 6 ms after a jitter of 9 ms",
            "{policy}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    /// The whole is analysed in another way by [`Graph::schedule`]: what is admitted part by part
    /// must hold there.
    #[test]
    fn what_is_admitted_is_schedulable(nodes in prop::collection::vec(node(), 1..7)) {
        let graph = graph(&nodes);
        let config = Config { policy: Policy::Declared, ..Config::default() };
        let schedule = graph.schedule(config.clone());
        prop_assume!(schedule.is_ok());
        let schedule = schedule.unwrap();
        let plan = schedule.plan().unwrap();
        let mut scheduler = RuntimeScheduler::new(plan);
        if let Ok(stages) = scheduler.connect_graph(&graph) {
            prop_assert!(schedule.schedulable(), "{:?}", schedule.analysis);
            prop_assert_eq!(stages.len(), schedule.tasks.len());
            prop_assert!(stages.iter().all(|s| s.connected.response <= s.connected.dispatch.deadline));
        }
    }

    /// Under every policy: the stages together meet their points, and none is released before those
    /// ahead of it may be done.
    #[test]
    fn stages_hold_together(
        nodes in prop::collection::vec(node(), 1..7), policy in prop::sample::select(Policy::ALL.to_vec()),
    ) {
        let graph = graph(&nodes);
        let mut scheduler = scheduler(policy);
        let links = Links::of(&graph).unwrap();
        let Ok(stages) = scheduler.connect_graph(&graph) else { return Ok(()) };
        let (mut tasks, mut levels) = (Vec::new(), Vec::new());
        let mut points = vec![Nanos::ZERO; links.all.len()];
        for (place, stage) in links.order.iter().zip(&stages) {
            let Dispatch { level, order, deadline, released, .. } = stage.connected.dispatch;
            let link = &links.all[*place];
            prop_assert!(deadline <= link.task.deadline);
            points[*place] = deadline;
            levels.push((level, order));
            tasks.push(link.task.clone().deadline(deadline).jitter(released).counted(Counted::FromReadiness));
        }
        // In a queue by deadline an operation has one deadline, whatever released it.
        for (one, other) in stages.iter().flat_map(|one| stages.iter().map(move |other| (one, other))) {
            let queued = one.connected.dispatch.order != Order::Arrival;
            if queued && one.operation == other.operation {
                prop_assert_eq!(one.own_deadline(), other.own_deadline());
            }
        }
        prop_assert!(analyse(&tasks, &levels, Preemption::Full, true).unwrap().schedulable());
        let releases = links.releases(&points);
        for (place, stage) in links.order.iter().zip(&stages) {
            prop_assert!(stage.released >= releases[*place]);
        }
    }
}
