//! Without a free descriptor the listener waits, and accepts waiting clients as soon as there is
//! one. A process of its own, since the limit applies to the process.

mod common;

use common::authority;
use isorb_tls::Tls;
use isorb_transport::{Tcp, Transport, Wait};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs::File;
use std::io::IoSlice;
use std::time::Duration;

const TIMEOUT: Option<Duration> = Some(Duration::from_secs(60));

/// Takes all free descriptors.
fn take_all(files: &mut Vec<File>) {
    files.extend(std::iter::from_fn(|| File::open("/dev/null").ok()));
}

#[test]
fn a_client_that_waited_for_a_descriptor_is_accepted() {
    let ours = authority();
    let server = Tls::new(ours.member("server").unwrap()).unwrap();
    let client = Tls::new(ours.member("client").unwrap()).unwrap();
    let listener = server.listen("127.0.0.1:0").unwrap();
    client.connect(listener.address(), TIMEOUT).unwrap();
    listener.accept(Wait::Block).unwrap();

    let usual = getrlimit(Resource::Nofile);
    let open = std::fs::read_dir("/proc/self/fd").unwrap().count() as u64;
    setrlimit(Resource::Nofile, Rlimit { current: Some(open + 20), maximum: usual.maximum }).unwrap();
    let mut files = Vec::new();
    take_all(&mut files);
    // One for the client's end, none for the server's.
    files.pop();
    let waiting = Tcp.connect(listener.address(), TIMEOUT).unwrap();
    take_all(&mut files);
    waiting.send(&[IoSlice::new(b"not TLS, so an alert must follow")], Wait::Block).unwrap();
    waiting.set_recv_timeout(Some(Duration::from_millis(300))).unwrap();
    assert!(waiting.recv(&mut [0; 64], Wait::Block).is_err(), "the server has no descriptor");
    drop(files);
    waiting.set_recv_timeout(TIMEOUT).unwrap();
    let alert = waiting.recv(&mut [0; 64], Wait::Block);
    assert!(alert.is_ok(), "the server did not accept with free descriptors: {alert:?}");
    setrlimit(Resource::Nofile, usual).unwrap();
    client.connect(listener.address(), TIMEOUT).unwrap();
    listener.accept(Wait::Block).unwrap();
}
