//! Operations on several processors.

use isorb_sched::Graph;
use isorb_sched::file::ScheduleFile;
use isorb_sched::partition::Partition;

fn file(text: &str) -> ScheduleFile {
    ScheduleFile::parse("s.toml", text).unwrap()
}

/// An operation of this cost and period in milliseconds, and more keys.
fn operation(name: &str, cost: u32, more: &str) -> String {
    format!("[[operation]]\nname = '{name}'\ncost = '{cost} ms'\n{more}\n")
}

fn names(graph: &Graph, partition: &Partition) -> Vec<Vec<String>> {
    let name = |id: &usize| graph.operations()[*id].name.clone();
    partition.processors.iter().map(|of| of.operations.iter().map(name).collect()).collect()
}

#[test]
fn the_greatest_demand_first_where_there_is_most_room() {
    let period = "period = '100 ms'";
    let text: String = [("a", 20), ("b", 60), ("c", 30), ("d", 50)]
        .map(|(name, cost)| operation(name, cost, period))
        .concat();
    let file = file(&text);
    // One processor has not enough time, and two do.
    assert!(!file.schedule().unwrap().schedulable());
    let partition = file.graph.partition(&file.config, 2).unwrap();
    assert!(partition.schedulable());
    // b, then d on the other, c beside d, a where less is taken.
    assert_eq!(names(&file.graph, &partition), [["a", "b"], ["c", "d"]]);
    assert_eq!(partition.processor_of(3), Some(1));
    for processor in &partition.processors {
        assert!(processor.schedule.as_ref().unwrap().schedulable());
    }
    // More processors than operations.
    let wide = file.graph.partition(&file.config, 6).unwrap();
    assert_eq!(wide.processors.iter().filter(|processor| processor.schedule.is_none()).count(), 2);
}

#[test]
fn what_depends_on_each_other_or_shares_a_resource_stays_together() {
    let period = "period = '100 ms'";
    let text = [
        operation("imu", 6, period),
        operation("fuse", 6, "after = ['imu']"),
        operation("show", 6, "after = ['fuse']\ncalls = [{ operation = 'draw' }]"),
        operation("draw", 6, ""),
        operation("log", 10, "period = '100 ms'\nholds = [{ resource = 'disk', for = '1 ms' }]"),
        operation("scan", 10, "period = '100 ms'\nholds = [{ resource = 'disk', for = '1 ms' }]"),
        operation("idle", 10, period),
        "[[resource]]\nname = 'disk'\n".into(),
    ]
    .concat();
    let file = file(&text);
    let partition = file.graph.partition(&file.config, 3).unwrap();
    assert!(partition.schedulable(), "{:?}", partition.refused);
    let expected = [vec!["imu", "fuse", "show", "draw"], vec!["log", "scan"], vec!["idle"]];
    assert_eq!(names(&file.graph, &partition), expected);
    // The chain on its processor is as without the others.
    let chain = partition.processors[0].schedule.as_ref().unwrap();
    let alone = text.split("[[operation]]\nname = 'log'").next().unwrap();
    let alone = ScheduleFile::parse("s.toml", alone).unwrap().schedule().unwrap();
    assert_eq!((&chain.tasks, &chain.analysis), (&alone.tasks, &alone.analysis));
}

#[test]
fn what_fits_nowhere_is_refused_with_a_reason_for_each_processor() {
    let text = [
        operation("a", 60, "period = '100 ms'"),
        operation("b", 60, "period = '100 ms'"),
        operation("c", 45, "period = '100 ms'"),
        operation("d", 20, "period = '100 ms'\ndeadline = '19 ms'"),
    ]
    .concat();
    let file = file(&text);
    let Err(error) = file.graph.partition(&file.config, 2) else { panic!("d can never be in time") };
    assert_eq!(error.to_string(), "d: its deadline of 19 ms is shorter than its cost of 20 ms");
    let later = text
        .replace("19 ms", "70 ms")
        .replace("45 ms", "15 ms")
        .replace("period = '100 ms'\ndeadline", "period = '1 s'\ndeadline");
    // Now d fits by its demand, and would be late.
    let file = ScheduleFile::parse("s.toml", &later).unwrap();
    let partition = file.graph.partition(&file.config, 2).unwrap();
    assert!(!partition.schedulable());
    assert_eq!(partition.refused.len(), 1);
    assert_eq!(partition.processor_of(3), None);
    assert_eq!(
        partition.refused[0].to_string(),
        "d cannot be admitted on any of 2 processors: on processor 0, d: its response is >= 80 ms, its deadline 70 ms; \
         on processor 1, d: its response is >= 80 ms, its deadline 70 ms"
    );
    assert_eq!(names(&file.graph, &partition), [vec!["a", "c"], vec!["b"]]);
}

#[test]
fn a_graph_that_cannot_be_scheduled_is_an_error_and_an_empty_one_is_not() {
    let idle = file(&operation("idle", 1, ""));
    let refused = idle.graph.partition(&idle.config, 2).unwrap_err().to_string();
    assert_eq!(refused, "idle: its period is zero, and no operation releases or calls it");
    let empty = file("");
    assert!(empty.graph.partition(&empty.config, 2).unwrap().schedulable());
    let one = file(&operation("one", 1, "period = '10 ms'"));
    let nowhere = one.graph.partition(&one.config, 0).unwrap();
    assert_eq!(nowhere.refused[0].to_string(), "one cannot be admitted on any of 0 processors");
}
