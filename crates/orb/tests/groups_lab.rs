//! Groups across a network: two hosts as namespaces, one link, groups of IPv4 and IPv6.
//!
//! Skipped with a message without the right to make namespaces.
#![cfg(feature = "miop")]

mod common;

use common::*;
use isorb::generated::*;
use isorb::{Config, Orb, TransportConfig};
use isorb_netlab::{Host, Lab, LinkSpec, Sorting};
use isorb_testkit::wait_until;
use std::sync::{Arc, Mutex};

/// Records the lengths of each `feed`.
#[derive(Default)]
struct Keeper(Mutex<Vec<usize>>);

impl Echo for Keeper {
    fn feed(&self, _: Upcall<'_>, o: &[u8]) -> isorb::Result<()> {
        assert!(
            o.iter().enumerate().all(|(i, octet)| *octet == (i / 7) as u8),
            "what was fed came as another thing"
        );
        self.0.lock().unwrap().push(o.len());
        Ok(())
    }
}

impl Keeper {
    fn fed(&self) -> Vec<usize> {
        self.0.lock().unwrap().clone()
    }
}

/// An ORB of a host that uses groups on the host's interface.
fn orb(host: &Host, change: impl FnOnce(&mut TransportConfig) + Send) -> Orb {
    let (address, interface) = (host.address(), host.interface());
    let start = || {
        let mut transport =
            TransportConfig { multicast_interface: interface.into(), ..TransportConfig::default() };
        change(&mut transport);
        let endpoints = vec![format!("{address}:0")];
        let orb = Orb::with_config(Config { transport, endpoints, ..Config::default() }).unwrap();
        orb.root_poa().unwrap().manager().activate().unwrap();
        orb
    };
    host.run(start).unwrap()
}

fn member(host: &Host, orb: &Orb, url: &str) -> Arc<Keeper> {
    let join = || {
        let root = orb.root_poa().unwrap();
        let id = root.create_id_for_reference(&orb.string_to_object(url).unwrap()).unwrap();
        let keeper = Arc::new(Keeper::default());
        let servant = isorb::IntoServant::<EchoRef>::into_servant(keeper.clone());
        root.activate_object_with_id(&id, servant).unwrap();
        keeper
    };
    host.run(join).unwrap()
}

/// Sends until `done`: a new IPv6 address needs some time, and no layer repeats lost datagrams.
fn send_until(host: &Host, from: &Orb, url: &str, length: usize, done: impl Fn() -> bool) {
    let far: EchoRef = from.string_to_object(url).unwrap().unchecked_narrow();
    let octets: Vec<u8> = (0..length).map(|i| (i / 7) as u8).collect();
    wait_until(format_args!("{length} octets reach {url}"), || {
        // Calls are made from within the host, because they open sockets.
        let _ = host.run(|| far.feed(&octets)).unwrap();
        done()
    });
}

#[test]
fn one_message_reaches_members_on_both_hosts() {
    let spec = LinkSpec { rate_kbit: 100_000, sorting: Sorting::one_queue() };
    let Some(lab) = Lab::build_or_skip(&spec) else { return };
    let (left, right) = (lab.left(), lab.right());
    let (here, there) = (orb(left, |_| {}), orb(right, |_| {}));
    let quiet = orb(left, |transport| transport.multicast_loopback = false);
    let near_only = orb(left, |transport| transport.multicast_hops = 0);
    for address in ["239.192.0.7", "[ff15::7]", "[ff12::7]"] {
        let url = format!("corbaloc:miop:1.0@1.0-lab-7/{address}:5007");
        let (near, far) = (member(left, &here, &url), member(right, &there, &url));
        let has = |keeper: &Keeper, length| keeper.fed().contains(&length);
        for length in [1, 1_000, 60_000] {
            send_until(left, &here, &url, length, || has(&near, length) && has(&far, length));
        }
        // Neither back to the own host nor out of it.
        send_until(left, &quiet, &url, 2, || has(&far, 2));
        send_until(left, &near_only, &url, 3, || has(&near, 3));
        send_until(left, &here, &url, 4, || has(&near, 4) && has(&far, 4));
        assert!(!has(&near, 2), "{address}: what must not come back came back");
        assert!(!has(&far, 3), "{address}: what must not leave its host left it");
        // The other direction.
        send_until(right, &there, &url, 5, || has(&near, 5) && has(&far, 5));
    }
    for orb in [near_only, quiet, there, here] {
        orb.shutdown(true).unwrap();
    }
}
