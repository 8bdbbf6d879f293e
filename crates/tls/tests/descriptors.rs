//! No descriptor left for who connects: the door waits, and lets in who waited as soon as there are some. A process of its own, since the
//! limit is the process's.

mod common;

use common::authority;
use isorb_tls::Tls;
use isorb_transport::{Tcp, Transport, Wait};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs::File;
use std::io::IoSlice;
use std::time::Duration;

const PATIENCE: Option<Duration> = Some(Duration::from_secs(60));

/// All descriptors that are left.
fn take_all(files: &mut Vec<File>) {
    files.extend(std::iter::from_fn(|| File::open("/dev/null").ok()));
}

#[test]
fn who_waited_for_a_descriptor_is_greeted() {
    let ours = authority();
    let server = Tls::new(ours.member("server").unwrap()).unwrap();
    let client = Tls::new(ours.member("client").unwrap()).unwrap();
    let listener = server.listen("127.0.0.1:0").unwrap();
    client.connect(listener.address(), PATIENCE).unwrap();
    listener.accept(Wait::Block).unwrap();

    let usual = getrlimit(Resource::Nofile);
    let open = std::fs::read_dir("/proc/self/fd").unwrap().count() as u64;
    setrlimit(Resource::Nofile, Rlimit { current: Some(open + 20), maximum: usual.maximum }).unwrap();
    let mut files = Vec::new();
    take_all(&mut files);
    // One for the end of who connects, none for the server's.
    files.pop();
    let waiting = Tcp.connect(listener.address(), PATIENCE).unwrap();
    take_all(&mut files);
    waiting.send(&[IoSlice::new(b"this is no TLS, which has to be said")], Wait::Block).unwrap();
    waiting.set_recv_timeout(Some(Duration::from_millis(300))).unwrap();
    assert!(waiting.recv(&mut [0; 64], Wait::Block).is_err(), "nobody is there who could say so");
    drop(files);
    waiting.set_recv_timeout(PATIENCE).unwrap();
    let said = waiting.recv(&mut [0; 64], Wait::Block);
    assert!(said.is_ok(), "it was not taken in when there were descriptors: {said:?}");
    setrlimit(Resource::Nofile, usual).unwrap();
    client.connect(listener.address(), PATIENCE).unwrap();
    listener.accept(Wait::Block).unwrap();
}
