//! Calls over transports other than TCP, and the choice between them.

mod common;

use common::*;
use isorb::transport::{Capabilities, Listener, Stream, Tcp, Transport};
use isorb::{Config, Object, Orb, Reference, TransportConfig};
use isorb_giop::profile::{TAG_INTERNET_IOP, TAG_TAO_UIOP};
use isorb_giop::{AddressProfile, IiopProfile, Ior, Kind, Version};
use std::sync::Arc;
use std::time::Duration;

const FORMS: [&str; 2] = [";connection", ";lane=2"];

fn serving(endpoints: &[String]) -> Config {
    Config { endpoints: endpoints.to_vec(), ..Config::default() }
}

fn preferring(protocols: &[&str]) -> Config {
    let protocols = protocols.iter().map(|name| name.to_string()).collect();
    let transport = TransportConfig { protocols, ..TransportConfig::default() };
    Config { transport, round_trip_timeout_ms: 60_000, ..Config::default() }
}

/// Every kind of call, in both directions, small and large.
fn exercise(far: &EchoRef) {
    far.ping().unwrap();
    assert_eq!(far.text("grüße").unwrap(), "grüße");
    let orb = far.object().orb().clone();
    for n in [0, 1, 5000, 60_000, 70_000, 3_000_000] {
        let octets: Vec<u8> = (0..n).map(|i| ((i * 7) >> 3) as u8).collect();
        orb.scope(|scope| -> isorb::Result<()> {
            assert!(far.octets_in(scope, &octets)? == octets);
            Ok(())
        })
        .unwrap();
        far.feed(&octets).unwrap();
    }
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for i in 0..50 {
                    let text = format!("call {i}");
                    assert_eq!(far.text(&text).unwrap(), text);
                }
            });
        }
    });
    assert_eq!(far.fail(3).unwrap_err().kind, Kind::NoPermission);
}

fn calls_work(protocol: &str) {
    for form in FORMS {
        let (server, client, far, _) =
            pair_with(serving(&[format!("{protocol}:{form}")]), preferring(&[protocol]));
        assert_eq!(server.endpoint_names()[0].0, protocol);
        assert!(server.endpoint_addresses().is_empty());
        assert_eq!(far.object().ior().iiop_profiles().count(), 0, "it listens by {protocol} only");
        exercise(&far);
        // Its own references are recognised as its own.
        let near = server.string_to_object(&far.object().to_string()).unwrap();
        assert!(!near.non_existent().unwrap());
        // The socket's file is removed with the server.
        let (_, path) = server.endpoint_names().remove(0);
        assert!(std::path::Path::new(&path).exists());
        server.shutdown(true).unwrap();
        assert!(!std::path::Path::new(&path).exists());
        assert!(far.ping().is_err());
        client.shutdown(true).unwrap();
    }
}

#[test]
fn calls_over_unix_sockets() {
    calls_work("unix");
}

#[test]
fn calls_over_segments() {
    calls_work("segment");
}

/// A reference to the servant of `far` with changed profiles.
fn altered(orb: &Orb, far: &EchoRef, alter: impl Fn(&mut Ior)) -> EchoRef {
    let mut ior = far.object().ior().clone();
    alter(&mut ior);
    Object::from_ior(orb, ior).unwrap().unchecked_narrow()
}

#[test]
fn all_endpoints_are_in_one_reference_and_the_nearest_is_taken() {
    let endpoints = ["unix:", "127.0.0.1:0", "127.0.0.1:0;publish=localhost"].map(String::from);
    let (server, client, far, _) = pair_with(serving(&endpoints), preferring(&["unix", "tcp"]));
    let tags: Vec<u32> = far.object().ior().profiles.iter().map(|profile| profile.tag).collect();
    assert_eq!(tags, [TAG_INTERNET_IOP, TAG_TAO_UIOP]);
    let iiop = far.object().ior().iiop_profiles().next().unwrap().unwrap();
    let hosts: Vec<String> = iiop.addresses().map(|(host, _)| host).collect();
    assert_eq!(hosts, ["127.0.0.1", "localhost"]);
    exercise(&far);

    // If TCP leads to a server that never answers, the call uses the unix socket all the same.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let decoy = |ior: &mut Ior| {
        let mut profile = IiopProfile::parse(&ior.profiles[0].data).unwrap();
        (profile.port, profile.components) = (port, vec![]);
        ior.profiles[0] = profile.to_tagged().unwrap();
    };
    altered(&client, &far, decoy).ping().unwrap();
    // Unless the configured order is different.
    let config = Config { round_trip_timeout_ms: 200, ..preferring(&["tcp", "unix"]) };
    let other = Orb::with_config(config).unwrap();
    assert_eq!(altered(&other, &far, decoy).ping().unwrap_err().kind, Kind::Timeout);

    // If the socket is gone, by TCP.
    let gone = |ior: &mut Ior| {
        let mut profile = AddressProfile::parse(&ior.profiles[1]).unwrap();
        profile.address.push('x');
        ior.profiles[1] = profile.to_tagged().unwrap();
    };
    altered(&client, &far, gone).ping().unwrap();
    // A socket of another host is not tried: no address is left.
    let elsewhere = |ior: &mut Ior| {
        let mut profile = AddressProfile::parse(&ior.profiles[1]).unwrap();
        profile.components.retain(|component| component.tag != isorb_giop::component::TAG_LOCALITY);
        let locality =
            isorb_giop::component::Component::Locality { host: "other".into(), identity: "1".into() };
        profile.components.push(locality.to_tagged().unwrap());
        ior.profiles = vec![profile.to_tagged().unwrap()];
    };
    assert_eq!(altered(&client, &far, elsewhere).ping().unwrap_err().kind, Kind::InvObjref);
    server.shutdown(true).unwrap();
}

#[test]
fn a_corbaloc_url_names_a_unix_socket() {
    let (server, client, _far, _) = pair_with(serving(&["unix:".into()]), Config::default());
    let near: EchoRef = server.root_poa().unwrap().activate(Arc::new(Parrot::default())).unwrap();
    server.register_corbaloc_key("Echo", near.object());
    let (_, path) = server.endpoint_names().remove(0);
    let far: EchoRef =
        client.string_to_object(&format!("corbaloc:uiop:1.2@{path}|Echo")).unwrap().unchecked_narrow();
    far.ping().unwrap();
    server.shutdown(true).unwrap();
}

#[test]
fn multi_homed_endpoints_name_what_they_are_told_to() {
    let endpoints = ["0.0.0.0:0;publish=lab.example", "127.0.0.1:0;publish=nat.example:99"].map(String::from);
    let server = Orb::with_config(serving(&endpoints)).unwrap();
    server.root_poa().unwrap();
    let named = server.endpoint_addresses();
    assert_eq!(named[0].0, "lab.example");
    assert_ne!(named[0].1, 0);
    assert_eq!(named[1], ("nat.example".to_string(), 99));
    server.shutdown(true).unwrap();
    let silent = Orb::with_config(serving(&["0.0.0.0:0".into()])).unwrap();
    assert_eq!(silent.root_poa().unwrap_err().kind, Kind::BadParam);
}

#[test]
fn calls_over_ipv6() {
    if Tcp.listen("[::1]:0").is_err() {
        return println!("skipped: no IPv6 on this machine");
    }
    for form in FORMS {
        let (server, _client, far, _) = pair_with(serving(&[format!("[::1]:0{form}")]), preferring(&["tcp"]));
        assert_eq!(server.endpoint_addresses()[0].0, "::1");
        exercise(&far);
        server.shutdown(true).unwrap();
    }
}

#[test]
fn an_endpoint_of_all_networks_of_a_family_is_called_by_the_name_that_it_publishes() {
    for endpoint in ["[::]:0;publish=::1", "0.0.0.0:0;publish=127.0.0.1"] {
        let server = Orb::with_config(serving(&[endpoint.into()])).unwrap();
        let root = match server.root_poa() {
            Ok(root) => root,
            Err(error) => {
                println!("SKIPPED {endpoint}: {error:?}");
                continue;
            }
        };
        root.manager().activate().unwrap();
        let near: EchoRef = root.activate(Arc::new(Parrot::default())).unwrap();
        let client = Orb::with_config(preferring(&["tcp"])).unwrap();
        exercise(&client.resolve(&near.object().to_string()).unwrap());
        client.shutdown(true).unwrap();
        server.shutdown(true).unwrap();
    }
}

/// TCP under another name and tag, as a transport from outside.
#[derive(Debug)]
struct Foreign(Capabilities);

impl Foreign {
    fn with(self, config: Config) -> isorb::Result<Orb> {
        Orb::builder().config(config).register(|info| Ok(info.add_transport(Arc::new(self))?)).build()
    }
}

impl Transport for Foreign {
    fn name(&self) -> &'static str {
        "foreign"
    }
    fn profile_tag(&self) -> u32 {
        0x1234_5678
    }
    fn capabilities(&self) -> Capabilities {
        self.0
    }
    fn connect(&self, address: &str, timeout: Option<Duration>) -> std::io::Result<Box<dyn Stream>> {
        Tcp.connect(address, timeout)
    }
    fn listen(&self, address: &str) -> std::io::Result<Box<dyn Listener>> {
        Tcp.listen(address)
    }
}

#[test]
fn a_transport_from_outside() {
    let with = |config| Foreign(Tcp.capabilities()).with(config);
    let server = with(serving(&["giop:foreign:127.0.0.1:0".into()])).unwrap();
    let client = with(Config::default()).unwrap();
    let root = server.root_poa().unwrap();
    root.manager().activate().unwrap();
    let near: EchoRef = root.activate(Arc::new(Parrot::default())).unwrap();
    let far: EchoRef = client.resolve(&near.object().to_string()).unwrap();
    exercise(&far);
    // A client without such a transport gets an error; so does one that adds it twice.
    let stranger = Orb::with_config(Config::default()).unwrap();
    let object = stranger.string_to_object(&near.object().to_string()).unwrap();
    assert_eq!(object.non_existent().unwrap_err().kind, Kind::InvObjref);
    let twice = Orb::builder()
        .config(Config::default())
        .register(|info| {
            info.add_transport(Arc::new(Foreign(Tcp.capabilities())))?;
            Ok(info.add_transport(Arc::new(Foreign(Tcp.capabilities())))?)
        })
        .build();
    assert!(twice.is_err());
    let unknown = Orb::with_config(serving(&["giop:foreign:127.0.0.1:0".into()])).unwrap();
    assert_eq!(unknown.root_poa().unwrap_err().kind, Kind::BadParam);
    server.shutdown(true).unwrap();
}

#[test]
fn a_lane_takes_no_endpoint_that_it_cannot_watch() {
    for pollable in [true, false] {
        let capabilities = Capabilities { pollable, ..Tcp.capabilities() };
        let endpoint = |form| vec![format!("giop:foreign:127.0.0.1:0{form}")];
        let server = Foreign(capabilities).with(serving(&endpoint(";lane=2"))).unwrap();
        match server.root_poa() {
            Ok(_) => assert!(pollable),
            Err(error) => {
                assert!(!pollable && error.kind == Kind::BadParam, "{error}");
                assert!(error.to_string().contains("not pollable; give each its thread"), "{error}");
            }
        }
        server.shutdown(true).unwrap();
        // A thread for each connection does not need it.
        let server = Foreign(capabilities).with(serving(&endpoint(";connection"))).unwrap();
        let root = server.root_poa().unwrap();
        root.manager().activate().unwrap();
        let near: EchoRef = root.activate(Arc::new(Parrot::default())).unwrap();
        let client = Foreign(capabilities).with(Config::default()).unwrap();
        exercise(&client.resolve(&near.object().to_string()).unwrap());
        client.shutdown(true).unwrap();
        server.shutdown(true).unwrap();
    }
}

/// Transports over which a reply may never come, and one over which it always does.
fn unsure_and_sure() -> [(Capabilities, bool); 3] {
    let sure = Tcp.capabilities();
    let unnoticed = Capabilities { notices_death: false, ..sure };
    let unreliable = Capabilities { reliable: false, ..sure };
    [(unnoticed, true), (unreliable, true), (sure, false)]
}

#[test]
fn where_a_reply_may_stay_away_a_call_needs_a_time_out() {
    for (capabilities, unsure) in unsure_and_sure() {
        let with = |config| Foreign(capabilities).with(config).unwrap();
        let server = with(serving(&["giop:foreign:127.0.0.1:0;connection".into()]));
        let root = server.root_poa().unwrap();
        root.manager().activate().unwrap();
        let near: EchoRef = root.activate(Arc::new(Parrot::default())).unwrap();
        for round_trip_timeout_ms in [0, 60_000] {
            let client = with(Config { round_trip_timeout_ms, ..Config::default() });
            let far: EchoRef = client.resolve(&near.object().to_string()).unwrap();
            if unsure && round_trip_timeout_ms == 0 {
                assert_eq!(far.ping().unwrap_err().kind, Kind::InvPolicy);
            } else {
                exercise(&far);
            }
            // No reply follows a oneway.
            far.feed(&[1]).unwrap();
            client.shutdown(true).unwrap();
        }
        server.shutdown(true).unwrap();
    }
}

#[test]
fn so_does_a_call_back_over_a_connection_that_came_in() {
    for (capabilities, unsure) in unsure_and_sure() {
        for (form, round_trip_timeout_ms) in FORMS.into_iter().flat_map(|form| [(form, 0), (form, 60_000)]) {
            let with = |config| Foreign(capabilities).with(config).unwrap();
            let endpoint = format!("giop:foreign:127.0.0.1:0{form}");
            let server = with(Config { round_trip_timeout_ms, bidirectional: true, ..serving(&[endpoint]) });
            let client = with(Config { bidirectional: true, ..preferring(&["foreign"]) });
            let activate = |orb: &Orb| -> EchoRef {
                let root = orb.root_poa().unwrap();
                root.manager().activate().unwrap();
                root.activate(Arc::new(Parrot::default())).unwrap()
            };
            let far: EchoRef = client.resolve(&activate(&server).object().to_string()).unwrap();
            let called = far.call_back(Some(&activate(&client)));
            if unsure && round_trip_timeout_ms == 0 {
                assert_eq!(called.unwrap_err().kind, Kind::InvPolicy);
            } else {
                assert_eq!(called.unwrap(), "from the servant");
            }
            client.shutdown(true).unwrap();
            server.shutdown(true).unwrap();
        }
    }
}

#[test]
fn a_version_of_long_ago_is_spoken_too() {
    let server = Config { giop: "1.0".into(), ..serving(&["unix:;connection".into()]) };
    let (server, _client, far, _) = pair_with(server, Config::default());
    let profile = AddressProfile::parse(&far.object().ior().profiles[0]).unwrap();
    assert_eq!((profile.version, profile.components.len()), (Version::V1_0, 0));
    // Without components the meaning of the path is unknown; it is tried, because there is no
    // other.
    far.ping().unwrap();
    server.shutdown(true).unwrap();
}
