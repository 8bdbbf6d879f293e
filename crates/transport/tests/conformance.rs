//! The suite, for each transport of this crate.

use isorb_transport::{Segments, Tcp, Transport, Unix, transport_conformance};

transport_conformance!(tcp, || (Box::new(Tcp), "127.0.0.1:0".into()));
transport_conformance!(unix, || (Box::new(Unix::default()), String::new()));

transport_conformance!(segment, || (Box::new(Segments::default()), String::new()));

// The smallest segments, so that everything streams through and wraps around all the time; and
// without looking.
transport_conformance!(small_segment, || {
    let segments = Segments { bytes: 4096, spin: isorb_transport::Spin::NEVER, ..Segments::default() };
    (Box::new(segments), String::new())
});

fn no_ipv6() -> Option<&'static str> {
    Tcp.listen("[::1]:0").is_err().then_some("no IPv6 on this machine")
}

transport_conformance!(tcp_v6, || (Box::new(Tcp), "[::1]:0".into()), unless no_ipv6);
