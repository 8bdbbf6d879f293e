//! Events with more data than a copy can hold.

use crate::common::*;
use isorb_event::dispatch::Queued;
use isorb_event::federation::{
    ControlMessage, Federation, ForwardError, ForwardedEvent, History, Interest, LinkDown, StreamRequest,
    Transport,
};
use isorb_event::{
    Channel, ChannelBuilder, ConsumerQos, Event, Filter, Limits, Overflow, Priority, Quality, Strategy,
    ThreadSetup,
};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

const LIMIT: usize = 100;

fn config(strategy: Strategy) -> ChannelBuilder {
    Channel::builder().strategy(strategy).limits(Limits {
        payload: LIMIT,
        larger: Default::default(),
        ..Limits::default()
    })
}

/// With each strategy and overflow policy: an event of the largest size arrives, a larger one is
/// counted and the supplier is told.
#[test]
fn an_event_too_large_for_a_queue_is_counted_and_reported() {
    for strategy in [
        Strategy::SingleThreaded,
        Strategy::Threads { per_level: 1 },
        Strategy::Upcalls,
        Strategy::ByHand { upcalls: false },
    ] {
        for overflow in [Overflow::Block, Overflow::DropNewest, Overflow::DropOldest, Overflow::Refuse] {
            let channel = config(strategy).build().unwrap();
            let sizes = Arc::new(Mutex::new(Vec::new()));
            let seen = sizes.clone();
            let consumer = move |events: &[Event<'_>]| {
                seen.lock().unwrap().extend(events.iter().map(|event| event.data.octets.len()));
            };
            let quality = Quality { overflow, ..Quality::default() };
            let qos = wants(Filter::of(20, 0)).quality(quality);
            let proxy = channel.for_consumers().connect(Arc::new(consumer), qos).unwrap();
            let supplier = channel.for_suppliers().connect().unwrap();
            let push = |size: usize| supplier.push(&event(20, 0, 0).octets(&[7; 2 * LIMIT][..size]));
            let (fits, larger) = (push(LIMIT), push(LIMIT + 1));
            assert_eq!((fits.taken, fits.too_large), (1, 0), "{strategy:?} {overflow:?}");
            assert_eq!((larger.taken, larger.too_large), (0, 1), "{strategy:?} {overflow:?}");
            assert_eq!((larger.dropped, larger.refused), (0, 0), "it is no matter of the queue");
            assert_eq!((proxy.counts().too_large, channel.totals().too_large), (1, 1));
            assert_eq!(push(1).taken, 1);
            let start = std::time::Instant::now();
            while sizes.lock().unwrap().len() < 2 && start.elapsed().as_secs() < 60 {
                channel.step();
                std::thread::yield_now();
            }
            assert_eq!(*sizes.lock().unwrap(), [LIMIT, 1], "{strategy:?}: the others come");
        }
    }
}

/// An any counts like octets, and a consumer without a queue receives any size.
#[test]
fn without_a_queue_there_is_no_limit() {
    let channel = config(Strategy::Direct).build().unwrap();
    let log = Log::default();
    let _direct = log.connect(&channel, wants(Filter::of(20, 0)));
    let own = Queued::alone(Strategy::SingleThreaded, &[Priority::MIN], &ThreadSetup::default()).unwrap();
    let own = own.map(|queued| Arc::new(queued) as Arc<dyn isorb_event::dispatch::Dispatch>);
    let queued = ConsumerQos { dispatch: own, ..wants(Filter::of(20, 0)) };
    let waiting = log.connect(&channel, queued);
    let supplier = channel.for_suppliers().connect().unwrap();
    let mut large = event(20, 0, 1).octets(&[0; LIMIT]);
    large.data.any = &[0; 1];
    let pushed = supplier.push(&large);
    assert_eq!((pushed.taken, pushed.too_large), (1, 1));
    assert_eq!((log.take().len(), waiting.counts().too_large), (1, 1));
}

/// Each channel has its own limit.
#[test]
fn each_channel_has_its_own_limit() {
    const LARGE: usize = 1 << 20;
    let limits = Limits { payload: LARGE, events: 2, ..Limits::default() };
    let channel = Channel::builder().strategy(Strategy::SingleThreaded).limits(limits).build().unwrap();
    let got = Arc::new(AtomicUsize::new(0));
    let seen = got.clone();
    let consumer = move |events: &[Event<'_>]| seen.store(events[0].data.octets.len(), Ordering::SeqCst);
    let _c = channel.for_consumers().connect(Arc::new(consumer), wants(Filter::Everything)).unwrap();
    let supplier = channel.for_suppliers().connect().unwrap();
    let data = vec![1; LARGE + 1];
    assert_eq!(supplier.push(&event(20, 0, 0).octets(&data)).too_large, 1);
    assert_eq!(supplier.push(&event(20, 0, 0).octets(&data[1..])).taken, 1);
    let start = std::time::Instant::now();
    while got.load(Ordering::SeqCst) != LARGE && start.elapsed().as_secs() < 60 {
        std::thread::yield_now();
    }
    assert_eq!(got.load(Ordering::SeqCst), LARGE);
}

/// The first loss of a supplier is logged by the thread that sweeps, later ones are counted.
#[test]
fn a_supplier_counts_its_losses() {
    let channel = config(Strategy::ByHand { upcalls: false }).build().unwrap();
    let log = Log::default();
    let _consumer = log.connect(&channel, wants(Filter::of(20, 0)));
    let supplier = channel.for_suppliers().connect().unwrap();
    for (size, lost) in [(LIMIT, 0), (LIMIT + 1, 1), (1, 1), (2 * LIMIT, 2)] {
        supplier.push(&event(20, 0, 0).octets(&[7; 2 * LIMIT][..size]));
        assert_eq!(supplier.lost(), lost);
    }
}

#[derive(Default)]
struct Far(Mutex<Vec<usize>>);

impl Transport for Far {
    fn announce(&self, _: &[ControlMessage]) -> Result<(), LinkDown> {
        Ok(())
    }
    fn forward(&self, passed: &ForwardedEvent<'_>) -> Result<(), ForwardError> {
        self.0.lock().unwrap().push(passed.event.data.octets.len());
        Ok(())
    }
}

/// Events that cross a link are stored in the federation's history, whatever the size of a
/// consumer's copies. Larger ones are counted there.
#[test]
fn an_event_too_large_for_the_history_is_counted() {
    let config = config(Strategy::ByHand { upcalls: false }).id(1).own_threads(false);
    let channel = config.build().unwrap();
    let history = History { events: 8, octets: 2 * LIMIT };
    let federation = Federation::builder(&channel).history(history).build().unwrap();
    let far = Arc::new(Far::default());
    let link = federation.join(far.clone());
    let interests = vec![Interest {
        incarnation: 1,
        origin: 2,
        version: 1,
        hops: 0,
        filters: [Filter::of(20, 0)].into(),
    }];
    let requests = vec![StreamRequest { source: 1, parent: 1, number: 1, after: None, consumers: vec![2] }];
    federation.receive_message(
        link,
        &ControlMessage { sender: 2, level: 0, interests, requests, positions: vec![] },
    );
    let supplier = channel.for_suppliers().connect().unwrap();
    for size in [2 * LIMIT + 1, 2 * LIMIT, LIMIT] {
        assert_eq!(supplier.push(&event(20, 0, 0).octets(&[7; 3 * LIMIT][..size])).taken, 1);
        while channel.step() {}
    }
    assert_eq!((federation.counts().lost, far.0.lock().unwrap().clone()), (1, vec![2 * LIMIT, LIMIT]));
}
