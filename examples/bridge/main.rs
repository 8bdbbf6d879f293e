//! A bridge: clients of one transport reach a server on another, without compiled IDL.
#![forbid(unsafe_code)]

#[path = "../recorder/board.rs"]
mod board;

use board::{Observer, Relay};
use generated::tracks::{Board, BoardRef, TrackView};
use isorb::prelude::*;
use isorb::{DynamicOperation, DynamicReply};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

#[allow(missing_docs)]
mod generated {
    isorb::include_idl!("tracks");
}

/// The server listens at a unix socket: programs of other hosts cannot reach it.
struct Blackboard;

impl Board for Blackboard {
    fn report(&self, _: Upcall<'_>, seen: &[TrackView<'_>]) -> Result<()> {
        let names: Vec<&str> = seen.iter().map(|track| track.callsign).collect();
        println!("the server sees {}", names.join(", "));
        Ok(())
    }
    fn latest<'u>(&'u self, _: Upcall<'u>) -> Result<TrackView<'u>> {
        Ok(TrackView { callsign: "SAS5", bearing: 180.0 })
    }
    fn all<'u>(&'u self, _: Upcall<'u>) -> Result<&'u [TrackView<'u>]> {
        Err(Kind::NoPermission.into())
    }
}

/// Counts what crosses the bridge.
#[derive(Default)]
struct Counter {
    replies: AtomicU32,
    exceptions: AtomicU32,
}

impl Observer for Arc<Counter> {
    fn request(&self, _: &DynamicOperation, _: &[Any], reply: &Result<DynamicReply>) {
        let count = if reply.is_ok() { &self.replies } else { &self.exceptions };
        count.fetch_add(1, Ordering::Relaxed);
    }
}

fn listening(endpoint: &str) -> Result<Orb> {
    Orb::with_config(Config { endpoints: vec![endpoint.into()], ..Config::default() })
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let inside = listening("unix:")?;
    let board: BoardRef = inside.root_poa()?.activate(Arc::new(Blackboard))?;
    inside.root_poa()?.manager().activate()?;

    // The bridge is a client inside and a server outside.
    let bridge = listening("127.0.0.1:0")?;
    let poa = bridge.root_poa()?;
    let target = bridge.string_to_object(&board.object().to_string())?;
    let counter = Arc::new(Counter::default());
    let relay = Relay { target, observer: counter.clone() };
    let id = poa.activate_object(board::interface()?.servant(Arc::new(relay)))?;
    poa.manager().activate()?;
    let url = poa.id_to_reference(&id)?.to_string();

    // A client on another host, with its IDL compiled or not.
    let outside = Orb::with_config(Config::default())?;
    let far: BoardRef = outside.resolve(&url)?;
    far.report(&[TrackView { callsign: "DLH42", bearing: 270.0 }])?;
    println!("latest: {}", far.latest()?.callsign);
    println!("all: {}", far.all().err().map_or("allowed", |exception| exception.kind.name()));
    let (replies, exceptions) = (&counter.replies, &counter.exceptions);
    println!("{} replies, {} exception", replies.load(Ordering::Relaxed), exceptions.load(Ordering::Relaxed));
    for orb in [outside, bridge, inside] {
        orb.shutdown(true)?;
    }
    Ok(())
}
