//! The call of the servant. Its results, exception or panic become the reply.

use crate::interceptor::{ReplyOffsets, Serving};
use crate::log::warn;
use crate::poa::{RequestPriority, UpcallTarget};
use crate::pool::{HeapGuard, Threadpool};
use crate::sched::PriorityGuard;
use crate::servant::Outcome;
use crate::server::write_detailed_exception;
use crate::statistics::Ended;
use crate::upcall::{Request as UpcallRequest, Upcall};
use crate::{Interface, Object, Orb, Result, SystemException};
use isorb_cdr::{Decoder, Encoder, Handle};
use isorb_giop::message::{self, ReplyStatus, Request, ServiceContext, ServiceContexts};
use isorb_giop::{Completion, Kind, context, minor};
use std::hint::cold_path;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// An operation of the servant's interface: its number and name.
pub(super) type DeclaredOperation = Option<(u16, &'static str)>;

#[inline(always)]
pub(super) fn look_up(target: &UpcallTarget<'_>, request: &Request<'_>) -> DeclaredOperation {
    target.servant().interface().operations.look_up(request.operation.as_bytes())
}

/// Calls the servant, between `before` and `postinvoke`, and completes the reply. The result of
/// `before` lives as long as the upcall. Returns how the request ended.
#[inline(always)]
pub(super) fn call_servant<'u, G>(
    target: &'u UpcallTarget<'u>,
    known: DeclaredOperation,
    upcall: &'u UpcallRequest<'u>,
    mut arguments: Decoder<'u>,
    e: &mut Encoder<'u>,
    offsets: ReplyOffsets,
    before: impl FnOnce(&'u crate::Servant) -> Result<G>,
) -> Ended {
    let body = message::begin_body(e);
    let outcome = target.upcall(|servant| {
        let _guard = before(servant)?;
        let budgets = &upcall.orb.sched().budgets;
        let _spending = known.and_then(|operation| budgets.begin(servant.interface(), operation));
        run(servant, known.map(|(index, _)| index), upcall, &mut arguments, e)
    });
    if let Ok(Ok(Outcome::Results)) = outcome
        && !target.is_located()
        && e.error().is_none()
    {
        message::end_body(e, body);
        return Ended::Results;
    }
    cold_path();
    // An exception of postinvoke replaces the servant's result.
    match target.postinvoke().and(outcome.flatten()) {
        Ok(Outcome::Results) if e.error().is_none() => {
            message::end_body(e, body);
            Ended::Results
        }
        outcome => {
            let ended = match outcome {
                Ok(Outcome::Exception) if e.error().is_none() => Ended::UserException,
                _ if upcall.refused.get() => Ended::Refused,
                // Its reply is not known yet.
                _ if upcall.deferred.get() => Ended::Results,
                _ => Ended::SystemException,
            };
            let outcome = outcome.map_err(|exception| refused_memory(exception, upcall));
            other_outcome(outcome, e, offsets);
            ended
        }
    }
}

/// Calls the servant. A panic there is UNKNOWN for the caller, and has no other effect.
#[inline(always)]
pub(super) fn run<'u>(
    servant: &'u crate::Servant,
    operation: Option<u16>,
    upcall: &'u UpcallRequest<'u>,
    d: &mut Decoder<'u>,
    e: &mut Encoder<'u>,
) -> Result<Outcome> {
    let Some(index) = operation else { return pseudo(servant.interface(), upcall, d, e) };
    let called = catch_unwind(AssertUnwindSafe(|| {
        if let Some(guard) = upcall.guard
            && let Err(exception) = guard.admit(servant.interface(), index, Upcall::new(upcall))
        {
            cold_path();
            upcall.refused.set(true);
            return Err(exception);
        }
        servant.dispatch(index, Upcall::new(upcall), d, e)
    }));
    match called {
        Ok(outcome) => outcome,
        Err(_) => Err(panicked(upcall.operation)),
    }
}

/// Says which memory an upcall had too little of, to the client and in the log.
#[cold]
fn refused_memory(exception: SystemException, upcall: &UpcallRequest<'_>) -> SystemException {
    static REFUSED: AtomicU64 = AtomicU64::new(0);
    if !exception.is_full_scope() {
        return exception;
    }
    let exception = exception.in_scope(upcall.scope);
    let count = REFUSED.fetch_add(1, Ordering::Relaxed) + 1;
    if count.is_power_of_two() {
        let detail = exception.detail.as_deref().unwrap_or("a scope is full");
        let operation = upcall.operation;
        warn("isorb::dispatch", format_args!("NO_MEMORY for {operation}: {detail}; {count} such requests"));
    }
    exception
}

#[cold]
fn panicked(operation: &str) -> SystemException {
    SystemException::new(Kind::Unknown, 0, Completion::Maybe)
        .detail(format!("the servant panicked in {operation}"))
}

/// Operations that every object has (clause 9.4.2.1).
#[cold]
pub(super) fn pseudo(
    interface: &'static Interface,
    upcall: &UpcallRequest<'_>,
    d: &mut Decoder<'_>,
    e: &mut Encoder<'_>,
) -> Result<Outcome> {
    let operation = upcall.operation;
    match operation {
        // What the band asks for was done on the way here.
        crate::sched::BIND_PRIORITY_BAND => {
            if upcall.contexts.get(context::RT_CORBA_PRIORITY_RANGE).is_none() {
                return Err(SystemException::from(Kind::Marshal)
                    .detail(format!("{operation} came without the context that says which band")));
            }
        }
        "_is_a" => e.put(u8::from(interface.is_a(d.string()?))),
        "_non_existent" | "_not_existent" => e.put(0u8),
        "_repository_id" => e.string(interface.id),
        "_interface" => {
            let definition =
                (upcall.orb.server().interface_definitions.find)(Upcall::new(upcall), interface.id)?;
            Object::encode_handle(Some(&definition), e);
        }
        "_component" => {
            return Err(SystemException::from(Kind::NoImplement).detail("there is no component model"));
        }
        _ => {
            return Err(SystemException::from(Kind::BadOperation)
                .minor(minor::BAD_OPERATION_UNKNOWN)
                .detail(format!("{} has no operation {operation}", interface.id)));
        }
    }
    Ok(Outcome::Results)
}

/// Writes a reply other than results.
#[cold]
pub(super) fn other_outcome(outcome: Result<Outcome>, e: &mut Encoder<'_>, offsets: ReplyOffsets) {
    let ReplyOffsets { status, head, detailed } = offsets;
    let exception = match outcome {
        Ok(Outcome::Exception) if e.error().is_none() => {
            return e.patch(status, ReplyStatus::UserException as u32);
        }
        Ok(_) => {
            let error = e.error().map_or(Kind::Internal.into(), SystemException::from);
            error.completed(Completion::Yes)
        }
        Err(exception) => exception,
    };
    write_detailed_exception(e, (status, head), detailed, &exception);
}

/// An upcall at the priority of its request, and its allocations where they are watched.
pub(super) struct RtGuard<'u> {
    /// Dropped first, so that nothing but the upcall counts.
    _heap: Option<HeapGuard<'u>>,
    _priority: Option<PriorityGuard>,
}

/// Gives the thread the priority of a request, as long as the result lives.
pub(super) fn apply_priority<'u>(
    orb: &Orb,
    target: &'u UpcallTarget<'_>,
    priority: Option<Result<RequestPriority>>,
    operation: DeclaredOperation,
) -> Result<Option<RtGuard<'u>>> {
    let (Some(priority), Some(rt)) = (priority, target.rt()) else { return Ok(None) };
    let priority = priority?;
    let guard = rt.apply_priority(orb, priority)?;
    let watch = |pool: &'u Arc<Threadpool>| {
        pool.watch_heap(
            priority.priority(),
            operation.map_or("an operation of every object", |(_, name)| name),
        )
    };
    Ok(Some(RtGuard { _heap: rt.pool().and_then(watch), _priority: guard }))
}

/// The priority of a request for an object of a real-time POA. If the client sent a priority, the
/// reply is begun again with it (RT-CORBA 1.2, priority models).
pub(super) fn upcall_priority(
    orb: &Orb,
    target: &UpcallTarget<'_>,
    (id, contexts): (u32, &ServiceContexts<'_>),
    intercepted: Option<&mut Serving<'_>>,
    e: &mut Encoder<'_>,
    offsets: &mut ReplyOffsets,
) -> Option<Result<RequestPriority>> {
    let rt = target.rt()?;
    let priority = rt.request_priority(orb, contexts, target.own_priority(), target.object_id());
    if let Ok(RequestPriority { echo: Some(priority), .. }) = priority {
        echo(priority, id, intercepted, e, offsets);
    }
    Some(priority)
}

pub(super) fn echo(
    priority: i16,
    id: u32,
    intercepted: Option<&mut Serving<'_>>,
    e: &mut Encoder<'_>,
    offsets: &mut ReplyOffsets,
) {
    let data = context::rt_corba_priority(priority);
    let context = ServiceContext { id: context::RT_CORBA_PRIORITY, data: &data };
    if let Some(serving) = intercepted {
        // Its replies are written once more with what was added; there is room, unless interceptors
        // added very many.
        _ = serving.add_reply_context(context);
        return;
    }
    e.truncate(0);
    let status = match e.text().version >= isorb_cdr::Version::V1_2 {
        true => message::write_prioritised_reply(e, id, ReplyStatus::NoException, priority),
        false => message::write_reply(e, id, ReplyStatus::NoException, &[context]),
    };
    *offsets = ReplyOffsets { status, head: e.position(), ..*offsets };
}
