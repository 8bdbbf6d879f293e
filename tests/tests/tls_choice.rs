//! When a client calls over TLS and when without: an untrusted server is an error, and no reason to
//! call without protection.

mod common;

use common::{authority, orb, orb_with, serve, try_orb_with};
use isorb::{Config, Kind, Object, Orb, TransportConfig};
use isorb_giop::component::{Component, TAG_SSL_SEC_TRANS};
use isorb_giop::profile::TAG_INTERNET_IOP;
use isorb_giop::{IiopProfile, Ior};
use isorb_testkit::{wait_for, wait_until};
use isorb_tests::steady::PathRef;
use isorb_tls::TlsConfig;
use isorb_tls::testing::Authority;
use socket2::{Domain, Socket, Type};
use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream};

const BOTH: [&str; 2] = ["127.0.0.1:0", "giop:ssl:127.0.0.1:0"];

fn preferring(protocols: &[&str]) -> Config {
    let protocols = protocols.iter().map(|name| name.to_string()).collect();
    Config {
        transport: TransportConfig { protocols, ..TransportConfig::default() },
        round_trip_timeout_ms: 60_000,
        ..Config::default()
    }
}

/// A client with a certificate of `authority` and this order of protocols, or the default one.
fn client(authority: &Authority, protocols: &[&str]) -> Orb {
    let config = if protocols.is_empty() { Config::default() } else { preferring(protocols) };
    orb_with(authority.member("client").unwrap(), config)
}

/// The transport of a connection.
fn kind_of(peer: &str) -> &'static str {
    ["segment", "unix", "ssl"].into_iter().find(|name| peer.starts_with(name)).unwrap_or("tcp")
}

/// The transport of the only connection of `server`.
fn served(server: &Orb) -> &'static str {
    wait_for("a single connection", || match &server.served_connections()[..] {
        [one] => Some(kind_of(&one.peer)),
        _ => None,
    })
}

/// The result of a call of `client`: its transport, or its exception.
fn call(server: &Orb, client: &Orb, reference: &str) -> Result<&'static str, Kind> {
    let far: PathRef = client.string_to_object(reference).unwrap().unchecked_narrow();
    let called = far.ping().map(|()| served(server)).map_err(|exception| exception.kind);
    client.shutdown(true).unwrap();
    wait_until("the connection ends", || server.served_connections().is_empty());
    called
}

/// The reference with its IIOP profile changed.
fn changed(reference: &str, change: impl Fn(&mut IiopProfile)) -> String {
    let orb = Orb::with_config(Config::default()).unwrap();
    let mut ior: Ior = orb.string_to_object(reference).unwrap().ior().clone();
    for found in ior.profiles.iter_mut().filter(|profile| profile.tag == TAG_INTERNET_IOP) {
        let mut profile = IiopProfile::parse(&found.data).unwrap();
        change(&mut profile);
        *found = profile.to_tagged().unwrap();
    }
    Object::from_ior(&orb, ior).unwrap().to_string()
}

/// The reference with another port for TLS.
fn with_port(reference: &str, to: u16) -> String {
    changed(reference, |profile| {
        let old = profile.components.iter().position(|component| component.tag == TAG_SSL_SEC_TRANS).unwrap();
        let Ok(Component::Ssl { supports, requires, .. }) = Component::parse(&profile.components[old]) else {
            panic!("no port of TLS");
        };
        profile.components[old] = Component::Ssl { supports, requires, port: to }.to_tagged().unwrap();
    })
}

#[test]
fn a_server_may_offer_both() {
    let ours = authority("both");
    let server = orb(&ours, "server", &BOTH);
    let reference = serve(&server);
    assert_eq!(call(&server, &Orb::with_config(Config::default()).unwrap(), &reference), Ok("tcp"));
    for (protocols, taken) in [
        (&[][..], "ssl"),
        (&["ssl"], "ssl"),
        (&["ssl", "tcp"], "ssl"),
        (&["tcp", "ssl"], "tcp"),
        (&["tcp", "added"], "tcp"),
        (&["added"], "ssl"),
        // A transport outside the list is not used.
        (&["tcp"], "tcp"),
        (&["unix", "tcp"], "tcp"),
    ] {
        assert_eq!(call(&server, &client(&ours, protocols), &reference), Ok(taken), "{protocols:?}");
    }
    server.shutdown(true).unwrap();
}

#[test]
fn on_its_own_host_a_client_needs_no_cryptography_unless_it_wants_it() {
    let ours = authority("host");
    let server = orb(&ours, "server", &["127.0.0.1:0", "giop:ssl:127.0.0.1:0", "unix:", "segment:"]);
    let reference = serve(&server);
    for (protocols, taken) in [
        (&[][..], "segment"),
        (&["unix", "added", "tcp"], "unix"),
        (&["added", "tcp"], "ssl"),
        (&["ssl"], "ssl"),
    ] {
        assert_eq!(call(&server, &client(&ours, protocols), &reference), Ok(taken), "{protocols:?}");
    }
    server.shutdown(true).unwrap();
}

#[test]
fn an_untrusted_server_is_not_called_without_protection() {
    let (ours, theirs) = (authority("ours-only"), authority("theirs-only"));
    let server = orb(&ours, "server", &BOTH);
    let reference = serve(&server);
    // This client does not know the server's authority.
    assert_eq!(call(&server, &client(&theirs, &[]), &reference), Err(Kind::NoPermission));
    // Only a client that asks for it calls without TLS.
    assert_eq!(call(&server, &client(&theirs, &["tcp"]), &reference), Ok("tcp"));
    // The server does not know this client's authority; the client may learn that after its
    // handshake (TLS 1.3).
    let unknown =
        || TlsConfig { authorities: ours.folder().join("authority.pem"), ..theirs.member("client").unwrap() };
    let refused = call(&server, &orb_with(unknown(), Config::default()), &reference).unwrap_err();
    assert!([Kind::NoPermission, Kind::CommFailure, Kind::Transient].contains(&refused), "{refused:?}");
    server.shutdown(true).unwrap();
    // The certificate is of the right authority, and for another host.
    let server = orb(&ours, "server", &["127.0.0.2:0", "giop:ssl:127.0.0.2:0"]);
    let reference = serve(&server);
    assert_eq!(call(&server, &client(&ours, &[]), &reference), Err(Kind::NoPermission));
    let any_name = TlsConfig { check_names: false, ..ours.member("client").unwrap() };
    assert_eq!(call(&server, &orb_with(any_name, Config::default()), &reference), Ok("ssl"));
    server.shutdown(true).unwrap();
}

/// An attacker that breaks a handshake must not cause a call without protection.
#[test]
fn a_spoiled_handshake_is_no_reason_to_go_without() {
    let ours = authority("spoiled");
    let server = orb(&ours, "server", &BOTH);
    let reference = serve(&server);
    let spoiler = TcpListener::bind("127.0.0.1:0").unwrap();
    let spoiled = with_port(&reference, spoiler.local_addr().unwrap().port());
    std::thread::spawn(move || {
        let leave: [fn(TcpStream); 2] = [drop, |mut stream| _ = stream.read(&mut [0; 4096])];
        for leave in leave.into_iter().cycle() {
            match spoiler.accept() {
                Ok((stream, _)) => leave(stream),
                Err(_) => return,
            }
        }
    });
    for _ in 0..2 {
        assert_eq!(call(&server, &client(&ours, &[]), &spoiled), Err(Kind::Transient));
    }
    // It could have been called.
    assert_eq!(call(&server, &client(&ours, &["tcp"]), &spoiled), Ok("tcp"));
    server.shutdown(true).unwrap();
}

#[test]
fn without_a_listener_only_a_client_that_requires_tls_gives_up() {
    let ours = authority("unreachable");
    let server = orb(&ours, "server", &BOTH);
    let reference = serve(&server);
    // Bound but not listening, so that no other process can listen there.
    let silent = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    silent.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    let port = silent.local_addr().unwrap().as_socket().unwrap().port();
    let deserted = with_port(&reference, port);
    assert_eq!(call(&server, &client(&ours, &[]), &deserted), Ok("tcp"));
    assert_eq!(call(&server, &client(&ours, &["ssl"]), &deserted), Err(Kind::Transient));
    server.shutdown(true).unwrap();
}

/// A reference is not authenticated: one that names only plain TCP leads to its author.
#[test]
fn a_client_that_requires_tls_calls_no_reference_without() {
    let ours = authority("required");
    let server = orb(&ours, "server", &BOTH);
    let reference = serve(&server);
    let stripped = changed(&reference, |profile| {
        profile.components.retain(|component| component.tag != TAG_SSL_SEC_TRANS);
    });
    assert_eq!(call(&server, &client(&ours, &[]), &stripped), Ok("tcp"));
    assert_eq!(call(&server, &client(&ours, &["ssl"]), &stripped), Err(Kind::InvObjref));
    let (host, port) = &server.endpoint_addresses()[0];
    let url = format!("corbaloc::{host}:{port}/Anything");
    assert_eq!(call(&server, &client(&ours, &["ssl"]), &url), Err(Kind::InvObjref));
    // The same by argument, as users write it.
    let tls = isorb_tls::Tls::new(ours.member("client").unwrap()).unwrap();
    let by_argument = Orb::builder()
        .arguments(["client", "-ORBProtocols", "ssl"].map(String::from))
        .register(|info| info.add_transport(std::sync::Arc::new(tls)).map_err(|error| panic!("{error}")))
        .build();
    let by_argument = by_argument.unwrap();
    assert_eq!(call(&server, &by_argument, &stripped), Err(Kind::InvObjref));
    // A misspelt name, or one without its transport, is an error.
    let config = preferring(&["sssl", "tcp"]);
    let error = try_orb_with(ours.member("client").unwrap(), config).unwrap_err();
    assert_eq!(error.kind, Kind::BadParam);
    assert!(error.to_string().contains("protocols names sssl"), "{error}");
    assert_eq!(
        Orb::builder()
            .arguments(["client", "-ORBProtocols", "ssl"].map(String::from))
            .register(|_| Ok(()))
            .build()
            .unwrap_err()
            .kind,
        Kind::BadParam
    );
    server.shutdown(true).unwrap();
}
