//! Calls over TLS: references name the port, both sides authenticate each other, and nothing else
//! changes.

mod common;

use common::{authority, orb, orb_with, serve};
use isorb::rt::{ThreadpoolLane, ThreadpoolOptions};
use isorb::{Config, Kind, Orb};
use isorb_tests::steady::PathRef;
use isorb_tls::TlsConfig;
use std::io::ErrorKind;
use std::net::TcpStream;
use std::time::Duration;

#[test]
fn calls_cross_in_both_forms_of_concurrency() {
    let ours = authority("ours");
    for form in [";connection", ";lane"] {
        let server = orb(&ours, "server", &[&format!("giop:ssl:127.0.0.1:0{form}")]);
        let reference = serve(&server);
        let client = orb(&ours, "client", &[]);
        let far: PathRef = client.resolve(&reference).unwrap();
        far.ping().unwrap();
        let large: Vec<u8> = (0..3 << 20).map(|i| (i % 251) as u8).collect();
        assert_eq!(far.echo_octets(&large).unwrap(), large);
        std::thread::scope(|threads| {
            for _ in 0..4 {
                threads.spawn(|| (0..200).for_each(|_| far.ping().unwrap()));
            }
        });
        // A client without a certificate of this plant, or without TLS, is rejected.
        let stranger = orb(&authority("theirs"), "client", &[]);
        let refused = stranger.resolve::<PathRef>(&reference).and_then(|path| path.ping());
        assert!(refused.is_err());
        let plain = Orb::with_config(Config::default()).unwrap();
        let refused = plain.resolve::<PathRef>(&reference).and_then(|path| path.ping()).unwrap_err();
        assert!(matches!(refused.kind, Kind::Transient | Kind::InvObjref | Kind::CommFailure), "{refused}");
        far.ping().unwrap();
        server.shutdown(true).unwrap();
    }
}

#[test]
fn a_lane_opens_no_port_without_tls_beside_one_with_it() {
    let ours = authority("lanes");
    let create = |endpoints: &[&str], lane: ThreadpoolLane| {
        let server = orb(&ours, "server", endpoints);
        server.rt().create_threadpool_with_lanes(&[lane], &ThreadpoolOptions::default())
    };
    let lane = || ThreadpoolLane::new(7, 1);
    let (secure, plain) = ("giop:ssl:127.0.0.1:0", "127.0.0.1:0");
    let refused = create(&[secure], lane()).unwrap_err();
    assert!(refused.kind == Kind::BadParam && refused.to_string().contains("without TLS"), "{refused}");
    // Where one was asked for.
    create(&[secure], lane().endpoint(plain)).unwrap();
    create(&[secure, plain], lane()).unwrap();
}

#[test]
fn an_endpoint_is_called_by_the_name_that_it_publishes() {
    let ours = authority("published");
    for (endpoint, named) in [
        ("giop:ssl:0.0.0.0:0;publish=127.0.0.1", "127.0.0.1"),
        ("giop:ssl:127.0.0.1:0;publish=localhost", "localhost"),
        ("giop:ssl:[::1]:0", "::1"),
        ("giop:ssl:[::]:0;publish=::1", "::1"),
    ] {
        if endpoint.contains("::]") && std::net::TcpListener::bind("[::1]:0").is_err() {
            println!("skipped: no IPv6 on this machine");
            continue;
        }
        let server = orb(&ours, "server", &[endpoint]);
        let reference = serve(&server);
        let client = orb(&ours, "client", &[]);
        let far: PathRef = client.resolve(&reference).unwrap();
        let profile = isorb::Reference::object(&far).ior().iiop_profiles().next().unwrap().unwrap();
        assert_eq!(profile.host, named, "{endpoint}");
        far.ping().unwrap();
        client.shutdown(true).unwrap();
        server.shutdown(true).unwrap();
    }
}

#[test]
fn handshakes_count_among_the_connections_of_a_server() {
    let ours = authority("crowd");
    for (max_connections, stay) in [(4, 1), (100, 30)] {
        let config =
            TlsConfig { handshake_timeout: Duration::from_secs(3600), ..ours.member("server").unwrap() };
        let endpoints = vec!["giop:ssl:127.0.0.1:0".into()];
        let server = orb_with(config, Config { endpoints, max_connections, ..Config::default() });
        let reference = serve(&server);
        let (_, address) = server.endpoint_names().remove(0);
        let client = || {
            let client = orb(&ours, "client", &[]);
            let far: PathRef = client.resolve(&reference).unwrap();
            far.ping().unwrap();
            far
        };
        let there: Vec<PathRef> = (0..2).map(|_| client()).collect();
        let crowd: Vec<_> = (0..30).map(|_| TcpStream::connect(&address).unwrap()).collect();
        crowd.iter().for_each(|stream| stream.set_nonblocking(true).unwrap());
        // Behind all of them: now there are three connections, and room for one handshake, which
        // may be the last of the crowd's.
        let last = client();
        let alive = |stream: &&TcpStream| {
            stream.peek(&mut [0]).is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
        };
        let alive = crowd.iter().filter(alive).count();
        assert!(if stay == 1 { alive <= 1 } else { alive == stay }, "{alive} of {max_connections}");
        there.iter().chain([&last]).for_each(|far| far.ping().unwrap());
        server.shutdown(true).unwrap();
    }
}
