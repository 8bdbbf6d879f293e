//! A consumer's process is stopped: other consumers do not wait for it, its losses are counted, and
//! it goes on when it does.

mod common;
mod page;

use common::Service;
use common::events::{consume, event, orb, supply};
use isorb::{Orb, Upcall};
use isorb_event::servants::stamped::{rtec_event_channel_admin as admin, rtec_event_comm as comm};
use isorb_testkit::{Process, freeze, resume, wait_until};
use page::state;
use std::process::Command;
use std::sync::Arc;

/// Where the consumer's process finds the channel.
const CHANNEL: &str = "ISORB_TEST_STOPPED_CONSUMER";
const EVENTS: u64 = 3_000;
const QUEUE: u64 = 50;

/// Sends back under another type what it gets.
struct Echo(admin::ProxyPushConsumerRef);

impl comm::PushConsumer for Echo {
    fn push(&self, _: Upcall<'_>, data: comm::EventSetView<'_>) -> isorb::Result<()> {
        let back: Vec<_> = data.iter().map(|got| event(21, got.header.creation_time)).collect();
        self.0.push(&back)
    }
    fn disconnect_push_consumer(&self, _: Upcall<'_>) -> isorb::Result<()> {
        Ok(())
    }
}

/// The consumer's process, when it is started as one.
#[test]
fn as_a_consumer() {
    let Ok(url) = std::env::var(CHANNEL) else { return };
    let orb = orb();
    let channel: admin::EventChannelRef = orb.resolve(&url).unwrap();
    let echo: comm::PushConsumerRef =
        orb.root_poa().unwrap().activate(Arc::new(Echo(supply(&channel)))).unwrap();
    let mut wanted = event(20, 0);
    wanted.header.source = 0;
    let dependencies = vec![admin::Dependency { event: wanted, rt_info: 0 }];
    let proxy = channel.for_consumers().unwrap().unwrap().obtain_push_supplier().unwrap().unwrap();
    proxy.connect_push_consumer(&echo, &admin::ConsumerQOS { dependencies, is_gateway: false }).unwrap();
    orb.run();
}

struct Stopped(Process);

impl Stopped {
    fn start(url: &str) -> Stopped {
        let mut command = Command::new(std::env::current_exe().unwrap());
        let command = command.args(["--exact", "as_a_consumer"]).env(CHANNEL, url);
        Stopped(Process::unread(command))
    }
}

/// The row of the first consumer that came from the other process.
fn row(page: &str) -> serde_json::Value {
    let state = state(page);
    let mut rows = state["consumers"].as_array().unwrap().clone();
    rows.sort_by_key(|row| row["id"].as_u64());
    rows.get(2).cloned().unwrap_or_default()
}

fn stop_and_go_on(orb: &Orb, dispatching: &str) {
    let queue = QUEUE.to_string();
    let args =
        ["--dispatching", dispatching, "--queue", &queue, "--push-threads", "1", "--push-timeout", "100"];
    let fixed = ["event-channel", "--real-time", "off", "--admin", "0", "--ping", "0"];
    let (service, page) = Service::with_page(&[&fixed[..], &args[..]].concat());
    let channel: admin::EventChannelRef = orb.resolve(&service.url).unwrap();
    let (here, echoed) = (consume(orb, &channel, 20), consume(orb, &channel, 21));
    let supplier = supply(&channel);
    let child = Stopped::start(&service.url);
    let echoes = || echoed.0.lock().unwrap().clone();
    wait_until("the process is there", || {
        supplier.push(&vec![event(20, 1)]).unwrap();
        !echoes().is_empty()
    });
    freeze(child.0.id());
    let mut large = event(20, 0);
    large.data.payload = vec![7; 4_096];
    for number in 100..100 + EVENTS {
        large.header.creation_time = number;
        supplier.push(&vec![large.clone()]).unwrap();
        // The one that reads has a queue that is as short.
        wait_until(format_args!("{dispatching}: the other consumer is served"), || {
            here.0.lock().unwrap().last() == Some(&number)
        });
    }
    assert!(!echoes().contains(&(99 + EVENTS)), "{dispatching}: it stands");
    let stopped = row(&page);
    let bounded = stopped["waiting"].as_u64() <= Some(QUEUE);
    assert!(bounded && stopped["lost"].as_u64() > Some(0), "{dispatching}: {stopped}");
    resume(child.0.id());
    // What waited comes, each once. What still lies in connections that were abandoned is read
    // beside it, by a thread each.
    wait_until("it goes on", || echoes().contains(&(99 + EVENTS)));
    let counts = || {
        let row = row(&page);
        ["queued", "waiting", "pushed", "lost", "failed"].map(|name| row[name].as_u64().unwrap())
    };
    wait_until("each was pushed or is counted", || {
        let [queued, waiting, pushed, lost, _] = counts();
        queued >= EVENTS && waiting == 0 && pushed + lost == queued
    });
    let mut got: Vec<u64> = echoes().into_iter().filter(|number| *number >= 100).collect();
    got.sort_unstable();
    assert!(got.is_sorted_by(|a, b| a < b), "{dispatching}: none comes twice: {got:?}");
    let [_, _, pushed, _, failed] = counts();
    assert!(got.len() as u64 + failed <= pushed, "{dispatching}: {} of {pushed}, {failed} failed", got.len());
}

#[test]
fn a_stopped_consumer_delays_no_other_one_under_any_dispatching() {
    let orb = orb();
    for dispatching in ["none", "single", "threads", "upcalls"] {
        stop_and_go_on(&orb, dispatching);
    }
}

#[test]
fn a_stopped_consumer_is_removed_where_consumers_are_asked() {
    let orb = orb();
    let fixed = ["event-channel", "--real-time", "off", "--admin", "0", "--ping", "50"];
    let (service, page) = Service::with_page(&fixed);
    let channel: admin::EventChannelRef = orb.resolve(&service.url).unwrap();
    let _here = (consume(&orb, &channel, 20), consume(&orb, &channel, 21));
    let child = Stopped::start(&service.url);
    let count = || state(&page)["consumers"].as_array().unwrap().len();
    wait_until("the process is there", || count() == 3);
    freeze(child.0.id());
    wait_until("it is removed", || count() == 2);
}
