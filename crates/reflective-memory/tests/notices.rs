//! The promises of a notifier: the interval of its events, the number of notifiers, and its
//! behaviour while its channel is away.

mod world;

use isorb::{Config as OrbConfig, Orb};
use isorb_event::servants::stamped::rtec_event_channel_admin::EventChannelRef;
use isorb_event::servants::{EventServiceOptions, RtecEventService};
use isorb_event::{Channel, ConsumerQos, Event, Filter};
use isorb_reflective_memory::idl::EventQoS;
use isorb_reflective_memory::{Error, EventSink, Notice, RemoteChannel};
use isorb_testkit::wait_until;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use world::*;

const VALUE: i32 = 20;
const PLANT: i32 = 7;

fn request(spacing: Duration) -> EventQoS {
    let spacing = spacing.as_nanos() as u64;
    EventQoS { on_value: VALUE, on_state: 0, source: PLANT, spacing, with_value: true }
}

/// Keeps the numbers of the values, and how many others each event stood for.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<(u64, u64)>>>);

impl EventSink for Log {
    fn push(&mut self, notice: &Notice<'_>) -> Result<(), Error> {
        self.0.lock().unwrap().push((notice.about.about.source, notice.about.about.missed));
        Ok(())
    }
}

impl Log {
    fn last(&self) -> u64 {
        self.0.lock().unwrap().last().map_or(0, |(source, _)| *source)
    }
}

#[test]
fn an_event_stands_for_all_values_since_the_last_one() {
    const SPACING: Duration = Duration::from_millis(100);
    let world = World::new();
    let near = world.library(0);
    near.create_area(&area("fast", 64)).unwrap();
    let mut writer = near.map_writer("fast", QOS).unwrap();
    let reader = near.attach_reader("fast", on_write()).unwrap();
    let (seldom, each) = (Log::default(), Log::default());
    let _seldom = reader.notify(seldom.clone(), request(SPACING)).unwrap();
    let _each = reader.notify(each.clone(), request(Duration::ZERO)).unwrap();
    let begun = Instant::now();
    for number in 1..=60_u64 {
        assert_eq!(writer.write(&number.to_ne_bytes()).unwrap(), number);
        wait_until("a sink of every value gets every value", || each.last() == number);
        std::thread::sleep(Duration::from_millis(5));
    }
    wait_until("the last value", || seldom.last() == 60);
    let most = begun.elapsed().as_nanos() / SPACING.as_nanos() + 1;
    let seldom = seldom.0.lock().unwrap().clone();
    assert!(seldom.len() as u128 <= most, "{} events, {most} were asked for at most", seldom.len());
    assert_eq!(seldom.iter().map(|(_, missed)| missed + 1).sum::<u64>(), 60, "{seldom:?}");
    let each = each.0.lock().unwrap().clone();
    assert_eq!(each, (1..=60).map(|number| (number, 0)).collect::<Vec<_>>());
}

#[test]
fn a_library_has_so_many_notifiers_and_no_more() {
    let world = World::new();
    let near = world.library(0);
    near.create_area(&area("popular", 64)).unwrap();
    let mut writer = near.map_writer("popular", QOS).unwrap();
    let reader = near.attach_reader("popular", on_write()).unwrap();
    let log = Log::default();
    let notify = || reader.notify(log.clone(), request(Duration::ZERO));
    let mut notifiers: Vec<_> = (0..256).map(|_| notify().unwrap()).collect();
    for _ in 0..3 {
        match notify() {
            Err(Error::WrongSize(e)) => assert_eq!((e.requested, e.limit), (257, 256)),
            other => panic!("{other:?}"),
        }
    }
    writer.write(b"news").unwrap();
    wait_until("all are told", || log.0.lock().unwrap().len() == 256);
    // Its thread ends a little later.
    drop(notifiers.pop());
    wait_until("a place is free", || notify().map(|notifier| notifiers.push(notifier)).is_ok());
}

/// An event channel in an ORB of its own, and the events of its only consumer.
struct Events {
    orb: Orb,
    _channel: Channel,
    _face: RtecEventService,
    taken: Arc<AtomicU64>,
}

impl Events {
    /// At a host of this process's own, where no other test takes the port.
    fn host() -> String {
        let process = std::process::id();
        format!("127.{}.{}.2", 1 + process % 250, process / 250 % 250)
    }

    fn at(port: u16) -> Option<Events> {
        let endpoints = vec![format!("{}:{port}", Events::host())];
        let orb = Orb::with_config(OrbConfig { endpoints, ..OrbConfig::default() }).unwrap();
        orb.root_poa().ok()?.manager().activate().ok()?;
        let channel = Channel::builder().build().unwrap();
        let face = RtecEventService::start(&orb, &channel, EventServiceOptions::default()).unwrap();
        let taken = Arc::new(AtomicU64::new(0));
        let count = taken.clone();
        let consumer = move |events: &[Event<'_>]| {
            count.fetch_add(events.len() as u64, Ordering::Relaxed);
        };
        let wants = ConsumerQos::new("log", Filter::of(VALUE, PLANT));
        let connected = channel.for_consumers().connect(Arc::new(consumer), wants).unwrap();
        // Kept as long as the channel lives.
        std::mem::forget(connected);
        Some(Events { orb, _channel: channel, _face: face, taken })
    }

    fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        let _ = self.orb.shutdown(true);
    }
}

#[test]
fn a_channel_that_was_away_is_told_again() {
    let world = World::new();
    let near = world.library(0);
    near.create_area(&area("pump", 64)).unwrap();
    let mut writer = near.map_writer("pump", QOS).unwrap();
    let reader = near.attach_reader("pump", on_write()).unwrap();
    let events = Events::at(0).unwrap();
    let port = events.orb.endpoint_addresses()[0].1;
    let url = format!("corbaloc::{}:{port}/EventService", Events::host());
    let reference: EventChannelRef = world.app.resolve(&url).unwrap();
    let notifier =
        reader.notify(RemoteChannel::connect(&reference).unwrap(), request(Duration::ZERO)).unwrap();
    writer.write(b"first").unwrap();
    // Counted after it went.
    wait_until("the first", || (events.taken(), notifier.counts().pushed) == (1, 1));
    assert_eq!(notifier.counts().failed, 0);
    drop(events);
    wait_until("that it is away is counted", || {
        writer.write(b"unheard").unwrap();
        std::thread::sleep(Duration::from_millis(10));
        notifier.counts().failed > 2
    });
    let mut back = None;
    wait_until("its port is free again", || {
        back = Events::at(port);
        back.is_some()
    });
    let (back, before) = (back.unwrap(), notifier.counts());
    wait_until("it is told again", || {
        writer.write(b"heard").unwrap();
        std::thread::sleep(Duration::from_millis(10));
        back.taken() > 2
    });
    assert!(notifier.counts().pushed > before.pushed);
}
