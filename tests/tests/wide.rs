//! Wide text with units that are no characters, over the wire.

use isorb::{Config, Kind, Orb};
use isorb_tests::serve_with;
use isorb_tests::steady::PathRef;

#[test]
fn unpaired_surrogates_pass_where_both_sides_want_it() {
    // As a client of TAO sends it: an unpaired surrogate between two characters.
    let text = "a\u{10ff77}b";
    let units = || Config { unpaired_surrogates: true, ..Config::default() };
    for (server, client, good) in [
        (units(), units(), true),
        // A unit of its own is on the wire, which this server does not take.
        (Config::default(), units(), false),
        // Here the private character itself is on the wire: the server could not tell it apart.
        (units(), Config::default(), false),
        (Config::default(), Config::default(), true),
    ] {
        let (orb, _, path) = serve_with(server, false);
        let client = Orb::with_config(client).unwrap();
        let path: PathRef = client.resolve(&path.to_string()).unwrap();
        match path.wide(text) {
            Ok(back) => assert_eq!((back.as_str(), good), (text, true)),
            Err(exception) => {
                assert_eq!((exception.kind, good), (Kind::DataConversion, false), "{exception}")
            }
        }
        orb.shutdown(false).unwrap();
    }
}
