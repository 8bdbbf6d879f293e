//! Calls over TLS, with certificates on both sides.
#![forbid(unsafe_code)]

use generated::vault::{Safe, SafeRef};
use isorb::prelude::*;
use isorb_tls::testing::Authority;
use isorb_tls::{Tls, TlsConfig};
use std::sync::Arc;

#[allow(missing_docs)]
mod generated {
    isorb::include_idl!("vault");
}

struct Bank;

impl Safe for Bank {
    fn contents(&self, _: Upcall<'_>) -> Result<&str> {
        Ok("gold")
    }
}

/// An ORB with TLS. `ssl` alone in its protocols requires TLS of every call.
fn orb(tls: TlsConfig) -> Result<Orb, Box<dyn std::error::Error>> {
    let tls = Tls::new(tls)?;
    let mut config = Config { endpoints: vec!["giop:ssl:127.0.0.1:0".into()], ..Config::default() };
    config.transport.protocols = vec!["ssl".into()];
    Ok(Orb::builder().config(config).register(|info| Ok(info.add_transport(Arc::new(tls))?)).build()?)
}

/// Calls the safe, and prints its contents or a refusal.
fn look(name: &str, client: &Orb, reference: &str) {
    match client.resolve::<SafeRef>(reference).and_then(|safe| safe.contents()) {
        Ok(contents) => println!("{name}: {contents}"),
        Err(refusal) => {
            eprintln!("{name}: {refusal}");
            println!("{name}: refused");
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // A bank with its own authority signs certificates. Yours come from files.
    let folder = tempfile::tempdir()?;
    let bank = Authority::at(&folder.path().join("bank"))?;
    let others = Authority::at(&folder.path().join("others"))?;

    let server = orb(bank.member("server")?)?;
    let poa = server.root_poa()?;
    poa.manager().activate()?;
    let safe: SafeRef = poa.activate(Arc::new(Bank))?;
    let reference = safe.to_string();

    let member = orb(bank.member("client")?)?;
    look("a certificate of the bank", &member, &reference);
    let stranger = orb(others.member("client")?)?;
    look("a certificate of another authority", &stranger, &reference);
    let plain = Orb::builder().build()?;
    look("no TLS", &plain, &reference);
    for orb in [plain, stranger, member, server] {
        orb.shutdown(true)?;
    }
    Ok(())
}
