//! The commands of reflective memory: quality of service on the command line, and lists of readers
//! and writers.

mod common;

use common::{Service, run, unread};
use isorb_testkit::{Process, TempFolder, retry};

fn memory(args: &[&str]) -> (bool, String, String) {
    let (code, output, error) = run(&[&["memory"], args].concat());
    (code == Some(0), output, error)
}

/// Repeats a command until its output is as expected.
fn until(what: &str, args: &[&str], expected: impl Fn(&str) -> bool) {
    retry(what, || {
        let (_, output, error) = memory(args);
        if expected(&output) { Ok(()) } else { Err(output + &error) }
    });
}

#[test]
fn the_command_line_has_quality_of_service_and_lists_readers() {
    let folder = TempFolder::new();
    let (a, b) = (folder.text("a"), folder.text("b"));
    let coordinator = Service::start(&["memory-coordinator", "--port", "0", "--memory"]);
    let serve = |name: &str, socket: &str, dispatchers: &str| {
        let to = ["--coordinator", &coordinator.url, "--dispatchers", dispatchers];
        Service::start(&[&["memory-server", "--name", name, "--socket", socket][..], &to[..]].concat())
    };
    let (_near, far) = (serve("a", &a, "3"), serve("b", &b, "2"));

    // A writer that goes on, by its promise; as many areas as the servers have threads, and more.
    let names: Vec<String> = (0..5).map(|i| format!("line/{i}")).collect();
    let write = |name: &String| {
        unread(&["memory", "--socket", &a, "write", name, "on", "--create", "64", "--period", "20"])
    };
    let writers: Vec<Process> = names.iter().map(write).collect();
    for name in &names {
        until("it is written", &["--socket", &a, "dump", name, "--raw"], |output| output == "on");
    }
    // Every path brings values, with a guarantee where it can be had.
    for (name, requested) in names.iter().zip([
        &["--guaranteed", "--soft", "--deadline", "1000"][..],
        &["--path", "orb", "--histories", "2"],
        &["--path", "oneway"],
        &["--every", "40", "--parity", "2"],
        &["--deadline", "5000"],
    ]) {
        let watch = [&["--socket", &b, "watch", name, "--count", "4"][..], requested].concat();
        let (good, output, error) = memory(&watch);
        assert!(good && output.lines().filter(|line| line.contains("6f 6e")).count() == 4, "{output}{error}");
    }
    let (good, _, error) =
        memory(&["--socket", &b, "watch", "line/0", "--guaranteed", "--soft", "--deadline", "0.001"]);
    assert!(
        !good && error.contains("would admit a period of"),
        "the refusal says what would be admitted: {error}"
    );
    for wrong in [["--every", "0"], ["--deadline", "nan"], ["--every", "1e12"]] {
        let (good, _, error) = memory(&[&["--socket", &b, "watch", "line/0"][..], &wrong[..]].concat());
        assert!(!good && error.contains("milliseconds"), "{error}");
    }

    // Both ends list the reader, and the coordinator lists it for all nodes.
    let reader =
        ["memory", "--socket", &b, "watch", "line/0", "--guaranteed", "--soft", "--deadline", "1000"];
    let reader = unread(&reader);
    until("the writer's node", &["--socket", &a, "ls"], |output| {
        let line = output.lines().find(|line| line.starts_with("line/0 ")).unwrap_or_default();
        line.contains("written every 20 ms") && line.contains("guaranteed to b") && !line.contains(" 0.0/s")
    });
    // Another reader with other requirements has a replica of its own, and each has its own rate.
    let every = unread(&["memory", "--socket", &b, "watch", "line/0", "--every", "500"]);
    until("two replicas of one area", &["--socket", &b, "ls", "--over", "1000"], |output| {
        let rate =
            |line: &str| line.split_whitespace().find_map(|word| word.strip_suffix("/s")?.parse().ok());
        let rates: Vec<f64> =
            output.lines().filter(|line| line.starts_with("line/0 ")).filter_map(rate).collect();
        rates.len() == 2 && rates.iter().all(|rate| (1.0..100.0).contains(rate)) && rates[0] > 4.0 * rates[1]
    });
    drop(every);
    until("the reader's node", &["--socket", &b, "ls"], |output| {
        let line = output.lines().find(|line| line.starts_with("line/0 ")).unwrap_or_default();
        ["elsewhere", " soft ", "1 readers", "within 1000 ms: missed", "lost "]
            .iter()
            .all(|word| line.contains(word))
    });
    until("all nodes", &["--coordinator", &coordinator.url, "ls", "--over", "0"], |output| {
        output.contains("node a") && output.contains("guaranteed to b") && output.contains("elsewhere")
    });
    let (_, output, _) = memory(&["--socket", &a, "ls", "--limit", "2", "--over", "0"]);
    assert!(output.lines().count() == 3 && output.contains("3 more"), "{output}");
    drop(reader);
    until("there are no readers", &["--socket", &a, "ls"], |output| !output.contains("guaranteed to"));
    drop(writers);
    until("there are no writers", &["--socket", &a, "ls"], |output| {
        output.lines().filter(|line| line.contains("no writer")).count() == names.len()
    });
    drop(far);
    until("a node is gone", &["--coordinator", &coordinator.url, "ls", "--over", "0"], |output| {
        !output.contains("node b") || output.contains("does not answer")
    });
}

#[test]
fn lines_are_written_one_a_period() {
    let folder = TempFolder::new();
    let a = folder.text("a");
    let coordinator = Service::start(&["memory-coordinator", "--port", "0", "--memory"]);
    let _near =
        Service::start(&["memory-server", "--name", "a", "--socket", &a, "--coordinator", &coordinator.url]);
    let file = folder.text("lines");
    std::fs::write(&file, "01 02\n03\nzz\n").unwrap();
    let write = |count: &str| {
        let args = [
            "memory", "--socket", &a, "write", "x", "--hex", "--create", "8", "--period", "1", "--count",
            count,
        ];
        let mut command = std::process::Command::new(common::ISORB);
        common::ended(command.args(args).stdin(std::fs::File::open(&file).unwrap()))
    };
    let (code, output, error) = write("2");
    assert!(code == Some(0) && output == "1\n2\n", "{output}{error}");
    let (_, output, _) = memory(&["--socket", &a, "dump", "x"]);
    assert!(output.starts_with("00000000  03 "), "{output}");
    let (good, _, error) = memory(&["--socket", &a, "write", "x", "zz", "--hex"]);
    assert!(!good && error.contains("hexadecimal"), "{error}");
    let (good, _, error) = memory(&["--socket", &a, "write", "x", "1", "--count", "3"]);
    assert!(!good && error.contains("--period"), "{error}");
}

/// A reader with another IDL type printed nonsense and ended well.
#[test]
fn values_are_shown_by_the_type_of_their_area_only() {
    let folder = TempFolder::new();
    let (a, idl) = (folder.text("a"), folder.text("plant.idl"));
    let _server = Service::start(&["memory-server", "--name", "a", "--socket", &a]);
    std::fs::write(&idl, "module Plant { struct P { double bar; long at; }; struct Q { float bar; }; };")
        .unwrap();
    let typed = |action: &[&str], name: &str| {
        memory(&[&["--socket", &a], action, &["--idl", &idl, "--type", name]].concat())
    };
    let value = r#"{"bar": 3.5, "at": 7}"#;
    let (good, _, error) = typed(&["write", "p", value, "--create", "64"], "Plant::P");
    assert!(good, "{error}");
    let (good, output, error) = typed(&["dump", "p"], "Plant::P");
    assert!(good && output.contains("3.5"), "{output}{error}");
    for action in [&["dump", "p"][..], &["watch", "p", "--count", "1"], &["write", "p", r#"{"bar": 1}"#]] {
        let (good, output, error) = typed(action, "Plant::Q");
        assert!(
            !good && error.contains("IDL:Plant/P:1.0, and IDL:Plant/Q:1.0 was expected"),
            "{output}{error}"
        );
    }
    std::fs::write(&idl, "module Plant { struct P { double bar; short at; }; };").unwrap();
    let (good, output, error) = typed(&["dump", "p"], "Plant::P");
    assert!(!good && error.contains("`long at` there and `short at` here"), "{output}{error}");
    let (good, output, _) = memory(&["--socket", &a, "dump", "p"]);
    assert!(good && output.starts_with("00000000  00 00 00 00 00 00 0c 40"), "{output}");
    let (_, output, _) = memory(&["--socket", &a, "ls", "--over", "0"]);
    assert!(output.contains("of IDL:Plant/P:1.0"), "{output}");
    // An area of octets is read by the type that the user names.
    assert!(memory(&["--socket", &a, "write", "octets", "12345678", "--create", "64"]).0);
    std::fs::write(&idl, "module Plant { typedef octet Eight[8]; };").unwrap();
    assert!(typed(&["dump", "octets"], "Plant::Eight").0);
}

/// The coordinator, the servers, the writer and the reader are started in the wrong order, and the
/// writer twice.
#[test]
fn programs_start_in_any_order() {
    let folder = TempFolder::new();
    let (a, b) = (folder.text("a"), folder.text("b"));
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let url = format!("corbaloc::1.2@127.0.0.1:{port}/ReflectiveMemory");
    let mut reader =
        Process::start(&mut common::isorb(&["memory", "--socket", &b, "watch", "x", "--count", "2"]));
    let serve = |name: &str, socket: &str| {
        Service::start(&["memory-server", "--name", name, "--socket", socket, "--coordinator", &url])
    };
    let (_far, _near) = (serve("b", &b), serve("a", &a));
    let create = ["--socket", &a, "write", "x", "on", "--create", "64", "--timeout", "60000"];
    let first = std::thread::spawn({
        let create = create.map(str::to_owned);
        move || memory(&create.each_ref().map(String::as_str))
    });
    let _coordinator = Service::start(&["memory-coordinator", "--port", &port, "--memory"]);
    let (good, _, error) = first.join().unwrap();
    assert!(good, "{error}");
    // Between two writers a reader may report that the area is without one.
    let mut next_value = || {
        let mut lines = std::iter::from_fn(|| reader.next_line());
        lines.find(|line| !line.starts_with("-- ")).unwrap_or_default()
    };
    assert!(next_value().contains("6f 6e"));
    let (good, output, error) = memory(&create);
    assert!(good && output == "2\n", "the same program starts again: {output}{error}");
    assert!(next_value().contains("6f 6e"));
    assert!(reader.finish().success());

    // An area is written and destroyed at its own node, and the message names that node.
    for action in [&["write", "x", "on", "--timeout", "1"][..], &["destroy", "x"]] {
        let (good, _, error) = memory(&[&["--socket", &b][..], action].concat());
        assert!(!good && error.contains("on the node a"), "{error}");
    }
    let (good, _, error) = memory(&["--socket", &a, "destroy", "x"]);
    assert!(good, "{error}");
    let (good, _, error) = memory(&["--socket", &b, "watch", "x", "--timeout", "1"]);
    assert!(!good && error.contains("there is no area x"), "{error}");
}

#[test]
fn costs_of_agents_are_measured_set_and_used_for_admission() {
    let (code, output, error) = run(&["memory-server", "--measure-costs"]);
    let option: Vec<&str> = output.split_whitespace().collect();
    assert!(code == Some(0) && option.len() == 2 && option[0] == "--costs", "{output}{error}");

    let folder = TempFolder::new();
    let coordinator = Service::start(&["memory-coordinator", "--port", "0", "--memory"]);
    let serve = |name: &str, costs: &str| {
        let socket = folder.text(name);
        let to = ["--coordinator", &coordinator.url, "--costs", costs];
        (
            Service::start(&[&["memory-server", "--name", name, "--socket", &socket][..], &to[..]].concat()),
            socket,
        )
    };
    let (_near, near) = serve("near", option[1]);
    let (_far, far) = serve("far", "measure");
    let (_slow, slow) = serve("slow", "push=1,datagram=900000000,kib=1");
    let _writer =
        unread(&["memory", "--socket", &near, "write", "line", "on", "--create", "64", "--period", "1000"]);
    until("it is written", &["--socket", &near, "dump", "line", "--raw"], |output| output == "on");
    let request = ["watch", "line", "--count", "1", "--guaranteed", "--soft", "--deadline", "900"];
    let (good, output, error) = memory(&[&["--socket", &far][..], &request].concat());
    assert!(good && output.contains("6f 6e"), "{output}{error}");
    let (good, _, error) = memory(&[&["--socket", &slow][..], &request].concat());
    assert!(!good && error.contains("node slow") && error.contains("would admit"), "{error}");

    let (code, _, error) = run(&["memory-server", "--costs", "push=1,kib=1"]);
    assert!(code == Some(2) && error.contains("datagram is missing"), "{error}");
}
