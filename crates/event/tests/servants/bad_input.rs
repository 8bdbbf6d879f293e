//! Errors of clients of the OMG's Event Service: each gets the standard's exception and leaves
//! nothing behind.

use crate::{client, server};
use isorb::{Any, Kind, Object, Orb, Reference, SystemException, Upcall};
use isorb_event::servants::standard::cos_event_channel_admin as admin;
use isorb_event::servants::standard::cos_event_comm as comm;
use isorb_event::servants::{CosEventService, EventServiceOptions};
use isorb_event::{Channel, Limits};
use isorb_testkit::wait_until;
use std::sync::{Arc, Mutex};

struct World {
    _orb: Orb,
    channel: Channel,
    _face: CosEventService,
    here: Orb,
    consumers: admin::ConsumerAdminRef,
    suppliers: admin::SupplierAdminRef,
}

/// Without pings: proxies end only by the test's calls.
fn world(proxies: u32, limits: Limits) -> World {
    let (orb, channel) = server(Channel::builder().limits(limits));
    let options = EventServiceOptions { proxies, ping: None, ..EventServiceOptions::default() };
    let face = CosEventService::start(&orb, &channel, options).unwrap();
    let here = client();
    let far: admin::EventChannelRef = here.resolve(&face.object().to_string()).unwrap();
    let (consumers, suppliers) =
        (far.for_consumers().unwrap().unwrap(), far.for_suppliers().unwrap().unwrap());
    World { _orb: orb, channel, _face: face, here, consumers, suppliers }
}

impl World {
    fn proxy_push_supplier(&self) -> admin::ProxyPushSupplierRef {
        self.consumers.obtain_push_supplier().unwrap().unwrap()
    }

    fn proxy_pull_supplier(&self) -> admin::ProxyPullSupplierRef {
        self.consumers.obtain_pull_supplier().unwrap().unwrap()
    }

    fn proxy_push_consumer(&self) -> admin::ProxyPushConsumerRef {
        self.suppliers.obtain_push_consumer().unwrap().unwrap()
    }

    fn proxy_pull_consumer(&self) -> admin::ProxyPullConsumerRef {
        self.suppliers.obtain_pull_consumer().unwrap().unwrap()
    }

    fn push_consumer(&self) -> comm::PushConsumerRef {
        self.here.root_poa().unwrap().activate(Arc::new(Ends::default())).unwrap()
    }

    fn pull_supplier(&self) -> comm::PullSupplierRef {
        self.here.root_poa().unwrap().activate(Arc::new(Ends::default())).unwrap()
    }
}

/// A push consumer that keeps its values, and a pull supplier without events.
#[derive(Default)]
struct Ends(Mutex<Vec<Any>>);

impl comm::PushConsumer for Ends {
    fn push(&self, _: Upcall<'_>, data: &Any) -> Result<(), comm::push_consumer::PushError> {
        self.0.lock().unwrap().push(data.clone());
        Ok(())
    }

    fn disconnect_push_consumer(&self, _: Upcall<'_>) -> isorb::Result<()> {
        Ok(())
    }
}

impl comm::PullSupplier for Ends {
    fn pull<'u>(&'u self, _: Upcall<'u>) -> Result<&'u Any, comm::pull_supplier::PullError> {
        Err(comm::Disconnected {}.into())
    }

    fn try_pull<'u>(&'u self, cx: Upcall<'u>) -> Result<(&'u Any, bool), comm::pull_supplier::TryPullError> {
        Ok((cx.keep(Any::default())?, false))
    }

    fn disconnect_pull_supplier(&self, _: Upcall<'_>) -> isorb::Result<()> {
        Ok(())
    }
}

/// The result of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CallResult {
    Fine,
    AlreadyConnected,
    Disconnected,
    TypeError,
    System(Kind),
}

/// The user exceptions of an operation; they differ between operations.
macro_rules! call_results {
    ($($error:path: $($variant:ident),*;)*) => {
        $(impl From<Result<(), $error>> for CallResult {
            fn from(result: Result<(), $error>) -> CallResult {
                type Error = $error;
                match result {
                    Ok(()) => CallResult::Fine,
                    Err(Error::System(exception)) => CallResult::System(exception.kind),
                    $(Err(Error::$variant(_)) => CallResult::$variant,)*
                }
            }
        })*
    };
}

call_results! {
    admin::proxy_push_supplier::ConnectPushConsumerError: AlreadyConnected, TypeError;
    admin::proxy_pull_supplier::ConnectPullConsumerError: AlreadyConnected;
    admin::proxy_push_consumer::ConnectPushSupplierError: AlreadyConnected;
    admin::proxy_pull_consumer::ConnectPullSupplierError: AlreadyConnected, TypeError;
    comm::push_consumer::PushError: Disconnected;
    comm::pull_supplier::PullError: Disconnected;
}

impl From<Result<(), SystemException>> for CallResult {
    fn from(result: Result<(), SystemException>) -> CallResult {
        result.map_or_else(|exception| CallResult::System(exception.kind), |()| CallResult::Fine)
    }
}

fn call_result<E>(result: Result<(), E>) -> CallResult
where
    CallResult: From<Result<(), E>>,
{
    result.into()
}

/// The same object under another interface's name, as for a client without types.
fn taken_for<R: Reference>(object: &Object) -> R {
    R::from_object(object.clone())
}

type Case = (&'static str, fn(&World) -> Vec<CallResult>, &'static [CallResult]);

/// The calls and their results. Each case disconnects what it connected.
const CASES: &[Case] = &[
    (
        "consumers and suppliers that are nil",
        |world| {
            let (to_push, from_pull) = (world.proxy_push_supplier(), world.proxy_pull_consumer());
            let (to_pull, from_push) = (world.proxy_pull_supplier(), world.proxy_push_consumer());
            let calls = vec![
                // Without a reference they could not be called.
                call_result(to_push.connect_push_consumer(None::<&comm::PushConsumerRef>)),
                call_result(from_pull.connect_pull_supplier(None::<&comm::PullSupplierRef>)),
                // They need no reference: they call the channel.
                call_result(to_pull.connect_pull_consumer(None::<&comm::PullConsumerRef>)),
                call_result(from_push.connect_push_supplier(None::<&comm::PushSupplierRef>)),
                call_result(to_push.connect_push_consumer(&world.push_consumer())),
                call_result(from_pull.connect_pull_supplier(&world.pull_supplier())),
            ];
            to_push.disconnect_push_supplier().unwrap();
            from_pull.disconnect_pull_consumer().unwrap();
            to_pull.disconnect_pull_supplier().unwrap();
            from_push.disconnect_push_consumer().unwrap();
            calls
        },
        &[
            CallResult::System(Kind::BadParam),
            CallResult::System(Kind::BadParam),
            CallResult::Fine,
            CallResult::Fine,
            CallResult::Fine,
            CallResult::Fine,
        ],
    ),
    (
        "twice connected",
        |world| {
            let (to_push, from_pull) = (world.proxy_push_supplier(), world.proxy_pull_consumer());
            let (to_pull, from_push) = (world.proxy_pull_supplier(), world.proxy_push_consumer());
            let (consumer, supplier) = (world.push_consumer(), world.pull_supplier());
            let connect = || {
                [
                    call_result(to_push.connect_push_consumer(&consumer)),
                    call_result(to_pull.connect_pull_consumer(None::<&comm::PullConsumerRef>)),
                    call_result(from_push.connect_push_supplier(None::<&comm::PushSupplierRef>)),
                    call_result(from_pull.connect_pull_supplier(&supplier)),
                ]
            };
            let calls = [connect(), connect()].concat();
            to_push.disconnect_push_supplier().unwrap();
            from_pull.disconnect_pull_consumer().unwrap();
            to_pull.disconnect_pull_supplier().unwrap();
            from_push.disconnect_push_consumer().unwrap();
            calls
        },
        &[
            CallResult::Fine,
            CallResult::Fine,
            CallResult::Fine,
            CallResult::Fine,
            CallResult::AlreadyConnected,
            CallResult::AlreadyConnected,
            CallResult::AlreadyConnected,
            CallResult::AlreadyConnected,
        ],
    ),
    (
        "not connected",
        |world| {
            let (to_pull, from_push) = (world.proxy_pull_supplier(), world.proxy_push_consumer());
            let calls = vec![
                call_result(from_push.push(&Any::new(&1).unwrap())),
                call_result(to_pull.pull().map(drop)),
                call_result(to_pull.try_pull().map(drop)),
            ];
            to_pull.disconnect_pull_supplier().unwrap();
            from_push.disconnect_push_consumer().unwrap();
            calls
        },
        &[CallResult::Disconnected, CallResult::Disconnected, CallResult::Disconnected],
    ),
    (
        "disconnected: no objects any more",
        |world| {
            let (to_push, from_pull) = (world.proxy_push_supplier(), world.proxy_pull_consumer());
            let (to_pull, from_push) = (world.proxy_pull_supplier(), world.proxy_push_consumer());
            to_push.connect_push_consumer(&world.push_consumer()).unwrap();
            from_push.connect_push_supplier(None::<&comm::PushSupplierRef>).unwrap();
            vec![
                call_result(to_push.disconnect_push_supplier()),
                call_result(from_pull.disconnect_pull_consumer()),
                call_result(to_pull.disconnect_pull_supplier()),
                call_result(from_push.disconnect_push_consumer()),
                call_result(to_push.disconnect_push_supplier()),
                call_result(to_push.connect_push_consumer(&world.push_consumer())),
                call_result(from_pull.connect_pull_supplier(&world.pull_supplier())),
                call_result(to_pull.try_pull().map(drop)),
                call_result(to_pull.pull().map(drop)),
                call_result(from_push.push(&Any::new(&1).unwrap())),
            ]
        },
        &[
            CallResult::Fine,
            CallResult::Fine,
            CallResult::Fine,
            CallResult::Fine,
            CallResult::System(Kind::ObjectNotExist),
            CallResult::System(Kind::ObjectNotExist),
            CallResult::System(Kind::ObjectNotExist),
            CallResult::System(Kind::ObjectNotExist),
            CallResult::System(Kind::ObjectNotExist),
            CallResult::System(Kind::ObjectNotExist),
        ],
    ),
    (
        "operations of another kind of proxy",
        |world| {
            let (to_push, from_push) = (world.proxy_push_supplier(), world.proxy_push_consumer());
            to_push.connect_push_consumer(&world.push_consumer()).unwrap();
            let as_pull: admin::ProxyPullSupplierRef = taken_for(to_push.object());
            let as_push: comm::PushConsumerRef = taken_for(to_push.object());
            let as_consumer: admin::ProxyPushSupplierRef = taken_for(from_push.object());
            let calls = vec![
                call_result(as_pull.pull().map(drop)),
                call_result(as_pull.try_pull().map(drop)),
                call_result(as_pull.connect_pull_consumer(None::<&comm::PullConsumerRef>)),
                call_result(as_push.push(&Any::new(&1).unwrap())),
                call_result(as_consumer.connect_push_consumer(&world.push_consumer())),
            ];
            to_push.disconnect_push_supplier().unwrap();
            from_push.disconnect_push_consumer().unwrap();
            calls
        },
        &[CallResult::System(Kind::BadOperation); 5],
    ),
    (
        "objects that never were",
        |world| {
            let to_push = world.proxy_push_supplier();
            let url = to_push.object().to_string();
            to_push.disconnect_push_supplier().unwrap();
            let address = world.here.string_to_object(&url).unwrap();
            let unknown: admin::ProxyPushSupplierRef = taken_for(&address);
            let calls = vec![
                call_result(unknown.connect_push_consumer(&world.push_consumer())),
                call_result(unknown.disconnect_push_supplier()),
            ];
            calls
        },
        &[CallResult::System(Kind::ObjectNotExist), CallResult::System(Kind::ObjectNotExist)],
    ),
];

#[test]
fn client_errors_raise_the_standards_exceptions() {
    // Fewer than the cases use in total: a leak would be noticed before the end.
    let limits = Limits { consumers: 2, suppliers: 2, ..Limits::default() };
    let world = world(4, limits);
    for round in 0..3 {
        for (name, call, expected) in CASES {
            assert_eq!(call(&world), *expected, "{name}, round {round}");
            assert_eq!(world.channel.consumers().len(), 0, "{name}, round {round}");
            // The polling threads free their proxies as they end.
            wait_until("there is room for suppliers", || {
                let both = [world.channel.for_suppliers().connect(), world.channel.for_suppliers().connect()];
                both.iter().all(Result::is_ok)
            });
        }
    }
}

/// An any of any value: null, of an unknown type, and nested as deep as the ORB allows.
#[test]
fn an_unknown_any_is_passed_on_and_an_empty_pull_is_no_error() {
    let world = world(8, Limits::default());
    let (to_pull, from_push) = (world.proxy_pull_supplier(), world.proxy_push_consumer());
    to_pull.connect_pull_consumer(None::<&comm::PullConsumerRef>).unwrap();
    from_push.connect_push_supplier(None::<&comm::PushSupplierRef>).unwrap();
    let (value, has_event) = to_pull.try_pull().unwrap();
    assert!(!has_event && value == Any::default(), "a null any beside the no");
    let nested = (0..8).fold(Any::new(&7).unwrap(), |any, _| Any::new(&any).unwrap());
    for any in
        [Any::default(), Any::new(&String::new()).unwrap(), nested, Any::new(&vec![1_u8; 300]).unwrap()]
    {
        from_push.push(&any).unwrap();
        assert_eq!(to_pull.try_pull().unwrap(), (any, true));
    }
    assert!(!to_pull.try_pull().unwrap().1);
}

/// A client that obtains proxies endlessly evicts its own; connected proxies stay. If all are
/// connected: IMP_LIMIT.
#[test]
fn a_flood_of_proxies_is_bounded() {
    const PROXIES: u32 = 6;
    let world = world(PROXIES, Limits { consumers: 2, suppliers: 2, ..Limits::default() });
    let kept = world.proxy_pull_supplier();
    kept.connect_pull_consumer(None::<&comm::PullConsumerRef>).unwrap();
    let first = world.proxy_pull_supplier();
    for _ in 0..100 {
        world.proxy_push_supplier();
        world.proxy_pull_consumer();
    }
    assert_eq!(
        call_result(first.try_pull().map(drop)),
        CallResult::System(Kind::ObjectNotExist),
        "it made room"
    );
    assert!(!kept.try_pull().unwrap().1, "it is connected");
    // The channel's own limits: a third consumer, a third supplier.
    let connect = |proxy: &admin::ProxyPullSupplierRef| {
        call_result(proxy.connect_pull_consumer(None::<&comm::PullConsumerRef>))
    };
    let (second, third) = (world.proxy_pull_supplier(), world.proxy_pull_supplier());
    assert_eq!((connect(&second), connect(&third)), (CallResult::Fine, CallResult::System(Kind::ImpLimit)));
    let supplies = |proxy: &admin::ProxyPushConsumerRef| {
        call_result(proxy.connect_push_supplier(None::<&comm::PushSupplierRef>))
    };
    let (one, two, three) =
        (world.proxy_push_consumer(), world.proxy_push_consumer(), world.proxy_push_consumer());
    assert_eq!((supplies(&one), supplies(&two)), (CallResult::Fine, CallResult::Fine));
    assert_eq!(supplies(&three), CallResult::System(Kind::ImpLimit));
    let refused = world.channel.consumers().len();
    assert_eq!(refused, 2, "of the refused nothing is there");
    // A refused client may try again when there is room.
    one.disconnect_push_consumer().unwrap();
    kept.disconnect_pull_supplier().unwrap();
    assert_eq!((supplies(&three), connect(&third)), (CallResult::Fine, CallResult::Fine));
    drop((second, two));
}

/// If all proxies are connected, none is evicted.
#[test]
fn a_further_proxy_is_refused_if_all_are_connected() {
    let world = world(4, Limits::default());
    let connected: Vec<_> = (0..)
        .map(|_| world.consumers.obtain_pull_supplier())
        .map_while(|proxy| {
            let proxy = proxy.ok().flatten()?;
            proxy.connect_pull_consumer(None::<&comm::PullConsumerRef>).unwrap();
            Some(proxy)
        })
        .take(10)
        .collect();
    assert_eq!(connected.len(), 4);
    let refused = world.consumers.obtain_push_supplier().unwrap_err();
    assert_eq!(refused.kind, Kind::ImpLimit);
    assert_eq!(world.suppliers.obtain_pull_consumer().unwrap_err().kind, Kind::ImpLimit);
    connected[0].disconnect_pull_supplier().unwrap();
    world.proxy_push_supplier();
}
