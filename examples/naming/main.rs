//! A naming service inside a program, a server that binds an object, and a client that finds it.
#![forbid(unsafe_code)]

use isorb::prelude::*;
use isorb_naming::{Limits, MemoryStore, NamingService};
use std::sync::Arc;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The service. `isorb naming` runs the same as a process, with bindings on disk.
    let directory = Orb::builder().build()?;
    let service = NamingService::start(&directory, Arc::new(MemoryStore::default()), Limits::default())?;
    let url = service.object().to_string();
    // What `-ORBInitRef NameService=URL` does on a command line.
    let knows_it = || {
        Orb::builder()
            .arguments(
                ["naming", "-ORBInitRef"].map(String::from).into_iter().chain([format!("NameService={url}")]),
            )
            .build()
    };

    // The server binds an object. Any object will do here: it binds the naming context itself.
    let server = knows_it()?;
    let thermometer = server.resolve_initial_references("NameService")?;
    let naming = server.naming()?;
    naming.bind("lab/t1", &thermometer)?;
    naming.bind("lab/t2", &thermometer)?;
    naming.unbind("lab/t2")?;

    // The client resolves the name, by a call or as a URL.
    let client = knows_it()?;
    let found: Object = client.naming()?.resolve("lab/t1")?;
    println!("lab/t1 is {}", found.type_id());
    let same: Object = client.resolve("corbaname:rir:#lab/t1")?;
    println!("corbaname:rir:#lab/t1 is {}", same.type_id());
    match client.naming()?.resolve::<Object>("lab/t2") {
        Ok(_) => println!("lab/t2 is still bound"),
        Err(missing) => println!("lab/t2: {:?}", missing.kind),
    }
    for orb in [client, server, directory] {
        orb.shutdown(true)?;
    }
    Ok(())
}
