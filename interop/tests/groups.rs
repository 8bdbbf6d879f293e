//! Groups by multicast with JacORB, as a member and as a client.
//!
//! Both join on the interface to which the machine's routes lead, since JacORB knows no other.
//! Where there is no such interface, or JacORB is not built (`interop/setup.sh jacorb`), the tests
//! say so.

use isorb::generated::*;
use isorb::{Config, Orb};
use isorb_interop::generated::interop::{Oneways, OnewaysRef};
use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

/// In one packet, and in several of either side's.
const NUMBERS: [i32; 4] = [1, 1000, 3000, 20_000];

fn jacorb() -> Option<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let build = std::env::var_os("ISORB_INTEROP_BUILD").map_or(here.join(".build"), PathBuf::from);
    let program = build.join("jacorb/groups");
    if !program.exists() {
        println!("SKIPPED: JacORB is not built; run interop/setup.sh jacorb");
        return None;
    }
    Some(program)
}

/// JacORB reads the port as the signed number that the standard's IDL has, and uses no negative
/// one.
fn url(address: &str) -> String {
    let from = 20_000 + (std::process::id() % 10_000) as u16;
    let port = (from..32_768).find(|port| UdpSocket::bind(("127.0.0.1", *port)).is_ok()).unwrap();
    format!("corbaloc:miop:1.0@1.0-interop-7/{address}:{port}")
}

/// The report of a member on a request, in the words of the other.
#[derive(Default)]
struct Hears(Mutex<Vec<String>>);

impl Hears {
    fn record(&self, line: String) {
        self.0.lock().unwrap().push(line);
    }
}

impl Oneways for Hears {
    fn add(&self, _: Upcall<'_>, amount: i32) -> isorb::Result<()> {
        self.record(format!("add {amount}"));
        Ok(())
    }
    fn send(&self, _: Upcall<'_>, data: &[u8]) -> isorb::Result<()> {
        let sum: u64 = data.iter().map(|octet| u64::from(*octet)).sum();
        self.record(format!("send {} {sum}", data.len()));
        Ok(())
    }
    fn ping(&self, _: Upcall<'_>) -> isorb::Result<()> {
        self.record("ping".into());
        Ok(())
    }
    fn total(&self, _: Upcall<'_>) -> isorb::Result<i64> {
        Ok(0)
    }
    fn reset(&self, _: Upcall<'_>) -> isorb::Result<()> {
        Ok(())
    }
}

/// The requests that a member must receive.
fn expected() -> Vec<String> {
    let of = |number: i32| {
        let sum: u64 = (0..number).map(|i| u64::from(i as u8)).sum();
        [format!("add {number}"), format!("send {number} {sum}")]
    };
    NUMBERS.into_iter().flat_map(of).chain(["ping".into()]).collect()
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        if self.0.try_wait().is_ok_and(|ended| ended.is_none()) {
            let _ = self.0.kill();
        }
        let _ = self.0.wait();
    }
}

#[test]
fn jacorb_calls_a_group_of_ours() {
    let Some(program) = jacorb() else { return };
    let url = url("239.255.80.1");
    let orb = Orb::with_config(Config::default()).unwrap();
    let root = orb.root_poa().unwrap();
    root.manager().activate().unwrap();
    let id = match root.create_id_for_reference(&orb.string_to_object(&url).unwrap()) {
        Ok(id) => id,
        Err(error) => return println!("SKIPPED: {error}"),
    };
    let hears = Arc::new(Hears::default());
    let servant = isorb::IntoServant::<OnewaysRef>::into_servant(hears.clone());
    root.activate_object_with_id(&id, servant).unwrap();
    let numbers = NUMBERS.map(|number| number.to_string());
    let end = Instant::now() + Duration::from_secs(60);
    // Packets may get lost where a machine is busy: all at least once, whole as they were.
    let mut missing = expected();
    while !missing.is_empty() {
        assert!(Instant::now() < end, "{missing:?} did not come; {:?} did", hears.0.lock().unwrap());
        let ended = Command::new(&program).args(["send", &url]).args(&numbers).status().unwrap();
        assert!(ended.success(), "JacORB's client: {ended}");
        let timeout = Instant::now() + Duration::from_secs(5);
        while !missing.is_empty() && Instant::now() < timeout {
            missing.retain(|line| !hears.0.lock().unwrap().contains(line));
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    let strange: Vec<_> = hears.0.lock().unwrap().clone();
    assert!(strange.iter().all(|line| expected().contains(line)), "{strange:?}");
    orb.shutdown(true).unwrap();
}

#[test]
fn a_group_of_jacorb_receives_from_isorb() {
    let Some(program) = jacorb() else { return };
    let url = url("239.255.80.2");
    let mut child = Command::new(&program);
    child.args(["serve", &url]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut running = Running(child.spawn().unwrap());
    let lines = BufReader::new(running.0.stdout.take().unwrap()).lines();
    let (give, received) = mpsc::channel();
    std::thread::spawn(move || lines.map_while(Result::ok).for_each(|line| _ = give.send(line)));
    let ready =
        received.recv_timeout(Duration::from_secs(60)).expect("JacORB's member did not say that it is ready");
    assert_eq!(ready, "ready");
    let orb = Orb::with_config(Config::default()).unwrap();
    let far: OnewaysRef = orb.string_to_object(&url).unwrap().unchecked_narrow();
    if let Err(error) = far.ping() {
        return println!("SKIPPED: {error:?}");
    }
    let end = Instant::now() + Duration::from_secs(60);
    let mut missing = expected();
    while !missing.is_empty() {
        assert!(Instant::now() < end, "{missing:?} did not come");
        for number in NUMBERS {
            far.add(number).unwrap();
            let data: Vec<u8> = (0..number).map(|i| i as u8).collect();
            far.send(&data).unwrap();
        }
        far.ping().unwrap();
        while let Ok(line) = received.recv_timeout(Duration::from_millis(500)) {
            assert!(expected().contains(&line), "{line}");
            missing.retain(|other| *other != line);
        }
    }
    orb.shutdown(true).unwrap();
}
