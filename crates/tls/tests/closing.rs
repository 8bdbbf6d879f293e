//! All octets of a client arrive that only sends and closes.

mod common;

use isorb_tls::Tls;
use isorb_transport::conformance::{pattern, receive, send_all};
use isorb_transport::{Transport, Wait};
use std::time::Duration;

/// More than the receive buffer takes, less than both buffers together.
const OCTETS: usize = 1 << 20;

#[test]
fn octets_before_a_close_arrive() {
    let ours = common::authority();
    let server = Tls::new(ours.member("server").unwrap()).unwrap();
    let client = Tls::new(ours.member("client").unwrap()).unwrap();
    let listener = server.listen("127.0.0.1:0").unwrap();
    let near = client.connect(listener.address(), Some(Duration::from_secs(60))).unwrap();
    let far = listener.accept(Wait::Block).unwrap();
    // Only so that a failing test ends.
    near.set_send_timeout(Some(Duration::from_secs(60))).unwrap();
    let sent = pattern(OCTETS, 1);
    send_all(&*near, &sent).unwrap();
    drop(near);
    assert!(receive(&*far, OCTETS, OCTETS).unwrap() == sent);
    assert_eq!(far.recv(&mut [0], Wait::Block).unwrap(), 0, "the end");
}
