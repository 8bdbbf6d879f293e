//! Calls over TLS, with certificates on both sides.
#![forbid(unsafe_code)]

use isorb::prelude::*;
use isorb_naming::{Limits, MemoryStore, NamingService};
use isorb_tls::testing::Authority;
use isorb_tls::{Tls, TlsConfig};
use std::sync::Arc;

/// An ORB with TLS. `ssl` alone in its protocols requires TLS of every call.
fn orb(tls: TlsConfig, endpoint: &str) -> Result<Orb, Box<dyn std::error::Error>> {
    let tls = Tls::new(tls)?;
    let mut config = Config { endpoints: vec![endpoint.into()], ..Config::default() };
    config.transport.protocols = vec!["ssl".into()];
    Ok(Orb::builder().config(config).register(|info| Ok(info.add_transport(Arc::new(tls))?)).build()?)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // A plant with its own authority signs two certificates. Yours come from files.
    let folder = tempfile::tempdir()?;
    let plant = Authority::at(&folder.path().join("plant"))?;
    let strangers = Authority::at(&folder.path().join("strangers"))?;

    // A server of the naming service, behind TLS only.
    let server = orb(plant.member("server")?, "giop:ssl:127.0.0.1:0")?;
    let service = NamingService::start(&server, Arc::new(MemoryStore::default()), Limits::default())?;
    let reference = service.object().to_string();

    let client = orb(plant.member("client")?, "giop:ssl:127.0.0.1:0")?;
    let naming = client.string_to_object(&reference)?;
    println!("a member of the plant: exists {}", !naming.non_existent()?);

    let stranger = orb(strangers.member("client")?, "giop:ssl:127.0.0.1:0")?;
    let refused = stranger.string_to_object(&reference)?.non_existent();
    println!("a certificate of another authority: {}", refused.map_or("refused", |_| "accepted"));

    let plain = Orb::builder().build()?;
    let refused = plain.string_to_object(&reference).and_then(|object| object.non_existent());
    println!("a client without TLS: {}", refused.map_or("refused", |_| "accepted"));
    for orb in [plain, stranger, client, server] {
        orb.shutdown(true)?;
    }
    Ok(())
}
