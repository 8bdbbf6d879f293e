//! What TAO 2.2.2 sends, octet by octet: its gateway subscribes with an empty disjunction while the
//! other channel has no consumers, and its channel and tests leave `is_gateway` uninitialised.

use crate::{client, server};
use isorb::Reference;
use isorb_cdr::{Decode, Decoder, Order, Text};
use isorb_event::servants::stamped::{rtec_event_channel_admin as admin, rtec_event_comm as comm};
use isorb_event::servants::{EventServiceOptions, RtecEventService};
use isorb_event::{Channel, ConsumerQos, Event, Filter};
use isorb_scope::Region;
use std::sync::Arc;

/// `ConsumerQOS` of the gateway's `connect_push_consumer`, and of `update_consumer` to an observer:
/// one header with the type of a disjunction, and 1 or 0xe0 for `is_gateway`.
fn consumer_qos(is_gateway: u8) -> Vec<u8> {
    let mut octets = vec![0; 4 + 52 + 1];
    (octets[0], octets[4]) = (1, 9);
    *octets.last_mut().unwrap() = is_gateway;
    octets
}

fn decode<T>(octets: &mut [u8], read: impl FnOnce(&mut Decoder<'_>) -> T) -> T {
    let mut region = Region::new(1 << 12);
    let scope = region.enter();
    read(&mut Decoder::new(octets, Order::Little, Text::DEFAULT, &scope))
}

/// `SupplierQOS` of a supplier with three publications.
const THREE_PUBLICATIONS: &str = "\
     0300000011000000010000000000000000000000000000000000000000000000000000000000000000000000\
     0000000000000000000000000000000001000000000000000000000000000000120000000100000000000000\
     0000000000000000000000000000000000000000000000000000000000000000000000000000000000000000\
     0100000000000000000000000000000013000000010000000000000000000000000000000000000000000000\
     0000000000000000000000000000000000000000000000000000000001000000000000000000000000000000\
     00";

#[test]
fn publications_of_a_supplier_are_read_to_the_last() {
    let text = THREE_PUBLICATIONS;
    let octet = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    // The list begins in the middle of eight octets.
    let before = [0; 4].into_iter();
    let mut octets: Vec<u8> = before.chain((0..text.len()).step_by(2).map(octet)).collect();
    let read = decode(&mut octets, |d| {
        assert_eq!(u32::decode(d), Ok(0));
        let qos = admin::SupplierQOSView::decode(d).unwrap();
        assert_eq!(d.remaining(), 0);
        let one = |of: &admin::PublicationView<'_>| (of.event.header.type_, of.event.header.source);
        qos.publications.iter().map(one).collect::<Vec<_>>()
    });
    assert_eq!(read, [(17, 1), (18, 1), (19, 1)]);
}

#[test]
fn a_boolean_of_a_qos_structure_is_true_unless_it_is_zero() {
    for (octet, value) in [(0, false), (1, true), (0x68, true), (0x78, true), (0x7f, true), (0xe0, true)] {
        let mut octets = consumer_qos(octet);
        let consumer = decode(&mut octets, |d| {
            let qos = admin::ConsumerQOSView::decode(d).unwrap();
            assert_eq!(qos.dependencies[0].event.header.type_, 9);
            qos.is_gateway
        });
        // As in `update_supplier`: no publications.
        let mut octets = [0, 0, 0, 0, octet];
        let supplier = decode(&mut octets, |d| admin::SupplierQOSView::decode(d).unwrap().is_gateway);
        assert_eq!((consumer, supplier), (value, value), "{octet:#x}");
    }
}

#[test]
fn a_filter_that_is_one_empty_disjunction_is_accepted_and_matches_nothing() {
    let (orb, channel) = server(Channel::builder());
    let service = RtecEventService::start(&orb, &channel, EventServiceOptions::default()).unwrap();
    let here = client();
    let far: admin::EventChannelRef = here.resolve(&service.object().to_string()).unwrap();
    let gateway = Arc::new(crate::unreachable_peers::Nothing);
    let gateway: comm::PushConsumerRef = here.root_poa().unwrap().activate(gateway).unwrap();
    let proxy = far.for_consumers().unwrap().unwrap().obtain_push_supplier().unwrap().unwrap();
    let header = comm::EventHeader { type_: 9, ..Default::default() };
    let event = comm::Event { header, data: Default::default() };
    let dependencies = vec![admin::Dependency { event, rt_info: 0 }];
    proxy.connect_push_consumer(&gateway, &admin::ConsumerQOS { dependencies, is_gateway: true }).unwrap();
    assert_eq!(proxy.object().non_existent(), Ok(false));
    let supplier = channel.for_suppliers().connect().unwrap();
    assert_eq!(supplier.push(&Event::new(20, 1)).taken, 0);
    let log = |_: &[Event<'_>]| {};
    let all = ConsumerQos::new("all", Filter::Everything);
    let _all = channel.for_consumers().connect(Arc::new(log), all).unwrap();
    assert_eq!(supplier.push(&Event::new(20, 1)).taken, 1);
}

#[test]
fn a_header_by_default_crosses_one_link() {
    assert_eq!(comm::EventHeader::default().ttl, 1);
    assert_eq!(isorb_event::servants::plain::rtec_event_comm::EventHeader::default().ttl, 1);
    assert_eq!(isorb_event::Header::default().ttl, 1);
}
