//! Trust between clients and servers, and renewal of certificates.

mod common;

use common::authority;
use isorb_testkit::wait_until;
use isorb_tls::{ClientCertificates, Tls, TlsConfig, TlsError};
use isorb_transport::{ConnectionLimit, Stream, Tcp, Transport, Unprotected, Wait};
use std::io::{ErrorKind, IoSlice, Write};
use std::net::TcpStream;
use std::time::Duration;

const TIMEOUT: Option<Duration> = Some(Duration::from_secs(60));

/// Whether an octet of the client comes back from the server.
fn exchange(server: &Tls, client: &Tls) -> bool {
    let listener = server.listen("127.0.0.1:0").unwrap();
    std::thread::scope(|scope| {
        let serving = scope.spawn(|| {
            let stream = listener.accept(Wait::Block)?;
            let mut octet = [0];
            stream.recv(&mut octet, Wait::Block)?;
            stream.send(&[IoSlice::new(&octet)], Wait::Block)
        });
        // With TLS 1.3 a client learns only after its handshake that the server refused it.
        let talked = client.connect(listener.address(), TIMEOUT).and_then(|stream| {
            stream.set_recv_timeout(TIMEOUT)?;
            stream.send(&[IoSlice::new(&[7])], Wait::Block)?;
            let mut octet = [0];
            stream.recv(&mut octet, Wait::Block).map(|n| n == 1 && octet == [7])
        });
        listener.close();
        let _ = serving.join().unwrap();
        talked.unwrap_or(false)
    })
}

fn tls(config: TlsConfig) -> Tls {
    Tls::new(config).unwrap()
}

#[test]
fn both_sides_need_a_trusted_authority() {
    let (ours, theirs) = (authority(), authority());
    let server = tls(ours.member("server").unwrap());
    assert!(exchange(&server, &tls(ours.member("client").unwrap())));
    // A client that trusts our authority, with a certificate of another one.
    let mut stranger = theirs.member("client").unwrap();
    stranger.authorities = ours.folder().join("authority.pem");
    assert!(!exchange(&server, &tls(stranger)));
    // A server with a certificate of another authority.
    assert!(!exchange(&tls(theirs.member("server").unwrap()), &tls(ours.member("client").unwrap())));
    let anonymous = TlsConfig { certificate: None, key: None, ..ours.member("client").unwrap() };
    assert!(!exchange(&server, &tls(anonymous.clone())));
    for lenient in [ClientCertificates::Wanted, ClientCertificates::No] {
        let server = tls(TlsConfig { client_certificates: lenient, ..ours.member("server").unwrap() });
        assert!(exchange(&server, &tls(anonymous.clone())));
    }
}

#[test]
fn names_are_checked_unless_configured_otherwise() {
    let ours = authority();
    let server = tls(ours.member("server").unwrap());
    let listener = server.listen("127.0.0.2:0").unwrap();
    let strict = tls(ours.member("client").unwrap());
    let refused = strict.connect(listener.address(), TIMEOUT).unwrap_err();
    assert!(matches!(Unprotected::of(&refused), Some(Unprotected::Untrusted(_))), "{refused}");
    assert_eq!(refused.kind(), ErrorKind::PermissionDenied);
    let lenient = tls(TlsConfig { check_names: false, ..ours.member("client").unwrap() });
    lenient.connect(listener.address(), TIMEOUT).unwrap();
    // The authority is checked all the same.
    let theirs = authority();
    let stranger = tls(TlsConfig { check_names: false, ..theirs.member("client").unwrap() });
    assert_eq!(
        stranger.connect(listener.address(), TIMEOUT).unwrap_err().kind(),
        ErrorKind::PermissionDenied
    );
}

/// An ORB may try another address only if no server answered.
#[test]
fn an_absent_server_is_told_from_a_failed_handshake() {
    let ours = authority();
    let client = tls(ours.member("client").unwrap());
    let listener = Tcp.listen("127.0.0.1:0").unwrap();
    let address = listener.address().to_owned();
    let error_after = |act: fn(Box<dyn Stream>)| {
        std::thread::scope(|scope| {
            scope.spawn(|| act(listener.accept(Wait::Block).unwrap()));
            let error = client.connect(&address, TIMEOUT).unwrap_err();
            Unprotected::of(&error).unwrap_or_else(|| panic!("{error}")).clone()
        })
    };
    // The server closes at once, after the client's hello, and in the middle of an answer.
    assert!(matches!(error_after(drop), Unprotected::Unfinished(_)));
    let left = error_after(|stream| {
        stream.set_recv_timeout(TIMEOUT).unwrap();
        stream.recv(&mut [0; 4096], Wait::Block).unwrap();
    });
    assert!(matches!(left, Unprotected::Unfinished(_)));
    let nonsense = error_after(|stream| {
        stream.set_recv_timeout(TIMEOUT).unwrap();
        stream.recv(&mut [0; 4096], Wait::Block).unwrap();
        stream.send(&[IoSlice::new(b"GIOP\x01\x02\x00\x05\x00\x00\x00\x00")], Wait::Block).unwrap();
        while stream.recv(&mut [0; 64], Wait::Block).is_ok_and(|n| n > 0) {}
    });
    assert!(matches!(nonsense, Unprotected::Untrusted(_)), "{nonsense}");
    // A server that accepts and sends nothing.
    let short =
        tls(TlsConfig { handshake_timeout: Duration::from_millis(50), ..ours.member("client").unwrap() });
    let silent = short.connect(&address, TIMEOUT).unwrap_err();
    assert!(matches!(Unprotected::of(&silent), Some(Unprotected::Unfinished(_))), "{silent}");
    listener.close();
    drop(listener);
    let absent = client.connect(&address, TIMEOUT).unwrap_err();
    assert_eq!((Unprotected::of(&absent), absent.kind()), (None, ErrorKind::ConnectionRefused));
}

#[test]
fn new_certificates_apply_from_the_next_handshake_on() {
    let (ours, theirs) = (authority(), authority());
    let server = tls(ours.member("server").unwrap());
    let client = tls(ours.member("client").unwrap());
    let newcomer = tls(theirs.member("client").unwrap());
    assert!(exchange(&server, &client) && !exchange(&server, &newcomer));
    let replace = |name: &str, with: &[u8]| {
        let file = ours.folder().join(name);
        let before = std::fs::metadata(&file).unwrap().modified().unwrap();
        // The clocks of file systems have steps.
        while std::fs::metadata(&file).unwrap().modified().unwrap() == before {
            std::fs::write(&file, with).unwrap();
        }
    };
    // An unusable file changes nothing.
    let good = std::fs::read(ours.folder().join("authority.pem")).unwrap();
    replace("authority.pem", b"nonsense");
    assert!(exchange(&server, &client));
    replace("authority.pem", &std::fs::read(theirs.folder().join("authority.pem")).unwrap());
    assert!(!exchange(&server, &client), "the old authority is no longer trusted");
    replace("authority.pem", &good);
    assert!(exchange(&server, &client));
}

/// A list past its next update, as that of the tests, holds all the same.
#[test]
fn a_revoked_certificate_is_refused_from_the_next_handshake_on() {
    let ours = authority();
    let revocations = Some(ours.revoke(&[]).unwrap());
    let [server, client, other] = ["server", "client", "other"].map(|name| ours.member(name).unwrap());
    let lax = tls(server.clone());
    let server = tls(TlsConfig { revocations: revocations.clone(), ..server });
    let (client, other) = (tls(client), tls(other));
    assert!(exchange(&server, &client) && exchange(&server, &other));
    ours.revoke(&["client"]).unwrap();
    assert!(!exchange(&server, &client), "it is revoked");
    assert!(exchange(&server, &other), "another one is not");
    assert!(exchange(&lax, &client), "a server without the list does not know");
    // An unusable list changes nothing.
    std::fs::write(ours.folder().join("revoked.pem"), "nonsense").unwrap();
    assert!(!exchange(&server, &client) && exchange(&server, &other));
    ours.revoke(&[]).unwrap();
    assert!(exchange(&server, &client));
    // Clients look into their lists too, with names or without.
    for check_names in [true, false] {
        let careful =
            TlsConfig { revocations: revocations.clone(), check_names, ..ours.member("careful").unwrap() };
        let careful = tls(careful);
        assert!(exchange(&server, &careful));
        ours.revoke(&["server"]).unwrap();
        assert!(!exchange(&server, &careful), "names: {check_names}");
        ours.revoke(&[]).unwrap();
    }
}

/// What no list says is not taken for good.
#[test]
fn every_authority_needs_a_list() {
    let (ours, theirs) = (authority(), authority());
    let server =
        TlsConfig { revocations: Some(theirs.revoke(&[]).unwrap()), ..ours.member("server").unwrap() };
    assert!(!exchange(&tls(server), &tls(ours.member("client").unwrap())));
}

/// A renewal replaces the certificate's file, and then the key's.
#[test]
fn a_certificate_and_its_key_are_renewed_one_after_the_other() {
    let (ours, theirs) = (authority(), authority());
    let server = tls(ours.member("server").unwrap());
    let old = tls(ours.member("client").unwrap());
    // A client that the server trusts, and that trusts only the authority of the new certificate.
    let new = TlsConfig { authorities: theirs.folder().join("authority.pem"), ..ours.member("new").unwrap() };
    let new = tls(new);
    theirs.sign("server").unwrap();
    let renew = |file: &str| {
        let (from, to) = (theirs.folder().join(file), ours.folder().join(file));
        std::fs::rename(from, to).unwrap();
    };
    assert!(exchange(&server, &old) && !exchange(&server, &new));
    for _ in 0..2 {
        renew("server.pem");
        // Certificate and key do not fit together: the previous ones stay.
        assert!(exchange(&server, &old) && !exchange(&server, &new));
        renew("server.key");
        assert!(exchange(&server, &new) && !exchange(&server, &old));
        // And back again.
        ours.sign("renewed").unwrap();
        for suffix in ["pem", "key"] {
            let file = |name: &str| ours.folder().join(format!("{name}.{suffix}"));
            std::fs::rename(file("renewed"), file("server")).unwrap();
        }
        assert!(exchange(&server, &old) && !exchange(&server, &new));
        theirs.sign("server").unwrap();
    }
}

/// Handshakes may take an hour here, so a new client is accepted only if it replaces another.
#[test]
fn a_new_client_replaces_an_unfinished_handshake() {
    let ours = authority();
    let config = TlsConfig { handshake_timeout: Duration::from_secs(3600), ..ours.member("server").unwrap() };
    let server = tls(config);
    let listener = server.listen("127.0.0.1:0").unwrap();
    // More than twice the slots: some send nothing, some begin and stop.
    let crowd: Vec<_> = (0..300).map(|_| Tcp.connect(listener.address(), TIMEOUT).unwrap()).collect();
    for stream in crowd.iter().step_by(3) {
        // The header of a handshake's record. A client that was replaced gets an error.
        let _ = stream.send(&[IoSlice::new(b"\x16\x03\x01\x02\x00")], Wait::Block);
    }
    let client = tls(ours.member("client").unwrap());
    for _ in 0..3 {
        client.connect(listener.address(), TIMEOUT).unwrap();
        listener.accept(Wait::Block).unwrap();
    }
}

/// The first octets of a message do not make a place safe: the oldest client gives way first,
/// whether it has sent some octets or none.
#[test]
fn a_message_that_has_only_begun_gives_way_as_silence_does() {
    let ours = authority();
    let config = TlsConfig { handshake_timeout: Duration::from_secs(3600), ..ours.member("server").unwrap() };
    let listener = tls(config).listen("127.0.0.1:0").unwrap();
    let connect = |_| {
        let stream = TcpStream::connect(listener.address()).unwrap();
        stream.set_nonblocking(true).unwrap();
        stream
    };
    let begun: Vec<_> = (0..64).map(connect).collect();
    for mut stream in &begun {
        stream.write_all(b"\x16\x03\x01\x02\x00\x01").unwrap();
    }
    let silent: Vec<_> = (0..64).map(connect).collect();
    // All places are taken now.
    let _others: Vec<_> = (0..64).map(connect).collect();
    wait_until("the oldest give way", || alive(&begun) == 0);
    assert_eq!(alive(&silent), silent.len());
}

/// How many the server has not closed.
fn alive(crowd: &[TcpStream]) -> usize {
    let waits =
        |stream: &&TcpStream| stream.peek(&mut [0]).is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
    crowd.iter().filter(waits).count()
}

#[test]
fn handshakes_have_the_limit_of_connections() {
    let ours = authority();
    for (room, stay) in [(Some(3), 3), (Some(0), 1), (None, 20)] {
        let config =
            TlsConfig { handshake_timeout: Duration::from_secs(3600), ..ours.member("server").unwrap() };
        let listener = tls(config).listen("127.0.0.1:0").unwrap();
        if let Some(room) = room {
            listener.set_limit(ConnectionLimit::new(move || room));
        }
        let connect = |_| {
            let stream = TcpStream::connect(listener.address()).unwrap();
            stream.set_nonblocking(true).unwrap();
            stream
        };
        let crowd: Vec<_> = (0..20).map(connect).collect();
        // The last client: after its handshake all others were accepted.
        let client = tls(ours.member("client").unwrap());
        client.connect(listener.address(), TIMEOUT).unwrap();
        listener.accept(Wait::Block).unwrap();
        // The last client replaced one of them.
        let stay = if room.is_some() { stay - 1 } else { stay };
        assert_eq!(alive(&crowd), stay, "{room:?}");
    }
}

#[test]
fn a_silent_client_delays_no_other() {
    let ours = authority();
    // Long enough for a real client on a machine that stops for a while.
    let config = TlsConfig { handshake_timeout: Duration::from_secs(3), ..ours.member("server").unwrap() };
    let server = tls(config);
    let listener = server.listen("127.0.0.1:0").unwrap();
    // More than there are slots.
    let silent: Vec<_> = (0..200).map(|_| Tcp.connect(listener.address(), TIMEOUT).unwrap()).collect();
    let client = tls(ours.member("client").unwrap());
    client.connect(listener.address(), TIMEOUT).unwrap();
    listener.accept(Wait::Block).unwrap();
    for stream in &silent {
        stream.set_recv_timeout(TIMEOUT).unwrap();
        // Their time-out ends too.
        assert_eq!(stream.recv(&mut [0; 64], Wait::Block).unwrap_or(0), 0);
    }
    // A client without TLS gets an alert and the end.
    let lost = Tcp.connect(listener.address(), TIMEOUT).unwrap();
    lost.send(&[IoSlice::new(b"GET / HTTP/1.1\r\n\r\n")], Wait::Block).unwrap();
    lost.set_recv_timeout(TIMEOUT).unwrap();
    while lost.recv(&mut [0; 64], Wait::Block).is_ok_and(|n| n > 0) {}
}

#[test]
fn errors_name_the_faulty_file() {
    let ours = authority();
    let good = ours.member("server").unwrap();
    let sentence = |config: TlsConfig| Tls::new(config).unwrap_err().to_string();
    let missing = ours.folder().join("nowhere.pem");
    assert!(sentence(TlsConfig { authorities: missing.clone(), ..good.clone() }).contains("nowhere.pem"));
    assert!(sentence(TlsConfig { key: Some(missing), ..good.clone() }).contains("private key"));
    assert_eq!(Tls::new(TlsConfig { key: None, ..good.clone() }).unwrap_err(), TlsError::HalfIdentity);
    ours.sign("other").unwrap();
    let list = |revocations| TlsConfig { revocations: Some(revocations), ..good.clone() };
    for (file, text) in [
        ("none.pem", ""),
        ("key.pem", "-----BEGIN X509 CRL-----\nMAMCAQE=\n-----END X509 CRL-----\n"),
        ("base64.pem", "-----BEGIN X509 CRL-----\n*\n-----END X509 CRL-----\n"),
    ] {
        std::fs::write(ours.folder().join(file), text).unwrap();
        let said = sentence(list(ours.folder().join(file)));
        assert!(said.contains(file) && said.contains("certificate revocation list"), "{said}");
    }
    assert!(sentence(list(ours.folder().join("no.pem"))).contains("no.pem"));
    let mixed = TlsConfig { key: Some(ours.folder().join("other.key")), ..good.clone() };
    assert!(matches!(Tls::new(mixed), Err(TlsError::Rejected(_))));
    let client = tls(TlsConfig { certificate: None, key: None, ..good });
    assert_eq!(client.listen("127.0.0.1:0").unwrap_err().kind(), ErrorKind::InvalidInput);
}

#[test]
fn the_accepting_side_knows_the_names_in_the_certificate() {
    let ours = authority();
    let server = tls(ours.member("server").unwrap());
    let listener = server.listen("127.0.0.1:0").unwrap();
    let anonymous = TlsConfig { certificate: None, key: None, ..ours.member("client").unwrap() };
    let _client = tls(ours.member("radar").unwrap()).connect(listener.address(), TIMEOUT).unwrap();
    let identity = listener.accept(Wait::Block).unwrap().identity();
    let certificate = identity.certificate.as_ref().unwrap();
    assert_eq!(certificate.common_name, "radar");
    assert!(certificate.dns_names.contains(&"radar".to_owned()), "{certificate:?}");
    assert!(identity.addresses.unwrap().0.ip().is_loopback());
    assert!(identity.to_string().contains("radar"));
    let lenient = TlsConfig { client_certificates: ClientCertificates::No, ..ours.member("server").unwrap() };
    let listener = tls(lenient).listen("127.0.0.1:0").unwrap();
    let _client = tls(anonymous).connect(listener.address(), TIMEOUT).unwrap();
    assert_eq!(listener.accept(Wait::Block).unwrap().identity().certificate, None);
}
