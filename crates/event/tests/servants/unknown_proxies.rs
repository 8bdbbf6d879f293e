//! Pushes to proxies that a channel does not have.

use crate::unreachable_peers::{event, publishes};
use crate::{client, server};
use isorb::{Kind, Policies, Rebind, Reference, SyncScope};
use isorb_event::Channel;
use isorb_event::servants::stamped::{rtec_event_channel_admin as admin, rtec_event_comm as comm};
use isorb_event::servants::{EventServiceOptions, RtecEventService};
use isorb_testkit::wait_until;

/// A proxy of a supplier, by its reference alone: no other request goes over its connection. Its
/// pushes open no second connection.
fn proxy(here: &isorb::Orb, reference: &str) -> admin::ProxyPushConsumerRef {
    let rebind = Some(Rebind::NoReconnect);
    let policies = Policies { rebind, sync_scope: Some(SyncScope::WithTransport), ..Policies::default() };
    let object = here.string_to_object(reference).unwrap().with_policies(policies);
    admin::ProxyPushConsumerRef::from_object(object)
}

#[test]
fn pushes_to_unknown_proxies_are_counted_and_end_a_connection_that_carries_nothing_else() {
    let (orb, channel) = server(Channel::builder());
    let service = RtecEventService::start(&orb, &channel, EventServiceOptions::default()).unwrap();
    let here = client();
    let far: admin::EventChannelRef = here.resolve(&service.object().to_string()).unwrap();
    let obtain = || {
        let proxy = far.for_suppliers().unwrap().unwrap().obtain_push_consumer().unwrap().unwrap();
        proxy.connect_push_supplier(None::<&comm::PushSupplierRef>, &publishes(20)).unwrap();
        proxy
    };
    let (gone, live) = (obtain(), obtain());
    gone.disconnect_push_consumer().unwrap();
    let unknown = || channel.totals().unknown_proxies;

    // A client without other requests: its connection ends, and its next push fails.
    let other = client();
    let stale = proxy(&other, &gone.to_string());
    stale.push(&vec![event(20)]).unwrap();
    wait_until("it is counted", || unknown() == 1);
    wait_until("the client notices", || {
        let before = unknown();
        match stale.push(&vec![event(20)]) {
            Ok(()) => {
                wait_until("it is counted, or was lost with the connection", || unknown() >= before);
                false
            }
            Err(error) => matches!(error.kind, Kind::Rebind | Kind::CommFailure),
        }
    });

    // A client that pushes to live proxies over the same connection goes on.
    let before = unknown();
    for _ in 0..3 {
        live.push(&vec![event(20)]).unwrap();
        gone.push(&vec![event(20)]).unwrap();
    }
    wait_until("all are counted", || unknown() == before + 3);
    assert_eq!(live.object().non_existent(), Ok(false));
    let served = orb.served_connections();
    assert_eq!(served.len(), 1, "the connection of the live one: {served:?}");

    // One that a channel before had is as unknown.
    let (second, later) = server(Channel::builder());
    let _later = RtecEventService::start(&second, &later, EventServiceOptions::default()).unwrap();
    let port = second.endpoint_addresses()[0].1;
    let stale = proxy(&other, &format!("corbaloc:iiop:1.2@127.0.0.1:{port}/proxy-of-an-earlier-process"));
    stale.push(&vec![event(20)]).unwrap();
    wait_until("it is counted", || later.totals().unknown_proxies >= 1);
}

#[test]
fn a_push_to_a_proxy_without_a_supplier_is_counted() {
    let (orb, channel) = server(Channel::builder());
    let service = RtecEventService::start(&orb, &channel, EventServiceOptions::default()).unwrap();
    let here = client();
    let far: admin::EventChannelRef = here.resolve(&service.object().to_string()).unwrap();
    let proxy = far.for_suppliers().unwrap().unwrap().obtain_push_consumer().unwrap().unwrap();
    proxy.push(&vec![event(20)]).unwrap();
    wait_until("it is counted", || channel.totals().unknown_proxies == 1);
    assert_eq!(proxy.object().non_existent(), Ok(false));
}
