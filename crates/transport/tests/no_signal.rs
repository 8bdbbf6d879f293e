//! Receives where no signal may be used: the kernel keeps their time. A process of its own, since that is decided for all of one.

use isorb_rt::interrupt::Choice;
use isorb_transport::conformance::connect;
use isorb_transport::{Tcp, Transport, Wait};
use socket2::SockRef;
use std::time::Duration;

fn would_block(got: std::io::Result<usize>) -> bool {
    got.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
}

#[test]
fn the_kernel_keeps_the_time_where_no_signal_may() {
    let limit = Some(Duration::from_millis(100));
    let listener = Tcp.listen("127.0.0.1:0").unwrap();
    for (choice, kernels) in [(Choice::None, limit), (Choice::Auto, None)] {
        choice.decide().unwrap();
        let (near, _far) = connect(&Tcp, &*listener);
        near.set_recv_timeout(limit).unwrap();
        let set = SockRef::from(&near.fd()).read_timeout().unwrap();
        // The kernel counts in ticks and rounds up.
        assert_eq!(set.is_some(), kernels.is_some(), "{choice:?}");
        assert!(would_block(near.recv(&mut [0], Wait::Block)));
    }
}
