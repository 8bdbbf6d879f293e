//! Evicted consumers that do not answer delay no thread that connects.

use crate::common::{Log, event, wait_until, wants};
use isorb_event::{Channel, Event, Failure, Filter, Limits, PushConsumer, Quality};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};

const FROZEN: usize = 3;

/// Fails at each push, and blocks when it is notified of its disconnection, until it thaws.
#[derive(Default)]
struct Frozen {
    thawed: Mutex<bool>,
    thaws: Condvar,
    notified: AtomicU32,
}

impl Frozen {
    fn thaw(&self) {
        *self.thawed.lock().unwrap() = true;
        self.thaws.notify_all();
    }
}

impl PushConsumer for Frozen {
    fn push(&self, _: &[Event<'_>]) -> Result<(), Failure> {
        Err(Failure::Failed)
    }

    fn disconnected(&self) {
        let thawed = self.thawed.lock().unwrap();
        drop(self.thaws.wait_while(thawed, |thawed| !*thawed).unwrap());
        self.notified.fetch_add(1, SeqCst);
    }
}

#[test]
fn a_new_consumer_replaces_an_evicted_one_without_waiting_for_its_notification() {
    let limits = Limits { consumers: FROZEN, suppliers: 2, ..Limits::default() };
    let channel = Channel::builder().limits(limits).build().unwrap();
    let frozen = Arc::new(Frozen::default());
    let supplier = channel.for_suppliers().connect().unwrap();
    let quality = Quality { failures: 1, ..Quality::default() };
    let join = || {
        let qos = wants(Filter::Everything).quality(quality.clone());
        channel.for_consumers().connect(frozen.clone(), qos)
    };
    let _proxies: Vec<_> = (0..FROZEN).map(|_| join().unwrap()).collect();
    // All are evicted together. The channel notifies one of them and waits.
    supplier.push(&event(20, 0, 1));

    let connected = AtomicBool::new(false);
    let log = Log::default();
    std::thread::scope(|scope| {
        // Thaws them in any case.
        struct Thaw<'a>(&'a Frozen);
        impl Drop for Thaw<'_> {
            fn drop(&mut self) {
                self.0.thaw();
            }
        }
        let thaw = Thaw(&frozen);
        scope.spawn(|| {
            let proxies: Vec<_> =
                (0..FROZEN).map(|_| log.connect(&channel, wants(Filter::Everything))).collect();
            let other = channel.for_suppliers().connect().unwrap();
            other.push(&event(20, 0, 2));
            assert_eq!((log.take().len(), frozen.notified.load(SeqCst)), (proxies.len(), 0));
            connected.store(true, SeqCst);
        });
        wait_until("others connect, in all places there are", || connected.load(SeqCst));
        drop(thaw);
    });
    wait_until("all are told in the end", || frozen.notified.load(SeqCst) as usize == FROZEN);
}
