//! A proxy that writes each request as a line of JSON, without compiled IDL of the interface.
#![forbid(unsafe_code)]

mod board;

use board::{Observer, Relay};
use generated::tracks::{Board, BoardRef, Track, TrackView};
use isorb::prelude::*;
use isorb::rt::PiMutex;
use isorb::{DynamicOperation, DynamicReply};
use std::io::Write;
use std::sync::Arc;

#[allow(missing_docs)]
mod generated {
    isorb::include_idl!("tracks");
}

/// The longest JSON of a value, in octets.
const MAX_JSON: usize = 1 << 20;

/// Writes requests and replies, one a line.
struct Recorder<W>(PiMutex<W>);

impl<W: Write + Send + 'static> Observer for Recorder<W> {
    fn request(&self, operation: &DynamicOperation, arguments: &[Any], reply: &Result<DynamicReply>) {
        let list = |values: &[Any]| {
            let texts = values.iter().map(|value| value.to_json(MAX_JSON));
            let texts = texts.map(|text| text.unwrap_or_else(|_| "\"(too long)\"".into()));
            texts.collect::<Vec<_>>().join(",")
        };
        let outcome = match reply {
            Ok(DynamicReply::Results(results)) => format!("\"results\":[{}]", list(results)),
            Ok(DynamicReply::Exception(raised)) => {
                let id = raised.type_code().id().unwrap_or_default();
                format!("\"exception\":\"{id}\",\"members\":{}", list(std::slice::from_ref(raised)))
            }
            Err(exception) => format!("\"exception\":\"{}\"", exception.repository_id()),
        };
        let (name, arguments) = (operation.name(), list(arguments));
        let line = format!("{{\"operation\":\"{name}\",\"arguments\":[{arguments}],{outcome}}}\n");
        // A request must not fail because the file is full.
        if let Err(error) = self.0.lock().write_all(line.as_bytes()) {
            eprintln!("a request to {name} was not recorded: {error}");
        }
    }
}

/// The server, which knows nothing of the recorder.
#[derive(Default)]
struct Blackboard(PiMutex<Vec<Track>>);

impl Board for Blackboard {
    fn report(&self, _: Upcall<'_>, seen: &[TrackView<'_>]) -> Result<()> {
        let own = |track: &TrackView<'_>| Track { callsign: track.callsign.into(), bearing: track.bearing };
        self.0.lock().extend(seen.iter().map(own));
        Ok(())
    }
    fn latest<'u>(&'u self, cx: Upcall<'u>) -> Result<TrackView<'u>> {
        let seen = self.0.lock();
        let track = seen.last().ok_or(Kind::ObjectNotExist)?;
        Ok(TrackView { callsign: cx.str(&track.callsign)?, bearing: track.bearing })
    }
    fn all<'u>(&'u self, cx: Upcall<'u>) -> Result<&'u [TrackView<'u>]> {
        cx.give(self.0.lock().clone())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let orb = Orb::init(std::env::args())?;
    let poa = orb.root_poa()?;
    poa.manager().activate()?;
    let board: BoardRef = poa.activate(Arc::new(Blackboard::default()))?;

    // The recorder stands before the server: clients get its reference instead.
    let recorder = Recorder(PiMutex::new(std::io::stdout()));
    let relay = Relay { target: board.object().clone(), observer: recorder };
    let id = poa.activate_object(board::interface()?.servant(Arc::new(relay)))?;
    let recorded: BoardRef = poa.id_to_reference(&id)?.unchecked_narrow();

    // A client in another process would look the same.
    let missing = recorded.latest();
    assert_eq!(missing.err().map(|exception| exception.kind), Some(Kind::ObjectNotExist));
    recorded.report(&[Track { callsign: "DLH42".into(), bearing: 270.0 }])?;
    recorded.report(&[Track { callsign: "SAS5".into(), bearing: 180.0 }])?;
    println!("latest: {}", recorded.latest()?.callsign);
    Ok(orb.shutdown(true)?)
}
