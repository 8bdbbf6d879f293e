//! Negative controls: the same work in ways that the channel avoids. Each must fail the channel's
//! claim.

use std::collections::VecDeque;
use std::fmt::Write;
use std::hint::black_box;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex};

use isorb_event::{Event, PushConsumer};
use isorb_rt::time::now_ns;

use super::push::consumer;
use super::rows;
use super::tables::{Random, SEED, costs_and_periods};
use super::threads::Setup;
use crate::blocks::{Local, keep};
use crate::figure::Row;

/// A trace of text under a lock.
pub const FORMATTED: &str = "formatted-trace";
/// Each consumer is given a copy of its own, through a queue that allocates.
pub const COPIES: &str = "copy-each";
/// Each event is compared with all subscriptions.
pub const SCAN: &str = "scan";
/// By way of a third thread.
pub const DETOUR: &str = "third-thread";
/// One event is under way at a time.
pub const ONE_BY_ONE: &str = "queue-of-one";
/// Each release time is tested.
pub const ALL_POINTS: &str = "all-points";
/// Through one more process.
pub const THIRD_PROCESS: &str = "bare-third-process";

/// A text of this size is thrown away.
const TEXT: usize = 1 << 16;

/// A loop that calls the consumers, and writes each step into a text.
pub fn formatted<'a>(consumers: &'a [Arc<dyn PushConsumer>], event: &'a Event<'a>) -> Local<'a> {
    let text = Mutex::new(String::with_capacity(2 * TEXT));
    let note = move |what: &str, number: usize| {
        if let Ok(mut text) = text.lock() {
            if text.len() > TEXT {
                text.clear();
            }
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{} {what} {number} type {}", now_ns(), event.header.event_type);
        }
    };
    Local::called(FORMATTED, consumers.len() as f64, [10, 200], move || {
        note("push", 0);
        for (i, one) in consumers.iter().enumerate() {
            note("begin", i);
            keep(one.push(std::slice::from_ref(event)));
            note("end", i);
        }
    })
}

/// A loop that queues a copy for each consumer, removes it again and calls the consumer.
pub fn copies<'a>(consumers: &'a [Arc<dyn PushConsumer>], event: &'a Event<'a>) -> Local<'a> {
    let queue: Mutex<VecDeque<Box<[u8]>>> = Mutex::default();
    Local::called(COPIES, consumers.len() as f64, [10, 200], move || {
        for one in consumers {
            let copy: Box<[u8]> = event.data.octets.into();
            let taken = queue.lock().ok().and_then(|mut queue| {
                queue.push_back(copy);
                queue.pop_front()
            });
            let copy = taken.unwrap_or_default();
            keep(one.push(&[Event::new(event.header.event_type, event.header.source).octets(&copy)]));
        }
    })
}

/// So many subscriptions in a list.
pub fn scan<'a>(keys: Vec<(i32, i32)>, event: &'a Event<'a>) -> Local<'a> {
    let (x, consumer) = (keys.len() as f64, consumer(&Arc::default()));
    Local::timed(SCAN, x, 3, move || {
        let start = now_ns();
        let wanted = (event.header.event_type, event.header.source);
        for _ in black_box(&keys).iter().filter(|key| **key == wanted) {
            keep(consumer.push(std::slice::from_ref(event)));
        }
        now_ns() - start
    })
}

/// Events one by one to a thread that must run before there is room for the next.
pub fn one_by_one(setup: Setup, events: u64) -> Local<'static> {
    Local::timed(ONE_BY_ONE, 1.0, 1, move || {
        let (send, receive) = sync_channel::<[u8; 64]>(1);
        let start = now_ns();
        let body = move || receive.iter().fold(0, |sum, one| sum + u64::from(one[0]));
        let Ok(thread) = setup.spec("control").spawn(body) else { return 0 };
        (0..events).for_each(|_| keep(send.send([1; 64])));
        drop(send);
        keep(thread.join());
        (now_ns() - start) / events
    })
}

/// Unordered timers: setting one searches for the earliest.
pub fn unsorted_timers(armed: u32) -> Local<'static> {
    let mut random = Random(SEED);
    let mut timers: Vec<u64> = (0..armed).map(|_| random.next() >> 16).collect();
    Local::timed(SCAN, armed.into(), 3, move || {
        let start = now_ns();
        timers.push(random.next() >> 16);
        keep(black_box(&timers).iter().min());
        timers.pop();
        now_ns() - start
    })
}

/// The response times of ten tasks only, the least urgent of so many.
pub fn all_points(count: u32) -> Vec<Row> {
    let mut tasks = costs_and_periods(count.into());
    tasks.sort_unstable_by_key(|&(_, period)| period);
    let subject = Local::timed(ALL_POINTS, count.into(), 1, move || {
        let start = now_ns();
        let demand = |at: u64| tasks.iter().map(|&(cost, period)| at.div_ceil(period) * cost).sum::<u64>();
        for &(_, end) in tasks.iter().rev().take(10) {
            let points = tasks.iter().flat_map(|&(_, period)| (1..=end / period).map(move |k| k * period));
            keep(points.filter(|&at| demand(at) <= at).min());
        }
        now_ns() - start
    });
    rows("analysis", 2, &mut [subject])
}
