//! Changes of areas as events of real-time event channels, in this process and through the wire.

mod world;

use isorb::{Orb, Upcall};
use isorb_event::servants::stamped::rtec_event_channel_admin as admin;
use isorb_event::servants::stamped::rtec_event_comm as comm;
use isorb_event::servants::{EventServiceOptions, RtecEventService};
use isorb_event::{Channel, ConsumerQos, Event, Filter};
use isorb_reflective_memory::Rio;
use isorb_reflective_memory::idl::{AreaEvent, EventQoS, ReaderQoS, State as IdlState, rio};
use isorb_reflective_memory::memory::{State, WaitError};
use isorb_testkit::wait_until;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use world::*;

const VALUE: i32 = 20;
const STATE: i32 = 21;
const PLANT: i32 = 7;

fn request() -> EventQoS {
    EventQoS { on_value: VALUE, on_state: STATE, source: PLANT, spacing: 0, with_value: true }
}

/// Values are stale after a tenth of a second: the writer promises one in 50 ms.
fn fresh() -> ReaderQoS {
    ReaderQoS { deadline: 50_000_000, ..on_write() }
}

#[test]
fn a_channel_of_this_process_gets_values_and_staleness() {
    let world = World::new();
    let (near, far) = (world.library(0), world.library(1));
    near.create_area(&area("boiler", 64)).unwrap();
    let mut writer = near.map_writer("boiler", QOS).unwrap();
    let channel = Channel::builder().build().unwrap();
    let seen = Arc::new(Mutex::new(Vec::<(i32, Vec<u8>, bool)>::new()));
    let log = seen.clone();
    let consumer = move |events: &[Event<'_>]| {
        for event in events {
            let carries = !event.data.any.is_empty();
            log.lock().unwrap().push((event.header.event_type, event.data.octets.to_vec(), carries));
        }
    };
    let wants = ConsumerQos::new("log", Filter::of(0, PLANT));
    let _connected = channel.for_consumers().connect(Arc::new(consumer), wants).unwrap();
    for library in [&near, &far] {
        seen.lock().unwrap().clear();
        let reader = library.attach_reader("boiler", fresh()).unwrap();
        let supplier = channel.for_suppliers().connect().unwrap();
        let notifier = reader.notify(supplier, request()).unwrap();
        // It has a reader of its own.
        drop(reader);
        let number = writer.write(b"hot").unwrap();
        wait_until("the value", || seen.lock().unwrap().contains(&(VALUE, b"hot".to_vec(), true)));
        // Nothing more is written.
        wait_until("staleness", || seen.lock().unwrap().iter().any(|(t, _, _)| *t == STATE));
        writer.write(b"cold").unwrap();
        wait_until("the next", || seen.lock().unwrap().contains(&(VALUE, b"cold".to_vec(), true)));
        // Counted after it went.
        wait_until("the counts", || notifier.counts().pushed >= 3);
        assert_eq!(notifier.counts().failed, 0, "after value {number}");
        drop(notifier);
    }
    // Only what was asked for.
    seen.lock().unwrap().clear();
    let reader = near.attach_reader("boiler", on_write()).unwrap();
    let supplier = channel.for_suppliers().connect().unwrap();
    let quiet = EventQoS { on_value: 0, with_value: false, ..request() };
    let _notifier = reader.notify(supplier, quiet).unwrap();
    writer.write(b"unheard").unwrap();
    drop(writer);
    wait_until("the writer's end", || !seen.lock().unwrap().is_empty());
    assert!(seen.lock().unwrap().iter().all(|(t, octets, _)| (*t, octets.len()) == (STATE, 0)));
}

#[test]
fn a_reader_beside_the_writer_is_told_that_its_value_is_stale() {
    let world = World::new();
    let near = world.library(0);
    near.create_area(&area("gauge", 64)).unwrap();
    let mut writer = near.map_writer("gauge", QOS).unwrap();
    let mut reader = near.attach_reader("gauge", fresh()).unwrap();
    let mut careless = near.attach_reader("gauge", on_write()).unwrap();
    writer.write(b"1").unwrap();
    reader.wait(TIMEOUT).unwrap();
    careless.wait(TIMEOUT).unwrap();
    reader.latest(&mut [0; 64]).unwrap();
    careless.latest(&mut [0; 64]).unwrap();
    assert_eq!(reader.wait(TIMEOUT), Err(WaitError::Changed(State::Stale)));
    assert_eq!(reader.state(), Some(State::Stale));
    assert_eq!(careless.state(), Some(State::Open), "a reader without a deadline has no stale value");
    assert_eq!(reader.wait(Duration::ZERO), Err(WaitError::TimedOut), "it is told once");
    assert_eq!(reader.statistics().unwrap().stale, 1);
    writer.write(b"2").unwrap();
    assert_eq!(until(&mut reader, 2), b"2");
    let changes: Vec<_> = (0..2).map(|_| reader.wait(TIMEOUT)).collect();
    assert!(changes.contains(&Err(WaitError::Changed(State::Stale))), "{changes:?}");
}

#[derive(Default)]
struct Consumer(Mutex<Vec<comm::Event>>);

impl comm::PushConsumer for Consumer {
    fn push(&self, _: Upcall<'_>, data: comm::EventSetView<'_>) -> isorb::Result<()> {
        use isorb::generated::Idl;
        self.0.lock().unwrap().extend(data.iter().map(|event| comm::Event::from_view(*event)));
        Ok(())
    }

    fn disconnect_push_consumer(&self, _: Upcall<'_>) -> isorb::Result<()> {
        Ok(())
    }
}

#[test]
fn a_channel_elsewhere_is_named_by_its_reference() {
    let world = World::new();
    let far = world.library(1);
    world.library(0).create_area(&area("pump", 64)).unwrap();
    let mut writer = world.library(0).map_writer("pump", QOS).unwrap();
    let (rio, _) = Rio::activate(&world.app, &far).unwrap();
    world.app.root_poa().unwrap().manager().activate().unwrap();

    let events = Orb::with_config(isorb::Config::default()).unwrap();
    events.root_poa().unwrap().manager().activate().unwrap();
    let channel = Channel::builder().build().unwrap();
    let _face = RtecEventService::start(&events, &channel, EventServiceOptions::default()).unwrap();
    let port = events.endpoint_addresses()[0].1;
    let url = format!("corbaloc::127.0.0.1:{port}/EventService");
    let reference: admin::EventChannelRef = world.app.resolve(&url).unwrap();
    let log = Arc::new(Consumer::default());
    let consumer: comm::PushConsumerRef = events.root_poa().unwrap().activate(log.clone()).unwrap();
    let header = comm::EventHeader { source: PLANT, ..comm::EventHeader::default() };
    let entry = comm::Event { header, data: comm::EventData::default() };
    let dependencies = vec![admin::Dependency { event: entry, rt_info: 0 }];
    let here: admin::EventChannelRef = events.resolve(&url).unwrap();
    let proxy = here.for_consumers().unwrap().unwrap().obtain_push_supplier().unwrap().unwrap();
    let qos = admin::ConsumerQOS { dependencies, is_gateway: false };
    proxy.connect_push_consumer(&consumer, &qos).unwrap();

    let reader = rio.attach_reader("pump", on_write()).unwrap();
    let notifier = rio.notify(reader, &reference, request()).unwrap();
    rio.detach(reader).unwrap();
    writer.write(b"running").unwrap();
    let find = |event_type: i32, now: IdlState| {
        log.0.lock().unwrap().iter().find_map(|event| {
            let about: AreaEvent = event.data.any_value.get().unwrap();
            assert_eq!((event.header.source, &*about.area), (PLANT, "pump"));
            let fits = event.header.type_ == event_type && about.now == now;
            fits.then(|| (about, event.data.payload.clone()))
        })
    };
    wait_until("the value", || find(VALUE, IdlState::StateOpen).is_some());
    let (about, payload) = find(VALUE, IdlState::StateOpen).unwrap();
    assert_eq!((about.about.source, &payload[..]), (1, &b"running"[..]));
    drop(writer);
    wait_until("the writer's end", || find(STATE, IdlState::StateWriterGone).is_some());

    let unknown = rio.notify(reader, &reference, request());
    assert!(matches!(unknown, Err(rio::NotifyError::UnknownHandle(e)) if e.which == reader));
    let twice = rio.notify(notifier, &reference, request());
    assert!(matches!(twice, Err(rio::NotifyError::UnknownHandle(_))), "a notifier is no reader");
    rio.detach(notifier).unwrap();
    let again = rio.attach_reader("pump", on_write()).unwrap();
    let nil = rio.notify(again, None::<&admin::EventChannelRef>, request());
    assert!(matches!(nil, Err(rio::NotifyError::Unavailable(_))));
}
