//! Receives while signals of the program arrive. A process of its own, since it has a signal
//! handler and counts its threads.

use isorb_transport::conformance::{TIMEOUT, connect, receive, send_all};
use isorb_transport::{Stream, Tcp, Transport, Unix};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

static HANDLED: AtomicU32 = AtomicU32::new(0);

extern "C" fn count(_: libc::c_int) {
    HANDLED.fetch_add(1, Ordering::Relaxed);
}

/// Lets SIGUSR1 end system calls, as a program's own signal may.
fn install_handler() {
    let handler: extern "C" fn(libc::c_int) = count;
    // SAFETY: all zero is an action without flags; the handler stores a number.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as libc::sighandler_t;
        assert_eq!(libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut()), 0);
    }
}

/// The signals that the process handles or ignores, as sets.
fn signal_actions() -> Vec<String> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let is_action = |line: &&str| line.starts_with("SigCgt:") || line.starts_with("SigIgn:");
    status.lines().filter(is_action).map(String::from).collect()
}

#[test]
fn signals_of_the_program_end_no_receive_over_sockets() {
    install_handler();
    let before = (signal_actions(), std::fs::read_dir("/proc/self/task").unwrap().count());
    let pair = |transport: &dyn Transport, address| {
        let listener = transport.listen(address).unwrap();
        connect(transport, &*listener)
    };
    let pairs = [pair(&Tcp, "127.0.0.1:0"), pair(&Unix::default(), "")];
    for (near, far) in &pairs {
        for (receiver, sender) in [(near, far), (far, near)] {
            for limit in [Some(TIMEOUT), None] {
                receiver.set_recv_timeout(limit).unwrap();
                receives_under_signals(&**receiver, &**sender);
            }
        }
    }
    let after = (signal_actions(), std::fs::read_dir("/proc/self/task").unwrap().count());
    assert_eq!(after.0, before.0, "sockets take no signal");
    // A thread that was joined may be listed for a moment longer.
    assert!(after.1 <= before.1 + 1, "sockets need no thread of their own");
}

fn receives_under_signals(receiver: &dyn Stream, sender: &dyn Stream) {
    let (tx, rx) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(move || {
            // SAFETY: a thread may ask for its own handle.
            tx.send(unsafe { libc::pthread_self() }).unwrap();
            receive(receiver, 1, 8).unwrap()
        });
        let thread = rx.recv().unwrap();
        let enough = HANDLED.load(Ordering::Relaxed) + 20;
        let end = Instant::now() + TIMEOUT;
        while HANDLED.load(Ordering::Relaxed) < enough {
            assert!(!waiting.is_finished() && Instant::now() < end, "a signal ended the receive");
            // SAFETY: the thread has not been joined.
            assert_eq!(unsafe { libc::pthread_kill(thread, libc::SIGUSR1) }, 0);
            std::thread::sleep(Duration::from_millis(1));
        }
        send_all(sender, b"x").unwrap();
        assert_eq!(waiting.join().unwrap(), b"x");
    });
}
