//! Calls that time out while signals of the program arrive more often than the time-out. A process
//! of its own, because it has a signal handler.

mod common;

use common::EchoRef;
use common::fake::Fake;
use isorb::{Config, Kind, Policies, Reference, SystemException};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// The duration of the calls, and the period of the signals.
const LIMIT: Duration = Duration::from_millis(300);
const INTERVAL: Duration = Duration::from_millis(20);
/// Only for the end of a failing test.
const TIMEOUT: Duration = Duration::from_secs(60);

extern "C" fn nothing(_: libc::c_int) {}

/// Lets SIGUSR1 end system calls, as a profiler's signal may.
fn install_handler() {
    let handler: extern "C" fn(libc::c_int) = nothing;
    // SAFETY: all zero is an action without flags; the handler does nothing.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as libc::sighandler_t;
        assert_eq!(libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut()), 0);
    }
}

/// The exception of a call while signals arrive.
fn under_signals(call: impl FnOnce() -> Result<(), SystemException> + Send) -> SystemException {
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        let calling = scope.spawn(move || {
            // SAFETY: a thread may ask for its own handle.
            sender.send(unsafe { libc::pthread_self() }).unwrap();
            call().unwrap_err()
        });
        let thread = receiver.recv().unwrap();
        let end = Instant::now() + TIMEOUT;
        while !calling.is_finished() && Instant::now() < end {
            // SAFETY: the thread has not been joined.
            assert_eq!(unsafe { libc::pthread_kill(thread, libc::SIGUSR1) }, 0);
            std::thread::sleep(INTERVAL);
        }
        assert!(calling.is_finished(), "signals give the peer more and more time");
        calling.join().unwrap()
    })
}

#[test]
fn signals_do_not_put_a_time_out_off() {
    install_handler();
    // The kernel accepts the connection; nothing reads or answers.
    let fake = Fake::new();
    let echo = fake.object(Config::default());
    let policies = Policies { round_trip_timeout: Some(LIMIT), ..Policies::default() };
    let echo: EchoRef = echo.with_policies(policies);
    let start = Instant::now();
    let silent = under_signals(|| echo.ping());
    assert_eq!(silent.kind, Kind::Timeout, "{silent}");
    assert!(start.elapsed() >= LIMIT);
    // More than the socket's buffers, so that the sender waits.
    let many = vec![0; 12 << 20];
    let full = under_signals(|| echo.object().orb().scope(|scope| echo.octets_in(scope, &many).map(drop)));
    assert_eq!(full.kind, Kind::Timeout, "{full}");
}
