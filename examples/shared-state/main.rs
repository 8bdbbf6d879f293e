//! A servant with state behind a lock, and three ways to return it.
#![forbid(unsafe_code)]

use generated::tracks::{Board, BoardRef, Track, TrackView};
use isorb::prelude::*;
use isorb::rt::PiMutex;
use std::sync::Arc;

#[allow(missing_docs)]
mod generated {
    isorb::include_idl!("tracks");
}

/// All threads that serve the object share it, so its state has a lock.
struct Blackboard {
    /// Never changes: it may be borrowed by a result as it is.
    example: Vec<Track>,
    seen: PiMutex<Vec<Track>>,
}

impl Board for Blackboard {
    fn report(&self, _: Upcall<'_>, seen: &[TrackView<'_>]) -> Result<()> {
        // Arguments end with the call: what is kept is copied.
        self.seen.lock().extend(
            seen.iter().map(|track| Track { callsign: track.callsign.to_owned(), bearing: track.bearing }),
        );
        Ok(())
    }

    fn latest<'u>(&'u self, cx: Upcall<'u>) -> Result<TrackView<'u>> {
        let seen = self.seen.lock();
        let track = seen.last().ok_or(Kind::ObjectNotExist)?;
        // A view of what the lock guards ends with the guard. Its parts are copied to the memory of
        // the upcall, without an allocation.
        Ok(TrackView { callsign: cx.str(&track.callsign)?, bearing: track.bearing })
    }

    fn all<'u>(&'u self, cx: Upcall<'u>) -> Result<&'u [TrackView<'u>]> {
        let seen = self.seen.lock().clone();
        if seen.is_empty() {
            return cx.view(&self.example);
        }
        // An owned value is given away; it is dropped after the reply.
        cx.give(seen)
    }
}

fn main() -> Result<()> {
    let orb = Orb::init(std::env::args())?;
    let example = vec![Track { callsign: "(none)".into(), bearing: 0.0 }];
    let board: BoardRef =
        orb.root_poa()?.activate(Arc::new(Blackboard { example, seen: PiMutex::default() }))?;
    orb.root_poa()?.manager().activate()?;

    // A client in another process would look the same.
    println!("{}", board.all()?[0].callsign);
    let received = [("DLH42", 270.0), ("KLM7", 91.5), ("AFR1", 33.0)];
    // Sequences take vectors, slices, arrays, and iterators.
    board.report(isorb::each(
        received.iter().map(|(callsign, bearing)| TrackView { callsign, bearing: *bearing }),
    ))?;
    board.report(&[Track { callsign: "SAS5".into(), bearing: 180.0 }])?;
    println!("latest: {}", board.latest()?.callsign);
    for track in board.all()? {
        println!("{:>6} {:5.1}", track.callsign, track.bearing);
    }
    orb.shutdown(true)
}
