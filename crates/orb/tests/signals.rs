//! Calls whose time runs out under signals of the program's own, which come more often than the time-out. A process of its own, since it has a
//! handler, and decides that the kernel keeps the time of receives.

mod common;

use common::EchoRef;
use common::fake::Fake;
use isorb::{Config, Kind, Policies, Reference, SystemException};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// How long the calls may take, and how often signals come.
const LIMIT: Duration = Duration::from_millis(300);
const EACH: Duration = Duration::from_millis(20);
/// Only so that a failing test ends.
const PATIENCE: Duration = Duration::from_secs(60);

extern "C" fn nothing(_: libc::c_int) {}

/// Has SIGUSR1 end system calls, as a profiler's signal may.
fn handle() {
    let handler: extern "C" fn(libc::c_int) = nothing;
    // SAFETY: all zero is an action without flags; the handler does nothing.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as libc::sighandler_t;
        assert_eq!(libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut()), 0);
    }
}

/// What a call comes to while signals come.
fn under_signals(call: impl FnOnce() -> Result<(), SystemException> + Send) -> SystemException {
    let (tell, told) = mpsc::channel();
    std::thread::scope(|scope| {
        let calling = scope.spawn(move || {
            // SAFETY: a thread may ask for its own handle.
            tell.send(unsafe { libc::pthread_self() }).unwrap();
            call().unwrap_err()
        });
        let thread = told.recv().unwrap();
        let end = Instant::now() + PATIENCE;
        while !calling.is_finished() && Instant::now() < end {
            // SAFETY: the thread has not been joined.
            assert_eq!(unsafe { libc::pthread_kill(thread, libc::SIGUSR1) }, 0);
            std::thread::sleep(EACH);
        }
        assert!(calling.is_finished(), "signals give the peer more and more time");
        calling.join().unwrap()
    })
}

#[test]
fn signals_do_not_put_a_time_out_off() {
    handle();
    for signal in ["auto", "none"] {
        let mut config = Config::default();
        config.transport.interrupt_signal = signal.into();
        // The kernel takes the connection; nobody reads or answers.
        let fake = Fake::new();
        let echo = fake.object(config);
        let policies = Policies { round_trip_timeout: Some(LIMIT), ..Policies::default() };
        let echo: EchoRef = echo.with_policies(policies);
        let start = Instant::now();
        let silent = under_signals(|| echo.ping());
        assert_eq!(silent.kind, Kind::Timeout, "{silent}");
        assert!(start.elapsed() >= LIMIT);
        // More than the socket takes, so that the sender waits.
        let many = vec![0; 12 << 20];
        let full =
            under_signals(|| echo.object().orb().scope(|scope| echo.octets_in(scope, &many).map(drop)));
        assert_eq!(full.kind, Kind::Timeout, "{full}");
    }
}
