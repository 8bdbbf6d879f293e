//! A consumer that blocks, fails or panics: the others receive everything all the same.

use crate::common::*;
use isorb_event::dispatch::{Dispatch, Queued};
use isorb_event::{
    Channel, ConsumerQos, Event, Failure, Filter, Overflow, Priority, ProxyPushSupplier, PushConsumer,
    Quality, Resume, Strategy, ThreadSetup,
};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Condvar, Mutex};

const STRATEGIES: [Strategy; 4] =
    [Strategy::Direct, Strategy::SingleThreaded, Strategy::Threads { per_level: 1 }, Strategy::Upcalls];
const EVENTS: u64 = 50;

/// A gate at which a consumer blocks.
#[derive(Default)]
struct Gate(Mutex<(bool, u64)>, Condvar);

impl PushConsumer for Gate {
    fn push(&self, _: &[Event<'_>]) -> Result<(), Failure> {
        let mut state = self.0.lock().unwrap();
        while !state.0 {
            state = self.1.wait(state).unwrap();
        }
        state.1 += 1;
        Ok(())
    }
}

fn own_threads() -> Option<Arc<dyn Dispatch>> {
    let strategy = Strategy::Threads { per_level: 1 };
    let queued = Queued::alone(strategy, &[Priority::MIN], &ThreadSetup::default()).unwrap();
    queued.map(|queued| Arc::new(queued) as Arc<dyn Dispatch>)
}

/// Connects another consumer, pushes all events, and waits until it has each of them in order.
fn another_gets_all(channel: &Channel, case: &dyn std::fmt::Debug) -> ProxyPushSupplier {
    let log = Log::default();
    let roomy = Quality { queue: EVENTS as usize, ..Quality::default() };
    let other = log.connect(channel, wants(Filter::of(20, 0)).quality(roomy));
    let supplier = channel.for_suppliers().connect().unwrap();
    (1..=EVENTS).for_each(|n| _ = supplier.push(&event(20, 0, n)));
    let mut got = Vec::new();
    wait_until("the other consumer gets all", || {
        got.extend(log.take_times().concat());
        got.len() as u64 == EVENTS
    });
    assert_eq!(got, (1..=EVENTS).collect::<Vec<_>>(), "{case:?}");
    other
}

/// Beside a blocked consumer, with any overflow policy; it has threads of its own, as remote
/// consumers do.
#[test]
fn a_blocked_consumer_delays_no_other() {
    for strategy in STRATEGIES {
        for overflow in [Overflow::DropOldest, Overflow::DropNewest, Overflow::Refuse] {
            let channel = Channel::builder().strategy(strategy).build().unwrap();
            let gate = Arc::new(Gate::default());
            let quality = Quality { queue: 4, overflow, priority: Priority::MAX, ..Quality::default() };
            let slow = ConsumerQos { dispatch: own_threads(), ..wants(Filter::of(20, 0)) }.quality(quality);
            let blocked = channel.for_consumers().connect(gate.clone(), slow).unwrap();
            let _other = another_gets_all(&channel, &(strategy, overflow));
            assert_eq!(gate.0.lock().unwrap().1, 0, "it is still blocked");
            let counts = blocked.counts();
            assert!(counts.dropped + counts.refused >= EVENTS - 5, "{counts:?}");
            gate.0.lock().unwrap().0 = true;
            gate.1.notify_all();
            wait_until("what its queue kept comes", || {
                gate.0.lock().unwrap().1 == EVENTS - counts.dropped - counts.refused
            });
        }
    }
}

/// With threads for each level, a consumer that blocks at a low level does not delay high levels.
#[test]
fn a_blocked_consumer_at_a_low_level_does_not_delay_a_high_one() {
    let channel = Channel::builder().strategy(Strategy::Threads { per_level: 1 }).build().unwrap();
    let (gate, log) = (Arc::new(Gate::default()), Log::default());
    let _blocked = channel.for_consumers().connect(gate.clone(), wants(Filter::of(20, 0))).unwrap();
    let high = Quality { priority: Priority::MAX, queue: EVENTS as usize, ..Quality::default() };
    let _good = log.connect(&channel, wants(Filter::of(20, 0)).quality(high));
    let supplier = channel.for_suppliers().connect().unwrap();
    (1..=EVENTS).for_each(|n| _ = supplier.push(&event(20, 0, n)));
    let mut got = 0;
    wait_until("the urgent one gets all", || {
        got += log.take().len() as u64;
        got == EVENTS
    });
    gate.0.lock().unwrap().0 = true;
    gate.1.notify_all();
}

struct Bad;

impl PushConsumer for Bad {
    fn push(&self, events: &[Event<'_>]) -> Result<(), Failure> {
        assert!(events[0].header.creation_time.is_multiple_of(2), "on purpose");
        Err(Failure::Failed)
    }
}

/// Beside a consumer that alternately fails and panics, until it is disconnected.
#[test]
fn a_failing_or_panicking_consumer_delays_no_other_and_is_disconnected() {
    for strategy in STRATEGIES {
        let channel = Channel::builder().strategy(strategy).build().unwrap();
        let urgent = Quality { priority: Priority::MAX, failures: 5, ..Quality::default() };
        let bad =
            channel.for_consumers().connect(Arc::new(Bad), wants(Filter::of(20, 0)).quality(urgent)).unwrap();
        let _other = another_gets_all(&channel, &strategy);
        wait_until("it is disconnected", || !bad.is_connected() && channel.consumers().len() == 1);
    }
}

/// Takes nothing until it is resumed.
#[derive(Default)]
struct Reluctant {
    takes: AtomicBool,
    resume: Mutex<Option<Resume>>,
    taken: Mutex<Vec<u64>>,
}

impl PushConsumer for Reluctant {
    fn push(&self, events: &[Event<'_>]) -> Result<(), Failure> {
        if !self.takes.load(Relaxed) {
            return Err(Failure::Busy);
        }
        self.taken.lock().unwrap().extend(events.iter().map(|event| event.header.creation_time));
        Ok(())
    }

    fn connected(&self, resume: Resume) {
        *self.resume.lock().unwrap() = Some(resume);
    }
}

#[test]
fn events_for_a_busy_consumer_wait_in_order_until_it_resumes() {
    for strategy in STRATEGIES {
        for (overflow, first) in [(Overflow::DropOldest, EVENTS - 9), (Overflow::DropNewest, 1)] {
            let channel = Channel::builder().strategy(strategy).build().unwrap();
            let busy = Arc::new(Reluctant::default());
            // One failure would disconnect it.
            let quality = Quality { queue: 10, overflow, failures: 1, ..Quality::default() };
            let proxy = channel
                .for_consumers()
                .connect(busy.clone(), wants(Filter::of(20, 0)).quality(quality))
                .unwrap();
            let log = Log::default();
            let roomy = Quality { queue: EVENTS as usize, ..Quality::default() };
            let _other = log.connect(&channel, wants(Filter::of(20, 0)).quality(roomy));
            let supplier = channel.for_suppliers().connect().unwrap();
            let mut got = 0;
            for number in 1..=EVENTS {
                supplier.push(&event(20, 0, number));
                wait_until("the other one gets it", || {
                    got += log.take().len() as u64;
                    got == number
                });
            }
            let counts = proxy.counts();
            assert_eq!((counts.pushed, counts.failed, counts.dropped), (0, 0, EVENTS - 10), "{strategy:?}");
            let resume = busy.resume.lock().unwrap().clone().unwrap();
            resume.resume();
            busy.takes.store(true, Relaxed);
            resume.resume();
            wait_until("it gets what waited", || busy.taken.lock().unwrap().len() == 10);
            let expected: Vec<u64> = (first..first + 10).collect();
            assert_eq!(*busy.taken.lock().unwrap(), expected, "{strategy:?}");
            supplier.push(&event(20, 0, EVENTS + 1));
            wait_until("it is served as before", || busy.taken.lock().unwrap().len() == 11);
            assert_eq!(proxy.counts().pushed, 11);
        }
    }
}
