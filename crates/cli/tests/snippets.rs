//! The Rust of the pages on events and scheduling: each piece is compiled and run here, and
//! compared with its document word by word.

mod common;

use isorb::{Codec, DynAny, DynAnyError, Encoding, TypeCode};
use isorb_any::Kind;
use isorb_event::{
    Channel, ConsumerQos, Event, Filter, ProxyPushConsumer, Scheduled, ScheduledProcessors, VirtualClock,
};
use isorb_rt::sched::Cpus;
use isorb_sched::file::ScheduleFile;
use isorb_sched::graph::{Call, Dependency, Graph, Operation};
use isorb_sched::{Nanos, Plan, Policy, RuntimeScheduler};
use isorb_sched_service::ServerScheduler;
use isorb_testkit::{TempFolder, document};
use isorb_trace::{Phase, Recording, Refusal};
use std::error::Error;
use std::sync::{Arc, Mutex};
use std::time::Duration;

type Outcome = Result<(), Box<dyn Error>>;

const DOCUMENTS: [&str; 7] = [
    "tutorials/events.md",
    "tutorials/scheduling.md",
    "guides/admission.md",
    "guides/timeline.md",
    "guides/scheduling-service.md",
    "tutorials/dynamic-calls.md",
    "guides/dynamic-values.md",
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
    let examples = concat!(
        include_str!("../../../examples/remote-events/consumer.rs"),
        include_str!("../../../examples/remote-events/supplier.rs")
    );
    let here = bare(include_str!("snippets.rs")) + &bare(examples);
    for name in DOCUMENTS {
        for block in blocks(&document(name)) {
            assert!(
                here.contains(&bare(block)),
                "{name}: this stands neither in tests/snippets.rs nor in an example:\n{block}"
            );
        }
    }
    assert_eq!(DOCUMENTS.map(|name| blocks(&document(name)).count()), [4, 1, 2, 2, 1, 1, 2]);
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

fn on_processors(plan: Plan) -> Result<Channel, Box<dyn Error>> {
    let scheduler = ScheduledProcessors::new(&plan, 2);
    let channel = Channel::builder()
        .levels(scheduler.levels())
        .processors(vec![Cpus::one(2), Cpus::one(3)])
        .scheduler(Arc::new(scheduler))
        .build()?;
    Ok(channel)
}

#[test]
fn a_channel_has_threads_on_processors() -> Outcome {
    let ms = Nanos::from_ms;
    let plan = Plan::with_levels(Policy::RateMonotonic, &[ms(20), ms(100)], 1..=10)?;
    // A machine may have fewer of them.
    let has = isorb_rt::sched::current_cpus()?;
    assert!(on_processors(plan).is_ok() || !(has.contains(2) && has.contains(3)));
    Ok(())
}

fn write_recording(channel: Channel, gps: &ProxyPushConsumer) -> Outcome {
    let recording = channel.recording("cockpit", &[(gps.id(), "gps")]);
    std::fs::write("cockpit.trace", isorb_trace::encode(&recording))?;
    Ok(())
}

#[test]
fn a_recording_says_what_happened() {
    let (from, to, error) = (1, 2, "it asks for more than is left");
    let mut recording = Recording::default();
    recording.phases.push(Phase { from, to, caption: "GPS silent".to_owned() });
    recording.refused.push(Refusal { name: "video".to_owned(), why: error.to_string() });
    let timeline = isorb_timeline::Timeline::of("flight", &[recording]);
    assert_eq!((timeline.phases[0].to, timeline.refused[0].name.as_str()), (2, "video"));
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

/// The call of the tutorial on dynamic calls.
mod dynamic {
    use isorb::{DynamicOperation, DynamicRequest, Mode, TypeCode};

    fn to_string(context: &isorb::Object, name: isorb::Any) -> isorb::Result<isorb::DynamicReply> {
        let operation = DynamicOperation::new("to_string")?
            .parameter("n", Mode::In, name.type_code().clone())
            .result(TypeCode::string(0));
        DynamicRequest::new(context, &operation).argument(name)?.invoke()
    }

    #[test]
    fn a_program_calls_what_it_knows_at_run_time() {
        let service = crate::common::Service::start(&["naming", "--port", "0", "--memory"]);
        let orb = isorb::Orb::with_config(isorb::Config::default()).unwrap();
        let step = [("id", TypeCode::string(0)), ("kind", TypeCode::string(0))];
        let step = TypeCode::new_struct("IDL:omg.org/CosNaming/NameComponent:1.0", "NameComponent", &step);
        let name = TypeCode::sequence(&step.unwrap(), 0).unwrap();
        let name = isorb::Any::from_json(name, r#"[{"id":"a","kind":"b"}]"#).unwrap();
        let reply = to_string(&orb.string_to_object(&service.url).unwrap(), name).unwrap();
        let isorb::DynamicReply::Results(results) = reply else { panic!("{reply:?}") };
        assert_eq!(results[0].get::<String>().as_deref(), Some("a.b"));
    }
}

fn double_all(value: &mut DynAny) -> Result<(), DynAnyError> {
    value.rewind();
    while value.position().is_some() {
        if let Some(component) = value.current_component()? {
            match component.type_code().original().kind() {
                Kind::Long => {
                    let number: i32 = component.get()?;
                    component.insert(&(2 * number))?;
                }
                _ => double_all(component)?,
            }
        }
        value.next();
    }
    Ok(())
}

fn to_octets(value: &isorb::Any) -> Result<Vec<u8>, Box<dyn Error>> {
    Ok(Codec::new(Encoding::CDR_1_2)?.encode(value)?)
}

#[test]
fn a_dynamic_value_is_changed_and_encoded() -> Outcome {
    let point = TypeCode::new_struct("IDL:P:1.0", "P", &[("x", TypeCode::LONG), ("y", TypeCode::LONG)])?;
    let list = TypeCode::sequence(&point, 0)?;
    let mut value = DynAny::from_any(&isorb::Any::from_json(list, r#"[{"x":1,"y":2},{"x":3,"y":-4}]"#)?)?;
    double_all(&mut value)?;
    let octets = to_octets(&value.to_any()?)?;
    let again = Codec::new(Encoding::CDR_1_2)?.decode(&octets)?;
    assert_eq!(again.to_json(100)?, r#"[{"x":2,"y":4},{"x":6,"y":-8}]"#);
    Ok(())
}
