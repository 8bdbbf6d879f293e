//! Every command that takes a schedule or options refuses bad ones before it starts, and names the
//! fault.

mod common;

use common::run;
use isorb_testkit::TempFolder;

/// Files that cannot be scheduled, and what is said of them.
const SCHEDULES: [(&str, &str); 8] = [
    (
        "[[operation]]\nname = 'radar'\ncost = '1 ms'\nperiod = '5 ms'\nafter = ['sonar']",
        "s.toml:5: radar: it depends on an operation that does not exist: sonar",
    ),
    (
        "[[operation]]\nname = 'radar'\ncost = '1 ms'\nperiod = '5 ms'\ncalls = ['sonar']",
        "s.toml:5: radar: it depends on an operation that does not exist: sonar",
    ),
    (
        "[[operation]]\nname = 'a'\ncost = '1 ms'\nafter = ['b']\n[[operation]]\nname = 'b'\ncost = '1 ms'\nafter = ['a']",
        "s.toml:2: a: it depends on itself: a -> b -> a",
    ),
    (
        "[[operation]]\nname = 'radar'\ncost = '1 ms'\nperiod = '0'",
        "s.toml:2: radar: its period is zero, and no operation releases or calls it",
    ),
    (
        "[[operation]]\nname = 'radar'\ncost = '0'\nperiod = '5 ms'",
        "s.toml:2: radar: its worst-case cost is zero",
    ),
    (
        "[[operation]]\nname = 'radar'\ncost = '3 ms'\nperiod = '9 ms'\ndeadline = '2 ms'",
        "s.toml:2: radar: its deadline of 2 ms is shorter than its cost of 3 ms",
    ),
    (
        "[[operation]]\nname = 'radar'\ncost = '3'\nperiod = '9 ms'",
        "s.toml:3: a time is a number and a unit of s, ms, us or ns",
    ),
    ("[[operation]]\nname = 'radar'\ncots = '3 ms'\nperiod = '9 ms'", "s.toml:3: "),
];

/// What takes a schedule file, and how it ends where that cannot be scheduled.
const COMMANDS: [(&[&str], i32); 4] = [
    (&["sched", "check"], 2),
    (&["sched", "plot"], 2),
    (&["scheduler", "--schedule"], 1),
    (&["event-channel", "--real-time", "off", "--schedule"], 1),
];

#[test]
fn every_command_names_the_fault_of_a_schedule() {
    let folder = TempFolder::new();
    let file = folder.text("s.toml");
    for (text, message) in SCHEDULES {
        std::fs::write(&file, text).unwrap();
        for (command, wanted) in COMMANDS {
            let (code, out, error) = run(&[command, &[&file]].concat());
            assert_eq!((code, &*out), (Some(wanted), ""), "{command:?} of {text}: {error}");
            assert!(error.contains(message), "{command:?} of {text}: {error}");
        }
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing was drawn");
}

/// More than there is: a table and a picture say so, and nothing serves it.
#[test]
fn more_than_the_processor_has_is_named_with_its_shares() {
    let folder = TempFolder::new();
    let file = folder.text("s.toml");
    let text = "[[operation]]\nname = 'radar'\ncost = '3 ms'\nperiod = '5 ms'\n\
        [[operation]]\nname = 'video'\ncost = '20 ms'\nperiod = '40 ms'\n";
    std::fs::write(&file, text).unwrap();
    let message = "the tasks ask for 110.0 % of the processor: radar 60.0 %, video 50.0 %";
    let (code, out, error) = run(&["sched", "check", &file]);
    assert_eq!((code, &*error), (Some(1), ""));
    assert!(out.contains(message) && out.contains("1 of 2 tasks meet every deadline"), "{out}");
    let page = folder.text("s.html");
    assert_eq!(run(&["sched", "plot", "--out", &page, &file]).0, Some(1));
    assert!(std::fs::read_to_string(&page).unwrap().contains("deadlines cannot be met"));
    for (command, _) in &COMMANDS[2..] {
        let (code, out, error) = run(&[*command, &[&*file]].concat());
        assert_eq!((code, &*out), (Some(1), ""), "{command:?}");
        assert!(error.contains(&format!("s.toml:1: {message}")), "{command:?}: {error}");
    }
}

/// Options of a channel that make no sense, or ask for more than a process can have.
#[test]
fn faults_of_a_channels_options_are_named() {
    let cases: [(&[&str], &str); 19] = [
        (&["--threads", "0", "--dispatching", "threads"], "0 is not in 1..=64"),
        (&["--threads", "65", "--dispatching", "threads"], "65 is not in 1..=64"),
        (&["--push-threads", "65"], "65 is not in 0..=64"),
        (&["--queue", "0"], "0 is not in 1..=1048576"),
        (&["--queue", "1048577"], "1048577 is not in 1..=1048576"),
        (&["--events", "0"], "0 is not in 1..=1048576"),
        (&["--payload", "67108865"], "67108865 is not in 0..=67108864"),
        (&["--configuration", "half"], "possible values: full, discriminator, filtering, broadcaster"),
        (&["--dispatching", "maybe"], "possible values: none, single, threads, upcalls"),
        (&["--full", "explode"], "possible values: drop-oldest, drop-newest, block, refuse"),
        (&["--overrun", "ignore"], "possible values: count, skip, demote, disconnect"),
        (&["--real-time", "maybe"], "real-time mode is none of: require, prefer, off"),
        (&["--schedule", "absent.toml"], "'absent.toml' for '--schedule <FILE>': No such file"),
        (&["--schedule", "Cargo.toml", "--scheduler", "x"], "cannot be used with"),
        (&["--join", "corbaloc::127.0.0.1:1/EventFederation"], "need --id"),
        (&["--id", "1", "--join", "nonsense"], "--join nonsense: "),
        (&["--id", "1", "--multicast", "10.0.0.1:5"], "give a group, as in 239.255.77.1:5001"),
        (&["--id", "1", "--udp", "10.0.0.1:5"], "give two addresses, as in 10.0.0.1:5001=10.0.0.2:5001"),
        (&["--id", "1", "--tick", "1"], "1 is not in 10..=86400000"),
    ];
    for (options, message) in cases {
        let (code, out, error) = run(&[&["event-channel"], options].concat());
        assert!(matches!(code, Some(1 | 2)), "{options:?}: {code:?}, {error}");
        assert_eq!(out, "", "{options:?}: it is not ready");
        assert!(error.contains(message), "{options:?}: {error}");
    }
}

/// Options of a node's server of reflective memory: among them a silence that would count nodes as
/// dead that live.
#[test]
fn faults_of_a_node_servers_options_are_named() {
    let cases: [(&[&str], &str); 14] = [
        (&["--silence", "100"], "a silence of 100ms after which a node counts as dead: give 200ms at least"),
        (&["--silence", "199"], "a silence of 199ms after which a node counts as dead: give 200ms at least"),
        (&["--silence", "0"], "give 200ms at least, two heartbeats, and 86400s at most"),
        (&["--silence", "18446744073709551615"], "and 86400s at most"),
        (&["--link", "0"], "0 is not in 1..=1000000"),
        (&["--dispatchers", "0"], "0 is not in 1..=64"),
        (&["--dispatchers", "65"], "65 is not in 1..=64"),
        (&["--priority", "40000"], "40000 is not in 0..=32767"),
        (&["--multicast", "10.0.0.1:5"], "10.0.0.1:5 and 16 groups from there must be multicast addresses"),
        (&["--multicast", "[ff12::77:1]:5"], "and 127.0.0.1:"),
        (&["--second", "192.0.2.1"], "cannot listen at 192.0.2.1:0"),
        (&["--publish", "nowhere"], "invalid IP address syntax"),
        (&["--costs", "push=much"], "--costs"),
        (&["--coordinator", "nonsense"], "nonsense"),
    ];
    let folder = TempFolder::new();
    let socket = folder.text("socket");
    for (options, message) in cases {
        let (code, out, error) = run(&[&["memory-server", "--socket", &socket], options].concat());
        assert!(matches!(code, Some(1 | 2)), "{options:?}: {code:?}, {error}");
        assert_eq!(out, "", "{options:?}: it is not ready");
        assert!(error.contains(message), "{options:?}: {error}");
    }
}

#[test]
fn reflective_memory_names_the_process_that_is_missing() {
    let folder = TempFolder::new();
    let socket = folder.text("node.socket");
    let now = ["--timeout", "0"];
    for what in [&["ls"][..], &["destroy", "radar"], &["watch", "radar", now[0], now[1]], &["dump", "radar"]]
    {
        let (code, out, error) = run(&[&["memory", "--socket", &socket], what].concat());
        assert_eq!((code, &*out), (Some(1), ""), "{what:?}: {error}");
        let message = error.contains(&socket) && error.contains("is `isorb memory-server` running");
        assert!(message, "{what:?}: {error}");
    }
    // Nothing listens at port 1.
    let url = "corbaloc::127.0.0.1:1/ReflectiveMemory";
    let (code, out, error) = run(&["memory", "ls", "--coordinator", url]);
    assert_eq!((code, &*out), (Some(1), ""), "{error}");
    assert!(error.contains(url) && error.contains("check that `isorb memory-coordinator` runs"), "{error}");
}

/// Wrong arguments of the ORB that it sees only when it is made, or opens its endpoints: errors of
/// usage like all others, before the command does anything.
#[test]
fn what_the_orb_refuses_is_an_error_of_usage() {
    let folder = TempFolder::new();
    let socket = folder.text("socket");
    let url = "corbaloc::127.0.0.1:1/X";
    let commands: [&[&str]; 11] = [
        &["naming", "--memory"],
        &["event-channel"],
        &["log-service", "--memory"],
        &["scheduler"],
        &["memory-server", "--socket", &socket],
        &["memory-coordinator", "--memory"],
        &["memory-holder", "--socket", &socket],
        &["call", url, "ping"],
        &["name", "ls"],
        &["event", "ls", url],
        &["imr", "ls"],
    ];
    let fault = |command: &[&str], options: &[&str]| {
        let (code, out, error) = run(&[command, options].concat());
        assert_eq!((code, &*out), (Some(2), ""), "{command:?} {options:?}: {error}");
        error
    };
    for command in commands {
        let error = fault(command, &["-ORBProtocols", "bogus"]);
        assert!(
            error.contains("bogus, which is no transport of this ORB; there are"),
            "{command:?}: {error}"
        );
    }
    for command in &commands[..4] {
        for host in ["0.0.0.0", "::"] {
            let error = fault(command, &["--host", host]);
            assert!(error.contains("-ORBPublish HOST"), "{command:?} {host}: {error}");
        }
        let error = fault(command, &["-ORBEndPoint", "giop:tcp:0.0.0.0:0;lane"]);
        assert!(error.contains("giop:tcp:0.0.0.0:0;lane listens at every address"), "{command:?}: {error}");
    }
    let server = &["memory-server", "--socket", &socket][..];
    assert!(fault(server, &["--host", "0.0.0.0"]).contains("-ORBPublish HOST"));
    let both = ["--publish", "127.0.0.1", "-ORBEndPoint", "127.0.0.1:0"];
    assert!(fault(server, &both).contains("--publish and --second"));
    assert!(fault(&["naming", "--memory"], &["--users", "Cargo.toml"]).contains("--users needs --tls"));
    assert!(fault(&["event-channel"], &["--real-time", "maybe"]).contains("--real-time: "));
}

#[test]
fn the_benchmark_is_another_program() {
    for arguments in [&["bench"][..], &["bench", "two-way", "--quick", "--json"], &["bench", "--help"]] {
        let (code, out, error) = run(arguments);
        assert_eq!((code, &*out, error.lines().count()), (Some(2), "", 1), "{error}");
        assert!(error.contains("cargo run --release -p isorb-bench -- "), "{error}");
    }
}

#[test]
fn an_unknown_level_of_log_records_is_refused_with_those_that_there_are() {
    for arguments in [["--log", "warn,isorb=loud", "naming"], ["naming", "--log", "warn,isorb=loud"]] {
        let (code, _, message) = run(&arguments);
        assert_eq!(code, Some(2), "{message}");
        assert!(message.contains("--log: 'isorb=loud' is no level of log records"), "{message}");
        assert!(message.contains("off, error, warn, info and debug"), "{message}");
    }
}
