//! The OMG's Event Service: push and pull on both sides.

use crate::{client, server};
use isorb::{Any, Orb, Reference, Upcall};
use isorb_event::Channel;
use isorb_event::servants::standard::cos_event_channel_admin as admin;
use isorb_event::servants::standard::cos_event_comm as comm;
use isorb_event::servants::{CosEventService, EventServiceOptions};
use isorb_testkit::wait_until;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

#[derive(Default)]
struct Consumer(Mutex<Vec<i32>>);

impl comm::PushConsumer for Consumer {
    fn push(&self, _: Upcall<'_>, data: &Any) -> Result<(), comm::push_consumer::PushError> {
        self.0.lock().unwrap().push(data.get::<i32>().unwrap());
        Ok(())
    }
    fn disconnect_push_consumer(&self, _: Upcall<'_>) -> isorb::Result<()> {
        Ok(())
    }
}

struct Supplier(Mutex<VecDeque<i32>>);

impl comm::PullSupplier for Supplier {
    fn pull<'u>(&'u self, cx: Upcall<'u>) -> Result<&'u Any, comm::pull_supplier::PullError> {
        let value = self.0.lock().unwrap().pop_front().ok_or(comm::Disconnected {})?;
        Ok(cx.keep(Any::new(&value).unwrap())?)
    }
    fn try_pull<'u>(&'u self, cx: Upcall<'u>) -> Result<(&'u Any, bool), comm::pull_supplier::TryPullError> {
        let value = self.0.lock().unwrap().pop_front();
        let any = value.map_or(Any::default(), |value| Any::new(&value).unwrap());
        Ok((cx.keep(any)?, value.is_some()))
    }
    fn disconnect_pull_supplier(&self, _: Upcall<'_>) -> isorb::Result<()> {
        Ok(())
    }
}

fn far() -> (Orb, CosEventService, admin::EventChannelRef, Orb) {
    let (orb, channel) = server(Channel::builder());
    let face = CosEventService::start(&orb, &channel, EventServiceOptions::default()).unwrap();
    let here = client();
    let far: admin::EventChannelRef = here.resolve(&face.object().to_string()).unwrap();
    (orb, face, far, here)
}

#[test]
fn push_and_pull_in_any_mixture() {
    let (_orb, _face, far, here) = far();
    let (consumers, suppliers) =
        (far.for_consumers().unwrap().unwrap(), far.for_suppliers().unwrap().unwrap());
    let poa = here.root_poa().unwrap();

    let pushed = Arc::new(Consumer::default());
    let reference: comm::PushConsumerRef = poa.activate(pushed.clone()).unwrap();
    let to_push = consumers.obtain_push_supplier().unwrap().unwrap();
    to_push.connect_push_consumer(&reference).unwrap();
    assert!(to_push.connect_push_consumer(&reference).is_err());
    let to_pull = consumers.obtain_pull_supplier().unwrap().unwrap();
    assert!(to_pull.try_pull().is_err(), "not connected");
    to_pull.connect_pull_consumer(None::<&comm::PullConsumerRef>).unwrap();
    assert!(!to_pull.try_pull().unwrap().1);

    let from_push = suppliers.obtain_push_consumer().unwrap().unwrap();
    assert!(from_push.push(&Any::new(&0i32).unwrap()).is_err(), "not connected");
    from_push.connect_push_supplier(None::<&comm::PushSupplierRef>).unwrap();
    (1..=3).for_each(|n| from_push.push(&Any::new(&n).unwrap()).unwrap());
    wait_until("three", || pushed.0.lock().unwrap().len() == 3);
    assert_eq!(to_pull.pull().unwrap().get::<i32>(), Some(1));
    assert_eq!(to_pull.try_pull().unwrap(), (Any::new(&2i32).unwrap(), true));
    assert_eq!(to_pull.pull().unwrap().get::<i32>(), Some(3));

    // A waiting pull receives the next event.
    std::thread::scope(|s| {
        let waiting = s.spawn(|| to_pull.pull().unwrap().get::<i32>());
        from_push.push(&Any::new(&4i32).unwrap()).unwrap();
        assert_eq!(waiting.join().unwrap(), Some(4));
    });

    let requested: comm::PullSupplierRef =
        poa.activate(Arc::new(Supplier(Mutex::new([5, 6].into())))).unwrap();
    let from_pull = suppliers.obtain_pull_consumer().unwrap().unwrap();
    assert!(from_pull.connect_pull_supplier(None::<&comm::PullSupplierRef>).is_err());
    from_pull.connect_pull_supplier(&requested).unwrap();
    assert_eq!([to_pull.pull().unwrap().get(), to_pull.pull().unwrap().get()], [Some(5i32), Some(6)]);
    wait_until("six", || pushed.0.lock().unwrap().len() == 6);
    assert_eq!(*pushed.0.lock().unwrap(), [1, 2, 3, 4, 5, 6]);

    // Disconnected proxies no longer exist as objects; a waiting pull ends.
    std::thread::scope(|s| {
        let waiting = s.spawn(|| to_pull.pull().is_err());
        from_pull.disconnect_pull_consumer().unwrap();
        to_pull.disconnect_pull_supplier().unwrap();
        assert!(waiting.join().unwrap());
    });
    to_push.disconnect_push_supplier().unwrap();
    from_push.disconnect_push_consumer().unwrap();
    assert!(from_push.object().non_existent().unwrap());
}

#[test]
fn a_supplier_is_told_that_its_event_was_too_large() {
    let limits =
        isorb_event::Limits { payload: 256, larger: Default::default(), ..isorb_event::Limits::default() };
    let (orb, channel) = server(Channel::builder().limits(limits));
    let face = CosEventService::start(&orb, &channel, EventServiceOptions::default()).unwrap();
    let here = client();
    let far: admin::EventChannelRef = here.resolve(&face.object().to_string()).unwrap();
    let pushed = Arc::new(Consumer::default());
    let reference: comm::PushConsumerRef = here.root_poa().unwrap().activate(pushed.clone()).unwrap();
    let to_push = far.for_consumers().unwrap().unwrap().obtain_push_supplier().unwrap().unwrap();
    to_push.connect_push_consumer(&reference).unwrap();
    let from_push = far.for_suppliers().unwrap().unwrap().obtain_push_consumer().unwrap().unwrap();
    from_push.connect_push_supplier(None::<&comm::PushSupplierRef>).unwrap();
    let error = from_push.push(&Any::new(&"x".repeat(300)).unwrap()).unwrap_err();
    match error {
        comm::push_consumer::PushError::System(exception) => {
            assert_eq!(
                (exception.kind, exception.completed),
                (isorb::Kind::ImpLimit, isorb::Completion::Yes)
            );
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(channel.totals().too_large, 1);
    from_push.push(&Any::new(&7i32).unwrap()).unwrap();
    wait_until("the one that fits", || *pushed.0.lock().unwrap() == [7]);
}
