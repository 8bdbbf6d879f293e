//! The endpoint of a reference that a client chooses: a server listens by segments, unix sockets
//! and TCP, and reports the transport of each connection.
#![cfg(all(feature = "segments", feature = "unix"))]

mod common;

use common::{EchoRef, Parrot, pair_with};
use isorb::rt::Overrides;
use isorb::rt::policy::{Protocol, RtPolicy};
use isorb::transport::{
    Capabilities, Listener, Segments, Stream, TAG_SEGMENTS, TAG_UNIX, Tcp, Transport, Unix, Wait,
};
use isorb::{Config, Kind, Object, Orb, Reference, TransportConfig};
use isorb_giop::component::{Component, TAG_LOCALITY};
use isorb_giop::profile::TAG_INTERNET_IOP;
use isorb_giop::{AddressProfile, IiopProfile, Ior};
use isorb_testkit::wait_for;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Not in the order of preference.
const ENDPOINTS: [&str; 3] = ["127.0.0.1:0", "unix:", "segment:"];
const FORMS: [&str; 2] = [";connection", ";lane=2"];

/// A server that listens by all three, and the reference of its object.
fn server(form: &str) -> (Orb, Ior) {
    let endpoints = ENDPOINTS.map(|endpoint| format!("{endpoint}{form}")).to_vec();
    let (server, client, far, _) = pair_with(
        Config { endpoints, ..Config::default() },
        Config { endpoints: vec![], ..Config::default() },
    );
    let ior = far.object().ior().clone();
    client.shutdown(true).unwrap();
    (server, ior)
}

/// Unreachable addresses fail at once; the time is for a busy machine.
fn patient() -> Config {
    Config { round_trip_timeout_ms: 60_000, ..Config::default() }
}

fn preferring(protocols: &[&str]) -> Config {
    let protocols = protocols.iter().map(|name| name.to_string()).collect();
    Config { transport: TransportConfig { protocols, ..TransportConfig::default() }, ..patient() }
}

/// The transport of a connection.
fn kind_of(peer: &str) -> &'static str {
    ["segment", "unix"].into_iter().find(|name| peer.starts_with(name)).unwrap_or("tcp")
}

/// The transports of the connections of `server` once there are this many.
fn served(server: &Orb, count: usize) -> Vec<&'static str> {
    wait_for(format_args!("{count} connections"), || {
        let mut all: Vec<_> = server.served_connections().iter().map(|c| kind_of(&c.peer)).collect();
        all.sort();
        (all.len() == count).then_some(all)
    })
}

/// The transport of a client with this configuration, and these overrides.
fn taken(server: &Orb, ior: &Ior, config: Config, policies: &[RtPolicy]) -> &'static str {
    served(server, 0);
    let client = Orb::with_config(config).unwrap();
    let object = Object::from_ior(&client, ior.clone()).unwrap();
    let object = object.with_rt_overrides(&Overrides::new(policies).unwrap());
    let far: EchoRef = object.unchecked_narrow();
    for text in ["one", "two"] {
        assert_eq!(far.text(text).unwrap(), text);
    }
    let by = served(server, 1)[0];
    client.shutdown(true).unwrap();
    by
}

/// `ior` with another address and locality in the profile of this tag.
fn with_address(ior: &Ior, tag: u32, address: &str, transport: &dyn Transport) -> Ior {
    let mut ior = ior.clone();
    let found = ior.profiles.iter_mut().find(|profile| profile.tag == tag).unwrap();
    let mut profile = AddressProfile::parse(found).unwrap();
    profile.address = address.into();
    if let Some(locality) = transport.locality(address) {
        profile.components.retain(|component| component.tag != TAG_LOCALITY);
        let locality = Component::Locality { host: locality.host, identity: locality.identity };
        profile.components.push(locality.to_tagged().unwrap());
    }
    *found = profile.to_tagged().unwrap();
    // The path of unix sockets occurs a second time there, for omniORB.
    for found in ior.profiles.iter_mut().filter(|profile| profile.tag == TAG_INTERNET_IOP) {
        let mut profile = IiopProfile::parse(&found.data).unwrap();
        profile.components.clear();
        *found = profile.to_tagged().unwrap();
    }
    ior
}

/// The path of a socket that closes every connection before any octet.
fn rude() -> String {
    let listener = Unix::default().listen("").unwrap();
    let path = listener.address().to_owned();
    std::thread::spawn(move || while listener.accept(Wait::Block).is_ok() {});
    path
}

#[test]
fn by_default_segments_are_taken_before_unix_sockets_before_tcp() {
    for form in FORMS {
        let (server, ior) = server(form);
        assert_eq!(taken(&server, &ior, Config::default(), &[]), "segment", "{form}");
        // A client that is built or configured without the best transport takes the next.
        assert_eq!(taken(&server, &ior, preferring(&["unix", "tcp"]), &[]), "unix", "{form}");
        assert_eq!(taken(&server, &ior, preferring(&["tcp"]), &[]), "tcp", "{form}");
        assert_eq!(taken(&server, &ior, preferring(&["tcp", "unix", "segment"]), &[]), "tcp", "{form}");
        server.shutdown(true).unwrap();
    }
}

#[test]
fn the_next_is_taken_where_one_cannot_be_had() {
    let (segments, unix) = (Segments::default(), Unix::default());
    let (server, ior) = server(";connection");
    let rude = rude();
    let path = |tag| {
        let found = ior.profiles.iter().find(|profile| profile.tag == tag).unwrap();
        AddressProfile::parse(found).unwrap().address
    };
    // The file is missing, as after the server's folder was cleared; or a process listens there
    // that attaches no segment.
    for nowhere in [format!("{}x", path(TAG_SEGMENTS)), rude.clone()] {
        let without = with_address(&ior, TAG_SEGMENTS, &nowhere, &segments);
        assert_eq!(taken(&server, &without, patient(), &[]), "unix", "{nowhere}");
        let order = [TAG_SEGMENTS, TAG_INTERNET_IOP, TAG_UNIX].map(Protocol::with_tag).to_vec();
        assert_eq!(taken(&server, &without, patient(), &[RtPolicy::ClientProtocol(order)]), "tcp");
    }
    let without = with_address(&ior, TAG_SEGMENTS, &rude, &segments);
    let neither = with_address(&without, TAG_UNIX, &format!("{}x", path(TAG_UNIX)), &unix);
    assert_eq!(taken(&server, &neither, patient(), &[]), "tcp");
    // The path exists, but names another file than the server's: another mount.
    let mut elsewhere = ior.clone();
    let found = elsewhere.profiles.iter_mut().find(|profile| profile.tag == TAG_SEGMENTS).unwrap();
    let mut profile = AddressProfile::parse(found).unwrap();
    let here = segments.locality(&profile.address).unwrap();
    profile.components.retain(|component| component.tag != TAG_LOCALITY);
    let locality = Component::Locality { host: here.host, identity: "another".into() };
    profile.components.push(locality.to_tagged().unwrap());
    *found = profile.to_tagged().unwrap();
    assert_eq!(taken(&server, &elsewhere, patient(), &[]), "unix");
    server.shutdown(true).unwrap();
}

/// A transport added by the program: TCP under another name, which counts its uses.
#[derive(Clone, Debug, Default)]
struct Added(Arc<AtomicUsize>);

impl Transport for Added {
    fn name(&self) -> &'static str {
        "mine"
    }
    fn profile_tag(&self) -> u32 {
        0x1234_5678
    }
    fn capabilities(&self) -> Capabilities {
        Tcp.capabilities()
    }
    fn connect(&self, address: &str, timeout: Option<Duration>) -> std::io::Result<Box<dyn Stream>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Tcp.connect(address, timeout)
    }
    fn listen(&self, address: &str) -> std::io::Result<Box<dyn Listener>> {
        Tcp.listen(address)
    }
}

#[test]
fn what_was_added_comes_before_tcp_or_where_the_order_says() {
    let added = Added::default();
    let with = |config| {
        Orb::builder()
            .config(config)
            .register(|info| Ok(info.add_transport(Arc::new(added.clone()))?))
            .build()
    };
    let endpoints = ["127.0.0.1:0", "giop:mine:127.0.0.1:0", "unix:"].map(String::from).to_vec();
    let server = with(Config { endpoints, ..Config::default() }).unwrap();
    let root = server.root_poa().unwrap();
    root.manager().activate().unwrap();
    let near: EchoRef = root.activate(Arc::new(Parrot::default())).unwrap();
    let ior = near.object().ior().clone();
    let mut remote = ior.clone();
    remote.profiles.retain(|profile| profile.tag != TAG_UNIX);
    for (ior, protocols, expected) in [
        (&ior, None, "unix"),
        (&remote, None, "mine"),
        (&ior, Some(&["added", "unix"][..]), "mine"),
        (&ior, Some(&["mine", "unix"]), "mine"),
        // Named in the list, it is not in `added`.
        (&remote, Some(&["added", "tcp", "mine"]), "tcp"),
        (&remote, Some(&["tcp", "added"]), "tcp"),
        (&remote, Some(&["tcp"]), "tcp"),
    ] {
        let config = protocols.map_or_else(patient, preferring);
        let before = added.0.load(Ordering::Relaxed);
        served(&server, 0);
        let client = with(config).unwrap();
        let far: EchoRef = Object::from_ior(&client, ior.clone()).unwrap().unchecked_narrow();
        far.ping().unwrap();
        let taken = match served(&server, 1)[0] {
            "tcp" if added.0.load(Ordering::Relaxed) > before => "mine",
            other => other,
        };
        assert_eq!(taken, expected, "{protocols:?}");
        client.shutdown(true).unwrap();
    }
    // Without the others, it does not count as TCP.
    let client = with(preferring(&["udp"])).unwrap();
    let far: EchoRef = Object::from_ior(&client, remote).unwrap().unchecked_narrow();
    assert_eq!(far.ping().unwrap_err().kind, Kind::InvObjref);
    assert_eq!(with(preferring(&["mein"])).unwrap_err().kind, Kind::BadParam);
    server.shutdown(true).unwrap();
}

/// The reference that another user's process calls, and the users that share segments with it.
const REFERENCE: &str = "ISORB_CHOOSING_REFERENCE";
const USERS: &str = "ISORB_CHOOSING_USERS";

/// The other user's process: calls, reports, and stays until its standard input ends.
#[test]
fn the_other_user() {
    let Ok(reference) = std::env::var(REFERENCE) else { return };
    let segment_users = std::env::var(USERS).iter().map(|user| user.parse().unwrap()).collect();
    let transport = TransportConfig { segment_users, ..TransportConfig::default() };
    let far: EchoRef =
        Orb::with_config(Config { transport, ..patient() }).unwrap().resolve(&reference).unwrap();
    assert_eq!(far.text("one").unwrap(), "one");
    println!("called");
    let _ = std::io::stdin().read(&mut [0]);
}

#[test]
fn another_users_client_takes_what_is_left_to_it() {
    if !rustix::process::geteuid().is_root() {
        return println!("skipped: only root can start a process of another user");
    }
    const OTHER_USER: u32 = 65534;
    // Segments are for the same user whatever the sockets' permissions, unless each side names the
    // other; unix sockets are for all users with permission to open them.
    for (socket_mode, named, by) in [(0o666, false, "unix"), (0o600, true, "tcp"), (0o666, true, "segment")] {
        // In a folder that every user may read.
        let path = |kind: &str| {
            format!("{kind}:/tmp/isorb-choosing-{}-{socket_mode:o}-{named}-{kind}", std::process::id())
        };
        let endpoints = vec!["127.0.0.1:0".into(), path("unix"), path("segment")];
        let segment_users = if named { vec![OTHER_USER] } else { Vec::new() };
        let transport = TransportConfig { socket_mode, segment_users, ..TransportConfig::default() };
        let (server, client, far, _) =
            pair_with(Config { endpoints, transport, ..Config::default() }, Config::default());
        // A client of the same user takes segments.
        assert_eq!(taken(&server, far.object().ior(), patient(), &[]), "segment");
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "the_other_user", "--nocapture"]).env(REFERENCE, far.object().to_string());
        if named {
            command.env(USERS, "0");
        }
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).uid(OTHER_USER);
        let mut other = match command.spawn() {
            Ok(child) => child,
            Err(error) => return println!("skipped: user {OTHER_USER} cannot run this test: {error}"),
        };
        // Read to its end, so that it can print anything.
        let mut lines = BufReader::new(other.stdout.take().unwrap()).lines().map_while(Result::ok);
        assert!(lines.any(|line| line.contains("called")), "it did not get through");
        assert_eq!(served(&server, 1), [by], "{socket_mode:o}, named: {named}");
        drop(other.stdin.take());
        lines.for_each(drop);
        assert!(other.wait().unwrap().success());
        client.shutdown(true).unwrap();
        server.shutdown(true).unwrap();
    }
}

#[test]
fn a_client_protocol_policy_orders_otherwise() {
    let (server, ior) = server(";connection");
    let all = [(TAG_SEGMENTS, "segment"), (TAG_UNIX, "unix"), (TAG_INTERNET_IOP, "tcp")];
    let policy = |list: &[(u32, &str)]| {
        RtPolicy::ClientProtocol(list.iter().map(|&(tag, _)| Protocol::with_tag(tag)).collect())
    };
    for (first, second, third) in [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)]
        .map(|(a, b, c)| (all[a], all[b], all[c]))
    {
        for list in [&[first, second, third][..], &[first, second], &[first]] {
            assert_eq!(taken(&server, &ior, Config::default(), &[policy(list)]), first.1, "{list:?}");
        }
    }
    // A transport outside the list is not taken, though it is available.
    let rude = rude();
    let without = with_address(&ior, TAG_UNIX, &rude, &Unix::default());
    served(&server, 0);
    let client = Orb::with_config(patient()).unwrap();
    let object = Object::from_ior(&client, without).unwrap();
    let overrides = Overrides::new(&[policy(&all[1..2])]).unwrap();
    let far: EchoRef = object.with_rt_overrides(&overrides).unchecked_narrow();
    let error = far.ping().unwrap_err();
    assert!([Kind::Transient, Kind::CommFailure].contains(&error.kind), "{error}");
    assert!(server.served_connections().is_empty());
    server.shutdown(true).unwrap();
}
