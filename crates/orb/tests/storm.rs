//! Many silent connections, and a lack of descriptors, at endpoints and at lanes: clients in
//! service continue, others connect again later, and nothing leaks. One test in a process of its
//! own, because counts and limits are those of the process.

mod common;

use common::raw::Raw;
use common::rt::{lane, poa};
use common::{EchoRef, Parrot, pair_with};
use isorb::poa::PoaPolicies;
use isorb::rt::ThreadpoolOptions;
use isorb::rt::policy::PriorityModel::ServerDeclared;
use isorb::{Concurrency, Config, Orb, Reference};
use isorb_testkit::TempFolder;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use socket2::{Domain, SockAddr, Socket, Type};
use std::fs::File;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

fn entries(folder: &str) -> usize {
    std::fs::read_dir(folder).unwrap().count()
}

/// Mappings of segments.
fn mappings() -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines().filter(|line| line.contains("isorb-segment")).count()
}

fn held() -> [usize; 3] {
    // Its thread stays for the life of the process, whichever record comes first.
    isorb_rt::log::prepare();
    [entries("/proc/self/fd"), entries("/proc/self/task"), mappings()]
}

/// Waits until at most this much is held.
fn settles(at_most: [usize; 3]) {
    for _ in 0..3_000 {
        if held().iter().zip(at_most).all(|(now, most)| *now <= most) {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("descriptors, threads, segments: {:?} are left, there were {at_most:?}", held());
}

/// The part that serves.
#[derive(Clone, Copy, PartialEq)]
enum By {
    Endpoint(Concurrency),
    /// A lane of a thread pool.
    Lane,
}

/// A server, its client, its object for the client, and the address for further connections.
struct Served {
    server: Orb,
    client: Orb,
    echo: EchoRef,
    at: (Type, SockAddr),
}

impl Served {
    fn new(protocol: &str, by: By, folder: &Path) -> Served {
        let endpoints = vec![if protocol == "tcp" { "127.0.0.1:0".into() } else { format!("{protocol}:") }];
        let usual = Config { max_connections: 32, ..Config::default() };
        let kind = if protocol == "segment" { Type::SEQPACKET } else { Type::STREAM };
        let By::Endpoint(concurrency) = by else {
            let (server, client) =
                (Orb::with_config(usual).unwrap(), Orb::with_config(Config::default()).unwrap());
            server.root_poa().unwrap().manager().activate().unwrap();
            let path = folder.join(protocol);
            let wanted = match protocol {
                "tcp" => lane(0, 1),
                _ => lane(0, 1).local_endpoint(format!("{protocol}:{}", path.display())),
            };
            let pool =
                server.rt().create_threadpool_with_lanes(&[wanted], &ThreadpoolOptions::default()).unwrap();
            let policies = PoaPolicies::new().threadpool(pool).priority_model(ServerDeclared, 0);
            let near: EchoRef =
                poa(&server, "laned", policies).activate(Arc::new(Parrot::default())).unwrap();
            let echo = client.resolve(&near.object().to_string()).unwrap();
            let at = match protocol {
                "tcp" => {
                    let (host, port) = server.rt().threadpool_status(pool).unwrap()[0].address.clone();
                    SocketAddr::new(host.parse().unwrap(), port).into()
                }
                _ => SockAddr::unix(path).unwrap(),
            };
            return Served { server, client, echo, at: (kind, at) };
        };
        let config = Config { endpoints, concurrency, ..usual };
        let (server, client, echo, _) = pair_with(config, Config::default());
        let (_, at) = server.endpoint_names().remove(0);
        let at = match protocol {
            "tcp" => at.parse::<SocketAddr>().unwrap().into(),
            _ => SockAddr::unix(at).unwrap(),
        };
        Served { server, client, echo, at: (kind, at) }
    }

    /// A connection that sends nothing.
    fn silent(&self) -> std::io::Result<Socket> {
        let (kind, address) = &self.at;
        let domain = if address.is_unix() { Domain::UNIX } else { Domain::IPV4 };
        let socket = Socket::new(domain, *kind, None)?;
        socket.connect(address)?;
        Ok(socket)
    }
}

fn another(echo: &EchoRef) -> (Orb, EchoRef) {
    let orb = Orb::with_config(Config { round_trip_timeout_ms: 60_000, ..Config::default() }).unwrap();
    let far = orb.resolve(&echo.object().to_string()).unwrap();
    (orb, far)
}

/// Calls until it succeeds: a new connection may be closed while all others are new as well.
fn gets_in(echo: &EchoRef) -> Orb {
    let (orb, far) = another(echo);
    for _ in 0..3_000 {
        if far.ping().is_ok() {
            return orb;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("a newcomer never gets in: {:?}", far.ping());
}

fn storm(protocol: &str, by: By, folder: &Path) {
    let served = Served::new(protocol, by, folder);
    let echo = &served.echo;
    echo.ping().unwrap();
    let before = held();

    // Many more connections than the limit allows, and they stay open.
    let mut crowd: Vec<Socket> = Vec::new();
    for i in 0..200 {
        crowd.extend(served.silent());
        if i % 20 == 0 {
            echo.ping().unwrap();
        }
    }
    echo.ping().unwrap();
    drop(gets_in(echo));
    echo.ping().unwrap();
    drop(crowd);
    settles(before);

    let usual = getrlimit(Resource::Nofile);
    let few = entries("/proc/self/fd") as u64 + 40;
    setrlimit(Resource::Nofile, Rlimit { current: Some(few), maximum: usual.maximum }).unwrap();
    clients_take_all_descriptors(&served);
    settles(before);
    if protocol == "tcp" {
        files_take_all_descriptors(&served);
    }
    setrlimit(Resource::Nofile, usual).unwrap();
    echo.ping().unwrap();
    settles(before);
    served.server.shutdown(true).unwrap();
    served.client.shutdown(true).unwrap();
}

/// Descriptors run out: clients of this process connect until none is left.
fn clients_take_all_descriptors(served: &Served) {
    let mut crowd: Vec<Socket> = Vec::new();
    while let Ok(one) = served.silent() {
        crowd.push(one);
        assert!(crowd.len() < 1000, "the limit is not reached");
    }
    assert!(!crowd.is_empty());
    std::thread::sleep(Duration::from_millis(100));
    served.echo.ping().unwrap();
    drop(crowd);
    let newcomer = gets_in(&served.echo);
    newcomer.shutdown(true).unwrap();
}

/// Other code holds the descriptors: a new connection waits until some are free again, and is then
/// served without any other connect, call or close.
fn files_take_all_descriptors(served: &Served) {
    let mut files: Vec<File> = Vec::new();
    files.extend(std::iter::from_fn(|| File::open("/dev/null").ok()));
    // One for the client's end, none for the server's.
    files.pop();
    let mut newcomer = Raw::connect(served.echo.object());
    files.extend(std::iter::from_fn(|| File::open("/dev/null").ok()));
    newcomer.send("ping", &[]);
    std::thread::sleep(Duration::from_millis(100));
    drop(files);
    assert_eq!(newcomer.receive().status, 0);
}

#[test]
fn established_clients_do_not_suffer() {
    let folder = TempFolder::new();
    // Permanent mappings, such as the clock's page, are not counted.
    let before = held();
    for protocol in ["tcp", "unix", "segment"] {
        for by in [By::Endpoint(Concurrency::Connection), By::Endpoint(Concurrency::Lane), By::Lane] {
            storm(protocol, by, folder.path());
        }
    }
    settles([before[0] + 2, before[1] + 1, before[2]]);
}
