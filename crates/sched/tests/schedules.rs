//! Schedules from graphs and files: rates, levels, blocking, and faults of files.

use isorb_sched::file::ScheduleFile;
use isorb_sched::schedule::{Schedule, Severity};
use isorb_sched::{Factor, Nanos, Order, Response, ScaledQuantity};

fn ms(ms: u64) -> Nanos {
    Nanos::from_ms(ms)
}

fn read(text: &str) -> ScheduleFile {
    ScheduleFile::parse("s.toml", text).unwrap_or_else(|error| panic!("{error}"))
}

fn scheduled(text: &str) -> Schedule {
    read(text).schedule().unwrap_or_else(|error| panic!("{error}"))
}

/// Name, period, cost, jitter, response of each task.
fn rows(schedule: &Schedule) -> Vec<(String, u64, u64, u64, String)> {
    let in_ms = |time: Nanos| time.ns() / 1_000_000;
    let verdicts = schedule.tasks.iter().zip(&schedule.analysis.verdicts);
    verdicts
        .map(|(scheduled, verdict)| {
            let task = &scheduled.task;
            (
                task.name.clone(),
                in_ms(task.period),
                in_ms(task.cost),
                in_ms(task.jitter),
                verdict.response.to_string(),
            )
        })
        .collect()
}

const AVIONICS: &str = r#"
policy = "rms"
priorities = [10, 12]

[[operation]]
name = "imu"
cost = "2 ms"
period = "33 ms"

[[operation]]
name = "gps"
cost = "5 ms"
period = "200 ms"

[[operation]]
name = "any"
kind = "disjunction"
after = ["imu", "gps"]

[[operation]]
name = "both"
kind = "conjunction"
after = ["imu", "gps"]

[[operation]]
name = "display"
cost = "4 ms"
after = ["any"]

[[operation]]
name = "navigate"
cost = "10 ms"
deadline = "400 ms"
after = ["both"]
calls = [{ operation = "filter", times = 3 }]

[[operation]]
name = "filter"
cost = "4 ms"
cached = "1 ms"

[[operation]]
name = "elsewhere"
kind = "remote-dependant"
cost = "50 ms"
after = ["imu"]
"#;

#[test]
fn rates_flow_through_the_graph() {
    let schedule = scheduled(AVIONICS);
    let row = |name: &str, period, cost, jitter, response: &str| {
        (name.to_string(), period, cost, jitter, response.to_string())
    };
    assert_eq!(
        rows(&schedule),
        [
            row("imu", 33, 2, 0, "6 ms"),
            row("gps", 200, 5, 0, "37 ms"),
            row("display by imu", 33, 4, 6, "12 ms"),
            row("display by gps", 200, 4, 37, "74 ms"),
            row("navigate", 200, 16, 39, "76 ms"),
        ]
    );
}

#[test]
fn jitter_follows_from_the_predecessors_response() {
    let schedule = scheduled(
        r#"
        policy = "declared"
        [[operation]]
        name = "sensor"
        cost = "3 ms"
        period = "20 ms"
        priority = 1
        [[operation]]
        name = "filter"
        cost = "2 ms"
        after = ["sensor"]
        priority = 2
        [[operation]]
        name = "actuator"
        cost = "1 ms"
        after = [{ operation = "filter", times = 2 }]
        deadline = "15 ms"
        priority = 3
        "#,
    );
    let jitter: Vec<Nanos> = schedule.tasks.iter().map(|scheduled| scheduled.task.jitter).collect();
    assert_eq!(jitter[0], ms(0));
    assert!(jitter[1] >= ms(3) && jitter[2] >= jitter[1].plus(ms(2)), "{jitter:?}");
    assert_eq!(schedule.tasks[2].task.cost, ms(2));
    assert_eq!(schedule.tasks[2].queue.thread_priority, 32767);
    assert!(schedule.schedulable());
}

/// Chains, joins and shared levels in the simulator: no run exceeds its bound.
#[test]
fn replays_stay_within_the_verdicts() {
    for policy in ["rms", "dm", "edf", "mlf", "muf", "criticality"] {
        for (preemption, one_thread_per_level) in
            [("full", true), ("full", false), ("deferred", true), ("none", true)]
        {
            let head = format!(
                "policy = {policy:?}\npreemption = {preemption:?}\none_thread_per_level = {one_thread_per_level}"
            );
            let text = AVIONICS.replace("policy = \"rms\"", &head).replace("priorities = [10, 12]", "");
            let schedule = scheduled(&text);
            let trace = schedule.replay(ms(6600)).unwrap();
            assert!(trace.runs.len() > 400);
            for (place, verdict) in schedule.analysis.verdicts.iter().enumerate() {
                let seen = trace.worst_response(place).unwrap();
                if let Some(bound) = verdict.response.bound() {
                    assert!(
                        seen <= bound,
                        "{policy} {preemption} {one_thread_per_level}: task {place} took {seen}, bound {bound}"
                    );
                }
            }
        }
    }
}

#[test]
fn margins_are_where_it_breaks() {
    let file = read(
        "[[operation]]\nname = 'a'\ncost = '2 ms'\nperiod = '5 ms'\n[[operation]]\nname = 'b'\ncost = '2 ms'\nperiod = '10 ms'",
    );
    let margin = |of| file.graph.margin(&file.config, of).unwrap();
    // 60 %, with harmonic periods: everything may grow to all of the processor.
    assert_eq!(margin(ScaledQuantity::Costs), Factor(1666));
    assert_eq!(margin(ScaledQuantity::Cost(0)), Factor(2000));
    assert_eq!(margin(ScaledQuantity::Cost(1)), Factor(3000));
    assert_eq!(margin(ScaledQuantity::Rates), Factor(1666));
    assert_eq!(Factor(1666).to_string(), "x1.66");
    let late = read("[[operation]]\nname = 'a'\ncost = '8 ms'\nperiod = '5 ms'\ndeadline = '20 ms'");
    assert_eq!(late.graph.margin(&late.config, ScaledQuantity::Costs).unwrap(), Factor(625));
}

#[test]
fn policies_give_levels() {
    let levels = |policy: &str| {
        let text = AVIONICS.replace("\"rms\"", &format!("{policy:?}")).replace("priorities = [10, 12]", "");
        let schedule = scheduled(&text);
        let levels: Vec<u32> = schedule.tasks.iter().map(|scheduled| scheduled.queue.level).collect();
        (levels, schedule.queues[0].order, schedule.schedulable())
    };
    assert_eq!(levels("rms"), (vec![0, 1, 0, 1, 1], Order::Arrival, true));
    assert_eq!(levels("dm"), (vec![0, 1, 0, 1, 2], Order::Arrival, true));
    // Served by deadline, imu is only known to be done at its deadline, which leaves the display no
    // time.
    assert_eq!(levels("edf"), (vec![0; 5], Order::Deadline, false));
    assert_eq!(levels("muf").1, Order::Laxity);
}

#[test]
fn ceilings_block() {
    let text = |ceiling: &str| {
        format!(
            r#"
            priorities = [1, 3]
            [[operation]]
            name = "fast"
            cost = "1 ms"
            period = "10 ms"
            holds = [{{ resource = "map", for = "1 ms" }}]
            [[operation]]
            name = "middle"
            cost = "2 ms"
            period = "20 ms"
            [[operation]]
            name = "slow"
            cost = "9 ms"
            period = "100 ms"
            holds = [{{ resource = "map", for = "4 ms" }}]
            [[resource]]
            name = "map"
            {ceiling}
            "#
        )
    };
    let schedule = scheduled(&text(""));
    let blocking: Vec<Nanos> = schedule.analysis.verdicts.iter().map(|verdict| verdict.blocking).collect();
    // The middle operation does not use the map, but waits for it.
    assert_eq!(blocking, [ms(4), ms(4), ms(0)]);
    let error = read(&text("ceiling = 2")).schedule().unwrap_err();
    assert_eq!(
        error.to_string(),
        "s.toml:4: fast: its priority of 3 is over the ceiling of 2 of map, which it holds"
    );
    assert_eq!(schedule.ceiling(0), Some(3), "its most urgent user's");
    assert_eq!(schedule.ceiling(1), None, "there is none");
    assert_eq!(scheduled(&text("ceiling = 7")).ceiling(0), Some(7), "as declared");
    let unused = scheduled(&text("[[resource]]\nname = 'unused'\n[[resource]]\nname = 'said'\nceiling = 5"));
    assert_eq!([0, 1, 2].map(|place| unused.ceiling(place)), [Some(3), None, Some(5)]);
    let error = ScheduleFile::parse("s.toml", &text("ceiling = 32768")).unwrap_err();
    assert!(
        error.message.contains("map: its ceiling is a CORBA priority, at most 32767, not 32768"),
        "{error}"
    );
}

#[test]
fn a_caller_holds_the_resources_of_its_callee() {
    let schedule = scheduled(
        r#"
        priorities = [1, 3]
        [[operation]]
        name = "fast"
        cost = "1 ms"
        period = "10 ms"
        calls = ["outer"]
        [[operation]]
        name = "slow"
        cost = "9 ms"
        period = "100 ms"
        holds = [{ resource = "map", for = "4 ms" }]
        [[operation]]
        name = "outer"
        cost = "0.5 ms"
        calls = ["inner"]
        [[operation]]
        name = "inner"
        cost = "0.5 ms"
        holds = [{ resource = "map", for = "0.5 ms" }]
        [[resource]]
        name = "map"
        "#,
    );
    let blocking: Vec<Nanos> = schedule.analysis.verdicts.iter().map(|verdict| verdict.blocking).collect();
    assert_eq!(blocking, [ms(4), ms(0)]);
    assert_eq!(schedule.ceiling(0), Some(3), "the caller's, which runs the callee");
}

#[test]
fn missed_deadlines_are_reported() {
    let schedule = scheduled(
        "[[operation]]\nname = 'a'\ncost = '6 ms'\nperiod = '10 ms'\n[[operation]]\nname = 'b'\ncost = '5 ms'\nperiod = '11 ms'",
    );
    assert!(!schedule.schedulable());
    assert_eq!(schedule.analysis.verdicts[1].response, Response::Unbounded);
    let refusal: Vec<_> = schedule.anomalies.iter().map(|a| (a.severity, &*a.description)).collect();
    assert_eq!(
        refusal,
        [
            (Severity::Fatal, "the tasks ask for 105.5 % of the processor: a 60.0 %, b 45.5 %"),
            (Severity::Error, "b: its response is unbounded, its deadline 11 ms"),
        ]
    );
}

#[test]
fn errors_name_file_line_task_and_numbers() {
    let operation = |text: &str| format!("policy = \"rms\"\n[[operation]]\nname = \"radar\"\n{text}\n");
    for (text, message) in [
        (
            operation("cost = \"1 ms\"\nperiod = \"5 ms\"\nafter = [\"sonar\"]"),
            "s.toml:6: radar: it depends on an operation that does not exist: sonar",
        ),
        (
            operation("cost = \"1 ms\"\nafter = [\"radar\"]"),
            "s.toml:3: radar: it depends on itself: radar -> radar",
        ),
        (
            operation("cost = \"1 ms\""),
            "s.toml:3: radar: its period is zero, and no operation releases or calls it",
        ),
        (
            operation("cost = \"1 ms\"\nperiod = \"0\""),
            "s.toml:3: radar: its period is zero, and no operation releases or calls it",
        ),
        (operation("period = \"1 ms\""), "s.toml:3: radar: its worst-case cost is zero"),
        (
            operation("cost = \"3 ms\"\nperiod = \"5 ms\"\ndeadline = \"2 ms\""),
            "s.toml:3: radar: its deadline of 2 ms is shorter than its cost of 3 ms",
        ),
        (
            operation("cost = \"1\"\nperiod = \"5 ms\""),
            "s.toml:4: a time is a number and a unit of s, ms, us or ns, as in \"2.5 ms\"",
        ),
        (
            operation("cost = \"1 ms\"\nperiod = \"5 ms\"\nholds = [{ resource = \"map\", for = \"1 ms\" }]"),
            "s.toml:6: radar: it holds a resource that does not exist: map",
        ),
        (
            operation("cost = \"1 ms\"\nperiod = \"5 ms\"\n[[operation]]\nname = \"radar\""),
            "s.toml:7: radar: there is an operation of this name already",
        ),
        (
            "policy = \"fifo\"".to_string(),
            "s.toml:1: a policy is one of rms, dm, edf, mlf, muf, criticality, declared",
        ),
        (
            "priorities = [9, 3]".to_string(),
            "s.toml:1: priorities from 9 to 3 are none: they go from 0 to 32767",
        ),
        (
            "\n[[activity]]\nname = \"a\"\npriority = 40000".to_string(),
            "s.toml:3: a: a CORBA priority is at most 32767, not 40000",
        ),
    ] {
        let result = ScheduleFile::parse("s.toml", &text).and_then(|file| file.schedule());
        assert_eq!(result.map_err(|error| error.to_string()).unwrap_err(), message, "{text}");
    }
    for text in ["[[operation]]\nname = \"a\"\ncots = \"1 ms\"", "policy =", "[[object]]\nname = \"o\""] {
        assert!(ScheduleFile::parse("s.toml", text).is_err(), "{text}");
    }
    let cycle = "[[operation]]\nname='a'\nafter=['b']\n[[operation]]\nname='b'\ncalls=['c']\n[[operation]]\nname='c'\nafter=['a']";
    let error = ScheduleFile::parse("s.toml", cycle).unwrap_err();
    assert_eq!(error.to_string(), "s.toml:2: a: it depends on itself: a -> b -> c -> a");
}

#[test]
fn names_for_static_scheduling() {
    let file =
        read("[[activity]]\nname = 'guidance'\npriority = 180\n[[object]]\nname = 'gps'\npriority = 90");
    assert_eq!(file.activities.get("guidance"), Some(&180));
    assert_eq!(file.objects.get("gps"), Some(&90));
    assert!(file.schedule().unwrap().tasks.is_empty());
}

#[test]
fn the_example_of_the_documentation_holds() {
    let page = isorb_testkit::document("reference/scheduling.md");
    let example = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    assert!(scheduled(example).schedulable());
}

/// A clock and a chain of operations, each released twice by the one before.
fn doubles(count: usize) -> String {
    let mut text = "[[operation]]\nname = \"op0\"\ncost = \"1 ns\"\nperiod = \"1 s\"\n".to_owned();
    for at in 1..=count {
        let before = at - 1;
        text.push_str(&format!(
            "[[operation]]\nname = \"op{at}\"\ncost = \"1 ns\"\nafter = [\"op{before}\", \"op{before}\"]\n"
        ));
    }
    text
}

#[test]
fn an_exponential_number_of_paths_is_refused_before_it_fills_memory() {
    let most = scheduled(&doubles(7));
    assert_eq!((most.tasks.len(), most.schedulable()), (255, true));
    // The first numbers over the limits: 2^9 tasks by 2^8 before them, or 2^14 streams beside 2^14
    // - 1.
    for (count, first) in [(12, "op9: 512 streams"), (30, "op14: 16384 streams"), (60, "op14: 16384 streams")]
    {
        let refusal = read(&doubles(count)).schedule().unwrap_err().to_string();
        let names = |text: &str| refusal.contains(text);
        assert!(names(first) && names("16384 tasks") && names("65536 releases"), "{count}: {refusal}");
    }
}

/// A conjunction of conjunctions waits once for each of their faster members, however many paths
/// lead there.
#[test]
fn faster_members_do_not_double() {
    let mut text = String::new();
    for name in ["a0", "b0"] {
        text.push_str(&format!("[[operation]]\nname = \"{name}\"\ncost = \"1 ns\"\nperiod = \"1 s\"\n"));
    }
    for at in 1..=40 {
        let before = at - 1;
        for (name, order) in [("a", ["a", "b"]), ("b", ["b", "a"])] {
            let after = order.map(|of| format!("\"{of}{before}\"")).join(", ");
            text.push_str(&format!(
                "[[operation]]\nname = \"{name}{at}\"\nkind = \"conjunction\"\nafter = [{after}]\n"
            ));
        }
    }
    text.push_str("[[operation]]\nname = \"last\"\ncost = \"1 ns\"\nafter = [\"a40\"]\n");
    let graph = read(&text).graph;
    let streams = graph.streams().unwrap();
    let last = streams.last().unwrap();
    assert_eq!((last.len(), last[0].faster.len()), (1, 1), "{last:?}");
}

/// Two conjunctions share their slowest member, and each waits for another faster one: a task after
/// both waits for both.
#[test]
fn members_of_joined_conjunctions_are_all_waited_for() {
    let mut text = String::new();
    for (name, period) in [("slow", "1 s"), ("quick", "100 ms"), ("other", "200 ms")] {
        text.push_str(&format!("[[operation]]\nname = \"{name}\"\ncost = \"1 ms\"\nperiod = \"{period}\"\n"));
    }
    for (name, after) in [
        ("first", "[\"slow\", \"quick\"]"),
        ("second", "[\"slow\", \"other\"]"),
        ("both", "[\"first\", \"second\"]"),
    ] {
        text.push_str(&format!(
            "[[operation]]\nname = \"{name}\"\nkind = \"conjunction\"\nafter = {after}\n"
        ));
    }
    text.push_str(
        "[[operation]]\nname = \"last\"\ncost = \"1 ms\"\ndeadline = \"900 ms\"\nafter = [\"both\"]\n",
    );
    let file = read(&text);
    let streams = file.graph.streams().unwrap();
    let mut waits: Vec<u64> = streams.last().unwrap()[0].faster.iter().map(|f| f.period.ns()).collect();
    waits.sort();
    assert_eq!(waits, [100_000_000, 200_000_000]);
}
