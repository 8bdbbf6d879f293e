//! A schedule file that was written is read as the same schedule.

use isorb_sched::file::ScheduleFile;
use isorb_sched::graph::{Call, Dependency, Graph, Kind, Operation, Resource};
use isorb_sched::schedule::Config;
use isorb_sched::{Criticality, Importance, Nanos, Policy, Preemption};
use proptest::prelude::*;

/// Reads what was written.
fn again(file: &ScheduleFile) -> ScheduleFile {
    let text = file.text();
    ScheduleFile::parse("again.toml", &text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn assert_same(file: &ScheduleFile) {
    let read = again(file);
    assert_eq!(
        (&read.config, &read.graph, &read.activities, &read.objects),
        (&file.config, &file.graph, &file.activities, &file.objects)
    );
}

#[test]
fn the_example_of_the_documentation_is_written_as_it_was_read() {
    let page = isorb_testkit::document("reference/scheduling.md");
    let example = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let file = ScheduleFile::parse("s.toml", example).unwrap();
    assert!(!file.activities.is_empty() && !file.graph.resources.is_empty());
    assert_same(&file);
    assert_eq!(file.schedule().unwrap().table(), again(&file).schedule().unwrap().table());
}

#[test]
fn a_recorded_file_is_readable() {
    let mut graph = Graph::new();
    let mut imu = Operation::new("imu");
    (imu.worst, imu.period) = (Nanos::from_us(1500), Nanos::from_ms(33));
    let imu = graph.add(imu).unwrap();
    let mut display = Operation::new("display \"map\"");
    display.dependencies = vec![Dependency { on: imu, call: Call::OneWay, times: 2 }];
    (display.worst, display.criticality) = (Nanos::from_ms(4), Criticality::VeryLow);
    graph.add(display).unwrap();
    let config = Config { priorities: 1..=99, ..Config::default() };
    let file = ScheduleFile::of("recorded", config, graph);
    assert_eq!(
        file.text(),
        r#"policy = "rms"
preemption = "full"
one_thread_per_level = true
priorities = [1, 99]

[[operation]]
name = "imu"
cost = "1500 us"
period = "33 ms"

[[operation]]
name = "display \"map\""
cost = "4 ms"
criticality = "very-low"
after = [{ operation = "imu", times = 2 }]
"#
    );
    assert_same(&file);
}

fn time() -> impl Strategy<Value = Nanos> {
    prop_oneof![
        Just(Nanos::ZERO),
        (1_u64..5_000).prop_map(Nanos::from_us),
        (1_u64..5_000_000_000).prop_map(Nanos::new)
    ]
}

fn operation() -> impl Strategy<Value = Operation> {
    let kinds = [Kind::Operation, Kind::Conjunction, Kind::Disjunction, Kind::RemoteDependant];
    let grades = 0_usize..5;
    let times = (time(), time(), time(), time(), time(), time(), time());
    let some = (prop::option::of(time()), prop::option::of(time()));
    let numbers = (any::<u16>(), 0_u32..9);
    (prop::sample::select(kinds.to_vec()), times, some, grades.clone(), grades, numbers).prop_map(
        |(kind, times, (deadline, section), criticality, importance, (priority, threads))| {
            use Criticality as C;
            use Importance as I;
            Operation {
                kind,
                worst: times.0,
                typical: times.1,
                cached: times.2,
                period: times.3,
                jitter: times.4,
                blocking: times.5,
                offset: times.6,
                deadline,
                section,
                priority: priority.into(),
                threads,
                criticality: [C::VeryLow, C::Low, C::Medium, C::High, C::VeryHigh][criticality],
                importance: [I::VeryLow, I::Low, I::Medium, I::High, I::VeryHigh][importance],
                ..Operation::new("")
            }
        },
    )
}

proptest! {
    #[test]
    fn any_graph_is_read_as_it_was_written(
        operations in prop::collection::vec((operation(), "[ -~\u{e4}\t\n]{0,12}"), 0..8),
        links in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<bool>(), 0_u32..4), 0..12),
        policy in prop::sample::select(Policy::ALL.to_vec()),
        preemption in prop::sample::select(vec![Preemption::Full, Preemption::Deferred, Preemption::None]),
        one_thread_per_level: bool,
        resource in "[ -~\"\\\\]{0,8}",
        processors in prop::collection::hash_set(0_usize..1024, 0..4),
    ) {
        let mut graph = Graph::new();
        graph.resources.push(Resource { name: resource, ceiling: Some(7) });
        for (number, (mut operation, name)) in operations.into_iter().enumerate() {
            operation.name = format!("{name}{number}");
            operation.holds = vec![(0, operation.worst)];
            graph.add(operation).unwrap();
        }
        let count = graph.operations().len();
        // Only on those before: no cycle. A file has those that release before those that are
        // called.
        for releases in [true, false] {
            for (from, to, one_way, times) in &links {
                let (from, on) = (if count > 1 { 1 + from.index(count - 1) } else { 0 }, to.index(count.max(1)));
                let call = if *one_way { Call::OneWay } else { Call::TwoWay };
                if *one_way == releases && on < from {
                    graph.get_mut(from).unwrap().dependencies.push(Dependency { on, call, times: *times });
                }
            }
        }
        let config = Config { policy, preemption, one_thread_per_level, priorities: 5..=6 };
        let mut file = ScheduleFile::of("r", config, graph);
        file.processors = processors.into_iter().collect();
        assert_same(&file);
    }
}
