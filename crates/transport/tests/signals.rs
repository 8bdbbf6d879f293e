//! Receives, and signals that are not the library's, or that a thread does not let through. A process of its own, since it has a handler.

use isorb_transport::conformance::{PATIENCE, connect, receive, send_all};
use isorb_transport::{Stream, Tcp, Transport, Unix, Wait};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

static HANDLED: AtomicU32 = AtomicU32::new(0);

extern "C" fn count(_: libc::c_int) {
    HANDLED.fetch_add(1, Ordering::Relaxed);
}

/// Has SIGUSR1 end system calls, as a program's own signal may.
fn handle() {
    let handler: extern "C" fn(libc::c_int) = count;
    // SAFETY: all zero is an action without flags; the handler stores a number.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as libc::sighandler_t;
        assert_eq!(libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut()), 0);
    }
}

fn pairs() -> Vec<(Box<dyn Stream>, Box<dyn Stream>)> {
    let pair = |transport: &dyn Transport, address| {
        let listener = transport.listen(address).unwrap();
        connect(transport, &*listener)
    };
    vec![pair(&Tcp, "127.0.0.1:0"), pair(&Unix::default(), "")]
}

#[test]
fn signals_of_the_programs_own_end_no_receive() {
    handle();
    for (near, far) in pairs() {
        for (receiver, sender) in [(&near, &far), (&far, &near)] {
            for limit in [Some(PATIENCE), None] {
                receiver.set_recv_timeout(limit).unwrap();
                let (tell, told) = std::sync::mpsc::channel();
                std::thread::scope(|scope| {
                    let waiting = scope.spawn(move || {
                        // SAFETY: a thread may ask for its own handle.
                        tell.send(unsafe { libc::pthread_self() }).unwrap();
                        receive(&**receiver, 1, 8).unwrap()
                    });
                    let thread = told.recv().unwrap();
                    let enough = HANDLED.load(Ordering::Relaxed) + 20;
                    let end = Instant::now() + PATIENCE;
                    while HANDLED.load(Ordering::Relaxed) < enough {
                        assert!(
                            !waiting.is_finished() && Instant::now() < end,
                            "the receive ended by a signal"
                        );
                        // SAFETY: the thread has not been joined.
                        assert_eq!(unsafe { libc::pthread_kill(thread, libc::SIGUSR1) }, 0);
                        std::thread::sleep(Duration::from_millis(1));
                    }
                    send_all(&**sender, b"x").unwrap();
                    assert_eq!(waiting.join().unwrap(), b"x");
                });
            }
        }
    }
}

/// Blocks all signals in this thread, or none.
fn block_all(blocked: bool) {
    let how = if blocked { libc::SIG_BLOCK } else { libc::SIG_UNBLOCK };
    // SAFETY: the set is filled before it is used.
    unsafe {
        let mut all = std::mem::zeroed();
        libc::sigfillset(&mut all);
        assert_eq!(libc::pthread_sigmask(how, &all, std::ptr::null_mut()), 0);
    }
}

fn would_block(got: std::io::Result<usize>) -> bool {
    got.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
}

/// Receives in vain, and says what comes next.
fn after_a_time_out(near: &dyn Stream) -> std::io::Result<usize> {
    let limit = Duration::from_millis(100);
    near.set_recv_timeout(Some(limit)).unwrap();
    let start = Instant::now();
    assert!(would_block(near.recv(&mut [0], Wait::Block)));
    assert!(start.elapsed() >= limit);
    near.recv(&mut [0], Wait::No)
}

#[test]
fn a_thread_that_blocks_the_signal_has_its_time_out_and_loses_the_connection() {
    std::thread::spawn(|| {
        for (near, far) in pairs() {
            // The first receive of a thread lets the signal through.
            near.set_recv_timeout(Some(PATIENCE)).unwrap();
            send_all(&*far, b"x").unwrap();
            assert_eq!(receive(&*near, 1, 8).unwrap(), b"x");
            assert!(would_block(after_a_time_out(&*near)));
            block_all(true);
            assert_eq!(after_a_time_out(&*near).unwrap(), 0);
            block_all(false);
        }
        for (near, far) in pairs() {
            assert!(would_block(after_a_time_out(&*near)));
            send_all(&*far, b"x").unwrap();
            near.set_recv_timeout(Some(PATIENCE)).unwrap();
            assert_eq!(receive(&*near, 1, 8).unwrap(), b"x");
        }
    })
    .join()
    .unwrap();
}
