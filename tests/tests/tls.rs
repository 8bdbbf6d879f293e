//! Calls over TLS: references name the port, both sides know each other, and nothing else changes.

mod common;

use common::{authority, orb, serve};
use isorb::{Config, Kind, Orb};
use isorb_tests::steady::PathRef;

#[test]
fn calls_cross_in_both_forms_of_concurrency() {
    let ours = authority("ours");
    for form in [";connection", ";lane"] {
        let server = orb(&ours, "server", &[&format!("giop:ssl:127.0.0.1:0{form}")]);
        let reference = serve(&server);
        let client = orb(&ours, "client", &[]);
        let far: PathRef = client.resolve(&reference).unwrap();
        far.ping().unwrap();
        let large: Vec<u8> = (0..3 << 20).map(|i| (i % 251) as u8).collect();
        assert_eq!(far.echo_octets(&large).unwrap(), large);
        std::thread::scope(|threads| {
            for _ in 0..4 {
                threads.spawn(|| (0..200).for_each(|_| far.ping().unwrap()));
            }
        });
        // Who has no certificate of this plant, or speaks no TLS at all, does not get in.
        let stranger = orb(&authority("theirs"), "client", &[]);
        let refused = stranger.resolve::<PathRef>(&reference).and_then(|path| path.ping());
        assert!(refused.is_err());
        let plain = Orb::with_config(Config::default());
        let refused = plain.resolve::<PathRef>(&reference).and_then(|path| path.ping()).unwrap_err();
        assert!(matches!(refused.kind, Kind::Transient | Kind::InvObjref | Kind::CommFailure), "{refused}");
        far.ping().unwrap();
        server.shutdown(true).unwrap();
    }
}
