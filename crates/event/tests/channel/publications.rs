//! Publications of suppliers and their effects.

use crate::common::*;
use isorb_event::federation::{
    ControlMessage, Federation, ForwardError, ForwardedEvent, Interest, LinkDown, Transport,
};
use isorb_event::{
    Channel, ConnectError, Filter, MAX_PUBLICATIONS, Observer, Overflow, Ownership, Publication, Quality,
    Strategy, SupplierQos, Undeclared,
};
use std::sync::{Arc, Mutex};

fn declares(publications: &[(i32, i32)]) -> SupplierQos {
    SupplierQos::new(publications.iter().map(|(event_type, source)| Publication::new(*event_type, *source)))
}

#[test]
fn undeclared_events_are_counted_or_refused() {
    for undeclared in [Undeclared::Count, Undeclared::Refuse] {
        let channel = Channel::builder().undeclared(undeclared).build().unwrap();
        let log = Log::default();
        let _c = log.connect(&channel, wants(Filter::Everything));
        let silent = channel.for_suppliers().connect().unwrap();
        let declared = channel.for_suppliers().connect_with(declares(&[(20, 1), (21, 0)])).unwrap();
        for event in [event(20, 1, 1), event(21, 9, 2)] {
            let pushed = declared.push(&event);
            assert_eq!((pushed.taken, pushed.undeclared), (1, 0));
        }
        assert_eq!(
            silent.push(&event(99, 9, 3)).undeclared,
            0,
            "a supplier without publications may push anything"
        );
        let others = [event(20, 2, 4), event(22, 1, 5)];
        let pushed = declared.push_all(&others);
        let gets = if undeclared == Undeclared::Count { 2 } else { 0 };
        assert_eq!((pushed.taken, pushed.undeclared), (gets, 2));
        assert_eq!((log.take().len(), channel.totals().undeclared), (3 + gets as usize, 2));
    }
}

#[test]
fn a_refused_event_takes_the_instance_from_no_other_supplier() {
    let channel = Channel::builder().undeclared(Undeclared::Refuse).build().unwrap();
    let log = Log::default();
    let _c = log.connect(&channel, wants(Filter::Everything));
    let competing = |strength, publications: &[(i32, i32)]| {
        let qos = SupplierQos { ownership: Some(Ownership::new(strength)), ..declares(publications) };
        channel.for_suppliers().connect_with(qos).unwrap()
    };
    let (strong, weak) = (competing(9, &[(20, 1)]), competing(1, &[]));
    let refused = strong.push(&event(21, 1, 1));
    assert_eq!((refused.taken, refused.undeclared, refused.not_owned), (0, 1, 0));
    let pushed = weak.push(&event(21, 1, 2));
    assert_eq!((pushed.taken, pushed.not_owned), (1, 0));
    assert_eq!(log.take_times(), [[2]]);
    // What is delivered competes, declared or not.
    let channel = Channel::builder().build().unwrap();
    let competing = |strength| {
        let qos = SupplierQos { ownership: Some(Ownership::new(strength)), ..declares(&[(20, 1)]) };
        channel.for_suppliers().connect_with(qos).unwrap()
    };
    let (strong, weak) = (competing(9), competing(1));
    strong.push(&event(21, 1, 1));
    let dropped = weak.push(&event(21, 1, 2));
    assert_eq!((dropped.undeclared, dropped.not_owned), (1, 1));
}

#[test]
fn lost_events_that_were_not_declared_count_as_any_other() {
    let (channel, _) = still(Channel::builder().strategy(Strategy::ByHand { upcalls: false }));
    let quality = Quality { queue: 1, overflow: Overflow::DropNewest, ..Quality::default() };
    let _c = Log::default().connect(&channel, wants(Filter::Everything).quality(quality));
    let supplier = channel.for_suppliers().connect_with(declares(&[(20, 1)])).unwrap();
    let dropped: u32 = (0..3).map(|n| supplier.push(&event(21, 1, n)).dropped).sum();
    assert_eq!((u64::from(dropped), supplier.lost()), (2, 2));
}

#[test]
fn publications_are_bounded() {
    let channel = Channel::builder().build().unwrap();
    let many = |count: usize| SupplierQos::new((0..count as i32).map(|n| Publication::new(20 + n, 1)));
    assert!(channel.for_suppliers().connect_with(many(MAX_PUBLICATIONS)).is_ok());
    let refused = channel.for_suppliers().connect_with(many(MAX_PUBLICATIONS + 1)).unwrap_err();
    assert_eq!(refused, ConnectError::TooManyPublications);
    assert!(refused.to_string().contains(&MAX_PUBLICATIONS.to_string()), "{refused}");
}

type Notified = Option<Vec<Publication>>;

#[derive(Default)]
struct Watch(Mutex<Vec<Notified>>);

impl Observer for Watch {
    fn update_consumers(&self, _: u64, _: &[Filter]) {}
    fn update_suppliers(&self, _: u64, published: Option<&[Publication]>) {
        self.0.lock().unwrap().push(published.map(<[Publication]>::to_vec));
    }
}

#[test]
fn observers_receive_the_publications_of_all_suppliers() {
    let channel = Channel::builder().build().unwrap();
    let watch = Arc::new(Watch::default());
    channel.append_observer(watch.clone()).unwrap();
    let notified = || std::mem::take(&mut *watch.0.lock().unwrap());
    let some = |list: &[(i32, i32)]| Some(declares(list).publications);
    assert_eq!(notified(), [None], "no supplier is connected");
    let one = channel.for_suppliers().connect_with(declares(&[(21, 1), (20, 1)])).unwrap();
    assert_eq!(notified(), [some(&[(20, 1), (21, 1)])]);
    let same = channel.for_suppliers().connect_with(declares(&[(20, 1)])).unwrap();
    assert!(notified().is_empty(), "unchanged");
    let silent = channel.for_suppliers().connect().unwrap();
    assert_eq!(notified(), [None]);
    drop(silent);
    assert_eq!(notified(), [some(&[(20, 1), (21, 1)])]);
    drop(one);
    assert_eq!(notified(), [some(&[(20, 1)])]);
    let gateway = SupplierQos { gateway: true, ..SupplierQos::default() };
    let _gateway = channel.for_suppliers().connect_with(gateway).unwrap();
    assert!(notified().is_empty(), "a gateway is not reported");
    drop(same);
    assert_eq!(notified(), [None]);
}

struct NoSuccessor;

impl Transport for NoSuccessor {
    fn announce(&self, _: &[ControlMessage]) -> Result<(), LinkDown> {
        Ok(())
    }
    fn forward(&self, _: &ForwardedEvent<'_>) -> Result<(), ForwardError> {
        Ok(())
    }
}

/// The number of look-ups shows it: one for each kind of subscription.
#[test]
fn a_federation_subscribes_only_to_published_events() {
    let channel = Channel::builder().id(1).build().unwrap();
    let federation = Federation::builder(&channel).build().unwrap();
    let link = federation.join(Arc::new(NoSuccessor));
    // By type, by source, by both: three look-ups.
    let filters = vec![Filter::of_type(20), Filter::from_source(2), Filter::of(22, 3)];
    let interest = |link, origin, filters: Vec<Filter>| {
        let interests =
            vec![Interest { incarnation: 1, origin, version: 1, hops: 0, filters: filters.into() }];
        federation.receive_message(
            link,
            &ControlMessage { sender: origin, interests, ..ControlMessage::default() },
        );
    };
    interest(link, 2, filters);
    assert_eq!(channel.lookups(), 3, "it is not known what is published");
    let other = channel.for_suppliers().connect_with(declares(&[(30, 1)])).unwrap();
    assert_eq!((channel.lookups(), other.push(&event(30, 1, 0)).taken), (0, 0));
    let twenty = channel.for_suppliers().connect_with(declares(&[(20, 7)])).unwrap();
    assert_eq!((channel.lookups(), twenty.push(&event(20, 7, 0)).taken), (1, 1));
    let anything_of_2 = channel.for_suppliers().connect_with(declares(&[(0, 2)])).unwrap();
    assert_eq!(channel.lookups(), 2, "by type and by source");
    drop(anything_of_2);
    assert_eq!(channel.lookups(), 1);
    // Between two neighbours as well: events of one go on to the other without passing this
    // member's tables.
    let second = federation.join(Arc::new(NoSuccessor));
    interest(second, 3, vec![Filter::of_type(40)]);
    assert_eq!(channel.lookups(), 1);
    interest(second, 4, vec![Filter::from_source(7)]);
    assert_eq!(channel.lookups(), 2);
    federation.leave(second);
    // A supplier without publications may push anything.
    let _silent = channel.for_suppliers().connect().unwrap();
    // By type, by source, by both.
    assert_eq!(channel.lookups(), 3);
}
