//! What every transport must do, as tests: written once, run for each.
//!
//! A transport inside or outside this crate is tested by one line beside it, with this crate's
//! feature `conformance` among its dev-dependencies:
//!
//! ```ignore
//! isorb_transport::transport_conformance!(tcp, || (Box::new(Tcp), "127.0.0.1:0".into()));
//! ```
//!
//! The closure gives the transport and an address to listen at; it is called anew for each test.
//! Only the harness's time-out bounds a test: none asserts that an operation is fast.

mod bytes;
mod closing;
mod death;
mod many;
mod waiting;

pub use bytes::*;
pub use closing::*;
pub use death::*;
pub use many::*;
pub use waiting::*;

use crate::{Listener, Stream, Transport, Wait};
use std::io::{self, IoSlice};
use std::time::Duration;

/// A transport, and an address to listen at.
pub type Subject = (Box<dyn Transport>, String);

/// Makes a subject for one test.
pub type Make<'a> = &'a dyn Fn() -> Subject;

/// So long a test waits for what must happen.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// Makes a module of tests, one for each rule.
///
/// Where a machine may be without what the transport needs, `unless` and a function come third:
/// what the function gives, if it gives something, is why all tests are skipped.
#[macro_export]
macro_rules! transport_conformance {
    ($name:ident, $make:expr) => {
        $crate::transport_conformance!($name, $make, unless || None::<String>);
    };
    ($name:ident, $make:expr, unless $missing:expr) => {
        mod $name {
            #[allow(unused_imports)]
            use super::*;
            $crate::transport_conformance!(@ $make, $missing, ();
                bytes_cross_in_order, tiny_and_huge_messages, both_directions_at_once,
                nothing_there_does_not_block, a_receive_times_out, back_pressure_and_relief,
                a_send_times_out, a_poller_reports_everything, a_poller_reports_room,
                what_was_sent_before_the_end_arrives, last_octets_arrive_before_the_end, dropping_is_an_end, an_end_is_of_both_directions, a_blocked_receive_ends,
                a_blocked_send_ends, closing_ends_accept, no_listener_is_there, no_acceptor_takes_it,
                connections_are_independent, shutdown_under_load, many_connections_one_after_the_other);
            // With a process of their own, which is this program again.
            $crate::transport_conformance!(@ $make, $missing, (module_path!());
                the_peer, a_killed_peer_leaves_exactly_what_it_sent, a_killed_peer_ends_a_blocked_receive,
                a_killed_peer_ends_a_blocked_send, a_killed_peer_is_no_slow_one);
        }
    };
    (@ $make:expr, $missing:expr, $more:tt; $($rule:ident),*) => {
        $($crate::transport_conformance!(@@ $make, $missing, $more, $rule);)*
    };
    (@@ $make:expr, $missing:expr, ($($more:expr)?), $rule:ident) => {
        #[test]
        fn $rule() {
            if let Some(missing) = $missing() {
                return println!("skipped: {missing}");
            }
            $crate::conformance::$rule(&$make $(, $more)?);
        }
    };
}

/// A listener and a connection to it: the side that opened it, then the side that accepted it.
pub fn pair(make: Make<'_>) -> (Box<dyn Listener>, Box<dyn Stream>, Box<dyn Stream>) {
    let (transport, address) = make();
    let listener = transport.listen(&address).expect("a free address can be listened at");
    let (near, far) = connect(&*transport, &*listener);
    (listener, near, far)
}

/// A further connection. The accepting side receives meanwhile, which a transport may need for its
/// handshake.
pub fn connect(transport: &dyn Transport, listener: &dyn Listener) -> (Box<dyn Stream>, Box<dyn Stream>) {
    std::thread::scope(|scope| {
        let opening = scope.spawn(|| transport.connect(listener.address(), Some(TIMEOUT)));
        let far = listener.accept(Wait::Block).expect("the connection is accepted");
        while !opening.is_finished() {
            match far.recv(&mut [0], Wait::No) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::yield_now(),
                other => panic!("nothing was sent, and yet: {other:?}"),
            }
        }
        (opening.join().expect("no panic").expect("a listener can be connected to"), far)
    })
}

/// Sends everything, waiting, whatever signals come.
pub fn send_all(stream: &dyn Stream, bytes: &[u8]) -> io::Result<()> {
    let mut sent = 0;
    while sent < bytes.len() {
        match stream.send(&[IoSlice::new(&bytes[sent..])], Wait::Block) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            took => sent += took?,
        }
    }
    Ok(())
}

/// Receives exactly `n` bytes, in pieces of at most `piece`, even if signals arrive.
pub fn receive(stream: &dyn Stream, n: usize, piece: usize) -> io::Result<Vec<u8>> {
    let mut all = vec![0; n];
    let mut filled = 0;
    while filled < n {
        let end = n.min(filled + piece);
        match stream.recv(&mut all[filled..end], Wait::Block) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            got => filled += got?,
        }
    }
    Ok(all)
}

/// Bytes that differ from place to place, so that a lost or doubled one shows.
pub fn pattern(n: usize, seed: u64) -> Vec<u8> {
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        (x >> 32) as u8
    };
    (0..n).map(|_| next()).collect()
}

fn would_block(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}
