//! The identity of callers: in servants, interceptors and guards, in object keys, and in the
//! listen points of bidirectional GIOP.

mod common;

use common::{Echo, EchoRef};
use isorb::interceptor::{Raised, ServerRequestInfo, ServerRequestInterceptor};
use isorb::transport::PeerProcess;
use isorb::{Caller, Config, Guard, Interface, Kind, Object, Orb, OrbBuilder, Reference, Result, Upcall};
use isorb_giop::{IiopProfile, Ior};
use std::sync::{Arc, Mutex};

/// Describes its callers.
struct Describer;

fn describe(caller: Caller<'_>) -> String {
    let identity = caller.identity();
    let process = identity.and_then(|identity| identity.process);
    let address = identity.and_then(|identity| identity.addresses);
    format!(
        "local={} process={} address={} user={}",
        caller.is_this_process(),
        process.is_some_and(|process| process == PeerProcess::this()),
        address.is_some_and(|(peer, _)| peer.ip().is_loopback()),
        caller.user().is_some_and(|user| user == PeerProcess::this().user)
    )
}

impl Echo for Describer {
    fn text<'u>(&'u self, cx: Upcall<'u>, _: &'u str) -> Result<&'u str> {
        cx.str(&describe(cx.caller()))
    }
    fn call_back<'u>(&'u self, _: Upcall<'u>, near: Option<&'u EchoRef>) -> Result<&'u str> {
        near.map_or(Ok(()), EchoRef::ping).map(|()| "called")
    }
}

/// Describes callers at its starting point.
struct Witness(Arc<Mutex<Vec<String>>>);

impl ServerRequestInterceptor for Witness {
    fn receive_request_service_contexts(&self, info: &mut ServerRequestInfo<'_>) -> Result<(), Raised> {
        self.0.lock().unwrap().push(describe(info.caller()));
        Ok(())
    }
}

/// Refuses `ping`.
struct NoPing;

impl Guard for NoPing {
    fn admit(&self, interface: &'static Interface, operation: u16, cx: Upcall<'_>) -> Result<()> {
        assert_eq!(interface.operations.names()[usize::from(operation)], cx.operation());
        match cx.operation() {
            "ping" => Err(Kind::NoPermission.into()),
            _ => Ok(()),
        }
    }
}

fn serve(config: Config, build: impl FnOnce(OrbBuilder<'static>) -> OrbBuilder<'static>) -> (Orb, EchoRef) {
    let orb = build(Orb::builder().config(config)).build().unwrap();
    let root = orb.root_poa().unwrap();
    let echo: EchoRef = root.activate(Arc::new(Describer)).unwrap();
    root.manager().activate().unwrap();
    (orb, echo)
}

fn at(endpoint: &str) -> Config {
    Config { endpoints: vec![endpoint.into()], ..Config::default() }
}

#[test]
fn servants_and_interceptors_see_the_same_caller() {
    let client = Orb::with_config(Config::default()).unwrap();
    for (endpoint, expected) in [
        ("127.0.0.1:0", "local=false process=false address=true user=true"),
        ("unix:", "local=false process=true address=false user=true"),
        ("segment:", "local=false process=true address=false user=true"),
    ] {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let witness = Arc::new(Witness(seen.clone()));
        for intercepted in [false, true] {
            let (orb, echo) = serve(at(endpoint), |builder| {
                let witness = intercepted.then(|| witness.clone());
                builder.register(move |info| {
                    Ok(witness.into_iter().try_for_each(|it| info.add_server_request_interceptor(it))?)
                })
            });
            let far: EchoRef = client.resolve(&echo.object().to_string()).unwrap();
            // The second request is one that the server recognises.
            for _ in 0..2 {
                assert_eq!(far.text("").unwrap(), expected, "{endpoint}");
            }
            assert_eq!(echo.text("").unwrap(), "local=true process=false address=false user=true");
            orb.shutdown(true).unwrap();
        }
        let seen = seen.lock().unwrap();
        assert_eq!(seen[..2], [expected, expected], "{endpoint}");
        assert!(seen[2].starts_with("local=true"), "{endpoint}");
    }
}

#[test]
fn a_guard_stands_before_every_operation() {
    let (orb, echo) = serve(at("127.0.0.1:0"), |builder| builder.guard(Arc::new(NoPing)));
    let client = Orb::with_config(Config::default()).unwrap();
    let far: EchoRef = client.resolve(&echo.object().to_string()).unwrap();
    for echo in [echo, far] {
        for _ in 0..2 {
            assert_eq!(echo.ping().unwrap_err().kind, Kind::NoPermission);
            assert!(echo.text("").is_ok());
        }
    }
    orb.shutdown(true).unwrap();
}

fn key(object: &Object) -> Vec<u8> {
    let ior: Ior = object.to_string().parse().unwrap();
    IiopProfile::parse(&ior.profiles[0].data).unwrap().key.to_vec()
}

#[test]
fn the_key_of_one_transient_object_does_not_tell_that_of_the_next() {
    let (orb, first) = serve(at("127.0.0.1:0"), |builder| builder);
    let second: EchoRef = orb.root_poa().unwrap().activate(Arc::new(Describer)).unwrap();
    let (own, other) = (key(first.object()), key(second.object()));
    assert_eq!(own.len(), other.len());
    let differing = own.iter().zip(&other).filter(|(a, b)| a != b).count();
    assert!(differing > 4, "{own:02x?} and {other:02x?} differ by counters only");
    let (host, port) = orb.endpoint_addresses().remove(0);
    let client = Orb::with_config(Config::default()).unwrap();
    let call = |key: &[u8]| {
        let escaped: String = key.iter().map(|octet| format!("%{octet:02x}")).collect();
        let object = client.string_to_object(&format!("corbaloc::1.2@{host}:{port}/{escaped}")).unwrap();
        EchoRef::from_object(object).ping()
    };
    call(&other).unwrap();
    // All that the holder of the first key knows, with the number of the second object.
    let mut guessed = own.clone();
    guessed[16..24].copy_from_slice(&other[16..24]);
    assert_eq!(call(&guessed).unwrap_err().kind, Kind::ObjectNotExist);
    orb.shutdown(true).unwrap();
}

#[test]
fn listen_points_of_others_are_not_taken() {
    for (publish, taken) in [(None, true), (Some("localhost"), true), (Some("192.0.2.1"), false)] {
        let config = Config { bidirectional: true, connect_timeout_ms: 300, ..at("127.0.0.1:0") };
        let (server, echo) = serve(config.clone(), |builder| builder);
        let config = Config { publish: publish.map(String::from), connections_per_server: 1, ..config };
        let client = Orb::with_config(config).unwrap();
        let near: EchoRef = client.root_poa().unwrap().activate(Arc::new(Describer)).unwrap();
        client.root_poa().unwrap().manager().activate().unwrap();
        let far: EchoRef = client.resolve(&echo.object().to_string()).unwrap();
        let called = far.call_back(Some(&near));
        assert_eq!(called.is_ok(), taken, "{publish:?}: {called:?}");
        client.shutdown(true).unwrap();
        server.shutdown(true).unwrap();
    }
}
