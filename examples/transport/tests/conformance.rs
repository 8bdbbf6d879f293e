//! The suite that every transport passes.

use isorb_example_transport::Abstract;
use isorb_transport::Transport;
use std::sync::atomic::{AtomicU32, Ordering};

/// A name that no other test has.
fn name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("isorb-example-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

isorb_transport::transport_conformance!(abstract_namespace, || (Box::new(Abstract), name()));

/// The listener never accepts: a client waits no longer than its time-out.
#[test]
fn a_connect_keeps_its_time_out() {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, listen, socket};
    let name = format!("isorb-full-{}", std::process::id());
    let full = socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
    bind(&full, &SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap()).unwrap();
    listen(&full, 0).unwrap();
    let connect = || Abstract.connect(&name, Some(std::time::Duration::from_millis(20)));
    let mut waiting = Vec::new();
    let refused = loop {
        match connect() {
            Ok(stream) => waiting.push(stream),
            Err(error) => break error,
        }
    };
    assert_eq!(refused.kind(), std::io::ErrorKind::TimedOut);
    assert!(!waiting.is_empty(), "there was room at first");
}
