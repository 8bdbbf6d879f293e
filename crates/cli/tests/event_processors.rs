//! `isorb event-channel --schedule` on several processors.

mod common;
mod page;

use common::events::{Consumer, event, orb, supply};
use common::{Service, ended, get, isorb, run};
use isorb::Orb;
use isorb_event::servants::stamped::{rtec_event_channel_admin as admin, rtec_event_comm as comm};
use isorb_rt::sched::{Cpus, current_cpus};
use isorb_testkit::{TempFolder, wait_until};
use page::state;
use std::collections::BTreeMap;
use std::sync::Arc;

/// By their demand: radar and map first, each on a processor, and log beside map.
const SCHEDULE: &str = "[[operation]]\nname = 'radar'\ncost = '60 ms'\nperiod = '100 ms'\n\
    [[operation]]\nname = 'map'\ncost = '50 ms'\nperiod = '100 ms'\n\
    [[operation]]\nname = 'log'\ncost = '20 ms'\nperiod = '200 ms'\n\
    [[operation]]\nname = 'video'\ncost = '58 ms'\nperiod = '120 ms'\ndeadline = '59 ms'\n";

/// Two processors that this process may use.
fn two() -> Option<[usize; 2]> {
    let allowed: Vec<usize> = current_cpus().unwrap().iter().take(2).collect();
    let two = allowed.try_into().ok();
    if two.is_none() {
        println!("skipped: one processor is usable, and the test takes two");
    }
    two
}

/// Connects a consumer as the operation of this handle; the sentence where it is refused.
fn connect(
    orb: &Orb,
    url: &str,
    rt_info: i32,
) -> Result<(admin::ProxyPushSupplierRef, Arc<Consumer>), String> {
    let channel: admin::EventChannelRef = orb.resolve(url).unwrap();
    let consumer = Arc::new(Consumer::default());
    let reference: comm::PushConsumerRef = orb.root_poa().unwrap().activate(consumer.clone()).unwrap();
    let dependencies = vec![admin::Dependency { event: event(20, 0), rt_info }];
    let qos = admin::ConsumerQOS { dependencies, is_gateway: false };
    let proxy = channel.for_consumers().unwrap().unwrap().obtain_push_supplier().unwrap().unwrap();
    match proxy.connect_push_consumer(&reference, &qos) {
        Ok(()) => Ok((proxy, consumer)),
        Err(admin::proxy_push_supplier::ConnectPushConsumerError::System(error)) => {
            Err(error.detail.expect("it says why").into_string())
        }
        Err(other) => panic!("{other:?}"),
    }
}

/// How many threads that dispatch events may run on which processors only.
fn dispatching(process: u32) -> BTreeMap<String, usize> {
    let mut all = BTreeMap::new();
    for task in std::fs::read_dir(format!("/proc/{process}/task")).unwrap() {
        // A thread may end meanwhile.
        let status = std::fs::read_to_string(task.unwrap().path().join("status")).unwrap_or_default();
        let value = |key: &str| status.lines().find_map(|line| line.strip_prefix(key)).unwrap_or("").trim();
        let name: Vec<&str> = value("Name:").split('-').collect();
        if let ["event", level, thread] = name[..]
            && level.parse::<u16>().is_ok()
            && thread.parse::<u16>().is_ok()
        {
            *all.entry(value("Cpus_allowed_list:").to_owned()).or_default() += 1;
        }
    }
    all
}

#[test]
fn consumers_are_dispatched_on_the_processors_of_their_operations() {
    let Some([one, other]) = two() else { return };
    let folder = TempFolder::new();
    let file = folder.text("s.toml");
    // In an order of its own, which numbers the processors.
    std::fs::write(&file, format!("processors = [{other}, {one}]\n{SCHEDULE}")).unwrap();
    let start = ["event-channel", "--real-time", "off", "--admin", "0", "--schedule", &file];
    let (served, page) = Service::with_page(&start);
    let orb = orb();
    let radar = connect(&orb, &served.url, 1).unwrap();
    let map = connect(&orb, &served.url, 2).unwrap();
    let log = connect(&orb, &served.url, 3).unwrap();
    let any = connect(&orb, &served.url, 0).unwrap();
    let expected = [Some(other), Some(one), Some(one), None].map(|at| at.map(|at| at.to_string()));
    let on_page = |state: &serde_json::Value| -> Vec<Option<String>> {
        let rows = state["consumers"].as_array().unwrap();
        rows.iter().map(|row| row["processor"].as_str().map(str::to_owned)).collect()
    };
    wait_until("the page has all", || on_page(&state(&page)) == expected);

    // Levels of both processors, 100 and 200 ms, and that without a promise: three threads each.
    let threads = dispatching(served.id());
    assert_eq!([one, other].map(|cpu| threads.get(&cpu.to_string())), [Some(&3), Some(&3)], "{threads:?}");

    let refused = connect(&orb, &served.url, 4).map(drop).unwrap_err();
    let begin = format!("video cannot be admitted on any of 2 processors: on processor {other}, ");
    assert!(refused.starts_with(&begin), "{refused}");
    assert!(refused.contains(&format!("; on processor {one}, ")), "{refused}");
    let twice = connect(&orb, &served.url, 1).map(drop).unwrap_err();
    assert_eq!(twice, "radar cannot be admitted: another consumer is connected as this operation");

    let channel: admin::EventChannelRef = orb.resolve(&served.url).unwrap();
    supply(&channel).push(&vec![event(20, 7)]).unwrap();
    for consumer in [&radar.1, &map.1, &log.1, &any.1] {
        wait_until("an event", || !consumer.0.lock().unwrap().is_empty());
    }

    let (_, listed, _) = run(&["event", "ls", &served.url]);
    let row = |name: &str| {
        let row = listed.lines().find(|line| line.contains(name)).unwrap_or_else(|| panic!("{listed}"));
        row.split_whitespace().nth(5).unwrap().to_owned()
    };
    assert_eq!(
        ["remote 1", "remote 2", "remote 0"].map(row),
        [&*other.to_string(), &*one.to_string(), "any"]
    );

    // Its place is free again.
    radar.0.disconnect_push_supplier().unwrap();
    let _radar = connect(&orb, &served.url, 1).unwrap();
}

#[test]
fn metrics_count_the_consumers_of_each_processor() {
    let Some([one, other]) = two() else { return };
    let folder = TempFolder::new();
    let file = folder.text("s.toml");
    std::fs::write(&file, SCHEDULE).unwrap();
    let processors = format!("{one},{other}");
    let start =
        ["event-channel", "--real-time", "off", "--metrics", "0", "--schedule", &file, "--processors"];
    let (served, line) = Service::with_line(&mut isorb(&[&start[..], &[&processors]].concat()), "METRICS");
    let place = line.strip_prefix("http://").and_then(|line| line.strip_suffix("/metrics")).unwrap();
    let orb = orb();
    let _map = connect(&orb, &served.url, 2).unwrap();
    let _log = connect(&orb, &served.url, 3).unwrap();
    let text = get(place, "/metrics");
    for (processor, count) in [(one, 0), (other, 2)] {
        let line = format!("\nisorb_event_processor_consumers{{processor=\"{processor}\"}} {count}\n");
        assert!(text.contains(&line), "{text}");
    }
}

#[test]
fn processors_that_cannot_be_used_are_refused_with_a_sentence() {
    let folder = TempFolder::new();
    let file = folder.text("s.toml");
    let start = ["event-channel", "--real-time", "off", "--schedule", &file];
    let refused = |more: &[&str]| {
        let (code, _, error) = run(&[&start[..], more].concat());
        assert_eq!(code, Some(1), "{error}");
        error
    };
    std::fs::write(&file, SCHEDULE).unwrap();
    let error = refused(&["--processors", "1023"]);
    assert!(
        error.contains("--processors: the machine has no processor 1023; this process may run on "),
        "{error}"
    );
    let allowed = current_cpus().unwrap();
    let one = allowed.iter().next().unwrap().to_string();
    let error = refused(&["--processors", &format!("{one},{one}")]);
    assert!(error.contains(&format!("--processors: processor {one} is named twice")), "{error}");
    let error = refused(&["--processors", &one, "--push-threads", "0"]);
    assert!(error.contains("--push-threads"), "{error}");
    std::fs::write(&file, format!("processors = [1022]\n{SCHEDULE}")).unwrap();
    let error = refused(&[]);
    assert!(error.contains("s.toml: the machine has no processor 1022"), "{error}");
    for (wrong, why) in [
        ("[]", "s.toml:1: processors names none"),
        ("[3, 3]", "s.toml:1: processor 3 is named twice"),
        ("[1024]", "s.toml:1: processor 1024: their numbers are below 1024"),
    ] {
        std::fs::write(&file, format!("processors = {wrong}\n{SCHEDULE}")).unwrap();
        let error = refused(&[]);
        assert!(error.contains(why), "{error}");
    }
    let (code, _, error) =
        run(&["event-channel", "--scheduler", "corbaloc::127.0.0.1:1/S", "--processors", &one]);
    assert!(code == Some(1) && error.contains("isorb scheduler --record"), "{error}");

    // One that exists, in a process that may not use it.
    let Some([one, other]) = two() else { return };
    std::fs::write(&file, format!("processors = [{other}]\n{SCHEDULE}")).unwrap();
    isorb_rt::sched::set_current_cpus(&Cpus::one(one)).unwrap();
    let (code, _, error) = ended(&mut isorb(&start));
    assert_eq!(code, Some(1));
    let why = format!("s.toml: processor {other} may not be used: this process may run on {one}; ");
    assert!(error.contains(&why), "{error}");
}

#[test]
fn a_file_that_names_its_processors_is_checked_on_them() {
    let folder = TempFolder::new();
    let file = folder.text("s.toml");
    std::fs::write(&file, format!("processors = [5, 3]\n{SCHEDULE}")).unwrap();
    let (code, out, _) = run(&["sched", "check", &file]);
    assert_eq!(code, Some(1), "{out}");
    assert!(out.starts_with("processor 5\n") && out.contains("\nprocessor 3\n"), "{out}");
    let refused = "\nrefused: video cannot be admitted on any of 2 processors: on processor 5, ";
    assert!(out.contains(refused), "{out}");
    for more in [&["check", "--margins"][..], &["plot"]] {
        let (code, _, error) = run(&[&["sched"], more, &[&file]].concat());
        assert!(code == Some(2) && error.contains("one processor, and it names"), "{error}");
    }
}
