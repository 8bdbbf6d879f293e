//! `isorb sched` as a user runs it.

mod common;

use common::{Ended, Folder, ISORB, ended};
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

3 of 3 tasks meet every deadline; 42.4 % of the processor is asked for (rms, full preemption)
";

/// Runs `isorb sched` on a file of that text, from the file's folder.
fn sched(folder: &Folder, text: &str, args: &[&str]) -> Ended {
    std::fs::write(folder.path().join("s.toml"), text).unwrap();
    ended(Command::new(ISORB).arg("sched").args(args).current_dir(folder.path()))
}

#[test]
fn a_schedule_that_holds() {
    let folder = Folder::new("holds");
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
    let folder = Folder::new("not");
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
    assert!(error.starts_with("isorb: absent.toml: "), "{error}");
    assert_eq!(sched(&folder, GOOD, &["check", "--policy", "fifo", "s.toml"]).0, Some(2));
}

#[test]
fn a_timeline_is_drawn() {
    let folder = Folder::new("plot");
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
