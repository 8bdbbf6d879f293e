//! The path of a request through the server's interceptors (clauses 16.3.8 to 16.3.10).

use super::contexts::Contexts;
use super::server::{Point, RequestTarget, Sending};
use super::slots::{PiCurrent, SlotTableGuard};
use super::{Raised, ReplyStatus, ServerRequestInfo, ServerRequestInterceptor};
use crate::buffers::MessageBuffer;
#[cfg(feature = "interceptors")]
use crate::connection::Connection;
use crate::poa::{Refusal, UpcallTarget, write_refusal};
#[cfg(feature = "interceptors")]
use crate::principal::{Authenticated, Principal};
use crate::server::{deliver, write_exception};
use crate::{Caller, Object, Orb, Result, Servant, SystemException};
use isorb_cdr::{Encoder, Message, Order, Version};
use isorb_giop::message::{self, Request, Response, ServiceContext};
use isorb_giop::{Completion, Ior, Kind};
#[cfg(feature = "interceptors")]
use isorb_scope::Scope;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Id of a meaningless context that moves a body of GIOP 1.0 or 1.1 to an aligned offset.
const PADDING: u32 = 0x4953_0001;

/// The interceptors of a server. There may be none, only slots with scopes to be separated.
pub(crate) struct ServerChain {
    interceptors: Box<[Arc<dyn ServerRequestInterceptor>]>,
    current: PiCurrent,
    interceptors_enabled: super::InterceptorsEnabled,
}

impl ServerChain {
    /// `None` without interceptors and slots.
    pub fn new(
        interceptors: Vec<Arc<dyn ServerRequestInterceptor>>,
        current: PiCurrent,
    ) -> Option<ServerChain> {
        let needed = !interceptors.is_empty() || current.slots > 0;
        let interceptors_enabled = super::interceptors_enabled()?;
        needed.then(|| ServerChain { interceptors: interceptors.into(), current, interceptors_enabled })
    }

    pub fn destroy(&self) {
        self.interceptors.iter().for_each(|interceptor| interceptor.destroy());
    }

    /// Takes a request that arrived.
    ///
    /// # Errors
    /// An operation name that is not text.
    #[inline(never)]
    pub fn serve<'r>(
        &'r self,
        orb: &'r Orb,
        request: &Request<'r>,
        caller: Caller<'r>,
    ) -> isorb_cdr::Result<Serving<'r>> {
        let info = ServerRequestInfo {
            orb,
            caller,
            current: self.current,
            request: *request,
            operation: request.operation.text()?,
            point: Point::ReceiveRequestServiceContexts,
            status: ReplyStatus::Successful,
            slots: Some(self.current.empty()),
            reply: Contexts::new(),
            principal: None,
            target: None,
            sending: Sending::Nothing,
            forward: None,
        };
        Ok(Serving {
            interceptors_enabled: self.interceptors_enabled,
            chain: self,
            info,
            flow: 0,
            slots: None,
            forward: None,
            answered: false,
        })
    }
}

/// A request between its interceptors.
pub(crate) struct Serving<'r> {
    #[allow(dead_code)] // It is there to be impossible.
    interceptors_enabled: super::InterceptorsEnabled,
    chain: &'r ServerChain,
    info: ServerRequestInfo<'r>,
    /// The number of interceptors that still need their ending point.
    flow: usize,
    /// The request's slots as the thread's.
    slots: Option<SlotTableGuard>,
    /// The forward that `receive_request` raised.
    forward: Option<Object>,
    /// The client already has its reply.
    answered: bool,
}

/// The offsets of a reply that was written without contexts.
#[derive(Clone, Copy)]
pub(crate) struct ReplyOffsets {
    /// Its status.
    pub status: usize,
    /// The end of its header.
    pub head: usize,
    /// Whether an exception may carry its detail in a service context: no interceptor relies on a
    /// reply without contexts.
    pub detailed: bool,
}

impl<'r> Serving<'r> {
    /// Runs the starting points.
    ///
    /// # Errors
    /// The exception or forward of an interceptor.
    #[inline(never)]
    pub fn start(&mut self) -> Result<(), Refusal> {
        let current = self.chain.current;
        let mut raised = None;
        {
            let _fresh = current.enter(current.empty());
            for interceptor in &self.chain.interceptors {
                let info = &mut self.info;
                match guard(interceptor, |it| it.receive_request_service_contexts(info)) {
                    Ok(()) => self.flow += 1,
                    Err(error) => {
                        raised = Some(error);
                        break;
                    }
                }
            }
        }
        if let Some(slots) = self.info.slots.take() {
            self.slots = current.enter(slots);
        }
        match raised {
            None => Ok(()),
            Some(Raised::Exception(exception)) => Err(exception.completed(Completion::No).into()),
            Some(forward) => Err(forward.into()),
        }
    }

    #[cfg(feature = "interceptors")]
    /// The caller of the request, as the starting points left it.
    ///
    /// # Errors
    /// NO_MEMORY when the scope is full.
    pub fn caller<'u>(
        &self,
        connection: Option<&'u Arc<Connection>>,
        scope: &'u Scope<'u>,
    ) -> Result<Caller<'u>>
    where
        'r: 'u,
    {
        let (Some(principal), Some(connection)) = (&self.info.principal, connection) else {
            return Ok(self.info.caller);
        };
        let principal: &'u Principal = scope.keep(principal.clone())?;
        Ok(Caller::authenticated(scope.alloc(Authenticated { connection, principal })?))
    }

    /// The contexts of a reply that is sent before the servant is called; later points know by this
    /// call that it was sent.
    pub fn answer_early(&mut self) -> Vec<ServiceContext<'_>> {
        self.answered = true;
        self.info.reply.iter().collect()
    }

    /// Adds a context of the ORB's own to the reply.
    ///
    /// # Errors
    /// As [`Contexts::add`].
    pub fn add_reply_context(&mut self, context: ServiceContext<'_>) -> Result<()> {
        self.info.reply.add(context.id, context.data, true)
    }

    /// Runs the intermediate points: the servant is known.
    ///
    /// # Errors
    /// The exception of an interceptor; a placeholder for a forward, which [`Serving::finish`]
    /// writes.
    #[inline(never)]
    pub fn reach(&mut self, servant: &Servant, entered: &'r UpcallTarget<'r>) -> Result<()> {
        self.info.point = Point::ReceiveRequest;
        self.info.target = Some(RequestTarget {
            poa: entered.poa().clone(),
            object_id: entered.object_id(),
            interface: servant.interface(),
        });
        for interceptor in &self.chain.interceptors {
            let info = &mut self.info;
            match guard(interceptor, |it| it.receive_request(info)) {
                Ok(()) => {}
                Err(Raised::Exception(exception)) => return Err(exception.completed(Completion::No)),
                Err(Raised::Forward(to)) => {
                    self.forward = Some(to);
                    return Err(Kind::Transient.into());
                }
            }
        }
        Ok(())
    }

    /// Runs the ending points, then sends the reply: unchanged, or written again after changes.
    #[inline(never)]
    pub fn finish(
        mut self,
        e: Encoder<'_>,
        offsets: ReplyOffsets,
        encode: &mut MessageBuffer,
        send: &mut dyn FnMut(&Message<'_>),
    ) {
        let text = e.text();
        let mut message = match e.finish() {
            Ok(message) => message,
            Err((error, buffer)) => {
                self.info.sending = Sending::System(error.into());
                (self.info.point, self.info.status) = (Point::SendException, ReplyStatus::SystemException);
                self.end();
                crate::log::warn("isorb::interceptor", format_args!("a reply could not be written: {error}"));
                encode.put_back(buffer);
                return;
            }
        };
        let status = self.info.sent(&mut message, offsets);
        let mut changed = false;
        if let Some(to) = self.forward.take() {
            self.info.raise(Raised::Forward(to));
            changed = true;
        }
        changed |= self.end();
        let expected = match self.info.request.response {
            Response::None => false,
            Response::Server => !self.answered,
            Response::Target => true,
        };
        if expected && (changed || !self.info.reply.is_empty()) {
            let refusal = if changed { Some(self.info.refusal()) } else { None };
            self.rewrite(&message, text, status, offsets, refusal.as_ref(), send);
        } else if expected && message::finish_header(&mut message).is_ok() {
            send(&message);
        }
        encode.put_back(message.into_buffer());
    }

    /// Runs the ending points of a request that is answered after its upcall: `send_other`, with
    /// the status `Unknown`. What they raise has no receiver.
    #[cold]
    pub fn finish_deferred(mut self) {
        (self.info.point, self.info.status) = (Point::SendOther, ReplyStatus::Unknown);
        if self.end() {
            crate::log::warn(
                "isorb::interceptor",
                format_args!(
                    "an interceptor raised an exception in send_other of a request that is answered later; \
                     the reply stays as the servant gives it"
                ),
            );
        }
    }

    /// Runs the ending points; `true` if one raised something.
    fn end(&mut self) -> bool {
        let mut changed = false;
        for interceptor in self.chain.interceptors[..self.flow].iter().rev() {
            let info = &mut self.info;
            let ended = match info.point {
                Point::SendReply => guard(interceptor, |it| it.send_reply(info).map_err(Raised::Exception)),
                Point::SendException => guard(interceptor, |it| it.send_exception(info)),
                _ => guard(interceptor, |it| it.send_other(info)),
            };
            if let Err(raised) = ended {
                self.info.raise(raised);
                changed = true;
            }
        }
        changed
    }

    /// Writes a reply again, with contexts or another result.
    fn rewrite(
        &self,
        message: &Message<'_>,
        text: isorb_cdr::Text,
        status: u32,
        offsets: ReplyOffsets,
        refusal: Option<&Refusal>,
        send: &mut dyn FnMut(&Message<'_>),
    ) {
        let mut contexts: Vec<_> = self.info.reply.iter().collect();
        let octets: usize = contexts.iter().map(|context| 8 + context.data.len().next_multiple_of(4)).sum();
        if text.version < Version::V1_2 && !octets.is_multiple_of(8) {
            contexts.push(ServiceContext { id: PADDING, data: &[0; 4] });
        }
        let limit = self.info.orb.config().message_limit;
        let id = self.info.request.id;
        let mut e = Encoder::new(Vec::with_capacity(octets + 1024), text);
        e.set_limit(limit);
        let at = message::write_reply(&mut e, id, message::ReplyStatus::NoException, &contexts);
        let head = e.position();
        match refusal {
            Some(refusal) => write_refusal(&mut e, at, head, refusal),
            None => {
                e.patch(at, status);
                let body = message::begin_body(&mut e);
                let mut skip = offsets.body(text.version);
                for piece in message.pieces() {
                    let skipped = skip.min(piece.len());
                    e.raw_lent(&piece[skipped..]);
                    skip -= skipped;
                }
                message::end_body(&mut e, body);
            }
        }
        if let Some(error) = e.error() {
            // Contexts and results together exceed the limit of a message.
            e = Encoder::new(Vec::new(), text);
            let at = message::write_reply(&mut e, id, message::ReplyStatus::NoException, &[]);
            let head = e.position();
            write_exception(&mut e, at, head, &SystemException::from(error).completed(Completion::Yes));
        }
        deliver(&mut e, send);
    }
}

impl ReplyOffsets {
    /// The start of the body.
    fn body(self, version: Version) -> usize {
        if version >= Version::V1_2 { self.head.next_multiple_of(8) } else { self.head }
    }
}

impl ServerRequestInfo<'_> {
    /// Sets the ending point for the written reply; returns its status on the wire.
    fn sent(&mut self, message: &mut Message<'_>, offsets: ReplyOffsets) -> u32 {
        // A header without contexts has 24 octets in each version, so the body begins at the same
        // offset in each.
        let body = offsets.body(Version::V1_2);
        let octets: &[u8] = message.head_mut();
        let status = number(octets, offsets.status).unwrap_or(0);
        (self.point, self.status) = match status {
            0 => (Point::SendReply, ReplyStatus::Successful),
            1 => {
                let id = string(octets, body).map_or("", |(id, _)| id);
                self.sending = Sending::User(id.into());
                (Point::SendException, ReplyStatus::UserException)
            }
            2 => {
                self.sending = Sending::System(exception(octets, body).unwrap_or(Kind::Unknown.into()));
                (Point::SendException, ReplyStatus::SystemException)
            }
            _ => {
                let reference = octets.get(body..).unwrap_or_default();
                let encapsulation = [&[Order::NATIVE.flag(), 0, 0, 0], reference].concat();
                let to = Ior::from_encapsulation(&encapsulation).ok();
                self.forward = to.map(|to| Object::new(self.orb, to));
                (Point::SendOther, ReplyStatus::LocationForward)
            }
        };
        status
    }

    /// Sets the ending point for an exception or forward of an interceptor.
    fn raise(&mut self, raised: Raised) {
        match raised {
            Raised::Exception(exception) => {
                let completed = match (self.point, &self.sending) {
                    (Point::SendException, Sending::System(before)) => before.completed,
                    (Point::SendException | Point::SendReply, _) => Completion::Yes,
                    _ => Completion::No,
                };
                self.forward = None;
                self.sending = Sending::System(exception.completed(completed));
                (self.point, self.status) = (Point::SendException, ReplyStatus::SystemException);
            }
            Raised::Forward(to) => {
                self.sending = Sending::Nothing;
                self.forward = Some(to);
                (self.point, self.status) = (Point::SendOther, ReplyStatus::LocationForward);
            }
        }
    }

    /// The result of the last interceptor that raised something.
    fn refusal(&self) -> Refusal {
        match (&self.forward, &self.sending) {
            (Some(to), _) => Refusal::Forward { to: to.clone(), permanent: false },
            (None, Sending::System(exception)) => exception.clone().into(),
            (None, _) => Kind::Internal.into(),
        }
    }
}

/// Calls a point; a panic there becomes an exception.
fn guard(
    interceptor: &Arc<dyn ServerRequestInterceptor>,
    point: impl FnOnce(&dyn ServerRequestInterceptor) -> Result<(), Raised>,
) -> Result<(), Raised> {
    catch_unwind(AssertUnwindSafe(|| point(&**interceptor))).unwrap_or_else(|_| {
        let name = catch_unwind(AssertUnwindSafe(|| interceptor.name().to_owned())).unwrap_or_default();
        Err(SystemException::new(Kind::Unknown, 0, Completion::Maybe)
            .detail(format!("the interceptor {name} panicked"))
            .into())
    })
}

fn number(octets: &[u8], at: usize) -> Option<u32> {
    octets.get(at..)?.first_chunk().map(|number| u32::from_ne_bytes(*number))
}

/// A string written by this ORB, and the offset of the next long.
fn string(octets: &[u8], at: usize) -> Option<(&str, usize)> {
    let end = at.checked_add(4)?.checked_add(number(octets, at)? as usize)?;
    let text = octets.get(at + 4..end.checked_sub(1)?)?;
    Some((std::str::from_utf8(text).ok()?, end.next_multiple_of(4)))
}

/// A system exception written by this ORB.
fn exception(octets: &[u8], at: usize) -> Option<SystemException> {
    let (id, at) = string(octets, at)?;
    let completed = match number(octets, at + 4)? {
        0 => Completion::Yes,
        1 => Completion::No,
        _ => Completion::Maybe,
    };
    Some(SystemException::new(Kind::from_repository_id(id)?, number(octets, at)?, completed))
}
