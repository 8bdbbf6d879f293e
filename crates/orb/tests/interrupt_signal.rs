//! The signal that ends a call at its time-out, with callers that block it or decide about it. A process of its own, since it is the
//! process's.

mod common;

use common::EchoRef;
use common::fake::{Fake, read, reply};
use isorb::{Completion, Config, Kind, Orb, Policies};
use std::io::Write;
use std::time::Duration;

fn within(echo: &EchoRef, ms: u64) -> EchoRef {
    let round_trip_timeout = Some(Duration::from_millis(ms));
    echo.with_policies(Policies { round_trip_timeout, ..Policies::default() })
}

/// Blocks all signals in this thread.
fn block_all() {
    // SAFETY: the set is filled before it is used.
    unsafe {
        let mut all = std::mem::zeroed();
        libc::sigfillset(&mut all);
        assert_eq!(libc::pthread_sigmask(libc::SIG_BLOCK, &all, std::ptr::null_mut()), 0);
    }
}

#[test]
fn a_caller_that_blocks_the_signal_has_its_time_out_and_then_another_connection() {
    let fake = Fake::new();
    let echo = fake.object(Config::default());
    std::thread::scope(|threads| {
        let caller = threads.spawn(|| {
            // The first call lets the signal through.
            within(&echo, 60_000).ping().unwrap();
            block_all();
            let late = within(&echo, 150).ping().unwrap_err();
            assert_eq!((late.kind, late.completed), (Kind::Timeout, Completion::Maybe));
            within(&echo, 60_000).ping().unwrap();
        });
        let mut first = fake.accept();
        let id = read(&mut first).unwrap();
        first.write_all(&reply(id)).unwrap();
        assert!(read(&mut first).is_some(), "the call that gets no answer");
        let mut second = fake.accept();
        let id = read(&mut second).unwrap();
        second.write_all(&reply(id)).unwrap();
        caller.join().unwrap();
    });
}

#[test]
fn the_signal_is_configured() {
    let orb = |value: &str| Orb::init(["-ORBInterruptSignal", value].map(String::from));
    for wrong in ["10", "yes", "1000"] {
        let error = orb(wrong).unwrap_err();
        let text = error.to_string();
        assert_eq!(error.kind, Kind::BadParam);
        assert!(text.contains("interrupt_signal") && text.contains(wrong) && text.contains("none"), "{text}");
    }
    // `none` is not decided here: it would be for the other test as well.
    orb("auto").unwrap().shutdown(true).unwrap();
}
