//! Calls over TLS to a server that does not read. TLS cannot take encrypted data back: after a send
//! time-out the exception says that the request may have been sent, and nothing of it is sent
//! later.

mod common;

#[allow(missing_docs)]
mod generated {
    isorb::include_idl!("gate");
}

use common::{authority, orb_with};
use generated::gates::{Gate, GateRef};
use isorb::{Completion, Config, Kind, Orb, Policies, Reference, Result, Upcall};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// Longer than any wait here.
const TIMEOUT: Duration = Duration::from_secs(60);
/// More messages than the sockets' buffers.
const NOTES: u32 = 4096;
/// Octets of each: less than TLS encrypts at a time.
const FILLER: usize = 60_000;
/// So long that its receiver needs many receives.
const REPLY: usize = 1 << 20;

#[derive(Default)]
struct Porter {
    inside: AtomicBool,
    open: (Mutex<bool>, Condvar),
    reply: Vec<u8>,
}

impl Porter {
    fn let_through(&self) {
        *self.open.0.lock().unwrap() = true;
        self.open.1.notify_all();
    }
}

impl Gate for Porter {
    fn pass(&self, _: Upcall<'_>) -> Result<&[u8]> {
        self.inside.store(true, Ordering::SeqCst);
        let closed = self.open.0.lock().unwrap();
        drop(self.open.1.wait_timeout_while(closed, TIMEOUT, |open| !*open).unwrap());
        Ok(&self.reply)
    }

    fn note<'u>(&'u self, _: Upcall<'u>, _: u32, _: &'u [u8]) -> Result<()> {
        Ok(())
    }
}

#[test]
fn what_was_refused_may_have_been_executed() {
    let ours = authority("refused");
    let endpoints = vec!["giop:ssl:127.0.0.1:0;connection".into()];
    let server = orb_with(ours.member("server").unwrap(), Config { endpoints, ..Config::default() });
    let porter = Arc::new(Porter { reply: vec![7; REPLY], ..Porter::default() });
    let near: GateRef = server.root_poa().unwrap().activate(porter.clone()).unwrap();
    let background = server.clone();
    std::thread::spawn(move || background.run());
    let config = Config { endpoints: Vec::new(), connections_per_server: 1, ..Config::default() };
    let client: Orb = orb_with(ours.member("client").unwrap(), config);
    let gate: GateRef = client.resolve(&near.object().to_string()).unwrap();

    std::thread::scope(|threads| {
        let other = threads.spawn(|| gate.pass().map(|reply| reply.len()));
        while !porter.inside.load(Ordering::SeqCst) {
            assert!(!other.is_finished(), "{:?}", other.join());
            std::thread::yield_now();
        }
        // The server reads nothing while an upcall is inside.
        let round_trip_timeout = Some(Duration::from_secs(3));
        let hasty = gate.object().with_policies(Policies { round_trip_timeout, ..Policies::default() });
        let hasty: GateRef = hasty.unchecked_narrow();
        let filler = vec![1; FILLER];
        let refused =
            (1..NOTES).find_map(|number| hasty.note(number, &filler).err().map(|why| (number, why)));
        let (number, late) = refused.expect("sockets hold less");
        let other = other.join().unwrap();
        porter.let_through();
        // Once a part of the message is on its way, no other call can use the connection.
        assert_eq!((late.kind, late.completed), (Kind::Timeout, Completion::Maybe), "note {number}");
        let other = other.unwrap_err();
        assert_eq!((other.kind, other.completed), (Kind::CommFailure, Completion::Maybe));
    });
    assert_eq!(gate.pass().unwrap().len(), REPLY);
    client.shutdown(true).unwrap();
    server.shutdown(true).unwrap();
}
