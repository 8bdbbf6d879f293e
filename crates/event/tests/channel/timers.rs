//! Time-outs, in virtual time.

use crate::common::*;
use isorb_event::{Channel, Event, Filter, Strategy, designator};
use std::sync::Arc;
use std::time::Duration;

const MS: u64 = 1_000_000;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

#[test]
fn intervals_fire_each_period_and_do_not_pile_up() {
    let (channel, clock) = still(Channel::builder());
    let log = Log::default();
    let proxy = log.connect(&channel, wants(Filter::interval(ms(10))));
    assert_eq!(channel.expire(), 0);
    clock.advance(10 * MS);
    assert_eq!((channel.expire(), channel.expire()), (1, 0));
    clock.advance(9 * MS);
    assert_eq!(channel.expire(), 0);
    clock.advance(MS);
    assert_eq!(channel.expire(), 1);
    assert_eq!(
        log.take(),
        [[(designator::INTERVAL_TIMEOUT, 0, 100_000)], [(designator::INTERVAL_TIMEOUT, 0, 100_000)]]
    );
    // Checked too late: one time-out, the missed ones are counted, and the grid is kept.
    clock.advance(35 * MS);
    assert_eq!((channel.expire(), proxy.counts().late_intervals), (1, 2));
    clock.advance(5 * MS);
    assert_eq!((channel.expire(), proxy.counts().timeouts), (1, 4));
    drop(proxy);
    assert_eq!(channel.next_timeout(), None);
}

#[test]
fn a_deadline_timer_fires_only_without_the_events() {
    let (channel, clock) = still(Channel::builder());
    let log = Log::default();
    let both = Filter::all_of([Filter::of(20, 0), Filter::of(21, 0)]);
    let _c = log.connect(&channel, wants(Filter::any_of([both, Filter::deadline(ms(10))])));
    let supplier = channel.for_suppliers().connect().unwrap();
    clock.advance(6 * MS);
    supplier.push(&event(20, 0, 1));
    clock.advance(3 * MS);
    supplier.push(&event(21, 0, 2));
    assert_eq!(log.take_times(), [[1, 2]]);
    // Satisfied at 9: due at 19.
    clock.advance(9 * MS);
    assert_eq!(channel.expire(), 0);
    // Half a conjunction does not restart it.
    supplier.push(&event(20, 0, 3));
    clock.advance(MS);
    assert_eq!(channel.expire(), 1);
    assert_eq!(log.take(), [[(designator::DEADLINE_TIMEOUT, 0, 100_000)]]);
    // The half is still there.
    supplier.push(&event(21, 0, 4));
    assert_eq!(log.take_times(), [[3, 4]]);
    clock.advance(9 * MS);
    assert_eq!(channel.expire(), 0);
    clock.advance(MS);
    assert_eq!(channel.expire(), 1);
    clock.advance(10 * MS);
    assert_eq!(channel.expire(), 1);
}

#[test]
fn a_time_out_can_be_a_term_of_a_conjunction() {
    let (channel, clock) = still(Channel::builder());
    let log = Log::default();
    let _c = log.connect(&channel, wants(Filter::all_of([Filter::interval(ms(10)), Filter::of(20, 0)])));
    let supplier = channel.for_suppliers().connect().unwrap();
    clock.advance(10 * MS);
    assert_eq!((channel.expire(), log.take().len()), (1, 0));
    supplier.push(&event(20, 0, 7));
    assert_eq!(log.take_times(), [[100_000, 7]]);
    supplier.push(&event(20, 0, 8));
    supplier.push(&event(20, 0, 9));
    clock.advance(10 * MS);
    channel.expire();
    assert_eq!(log.take_times(), [[9, 100_000]]);
}

#[test]
fn suspended_consumers_have_no_time_outs() {
    let (channel, clock) = still(Channel::builder());
    let log = Log::default();
    let proxy = log.connect(&channel, wants(Filter::interval(ms(10))));
    proxy.suspend().unwrap();
    assert_eq!(channel.next_timeout(), None);
    clock.advance(50 * MS);
    assert_eq!(channel.expire(), 0);
    proxy.resume().unwrap();
    clock.advance(10 * MS);
    assert_eq!((channel.expire(), log.take().len()), (1, 1));
}

#[test]
fn time_outs_are_queued_at_their_consumers_priority() {
    let (channel, clock) = still(Channel::builder().strategy(Strategy::ByHand { upcalls: false }));
    let log = Log::default();
    let connect = |priority, period| {
        let quality = isorb_event::Quality {
            priority: isorb_event::Priority::new(priority).unwrap(),
            ..Default::default()
        };
        log.connect(&channel, wants(Filter::interval(ms(period))).quality(quality))
    };
    let _c = [connect(0, 1), connect(30_000, 3), connect(10_000, 2)];
    clock.advance(3 * MS);
    assert_eq!(channel.expire(), 3);
    while channel.step() {}
    assert_eq!(log.take_times(), [[30_000], [20_000], [10_000]]);
}

/// With the channel's own threads, in real time: checks that time-outs arrive, not when.
#[test]
fn threads_of_their_own_drive_them() {
    for strategy in [Strategy::Direct, Strategy::Threads { per_level: 1 }] {
        let channel = Channel::builder().strategy(strategy).build().unwrap();
        let done = Arc::new(std::sync::Barrier::new(2));
        let (count, reached) = (std::sync::atomic::AtomicU32::new(0), done.clone());
        let consumer = move |_: &[Event<'_>]| {
            if count.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 2 {
                reached.wait();
            }
        };
        let qos = wants(Filter::interval(ms(2)));
        let proxy = channel.for_consumers().connect(Arc::new(consumer), qos).unwrap();
        done.wait();
        proxy.disconnect();
        channel.destroy();
    }
}
