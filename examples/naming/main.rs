//! A naming service inside a program, a server that binds an object, and a client that finds it.
#![forbid(unsafe_code)]

use generated::lab::{Thermometer, ThermometerRef};
use isorb::prelude::*;
use isorb_naming::{Limits, MemoryStore, Naming, NamingService};
use std::sync::Arc;

#[allow(missing_docs)]
mod generated {
    isorb::include_idl!("lab");
}

struct Window;

impl Thermometer for Window {
    fn value(&self, _: Upcall<'_>) -> Result<f64> {
        Ok(20.5)
    }
}

/// An ORB with the naming service at `url`, as `-ORBInitRef NameService=URL` on a command line sets
/// it.
fn orb(url: &str) -> Result<Orb> {
    let arguments = ["naming", "-ORBInitRef", &format!("NameService={url}")].map(String::from);
    Orb::builder().arguments(arguments).build()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The service. `isorb naming` runs the same as a process, with bindings on disk.
    let directory = Orb::builder().build()?;
    directory.root_poa()?.manager().activate()?;
    let service = NamingService::start(&directory, Arc::new(MemoryStore::default()), Limits::default())?;
    let url = service.object().to_string();

    // The server binds its object, and the contexts above it are made. It binds a second name and
    // removes it again.
    let server = orb(&url)?;
    let poa = server.root_poa()?;
    poa.manager().activate()?;
    let thermometer: ThermometerRef = poa.activate(Arc::new(Window))?;
    let naming = Naming::initial(&server)?;
    naming.bind("lab/t1", &thermometer)?;
    naming.bind("lab/t2", &thermometer)?;
    naming.unbind("lab/t2")?;

    // The client resolves the name by a call, or writes it into a URL.
    let client = orb(&url)?;
    let found: ThermometerRef = Naming::initial(&client)?.resolve("lab/t1")?;
    println!("lab/t1 is at {} degrees", found.value()?);
    let same: ThermometerRef = client.resolve("corbaname:rir:#lab/t1")?;
    println!("corbaname:rir:#lab/t1 is at {} degrees", same.value()?);
    match Naming::initial(&client)?.resolve::<ThermometerRef>("lab/t2") {
        Ok(_) => println!("lab/t2 is still bound"),
        Err(missing) => println!("lab/t2: {:?}", missing.kind),
    }
    for orb in [client, server, directory] {
        orb.shutdown(true)?;
    }
    Ok(())
}
