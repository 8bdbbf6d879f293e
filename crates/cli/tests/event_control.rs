//! `isorb event-control`: a channel in a process gets other modules while events flow, and its
//! trace is drawn. And its live page in a browser.

mod common;

use common::events::{Consumer, consume, event, orb, supply};
use common::{Service, run};
use isorb::Orb;
use isorb_event::servants::stamped::rtec_event_channel_admin as admin;
use isorb_testkit::{Browser, TempFolder, wait_until};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

const TYPE: i32 = 20;

/// An ORB, a consumer of events of [`TYPE`] and a supplier at a channel.
fn connect(url: &str) -> (Orb, Arc<Consumer>, admin::ProxyPushConsumerRef) {
    let orb = orb();
    let channel: admin::EventChannelRef = orb.resolve(url).unwrap();
    let (consumer, supplier) = (consume(&orb, &channel, TYPE), supply(&channel));
    (orb, consumer, supplier)
}

fn control(url: &str, arguments: &[&str]) -> common::Ended {
    run(&[&["event-control", url], arguments].concat())
}

#[test]
fn modules_are_exchanged_while_events_flow_and_the_trace_is_drawn() {
    let arguments =
        ["event-channel", "--real-time", "off", "--trace", "--full", "block", "--configuration", "filtering"];
    let service = Service::start(&arguments);
    let (_orb, consumer, supplier) = connect(&service.url);
    let (stop, sent) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(SeqCst) {
                let number = sent.load(SeqCst) + 1;
                supplier.push(&vec![event(TYPE, number)]).unwrap();
                sent.store(number, SeqCst);
                // The consumer keeps up: its queue's limit is not what is looked at.
                wait_until("events arrive", || consumer.0.lock().unwrap().len() as u64 + 16 > number);
            }
        });
        for (modules, dispatching) in [
            ("full", "threads"),
            ("discriminator", "none"),
            ("full", "single"),
            ("broadcaster", "none"),
            ("full", "upcalls"),
        ] {
            let before = sent.load(SeqCst);
            let (code, _, message) =
                control(&service.url, &["--configuration", modules, "--dispatching", dispatching]);
            assert_eq!(code, Some(0), "{modules}, {dispatching}: {message}");
            wait_until("events go on", || sent.load(SeqCst) > before + 20);
        }
        stop.store(true, SeqCst);
    });
    let sent = sent.load(SeqCst);
    wait_until("all have arrived", || consumer.0.lock().unwrap().len() as u64 == sent);
    assert!(consumer.0.lock().unwrap().iter().copied().eq(1..=sent), "none lost, doubled or reordered");

    // A broadcaster delivers events without a subscription.
    supplier.push(&vec![event(TYPE + 1, 7_000_000), event(TYPE, 7_000_001)]).unwrap();
    wait_until("the wanted one comes", || consumer.0.lock().unwrap().last() == Some(&7_000_001));
    assert!(!consumer.0.lock().unwrap().contains(&7_000_000));
    assert_eq!(control(&service.url, &["--configuration", "broadcaster"]).0, Some(0));
    supplier.push(&vec![event(TYPE + 1, 8_000_000)]).unwrap();
    wait_until("an event without a subscription arrives", || {
        consumer.0.lock().unwrap().last() == Some(&8_000_000)
    });

    let folder = TempFolder::new();
    let (trace, page) = (folder.text("flight.trace"), folder.text("flight.html"));
    let (code, message, error) = control(&service.url, &["--trace", &trace]);
    assert_eq!((code, message.trim()), (Some(0), trace.as_str()), "{error}");
    assert_eq!(run(&["timeline", &trace, "--out", &page]).0, Some(0));
    let recording = isorb_trace::decode(&std::fs::read(&trace).unwrap()).unwrap();
    let timeline = isorb_timeline::Timeline::of("flight", &[recording]);
    let row = timeline.rows.iter().find(|row| row.consumer).expect("the consumer has a row");
    // A thread's part of the trace has room for about 2,000 runs; then the oldest are
    // overwritten.
    assert!(
        row.runs.len() as u64 > (sent / 2).min(1_000)
            && timeline.rows.iter().any(|row| row.supplier && !row.marks.is_empty())
    );
}

#[test]
fn a_channel_refuses_impossible_modules() {
    let service = Service::start(&["event-channel", "--real-time", "off"]);
    let (code, _, message) =
        control(&service.url, &["--configuration", "full", "--dispatching", "threads", "--threads", "1000"]);
    assert_eq!(code, Some(1));
    assert!(message.contains("1000 threads a level"), "{message}");
    let (code, _, message) = control(&service.url, &[]);
    assert!(code == Some(2) && message.contains("--trace"), "{message}");
    let (code, _, message) = control(&service.url, &["--dispatching", "threads", "--trace", "x"]);
    assert!(code == Some(2) && message.contains("--configuration"), "{message}");
}

#[test]
fn a_browser_shows_the_events_of_remote_consumers() {
    let Some(mut browser) = Browser::start_or_skip() else { return };
    let (service, address) = Service::with_page(&["event-channel", "--real-time", "off", "--admin", "0"]);
    let (_orb, consumer, supplier) = connect(&service.url);
    let (_orb, _other, _) = connect(&service.url);
    browser.open(&format!("http://{address}/"));
    (1..=25).for_each(|number| supplier.push(&vec![event(TYPE, number)]).unwrap());
    wait_until("events come", || consumer.0.lock().unwrap().len() == 25);
    let rows = "return [...document.querySelectorAll('#consumers tbody tr')].map((row) =>
        row.cells[0].textContent + ': ' + row.querySelector('[data-field=pushed]').textContent).sort().join('; ')";
    let mut shown = String::new();
    wait_until("the page has them", || {
        shown = browser.run(rows).as_str().unwrap_or_default().to_owned();
        shown.matches(": 25").count() == 2
    });
    // Two remote consumers have different names.
    let names: Vec<&str> = shown.split("; ").collect();
    assert!(names.len() == 2 && names[0] != names[1], "{shown}");
    let bars = browser.run("return document.querySelectorAll('[data-field=response] svg rect').length");
    assert!(bars.as_u64() > Some(0), "{bars}");
    assert_eq!(browser.console(), Vec::<serde_json::Value>::new());
}
