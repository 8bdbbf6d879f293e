//! No real-time thread does a handshake, neither a listening nor a calling one.

mod common;

use common::authority;
use isorb_rt::sched::{SchedClass, ThreadSpec};
use isorb_tls::Tls;
use isorb_transport::{Transport, Wait};
use std::io::{IoSlice, Read};
use std::net::TcpListener;
use std::time::Duration;

const TIMEOUT: Option<Duration> = Some(Duration::from_secs(60));
/// The scheduling policy is field 41 of `stat` in proc(5).
const POLICY: usize = 41;
const ORDINARY: u32 = 0;
const FIFO: u32 = 1;

/// Policies of this process's threads with this name.
fn policies(name: &str) -> Vec<u32> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    // A thread that ended meanwhile has no files.
    let stats = tasks.flatten().filter_map(|task| std::fs::read_to_string(task.path().join("stat")).ok());
    let policy = |stat: String| {
        let (head, rest) = stat.rsplit_once(") ")?;
        let (_, named) = head.split_once(" (")?;
        let policy = rest.split(' ').nth(POLICY - 3)?.parse().ok()?;
        (named == name).then_some(policy)
    };
    stats.filter_map(policy).collect()
}

/// The policy of the thread with this name, once it exists.
fn policy_of(name: &str) -> u32 {
    for _ in 0..60_000 {
        if let [policy, ..] = policies(name)[..] {
            return policy;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("there is no thread {name}");
}

/// Runs `f` on a real-time thread with this name. Without the right to that it prints a line and
/// returns `None`.
fn in_fifo<R: Send + 'static>(name: &str, f: impl FnOnce() -> R + Send + 'static) -> Option<R> {
    match ThreadSpec::new(name).class(SchedClass::Fifo(1)).spawn(f) {
        Ok(thread) => Some(thread.join().unwrap()),
        Err(error) => {
            println!("skipped: {error}");
            None
        }
    }
}

#[test]
fn a_real_time_listener_does_handshakes_on_an_ordinary_thread() {
    let ours = authority();
    let server = Tls::new(ours.member("server").unwrap()).unwrap();
    let client = Tls::new(ours.member("client").unwrap()).unwrap();
    let Some(listener) = in_fifo("listens", move || {
        assert_eq!(policies("listens"), [FIFO], "the control: the test can tell");
        server.listen("127.0.0.1:0").unwrap()
    }) else {
        return;
    };
    assert_eq!(policy_of("isorb-tls"), ORDINARY);
    // This thread does the handshake: the client connects although no thread accepts.
    let stream = client.connect(listener.address(), TIMEOUT).unwrap();
    stream.send(&[IoSlice::new(b"x")], Wait::Block).unwrap();
    let accepted = listener.accept(Wait::Block).unwrap();
    assert_eq!(accepted.recv(&mut [0; 2], Wait::Block).unwrap(), 1);
}

#[test]
fn a_real_time_caller_waits_for_an_ordinary_thread() {
    if in_fifo("probe", || ()).is_none() {
        return;
    }
    let ours = authority();
    let client = Tls::new(ours.member("client").unwrap()).unwrap();
    // A server that sends nothing, so the handshake is under way until it closes.
    let mute = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = mute.local_addr().unwrap().to_string();
    let calling = std::thread::spawn(move || {
        in_fifo("calls", move || client.connect(&address, TIMEOUT).map(drop).unwrap_err())
    });
    let (mut accepted, _) = mute.accept().unwrap();
    // The first octet: the thread runs and has its class.
    accepted.read_exact(&mut [0]).unwrap();
    assert_eq!(policy_of("isorb-tls-call"), ORDINARY);
    assert_eq!(policy_of("calls"), FIFO);
    drop(accepted);
    calling.join().unwrap();
}
