//! The page in Chromium, beside a channel that works meanwhile.
//!
//! Where there is no Chromium, the test says so and ends.

use isorb_admin::{Admin, ChannelSource, MemorySource, Options, OtherPage, Source, Together};
use isorb_event::federation::{
    ControlMessage, Federation, ForwardError, ForwardedEvent, LinkDown, Transport,
};
use isorb_event::{
    Channel, ConsumerQos, Event, Failure, Filter, PushConsumer, Quality, Strategy, VirtualClock,
};
use isorb_testkit::Browser;
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
    let channel = Channel::builder().trace(true).latencies(true).build().unwrap();
    let source = ChannelSource::new(&channel, 1024);
    let options = Options { interval: Duration::from_millis(100), ..Options::default() };
    let admin = Admin::start("127.0.0.1:0".parse().unwrap(), options, source).unwrap();
    let Some(mut browser) = Browser::start_or_skip() else { return };
    browser.open(&format!("http://{}/", admin.address()));

    // The name is a consumer's own; it must stay text.
    let quality = Quality { deadline: Some(Duration::from_millis(1)), ..Quality::default() };
    let qos = ConsumerQos::new("<img src=x onerror=alert(1)>", Filter::of(20, 1)).quality(quality);
    let display = channel.for_consumers().connect(Arc::new(Slow), qos).unwrap();
    let quick = ConsumerQos::new("quick", Filter::of(20, 1));
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
    let images =
        browser.run("return document.images.length + document.querySelectorAll('td .bad img').length");
    assert_eq!(images, 0);
    let late = browser.run("return document.querySelectorAll('.bad[data-field=missed]').length");
    assert_eq!(late, 1);

    display.disconnect();
    until("a consumer that has gone is shown no more", || field(&mut browser, "<img", "pushed").is_empty());
    let from = browser.run(
        "return performance.getEntriesByType('resource').filter((r) => !r.name.startsWith(location.origin)).length",
    );
    assert_eq!(from, 0, "nothing is fetched from elsewhere");
    assert_eq!(browser.console(), Vec::<Value>::new());
    // And when the service ends, the page says so.
    drop(admin);
    until("the page says that it is alone", || {
        browser.run("return document.getElementById('link').className") == "lost"
    });
}

/// How deep queues are, and how late what waited was, is seen as it changes.
#[test]
fn queues_fill_and_empty_before_ones_eyes() {
    let strategy = Strategy::ByHand { upcalls: false };
    let clock = Arc::new(VirtualClock::new());
    let channel = Channel::builder()
        .strategy(strategy)
        .trace(true)
        .latencies(true)
        .own_threads(false)
        .clock(Arc::new(clock.clone()))
        .build()
        .unwrap();
    let options = Options { interval: Duration::from_millis(100), ..Options::default() };
    let source = ChannelSource::new(&channel, 1024);
    let admin = Admin::start("127.0.0.1:0".parse().unwrap(), options, source).unwrap();
    let quality = Quality { queue: 4, deadline: Some(Duration::from_millis(1)), ..Quality::default() };
    let deep = ConsumerQos::new("deep", Filter::of(20, 1)).quality(quality);
    let _deep = channel.for_consumers().connect(Arc::new(|_: &[Event<'_>]| {}), deep).unwrap();
    let Some(mut browser) = Browser::start_or_skip() else { return };
    browser.open(&format!("http://{}/", admin.address()));
    let supplier = channel.for_suppliers().connect().unwrap();
    let mut shows = |waiting: &str, others: [(&str, &str); 3]| {
        until("what waits is shown", || field(&mut browser, "deep", "waiting") == waiting);
        for (column, wanted) in others {
            until(column, || field(&mut browser, "deep", column) == wanted);
        }
    };
    shows("0 of 4", [("pushed", "0"), ("missed", "0"), ("lost", "0")]);
    (0..3).for_each(|_| _ = supplier.push(&Event::new(20, 1)));
    shows("3 of 4", [("pushed", "0"), ("missed", "0"), ("lost", "0")]);
    // Two more than there is room for.
    (0..3).for_each(|_| _ = supplier.push(&Event::new(20, 1)));
    shows("4 of 4", [("pushed", "0"), ("missed", "0"), ("lost", "2")]);
    clock.advance(3_000_000);
    (0..2).for_each(|_| assert!(channel.step()));
    shows("2 of 4", [("pushed", "2"), ("missed", "2"), ("least_laxity", "-2.00 ms")]);
    while channel.step() {}
    // One in time.
    supplier.push(&Event::new(20, 1));
    assert!(channel.step());
    shows("0 of 4", [("pushed", "5"), ("missed", "4"), ("lost", "2")]);
    for histogram in ["waited", "response", "laxity"] {
        let bars = format!("return document.querySelectorAll('[data-field={histogram}] svg rect').length");
        assert!(browser.run(&bars).as_u64() > Some(0), "{histogram}");
    }
    assert_eq!(browser.console(), Vec::<Value>::new());
}

#[test]
fn other_services_are_shown_below() {
    let channel = Channel::builder().id(7).build().unwrap();
    let quick = ConsumerQos::new("quick", Filter::of(20, 1));
    let _quick = channel.for_consumers().connect(Arc::new(|_: &[Event<'_>]| {}), quick).unwrap();
    let start =
        |source: Box<dyn Source>| Admin::start("127.0.0.1:0".parse().unwrap(), Options::default(), source);
    let memory = start(Box::new(MemorySource::new(std::sync::Weak::new()))).unwrap();
    let own: Box<dyn Source> = Box::new(ChannelSource::new(&channel, 1024));
    let other = Box::new(OtherPage::new(memory.address()));
    let admin = start(Box::new(Together::new(vec![own, other]))).unwrap();
    let Some(mut browser) = Browser::start_or_skip() else { return };
    browser.open(&format!("http://{}/", admin.address()));
    let titles = "return [...document.querySelectorAll('h1')].map((h) => h.textContent).join('; ')";
    until("both are there", || browser.run(titles) == "Event channel 7; The service has ended");
    assert_eq!(field(&mut browser, "quick", "pushed"), "0");
    drop(memory);
    until("one cannot be read", || {
        browser.run(titles).as_str().is_some_and(|titles| titles.ends_with("cannot be read"))
    });
    assert_eq!(browser.console(), Vec::<Value>::new());
}

/// A channel in a federation. Its consumers have long names and filters; some are remote.
#[test]
fn the_page_is_for_all_people_and_screens() {
    let Some(mut browser) = Browser::start_or_skip() else { return };
    let channel = Channel::builder().id(7).trace(true).latencies(true).build().unwrap();
    let federation = Federation::builder(&channel).build().unwrap();
    federation.join(Arc::new(Silent));
    let connect = |name: &str, address: &str, filter: Filter, queue: usize| {
        let quality = Quality { queue, deadline: Some(Duration::from_nanos(1)), ..Quality::default() };
        let qos = ConsumerQos { address: address.to_owned(), ..ConsumerQos::new(name, filter) };
        channel.for_consumers().connect(Arc::new(|_: &[Event<'_>]| {}), qos.quality(quality)).unwrap()
    };
    let alarms = (16..24).map(|event_type| Filter::of(event_type, 1));
    let _consumers = [
        connect("display", "192.0.2.7:4200", Filter::of(20, 1), 8),
        connect("navigation of the second mission computer", "", Filter::any_of(alarms), 10_000),
        connect(
            "",
            "/run/isorb/a-socket-with-a-rather-long-name",
            Filter::interval(Duration::from_secs(9)),
            1,
        ),
    ];
    let options = Options { interval: Duration::from_millis(100), ..Options::default() };
    let source = ChannelSource::new(&channel, 1024).federation(&federation);
    let admin = Admin::start("127.0.0.1:0".parse().unwrap(), options, source).unwrap();
    browser.open(&format!("http://{}/", admin.address()));
    let supplier = channel.for_suppliers().connect().unwrap();
    until("pushes are shown", || {
        supplier.push(&Event::new(20, 1));
        !["0", "–", ""].contains(&field(&mut browser, "display", "push_rate").as_str())
    });

    // What the row says of a consumer, and what the page says of the federation.
    assert_eq!(field(&mut browser, "display", "address"), "192.0.2.7:4200");
    assert_eq!(field(&mut browser, "display", "filter"), "type 20 from 1");
    assert!(field(&mut browser, "navigation", "filter").starts_with("type 16 from 1 or type 17 from 1"));
    assert_eq!(field(&mut browser, "navigation", "address"), "in this process");
    assert_eq!(field(&mut browser, "display", "waiting"), "0 of 8");
    let neighbour = browser.run(
        "return [...document.querySelectorAll('#neighbours tbody [data-field]')].map((cell) => cell.textContent).join('; ')",
    );
    assert_eq!(neighbour, "not heard of; 203.0.113.9:4201; ▼ down; –");
    // The rates over time: a point for each sample, of the channel and of each consumer.
    let points = |of: &str| {
        format!("return document.querySelector('{of} polyline').getAttribute('points').split(' ').length")
    };
    for of in ["[data-field=total_push_rate]", "[data-field=forward_rate]", "#consumers tbody tr"] {
        until(of, || browser.run(&points(of)).as_u64() > Some(3));
    }

    browser.look(1400, false);
    let cut = browser.run(
        "return [...document.querySelectorAll('.scroll, #consumers *')]
           .filter((e) => e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).overflowX !== 'visible')
           .map((e) => `${e.tagName} ${e.dataset.field}: ${e.scrollWidth} of ${e.clientWidth}`)",
    );
    assert_eq!(cut, serde_json::json!([]), "no column is cut at 1,400 pixels");
    // The keyboard reaches the table, and stays there while its numbers change.
    browser.look(360, false);
    browser.key("Tab");
    let focus =
        "return document.activeElement.getAttribute('aria-label') + ' ' + (document.body.dataset.number > ";
    let number = browser.run("return document.body.dataset.number").as_str().unwrap().to_owned();
    until("the numbers change under the focus", || {
        browser.run(&format!("{focus}{number})")) == "table: Consumers true"
    });
    browser.check_looks("channel");
    assert_eq!(browser.console(), Vec::<Value>::new());
}

/// A link to a neighbour that does not answer.
struct Silent;

impl Transport for Silent {
    fn announce(&self, _: &[ControlMessage]) -> Result<(), LinkDown> {
        Err(LinkDown)
    }

    fn forward(&self, _: &ForwardedEvent<'_>) -> Result<(), ForwardError> {
        Err(ForwardError::Down)
    }

    fn address(&self) -> String {
        "203.0.113.9:4201".to_owned()
    }
}
