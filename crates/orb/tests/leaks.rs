//! Everything that ends is released: descriptors and threads. One test, because the counts are
//! those of the process.

mod common;

use common::{EchoRef, Parrot, pair_with};
use isorb::{Concurrency, Config, Orb, Reference};
use isorb_testkit::wait_until;
use std::sync::Arc;
use std::time::Duration;

fn entries(folder: &str) -> usize {
    std::fs::read_dir(folder).unwrap().count()
}

fn descriptors() -> usize {
    entries("/proc/self/fd")
}

fn threads() -> usize {
    // Its thread stays for the life of the process, whichever record comes first.
    isorb_rt::log::prepare();
    entries("/proc/self/task")
}

/// Threads end and descriptors close shortly after the call that ends them; a leak never does.
fn settles(what: &str, count: fn() -> usize, at_most: usize) {
    for _ in 0..3_000 {
        if count() <= at_most {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("{what}: {} {} are left, there were {at_most}", count(), what);
}

fn with_callbacks(config: &Config, url: &str) {
    let client = Orb::with_config(config.clone()).unwrap();
    let near: EchoRef = client.root_poa().unwrap().activate(Arc::new(Parrot::default())).unwrap();
    let background = client.clone();
    let runs = std::thread::spawn(move || background.run());
    let echo: EchoRef = client.resolve(url).unwrap();
    assert_eq!(echo.call_back(Some(&near)).unwrap(), "from the servant");
    client.shutdown(true).unwrap();
    runs.join().unwrap();
}

/// A member joins and leaves a group that it calls; with `leave`, before its ORB ends.
#[cfg(feature = "miop")]
fn with_a_group(leave: bool) {
    let transport =
        isorb::TransportConfig { multicast_interface: "lo".into(), ..isorb::TransportConfig::default() };
    let orb = Orb::with_config(Config { transport, ..Config::default() }).unwrap();
    let root = orb.root_poa().unwrap();
    root.manager().activate().unwrap();
    let group = orb.string_to_object("corbaloc:miop:1.0@1.0-leaks-1/239.255.82.1:5082").unwrap();
    let id = match root.create_id_for_reference(&group) {
        Ok(id) => id,
        Err(error) => return println!("SKIPPED: {error}"),
    };
    let parrot = Arc::new(Parrot::default());
    root.activate_object_with_id(&id, isorb::IntoServant::<EchoRef>::into_servant(parrot.clone())).unwrap();
    let far: EchoRef = group.unchecked_narrow();
    wait_until("the group receives", || {
        far.feed(&[1]).unwrap();
        parrot.fed.load(std::sync::atomic::Ordering::Relaxed) > 0
    });
    if leave {
        root.disassociate_reference_with_id(&group, &id).unwrap();
    }
    orb.shutdown(true).unwrap();
}

#[test]
fn what_ended_leaves_nothing_behind() {
    for concurrency in [Concurrency::Connection, Concurrency::Lane] {
        for bidirectional in [false, true] {
            let before = (descriptors(), threads());
            let config = Config { concurrency, bidirectional, ..Config::default() };
            {
                let (server, client, echo, _) = pair_with(config.clone(), Config::default());
                echo.ping().unwrap();
                let url = echo.object().to_string();
                with_callbacks(&config, &url);
                settles("threads", threads, threads());
                let serving = (descriptors(), threads());
                for _ in 0..20 {
                    with_callbacks(&config, &url);
                }
                if bidirectional {
                    // Connections with call-backs are gone with their clients.
                    settles("descriptors", descriptors, serving.0 + 3);
                }
                settles("threads", threads, serving.1 + 1);
                client.shutdown(true).unwrap();
                server.shutdown(true).unwrap();
            }
            settles("threads", threads, before.1);
            settles("descriptors", descriptors, before.0);
        }
    }
    #[cfg(feature = "miop")]
    for leave in [false, true] {
        let before = (descriptors(), threads());
        (0..10).for_each(|_| with_a_group(leave));
        settles("threads", threads, before.1);
        settles("descriptors", descriptors, before.0);
    }
}
