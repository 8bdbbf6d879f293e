//! Time-outs in the child of a fork, where the parent's threads do not exist. A process of its own,
//! with no other thread at work.

use isorb_transport::conformance::connect;
use isorb_transport::{Segments, Tcp, Transport, Wait};
use std::time::Duration;

/// Whether a receive ends at its time-out, and the connection goes on.
fn ends_in_time(transport: &dyn Transport, address: &str) -> bool {
    let listener = transport.listen(address).unwrap();
    let (near, _far) = connect(transport, &*listener);
    near.set_recv_timeout(Some(Duration::from_millis(100))).unwrap();
    let would_block =
        |wait| near.recv(&mut [0], wait).is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock);
    would_block(Wait::Block) && would_block(Wait::No)
}

fn all_end_in_time() -> bool {
    ends_in_time(&Tcp, "127.0.0.1:0") && ends_in_time(&Segments::default(), "")
}

#[test]
fn the_child_of_a_fork_has_its_time_outs() {
    assert!(all_end_in_time());
    // SAFETY: no other thread holds a lock that the child takes: the timeout monitor sleeps, and
    // the test harness waits.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let good = std::panic::catch_unwind(all_end_in_time).unwrap_or(false);
        // SAFETY: ends the child without the exit handlers of the parent.
        unsafe { libc::_exit(if good { 0 } else { 1 }) };
    }
    let end = std::time::Instant::now() + Duration::from_secs(60);
    let mut status = -1;
    // SAFETY: `child` is this process's, and waited for once.
    while unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) } == 0 {
        if std::time::Instant::now() > end {
            // SAFETY: as above.
            unsafe { libc::kill(child, libc::SIGKILL) };
            panic!("the receive does not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "the child ended with {status:#x}");
}
