//! Errors of a neighbour in a federation: an exception if it waits for a reply, no effect, and no
//! growth. There is no authentication: a neighbour that keeps to the protocol and announces false
//! interests is believed.

use crate::{client, server};
use idl::{LaneRef, LinkEndView, LinkRef, NeighbourRef};
use isorb::{Kind, Orb, Reference, Upcall};
use isorb_event::federation::{Federation, LinkId, MAX_FILTERS};
use isorb_event::servants::isorb_link::isorb_event as idl;
use isorb_event::servants::{FederationServant, LinkOptions};
use isorb_event::{Channel, ConsumerQos, Event, Filter, ProxyPushSupplier, designator};
use isorb_testkit::wait_until;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// As many as a member has.
const LEVELS: usize = 4;
/// The most links that others may join, and the most members that one knows.
const MOST: usize = 1024;
const MEMBER: u64 = 1;
const FORGER: u64 = 9;

/// A member, a forger that joins it, and a correct neighbour.
struct World {
    orb: Orb,
    here: Orb,
    federation: Federation,
    good: (Orb, Channel, Federation, FederationServant, LinkId),
    channel: Channel,
    seen: Arc<Mutex<Vec<u64>>>,
    door: NeighbourRef,
    _neighbourhood: FederationServant,
    _consumer: ProxyPushSupplier,
}

fn world() -> World {
    let (orb, channel) = server(Channel::builder().id(MEMBER));
    let federation = Federation::builder(&channel).build().unwrap();
    let neighbourhood =
        FederationServant::start(&orb, &federation, LinkOptions::new(Duration::from_secs(5))).unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    let consumer = move |events: &[Event<'_>]| {
        log.lock().unwrap().extend(events.iter().map(|event| event.header.creation_time));
    };
    let consumer = channel
        .for_consumers()
        .connect(Arc::new(consumer), ConsumerQos::new("own", Filter::of(20, 0)))
        .unwrap();
    let (far, other) = server(Channel::builder().id(2));
    let good = Federation::builder(&other).build().unwrap();
    let joins = FederationServant::start(&far, &good, LinkOptions::new(Duration::from_secs(5))).unwrap();
    let url = format!("corbaloc::127.0.0.1:{}/EventFederation", orb.endpoint_addresses()[0].1);
    let link = joins.join(&far.string_to_object(&url).unwrap()).unwrap();
    wait_until("they know each other", || federation.known() == 1 && good.known() == 1);
    let here = client();
    let door = here.resolve(&neighbourhood.object().to_string()).unwrap();
    let good = (far, other, good, joins, link);
    World {
        orb,
        here,
        federation,
        good,
        channel,
        seen,
        door,
        _neighbourhood: neighbourhood,
        _consumer: consumer,
    }
}

/// The forger's end: it accepts everything.
struct Ends;

impl idl::Link for Ends {
    fn announce(&self, _: Upcall<'_>, _: idl::ControlMessagesView<'_>) -> isorb::Result<()> {
        Ok(())
    }
    fn leave(&self, _: Upcall<'_>) -> isorb::Result<()> {
        Ok(())
    }
    fn now(&self, _: Upcall<'_>) -> isorb::Result<u64> {
        Ok(0)
    }
}

impl idl::Lane for Ends {
    fn forward(&self, _: Upcall<'_>, _: &[idl::EventView<'_>]) -> isorb::Result<()> {
        Ok(())
    }
}

impl World {
    fn end(&self) -> (LinkRef, LaneRef) {
        let poa = self.here.root_poa().unwrap();
        (poa.activate(Arc::new(Ends)).unwrap(), poa.activate(Arc::new(Ends)).unwrap())
    }

    /// Joins with this number of lanes. Returns the member's end and its lanes.
    fn join(&self, channel: u64, nil: Option<Nil>, lanes: usize) -> Result<(LinkRef, LaneRef), Kind> {
        let (link, lane) = self.end();
        let here = Some(&link).filter(|_| nil != Some(Nil::Transport));
        let levels = vec![Some(&lane).filter(|_| nil != Some(Nil::Lane)); lanes];
        let back = LinkEndView { channel, here, levels: &levels, shown: &[] };
        let link_end = self.door.join(&[][..], &[][..], back).map_err(|e| e.kind)?;
        Ok((link_end.here.unwrap(), link_end.levels[0].clone().unwrap()))
    }

    /// The correct neighbour still receives and sends, and no other member is known.
    fn is_well(&self, after: &str) {
        assert_eq!(self.federation.known(), 1, "{after}: a forged member was accepted");
        let (_, channel, ..) = &self.good;
        let supplier = channel.for_suppliers().connect().unwrap();
        let before = self.seen.lock().unwrap().len();
        wait_until(format!("after {after} an event comes"), || {
            supplier.push(&Event::new(20, 1).created(7).ttl(4));
            self.seen.lock().unwrap().len() > before
        });
        assert!(self.seen.lock().unwrap().iter().all(|time| *time == 7), "{after}: a forged event came");
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Nil {
    Transport,
    Lane,
}

#[test]
fn invalid_joins_are_refused() {
    let world = world();
    let links = world.federation.links();
    let cases = [
        ("this channel's own number", world.join(MEMBER, None, LEVELS)),
        ("no number", world.join(0, None, LEVELS)),
        ("no link", world.join(FORGER, Some(Nil::Transport), LEVELS)),
        ("no lane", world.join(FORGER, Some(Nil::Lane), LEVELS)),
        ("no levels", world.join(FORGER, None, 0)),
        ("fewer levels", world.join(FORGER, None, LEVELS - 1)),
        ("more levels", world.join(FORGER, None, LEVELS + 1)),
    ];
    for (what, refused) in cases {
        assert_eq!(refused.err(), Some(Kind::BadParam), "{what}");
    }
    assert_eq!(world.federation.links(), links, "nothing is left of them");
    world.is_well("refused joins");
    // The control: a valid join is accepted.
    assert!(world.join(FORGER, None, LEVELS).is_ok());
    assert_eq!(world.federation.links(), links + 1);
}

fn interest(origin: u64, filters: idl::Entries) -> idl::ControlMessage {
    let wanted = vec![idl::Interest { incarnation: 1, origin, version: u64::MAX, hops: u32::MAX, filters }];
    idl::ControlMessage { sender: FORGER, level: 0, wanted, ..idl::ControlMessage::default() }
}

fn pull(pull: idl::StreamRequest) -> idl::ControlMessage {
    idl::ControlMessage { sender: FORGER, level: 0, requested: vec![pull], ..idl::ControlMessage::default() }
}

fn head(source: u64, granted: Vec<idl::Grant>) -> idl::ControlMessage {
    let sent = vec![idl::StreamPosition { source, epoch: u64::MAX, position: u64::MAX, granted }];
    idl::ControlMessage { sender: FORGER, level: 0, reached: sent, ..idl::ControlMessage::default() }
}

#[test]
fn invalid_messages_are_refused_or_ignored() {
    let world = world();
    let (link, _) = world.join(FORGER, None, LEVELS).unwrap();
    let entry = |type_| idl::Entry { type_, source: 0, time: 0 };
    let one = |type_| [idl::Entry { type_: designator::DISJUNCTION, source: 1, time: 0 }, entry(type_)];
    let too_many: Vec<idl::Entry> = (100..100 + MAX_FILTERS as i32 + 1).flat_map(one).collect();
    let own = idl::Grant { channel: MEMBER, number: 1 };
    let pull_of = |source, parent, consumers: Vec<u64>| {
        pull(idl::StreamRequest { source, parent, number: u64::MAX, after: vec![u64::MAX, 0], consumers })
    };
    let cases = [
        (
            "a filter that ends too soon",
            interest(FORGER, vec![entry(designator::NEGATION)]),
            Some(Kind::BadParam),
        ),
        ("a designator of nothing", interest(FORGER, vec![entry(15)]), Some(Kind::BadParam)),
        ("what this channel wants itself", interest(MEMBER, vec![]), None),
        ("what no channel wants", interest(0, vec![]), None),
        ("too many filters", interest(FORGER, too_many), None),
        ("a level that is not", idl::ControlMessage { level: 200, ..interest(FORGER, vec![]) }, None),
        ("itself as this channel", idl::ControlMessage { sender: MEMBER, ..interest(FORGER, vec![]) }, None),
        ("a pull of an unknown channel's events", pull_of(77, MEMBER, vec![FORGER]), None),
        ("a pull that another is asked", pull_of(MEMBER, 77, vec![FORGER]), None),
        ("a pull for more channels than can be", pull_of(MEMBER, MEMBER, vec![FORGER; 2_000]), None),
        ("a pull of what is still to come", pull_of(2, MEMBER, vec![FORGER]), None),
        ("a head of an unknown channel", head(77, vec![own]), None),
        ("a position that grants what was not requested", head(2, vec![own]), None),
    ];
    for (what, message, refused) in cases {
        let answer = link.announce(&vec![message]).err().map(|e| e.kind);
        assert_eq!(answer, refused, "{what}");
        world.is_well(what);
    }
    link.leave().unwrap();
    wait_until("the link is left", || world.federation.links() == 1);
    // A second leave does no harm, and a sender that continues gets an error.
    link.leave().unwrap();
    let gone = link.announce(&vec![interest(FORGER, vec![])]).unwrap_err().kind;
    assert!(matches!(gone, Kind::ObjectNotExist | Kind::Transient), "{gone:?}");
    world.is_well("leaving");
    // The control: a valid message is accepted.
    let (link, _) = world.join(FORGER, None, LEVELS).unwrap();
    for level in 0..LEVELS as u8 {
        let message = idl::ControlMessage { level, ..interest(FORGER, vec![entry(30)]) };
        link.announce(&vec![message]).unwrap();
    }
    assert_eq!(world.federation.known(), 2);
}

#[test]
fn unrequested_events_are_counted_and_dropped() {
    let world = world();
    let (_link, lane) = world.join(FORGER, None, LEVELS).unwrap();
    let event = |channel, number, sender, epoch| idl::Event {
        channel,
        number,
        sender,
        epoch,
        type_: 20,
        ttl: i32::MAX,
        creation_time: 666,
        ..idl::Event::default()
    };
    let forged = [
        ("of an unknown channel", event(77, 1, FORGER, 1)),
        ("of this channel", event(MEMBER, u64::MAX, FORGER, 1)),
        ("of the other one, in an epoch of no grant", event(2, u64::MAX, FORGER, u64::MAX)),
        ("of the other one, in its name", event(2, u64::MAX, 2, 0)),
        ("of no member", event(0, 0, 0, 0)),
    ];
    let before = world.federation.counts();
    for (at, (what, event)) in forged.into_iter().enumerate() {
        lane.forward(&vec![event]).unwrap();
        let repeated = before.repeated + at as u64 + 1;
        wait_until(what, || world.federation.counts().repeated >= repeated);
    }
    let counts = world.federation.counts();
    assert_eq!((counts.received, counts.repeated - before.repeated), (before.received, 5));
    assert!(world.seen.lock().unwrap().is_empty());
    world.is_well("forged events");
}

/// Each from an end that no longer exists, like a process that joins and dies repeatedly.
#[test]
fn endless_joins_are_refused_and_expire() {
    let world = world();
    let (link, lane) = world.end();
    let poa = world.here.root_poa().unwrap();
    for object in [link.object(), lane.object()] {
        poa.deactivate_object(poa.reference_to_id(object).unwrap()).unwrap();
    }
    let levels = [Some(&lane); LEVELS];
    let back = LinkEndView { channel: FORGER, here: Some(&link), levels: &levels, shown: &[] };
    let join = || world.door.join(&[][..], &[][..], back);
    (1..MOST).for_each(|n| drop(join().unwrap_or_else(|e| panic!("{n}: {e}"))));
    assert_eq!(join().unwrap_err().kind, Kind::ImpLimit);
    assert_eq!(world.federation.links(), MOST);
    world.is_well("a flood of joins");
    // None of them is reachable within the time-out.
    let (.., good, _, _) = &world.good;
    for now in [1_000, 1_400, 1_800, 2_200] {
        world.federation.tick(now, 500);
        good.tick(now, u64::MAX);
    }
    assert_eq!(world.federation.links(), 1);
    assert!(join().is_ok(), "there is room again");
    assert!(world.orb.endpoint_addresses().len() == 1 && world.channel.id() == MEMBER);
}

/// With more numbers than a member remembers, each new, and more neighbours for each.
#[test]
fn a_forger_with_many_numbers_is_bounded() {
    let world = world();
    let (link, _) = world.join(FORGER, None, LEVELS).unwrap();
    let many: Vec<idl::Interest> = (100..100 + 2 * MOST as u64)
        .map(|origin| idl::Interest { incarnation: 1, origin, version: 1, hops: 0, filters: vec![] })
        .collect();
    for level in 0..LEVELS as u8 {
        let wanted = many.clone();
        link.announce(&vec![idl::ControlMessage {
            sender: FORGER,
            level,
            wanted,
            ..idl::ControlMessage::default()
        }])
        .unwrap();
    }
    assert_eq!(world.federation.known(), MOST);
}
