//! Remote consumers: each priority level has threads and connections of its own, and a consumer
//! that does not read is backed off.

use crate::{client, server};
use isorb::poa::PoaPolicies;
use isorb::rt::policy::PriorityModel::{ClientPropagated, ServerDeclared};
use isorb::rt::{RealTime, RealTimeConfig, ThreadpoolLane, ThreadpoolOptions};
use isorb::{Orb, Reference, Upcall};
use isorb_event::servants::stamped::{rtec_event_channel_admin as admin, rtec_event_comm as comm};
use isorb_event::servants::{EventServiceOptions, RtecEventService};
use isorb_event::{Channel, Limits, Priority, Quality, Strategy};
use isorb_testkit::wait_until;
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Records the priorities at which it is called.
struct Consumer(Orb, Mutex<Vec<Option<i16>>>);

impl comm::PushConsumer for Consumer {
    fn push(&self, _: Upcall<'_>, data: comm::EventSetView<'_>) -> isorb::Result<()> {
        let at = self.0.rt_current().the_priority().ok().map(Priority::get);
        self.1.lock().unwrap().extend(data.iter().map(|_| at));
        Ok(())
    }

    fn disconnect_push_consumer(&self, _: Upcall<'_>) -> isorb::Result<()> {
        Ok(())
    }
}

impl Consumer {
    fn at(orb: &Orb) -> Arc<Consumer> {
        Arc::new(Consumer(orb.clone(), Mutex::default()))
    }

    fn seen(&self) -> Vec<Option<i16>> {
        self.1.lock().unwrap().clone()
    }
}

const LARGE: i32 = 20;
const SMALL: i32 = 30;
/// Eight megabytes in all, more than socket buffers hold.
const LARGE_EVENTS: usize = 2_000;

fn event(event_type: i32, octets: usize) -> comm::Event {
    let header = comm::EventHeader { type_: event_type, source: 1, ttl: 1, ..Default::default() };
    let mut event = comm::Event { header, data: Default::default() };
    event.data.payload = vec![7; octets];
    event
}

struct World {
    /// Serves the channel for as long as it lives.
    _orb: Orb,
    channel: Channel,
    face: RtecEventService,
    here: Orb,
    far: admin::EventChannelRef,
    supplier: admin::ProxyPushConsumerRef,
}

impl World {
    fn new(levels: &[i16], options: EventServiceOptions) -> World {
        let limits = Limits { events: 8 * LARGE_EVENTS, payload: 8_192, ..Limits::default() };
        let levels = levels.iter().map(|level| Priority::new(*level).unwrap()).collect();
        let (orb, channel) =
            server(Channel::builder().strategy(Strategy::Direct).limits(limits).levels(levels));
        let face =
            RtecEventService::start(&orb, &channel, EventServiceOptions { ping: None, ..options }).unwrap();
        let here = client();
        let far: admin::EventChannelRef = here.resolve(&face.object().to_string()).unwrap();
        let supplier = far.for_suppliers().unwrap().unwrap().obtain_push_consumer().unwrap().unwrap();
        supplier
            .connect_push_supplier(None::<&comm::PushSupplierRef>, &admin::SupplierQOS::default())
            .unwrap();
        World { _orb: orb, channel, face, here, far, supplier }
    }

    fn connect(&self, consumer: &comm::PushConsumerRef, types: &[i32]) {
        let proxy = self.far.for_consumers().unwrap().unwrap().obtain_push_supplier().unwrap().unwrap();
        let dependency = |t: &i32| admin::Dependency { event: event(*t, 0), rt_info: 0 };
        let dependencies = types.iter().map(dependency).collect();
        proxy
            .connect_push_consumer(consumer, &admin::ConsumerQOS { dependencies, is_gateway: false })
            .unwrap();
    }

    /// A frozen process: its system accepts connections, and no thread reads.
    fn connect_frozen(&self, types: &[i32]) -> TcpListener {
        let frozen = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("corbaloc::1.2@{}/Frozen", frozen.local_addr().unwrap());
        self.connect(&comm::PushConsumerRef::from_object(self.here.string_to_object(&url).unwrap()), types);
        frozen
    }

    fn push(&self, event_type: i32, octets: usize) {
        self.supplier.push(&vec![event(event_type, octets)]).unwrap();
    }

    /// Pushes until the first consumer's socket is full.
    fn clog(&self) {
        (0..LARGE_EVENTS).for_each(|_| self.push(LARGE, 4_096));
        wait_until("a push is stuck", || {
            let before = self.channel.consumers()[0].counts.pushed;
            std::thread::sleep(Duration::from_millis(200));
            let now = &self.channel.consumers()[0];
            now.waiting > 0 && now.counts.pushed == before
        });
    }
}

fn long_queue() -> Quality {
    Quality { queue: 2 * LARGE_EVENTS, failures: 0, ..Quality::default() }
}

/// The object of a servant in a pool with a server-declared priority.
fn served_at(
    orb: &Orb,
    name: &str,
    policies: PoaPolicies,
    consumer: &Arc<Consumer>,
) -> comm::PushConsumerRef {
    let root = orb.root_poa().unwrap();
    let poa = root.create_poa(name, Some(&root.manager()), policies).unwrap();
    poa.activate(consumer.clone()).unwrap()
}

#[test]
fn more_frozen_consumers_than_threads_delay_no_other() {
    let options = EventServiceOptions {
        quality: long_queue(),
        threads: 1,
        push_timeout: Duration::from_millis(100),
        ..EventServiceOptions::default()
    };
    let world = World::new(&[0], options);
    let frozen: Vec<TcpListener> = (0..4).map(|_| world.connect_frozen(&[LARGE])).collect();
    let consumer = Consumer::at(&world.here);
    world.connect(&world.here.root_poa().unwrap().activate(consumer.clone()).unwrap(), &[LARGE]);
    (0..LARGE_EVENTS).for_each(|_| world.push(LARGE, 4_096));
    wait_until("the good one gets all", || consumer.seen().len() == LARGE_EVENTS);
    let consumers = world.channel.consumers();
    for frozen in &consumers[..4] {
        assert_eq!(frozen.counts.failed, 0, "{frozen:?}");
        assert!(frozen.waiting > 0, "{frozen:?}: what it does not take waits");
    }
    drop(frozen);
}

#[test]
fn a_frozen_consumer_delays_no_other_at_any_level() {
    let clogged = |levels: &[i16], push_timeout: Duration| {
        let options = EventServiceOptions {
            quality: long_queue(),
            threads: 1,
            push_timeout,
            ..EventServiceOptions::default()
        };
        let world = World::new(levels, options);
        let frozen = world.connect_frozen(&[LARGE]);
        let consumer = Consumer::at(&world.here);
        let pool = world
            .here
            .rt()
            .create_threadpool(ThreadpoolLane::new(20_000, 1), &ThreadpoolOptions::default())
            .unwrap();
        let declared = PoaPolicies::new().threadpool(pool).priority_model(ServerDeclared, 20_000);
        world.connect(&served_at(&world.here, "urgent", declared, &consumer), &[SMALL]);
        world.clog();
        world.push(SMALL, 16);
        wait_until("the urgent one is served", || consumer.seen().len() == 1);
        let failed = world.channel.consumers()[0].counts.failed;
        drop(frozen);
        failed
    };
    // The time-out is longer than the test: a thread that waited for the frozen consumer would not
    // return. At the same level no thread waits either.
    for levels in [&[0, 16_384][..], &[0]] {
        assert_eq!(clogged(levels, Duration::from_secs(600)), 0);
    }
}

#[test]
fn pushes_carry_the_level_s_priority_over_a_connection_of_its_band() {
    let world = World::new(&[0, 10_000, 20_000], EventServiceOptions::default());
    let real_time = RealTimeConfig { mode: RealTime::Off, ..RealTimeConfig::default() };
    let there = Orb::with_config(isorb::Config { real_time, ..isorb::Config::default() }).unwrap();
    there.root_poa().unwrap().manager().activate().unwrap();
    let lanes = [0, 12_000, 32_767].map(|priority| ThreadpoolLane::new(priority, 1));
    let pool = there.rt().create_threadpool_with_lanes(&lanes, &ThreadpoolOptions::default()).unwrap();
    let with = |model, priority| PoaPolicies::new().threadpool(pool).priority_model(model, priority);
    let consumers =
        [(ServerDeclared, 0), (ServerDeclared, 12_000), (ServerDeclared, 32_767)].map(|(model, at)| {
            let consumer = Consumer::at(&there);
            let reference = served_at(&there, &format!("declared-{at}"), with(model, at), &consumer);
            world.connect(&reference, &[SMALL]);
            consumer
        });
    let levels: Vec<u8> = world.channel.consumers().iter().map(|consumer| consumer.level).collect();
    assert_eq!(levels, [0, 1, 2], "references say how urgent their objects are");
    let follower = Consumer::at(&there);
    world.connect(&served_at(&there, "propagated", with(ClientPropagated, 0), &follower), &[SMALL]);
    world.push(SMALL, 16);
    let all = || consumers.iter().chain([&follower]).all(|consumer| consumer.seen().len() == 1);
    wait_until("all were pushed to", all);
    let at: Vec<_> = consumers.iter().map(|consumer| consumer.seen()[0]).collect();
    assert_eq!(at, [Some(0), Some(12_000), Some(32_767)]);
    assert_eq!(follower.seen(), [Some(0)], "at the least urgent level");
    let mut bands: Vec<_> =
        there.served_connections().iter().filter_map(|c| c.band).map(|band| (band.low, band.high)).collect();
    bands.sort_unstable();
    bands.dedup();
    assert_eq!(bands, [(0, 9_999), (10_000, 19_999), (20_000, 32_767)]);
}

#[test]
fn unresponsive_peers_are_pinged_in_parallel() {
    // Longer than the test: sequential pings would reach only the first peer.
    let options = EventServiceOptions {
        ping_timeout: Duration::from_secs(600),
        pings: 1,
        ..EventServiceOptions::default()
    };
    let world = World::new(&[0], options);
    let frozen: Vec<TcpListener> = (0..12).map(|_| world.connect_frozen(&[LARGE])).collect();
    std::thread::scope(|scope| {
        let check = scope.spawn(|| world.face.check());
        let requested: Vec<_> = frozen.iter().map(|frozen| frozen.accept().unwrap()).collect();
        drop((requested, frozen));
        // A peer that does not reply within the time-out is gone, and so is one that closes.
        assert_eq!(check.join().unwrap(), 12);
    });
    assert!(world.channel.consumers().is_empty());
}
