//! The suite, for each transport of this crate.

use isorb_transport::{Segments, Tcp, Unix, transport_conformance};

transport_conformance!(tcp, || (Box::new(Tcp), "127.0.0.1:0".into()));
transport_conformance!(unix, || (Box::new(Unix::default()), String::new()));

transport_conformance!(segment, || (Box::new(Segments::default()), String::new()));

// The smallest segments, so that everything streams through and wraps around all the time; and without looking.
transport_conformance!(small_segment, || {
    let segments = Segments { bytes: 4096, spin: std::time::Duration::ZERO, ..Segments::default() };
    (Box::new(segments), String::new())
});

// Skipping inside, since a machine may be without IPv6.
mod tcp_v6 {
    use isorb_transport::{Tcp, Transport, conformance};

    #[test]
    fn over_ipv6() {
        if Tcp.listen("[::1]:0").is_err() {
            return println!("skipped: no IPv6 on this machine");
        }
        let make: conformance::Make<'_> = &|| (Box::new(Tcp), "[::1]:0".into());
        conformance::bytes_cross_in_order(make);
        conformance::what_was_sent_before_the_end_arrives(make);
        conformance::closing_ends_accept(make);
    }
}
