//! Links with threads for each priority level, on one processor.

use isorb::Orb;
use isorb::rt::{RealTime, RealTimeConfig};
use isorb_event::federation::{Federation, Levels};
use isorb_event::servants::{FederationServant, LinkOptions, UdpGateway, UdpOptions};
use isorb_event::{Channel, ConsumerQos, Event, Filter, Priority, Quality, ThreadSetup};
use isorb_rt::sched::{Cpus, SchedClass, current_cpus};
use isorb_testkit::wait_until;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// A less urgent event type, and an urgent one.
const TYPES: [i32; 2] = [20, 21];
const FLOOD: u64 = 200;
const LONG: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum By {
    Calls { lanes: bool },
    Datagrams,
}

struct Member {
    channel: Channel,
    federation: Federation,
    _held: Box<dyn std::any::Any>,
}

fn setup() -> (ThreadSetup, RealTimeConfig) {
    let cpu = current_cpus().unwrap().iter().next().unwrap();
    let may = std::thread::spawn(|| SchedClass::Fifo(1).set_current().is_ok()).join().unwrap();
    let setup = if may { ThreadSetup::fifo() } else { ThreadSetup::default() };
    let mode = if may { RealTime::Prefer } else { RealTime::Off };
    (setup.on(Cpus::one(cpu)), RealTimeConfig { mode, cpus: vec![cpu], ..RealTimeConfig::default() })
}

/// Two members with a link. Consumers run on the threads that receive.
fn pair(by: By, levels: &Levels) -> [Member; 2] {
    let [one, other] = [1, 2].map(|id| {
        let channel = Channel::builder().id(id).build().unwrap();
        let federation = Federation::builder(&channel).levels(levels.clone()).build().unwrap();
        (channel, federation)
    });
    let (threads, real_time) = setup();
    let held: [Box<dyn std::any::Any>; 2] = match by {
        By::Datagrams => {
            let free = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
            let (here, there) = (free(), free());
            let gateway = |federation: &Federation, here, there| {
                let options = UdpOptions::to_neighbour(here, there);
                UdpGateway::start_with_threads(federation, options, &threads).unwrap()
            };
            [Box::new(gateway(&one.1, here, there)), Box::new(gateway(&other.1, there, here))]
        }
        By::Calls { lanes } => {
            let [near, far] = [&one.1, &other.1].map(|federation| {
                let real_time = real_time.clone();
                let orb = Orb::with_config(isorb::Config { real_time, ..isorb::Config::default() }).unwrap();
                orb.root_poa().unwrap().manager().activate().unwrap();
                let links = FederationServant::start(&orb, federation, LinkOptions::new(LONG).lanes(lanes));
                (orb, links.unwrap())
            });
            let url = far.1.object().to_string();
            near.1.join(&near.0.string_to_object(&url).unwrap()).unwrap();
            [Box::new(near), Box::new(far)]
        }
    };
    let members = [one, other].into_iter().zip(held);
    let members = members.map(|((channel, federation), _held)| Member { channel, federation, _held });
    <[Member; 2]>::try_from(members.collect::<Vec<_>>()).ok().unwrap()
}

/// Pushes a flood of events for a less urgent consumer, which keeps the processor for each until
/// the urgent consumer was called, or for `limit`. Behind all of them one event for the urgent
/// consumer is pushed. Returns how many of the flood had arrived when it was called.
fn before_the_urgent_one(by: By, levels: &Levels, limit: Duration) -> u64 {
    let [near, far] = pair(by, levels);
    let (came, before) = ([0, 1].map(|_| Arc::new(AtomicU64::new(0))), Arc::new(AtomicU64::new(u64::MAX)));
    let flooding = Arc::new(AtomicBool::new(false));
    let (count, met, now) = (came[0].clone(), before.clone(), flooding.clone());
    let low = move |_: &[Event<'_>]| {
        let since = Instant::now();
        // Without sleeping: the urgent thread must pre-empt this one.
        while now.load(SeqCst) && met.load(SeqCst) == u64::MAX && since.elapsed() < limit {
            std::hint::spin_loop();
        }
        count.fetch_add(1, SeqCst);
    };
    let (counts, at, now) = (came.clone(), before.clone(), flooding.clone());
    let urgent = move |_: &[Event<'_>]| {
        counts[1].fetch_add(1, SeqCst);
        if now.load(SeqCst) {
            let _ = at.compare_exchange(u64::MAX, counts[0].load(SeqCst), SeqCst, SeqCst);
        }
    };
    let admin = far.channel.for_consumers();
    let qos = |i: usize, priority| {
        ConsumerQos::new("far", Filter::of(TYPES[i], 0)).quality(Quality { priority, ..Quality::default() })
    };
    let _low = admin.connect(Arc::new(low), qos(0, Priority::MIN)).unwrap();
    let _urgent = admin.connect(Arc::new(urgent), qos(1, Priority::MAX)).unwrap();
    let supplier = near.channel.for_suppliers().connect().unwrap();
    let push = |event_type| {
        supplier.push(&Event::new(event_type, 1).ttl(2));
    };
    let tick = || {
        [&near, &far].iter().for_each(|member| member.federation.tick(isorb_rt::time::now_ns(), u64::MAX));
    };
    wait_until("both are wanted here", || {
        tick();
        TYPES.iter().for_each(|event_type| push(*event_type));
        came.iter().all(|came| came.load(SeqCst) > 0)
    });
    wait_until("nothing is under way", || {
        // One may have been lost: then the last one is there when none comes any more.
        let received = far.federation.counts().received;
        std::thread::sleep(Duration::from_millis(300));
        let all = far.federation.counts().received == received;
        all && came.iter().map(|came| came.load(SeqCst)).sum::<u64>() == received
    });
    came[0].store(0, SeqCst);
    flooding.store(true, SeqCst);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Otherwise the busy consumer may keep it from pushing.
            let _ = SchedClass::Fifo(99).set_current();
            (0..FLOOD).for_each(|_| push(TYPES[0]));
            push(TYPES[1]);
        });
    });
    wait_until("the urgent one came", || {
        // A datagram may have been lost.
        if by == By::Datagrams {
            tick();
        }
        before.load(SeqCst) != u64::MAX
    });
    before.load(SeqCst)
}

#[test]
fn an_urgent_event_overtakes_a_flood_of_others_over_a_link() {
    for by in [By::Calls { lanes: true }, By::Datagrams] {
        assert_eq!(before_the_urgent_one(by, &Levels::default(), LONG), 0, "{by:?}");
    }
}

/// With one level, or one connection for all of them, it arrives behind the flood.
#[test]
fn without_levels_or_lanes_it_arrives_behind_the_flood() {
    let short = Duration::from_millis(2);
    for (by, levels) in [
        (By::Calls { lanes: true }, Levels::one()),
        (By::Calls { lanes: false }, Levels::default()),
        (By::Datagrams, Levels::one()),
    ] {
        let before = before_the_urgent_one(by, &levels, short);
        assert!(before > 0, "{by:?} in {} levels", levels.begins().len());
    }
}

#[test]
fn members_with_other_levels_are_refused() {
    let member = |id, levels| {
        let channel = Channel::builder().id(id).build().unwrap();
        Federation::builder(&channel).levels(levels).build().unwrap()
    };
    let orb = |federation: &Federation| {
        let orb = crate::client();
        let links = FederationServant::start(&orb, federation, LinkOptions::new(LONG)).unwrap();
        (orb, links)
    };
    let (four, one) = (member(1, Levels::default()), member(2, Levels::one()));
    let ((here, near), (_there, far)) = (orb(&four), orb(&one));
    let refused = near.join(&here.string_to_object(&far.object().to_string()).unwrap()).unwrap_err();
    assert!(refused.to_string().contains("1 priority levels, and the other 4"), "{refused}");
    assert_eq!((four.links(), one.links()), (0, 0));
}
