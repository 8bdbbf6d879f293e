//! User names and passwords over TLS: servants and guards see the user, a wrong password is
//! refused, and a password never crosses a connection without TLS.

mod common;

use common::authority;
use isorb::interceptor::{
    ClientRequestInfo, ClientRequestInterceptor, OrbInitInfo, Raised, ServerRequestInfo,
    ServerRequestInterceptor,
};
use isorb::{Config, Guard, Interface, Kind, Orb, Reference, Result, SystemException, Upcall};
use isorb_access::{AccessControl, Audit, Policy};
use isorb_csi::{ClientSecurity, Credentials, ServerSecurity};
use isorb_giop::component::{Component, TAG_CSI_SEC_MECH_LIST};
use isorb_giop::context::SECURITY_ATTRIBUTE;
use isorb_giop::csi::gssup::InitialToken;
use isorb_giop::csi::{
    Authorization, ContextError, EstablishContext, ExportedName, IdentityToken, SasMessage, SecMechList,
    TransportMech,
};
use isorb_tests::Parrot;
use isorb_tests::steady::PathRef;
use isorb_tls::Tls;
use isorb_tls::testing::Authority;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// What the guard saw, the newest last.
type Principals = Arc<Mutex<Vec<String>>>;

struct Witness(Principals);

impl Guard for Witness {
    fn admit(&self, _: &'static Interface, _: u16, cx: Upcall<'_>) -> Result<()> {
        let caller = cx.caller();
        let principal = caller.principal().map_or("anonymous".into(), |it| match &it.asserted_by {
            Some(by) => format!("{} by {by}", it.name),
            None => it.name.clone(),
        });
        // The rest of the identity is still there.
        assert!(caller.identity().is_some() && caller.user().is_some());
        self.0.lock().unwrap().push(principal);
        Ok(())
    }
}

/// The password of ada is engine; counts how often it was asked for.
fn check(asked: &Arc<AtomicUsize>) -> impl Fn(&str, &[u8]) -> bool + Send + Sync + 'static {
    let asked = asked.clone();
    move |user, password| {
        asked.fetch_add(1, Ordering::Relaxed);
        (user, password) == ("ada", b"engine")
    }
}

fn build(
    authority: &Authority,
    name: &str,
    endpoints: &[&str],
    guard: Option<Arc<dyn Guard>>,
    register: impl FnOnce(&mut OrbInitInfo),
) -> Orb {
    let endpoints = endpoints.iter().map(|endpoint| endpoint.to_string()).collect();
    let tls = Tls::new(authority.member(name).unwrap()).unwrap();
    let config = Config { endpoints, lane_threads: 1, ..Config::default() };
    let mut builder = Orb::builder().config(config).register(|info| {
        info.add_transport(Arc::new(tls)).unwrap();
        register(info);
        Ok(())
    });
    if let Some(guard) = guard {
        builder = builder.guard(guard);
    }
    builder.build().unwrap()
}

struct Server {
    orb: Orb,
    reference: String,
    seen: Principals,
}

impl Server {
    fn start(authority: &Authority, endpoints: &[&str], security: ServerSecurity) -> Server {
        let seen = Principals::default();
        let guard: Arc<dyn Guard> = Arc::new(Witness(seen.clone()));
        let orb = build(authority, "server", endpoints, Some(guard), |info| security.register(info).unwrap());
        let reference = common::serve(&orb);
        Server { orb, reference, seen }
    }

    fn seen(&self) -> Vec<String> {
        std::mem::take(&mut *self.seen.lock().unwrap())
    }
}

fn client(authority: &Authority, credentials: Option<Credentials>) -> Orb {
    build(authority, "client", &[], None, |info| {
        if let Some(credentials) = credentials {
            ClientSecurity::new(credentials).register(info).unwrap();
        }
    })
}

fn ping(client: &Orb, reference: &str) -> Result<()> {
    client.resolve::<PathRef>(reference)?.ping()
}

const TLS: &[&str] = &["giop:ssl:127.0.0.1:0"];

#[test]
fn servants_see_the_user_and_a_wrong_password_is_refused() {
    let ours = authority("csi");
    let asked = Arc::default();
    let server = Server::start(&ours, TLS, ServerSecurity::new(check(&asked)).target("plant"));
    let ada = client(&ours, Some(Credentials::new("ada", "engine")));
    let far: PathRef = ada.resolve(&server.reference).unwrap();
    for _ in 0..3 {
        far.ping().unwrap();
    }
    assert_eq!(server.seen(), ["ada"; 3]);
    assert_eq!(asked.load(Ordering::Relaxed), 1, "a right password is checked once");
    for (wrong, times) in [(Credentials::new("ada", "steam"), 2), (Credentials::new("eve", "engine"), 3)] {
        let other = client(&ours, Some(wrong));
        let refused = ping(&other, &server.reference).unwrap_err();
        assert_eq!((refused.kind, refused.completed), (Kind::NoPermission, isorb::Completion::No));
        assert!(refused.detail.as_deref().is_some_and(|why| why.contains("password is wrong")), "{refused}");
        assert_eq!(asked.load(Ordering::Relaxed), times);
    }
    // Without a password, though with a certificate.
    let stranger = client(&ours, None);
    assert_eq!(ping(&stranger, &server.reference).unwrap_err().kind, Kind::NoPermission);
    assert_eq!(server.seen(), [""; 0]);
    far.ping().unwrap();
    server.orb.shutdown(true).unwrap();
}

#[test]
fn a_reference_names_the_mechanism_only_beside_tls() {
    let ours = authority("csi-reference");
    for (endpoints, expected) in [
        (TLS, true),
        (&["giop:tcp:127.0.0.1:0"][..], false),
        (&["giop:tcp:127.0.0.1:0", "giop:ssl:127.0.0.1:0"][..], true),
    ] {
        let server = Server::start(&ours, endpoints, ServerSecurity::new(check(&Arc::default())));
        let object = server.orb.resolve::<PathRef>(&server.reference).unwrap();
        let profile = object.object().ior().iiop_profiles().next().unwrap().unwrap();
        let component = profile.component(TAG_CSI_SEC_MECH_LIST);
        assert_eq!(component.is_some(), expected, "{endpoints:?}");
        if let Some(component) = component {
            let list = SecMechList::read(&component.data).unwrap();
            let ssl = profile.components.iter().find_map(|it| match Component::parse(it) {
                Ok(Component::Ssl { port, .. }) => Some(port),
                _ => None,
            });
            let TransportMech::Tls { addresses, .. } = &list.mechanisms[0].transport else {
                panic!("{list:?}")
            };
            assert_eq!(*addresses, [("127.0.0.1".to_owned(), ssl.unwrap())]);
            assert!(!list.stateful);
        }
        server.orb.shutdown(true).unwrap();
    }
}

/// Adds a component to what it is sent to, or a context, as a client of another ORB would.
struct Forger(Vec<u8>);

impl ClientRequestInterceptor for Forger {
    fn send_request(&self, info: &mut ClientRequestInfo<'_>) -> Result<(), Raised> {
        Ok(info.add_request_service_context(SECURITY_ATTRIBUTE, &self.0, false)?)
    }

    fn receive_exception(&self, info: &ClientRequestInfo<'_>) -> Result<(), Raised> {
        let context = info.reply_service_context(SECURITY_ATTRIBUTE);
        let major = match context.map(SasMessage::read) {
            Ok(Ok(SasMessage::Error(ContextError { major, .. }))) => major,
            _ => 0,
        };
        let before = info.received_exception()?;
        Err(SystemException::new(before.kind, major as u32, before.completed).into())
    }
}

fn forged(authority: &Authority, name: &str, context: Vec<u8>) -> Orb {
    build(authority, name, &[], None, |info| {
        info.add_client_request_interceptor(Arc::new(Forger(context))).unwrap();
    })
}

fn establish(identity: IdentityToken<'_>, password: &[u8], target: &[u8]) -> Vec<u8> {
    let token = InitialToken { user: b"ada", password, target }.write().unwrap();
    let token = if password.is_empty() { Vec::new() } else { token };
    let authorization = vec![Authorization { kind: 1, element: b"ignored" }];
    SasMessage::Establish(EstablishContext { id: 5, authorization, identity, token: &token }).write().unwrap()
}

#[test]
fn contexts_of_all_kinds_get_the_answer_of_the_standard() {
    let ours = authority("csi-contexts");
    let security = ServerSecurity::new(check(&Arc::default())).target("plant").required(false);
    let server = Server::start(&ours, TLS, security.trust("certificate:gateway"));
    let (plant, other) = (ExportedName::gssup("plant").write(), ExportedName::gssup("depot").write());
    let bob = ExportedName::gssup("bob").write();
    let absent = IdentityToken::Absent;
    let in_context = SasMessage::InContext { id: 9, discard: false }.write().unwrap();
    let named = IdentityToken::PrincipalName(&bob);
    let conflict = ContextError::CONFLICTING_EVIDENCE;
    for (peer, context, expected) in [
        ("client", establish(absent, b"engine", &plant), Ok("ada")),
        ("client", establish(absent, b"engine", b""), Ok("ada")),
        ("client", establish(absent, b"engine", &other), Err(ContextError::INVALID_EVIDENCE)),
        ("client", establish(absent, b"steam", &plant), Err(ContextError::INVALID_EVIDENCE)),
        ("client", establish(absent, b"", b""), Ok("anonymous")),
        ("client", establish(IdentityToken::Anonymous, b"engine", &plant), Ok("anonymous")),
        ("client", establish(named, b"engine", &plant), Err(conflict)),
        ("client", establish(named, b"", b""), Err(conflict)),
        ("gateway", establish(named, b"", b""), Ok("bob by certificate:gateway")),
        (
            "gateway",
            establish(IdentityToken::DistinguishedName(b"x"), b"", b""),
            Err(ContextError::INVALID_MECHANISM),
        ),
        ("client", in_context, Err(ContextError::NO_CONTEXT)),
        ("client", b"\x01\x00\x00\x00".to_vec(), Err(ContextError::INVALID_EVIDENCE)),
    ] {
        let found = ping(&forged(&ours, peer, context), &server.reference);
        match expected {
            Ok(name) => assert_eq!((found, server.seen()), (Ok(()), vec![name.to_owned()])),
            Err(major) => {
                let refused = found.unwrap_err();
                assert_eq!((refused.kind, refused.minor as i32), (Kind::NoPermission, major));
                assert_eq!(server.seen(), [""; 0], "{major}");
            }
        }
    }
    // Nothing at all is no error here.
    ping(&client(&ours, None), &server.reference).unwrap();
    assert_eq!(server.seen(), ["anonymous"]);
    server.orb.shutdown(true).unwrap();
}

/// Counts the requests with a security context.
struct Contexts(Arc<AtomicUsize>);

impl ServerRequestInterceptor for Contexts {
    fn receive_request_service_contexts(&self, info: &mut ServerRequestInfo<'_>) -> Result<(), Raised> {
        let there = info.request_service_context(SECURITY_ATTRIBUTE).is_ok();
        self.0.fetch_add(usize::from(there), Ordering::Relaxed);
        Ok(())
    }
}

#[test]
fn a_password_goes_over_tls_only() {
    let ours = authority("csi-plain");
    let contexts = Arc::<AtomicUsize>::default();
    let both = ["giop:tcp:127.0.0.1:0", "giop:ssl:127.0.0.1:0"];
    let security = ServerSecurity::new(check(&Arc::default())).required(false);
    let counter = Arc::new(Contexts(contexts.clone()));
    let server = build(&ours, "server", &both, None, |info| {
        info.add_server_request_interceptor(counter).unwrap();
        security.register(info).unwrap();
    });
    let reference = common::serve(&server);
    for (protocols, expected) in [("tcp", 0), ("ssl", 1)] {
        let tls = Tls::new(ours.member("client").unwrap()).unwrap();
        let client = Orb::builder()
            .arguments(["client", "-ORBProtocols", protocols].map(str::to_owned))
            .register(|info| {
                info.add_transport(Arc::new(tls)).unwrap();
                ClientSecurity::new(Credentials::new("ada", "engine")).register(info).unwrap();
                Ok(())
            })
            .build()
            .unwrap();
        ping(&client, &reference).unwrap();
        assert_eq!(contexts.swap(0, Ordering::Relaxed), expected, "{protocols}");
    }
    // A client of another ORB that sends one all the same is refused.
    let context = establish(IdentityToken::Absent, b"engine", b"");
    let careless = Orb::builder()
        .register(|info| {
            info.add_client_request_interceptor(Arc::new(Forger(context))).unwrap();
            Ok(())
        })
        .build()
        .unwrap();
    let refused = ping(&careless, &reference).unwrap_err();
    assert_eq!((refused.kind, refused.minor), (Kind::NoPermission, ContextError::INVALID_EVIDENCE as u32));
    server.shutdown(true).unwrap();
}

/// Sends a context while it is on.
struct Toggle(Vec<u8>, AtomicBool);

impl ClientRequestInterceptor for Toggle {
    fn send_request(&self, info: &mut ClientRequestInfo<'_>) -> Result<(), Raised> {
        match self.1.load(Ordering::Relaxed) {
            true => Ok(info.add_request_service_context(SECURITY_ATTRIBUTE, &self.0, false)?),
            false => Ok(()),
        }
    }
}

#[test]
fn a_policy_names_principals() {
    let ours = authority("csi-policy");
    let text = "[roles.engineers]\nmembers = [\"principal:ada\"]\nmay = [\"administer\"]\n";
    let control = AccessControl::new(Policy::parse(text, "policy").unwrap(), Audit::to_log());
    let security = ServerSecurity::new(check(&Arc::default())).required(false);
    let server =
        build(&ours, "server", TLS, Some(Arc::new(control)), |info| security.register(info).unwrap());
    let near: PathRef = server.root_poa().unwrap().activate(Arc::new(Parrot::default())).unwrap();
    let reference = near.object().to_string();
    let background = server.clone();
    std::thread::spawn(move || background.run());
    let ada = client(&ours, Some(Credentials::new("ada", "engine")));
    let stranger = client(&ours, None);
    for _ in 0..2 {
        ping(&ada, &reference).unwrap();
        assert_eq!(ping(&stranger, &reference).unwrap_err().kind, Kind::NoPermission);
    }
    // Requests of one connection have rights of their own.
    let toggle = Arc::new(Toggle(establish(IdentityToken::Absent, b"engine", b""), AtomicBool::new(true)));
    let interceptor = toggle.clone();
    let both = build(&ours, "client", &[], None, |info| {
        info.add_client_request_interceptor(interceptor).unwrap();
    });
    for there in [true, false, true, false] {
        toggle.1.store(there, Ordering::Relaxed);
        assert_eq!(ping(&both, &reference).is_ok(), there);
    }
    assert_eq!(server.connection_counts().accepted, 3, "one for each client");
    server.shutdown(true).unwrap();
}
