//! What the last ordinary requests on a thread were for, so that the next one like them is not looked up again.

use crate::Orb;
use crate::poa::{Found, Trace};
use isorb_giop::Header;
use isorb_giop::message::{KnownHead, OperationName, OrdinaryRequest, Response};

/// Requests by the length of their message, which mostly differs between the operations that one client calls in turn.
const PLACES: usize = 4;

/// The heads of some requests and where they led. A request that begins with the same octets is for the same operation of the
/// same object; whether that is still active, the object says itself.
#[derive(Default)]
pub(crate) struct Seen([Place; PLACES]);

#[derive(Default)]
struct Place {
    head: KnownHead,
    object: Trace,
    operation: (u16, &'static str),
}

/// An ordinary request whose object is active and whose operation is known.
pub(super) struct Ordinary {
    pub id: u32,
    pub response: Response,
    pub body_at: usize,
    pub found: Found,
    pub operation: (u16, &'static str),
}

impl Seen {
    /// Finds object and operation of an ordinary request for an object that is active. `None` for any other.
    ///
    /// # Real-time
    /// Allocates nothing. A request as one before it takes no lock; others take those of the look-up.
    #[inline(always)]
    pub(super) fn find(&mut self, orb: &Orb, message: &[u8], header: &Header) -> Option<Ordinary> {
        let place = &mut self.0[(header.size as usize / 4) % PLACES];
        if let Some((id, response, body_at)) = place.head.recognise(message, header)
            && let Some(found) = place.object.find(orb.registry())
        {
            return Some(Ordinary { id, response, body_at, found, operation: place.operation });
        }
        place.look_up(orb, message, header)
    }
}

impl Place {
    #[inline(never)]
    fn look_up(&mut self, orb: &Orb, message: &[u8], header: &Header) -> Option<Ordinary> {
        let request = OrdinaryRequest::find(message, header)?;
        if request.response() == Response::Server {
            return None;
        }
        let (key, name) = request.names(message)?;
        let found = orb.registry().find_active(key)?;
        let Some(operation) = found.servant().interface().operations.look_up(name) else {
            found.give_up(OperationName::from(""));
            return None;
        };
        if self.head.keep(message, header, &request) {
            self.object = found.trace();
            self.operation = operation;
        }
        let (id, response, body_at) = request.place();
        Some(Ordinary { id, response, body_at, found, operation })
    }
}
