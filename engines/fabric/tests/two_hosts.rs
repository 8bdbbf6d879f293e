//! The suite of all transports between two hosts: network namespaces with a link between them.

use isorb_fabric::Fabric;
use isorb_netlab::{Lab, LinkSpec, Sorting};
use isorb_transport::conformance::{self, Make, is_peer};
use isorb_transport::{Capabilities, Listener, Stream, Transport};
use std::fs::File;
use std::io;
use std::os::unix::process::parent_id;
use std::time::Duration;

/// Listens in one namespace and connects from another.
#[derive(Debug)]
struct Across {
    fabric: Fabric,
    left: String,
    right: String,
}

/// Calls `f` on a thread in a namespace: sockets that it makes belong there for ever.
fn inside<R: Send>(namespace: &str, f: impl FnOnce() -> io::Result<R> + Send) -> io::Result<R> {
    let file = File::open(format!("/run/netns/{namespace}"))?;
    std::thread::scope(|scope| {
        let entered = scope.spawn(|| {
            let kind = Some(rustix::thread::LinkNameSpaceType::Network);
            rustix::thread::move_into_link_name_space(std::os::fd::AsFd::as_fd(&file), kind)?;
            f()
        });
        entered.join().expect("no panic")
    })
}

impl Transport for Across {
    fn name(&self) -> &'static str {
        self.fabric.name()
    }
    fn profile_tag(&self) -> u32 {
        self.fabric.profile_tag()
    }
    fn capabilities(&self) -> Capabilities {
        self.fabric.capabilities()
    }
    fn connect(&self, address: &str, timeout: Option<Duration>) -> io::Result<Box<dyn Stream>> {
        inside(&self.right, || self.fabric.connect(address, timeout))
    }
    fn listen(&self, address: &str) -> io::Result<Box<dyn Listener>> {
        inside(&self.left, || self.fabric.listen(address))
    }
}

type Rule = (&'static str, fn(Make<'_>));
/// With another process, which is this program again; it needs the name of the module.
type DeathRule = (&'static str, fn(Make<'_>, &str));

#[test]
fn the_suite_between_two_hosts() {
    let spec = LinkSpec { rate_kbit: 1_000_000, sorting: Sorting::one_queue() };
    let Some(lab) = Lab::build_or_skip(&spec) else { return };
    let make = || -> conformance::Subject {
        let (left, right) = (lab.left().namespace().to_string(), lab.right().namespace().to_string());
        let fabric = Fabric::default();
        (Box::new(Across { fabric, left, right }), format!("{}:0", lab.left().address()))
    };
    let rules: [Rule; 20] = [
        ("bytes", conformance::bytes_cross_in_order),
        ("sizes", conformance::tiny_and_huge_messages),
        ("both directions", conformance::both_directions_at_once),
        ("nothing there", conformance::nothing_there_does_not_block),
        ("receive time-out", conformance::a_receive_times_out),
        ("back-pressure", conformance::back_pressure_and_relief),
        ("send time-out", conformance::a_send_times_out),
        ("poller", conformance::a_poller_reports_everything),
        ("poller, room", conformance::a_poller_reports_room),
        ("before the end", conformance::what_was_sent_before_the_end_arrives),
        ("drop", conformance::dropping_is_an_end),
        ("both directions end", conformance::an_end_is_of_both_directions),
        ("blocked receive", conformance::a_blocked_receive_ends),
        ("blocked send", conformance::a_blocked_send_ends),
        ("closing", conformance::closing_ends_accept),
        ("not listening", conformance::no_listener_is_there),
        ("not accepted", conformance::no_acceptor_takes_it),
        ("independent", conformance::connections_are_independent),
        ("load", conformance::shutdown_under_load),
        ("many", conformance::many_connections_one_after_the_other),
    ];
    for (name, rule) in rules {
        println!("{name}");
        rule(&make);
    }
    let deaths: [DeathRule; 4] = [
        ("killed, octets", conformance::a_killed_peer_leaves_exactly_what_it_sent),
        ("killed, receive", conformance::a_killed_peer_ends_a_blocked_receive),
        ("killed, send", conformance::a_killed_peer_ends_a_blocked_send),
        ("killed, slow", conformance::a_killed_peer_is_no_slow_one),
    ];
    for (name, rule) in deaths {
        println!("{name}");
        rule(&make, "two_hosts::peer");
    }
}

/// What the peer of a test does, which is this program again.
mod peer {
    use super::*;

    #[test]
    fn the_peer() {
        if is_peer() {
            // The test's namespaces are those of its process.
            let prefix = format!("isorb-lab-{}-", parent_id());
            let names: Vec<String> = std::fs::read_dir("/run/netns")
                .expect("the test has namespaces")
                .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
                .filter(|name| name.starts_with(&prefix))
                .collect();
            let of = |side: &str| names.iter().find(|name| name.ends_with(side)).expect("both hosts").clone();
            let (left, right) = (of("-left"), of("-right"));
            let make = || -> conformance::Subject {
                let across = Across { fabric: Fabric::default(), left: left.clone(), right: right.clone() };
                (Box::new(across), String::new())
            };
            conformance::the_peer(&make, module_path!());
        }
    }
}
