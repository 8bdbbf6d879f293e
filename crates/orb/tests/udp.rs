//! Calls over UDP: received requests are served, lost ones time out, and noise is ignored.

mod common;

use common::rt::{Witness, far, server_with};
use common::*;
use isorb::generated::*;
use isorb::{Config, Orb, Reference, TransportConfig};
use isorb_giop::profile::TAG_TAO_DIOP;
use isorb_giop::{Completion, IiopProfile, Ior, Kind, TaggedProfile};
use isorb_testkit::{retry, wait_until};
use std::net::UdpSocket;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn serving(endpoint: &str) -> Config {
    Config { endpoints: vec![endpoint.into()], ..Config::default() }
}

fn within(ms: u64) -> Config {
    Config { round_trip_timeout_ms: ms, ..Config::default() }
}

/// Host and port in the profile for UDP.
fn address(far: &EchoRef) -> (String, u16) {
    let ior = far.object().ior();
    let profile = IiopProfile::parse(&ior.profiles[0].data).unwrap();
    assert_eq!((ior.profiles.len(), ior.profiles[0].tag), (1, TAG_TAO_DIOP));
    (profile.host, profile.port)
}

#[test]
fn small_calls_and_oneways_go_in_datagrams() {
    for endpoint in ["udp:127.0.0.1:0", "diop://127.0.0.1:0;lane=2", "giop:diop:127.0.0.1:0;connection"] {
        let (server, client, far, _) = pair_with(serving(endpoint), within(60_000));
        assert_eq!(server.endpoint_names()[0].0, "udp");
        assert_eq!(server.endpoint_names()[0].1, format!("127.0.0.1:{}", address(&far).1));
        far.ping().unwrap();
        assert_eq!(far.text("grüße").unwrap(), "grüße");
        for n in [0usize, 1, 5000, 60_000] {
            let octets: Vec<u8> = (0..n).map(|i| ((i * 7) >> 3) as u8).collect();
            client
                .scope(|scope| -> isorb::Result<()> {
                    assert!(far.octets_in(scope, &octets)? == octets);
                    Ok(())
                })
                .unwrap();
            far.feed(&octets).unwrap();
        }
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..20).for_each(|_| assert_eq!(far.text("x").unwrap(), "x")));
            }
        });
        assert_eq!(far.fail(3).unwrap_err().kind, Kind::NoPermission);
        let near = server.string_to_object(&far.object().to_string()).unwrap();
        assert!(!near.non_existent().unwrap());
        client.shutdown(true).unwrap();
        server.shutdown(true).unwrap();
    }
}

#[test]
fn a_corbaloc_url_names_an_object_behind_udp() {
    for host in ["127.0.0.1", "[::1]"] {
        if UdpSocket::bind((host.trim_matches(['[', ']']), 0)).is_err() {
            println!("SKIPPED: no {host} on this machine");
            continue;
        }
        let (server, client, far, _) = pair_with(serving(&format!("udp:{host}:0")), within(60_000));
        let near = server.string_to_object(&far.object().to_string()).unwrap();
        server.register_corbaloc_key("Echo", &near);
        let (_, port) = address(&far);
        for version in ["", "1.2@", "1.0@"] {
            let url = format!("corbaloc:diop:{version}{host}:{port}/Echo");
            let named: EchoRef = client.string_to_object(&url).unwrap().unchecked_narrow();
            assert_eq!(named.text("by URL").unwrap(), "by URL");
            // An unreachable address before it.
            let url = format!("corbaloc:diop:nowhere.invalid:1,diop:{version}{host}:{port}/Echo");
            let named: EchoRef = client.string_to_object(&url).unwrap().unchecked_narrow();
            named.ping().unwrap();
        }
        client.shutdown(true).unwrap();
        server.shutdown(true).unwrap();
    }
}

#[test]
fn an_endpoint_of_all_networks_names_what_it_is_told_to() {
    let all = |endpoint: &str| Orb::with_config(serving(endpoint)).unwrap().root_poa().map(|_| ());
    assert_eq!(all("udp:0.0.0.0:0").unwrap_err().kind, Kind::BadParam);
    for (endpoint, named) in [
        ("udp:0.0.0.0:0;publish=lab.example", ("lab.example", None)),
        ("udp:0.0.0.0:0;publish=lab.example:99", ("lab.example", Some(99))),
        ("udp:0.0.0.0:0;publish=127.0.0.1", ("127.0.0.1", None)),
        ("udp:[::]:0;publish=::1", ("::1", None)),
    ] {
        let server = Orb::with_config(serving(endpoint)).unwrap();
        let root = match server.root_poa() {
            Ok(root) => root,
            Err(error) => {
                println!("SKIPPED {endpoint}: {error:?}");
                continue;
            }
        };
        root.manager().activate().unwrap();
        let near: EchoRef = root.activate(Arc::new(Parrot::default())).unwrap();
        let (host, port) = address(&near);
        assert_eq!(host, named.0);
        assert!(named.1.is_none_or(|named| named == port) && port != 0);
        if named.0 != "lab.example" {
            let client = Orb::with_config(within(60_000)).unwrap();
            let far: EchoRef = client.resolve(&near.object().to_string()).unwrap();
            assert_eq!(far.text("from there").unwrap(), "from there");
            client.shutdown(true).unwrap();
        }
        server.shutdown(true).unwrap();
    }
}

#[test]
fn what_no_datagram_holds_is_refused_before_it_is_sent() {
    for form in [";connection", ";lane=1"] {
        let (server, client, far, _) = pair_with(serving(&format!("udp:127.0.0.1:0{form}")), within(60_000));
        let refused = far.feed(&vec![1; 65_600]).unwrap_err();
        assert_eq!((refused.kind, refused.completed), (Kind::ImpLimit, Completion::No));
        far.ping().unwrap();
        client.shutdown(true).unwrap();
        server.shutdown(true).unwrap();
    }
}

/// Replies with more octets than it received.
struct Talkative(String);

impl Echo for Talkative {
    fn text<'u>(&'u self, _: Upcall<'u>, _: &'u str) -> isorb::Result<&'u str> {
        Ok(&self.0)
    }
}

#[test]
fn a_reply_that_no_datagram_holds_is_told_instead() {
    for form in [";connection", ";lane=1"] {
        let server = Orb::with_config(serving(&format!("udp:127.0.0.1:0{form}"))).unwrap();
        let root = server.root_poa().unwrap();
        root.manager().activate().unwrap();
        let near: EchoRef = root.activate(Arc::new(Talkative("x".repeat(66_000)))).unwrap();
        let client = Orb::with_config(within(60_000)).unwrap();
        let far: EchoRef = client.resolve(&near.object().to_string()).unwrap();
        for _ in 0..3 {
            let refused = far.text("say").unwrap_err();
            assert_eq!((refused.kind, refused.completed), (Kind::ImpLimit, Completion::Yes));
            far.ping().unwrap();
        }
        client.shutdown(true).unwrap();
        server.shutdown(true).unwrap();
    }
}

#[test]
fn a_forged_address_gets_three_times_what_the_forger_sent() {
    for form in [";connection", ";lane=1"] {
        let server = Orb::with_config(serving(&format!("udp:127.0.0.1:0{form}"))).unwrap();
        let root = server.root_poa().unwrap();
        root.manager().activate().unwrap();
        let near: EchoRef = root.activate(Arc::new(Talkative("x".repeat(60_000)))).unwrap();
        // What a client sends, from another address.
        let caught = UdpSocket::bind("127.0.0.1:0").unwrap();
        let client = Orb::with_config(within(200)).unwrap();
        let (ior, port) = (near.object().ior(), caught.local_addr().unwrap().port());
        let profile = IiopProfile { port, ..IiopProfile::parse(&ior.profiles[0].data).unwrap() };
        let profile = TaggedProfile { tag: TAG_TAO_DIOP, ..profile.to_tagged().unwrap() };
        let lost = Ior { type_id: ior.type_id.clone(), profiles: vec![profile] }.to_string();
        let lost: EchoRef = client.resolve(&lost).unwrap();
        assert_eq!(lost.text("say").unwrap_err().kind, Kind::Timeout);
        let mut request = [0; 4096];
        let length = caught.recv_from(&mut request).unwrap().0;
        let forged = UdpSocket::bind("127.0.0.1:0").unwrap();
        forged.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        forged.send_to(&request[..length], address(&near)).unwrap();
        let (mut answers, mut room) = (0, vec![0; 65_536]);
        while let Ok((n, _)) = forged.recv_from(&mut room) {
            answers += n;
        }
        assert!(answers > 0 && answers <= 3 * length, "{answers} octets for {length}{form}");
        // A client that is there gets the reply of its first call.
        let client = Orb::with_config(within(60_000)).unwrap();
        let far: EchoRef = client.resolve(&near.object().to_string()).unwrap();
        for _ in 0..3 {
            assert_eq!(far.text("say").unwrap().len(), 60_000);
        }
        assert_eq!(server.datagram_counts().dropped(), 0);
        client.shutdown(true).unwrap();
        server.shutdown(true).unwrap();
    }
}

#[test]
fn a_call_without_a_time_out_is_refused() {
    let (server, client, far, _) = pair_with(serving("udp:127.0.0.1:0"), within(60_000));
    let endless = Orb::with_config(within(0)).unwrap();
    let object: EchoRef = endless.resolve(&far.object().to_string()).unwrap();
    let refused = object.ping().unwrap_err();
    assert_eq!((refused.kind, refused.completed), (Kind::InvPolicy, Completion::No));
    assert!(refused.detail.unwrap().contains("round_trip_timeout_ms"));
    for orb in [endless, client, server] {
        orb.shutdown(true).unwrap();
    }
}

#[test]
fn a_silent_peer_is_a_time_out() {
    let (server, client, far, _) = pair_with(serving("udp:127.0.0.1:0"), within(200));
    // A server that receives and never replies.
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let (ior, port) = (far.object().ior(), silent.local_addr().unwrap().port());
    let profile = IiopProfile { port, ..IiopProfile::parse(&ior.profiles[0].data).unwrap() };
    let profile = TaggedProfile { tag: TAG_TAO_DIOP, ..profile.to_tagged().unwrap() };
    let lost = Ior { type_id: ior.type_id.clone(), profiles: vec![profile] }.to_string();
    let lost: EchoRef = client.resolve(&lost).unwrap();
    let begun = Instant::now();
    assert_eq!(lost.ping().unwrap_err().kind, Kind::Timeout);
    assert!(begun.elapsed() >= Duration::from_millis(190));
    // Noise from the right address is not taken for the reply.
    let (_, from) = silent.recv_from(&mut [0; 4096]).unwrap();
    silent.send_to(b"GIOP is not what this is", from).unwrap();
    assert_eq!(lost.ping().unwrap_err().kind, Kind::Timeout);
    assert_eq!(client.datagram_counts().ignored(), 1);
    client.shutdown(true).unwrap();
    server.shutdown(true).unwrap();
}

#[test]
fn noise_does_not_reach_a_servant_and_disturbs_no_client() {
    for form in [";connection", ";lane=1"] {
        let (server, client, far, _) = pair_with(serving(&format!("udp:127.0.0.1:0{form}")), within(60_000));
        far.ping().unwrap();
        let (noise, at) = (UdpSocket::bind("127.0.0.1:0").unwrap(), address(&far));
        let length_lies = b"GIOP\x01\x02\x01\x00\xff\xff\xff\x7fshort";
        let in_parts = b"GIOP\x01\x02\x03\x00\x04\0\0\0abcd";
        for octets in [&b""[..], b"x", &[0; 3000], length_lies, in_parts] {
            noise.send_to(octets, &at).unwrap();
        }
        // A malformed message costs its sender the connection, and affects no other sender.
        noise.send_to(b"GIOP\x01\x02\x01\x00\x04\0\0\0\xff\xff\xff\xff", &at).unwrap();
        far.ping().unwrap();
        assert_eq!(server.datagram_counts().ignored(), 5);
        client.shutdown(true).unwrap();
        server.shutdown(true).unwrap();
    }
}

#[test]
fn a_caller_keeps_its_place_while_it_is_served() {
    let mut config = serving("udp:127.0.0.1:0;lane=4");
    config.transport.udp_peers = 2;
    let server = server_with(config);
    let witness = Arc::new(Witness::default());
    let near: EchoRef = server.root_poa().unwrap().activate(witness.clone()).unwrap();
    let clients = [(); 2].map(|()| Orb::with_config(within(60_000)).unwrap());
    let callers = clients.each_ref().map(|client| far(client, &near));
    std::thread::scope(|scope| {
        let calls = callers.each_ref().map(|far| scope.spawn(|| far.sleep(7)));
        witness.await_inside(2);
        // Longer than the state of a silent sender is kept; then more senders than the limit, with
        // complete messages.
        std::thread::sleep(Duration::from_millis(1_100));
        let flood: Vec<_> = (0..8).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
        for stranger in &flood {
            stranger.send_to(b"GIOP\x01\x02\x01\x02\0\0\0\0", address(&near)).unwrap();
        }
        wait_until("the flood arrives", || server.datagram_counts().dropped() >= 8);
        witness.open(2);
        for call in calls {
            assert_eq!(call.join().unwrap(), Ok(7));
        }
    });
    clients.iter().for_each(|client| client.shutdown(true).unwrap());
    server.shutdown(true).unwrap();
}

#[test]
fn a_server_that_came_back_is_called_again() {
    let (server, client, far, _) = pair_with(serving("udp:127.0.0.1:0"), within(2_000));
    far.ping().unwrap();
    let (host, port) = address(&far);
    server.shutdown(true).unwrap();
    drop(server);
    assert!(far.ping().is_err());
    // The port is free once the last thread of the server has released it.
    let again = retry("the server starts again", || {
        let again = Orb::with_config(serving(&format!("udp:{host}:{port}"))).unwrap();
        again.root_poa()?.manager().activate().unwrap();
        Ok::<_, SystemException>(again)
    });
    // The object is another one, but the server answers: nothing is stuck.
    assert_eq!(far.ping().unwrap_err().kind, Kind::ObjectNotExist);
    client.shutdown(true).unwrap();
    again.shutdown(true).unwrap();
}

#[test]
fn tcp_goes_before_udp_unless_the_order_says_otherwise() {
    let endpoints = vec!["127.0.0.1:0".into(), "udp:127.0.0.1:0".into()];
    let config = Config { endpoints, ..Config::default() };
    let (server, client, far, _) = pair_with(config, within(60_000));
    far.ping().unwrap();
    assert!(!server.served_connections().iter().any(|connection| connection.peer.starts_with("udp")));
    let transport = TransportConfig { protocols: vec!["udp".into()], ..TransportConfig::default() };
    let other = Orb::with_config(Config { transport, ..within(60_000) }).unwrap();
    other.resolve::<EchoRef>(&far.object().to_string()).unwrap().ping().unwrap();
    assert!(server.served_connections().iter().any(|connection| connection.peer.starts_with("udp")));
    for orb in [other, client, server] {
        orb.shutdown(true).unwrap();
    }
}
