//! The header `isorb_events.hpp` over omniORB's stubs: the example's consumer and supplier at a
//! channel that is killed and started again. Skipped with a sentence where omniORB's tools or a
//! compiler are missing.

mod common;

use common::{Service, isorb};
use isorb_testkit::{Process, TempFolder, compiles, omniorb_stubs, repository, wait_for, wait_until};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

const IDL: [&str; 5] =
    ["TimeBase", "RtecBase", "RtecEventComm", "RtecEventChannelAdmin", "IsorbRtecEventChannelAdmin"];

/// Builds both programs of the example; `None` where a tool is missing.
fn build(folder: &TempFolder) -> Option<[PathBuf; 2]> {
    build_each(folder, ["consumer", "supplier"].map(|name| format!("examples/events-omniorb/{name}.cc")))
}

/// Translates the IDL and builds programs, by their place in the repository.
fn build_each<const N: usize>(folder: &TempFolder, sources: [String; N]) -> Option<[PathBuf; N]> {
    let root = repository();
    let files = IDL.map(|name| root.join(format!("idl/{name}.idl")));
    let options = ["-I", "/usr/share/idl/omniORB"];
    if !omniorb_stubs(folder.path(), &options, &files.each_ref().map(|file| file.as_path())) {
        return None;
    }
    let programs = sources.map(|source| root.join(source));
    let name = |source: &Path| folder.path().join(source.file_stem().unwrap());
    for source in &programs {
        let mut command = Command::new("c++");
        // As the example's page says.
        command.args(["-std=c++17", "-O0", "-Wall", "-Wextra", "-Werror", "-isystem"]).arg(folder.path());
        command.args(["-D__corbaidl_hh_EXTERNAL_GUARD__", "-D__boxes_hh_EXTERNAL_GUARD__", "-I"]);
        command.arg(root.join("crates/event/include")).arg(source);
        command.args(IDL.map(|name| folder.file(format!("{name}SK.cc"))));
        command.args(["-lomniDynamic4", "-lomniORB4", "-lomnithread", "-lpthread", "-o"]).arg(name(source));
        if !compiles(&mut command) {
            return None;
        }
    }
    Some(programs.map(|source| name(&source)))
}

const ENDPOINT: [&str; 2] = ["-ORBendPoint", "giop:tcp:127.0.0.1:"];

/// Reads lines until one holds.
fn line_with(process: &mut Process, text: &str) -> String {
    std::iter::from_fn(|| process.next_line())
        .find(|line| line.contains(text))
        .unwrap_or_else(|| panic!("no {text}"))
}

#[test]
fn the_examples_consumer_and_supplier_outlive_the_channel() {
    let folder = TempFolder::new();
    let Some([consumer, supplier]) = build(&folder) else { return };
    // A port that is free twice: another program may take it between the two channels.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let channel = || Service::of(&mut isorb(&["event-channel", "--real-time", "off", "--port", &port]));
    let first = channel();
    let url = first.url.clone();
    // Standard error carries what the header notices.
    let start = |program: &Path| {
        let mut command = Command::new("sh");
        command.args(["-c", "exec \"$0\" \"$@\" 2>&1"]).arg(program).arg(&url).args(ENDPOINT);
        let mut process = Process::start(&mut command);
        process.expect_line("READY");
        process
    };
    let (mut display, mut gps) = (start(&consumer), start(&supplier));
    gps.write_line("one");
    assert_eq!(display.next_line().as_deref(), Some("one"));

    // Both notice that the channel ends, and the supplier tells which events it lost.
    drop(first);
    line_with(&mut display, "the event channel does not answer");
    line_with(&mut gps, "the event channel does not answer");
    gps.write_line("two");
    assert_eq!(line_with(&mut gps, "lost: "), "lost: two");
    let _second =
        wait_for("the port is free", || std::panic::catch_unwind(std::panic::AssertUnwindSafe(channel)).ok());
    line_with(&mut gps, "connected to the event channel again");
    line_with(&mut display, "connected to the event channel again");
    gps.write_line("three");
    // The consumer counts the lost one by the gap in the numbers.
    assert!(line_with(&mut display, "lost on their way").contains("1 events of type 16 and source 1"));
    assert_eq!(display.next_line().as_deref(), Some("three"));
    gps.close_input();
    assert_eq!(gps.next_line().as_deref(), Some("2 pushed, 1 lost"));
}

#[test]
fn a_channel_that_is_not_there_is_named() {
    let folder = TempFolder::new();
    let Some([consumer, _]) = build(&folder) else { return };
    let service = Service::of(&mut isorb(&["naming", "--memory", "--port", "0"]));
    let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let absent = format!("corbaloc::127.0.0.1:{unused}/EventService");
    for (url, what) in [(absent.as_str(), "no event channel at"), (&service.url, "is no event channel")] {
        let output = Command::new(&consumer).arg(url).args(ENDPOINT).output().unwrap();
        let printed = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && printed.contains(what) && printed.contains(url), "{printed}");
    }
}

#[test]
fn a_late_consumer_gets_the_history_that_satisfies_its_condition() {
    let folder = TempFolder::new();
    let Some([late]) = build_each(&folder, ["crates/cli/tests/files/late.cc".to_owned()]) else { return };
    let channel =
        Service::of(&mut isorb(&["event-channel", "--real-time", "off", "--port", "0", "--keep-last", "10"]));
    let start = |what: &str| {
        let mut command = Command::new(&late);
        command.arg(&channel.url).arg(what).args(ENDPOINT);
        Process::start(&mut command)
    };
    // All is in the history when the first consumer has it.
    let mut first = start("payload > 0");
    first.expect_line("READY");
    let mut supplier = start("push");
    supplier.expect_line("READY");
    (1..=9).for_each(|number| supplier.write_line(&number.to_string()));
    // What the history has may come before the program says that it is ready.
    let number = |process: &mut Process| {
        let mut lines = std::iter::from_fn(|| process.next_line());
        lines.find(|line| line != "READY").map(|line| line.parse::<u32>().unwrap())
    };
    // Threads of omniORB may serve two pushes at a time.
    let numbers = |process: &mut Process, count: usize| {
        (0..count).map(|_| number(process).unwrap()).collect::<std::collections::BTreeSet<u32>>()
    };
    assert!(numbers(&mut first, 9).into_iter().eq(1..=9));
    let mut second = start("payload > 6");
    assert!(numbers(&mut second, 3).into_iter().eq(7..=9));
    supplier.write_line("3");
    supplier.write_line("12");
    assert_eq!(number(&mut second), Some(12));
    // A condition that cannot be compiled shows where, and a channel without a history is named.
    let refused = |url: &str, condition: &str, what: &str| {
        let output = Command::new(&late).arg(url).arg(condition).args(ENDPOINT).output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(!output.status.success() && printed.contains(what), "{printed}");
    };
    refused(&channel.url, "payload > ", "the condition is refused: ");
    let plain = Service::of(&mut isorb(&["event-channel", "--real-time", "off", "--port", "0"]));
    refused(&plain.url, "payload > 1", "perhaps since it keeps no history (--keep-last)");
}

#[test]
fn a_weaker_supplier_is_heard_when_the_stronger_one_is_killed() {
    let folder = TempFolder::new();
    let Some([competing]) = build_each(&folder, ["crates/cli/tests/files/competing.cc".to_owned()]) else {
        return;
    };
    let channel = Service::of(&mut isorb(&["event-channel", "--real-time", "off", "--port", "0"]));
    let start = |strength: &str| {
        let mut command = Command::new(&competing);
        command.arg(&channel.url).arg(strength).args(ENDPOINT);
        let mut process = Process::start(&mut command);
        process.expect_line("READY");
        process
    };
    let (mut weak, mut strong) = (start("1"), start("2"));
    let push = |supplier: &mut Process| {
        supplier.write_line("x");
        supplier.next_line().unwrap()
    };
    assert_eq!(push(&mut weak), "heard");
    // The machine may be so slow that the lease is over.
    wait_until("the weaker one is dropped", || {
        assert_eq!(push(&mut strong), "heard");
        push(&mut weak) == "dropped"
    });
    strong.kill();
    wait_until("the weaker one is heard", || push(&mut weak) == "heard");
}
