//! Calls over TLS: references name the port, both sides know each other, and nothing else changes.

use isorb::{Config, Kind, Orb, Reference};
use isorb_tests::Parrot;
use isorb_tests::steady::PathRef;
use isorb_tls::Tls;
use isorb_tls::testing::Authority;
use std::path::Path;
use std::sync::Arc;

fn authority(name: &str) -> Authority {
    Authority::at(&Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id())))
        .unwrap()
}

fn orb(authority: &Authority, name: &str, endpoints: &[&str]) -> Orb {
    let tls = Tls::new(authority.member(name).unwrap()).unwrap();
    let endpoints = endpoints.iter().map(|endpoint| endpoint.to_string()).collect();
    let config = Config { endpoints, lane_threads: 1, ..Config::default() };
    Orb::with_config_and(config, |info| info.add_transport(Arc::new(tls)).map_err(|error| panic!("{error}")))
        .unwrap()
}

fn serve(server: &Orb) -> String {
    let near: PathRef = server.root_poa().unwrap().activate(Arc::new(Parrot::default())).unwrap();
    let background = server.clone();
    std::thread::spawn(move || background.run());
    near.object().to_string()
}

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

#[test]
fn a_server_may_speak_both() {
    let ours = authority("both");
    let server = orb(&ours, "server", &["127.0.0.1:0", "giop:ssl:127.0.0.1:0"]);
    let reference = serve(&server);
    let over = |client: &Orb| {
        let far: PathRef = client.resolve(&reference).unwrap();
        far.ping().unwrap();
    };
    over(&Orb::with_config(Config::default()));
    over(&orb(&ours, "client", &[]));
    server.shutdown(true).unwrap();
}
