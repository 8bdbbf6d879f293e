//! What the last ordinary requests on a thread were for, so that the next one like them is not looked up again.

use super::ServerCore;
use crate::connection::Connection;
use crate::poa::{ActiveObjectRef, WeakTarget};
use isorb_giop::Header;
use isorb_giop::context;
use isorb_giop::message::{KnownHead, OperationName, OrdinaryRequest, RequestPlace, Response};
use std::cell::Cell;
use std::hint::cold_path;
use std::sync::Arc;

/// Requests by the length of their message, which mostly differs between the operations that one client calls in turn.
const PLACES: usize = 4;

/// The heads of some requests and where they led. A request that begins with the same octets is for the same operation of the
/// same object; whether that is still active, the object says itself.
#[derive(Default)]
pub(super) struct RequestCache([Place; PLACES]);

thread_local! {
    static CACHE: Cell<Option<Box<RequestCache>>> = const { Cell::new(None) };
}

/// Allocates the calling thread's cache.
pub(super) fn warm_up() {
    CACHE.with(|cache| cache.set(Some(cache.take().unwrap_or_default())));
}

/// As [`RequestCache::find`], with the cache of the calling thread.
#[inline(always)]
pub(super) fn find(
    server: &ServerCore,
    connection: Option<&Arc<Connection>>,
    message: &[u8],
    header: &Header,
) -> Option<Ordinary> {
    CACHE.with(|cache| {
        // Taken out, since the look-up may end in code of the application, which calls again.
        let mut taken = cache.take().unwrap_or_default();
        let found = taken.find(server, connection, message, header);
        cache.set(Some(taken));
        found
    })
}

#[derive(Default)]
struct Place {
    head: KnownHead,
    object: WeakTarget,
    operation: (u16, &'static str),
}

/// An ordinary request whose object is active and whose operation is known.
pub(super) struct Ordinary {
    pub place: RequestPlace,
    pub found: ActiveObjectRef,
    pub operation: (u16, &'static str),
}

impl RequestCache {
    /// Finds object and operation of an ordinary request for an object that is active. `None` for any other.
    ///
    /// # Real-time
    /// Allocates nothing. A request as one before it takes no lock; others take those of the look-up.
    #[inline(always)]
    fn find(
        &mut self,
        server: &ServerCore,
        connection: Option<&Arc<Connection>>,
        message: &[u8],
        header: &Header,
    ) -> Option<Ordinary> {
        let passes = |id| is_for_the_upcall(connection, id);
        let place = &mut self.0[(header.size as usize / 4) % PLACES];
        if let Some(known) = place.head.recognise(message, header, passes)
            && let Some(found) = place.object.find(&server.registry)
        {
            return Some(Ordinary { place: known, found, operation: place.operation });
        }
        cold_path();
        place.look_up(server, message, header, passes)
    }
}

/// Whether a service context is a matter of the upcall, as priorities are and all that the ORB does not know. Others say something
/// about the connection first: its code sets, until they are known, who else may call over it, its band.
#[inline]
fn is_for_the_upcall(connection: Option<&Arc<Connection>>, id: u32) -> bool {
    match id {
        context::CODE_SETS => connection.is_none_or(|connection| connection.code_sets().is_some()),
        context::BI_DIR_IIOP | context::RT_CORBA_PRIORITY_RANGE => false,
        _ => true,
    }
}

impl Place {
    #[inline(never)]
    fn look_up(
        &mut self,
        server: &ServerCore,
        message: &[u8],
        header: &Header,
        passes: impl Fn(u32) -> bool,
    ) -> Option<Ordinary> {
        let request = OrdinaryRequest::find(message, header, passes)?;
        let place = request.place();
        if place.response == Response::Server {
            return None;
        }
        let (key, name) = request.names(message)?;
        let found = server.registry.find_active(key)?;
        let Some(operation) = found.servant().interface().operations.look_up(name) else {
            found.abandon(OperationName::from(""));
            return None;
        };
        if self.head.keep(message, header, &request) {
            self.object = found.downgrade();
            self.operation = operation;
        }
        Some(Ordinary { place, found, operation })
    }
}
