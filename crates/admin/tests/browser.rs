//! The page as somebody sees it who looks: in Chromium, with a channel that works meanwhile.
//!
//! Where there is no Chromium, the test says so and ends.

#[path = "../../bench/tests/browser/mod.rs"]
mod chromium;

use chromium::Browser;
use isorb_admin::{Admin, ChannelSource, MemorySource, Options, OtherPage, Source, Together};
use isorb_event::{Channel, Config, ConsumerQos, Event, Failure, Filter, PushConsumer, Quality};
use serde_json::Value;
use std::sync::Arc;
use std::time::{Duration, Instant};

struct Slow;

impl PushConsumer for Slow {
    fn push(&self, _: &[Event<'_>]) -> Result<(), Failure> {
        std::thread::sleep(Duration::from_millis(2));
        Ok(())
    }
}

/// What a consumer's row says in a column, once the page has it.
fn field(browser: &mut Browser, consumer: &str, field: &str) -> String {
    let script = format!(
        "const row = [...document.querySelectorAll('#consumers tbody tr')]
           .find((row) => row.cells[0].textContent.startsWith({consumer:?}));
         return row ? row.querySelector('[data-field={field}]').textContent : '';"
    );
    browser.run(&script).as_str().expect("it returns text").to_owned()
}

fn until(what: &str, mut so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !so() {
        assert!(start.elapsed() < Duration::from_secs(60), "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn the_numbers_change_while_one_looks() {
    let channel = Channel::new(Config { trace: true, latencies: true, ..Config::default() }).unwrap();
    let source = ChannelSource::new(&channel, 1024);
    let options = Options { interval: Duration::from_millis(100), ..Options::default() };
    let admin = Admin::start("127.0.0.1:0".parse().unwrap(), options, source).unwrap();
    let Some(mut browser) = Browser::start() else {
        return println!("{}", chromium::MISSING);
    };
    browser.open(&format!("http://{}/", admin.address()));

    // The name is a consumer's own; it must stay text.
    let quality = Quality { deadline: Some(Duration::from_millis(1)), ..Quality::default() };
    let qos = ConsumerQos::of("<img src=x onerror=alert(1)>", Filter::of(20, 1)).quality(quality);
    let display = channel.for_consumers().connect(Arc::new(Slow), qos).unwrap();
    let quick = ConsumerQos::of("quick", Filter::of(20, 1));
    let _quick = channel.for_consumers().connect(Arc::new(|_: &[Event<'_>]| {}), quick).unwrap();
    let supplier = channel.for_suppliers().connect().unwrap();
    let mut pushes = 0;
    for _ in 0..3 {
        for _ in 0..10 {
            supplier.push(&Event::new(20, 1));
            pushes += 1;
        }
        let count = pushes.to_string();
        until("the pushes are shown", || field(&mut browser, "quick", "pushed") == count);
        until("and the misses", || field(&mut browser, "<img", "missed") == count);
    }
    // Rates come and go with what happens.
    until("the rate falls to nothing", || field(&mut browser, "quick", "push_rate") == "0");
    until("the rate rises", || {
        supplier.push(&Event::new(20, 1));
        !["0", "–", ""].contains(&field(&mut browser, "quick", "push_rate").as_str())
    });
    assert!(field(&mut browser, "<img", "least_laxity").starts_with('-'), "each one was late");
    assert_eq!(field(&mut browser, "quick", "least_laxity"), "–", "it has no deadline");
    assert!(field(&mut browser, "<img", "p50").starts_with("< "));
    let bars = browser.run("return document.querySelectorAll('[data-field=response] svg rect').length");
    assert!(bars.as_u64().is_some_and(|bars| bars >= 2), "{bars}");
    let images = browser.run("return document.images.length + document.querySelectorAll('td .bad').length");
    assert_eq!(images, 0);
    let late = browser.run("return document.querySelectorAll('td.bad[data-field=missed]').length");
    assert_eq!(late, 1);

    display.disconnect();
    until("a consumer that has gone is shown no more", || field(&mut browser, "<img", "pushed").is_empty());
    let from = browser.run(
        "return performance.getEntriesByType('resource').filter((r) => !r.name.startsWith(location.origin)).length",
    );
    assert_eq!(from, 0, "nothing is fetched from elsewhere");
    assert_eq!(browser.complaints(), Vec::<Value>::new());
    // And when the service ends, the page says so.
    drop(admin);
    until("the page says that it is alone", || {
        browser.run("return document.getElementById('link').className") == "lost"
    });
}

#[test]
fn other_services_are_shown_below() {
    let channel = Channel::new(Config { id: 7, ..Config::default() }).unwrap();
    let quick = ConsumerQos::of("quick", Filter::of(20, 1));
    let _quick = channel.for_consumers().connect(Arc::new(|_: &[Event<'_>]| {}), quick).unwrap();
    let start =
        |source: Box<dyn Source>| Admin::start("127.0.0.1:0".parse().unwrap(), Options::default(), source);
    let memory = start(Box::new(MemorySource::new(std::sync::Weak::new()))).unwrap();
    let own: Box<dyn Source> = Box::new(ChannelSource::new(&channel, 1024));
    let other = Box::new(OtherPage::new(memory.address()));
    let admin = start(Box::new(Together::new(vec![own, other]))).unwrap();
    let Some(mut browser) = Browser::start() else {
        return println!("{}", chromium::MISSING);
    };
    browser.open(&format!("http://{}/", admin.address()));
    let titles = "return [...document.querySelectorAll('h1')].map((h) => h.textContent).join('; ')";
    until("both are there", || browser.run(titles) == "Event channel 7; The service has ended");
    assert_eq!(field(&mut browser, "quick", "pushed"), "0");
    drop(memory);
    until("one cannot be read", || {
        browser.run(titles).as_str().is_some_and(|titles| titles.ends_with("cannot be read"))
    });
    assert_eq!(browser.complaints(), Vec::<Value>::new());
}
