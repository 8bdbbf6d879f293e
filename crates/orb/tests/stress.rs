//! Everything at once, for a bounded number of calls: many threads, messages of many sizes,
//! time-outs, call-backs, a server that restarts. Each reply must be the right one, and nothing may
//! leak. No times are asserted.

mod common;

use common::{EchoRef, Parrot};
use isorb::{Concurrency, Config, Kind, Orb, Policies, Reference, SystemException};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

fn entries(folder: &str) -> usize {
    std::fs::read_dir(folder).unwrap().count()
}

fn settles(folder: &str, at_most: usize) {
    for _ in 0..3_000 {
        if entries(folder) <= at_most {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("{folder}: {} entries are left, there were {at_most}", entries(folder));
}

/// An ORB with an object under a plain key, and its URL.
fn serve(config: Config) -> (Orb, String) {
    let orb = Orb::with_config(config).unwrap();
    let near: EchoRef = orb.root_poa().unwrap().activate(Arc::new(Parrot::default())).unwrap();
    orb.register_corbaloc_key("Echo", near.object());
    let background = orb.clone();
    std::thread::spawn(move || background.run());
    let (host, port) = orb.endpoint_addresses().remove(0);
    (orb, format!("corbaloc::1.2@{host}:{port}/Echo"))
}

/// The possible exceptions of a call while its server restarts.
fn excused(error: &SystemException) -> bool {
    matches!(
        error.kind,
        Kind::Transient | Kind::CommFailure | Kind::ObjectNotExist | Kind::Timeout | Kind::ObjAdapter
    )
}

struct Client<'a> {
    seed: u32,
    echo: &'a EchoRef,
    near: &'a EchoRef,
    /// The server stays up: every call must succeed.
    steady: bool,
    good: &'a AtomicU32,
}

impl Client<'_> {
    fn next(&mut self, below: u32) -> u32 {
        self.seed = self.seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.seed >> 8) % below
    }

    fn call(&mut self) {
        let result = match self.next(10) {
            0..=3 => self.text(),
            4..=6 => self.octets(),
            7 => self.echo.call_back(Some(self.near)).map(|text| assert_eq!(text, "from the servant")),
            8 => self.impatient(),
            _ => self.echo.feed(&[1; 100]),
        };
        match result {
            Ok(()) => _ = self.good.fetch_add(1, Ordering::Relaxed),
            Err(error) => assert!(!self.steady && excused(&error), "{error}"),
        }
    }

    fn text(&mut self) -> Result<(), SystemException> {
        let text = format!("call {}", self.next(1 << 20));
        self.echo.text(&text).map(|same| assert_eq!(same, text))
    }

    fn octets(&mut self) -> Result<(), SystemException> {
        let n = 1 << self.next(19);
        let first = self.next(256);
        let octets: Vec<u8> = (0..n).map(|i: u32| (first + i * 7) as u8).collect();
        self.echo.object().orb().scope(|scope| {
            assert!(self.echo.octets_in(scope, &octets)? == octets, "{n} octets came back changed");
            Ok(())
        })
    }

    /// May end in TIMEOUT; the late reply must not disturb another call.
    fn impatient(&mut self) -> Result<(), SystemException> {
        let round_trip_timeout = Some(Duration::from_millis(3));
        let echo = self.echo.with_policies(Policies { round_trip_timeout, ..Policies::default() });
        let ms = self.next(6);
        match echo.sleep(ms) {
            Ok(slept) => assert_eq!(slept, ms),
            Err(error) if error.kind == Kind::Timeout => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

fn run(config: &Config, steady: bool) {
    let Config { concurrency, bidirectional, connections_per_server, .. } = config;
    println!(
        "{concurrency:?}, bidirectional {bidirectional}, {connections_per_server} connections, steady {steady}"
    );
    let (server, url) = serve(config.clone());
    let (client, _) = serve(config.clone());
    let echo: EchoRef = client.string_to_object(&url).unwrap().unchecked_narrow();
    let near: EchoRef = client.root_poa().unwrap().activate(Arc::new(Parrot::default())).unwrap();
    let (good, done) = (AtomicU32::new(0), AtomicBool::new(false));
    let server = std::thread::scope(|threads| {
        let callers: Vec<_> = (0..6)
            .map(|seed| {
                let mut caller = Client { seed, echo: &echo, near: &near, steady, good: &good };
                threads.spawn(move || (0..150).for_each(|_| caller.call()))
            })
            .collect();
        let restarts = threads.spawn(|| {
            let mut server = server;
            while !steady && !done.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(20));
                let (host, port) = server.endpoint_addresses().remove(0);
                server.shutdown(true).unwrap();
                server = serve(Config { endpoints: vec![format!("{host}:{port}")], ..config.clone() }).0;
            }
            server
        });
        callers.into_iter().for_each(|caller| caller.join().unwrap());
        done.store(true, Ordering::Relaxed);
        restarts.join().unwrap()
    });
    // After all that it works as before.
    assert_eq!(echo.text("calm").unwrap(), "calm");
    assert!(good.load(Ordering::Relaxed) > 0);
    client.shutdown(true).unwrap();
    server.shutdown(true).unwrap();
}

#[test]
fn everything_at_once() {
    // Its thread stays for the life of the process.
    isorb_rt::log::prepare();
    let before = (entries("/proc/self/fd"), entries("/proc/self/task"));
    for concurrency in [Concurrency::Connection, Concurrency::Lane] {
        for bidirectional in [false, true] {
            for connections_per_server in [1, 4] {
                for steady in [true, false] {
                    // A servant that calls back waits in its lane for another call to be served, so
                    // there are more threads than callers.
                    let config = Config {
                        concurrency,
                        bidirectional,
                        connections_per_server,
                        lane_threads: 8,
                        round_trip_timeout_ms: 20_000,
                        ..Config::default()
                    };
                    run(&config, steady);
                    settles("/proc/self/task", before.1);
                    settles("/proc/self/fd", before.0);
                }
            }
        }
    }
}
