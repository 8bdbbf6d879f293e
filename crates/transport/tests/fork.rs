//! Time-outs in the child of a fork, whose parent's threads are not there. A process of its own: only this thread may be about anything.

use isorb_transport::conformance::connect;
use isorb_transport::{Tcp, Transport, Wait};
use std::time::Duration;

/// Whether a receive ends at its time-out, and not at an end of the connection.
fn ends_in_time(transport: &dyn Transport) -> bool {
    let listener = transport.listen("127.0.0.1:0").unwrap();
    let (near, _far) = connect(transport, &*listener);
    near.set_recv_timeout(Some(Duration::from_millis(100))).unwrap();
    let would_block =
        |wait| near.recv(&mut [0], wait).is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock);
    would_block(Wait::Block) && would_block(Wait::No)
}

#[test]
fn the_child_of_a_fork_has_its_time_outs() {
    assert!(ends_in_time(&Tcp));
    // SAFETY: no other thread holds a lock that the child takes: the warden sleeps, and the harness waits.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let good = std::panic::catch_unwind(|| ends_in_time(&Tcp)).unwrap_or(false);
        // SAFETY: ends the child without what the parent registered for its end.
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
