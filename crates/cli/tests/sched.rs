//! `isorb sched` as a user runs it.

mod common;

use common::{Ended, ISORB, ended};
use isorb_testkit::{Browser, TempFolder, wait_until};
use std::process::Command;

const GOOD: &str = r#"
policy = "rms"
priorities = [1, 300]

[[operation]]
name = "imu"
cost = "2 ms"
period = "33 ms"

[[operation]]
name = "navigate"
cost = "6 ms"
after = ["imu"]
deadline = "60 ms"
calls = ["filter"]

[[operation]]
name = "filter"
cost = "1 ms"

[[operation]]
name = "display <map>"
cost = "10 ms"
period = "66 ms"
"#;

const TABLE: &str = "\
task           level  thread   cost  period  deadline  jitter  blocking  response  slack  verdict
imu                0     300   2 ms   33 ms     33 ms    0 ns      0 ns      9 ms  24 ms  met
navigate           0     300   7 ms   33 ms     60 ms    9 ms      0 ns     18 ms  42 ms  met
display <map>      1     299  10 ms   66 ms     66 ms    0 ns      0 ns     19 ms  47 ms  met

3 of 3 tasks meet every deadline; 42.4 % of the processor is used
analysis: rms, full preemption between levels, one thread per level
";

/// Runs `isorb sched` on a file of that text, from the file's folder.
fn sched(folder: &TempFolder, text: &str, args: &[&str]) -> Ended {
    std::fs::write(folder.path().join("s.toml"), text).unwrap();
    ended(Command::new(ISORB).arg("sched").args(args).current_dir(folder.path()))
}

#[test]
fn a_schedule_that_holds() {
    let folder = TempFolder::new();
    let (code, out, error) = sched(&folder, GOOD, &["check", "s.toml"]);
    assert_eq!((code, &*error), (Some(0), ""));
    assert_eq!(out, TABLE);
    let (code, out, _) = sched(&folder, GOOD, &["check", "--margins", "s.toml"]);
    assert_eq!(code, Some(0));
    assert!(out.contains("every deadline holds with all costs x1."), "{out}");
    assert!(out.contains("with the cost of filter alone x"), "{out}");
}

#[test]
fn a_schedule_that_does_not() {
    let folder = TempFolder::new();
    let dear = GOOD.replace("10 ms", "50 ms");
    let (code, out, error) = sched(&folder, &dear, &["check", "s.toml"]);
    assert_eq!((code, &*error), (Some(1), ""));
    assert!(out.contains("error: display <map>: its response is unbounded, its deadline 66 ms"), "{out}");
    assert!(out.contains("fatal: the tasks ask for 103.0 % of the processor: display <map> 75.8 %, navigate 21.2 %, imu 6.1 %"), "{out}");
    let (code, _, error) = sched(&folder, &GOOD.replace("[\"imu\"]", "[\"gps\"]"), &["check", "s.toml"]);
    assert_eq!(code, Some(2));
    assert_eq!(error, "isorb: s.toml:13: navigate: it depends on an operation that does not exist: gps\n");
    let (code, _, error) = sched(&folder, GOOD, &["check", "absent.toml"]);
    assert_eq!(code, Some(2));
    assert!(error.contains("'absent.toml' for '<FILE>': No such file"), "{error}");
    assert_eq!(sched(&folder, GOOD, &["check", "--policy", "fifo", "s.toml"]).0, Some(2));
}

/// Thirty operations would be 2^30 tasks: an answer, not a machine without memory.
#[test]
fn a_graph_of_too_many_ways_is_refused_by_name_and_number() {
    let folder = TempFolder::new();
    let mut text = "[[operation]]\nname = \"op0\"\ncost = \"1 us\"\nperiod = \"1 s\"\n".to_owned();
    for at in 1..=30 {
        let on = at - 1;
        text.push_str(&format!(
            "[[operation]]\nname = \"op{at}\"\ncost = \"1 us\"\nafter = [\"op{on}\", \"op{on}\"]\n"
        ));
    }
    let (code, _, error) = sched(&folder, &text, &["check", "s.toml"]);
    assert_eq!(code, Some(2), "{error}");
    assert!(
        error.starts_with("isorb: s.toml:") && error.contains(": op14: 16384 streams release it"),
        "{error}"
    );
}

/// The policies order tasks differently: these sets are schedulable under some and not under
/// others.
#[test]
fn the_policy_decides() {
    let folder = TempFolder::new();
    let operation = |(name, cost, period, deadline, criticality): (&str, u32, u32, u32, &str)| {
        format!(
            "[[operation]]\nname = \"{name}\"\ncost = \"{cost} ms\"\nperiod = \"{period} ms\"\n\
             deadline = \"{deadline} ms\"\ncriticality = \"{criticality}\"\n"
        )
    };
    let set = |operations: [_; 3]| format!("priorities = [1, 99]\n{}", operations.map(operation).concat());
    // The slowest one has the nearest deadline. A task that shares a thread waits for one other,
    // not for both.
    let near = set([("a", 3, 100, 15, "medium"), ("b", 8, 40, 40, "medium"), ("c", 8, 50, 50, "medium")]);
    // The slower ones matter more, and together take the time that the faster one has.
    let critical = set([("a", 15, 100, 100, "high"), ("b", 15, 100, 100, "high"), ("c", 15, 40, 40, "low")]);
    let table = [
        (&near, "rms", 1),
        (&near, "dm", 0),
        (&near, "edf", 0),
        (&near, "mlf", 0),
        (&critical, "criticality", 1),
        (&critical, "muf", 1),
        (&critical, "edf", 0),
        (&critical, "rms", 0),
    ];
    for (text, policy, wanted) in table {
        let (code, out, error) = sched(&folder, text, &["check", "--policy", policy, "s.toml"]);
        assert_eq!((code, &*error), (Some(wanted), ""), "{policy}: {text}{out}");
        assert!(out.contains(&format!("\nanalysis: {policy}, ")), "{policy}: {out}");
        assert_eq!(out.matches("  met").count() == 3, wanted == 0, "{policy}: {out}");
    }
}

#[test]
fn a_timeline_is_drawn() {
    let folder = TempFolder::new();
    let (code, out, error) = sched(&folder, GOOD, &["plot", "s.toml"]);
    assert_eq!((code, &*out, &*error), (Some(0), "s.html\n", ""));
    let page = std::fs::read_to_string(folder.path().join("s.html")).unwrap();
    assert!(page.contains("every deadline is met") && page.ends_with("</html>\n"));
    assert!(
        page.contains("display &lt;map&gt; #0: 9 ms to 19 ms, response 19 ms, arrived 0 ns, deadline 66 ms"),
        "{page}"
    );
    // What is released runs after what releases it.
    assert!(page.contains("navigate #0: 2 ms to 9 ms"));
    assert!(!page.contains("http"), "nothing is fetched");

    let dear = GOOD.replace("10 ms", "50 ms");
    let (code, out, _) = sched(&folder, &dear, &["plot", "--span", "140 ms", "--out", "late.html", "s.toml"]);
    assert_eq!((code, &*out), (Some(1), "late.html\n"));
    let page = std::fs::read_to_string(folder.path().join("late.html")).unwrap();
    assert!(page.contains("deadlines cannot be met") && page.contains(", missed\"/>"));
    assert_eq!(sched(&folder, GOOD, &["plot", "--out", "absent/x.html", "s.toml"]).0, Some(2));
}

#[test]
fn the_timeline_zooms_by_buttons_keys_and_fingers() {
    let folder = TempFolder::new();
    let dear = GOOD.replace("10 ms", "50 ms");
    assert_eq!(sched(&folder, &dear, &["plot", "--span", "700 ms", "s.toml"]).0, Some(1));
    let Some(mut browser) = Browser::start_or_skip() else { return };
    browser.open(&format!("file://{}", folder.path().join("s.html").display()));
    let viewport = "return document.querySelector('meta[name=viewport]').content";
    assert_eq!(browser.run(viewport), "width=device-width, initial-scale=1");
    browser.look(360, false);
    let legend =
        browser.run("return [...document.querySelectorAll('.legend li')].map((li) => li.textContent)");
    let signs = ["runs", "runs, and will be late", "arrival", "deadline", "missed deadline"];
    assert_eq!(legend, serde_json::json!(signs));

    let state = "return [Number(view.dataset.scale), view.scrollLeft, runs.getBoundingClientRect().width]";
    let state = |browser: &mut Browser| {
        let state = browser.run(state);
        [0, 1, 2].map(|at| state[at].as_f64().unwrap())
    };
    let [scale, left, width] = state(&mut browser);
    assert_eq!((scale, left), (1.0, 0.0));
    let push = |text: &str| {
        format!(
            "[...document.querySelectorAll('#tools button')].find((b) => b.textContent === '{text}').click()"
        )
    };
    browser.run(&push("+"));
    let [scale, left, wider] = state(&mut browser);
    assert!(scale > 1.5 && left > 0.0 && (wider / width - scale).abs() < 0.05, "{scale}, {left}, {wider}");
    browser.run(&push("All"));
    assert_eq!(state(&mut browser)[0], 1.0);
    browser.run(&push("Next missed deadline"));
    let seen = "const box = view.getBoundingClientRect();
        return [...document.querySelectorAll('#runs .deadline.late')].some((late) => {
          const { left, right } = late.getBoundingClientRect();
          return left > box.left && right < box.right;
        })";
    assert_eq!(browser.run(seen), true);
    browser.run("view.focus()");
    browser.key("0");
    wait_until("the key shows all", || state(&mut browser)[0] == 1.0);
    let y = browser.run("return view.getBoundingClientRect().top + 50").as_f64().unwrap();
    browser.touch(&[&[(220.0, y), (280.0, y)], &[(200.0, y), (300.0, y)], &[(180.0, y), (330.0, y)]]);
    wait_until("the pinch zooms", || state(&mut browser)[0] > 1.5);
    let run = "const run = [...document.querySelectorAll('#runs .run')].find((run) => {
          const { left, width } = run.getBoundingClientRect();
          return left > view.getBoundingClientRect().left && left + width < innerWidth;
        });
        const { left, top, width } = run.getBoundingClientRect();
        return [left + width / 2, top + 9, run.dataset.t]";
    let run = browser.run(run);
    browser.touch(&[&[(run[0].as_f64().unwrap(), run[1].as_f64().unwrap())]]);
    wait_until("a tap shows the run's numbers", || {
        browser.run("return tip.hidden ? '' : tip.textContent") == run[2]
    });
    browser.run("showTip(null); all()");
    browser.check_looks("sched");
    assert_eq!(browser.console(), Vec::<serde_json::Value>::new());
}

#[test]
fn the_verdict_says_which_analysis_was_made() {
    let folder = TempFolder::new();
    let edf = GOOD.replace("rms", "edf");
    let (_, out, error) = sched(&folder, &edf, &["check", "s.toml"]);
    assert!(out.contains("analysis: edf, one thread for all tasks, so that none preempts another"), "{out}");
    assert_eq!(error, "");
    let preemptive = format!("one_thread_per_level = false\n{edf}");
    let (_, out, error) = sched(&folder, &preemptive, &["check", "s.toml"]);
    assert!(out.contains("analysis: edf, full preemption, also within a level"), "{out}");
    assert_eq!(error, "");
    // The key's old name.
    let (_, old, error) = sched(&folder, &format!("turns = false\n{edf}"), &["check", "s.toml"]);
    assert_eq!(
        (old, &*error),
        (out, "isorb: warning: s.toml:1: turns is called one_thread_per_level now; rename the key\n")
    );
    let both = format!("turns = false\n{preemptive}");
    assert_eq!(sched(&folder, &both, &["check", "s.toml"]).0, Some(2));
}

#[test]
fn operations_are_placed_on_processors() {
    let folder = TempFolder::new();
    let busy = GOOD.replace("cost = \"10 ms\"", "cost = \"60 ms\"");
    assert_eq!(sched(&folder, &busy, &["check", "s.toml"]).0, Some(1));
    let (code, out, error) = sched(&folder, &busy, &["check", "--processors", "2", "s.toml"]);
    assert_eq!((code, &*error), (Some(0), ""), "{out}");
    let (first, second) = out.split_once("processor 1\n").unwrap();
    assert!(first.starts_with("processor 0\n") && first.contains("display <map>"), "{out}");
    assert!(second.contains("navigate") && !second.contains("display"), "{out}");

    let more = format!("{busy}\n[[operation]]\nname = \"video\"\ncost = \"50 ms\"\nperiod = \"66 ms\"\n");
    let (code, out, _) = sched(&folder, &more, &["check", "--processors", "2", "s.toml"]);
    assert_eq!(code, Some(1));
    let refused =
        "\nrefused: imu, navigate, filter cannot be admitted on any of 2 processors: on processor 0, ";
    assert!(out.contains(refused), "{out}");
    let (code, _, error) = sched(&folder, GOOD, &["check", "--processors", "0", "s.toml"]);
    assert!(code == Some(2) && error.contains("--processors"), "{error}");
}

/// The page's example of a federation, with schedules of its channels.
#[test]
fn a_federation_that_holds_and_one_that_does_not() {
    let folder = TempFolder::new();
    let page = include_str!("../../../docs/guides/federation.md");
    let from = page.find("```toml\n").unwrap() + 8;
    let text = &page[from..from + page[from..].find("```").unwrap()];
    let operation = |name: &str, cost: &str, more: &str| {
        format!("priorities = [100, 30000]\n[[operation]]\nname = '{name}'\ncost = '{cost}'\n{more}")
    };
    std::fs::write(folder.file("radar.toml"), operation("imu", "1 ms", "period = '20 ms'")).unwrap();
    let show = |deadline: &str| {
        let text = operation("show", "2 ms", &format!("deadline = '{deadline}'"));
        std::fs::write(folder.file("display.toml"), text).unwrap();
    };
    show("15 ms");
    let (code, out, error) = sched(&folder, text, &["federation", "s.toml"]);
    assert_eq!((code, &*error), (Some(0), ""), "{out}");
    // As the page shows.
    let from = page.find("$ isorb sched federation").unwrap();
    let shown = page[from..].lines().skip(1).take_while(|line| *line != "```");
    for line in shown {
        assert!(out.contains(line), "{line} is not in\n{out}");
    }
    show("3 ms");
    let (code, out, _) = sched(&folder, text, &["federation", "s.toml"]);
    assert_eq!(code, Some(1));
    assert!(out.contains("refused: display/show: event radar/imu of radar/imu takes up to "), "{out}");
    std::fs::remove_file(folder.file("radar.toml")).unwrap();
    let (code, _, error) = sched(&folder, text, &["federation", "s.toml"]);
    assert_eq!(code, Some(2));
    assert!(error.contains("s.toml:3: radar.toml: No such file"), "{error}");
}
