//! A request, from its octets to its reply.

use super::seen::Ordinary;
use crate::connection::{self, Arrived, Connection};
use crate::interceptor::{Places, Serving};
use crate::poa::{Entered, Refusal};
use crate::rt::{Raised, Urgency};
use crate::servant::Outcome;
use crate::upcall::{Request as UpcallRequest, Upcall};
use crate::workspace::{Beginning, Work};
use crate::{Interface, Orb, Result, SystemException};
use isorb_cdr::{Decoder, Encoder, Message, Text};
use isorb_giop::message::{
    self, LocateStatus, OperationName, OrdinaryReply, ReplyStatus, Request, RequestPlace, Response,
    ServiceContext, ServiceContexts,
};
use isorb_giop::{Completion, Ior, Kind, ProtocolError, context, minor};
use isorb_rt::priority::Priority;
use isorb_scope::Scope;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Serves the request that lies in `work.block` and hands its reply, if one is expected, to `send` while what it borrows
/// from is alive.
///
/// # Errors
/// [`ProtocolError`] when it is no request, and the connection cannot go on.
///
/// # Real-time
/// Allocates nothing by itself: the message is read where it lies, views and upcall data go to the region, the reply to the
/// buffer of this thread.
pub(crate) fn request(
    orb: &Orb,
    connection: Option<&Arc<Connection>>,
    arrived: Arrived,
    work: &mut Work,
    send: &mut dyn FnMut(&Message<'_>),
) -> Result<(), ProtocolError> {
    let mut serving = None;
    if let Some(connection) = connection {
        serving = connection.serving();
        if serving.is_none() {
            return Ok(());
        }
    }
    let origin = Origin { connection, text: Text::DEFAULT };
    if at_once(orb, origin, arrived, work, &mut serving, send) {
        return Ok(());
    }
    any_request(orb, origin, arrived, work, serving, send)
}

/// As [`request`], for one that came over no connection and is not answered, with text in these code sets.
///
/// # Errors
/// As [`request`].
#[cfg(feature = "miop")]
pub(super) fn unanswered(
    orb: &Orb,
    text: Text,
    arrived: Arrived,
    work: &mut Work,
) -> Result<(), ProtocolError> {
    let origin = Origin { connection: None, text };
    let send = &mut |_: &Message<'_>| {};
    if at_once(orb, origin, arrived, work, &mut None, send) {
        return Ok(());
    }
    any_request(orb, origin, arrived, work, None, send)
}

/// Where a request came from.
#[derive(Clone, Copy)]
struct Origin<'c> {
    connection: Option<&'c Arc<Connection>>,
    /// Its text, where that is not the connection's.
    text: Text,
}

/// Serves a request if it is as nearly all are, and its object is active. `false`: it was not served, and nothing happened.
///
/// Nothing here meets what the rare cases give, so that what is known of the request stays in registers.
#[inline(always)]
fn at_once(
    orb: &Orb,
    Origin { connection, text }: Origin<'_>,
    arrived: Arrived,
    work: &mut Work,
    serving: &mut Option<connection::Serving<'_>>,
    send: &mut dyn FnMut(&Message<'_>),
) -> bool {
    if orb.interceptors().server().is_some() {
        return false;
    }
    let Work { region, encode, block, seen } = work;
    let bytes = &mut block.bytes_mut()[..arrived.len];
    let Some(request) = seen.find(orb, connection, bytes, &arrived.header) else { return false };
    let Ordinary { place, found, operation } = request;
    let RequestPlace { id, response, contexts, body_at } = place;
    let scope = region.enter();
    let entered = found.enter(OperationName::from(operation.1));
    let text = connection.map_or(text, |connection| connection.text(arrived.header.version));
    // The place was found in this message.
    let (head, body) = bytes.split_at_mut(body_at.min(bytes.len()));
    let contexts = contexts.of(head, arrived.header.order);
    let d = Decoder::behind(body_at, body, arrived.header.order, text, &scope).with_context(orb);
    let (buffer, begun) = encode.take_for(Beginning::REPLY);
    let mut e = Encoder::resume(buffer, begun, text);
    e.set_limit(orb.config().message_limit);
    if begun == 0 {
        message::write_reply(&mut e, id, ReplyStatus::NoException, &[]);
    } else {
        message::renew_reply(&mut e, id, ReplyStatus::NoException);
    }
    let ordinary = OrdinaryReply::BODY_AT;
    let mut places = Places { status: OrdinaryReply::STATUS_AT, head: ordinary };
    let upcall = UpcallRequest {
        scope: &scope,
        orb,
        operation: operation.1,
        object_id: entered.object_id(),
        poa: Some(entered.poa()),
        contexts,
    };
    if entered.rt().is_none() {
        call_servant(&entered, Some(operation), &upcall, d, &mut e, places, |_| Ok(()));
    } else {
        call_urgently(&entered, Some(operation), &upcall, d, &mut e, &mut places, id);
    }
    if response == Response::Target {
        deliver(&mut e, send);
    }
    // Before the POA hears that the upcall has ended: who waits for that may close the connection next.
    drop(serving.take());
    encode.put_back(e.into_buffer());
    if places.head == ordinary {
        encode.begins(Beginning::REPLY, ordinary);
    }
    true
}

/// As [`request`], in all cases: any version, way of naming the object and policies of its POA, service contexts that are about the
/// connection, interceptors, refusals.
#[inline(never)]
fn any_request(
    orb: &Orb,
    Origin { connection, text }: Origin<'_>,
    arrived: Arrived,
    work: &mut Work,
    serving: Option<connection::Serving<'_>>,
    send: &mut dyn FnMut(&Message<'_>),
) -> Result<(), ProtocolError> {
    let Work { region, encode, block, .. } = work;
    let scope = region.enter();
    let bytes = &mut block.bytes_mut()[..arrived.len];
    let (request, mut d) = Request::open(bytes, &arrived.header, &scope)?;
    d.set_context(orb);
    let version = arrived.header.version;
    let mut acceptable = Ok(());
    let text = match connection {
        Some(connection) => {
            if !request.contexts.is_empty() {
                acceptable = note_contexts(orb, connection, &request, version)?;
            }
            connection.text(version)
        }
        None => text,
    };
    d.set_text(text);

    let mut e = Encoder::new(encode.take(), text);
    e.set_limit(orb.config().message_limit);
    let status_at = message::write_reply(&mut e, request.id, ReplyStatus::NoException, &[]);
    let head = e.position();
    let mut places = Places { status: status_at, head };
    let entered;
    let upcall;
    let mut intercepted = match orb.interceptors().server() {
        Some(chain) => Some(chain.serve(orb, &request)?),
        None => None,
    };
    let mut started = match &mut intercepted {
        Some(serving) if acceptable.is_ok() && request.target.key().is_some() => serving.start(),
        _ => Ok(()),
    };
    if intercepted.is_some() && request.response == Response::Server && started.is_ok() {
        // A refusal is for the ending points to see, and answered after them.
        started = request.target.key().map_or(Ok(()), |key| find(orb, key));
    }
    if request.response == Response::Server && started.is_ok() {
        let contexts = intercepted.as_mut().map_or_else(Vec::new, Serving::answer_early);
        let found = answer_early(orb, &request, text, &contexts, send);
        if !found && intercepted.is_none() {
            encode.put_back(e.into_buffer());
            return Ok(());
        }
    }

    match request.target.key() {
        _ if acceptable.is_err() => {
            if let Err(exception) = &acceptable {
                write_exception(&mut e, status_at, head, exception);
            }
        }
        None => {
            // A profile that is not IIOP: ask for the key (clause 9.4.3.1).
            e.patch(status_at, ReplyStatus::NeedsAddressingMode as u32);
            let body = message::begin_body(&mut e);
            e.put(0u16);
            message::end_body(&mut e, body);
        }
        Some(key) => match started.and_then(|()| enter(orb, key, request.operation, &scope)) {
            Err(refusal) => write_refusal(&mut e, status_at, head, &refusal),
            Ok(target) => {
                entered = target;
                let known = look_up(&entered, &request);
                let urgency = urgency(
                    orb,
                    &entered,
                    (request.id, &request.contexts),
                    intercepted.as_mut(),
                    &mut e,
                    &mut places,
                );
                upcall = UpcallRequest {
                    scope: &scope,
                    orb,
                    // What is no text is no operation of any object.
                    operation: match known {
                        Some((_, name)) => name,
                        None => request.operation.text().unwrap_or_default(),
                    },
                    object_id: entered.object_id(),
                    poa: Some(entered.poa()),
                    contexts: request.contexts,
                };
                call_servant(&entered, known, &upcall, d, &mut e, places, |servant| {
                    if let (None, Some(connection)) = (known, connection) {
                        super::bands::settle(orb, connection, &request, &entered)?;
                    }
                    if let Some(serving) = &mut intercepted {
                        serving.reach(servant, &entered)?;
                    }
                    take_on(orb, &entered, urgency)
                });
            }
        },
    }
    if let Some(serving) = intercepted {
        serving.finish(e, places, encode, send);
        return Ok(());
    }
    if request.response == Response::Target {
        deliver(&mut e, send);
    }
    // As in `request`.
    drop(serving);
    encode.put_back(e.into_buffer());
    Ok(())
}

/// An operation of the servant's interface: its number and name.
type Known = Option<(u16, &'static str)>;

#[inline(always)]
fn look_up(entered: &Entered<'_>, request: &Request<'_>) -> Known {
    entered.servant().interface().operations.look_up(request.operation.as_bytes())
}

/// Calls the servant, between `before` and `postinvoke`, and completes the reply. What `before` gives lives as long as the upcall.
#[inline(always)]
fn call_servant<'u, G>(
    entered: &'u Entered<'u>,
    known: Known,
    upcall: &'u UpcallRequest<'u>,
    mut arguments: Decoder<'u>,
    e: &mut Encoder<'u>,
    places: Places,
    before: impl FnOnce(&'u crate::Servant) -> Result<G>,
) {
    let body = message::begin_body(e);
    let outcome = entered.upcall(|servant| {
        let _held = before(servant)?;
        let budgets = &upcall.orb.rt_state().budgets;
        let _spending = known.and_then(|operation| budgets.begin(servant.interface(), operation));
        run(servant, known.map(|(index, _)| index), upcall, &mut arguments, e)
    });
    if let Ok(Ok(Outcome::Results)) = outcome
        && !entered.is_located()
        && e.error().is_none()
    {
        return message::end_body(e, body);
    }
    // What postinvoke raises takes the place of what the servant gave.
    match entered.postinvoke().and(outcome.flatten()) {
        Ok(Outcome::Results) if e.error().is_none() => message::end_body(e, body),
        outcome => other_outcome(outcome, e, places),
    }
}

/// As [`call_servant`], for an object of a real-time POA: at the priority of the request.
#[inline(never)]
fn call_urgently<'u>(
    entered: &'u Entered<'u>,
    known: Known,
    upcall: &'u UpcallRequest<'u>,
    arguments: Decoder<'u>,
    e: &mut Encoder<'u>,
    places: &mut Places,
    id: u32,
) {
    let urgency = urgency(upcall.orb, entered, (id, &upcall.contexts), None, e, places);
    call_servant(entered, known, upcall, arguments, e, *places, |_| take_on(upcall.orb, entered, urgency));
}

/// Runs at the priority of a request, as long as the result lives.
fn take_on(orb: &Orb, entered: &Entered<'_>, urgency: Option<Result<Urgency>>) -> Result<Option<Raised>> {
    match (urgency, entered.rt()) {
        (Some(urgency), Some(rt)) => rt.take_on(orb, urgency?),
        _ => Ok(None),
    }
}

/// The priority of a request for an object of a real-time POA. Where the client sent one, it is told so with the reply, which begins
/// anew then (RT-CORBA 1.2, clause 5.4.2).
fn urgency(
    orb: &Orb,
    entered: &Entered<'_>,
    (id, contexts): (u32, &ServiceContexts<'_>),
    intercepted: Option<&mut Serving<'_>>,
    e: &mut Encoder<'_>,
    places: &mut Places,
) -> Option<Result<Urgency>> {
    let rt = entered.rt()?;
    let urgency = rt.urgency(orb, contexts, entered.own_priority(), entered.object_id());
    if let Ok(Urgency { echo: Some(priority), .. }) = urgency {
        echo(priority, id, intercepted, e, places);
    }
    Some(urgency)
}

/// The priority at which a request will run that lies in `work.block`, as far as that can be known before anybody serves it.
pub(super) fn urgency_of(orb: &Orb, arrived: Arrived, work: &mut Work) -> Option<Priority> {
    let Work { region, block, .. } = work;
    let scope = region.enter();
    let (request, _) = Request::open(&mut block.bytes_mut()[..arrived.len], &arrived.header, &scope).ok()?;
    orb.registry().urgency(orb, request.target.key()?, &request.contexts)
}

fn echo(
    priority: i16,
    id: u32,
    intercepted: Option<&mut Serving<'_>>,
    e: &mut Encoder<'_>,
    places: &mut Places,
) {
    let data = context::rt_corba_priority(priority);
    let context = ServiceContext { id: context::RT_CORBA_PRIORITY, data: &data };
    if let Some(serving) = intercepted {
        // Its replies are written once more with what was added; there is room, unless interceptors added very many.
        _ = serving.add_reply_context(context);
        return;
    }
    e.truncate(0);
    let status = match e.text().version >= isorb_cdr::Version::V1_2 {
        true => message::write_prioritised_reply(e, id, ReplyStatus::NoException, priority),
        false => message::write_reply(e, id, ReplyStatus::NoException, &[context]),
    };
    *places = Places { status, head: e.position() };
}

/// A reply that is no result.
#[cold]
fn other_outcome(outcome: Result<Outcome>, e: &mut Encoder<'_>, Places { status, head }: Places) {
    match outcome {
        Ok(Outcome::Exception) if e.error().is_none() => e.patch(status, ReplyStatus::UserException as u32),
        Ok(_) => {
            let error = e.error().map_or(Kind::Internal.into(), SystemException::from);
            write_exception(e, status, head, &error.completed(Completion::Yes));
        }
        Err(exception) => write_exception(e, status, head, &exception),
    }
}

/// Answers a request with an exception, without looking for its object.
///
/// # Errors
/// As [`request`].
#[cold]
pub(super) fn turn_away(
    orb: &Orb,
    connection: &Connection,
    arrived: Arrived,
    work: &mut Work,
    exception: &SystemException,
    send: &mut dyn FnMut(&Message<'_>),
) -> Result<(), ProtocolError> {
    let Work { region, encode, block, .. } = work;
    let scope = region.enter();
    let mut d = message::start_whole(&mut block.bytes_mut()[..arrived.len], &arrived.header, &scope);
    let request = Request::read(&mut d)?;
    if request.response == Response::None {
        return Ok(());
    }
    let mut e = Encoder::new(encode.take(), connection.text(arrived.header.version));
    e.set_limit(orb.config().message_limit);
    let status_at = message::write_reply(&mut e, request.id, ReplyStatus::NoException, &[]);
    let head = e.position();
    write_exception(&mut e, status_at, head, exception);
    deliver(&mut e, send);
    encode.put_back(e.into_buffer());
    Ok(())
}

/// Answers whether the object was found before the servant runs, and says it; what the servant then does, nobody hears.
#[cold]
fn answer_early(
    orb: &Orb,
    request: &Request<'_>,
    text: Text,
    contexts: &[ServiceContext<'_>],
    send: &mut dyn FnMut(&Message<'_>),
) -> bool {
    let found = request.target.key().map_or(Ok(()), |key| find(orb, key));
    let mut e = Encoder::new(Vec::new(), text);
    let status_at = message::write_reply(&mut e, request.id, ReplyStatus::NoException, contexts);
    let head = e.position();
    if let Err(refusal) = &found {
        write_refusal(&mut e, status_at, head, refusal);
    }
    deliver(&mut e, send);
    found.is_ok()
}

/// The target of a request: by a key that this ORB made, or a plain one that was registered.
fn enter<'u>(
    orb: &Orb,
    key: &'u [u8],
    operation: OperationName<'u>,
    scope: &'u Scope<'u>,
) -> Result<Entered<'u>, Refusal> {
    match orb.registry().enter(key, operation) {
        Ok(entered) => Ok(entered),
        Err(refusal) => enter_by_plain_key(orb, key, operation, scope, refusal),
    }
}

#[cold]
fn enter_by_plain_key<'u>(
    orb: &Orb,
    key: &'u [u8],
    operation: OperationName<'u>,
    scope: &'u Scope<'u>,
    refusal: Refusal,
) -> Result<Entered<'u>, Refusal> {
    let Some(object) = orb.plain_key(key) else { return Err(refusal) };
    match object.local_key(orb) {
        Some(key) => {
            let key = scope.slice(&key).map_err(SystemException::from)?;
            orb.registry().enter(key, operation)
        }
        None => Err(Refusal::Forward { to: object, permanent: false }),
    }
}

fn find(orb: &Orb, key: &[u8]) -> Result<(), Refusal> {
    match (orb.registry().locate(key), orb.plain_key(key)) {
        (Err(_), Some(object)) => match object.local_key(orb) {
            Some(key) => orb.registry().locate(&key),
            None => Err(Refusal::Forward { to: object, permanent: false }),
        },
        (found, _) => found,
    }
}

/// Calls the servant; a panic there is UNKNOWN to the caller and nothing to anybody else.
#[inline(always)]
fn run<'u>(
    servant: &'u crate::Servant,
    operation: Option<u16>,
    upcall: &'u UpcallRequest<'u>,
    d: &mut Decoder<'u>,
    e: &mut Encoder<'u>,
) -> Result<Outcome> {
    let Some(index) = operation else { return pseudo(servant.interface(), upcall, d, e) };
    let called = catch_unwind(AssertUnwindSafe(|| servant.dispatch(index, Upcall::new(upcall), d, e)));
    called.unwrap_or_else(|_| {
        Err(SystemException::new(Kind::Unknown, 0, Completion::Maybe)
            .detail(format!("the servant panicked in {}", upcall.operation)))
    })
}

/// Operations that every object has (clause 9.4.2.1).
#[cold]
fn pseudo(
    interface: &Interface,
    upcall: &UpcallRequest<'_>,
    d: &mut Decoder<'_>,
    e: &mut Encoder<'_>,
) -> Result<Outcome> {
    let operation = upcall.operation;
    match operation {
        // What the band asks for was done on the way here.
        crate::rt::BIND_PRIORITY_BAND => {
            if upcall.contexts.get(context::RT_CORBA_PRIORITY_RANGE).is_none() {
                return Err(SystemException::from(Kind::Marshal)
                    .detail(format!("{operation} came without the context that says which band")));
            }
        }
        "_is_a" => e.put(u8::from(interface.is_a(d.string()?))),
        "_non_existent" | "_not_existent" => e.put(0u8),
        "_repository_id" => e.string(interface.id),
        "_interface" => {
            return Err(SystemException::from(Kind::IntfRepos).minor(minor::INTF_REPOS_UNAVAILABLE));
        }
        "_component" => Ior::NIL.encode(e),
        _ => {
            return Err(SystemException::from(Kind::BadOperation)
                .minor(minor::BAD_OPERATION_UNKNOWN)
                .detail(format!("{} has no operation {operation}", interface.id)));
        }
    }
    Ok(Outcome::Results)
}

#[cold]
pub(crate) fn write_refusal(e: &mut Encoder<'_>, status_at: usize, head: usize, refusal: &Refusal) {
    match refusal {
        Refusal::Exception(exception) => write_exception(e, status_at, head, exception),
        Refusal::Forward { to, permanent } => {
            e.truncate(head);
            // Forwarding for good came with GIOP 1.2.
            let for_good = *permanent && e.text().version >= isorb_cdr::Version::V1_2;
            let status =
                if for_good { ReplyStatus::LocationForwardPerm } else { ReplyStatus::LocationForward };
            e.patch(status_at, status as u32);
            let body = message::begin_body(e);
            to.ior().encode(e);
            message::end_body(e, body);
        }
    }
}

#[cold]
pub(crate) fn write_exception(
    e: &mut Encoder<'_>,
    status_at: usize,
    head: usize,
    exception: &SystemException,
) {
    e.truncate(head);
    e.patch(status_at, ReplyStatus::SystemException as u32);
    let body = message::begin_body(e);
    exception.encode(e);
    message::end_body(e, body);
}

#[inline(always)]
pub(crate) fn deliver(e: &mut Encoder<'_>, send: &mut dyn FnMut(&Message<'_>)) {
    let finished = e.finished().and_then(|message| {
        message::finish_header(message)?;
        Ok(message)
    });
    match finished {
        Ok(message) => send(message),
        Err(error) => crate::log::note(format_args!("a reply could not be written: {error}")),
    }
}

/// Contexts that change what is known of the connection: code sets, bidirectional listen points; whether a band of priorities can be read.
#[cold]
fn note_contexts(
    orb: &Orb,
    connection: &Arc<Connection>,
    request: &Request<'_>,
    version: isorb_cdr::Version,
) -> Result<Result<()>, ProtocolError> {
    if connection.code_sets().is_none()
        && let Some(data) = request.contexts.get(context::CODE_SETS)
    {
        match context::CodeSets::read(data)?.text(version) {
            Ok(text) => connection.set_code_sets(text.narrow, text.wide),
            Err(exception) => return Ok(Err(exception)),
        }
    }
    if let Some(data) = request.contexts.get(context::BI_DIR_IIOP) {
        orb.accept_bidirectional(connection, data);
    }
    if let Some(data) = request.contexts.get(context::RT_CORBA_PRIORITY_RANGE)
        && let Err(exception) = context::PriorityRange::read(data)
    {
        return Ok(Err(exception));
    }
    Ok(Ok(()))
}

/// Answers where an object is.
pub(crate) fn locate(
    orb: &Orb,
    arrived: Arrived,
    work: &mut Work,
    send: &mut dyn FnMut(&Message<'_>),
) -> Result<(), ProtocolError> {
    let Work { region, encode, block, .. } = work;
    let scope = region.enter();
    let bytes = &mut block.bytes_mut()[..arrived.len];
    let mut d = message::start(bytes, &arrived.header, &scope)?;
    let request = message::LocateRequest::read(&mut d)?;
    let text = Text::fallback(arrived.header.version);
    let new = arrived.header.version >= isorb_cdr::Version::V1_2;
    let mut e = Encoder::new(encode.take(), text);
    let mut answer = |status| message::write_locate_reply(&mut e, request.id, status);
    match request.target.key().map(|key| find(orb, key)) {
        None if new => {
            answer(LocateStatus::NeedsAddressingMode);
            e.put(0u16);
        }
        None => answer(LocateStatus::UnknownObject),
        Some(Ok(())) => answer(LocateStatus::ObjectHere),
        Some(Err(Refusal::Forward { to, permanent })) => {
            answer(if permanent && new {
                LocateStatus::ObjectForwardPerm
            } else {
                LocateStatus::ObjectForward
            });
            to.ior().encode(&mut e);
        }
        Some(Err(Refusal::Exception(exception))) if new && exception.kind != Kind::ObjectNotExist => {
            answer(LocateStatus::SystemException);
            exception.encode(&mut e);
        }
        Some(Err(Refusal::Exception(_))) => answer(LocateStatus::UnknownObject),
    }
    deliver(&mut e, send);
    encode.put_back(e.into_buffer());
    Ok(())
}
