//! The Rust of the pages on events and scheduling: each piece is compiled and run here, and
//! compared with its document word by word.

mod common;

use isorb_event::{Channel, ConsumerQos, Event, Filter, ProxyPushConsumer, Scheduled, VirtualClock};
use isorb_sched::file::ScheduleFile;
use isorb_sched::graph::{Call, Dependency, Graph, Operation};
use isorb_sched::{Nanos, Plan, Policy, RuntimeScheduler};
use isorb_sched_service::ServerScheduler;
use isorb_testkit::{TempFolder, document};
use std::error::Error;
use std::sync::{Arc, Mutex};
use std::time::Duration;

type Outcome = Result<(), Box<dyn Error>>;

const DOCUMENTS: [&str; 5] = [
    "tutorials/events.md",
    "tutorials/scheduling.md",
    "guides/admission.md",
    "guides/timeline.md",
    "guides/scheduling-service.md",
];

/// Rust without spaces, comments and commas before the end of a list.
fn bare(rust: &str) -> String {
    let code: String = rust.lines().map(|line| line.split("//").next().unwrap_or(line)).collect();
    let dense: String = code.chars().filter(|c| !c.is_whitespace()).collect();
    [(",)", ")"), (",]", "]"), (",}", "}")]
        .iter()
        .fold(dense, |text, (with, without)| text.replace(with, without))
}

fn blocks(page: &str) -> impl Iterator<Item = &str> {
    page.split("```rust\n").skip(1).map(|rest| rest.split("```").next().unwrap_or(rest))
}

#[test]
fn the_code_of_the_documents_is_the_code_of_this_test() {
    let here = bare(include_str!("snippets.rs"));
    for name in DOCUMENTS {
        for block in blocks(&document(name)) {
            assert!(
                here.contains(&bare(block)),
                "{name}: this is compiled nowhere in tests/snippets.rs:\n{block}"
            );
        }
    }
    assert_eq!(DOCUMENTS.map(|name| blocks(&document(name)).count()), [2, 1, 1, 1, 1]);
    // The control: a changed word is found.
    let changed = bare(blocks(&document(DOCUMENTS[0])).next().unwrap()).replace("display", "shown");
    assert!(!here.contains(&changed));
}

/// The program of the first tutorial.
mod cockpit {
    use isorb_event::{Channel, ConsumerQos, Event, Filter};
    use std::sync::Arc;

    const POSITION: i32 = 16; // types of the application begin at 16
    const GPS: i32 = 1;

    fn main() -> Result<(), Box<dyn std::error::Error>> {
        let channel = Channel::builder().build()?;
        let display = |events: &[Event<'_>]| println!("{} octets", events[0].data.octets.len());
        let connected = channel
            .for_consumers()
            .connect(Arc::new(display), ConsumerQos::new("display", Filter::of(POSITION, GPS)))?;

        let gps = channel.for_suppliers().connect()?;
        gps.push(&Event::new(POSITION, GPS).octets(b"48.2N 16.3E"));

        assert_eq!(connected.counts().pushed, 1);
        Ok(())
    }

    #[test]
    fn runs() {
        main().unwrap();
    }
}

const POSITION: i32 = 16;
const SPEED: i32 = 17;
const GPS: i32 = 1;
const INS: i32 = 2;

fn position_and_speed_or_silence() -> Filter {
    Filter::any_of([
        Filter::all_of([Filter::of(POSITION, GPS), Filter::of(SPEED, INS)]),
        Filter::deadline(Duration::from_millis(40)),
    ])
}

#[test]
fn a_filter_of_filters() -> Outcome {
    let clock = Arc::new(VirtualClock::new());
    let channel = Channel::builder().own_threads(false).clock(Arc::new(clock.clone())).build()?;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    let consumer = move |events: &[Event<'_>]| log.lock().unwrap().push(events.len());
    let qos = ConsumerQos::new("display", position_and_speed_or_silence());
    let _connected = channel.for_consumers().connect(Arc::new(consumer), qos)?;
    let supplier = channel.for_suppliers().connect()?;
    supplier.push(&Event::new(POSITION, GPS));
    supplier.push(&Event::new(SPEED, INS));
    assert_eq!((channel.expire(), seen.lock().unwrap().clone()), (0, vec![2]));
    clock.advance(41_000_000);
    assert_eq!((channel.expire(), seen.lock().unwrap().clone()), (1, vec![2, 1]));
    Ok(())
}

#[test]
fn a_chain_is_admitted() -> Outcome {
    let ms = Nanos::from_ms;
    let plan = Plan::with_levels(Policy::RateMonotonic, &[ms(20), ms(100)], 1..=10)?;
    let scheduled = Scheduled::new(RuntimeScheduler::new(plan));

    let mut graph = Graph::new();
    let sensor = graph.add(Operation { worst: ms(2), period: ms(100), ..Operation::new("sensor") })?;
    let after = |on| vec![Dependency { on, call: Call::OneWay, times: 1 }];
    let fuse =
        graph.add(Operation { worst: ms(3), dependencies: after(sensor), ..Operation::new("fuse") })?;
    graph.add(Operation {
        worst: ms(5),
        deadline: Some(ms(80)),
        dependencies: after(fuse),
        ..Operation::new("show")
    })?;
    let chain = scheduled.admit_graph(&graph)?; // or: 'sensor -> fuse -> show cannot be admitted as a whole: show would take ...'

    assert!(scheduled.withdraw(chain));
    Ok(())
}

fn write_recording(channel: Channel, gps: &ProxyPushConsumer) -> Outcome {
    let recording = channel.recording("cockpit", &[(gps.id(), "gps")]);
    std::fs::write("cockpit.trace", isorb_trace::encode(&recording))?;
    Ok(())
}

#[test]
fn a_recording_is_written() -> Outcome {
    let folder = TempFolder::new();
    // The only test here that has files.
    std::env::set_current_dir(folder.path())?;
    let channel = Channel::builder().trace(true).build()?;
    let gps = channel.for_suppliers().connect()?;
    gps.push(&Event::new(POSITION, GPS));
    write_recording(channel, &gps)?;
    let written = isorb_trace::decode(&std::fs::read("cockpit.trace")?)?;
    assert_eq!(written.name, "cockpit");
    Ok(())
}

#[test]
fn one_more() -> Outcome {
    use isorb_sched::{Admission, AdmissionConfig, Nanos, Task};
    let ms = Nanos::from_ms;
    let mut admission = Admission::new(AdmissionConfig::default());
    let radar = admission.try_admit(Task::new("radar", ms(4), ms(10)))?;
    match admission.try_admit(Task::new("video", ms(30), ms(33))) {
        Ok(admitted) => println!("within {}", admitted.response),
        Err(refusal) => println!("{refusal}"), // the task that would be late, by how much, and a period that would be admitted
    }

    assert_eq!(admission.response(radar.id), Some(ms(4)), "video is refused");
    Ok(())
}

#[test]
fn a_resource_is_locked_at_its_ceiling() -> Outcome {
    let text = "priorities = [10, 12]\n[[operation]]\nname = 'gps'\ncost = '2 ms'\nperiod = '40 ms'\nholds = [{ resource = 'map', for = '1 ms' }]\n\
        [[resource]]\nname = 'map'\n";
    let orb = isorb::Orb::with_config(isorb::Config::default()).unwrap();
    let scheduler = ServerScheduler::new(&orb, &ScheduleFile::parse("flight.toml", text)?);

    let map = scheduler.resource("map")?; // at start: computes the schedule
    let held = map.lock()?; // at the ceiling from here
    drop(held); // at its own priority again

    assert!(scheduler.resource("log").is_err());
    Ok(())
}
