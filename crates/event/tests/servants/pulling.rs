//! Limits of the pull model: a full queue, and a failing supplier.

use crate::{client, server};
use isorb::{Any, Kind, Orb, SystemException, Upcall};
use isorb_event::servants::standard::cos_event_channel_admin as admin;
use isorb_event::servants::standard::cos_event_comm as comm;
use isorb_event::servants::{CosEventService, EventServiceOptions};
use isorb_event::{Channel, Counts, Event, Overflow, Quality};
use isorb_testkit::wait_until;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

fn far(quality: Quality) -> (Orb, Channel, CosEventService, admin::EventChannelRef, Orb) {
    let (orb, channel) = server(Channel::builder().block(Duration::from_millis(1)));
    // Also the first backoff: five failures take four and a half seconds.
    let push_timeout = Duration::from_millis(300);
    let options = EventServiceOptions { quality, push_timeout, ..EventServiceOptions::default() };
    let face = CosEventService::start(&orb, &channel, options).unwrap();
    let here = client();
    let far = here.resolve(&face.object().to_string()).unwrap();
    (orb, channel, face, far, here)
}

/// Five values for a queue of two, by policy: the values that can be pulled, and the counts.
#[test]
fn a_full_queue_follows_its_policy_and_counts() {
    for (overflow, pulled, dropped, refused) in [
        (Overflow::DropOldest, [4, 5], 3, 0),
        (Overflow::DropNewest, [1, 2], 3, 0),
        (Overflow::Refuse, [1, 2], 0, 3),
        (Overflow::Block, [1, 2], 0, 3),
    ] {
        let (_orb, channel, _face, far, _here) = far(Quality { queue: 2, overflow, ..Quality::default() });
        let to_pull = far.for_consumers().unwrap().unwrap().obtain_pull_supplier().unwrap().unwrap();
        to_pull.connect_pull_consumer(None::<&comm::PullConsumerRef>).unwrap();
        let from_push = far.for_suppliers().unwrap().unwrap().obtain_push_consumer().unwrap().unwrap();
        from_push.connect_push_supplier(None::<&comm::PushSupplierRef>).unwrap();
        let other = channel.for_suppliers().connect().unwrap();
        for value in 1..=5 {
            from_push.push(&Any::new(&value).unwrap()).unwrap();
            // Events without an any are not queued and displace nothing.
            other.push(&Event::new(20, 1).octets(b"no any"));
        }
        let seen = &channel.consumers()[0];
        assert_eq!((seen.waiting, seen.queue), (2, 2), "{overflow:?}");
        let Counts { dropped: lost, refused: not_taken, .. } = seen.counts;
        assert_eq!((lost, not_taken), (dropped, refused), "{overflow:?}");
        for value in pulled {
            assert_eq!(to_pull.pull().unwrap().get::<i32>(), Some(value), "{overflow:?}");
        }
        assert!(!to_pull.try_pull().unwrap().1);
        // There is room again.
        from_push.push(&Any::new(&6).unwrap()).unwrap();
        assert_eq!(to_pull.pull().unwrap().get::<i32>(), Some(6));
    }
}

/// Fails a number of times, then returns the number of its calls.
struct Moody {
    failures: u64,
    calls: AtomicU64,
}

impl comm::PullSupplier for Moody {
    fn pull<'u>(&'u self, _: Upcall<'u>) -> Result<&'u Any, comm::pull_supplier::PullError> {
        Err(comm::Disconnected {}.into())
    }
    fn try_pull<'u>(&'u self, cx: Upcall<'u>) -> Result<(&'u Any, bool), comm::pull_supplier::TryPullError> {
        let call = self.calls.fetch_add(1, Relaxed) + 1;
        if call <= self.failures {
            return Err(SystemException::from(Kind::NoResources).into());
        }
        Ok((cx.keep(Any::new(&call).unwrap())?, true))
    }
    fn disconnect_pull_supplier(&self, _: Upcall<'_>) -> isorb::Result<()> {
        Ok(())
    }
}

#[test]
fn a_failing_pull_supplier_is_abandoned_and_may_connect_again() {
    let (_orb, channel, _face, far, here) = far(Quality { failures: 5, ..Quality::default() });
    let poa = here.root_poa().unwrap();
    let proxy = far.for_suppliers().unwrap().unwrap().obtain_pull_consumer().unwrap().unwrap();
    let never = Arc::new(Moody { failures: u64::MAX, calls: AtomicU64::new(0) });
    let reference: comm::PullSupplierRef = poa.activate(never.clone()).unwrap();
    proxy.connect_pull_supplier(&reference).unwrap();
    wait_until("it is given up", || channel.totals().suppliers_lost == 1);
    // A call may have timed out before it began, under load.
    assert!(never.calls.load(Relaxed) <= 5, "asked no more than it may fail");

    // The proxy accepts another supplier, and tolerates one that fails for a while.
    let to_pull = far.for_consumers().unwrap().unwrap().obtain_pull_supplier().unwrap().unwrap();
    to_pull.connect_pull_consumer(None::<&comm::PullConsumerRef>).unwrap();
    let later: comm::PullSupplierRef =
        poa.activate(Arc::new(Moody { failures: 2, calls: AtomicU64::new(0) })).unwrap();
    wait_until("the proxy is free", || proxy.connect_pull_supplier(&later).is_ok());
    assert!(to_pull.pull().unwrap().get::<u64>().is_some_and(|call| call > 2));
    let again = proxy.connect_pull_supplier(&later).unwrap_err();
    assert!(matches!(again, admin::proxy_pull_consumer::ConnectPullSupplierError::AlreadyConnected(_)));
}
