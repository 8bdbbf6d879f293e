//! The clock of the day of each service is set by days and years while clients use it, by a library
//! that is loaded into the process. What was written is read, writes go on, registrations stay, and
//! no thread begins to spin.

mod common;

use common::events::{consume, event, orb, supply};
use common::{ISORB, Service, run};
use isorb::Orb;
use isorb_event::servants::stamped::rtec_event_channel_admin as admin;
use isorb_testkit::{TempFolder, compiles, repository, wait_for, wait_until};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

const DAY: i64 = 24 * 3600;
/// By how many seconds the clock is off, one after the other: forward and back by days, to before
/// 1980, to after 2100, and right again.
const STEPS: [i64; 6] = [DAY, -30 * DAY, 3 * DAY, -47 * 365 * DAY, 80 * 365 * DAY, 0];

/// A clock of the day that can be set.
struct Clock {
    library: PathBuf,
    path: PathBuf,
    file: File,
}

impl Clock {
    /// `None`, with a sentence, where there is no compiler.
    fn new(folder: &TempFolder, name: &str) -> Option<Clock> {
        let library = folder.file("clock.so");
        let source = repository().join("crates/cli/tests/files/clock.c");
        if !library.exists() {
            let mut command = Command::new("cc");
            command.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(source);
            if !compiles(&mut command) {
                return None;
            }
        }
        let path = folder.file(name);
        std::fs::write(&path, [0; 8]).unwrap();
        let file = File::options().write(true).open(&path).unwrap();
        Some(Clock { library, path, file })
    }

    fn set(&self, seconds: i64) {
        self.file.write_all_at(&seconds.to_ne_bytes(), 0).unwrap();
    }

    fn program(&self, program: &str, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(args).env("LD_PRELOAD", &self.library).env("ISORB_TEST_CLOCK", &self.path);
        command
    }

    fn start(&self, args: &[&str]) -> Service {
        Service::of(&mut self.program(ISORB, args))
    }
}

/// The time that a process has computed, in ticks of the kernel (10 ms).
fn computed(id: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

/// Waits for half a second in which it computes at most a tenth of the time. A thread that spins
/// has no such half second, unless the machine gives it no processor.
fn comes_to_rest(service: &Service) {
    wait_until("it comes to rest", || {
        let (start, before) = (Instant::now(), computed(service.id()));
        std::thread::sleep(Duration::from_millis(500));
        let ticks = computed(service.id()) - before;
        u128::from(ticks) * 10 * 10 <= start.elapsed().as_millis()
    });
}

fn works(args: &[&str]) -> String {
    let (code, output, error) = run(args);
    assert_eq!(code, Some(0), "{args:?}: {error}");
    output
}

fn stop(mut service: Service) {
    assert!(Command::new("kill").arg(service.id().to_string()).status().unwrap().success());
    assert_eq!(wait_for("the end", || service.ended()).code(), Some(0));
}

/// The object of a service answers, over a connection that was there before the step.
fn answers(orb: &Orb, url: &str) {
    assert!(!orb.string_to_object(url).unwrap().non_existent().unwrap(), "{url}");
}

#[test]
fn the_library_steps_the_clock_of_a_program() {
    let folder = TempFolder::new();
    let Some(clock) = Clock::new(&folder, "clock") else { return };
    let year = || {
        let output = clock.program("date", &["-u", "+%Y"]).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().parse::<i32>().unwrap()
    };
    let now = year();
    clock.set(20 * 365 * DAY);
    assert!((now + 19..=now + 20).contains(&year()));
}

#[test]
fn names_are_bound_and_resolved_whatever_the_clock_says() {
    let folder = TempFolder::new();
    let Some(clock) = Clock::new(&folder, "clock") else { return };
    let (store, audit) = (folder.text("names.redb"), folder.text("audit"));
    let args = ["naming", "--port", "0", "--store", &store, "--audit", &audit];
    let service = clock.start(&args);
    let client = orb();
    let url = service.url.clone();
    let name = |url: &str, args: &[&str]| works(&[&["name", "--ns", url], args].concat());
    const OBJECT: &str = "corbaloc::1.2@127.0.0.1:9/thing";
    for (n, seconds) in STEPS.into_iter().enumerate() {
        answers(&client, &url);
        clock.set(seconds);
        answers(&client, &url);
        name(&url, &["bind", &format!("n{n}"), OBJECT]);
        (0..=n).for_each(|n| drop(name(&url, &["resolve", &format!("n{n}")])));
        comes_to_rest(&service);
    }
    stop(service);
    // Each change is recorded once, with the time that the clock said.
    let audit = std::fs::read_to_string(&audit).unwrap();
    assert_eq!(audit.lines().filter(|line| line.contains("bind")).count(), STEPS.len(), "{audit}");
    // Now the clock is earlier than when the store was written.
    clock.set(-30 * DAY);
    let service = clock.start(&args);
    (0..STEPS.len()).for_each(|n| drop(name(&service.url, &["resolve", &format!("n{n}")])));
    stop(service);
    client.shutdown(true).unwrap();
}

#[test]
fn areas_stay_registered_and_values_arrive_whatever_the_clocks_say() {
    let folder = TempFolder::new();
    let Some(clock) = Clock::new(&folder, "clock") else { return };
    let Some(other) = Clock::new(&folder, "other") else { return };
    let (a, b, store) = (folder.text("a"), folder.text("b"), folder.text("areas.redb"));
    let coordinator = clock.start(&["memory-coordinator", "--port", "0", "--store", &store]);
    let url = coordinator.url.clone();
    let near = clock.start(&["memory-server", "--name", "a", "--socket", &a, "--coordinator", &url]);
    let far = other.start(&["memory-server", "--name", "b", "--socket", &b, "--coordinator", &url]);
    let memory = |args: &[&str]| works(&[&["memory"], args].concat());
    memory(&["--socket", &a, "write", "plant", "first", "--create", "64"]);
    for (n, seconds) in STEPS.into_iter().enumerate() {
        // Apart from each other, too.
        clock.set(seconds);
        other.set(-seconds / 2);
        let value = format!("value {n}");
        memory(&["--socket", &a, "write", "plant", &value]);
        wait_until("the value arrives", || {
            memory(&["--socket", &b, "dump", "plant", "--raw", "--timeout", "60000"]) == value
        });
        let areas = memory(&["--coordinator", &url, "ls"]);
        assert!(areas.contains("on a") && areas.contains("node b") && areas.contains("answers"), "{areas}");
        [&coordinator, &near, &far].into_iter().for_each(comes_to_rest);
    }
    [near, far, coordinator].into_iter().for_each(stop);
}

#[test]
fn records_and_registrations_stay_whatever_the_clock_says() {
    let folder = TempFolder::new();
    let Some(clock) = Clock::new(&folder, "clock") else { return };
    let (records, servers) = (folder.text("log.redb"), folder.text("imr.redb"));
    let args = [
        &["log-service", "--port", "0", "--store", &records][..],
        &["imr", "serve", "--port", "0", "--store", &servers],
    ];
    let [log, repository] = args.map(|args| clock.start(args));
    let client = orb();
    let lines = |args: &[&str]| works(args).lines().count();
    for (n, seconds) in STEPS.into_iter().enumerate() {
        [&log, &repository].iter().for_each(|service| answers(&client, &service.url));
        clock.set(seconds);
        [&log, &repository].iter().for_each(|service| answers(&client, &service.url));
        works(&["log", "write", "--service", &log.url, &format!("record {n}")]);
        works(&["imr", "add", "--service", &repository.url, &format!("s{n}"), "--", "/bin/true"]);
        assert_eq!(lines(&["log", "read", "--service", &log.url]), n + 1);
        assert_eq!(lines(&["imr", "ls", "--service", &repository.url]), n + 1);
        [&log, &repository].into_iter().for_each(comes_to_rest);
    }
    [log, repository].into_iter().for_each(stop);
    // Now the clock is earlier than when the stores were written.
    clock.set(-30 * DAY);
    let [log, repository] = args.map(|args| clock.start(args));
    assert_eq!(lines(&["log", "read", "--service", &log.url]), STEPS.len());
    assert_eq!(lines(&["imr", "ls", "--service", &repository.url]), STEPS.len());
    [log, repository].into_iter().for_each(stop);
    client.shutdown(true).unwrap();
}

#[test]
fn schedulers_and_channels_serve_whatever_the_clock_says() {
    let folder = TempFolder::new();
    let Some(clock) = Clock::new(&folder, "clock") else { return };
    let scheduler = clock.start(&["scheduler", "--port", "0"]);
    let channel = clock.start(&["event-channel", "--real-time", "off", "--port", "0"]);
    let client = orb();
    let events: admin::EventChannelRef = client.resolve(&channel.url).unwrap();
    let (consumer, supplier) = (consume(&client, &events, 20), supply(&events));
    for (n, seconds) in (1..).zip(STEPS) {
        clock.set(seconds);
        answers(&client, &scheduler.url);
        supplier.push(&vec![event(20, n)]).unwrap();
        wait_until("the event arrives", || consumer.times().last() == Some(&n));
        [&scheduler, &channel].into_iter().for_each(comes_to_rest);
    }
    [scheduler, channel].into_iter().for_each(stop);
    client.shutdown(true).unwrap();
}

/// Its neighbours remember larger numbers of events than those that it begins with.
#[test]
fn a_member_that_restarts_after_its_clock_was_set_back_is_heard() {
    let folder = TempFolder::new();
    let Some(clock) = Clock::new(&folder, "clock") else { return };
    let member = |id: &str, join: &[&str]| {
        let args =
            ["event-channel", "--real-time", "off", "--host", "127.0.0.1", "--port", "0", "--ping", "0"];
        let times = ["--tick", "50", "--id", id];
        clock.start(&[&args[..], &times, join].concat())
    };
    let far = member("1", &[]);
    let client = orb();
    let consumer = consume(&client, &client.resolve(&far.url).unwrap(), 20);
    let federation = far.url.replace("EventService", "EventFederation");
    let mut number = 0;
    for seconds in [0, -30 * DAY, -60 * DAY] {
        clock.set(seconds);
        let near = member("2", &["--join", &federation]);
        let supplier = supply(&client.resolve(&near.url).unwrap());
        // Until the subscription is known there, events are not sent.
        let began = number;
        wait_until(format!("an event comes over at {seconds} s"), || {
            number += 1;
            supplier.push(&vec![event(20, number)]).unwrap();
            consumer.times().iter().any(|arrived| *arrived > began)
        });
        // From here on none is missing.
        let from = number;
        (0..20).for_each(|_| {
            number += 1;
            supplier.push(&vec![event(20, number)]).unwrap();
        });
        wait_until("the last arrives", || consumer.times().last() == Some(&number));
        let arrived: Vec<u64> = consumer.times().into_iter().filter(|arrived| *arrived > from).collect();
        assert_eq!(arrived, (from + 1..=number).collect::<Vec<_>>());
        // Killed, as it is dropped.
    }
    stop(far);
    client.shutdown(true).unwrap();
}
