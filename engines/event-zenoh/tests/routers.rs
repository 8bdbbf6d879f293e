//! Two sites and three routers, each in a network namespace of its own. The router that both sites
//! use is killed.

mod world;

use isorb_event::servants::{EventServiceOptions, RtecEventService};
use isorb_event::{Channel, Filter};
use isorb_netlab::{Host, Net};
use isorb_testkit::{Process, RunningOrb, wait_until};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use world::{PROGRAM, consumer, numbered};

/// A channel behind an ORB in a host, and the program beside it.
struct Site {
    channel: Channel,
    _service: RtecEventService,
    _orb: RunningOrb,
    _gateway: Process,
}

fn address(host: &Host) -> String {
    format!("tcp/{}:7447", host.address())
}

fn router(host: &Host, others: &[&Host]) -> Process {
    let mut command = host.command(PROGRAM);
    command.args(["router", "--listen", &address(host)]);
    if !others.is_empty() {
        let others: Vec<String> = others.iter().map(|other| address(other)).collect();
        command.args(["--router", &others.join(",")]);
    }
    Process::ready(&mut command).0
}

impl Site {
    fn new(host: &Host, name: &str, routers: &[&Host]) -> Site {
        let serve = || {
            let orb = RunningOrb::new();
            let channel = Channel::builder().build().unwrap();
            let service =
                RtecEventService::start(orb.orb(), &channel, EventServiceOptions::default()).unwrap();
            (orb, channel, service)
        };
        let (orb, channel, service) = host.run(serve).unwrap();
        let mut command = host.command(PROGRAM);
        command.args(["gateway", "--channel", &service.object().to_string(), "--site", name, "--router"]);
        command.arg(routers.iter().map(|router| address(router)).collect::<Vec<_>>().join(","));
        let (gateway, site) = Process::ready(&mut command);
        assert_eq!(site, name);
        Site { channel, _service: service, _orb: orb, _gateway: gateway }
    }
}

#[test]
fn a_killed_router_is_replaced_and_no_event_is_lost_in_silence() {
    let Some(net) = Net::build_or_skip(5) else { return };
    let [vienna, graz, first, second, third] = [0, 1, 2, 3, 4].map(|number| net.host(number));
    let mut used = router(first, &[]);
    let _second = router(second, &[first]);
    let _third = router(third, &[first, second]);
    let vienna = Site::new(vienna, "vienna", &[first, second]);
    let graz = Site::new(graz, "graz", &[first, third]);
    let (there, _connected) = consumer(&graz.channel, Filter::of_type(20), 0);
    let supplier = vienna.channel.for_suppliers().connect().unwrap();
    let pushed = AtomicU64::new(0);
    let push = || supplier.push(&numbered(20, pushed.fetch_add(1, Relaxed) + 1));
    wait_until("events arrive", || {
        push();
        std::thread::sleep(Duration::from_millis(1));
        there.count() >= 100
    });
    used.kill();
    let before = pushed.load(Relaxed);
    // Those of before were in the router.
    wait_until("events arrive again", || {
        push();
        std::thread::sleep(Duration::from_millis(1));
        there.numbers().iter().filter(|number| **number > before).count() >= 100
    });
    let numbers = there.numbers();
    assert!(numbers.is_sorted_by(|a, b| a < b), "in order, and none twice");
    let (first, last) = (numbers[0], numbers[numbers.len() - 1]);
    let missing = last - first + 1 - numbers.len() as u64;
    // The gateway's numbers have the same gaps, so that consumers learn of each loss.
    let gaps: u64 = there.all().windows(2).map(|pair| pair[1].2.number - pair[0].2.number - 1).sum();
    assert_eq!(gaps, missing);
    println!("{missing} of {} events were lost when the router was killed", last - first + 1);
}
