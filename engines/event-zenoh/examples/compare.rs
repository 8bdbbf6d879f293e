//! Events between two channels over zenoh, beside zenoh's own publisher and subscriber, through the
//! same two routers in one run. The subjects take turns; a ratio is the median of those of the
//! rounds. A second pair of zenoh is the control: its ratio to the first is noise.
//!
//! ```text
//! cargo run --release --example compare [ROUNDS]
//! ```

use isorb_event::{Channel, ConsumerQos, Event, Filter, ProxyPushConsumer, ProxyPushSupplier};
use isorb_event_zenoh::{Gateway, Router, Settings};
use std::error::Error;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::{Duration, Instant};
use zenoh::pubsub::{Publisher, Subscriber};
use zenoh::qos::{CongestionControl, Priority};
use zenoh::{Session, Wait};

const SIZES: [usize; 2] = [64, 1024];
/// Events of a round that measures the rate, and the most that are under way.
const EVENTS: u64 = 50_000;
const WINDOW: u64 = 2_048;
/// Events of a round that measures times, one at a time.
const SINGLE: u64 = 500;

type Result<T, E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

/// Sends events of a size, and counts those that arrive.
trait Subject {
    fn name(&self) -> &'static str;
    fn send(&self, octets: &[u8]);
    fn arrived(&self) -> u64;
}

struct Zenoh {
    name: &'static str,
    publisher: Publisher<'static>,
    arrived: Arc<AtomicU64>,
    _subscriber: Subscriber<()>,
    _sessions: [Session; 2],
}

impl Zenoh {
    fn new(name: &'static str, routers: &[String; 2]) -> Result<Zenoh> {
        let open = |router: &String| -> Result<Session> {
            let mut config = zenoh::Config::default();
            for (path, value) in [
                ("mode", "\"client\"".to_string()),
                ("connect/endpoints", format!("[\"{router}\"]")),
                ("scouting/multicast/enabled", "false".into()),
            ] {
                config.insert_json5(path, &value)?;
            }
            zenoh::open(config).wait()
        };
        let sessions = [open(&routers[0])?, open(&routers[1])?];
        let arrived = Arc::new(AtomicU64::new(0));
        let count = arrived.clone();
        let key = format!("{name}/20/1");
        let subscriber = sessions[1].declare_subscriber(key.clone());
        let subscriber = subscriber.callback(move |_| _ = count.fetch_add(1, Release)).wait()?;
        let publisher = sessions[0].declare_publisher(key).priority(Priority::Background);
        let publisher = publisher.congestion_control(CongestionControl::Block).wait()?;
        Ok(Zenoh { name, publisher, arrived, _subscriber: subscriber, _sessions: sessions })
    }
}

impl Subject for Zenoh {
    fn name(&self) -> &'static str {
        self.name
    }
    fn send(&self, octets: &[u8]) {
        self.publisher.put(octets).wait().expect("the session is open");
    }
    fn arrived(&self) -> u64 {
        self.arrived.load(Acquire)
    }
}

struct Isorb {
    supplier: ProxyPushConsumer,
    arrived: Arc<AtomicU64>,
    gateways: [Gateway; 2],
    _consumer: ProxyPushSupplier,
}

impl Isorb {
    fn new(routers: &[String; 2]) -> Result<Isorb> {
        let channels = [Channel::builder().build()?, Channel::builder().build()?];
        let start = |at: usize, site: &str| {
            Gateway::start(&channels[at], Settings::new("compare", site, vec![routers[at].clone()]))
        };
        let gateways = [start(0, "near")?, start(1, "far")?];
        let arrived = Arc::new(AtomicU64::new(0));
        let count = arrived.clone();
        let consumer = move |events: &[Event<'_>]| _ = count.fetch_add(events.len() as u64, Release);
        let qos = ConsumerQos::new("compare", Filter::of(20, 1));
        let consumer = channels[1].for_consumers().connect(Arc::new(consumer), qos)?;
        let supplier = channels[0].for_suppliers().connect()?;
        Ok(Isorb { supplier, arrived, gateways, _consumer: consumer })
    }
}

impl Subject for Isorb {
    fn name(&self) -> &'static str {
        "isorb"
    }
    fn send(&self, octets: &[u8]) {
        self.supplier.push(&Event::new(20, 1).octets(octets));
    }
    fn arrived(&self) -> u64 {
        self.arrived.load(Acquire)
    }
}

/// Sends until an event arrives, and waits until no more arrive.
fn warm_up(subject: &dyn Subject) {
    while subject.arrived() == 0 {
        subject.send(&[0; 64]);
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut before = 0;
    while before != subject.arrived() {
        before = subject.arrived();
        std::thread::sleep(Duration::from_millis(300));
    }
}

/// Events a second, with a window of events under way.
fn rate(subject: &dyn Subject, octets: &[u8]) -> f64 {
    let (before, start) = (subject.arrived(), Instant::now());
    for sent in 0..EVENTS {
        while sent - (subject.arrived() - before) >= WINDOW {
            std::thread::sleep(Duration::from_micros(50));
        }
        subject.send(octets);
    }
    while subject.arrived() - before < EVENTS {
        std::thread::sleep(Duration::from_micros(50));
    }
    EVENTS as f64 / start.elapsed().as_secs_f64()
}

/// From the push to the consumer, in us: the median and the 99th percentile. The thread that waits
/// yields, so that it takes no processor from the others.
fn times(subject: &dyn Subject, octets: &[u8]) -> (f64, f64) {
    let mut all: Vec<f64> = (0..SINGLE)
        .map(|_| {
            std::thread::sleep(Duration::from_micros(500));
            let (before, start) = (subject.arrived(), Instant::now());
            subject.send(octets);
            while subject.arrived() == before {
                std::thread::yield_now();
            }
            start.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    all.sort_by(f64::total_cmp);
    (all[all.len() / 2], all[all.len() * 99 / 100])
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

/// A router as a process of this program.
fn router(listen: &str, other: Option<&str>) -> Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["router", listen]).args(other).stdout(Stdio::piped()).stdin(Stdio::piped());
    let mut child = command.spawn()?;
    let mut line = String::new();
    BufReader::new(child.stdout.take().ok_or("no output")?).read_line(&mut line)?;
    if line.trim() == "READY" { Ok(child) } else { Err("the router does not start".into()) }
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [role, listen, others @ ..] = &arguments[..]
        && role == "router"
    {
        let _router = Router::start(std::slice::from_ref(listen), others)?;
        println!("READY");
        // Until the other process ends.
        let _ = std::io::stdin().lines().count();
        return Ok(());
    }
    let rounds = arguments.first().map_or(Ok(9), |rounds| rounds.parse::<usize>())?;
    let port =
        || -> Result<String> { Ok(format!("tcp/{}", TcpListener::bind("127.0.0.1:0")?.local_addr()?)) };
    let addresses = [port()?, port()?];
    let mut routers = [router(&addresses[0], None)?, router(&addresses[1], Some(&addresses[0]))?];
    let isorb = Isorb::new(&addresses)?;
    let [zenoh, again] = [Zenoh::new("zenoh", &addresses)?, Zenoh::new("zenoh-again", &addresses)?];
    let subjects: [&dyn Subject; 3] = [&zenoh, &again, &isorb];
    subjects.iter().for_each(|subject| warm_up(*subject));
    println!(
        "{:>6} {:>11} {:>9} {:>9} {:>9} {:>7} {:>7} {:>7}",
        "octets", "", "events/s", "p50 us", "p99 us", "rate", "p50", "p99"
    );
    for size in SIZES {
        let octets = vec![7; size];
        let measured: Vec<[[f64; 3]; 3]> = (0..rounds)
            .map(|_| {
                subjects.map(|subject| {
                    let rate = rate(subject, &octets);
                    let (median, tail) = times(subject, &octets);
                    [rate, median, tail]
                })
            })
            .collect();
        for (at, subject) in subjects.iter().enumerate() {
            let of = |value: usize| median(measured.iter().map(|round| round[at][value]).collect());
            let ratio = |value: usize| {
                median(measured.iter().map(|round| round[at][value] / round[0][value]).collect())
            };
            let [rate, p50, p99] = [0, 1, 2].map(of);
            let [by_rate, by_p50, by_p99] = [0, 1, 2].map(ratio);
            println!(
                "{size:>6} {:>11} {rate:>9.0} {p50:>9.1} {p99:>9.1} {by_rate:>7.2} {by_p50:>7.2} {by_p99:>7.2}",
                subject.name()
            );
        }
    }
    println!("sender {:?}", isorb.gateways[0].counts());
    println!("receiver {:?}", isorb.gateways[1].counts());
    for router in &mut routers {
        drop(router.stdin.take());
        router.wait()?;
    }
    Ok(())
}
