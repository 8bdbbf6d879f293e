//! The trace of a push, a run, a pre-emption, a deadline.

use crate::common::*;
use isorb_event::trace::What;
use isorb_event::{Config, Event, Filter, Priority, Quality, Strategy, yield_now};
use std::sync::Arc;
use std::time::Duration;

const MS: u64 = 1_000_000;

#[test]
fn a_nested_run_is_in_the_trace_from_push_to_deadline() {
    let config = Config { trace: true, ..Config::with(Strategy::ByHand { upcalls: true }) };
    let (channel, clock) = still(config);
    let supplier = Arc::new(channel.for_suppliers().connect().unwrap());
    let (time, inner) = (clock.clone(), supplier.clone());
    let low = move |_: &[Event<'_>]| {
        time.advance(MS);
        inner.push(&event(21, 0, 0));
        yield_now();
        time.advance(MS);
    };
    let time = clock.clone();
    let high = move |_: &[Event<'_>]| time.advance(3 * MS);
    let admin = channel.for_consumers();
    let quality = Quality { deadline: Some(Duration::from_millis(4)), ..Quality::default() };
    let low = admin.connect(Arc::new(low), wants(Filter::of(20, 0)).quality(quality)).unwrap();
    let quality = Quality { priority: Priority::MAX, ..Quality::default() };
    let high = admin.connect(Arc::new(high), wants(Filter::of(21, 0)).quality(quality)).unwrap();
    supplier.push(&event(20, 7, 0));
    assert!(channel.step());
    let tracks = channel.trace().snapshot();
    assert_eq!((tracks.len(), tracks[0].overwritten), (1, 0));
    let start = tracks[0].records[0].at;
    let seen: Vec<_> = tracks[0].records.iter().map(|r| ((r.at - start) / MS, r.what, r.who, r.a)).collect();
    let (s, l, h) = (supplier.id(), low.id(), high.id());
    assert_eq!(
        seen,
        [
            (0, What::Push, s, (20 << 32) + 7),
            (0, What::Queue, l, 1),
            (0, What::Begin, l, 0),
            (1, What::Push, s, 21 << 32),
            (1, What::Queue, h, 1),
            (1, What::Preempt, l, 3),
            (1, What::Begin, h, 0),
            (4, What::End, h, 3 * MS),
            (5, What::End, l, 5 * MS),
            (5, What::Miss, l, MS),
        ]
    );
    assert_eq!(tracks[0].records[6].level, 3);
    channel.trace().switch(false);
    supplier.push(&event(20, 7, 0));
    assert!(channel.step());
    assert_eq!(channel.trace().snapshot(), tracks);
}
