//! TAO's interfaces, in both layouts of an event.

use crate::{client, server};
use isorb::{Any, Reference, Upcall};
use isorb_event::servants::{EventServiceOptions, Layout, RtecEventService};
use isorb_event::{Channel, Strategy};
use isorb_testkit::wait_until;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Malformed lists of type and source: groups without members or with fewer than announced, also
/// nested; a negation or masks alone; time-outs of zero; unknown designators; conjunctions and
/// time-outs where a single-event filter is needed; too many terms.
const MALFORMED: [&[(i32, i32)]; 21] = [
    &[(8, 0)],
    &[(20, 0), (9, 0)],
    &[(11, 0)],
    &[(8, -1), (20, 0)],
    &[(8, 9), (20, 0)],
    &[(8, 2), (20, 0), (9, 1)],
    &[(8, 2), (20, 0), (8, 3), (21, 0)],
    &[(20, 0), (8, 0), (9, 0), (21, 0)],
    &[(10, 0)],
    &[(20, 0), (10, 0)],
    &[(12, 0)],
    &[(12, 0), (1, 1)],
    &[(13, 0), (1, 1)],
    &[(13, 0), (1, 1), (2, 0)],
    &[(4, 0)],
    &[(5, 0)],
    &[(20, 0), (6, 0)],
    &[(15, 0)],
    &[(10, 0), (8, 2), (20, 0), (21, 0)],
    &[(10, 0); 40],
    &[(20, 0); 40],
];

macro_rules! layout {
    ($module:ident, $layout:expr, $header:expr) => {
        mod $module {
            use super::*;
            use isorb_event::servants::$module as idl;
            use idl::rtec_event_channel_admin as admin;
            use idl::rtec_event_comm as comm;

            #[derive(Default)]
            struct Consumer(Mutex<Vec<Vec<comm::Event>>>, Mutex<u32>);

            impl comm::PushConsumer for Consumer {
                fn push(&self, _: Upcall<'_>, data: comm::EventSetView<'_>) -> isorb::Result<()> {
                    use isorb::generated::Idl;
                    let set = data.iter().map(|event| comm::Event::from_view(*event)).collect();
                    self.0.lock().unwrap().push(set);
                    Ok(())
                }
                fn disconnect_push_consumer(&self, _: Upcall<'_>) -> isorb::Result<()> {
                    *self.1.lock().unwrap() += 1;
                    Ok(())
                }
            }

            fn event(event_type: i32, source: i32, time: u64) -> comm::Event {
                let header: fn(i32, i32, u64) -> comm::EventHeader = $header;
                comm::Event { header: header(event_type, source, time), data: Default::default() }
            }

            fn qos(entries: &[(i32, i32)]) -> admin::ConsumerQOS {
                let entry = |&(t, s)| admin::Dependency { event: event(t, s, 0), rt_info: 0 };
                admin::ConsumerQOS { dependencies: entries.iter().map(entry).collect(), is_gateway: false }
            }

            fn far(strategy: Strategy, options: EventServiceOptions) -> (isorb::Orb, isorb_event::Channel, RtecEventService, admin::EventChannelRef, isorb::Orb) {
                let (orb, channel) = server(Channel::builder().strategy(strategy));
                let face = RtecEventService::start(&orb, &channel, EventServiceOptions { layout: $layout, ..options }).unwrap();
                let here = client();
                let port = orb.endpoint_addresses()[0].1;
                let url = format!("corbaloc::127.0.0.1:{port}/EventService");
                let far: admin::EventChannelRef = here.resolve(&url).unwrap();
                (orb, channel, face, far, here)
            }

            struct Watching(Mutex<Vec<Vec<(i32, i32)>>>);

            impl admin::Observer for Watching {
                fn update_consumer(&self, _: Upcall<'_>, _: admin::ConsumerQOSView<'_>) -> isorb::Result<()> {
                    Ok(())
                }
                fn update_supplier(&self, _: Upcall<'_>, update: admin::SupplierQOSView<'_>) -> isorb::Result<()> {
                    let header = |p: &admin::PublicationView<'_>| (p.event.header.type_, p.event.header.source);
                    self.0.lock().unwrap().push(update.publications.iter().map(header).collect());
                    Ok(())
                }
            }

            #[test]
            fn publications_are_told_to_observers_and_held_against_events() {
                let config = Channel::builder().undeclared(isorb_event::Undeclared::Refuse);
                let (orb, channel) = server(config);
                let face = RtecEventService::start(&orb, &channel, EventServiceOptions { layout: $layout, ..EventServiceOptions::default() }).unwrap();
                let here = client();
                let far: admin::EventChannelRef = here.resolve(&face.object().to_string()).unwrap();
                let poa = here.root_poa().unwrap();
                let watching = Arc::new(Watching(Mutex::default()));
                let observer: admin::ObserverRef = poa.activate(watching.clone()).unwrap();
                far.append_observer(&observer).unwrap();
                let consumer = Arc::new(Consumer::default());
                let reference: comm::PushConsumerRef = poa.activate(consumer.clone()).unwrap();
                let proxy = far.for_consumers().unwrap().unwrap().obtain_push_supplier().unwrap().unwrap();
                proxy.connect_push_consumer(&reference, &qos(&[(20, 0), (21, 0)])).unwrap();
                let supplier = far.for_suppliers().unwrap().unwrap().obtain_push_consumer().unwrap().unwrap();
                let publication = admin::Publication { event: event(20, 3, 0), dependency_info: Default::default() };
                let declared = admin::SupplierQOS { publications: vec![publication], is_gateway: false };
                supplier.connect_push_supplier(None::<&comm::PushSupplierRef>, &declared).unwrap();
                wait_until("the observer is told", || watching.0.lock().unwrap().last() == Some(&vec![(20, 3)]));
                supplier.push(&vec![event(21, 3, 1), event(20, 4, 2), event(20, 3, 3)]).unwrap();
                wait_until("the one that was declared", || consumer.0.lock().unwrap().len() == 1);
                assert_eq!(*consumer.0.lock().unwrap(), [vec![event(20, 3, 3)]]);
                assert_eq!(channel.totals().undeclared, 2);
            }

            #[test]
            fn events_go_through_with_all_that_is_in_them() {
                for threads in [0, 2] {
                    let options = EventServiceOptions { threads, ..EventServiceOptions::default() };
                    let (_orb, _channel, _face, far, here) = far(Strategy::Direct, options);
                    let consumer = Arc::new(Consumer::default());
                    let reference: comm::PushConsumerRef =
                        here.root_poa().unwrap().activate(consumer.clone()).unwrap();
                    let proxy = far.for_consumers().unwrap().unwrap().obtain_push_supplier().unwrap().unwrap();
                    // A conjunction, and everything of source 7.
                    proxy.connect_push_consumer(&reference, &qos(&[(8, 2), (20, 0), (21, 0), (9, 1), (0, 7)])).unwrap();
                    let again = proxy.connect_push_consumer(&reference, &qos(&[(20, 0)])).unwrap_err();
                    assert!(matches!(again, admin::proxy_push_supplier::ConnectPushConsumerError::AlreadyConnected(_)));
                    let supplier = far.for_suppliers().unwrap().unwrap().obtain_push_consumer().unwrap().unwrap();
                    supplier.connect_push_supplier(None::<&comm::PushSupplierRef>, &admin::SupplierQOS::default()).unwrap();
                    let mut rich = event(20, 1, 11);
                    rich.data.pad1 = 5;
                    rich.data.payload = b"octets".to_vec();
                    rich.data.any_value = Any::new(&"text".to_owned()).unwrap();
                    supplier.push(&vec![rich.clone(), event(22, 1, 12), event(21, 1, 13), event(30, 7, 14)]).unwrap();
                    wait_until("two pushes", || consumer.0.lock().unwrap().len() == 2);
                    let got = std::mem::take(&mut *consumer.0.lock().unwrap());
                    assert_eq!(got, [vec![rich, event(21, 1, 13)], vec![event(30, 7, 14)]]);
                    proxy.suspend_connection().unwrap();
                    supplier.push(&vec![event(30, 7, 15)]).unwrap();
                    proxy.resume_connection().unwrap();
                    supplier.push(&vec![event(30, 7, 16)]).unwrap();
                    wait_until("one push", || consumer.0.lock().unwrap().len() == 1);
                    assert_eq!(consumer.0.lock().unwrap()[0], [event(30, 7, 16)]);
                    proxy.disconnect_push_supplier().unwrap();
                    assert!(proxy.object().non_existent().unwrap());
                    far.destroy().unwrap();
                }
            }

            #[test]
            fn malformed_filters_raise_type_error_and_nil_bad_param() {
                let (_orb, channel, _face, far, here) = far(Strategy::Direct, EventServiceOptions::default());
                let reference: comm::PushConsumerRef =
                    here.root_poa().unwrap().activate(Arc::new(Consumer::default())).unwrap();
                let proxy = far.for_consumers().unwrap().unwrap().obtain_push_supplier().unwrap().unwrap();
                use admin::proxy_push_supplier::ConnectPushConsumerError::{System, TypeError};
                for list in MALFORMED {
                    let error = proxy.connect_push_consumer(&reference, &qos(list)).unwrap_err();
                    assert!(matches!(error, TypeError(_)), "{list:?}: {error}");
                    assert!(channel.consumers().is_empty(), "{list:?}: no consumer is half connected");
                }
                let nil = proxy.connect_push_consumer(None::<&comm::PushConsumerRef>, &qos(&[(20, 0)]));
                assert!(matches!(nil.unwrap_err(), System(e) if e.kind == isorb::Kind::BadParam));
                assert!(channel.consumers().is_empty());
                proxy.connect_push_consumer(&reference, &qos(&[(20, 0)])).unwrap();
            }

            #[test]
            fn a_consumer_that_is_gone_is_found_out_and_removed() {
                let options = EventServiceOptions {
                    ping: None,
                    pings: 2,
                    ping_timeout: Duration::from_secs(2),
                    ..EventServiceOptions::default()
                };
                let (_orb, channel, face, far, here) = far(Strategy::Direct, options);
                let consumer = |orb: &isorb::Orb| {
                    let consumer: comm::PushConsumerRef =
                        orb.root_poa().unwrap().activate(Arc::new(Consumer::default())).unwrap();
                    let proxy = far.for_consumers().unwrap().unwrap().obtain_push_supplier().unwrap().unwrap();
                    proxy.connect_push_consumer(&consumer, &qos(&[(20, 0)])).unwrap();
                };
                consumer(&here);
                let other = client();
                consumer(&other);
                assert_eq!((face.check(), channel.consumers().len()), (0, 2));
                other.shutdown(true).unwrap();
                drop(other);
                wait_until("the other is gone", || face.check() == 1);
                assert_eq!((face.check(), channel.consumers().len()), (0, 1));
            }

            /// A frozen process: its system accepts connections, and no thread reads.
            fn frozen(strategy: Strategy) {
                const EVENTS: usize = 2_000;
                let quality = isorb_event::Quality { queue: EVENTS, failures: 0, ..isorb_event::Quality::default() };
                // The other one answers within this time, however busy the machine.
                let limit = Duration::from_secs(2);
                let options = EventServiceOptions { quality, push_timeout: limit, ping: None, ping_timeout: limit, pings: 2, layout: $layout, ..EventServiceOptions::default() };
                let limits = isorb_event::Limits { events: 2 * EVENTS, payload: 8_192, ..isorb_event::Limits::default() };
                let (orb, channel) = server(Channel::builder().strategy(strategy).limits(limits));
                let face = RtecEventService::start(&orb, &channel, options).unwrap();
                let here = client();
                let far: admin::EventChannelRef = here.resolve(&face.object().to_string()).unwrap();
                let consumers = far.for_consumers().unwrap().unwrap();
                let frozen = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
                let url = format!("corbaloc::1.2@{}/Frozen", frozen.local_addr().unwrap());
                let frozen_reference = comm::PushConsumerRef::from_object(here.string_to_object(&url).unwrap());
                let proxy = consumers.obtain_push_supplier().unwrap().unwrap();
                proxy.connect_push_consumer(&frozen_reference, &qos(&[(20, 0)])).unwrap();
                let consumer = Arc::new(Consumer::default());
                let reference: comm::PushConsumerRef = here.root_poa().unwrap().activate(consumer.clone()).unwrap();
                let proxy = consumers.obtain_push_supplier().unwrap().unwrap();
                proxy.connect_push_consumer(&reference, &qos(&[(20, 0)])).unwrap();
                let supplier = far.for_suppliers().unwrap().unwrap().obtain_push_consumer().unwrap().unwrap();
                supplier.connect_push_supplier(None::<&comm::PushSupplierRef>, &admin::SupplierQOS::default()).unwrap();
                // Eight megabytes, more than socket buffers hold.
                let mut large = event(20, 1, 0);
                large.data.payload = vec![7; 4_096];
                (0..EVENTS).for_each(|_| supplier.push(&vec![large.clone()]).unwrap());
                wait_until("the other gets all", || consumer.0.lock().unwrap().len() == EVENTS);
                assert_eq!(channel.consumers().len(), 2, "{strategy:?}: the frozen one is still there");
                wait_until("it does not answer, and is removed", || {
                    face.check();
                    channel.consumers().len() == 1
                });
                drop(frozen);
            }

            #[test]
            fn a_frozen_consumer_holds_up_no_other_and_is_removed() {
                std::thread::scope(|scope| {
                    for strategy in [Strategy::Direct, Strategy::SingleThreaded, Strategy::Threads { per_level: 1 }, Strategy::Upcalls] {
                        scope.spawn(move || frozen(strategy));
                    }
                });
            }

            #[test]
            fn observers_are_told_what_is_wanted() {
                struct Observer(Mutex<Vec<admin::ConsumerQOS>>);
                impl admin::Observer for Observer {
                    fn update_consumer(&self, _: Upcall<'_>, sub: admin::ConsumerQOSView<'_>) -> isorb::Result<()> {
                        use isorb::generated::Idl;
                        self.0.lock().unwrap().push(admin::ConsumerQOS::from_view(sub));
                        Ok(())
                    }
                    fn update_supplier(&self, _: Upcall<'_>, _: admin::SupplierQOSView<'_>) -> isorb::Result<()> {
                        Ok(())
                    }
                }
                let (_orb, _channel, _face, far, here) = far(Strategy::Direct, EventServiceOptions::default());
                let observer = Arc::new(Observer(Mutex::default()));
                let reference: admin::ObserverRef = here.root_poa().unwrap().activate(observer.clone()).unwrap();
                let handle = far.append_observer(&reference).unwrap();
                let consumer: comm::PushConsumerRef =
                    here.root_poa().unwrap().activate(Arc::new(Consumer::default())).unwrap();
                let proxy = far.for_consumers().unwrap().unwrap().obtain_push_supplier().unwrap().unwrap();
                proxy.connect_push_consumer(&consumer, &qos(&[(8, 2), (20, 1), (21, 0)])).unwrap();
                wait_until("told twice", || observer.0.lock().unwrap().len() == 2);
                let wanted = observer.0.lock().unwrap()[1].clone();
                let types: Vec<_> =
                    wanted.dependencies.iter().map(|d| (d.event.header.type_, d.event.header.source)).collect();
                assert_eq!(types, [(9, 2), (20, 1), (21, 0)]);
                far.remove_observer(handle).unwrap();
                assert!(far.remove_observer(handle).is_err());
            }

            #[test]
            fn ids_are_those_of_tao() {
                use isorb::Reference;
                let ids = [
                    (admin::EventChannelRef::INTERFACE.id, "IDL:RtecEventChannelAdmin/EventChannel:1.0"),
                    (comm::PushConsumerRef::INTERFACE.id, "IDL:RtecEventComm/PushConsumer:1.0"),
                    (admin::TypeError::ID, "IDL:RtecEventChannelAdmin/TypeError:1.0"),
                    (
                        admin::event_channel::CANT_APPEND_OBSERVER::ID,
                        "IDL:RtecEventChannelAdmin/EventChannel/CANT_APPEND_OBSERVER:1.0",
                    ),
                ];
                ids.iter().for_each(|(ours, theirs)| assert_eq!(ours, theirs));
            }
        }
    };
}

layout!(stamped, Layout::Stamped, |type_, source, creation_time| comm::EventHeader {
    type_,
    source,
    ttl: 1,
    creation_time,
    ec_recv_time: 0,
    ec_send_time: 0
});
layout!(plain, Layout::Plain, |type_, source, creation_time| comm::EventHeader {
    type_,
    source,
    ttl: 1,
    creation_time
});
