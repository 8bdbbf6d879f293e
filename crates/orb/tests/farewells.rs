//! A server that shuts down while its clients read no replies: it waits for all of them together,
//! not for one after the other.

mod common;

use common::{Echo, EchoRef};
use isorb::generated::*;
use isorb::{Config, Orb};
use isorb_cdr::{Encoder, Text};
use isorb_giop::message::{self, Response};
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// Only for the end of a failing test. A server that waited for each client in turn would take
/// longer.
const TIMEOUT: Duration = Duration::from_secs(60);
const CLIENTS: usize = 75;
/// Octets of a reply: more than a socket's buffers.
const REPLY: usize = 2 << 20;

struct Talker {
    reply: Vec<u8>,
    requested: AtomicUsize,
}

impl Echo for Talker {
    fn octets<'u>(&'u self, _: Upcall<'u>, _: &'u [u8]) -> Result<&'u [u8]> {
        self.requested.fetch_add(1, Ordering::SeqCst);
        Ok(&self.reply)
    }
}

/// A request for `octets` with an empty sequence.
fn request(key: &[u8]) -> Vec<u8> {
    let mut e = Encoder::new(Vec::new(), Text::DEFAULT);
    message::write_request(&mut e, 1, Response::Target, key, "octets", &[]);
    let body = message::begin_body(&mut e);
    e.put(0u32);
    message::end_body(&mut e, body);
    let message = e.finished().unwrap();
    message::finish_header(message).unwrap();
    message.pieces().flatten().copied().collect()
}

#[test]
fn clients_that_do_not_read_are_waited_for_together() {
    let endpoints = vec!["127.0.0.1:0".into(), "unix:;lane=1".into()];
    let server = Orb::with_config(Config { endpoints, ..Config::default() }).unwrap();
    let talker = Arc::new(Talker { reply: vec![1; REPLY], requested: AtomicUsize::new(0) });
    let near: EchoRef = server.root_poa().unwrap().activate(talker.clone()).unwrap();
    let background = server.clone();
    let run = std::thread::spawn(move || background.run());
    let key = near.object().ior().iiop_profiles().flatten().next().unwrap().key;
    let (_, path) = server.endpoint_names().into_iter().find(|(name, _)| *name == "unix").unwrap();

    let request = request(&key);
    let call = |_| {
        let mut client = UnixStream::connect(&path).unwrap();
        client.write_all(&request).unwrap();
        client
    };
    let clients: Vec<_> = (0..CLIENTS).map(call).collect();
    let began = std::time::Instant::now();
    while talker.requested.load(Ordering::SeqCst) < CLIENTS {
        assert!(
            began.elapsed() < TIMEOUT,
            "{} of {CLIENTS} were asked",
            talker.requested.load(Ordering::SeqCst)
        );
        std::thread::yield_now();
    }
    let (done, ended) = mpsc::channel();
    let ending = server.clone();
    std::thread::spawn(move || done.send(ending.shutdown(true)));
    ended.recv_timeout(TIMEOUT).expect("not a second for each client").unwrap();
    drop(clients);
    run.join().unwrap();
}
