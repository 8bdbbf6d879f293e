//! A client that is called back over the connection that it opened (bidirectional GIOP).
#![forbid(unsafe_code)]

use generated::clocks::{Clock, ClockRef, Listener, ListenerRef};
use isorb::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

#[allow(missing_docs)]
mod generated {
    isorb::include_idl!("clocks");
}

/// The server's object.
struct WallClock;

impl Clock for WallClock {
    fn run(&self, _: Upcall<'_>, listener: Option<&ListenerRef>, ticks: i32) -> Result<()> {
        let listener = listener.ok_or(Kind::BadParam)?;
        for count in 1..=ticks {
            // The client waits for the reply to `run` meanwhile, and serves this call on that
            // thread.
            listener.tick(count)?;
        }
        Ok(())
    }
}

/// The client's object.
#[derive(Default)]
struct Display {
    ticks: AtomicI32,
}

impl Listener for Display {
    fn tick(&self, _: Upcall<'_>, count: i32) -> Result<()> {
        println!("tick {count}");
        self.ticks.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// Both ends must allow call-backs over the client's connection.
fn config() -> Config {
    Config { bidirectional: true, ..Config::default() }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The server. In a program of its own, `server.run()` would follow.
    let server = Orb::builder().config(config()).build()?;
    let poa = server.root_poa()?;
    let clock: ClockRef = poa.activate(Arc::new(WallClock))?;
    poa.manager().activate()?;
    let reference = clock.to_string();

    // The client: another ORB, so that the calls go over the wire. The server opens no connection
    // to it, which a firewall might refuse.
    let client = Orb::builder().config(config()).build()?;
    let poa = client.root_poa()?;
    let display = Arc::new(Display::default());
    let listener: ListenerRef = poa.activate(display.clone())?;

    let clock: ClockRef = client.resolve(&reference)?;
    clock.run(Some(&listener), 3)?;
    println!(
        "{} ticks over {} connection",
        display.ticks.load(Ordering::Relaxed),
        server.served_connections().len()
    );
    client.shutdown(true)?;
    server.shutdown(true)?;
    Ok(())
}
