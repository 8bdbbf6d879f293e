//! Federated channels as processes on this machine, which are stopped and go on.

mod common;

use common::Service;
use common::events::{Consumer, consume, event, orb, supply};
use isorb_event::servants::stamped::rtec_event_channel_admin as admin;
use isorb_testkit::{freeze, resume, wait_until};
use std::time::Duration;

const WANTED: i32 = 20;
const MEMBERS: usize = 3;
/// Thirty of these a member may be silent before it is forgotten: longer than it is stopped here,
/// however busy the machine.
const TICK: &str = "2000";

/// Members in a line.
fn line() -> Vec<Service> {
    let mut line: Vec<Service> = Vec::new();
    for number in 1..=MEMBERS {
        let id = number.to_string();
        let fixed = ["event-channel", "--real-time", "off", "--ping", "0", "--queue", "10000"];
        let mut args = fixed.to_vec();
        args.extend(["--events", "10000", "--id", &id, "--tick", TICK, "--push-timeout", "2000"]);
        let before = line.last().map(|service| service.url.replace("EventService", "EventFederation"));
        if let Some(before) = &before {
            args.extend(["--join", before]);
        }
        let next = Service::start(&args);
        line.push(next);
    }
    line
}

fn of(numbers: std::ops::Range<u64>, consumer: &Consumer) -> Vec<u64> {
    consumer.times().into_iter().filter(|number| numbers.contains(number)).collect()
}

/// Each is stopped in turn, for longer than its neighbours wait for answers: the source, to which
/// events are pushed meanwhile, the one between and the last. What is in connections that were
/// abandoned meanwhile is read beside what comes over the next ones; its numbers tell which of both
/// goes first.
#[test]
fn a_stopped_member_that_continues_gets_all_events_once_and_in_order() {
    let orb = orb();
    let line = line();
    let ends = [0, MEMBERS - 1].map(|i| -> admin::EventChannelRef { orb.resolve(&line[i].url).unwrap() });
    let far = consume(&orb, &ends[1], WANTED);
    let supplier = supply(&ends[0]);
    let mut next = 0;
    wait_until("an event comes over", || {
        next += 1;
        supplier.push(&vec![event(WANTED, next)]).unwrap();
        !far.times().is_empty()
    });
    let first = next + 1;
    next = first;
    for stopped in &line {
        freeze(stopped.id());
        // Three ticks, and a call without an answer at least. A shorter time-out a busy machine
        // does not keep, and links never stay up.
        for _ in 0..90 {
            for _ in 0..10 {
                supplier.push(&vec![event(WANTED, next)]).unwrap();
                next += 1;
            }
            std::thread::sleep(Duration::from_millis(75));
        }
        assert!(of(first..next, &far).last() < Some(&(next - 1)), "one that is stopped brings nothing");
        resume(stopped.id());
        for _ in 0..10 {
            supplier.push(&vec![event(WANTED, next)]).unwrap();
            next += 1;
        }
        wait_until("the last one comes", || of(first..next, &far).last() == Some(&(next - 1)));
        assert_eq!(of(first..next, &far), (first..next).collect::<Vec<_>>());
    }
    let all = far.times();
    assert!(all.is_sorted_by(|a, b| a < b), "none comes twice: {all:?}");
}
