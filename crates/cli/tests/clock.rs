//! The clock of the day may be set, in either direction, at any time: no thread of a service waits
//! by it. Every wait of each service is listed, while a client calls.

mod common;

use common::{ISORB, Service};
use isorb::{Config, Orb};
use isorb_reflective_memory::Library;
use isorb_testkit::{TempFolder, wait_until};
use std::path::Path;
use std::process::{Command, Stdio};

/// The system calls that wait until a time, or set an alarm.
const WAITS: &str = "trace=futex,nanosleep,clock_nanosleep,timer_create,timerfd_create,timerfd_settime,\
                     setitimer,alarm,mq_timedreceive,semtimedop";

const SERVICES: [&[&str]; 7] = [
    &["naming", "--memory", "--port", "0"],
    &["event-channel", "--real-time", "off", "--port", "0"],
    &["scheduler", "--port", "0"],
    &["memory-coordinator", "--memory", "--port", "0"],
    &["memory-server", "--socket", "s"],
    &["log-service", "--memory", "--port", "0"],
    &["imr", "serve", "--memory", "--port", "0"],
];

/// A command under strace, which lists its waits in a file. strace is the grandchild, so that the
/// program is the child.
fn listed(log: &Path, program: &str, args: &[&str]) -> Command {
    let mut command = Command::new("strace");
    command.args(["-D", "-I2", "-f", "-qq", "-e", WAITS, "-o"]).arg(log).args(["--", program]).args(args);
    command
}

/// Whether a line is a wait by the clock of the day. A lock with inheritance waits by it unless it
/// is of the second kind, `FUTEX_LOCK_PI2`.
fn is_by_the_day(line: &str) -> bool {
    let lock = line.split_once("FUTEX_LOCK_PI").map(|(_, rest)| rest.trim_start_matches("_PRIVATE"));
    // A wait for the end of a thread names the clock, and has no time.
    let names_it = line.contains("CLOCK_REALTIME") && (line.contains("tv_sec") || line.contains("_create("));
    names_it || lock.is_some_and(|rest| rest.starts_with(", {"))
}

fn read(log: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(log).unwrap_or_default()).into_owned()
}

#[test]
fn no_thread_waits_by_the_clock_of_the_day() {
    if Command::new("strace").arg("-V").stdout(Stdio::null()).status().is_err() {
        println!("skipped: strace is not installed (apt-get install strace)");
        return;
    }
    let folder = TempFolder::new();
    // A program that does, so that the listing would show it.
    let log = folder.file("control");
    assert!(listed(&log, "sleep", &["0.01"]).status().unwrap().success());
    wait_until("the control's wait is listed", || read(&log).lines().any(is_by_the_day));
    assert!(is_by_the_day("7 futex(0x7f, FUTEX_LOCK_PI_PRIVATE, {tv_sec=1, tv_nsec=0}) = 0"));
    assert!(!is_by_the_day("7 futex(0x7f, FUTEX_LOCK_PI_PRIVATE, NULL) = 0"));
    assert!(!is_by_the_day("7 futex(0x7f, FUTEX_LOCK_PI2_PRIVATE, {tv_sec=1, tv_nsec=0}) = 0"));

    let client = Orb::with_config(Config::default()).unwrap();
    for service in SERVICES {
        let log = folder.file(service[0]);
        let running = Service::of(listed(&log, ISORB, service).current_dir(folder.path()));
        if service[0] == "memory-server" {
            Library::connect(&client, folder.file("s")).unwrap().list_areas().unwrap();
        } else {
            let object = client.string_to_object(&running.url).unwrap();
            assert!(!object.non_existent().unwrap(), "{}", running.url);
        }
        // Threads that have nothing to do wait for their next work.
        wait_until("waits with a limit are listed", || {
            read(&log).lines().any(|line| line.contains("FUTEX_WAIT") && line.contains("tv_sec"))
        });
        let text = read(&log);
        let wrong: Vec<&str> = text.lines().filter(|line| is_by_the_day(line)).collect();
        assert!(wrong.is_empty(), "{service:?}: {wrong:?}");
    }
    client.shutdown(true).unwrap();
}
