//! Several calls under way from one thread, calls that are awaited, and a servant that replies
//! after its upcall.
#![forbid(unsafe_code)]

use generated::lab::{Balance, BalanceRef, balance};
use isorb::prelude::*;
use isorb::rt::ClientLaneOptions;
use isorb::{Deferred, wait_any};
use std::sync::{Arc, Mutex};

#[allow(missing_docs)]
mod generated {
    isorb::include_idl!("balance");
}

/// The server's object.
#[derive(Default)]
struct Scale(Mutex<State>);

#[derive(Default)]
struct State {
    /// The samples that still move.
    moving: Vec<(String, Deferred)>,
    settled: bool,
}

impl Balance for Scale {
    fn weigh<'u>(&'u self, cx: Upcall<'u>, sample: &'u str) -> Result<&'u str> {
        let mut state = self.0.lock().unwrap();
        // A request over another connection may come before this one, though it was sent later.
        if sample == "stone" || state.settled {
            return cx.format(format_args!("{} g, at once", sample.len()));
        }
        // The thread of the request is free for the next one.
        let later = cx.defer()?;
        state.moving.push((sample.to_owned(), later));
        Err(Deferred::LATER)
    }

    fn settle(&self, _: Upcall<'_>) -> Result<()> {
        let mut state = self.0.lock().unwrap();
        state.settled = true;
        for (sample, later) in state.moving.drain(..) {
            // Any thread may reply; here it is that of another request.
            balance::reply_weigh(later, Ok(&format!("{} g", sample.len())))?;
        }
        Ok(())
    }
}

/// Whether a sample had to settle depends on which request came first.
fn grams(text: &str) -> &str {
    text.trim_end_matches(", at once")
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The server. In a program of its own, `server.run()` would follow.
    let server = Orb::builder().build()?;
    let poa = server.root_poa()?;
    let scale: BalanceRef = poa.activate(Arc::new(Scale::default()))?;
    poa.manager().activate()?;
    let client = Orb::builder().build()?;
    let balance: BalanceRef = client.resolve(&scale.to_string())?;

    // Three calls from one thread.
    let samples = ["feather", "leaf", "stone"];
    let mut calls = Vec::new();
    for sample in samples {
        calls.push(balance.weigh_begin(sample)?);
    }
    let first = wait_any(&calls)?;
    println!("first: the {}, {}", samples[first], calls.remove(first).wait()?);
    // The others still move.
    println!("the feather: {}", if calls[0].try_wait().is_some() { "at rest" } else { "not yet" });
    balance.settle()?;
    for (sample, call) in samples.iter().zip(calls) {
        println!("the {sample}: {}", grams(&call.wait()?));
    }

    // Two calls that tasks await. The thread that reads their replies is one that the program asks
    // for: a client lane.
    client.rt().start_client_lane(&ClientLaneOptions::default())?;
    let awaited: Result<(String, String)> = smol::block_on(async {
        // `weigh_async` would send its request when it is awaited; these are under way.
        let (feather, leaf) = (balance.weigh_begin("feather")?, balance.weigh_begin("leaf")?);
        Ok((feather.await?, leaf.await?))
    });
    let (feather, leaf) = awaited?;
    println!("awaited: {feather}, {leaf}");
    client.shutdown(true)?;
    server.shutdown(true)?;
    Ok(())
}
