//! Calls that are begun and waited for later.

use super::attempt::{Answer, Call, RtContexts};
use super::reply::{Failure, Outcome, copy_body, copy_octets, take_message};
use super::{Progress, Reply, call_scope};
use crate::buffers::{CallBuffers, with_buffers};
use crate::connection::{Arrived, Connection, PendingRequest, Reader};
use crate::object::{Locality, Target};
use crate::policy::{Effective, Timeout};
use crate::{Object, Operation, Orb, Result, SystemException, dispatch};
use isorb_cdr::{Encoder, ErrorKind, Message, Text, Version};
use isorb_giop::message::{OrdinaryReply, ReplyStatus, Response};
use isorb_giop::{Completion, Kind, minor};
use isorb_rt::net::{WakeEvent, wait_any_ready};
use isorb_rt::time::Deadline;
use isorb_scope::{Buffer, Scope};
use std::cell::Cell;
use std::fmt;
use std::future::Future;
use std::os::fd::{AsFd, AsRawFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// A call that was begun, before its results are read. Dropping it abandons the call.
pub struct PendingCall {
    object: Object,
    operation: &'static str,
    policies: Effective,
    began: u64,
    deadline: Deadline,
    target: Arc<Target>,
    sent: Sent,
}

/// Where the reply of a call is.
enum Sent {
    /// It comes over a connection. The arguments are kept in case the request must be sent again.
    Remote(PendingRequest, Option<Arguments>),
    /// The object is in this ORB, which has answered.
    Local(Buffer, usize),
}

/// The encoded arguments of a call.
pub(super) struct Arguments {
    octets: Buffer,
    len: usize,
    text: Text,
}

impl Arguments {
    /// Those of a message with its body at an offset. `None` for a version of GIOP in which they
    /// cannot be moved, or if there is no memory.
    fn of(
        message: &Message<'_>,
        body_at: usize,
        text: Text,
        pool: &Arc<isorb_scope::BufferPool>,
    ) -> Option<Arguments> {
        let len = message.len().saturating_sub(body_at);
        if text.version < Version::V1_2 {
            return None;
        }
        let mut octets = pool.take(len)?;
        let (mut at, mut to) = (0, 0);
        for piece in message.pieces() {
            let skip = body_at.saturating_sub(at).min(piece.len());
            let rest = &piece[skip..];
            octets.bytes_mut()[to..to + rest.len()].copy_from_slice(rest);
            (at, to) = (at + piece.len(), to + rest.len());
        }
        Some(Arguments { octets, len, text })
    }

    fn write(&self, e: &mut Encoder<'_>) {
        let text = e.text();
        match text.version >= Version::V1_2 && (text.narrow, text.wide) == (self.text.narrow, self.text.wide)
        {
            true => e.raw(&self.octets.bytes()[..self.len]),
            false => e.fail(ErrorKind::Text),
        }
    }
}

/// What is kept of a request that was sent, until its reply is awaited.
#[derive(Default)]
pub(super) struct SentRequest {
    begun: Cell<Option<PendingRequest>>,
    arguments: Cell<Option<Arguments>>,
}

impl SentRequest {
    /// Keeps the arguments of a request that is about to be sent, from an offset of its message.
    #[cold]
    pub fn keep(&self, message: &Message<'_>, body_at: usize, text: Text, connection: &Connection) {
        self.arguments.set(Arguments::of(message, body_at, text, connection.pool()));
    }
}

#[cold]
fn none_free() -> Failure {
    SystemException::from(Kind::ImpLimit)
        .minor(minor::IMP_LIMIT_PENDING)
        .detail("as many calls are begun on the connection as may be (pending_calls)")
        .into()
}

/// Delivers what has arrived on a connection. Says whether another thread reads it.
fn read_replies(orb: &Orb, connection: &Arc<Connection>) -> Reader {
    let read = with_buffers(connection.pool(), |buffers| {
        let mut other = |arrived: Arrived, block: &mut Buffer| {
            dispatch::handle_while_waiting(orb, connection, arrived, block);
        };
        Ok::<_, SystemException>(connection.read_replies(&mut buffers.block, &mut other))
    });
    read.unwrap_or(Reader::Another)
}

impl Object {
    /// Begins a call: sends its request, and does not wait for the reply. A call to an object of
    /// this ORB is made at once.
    ///
    /// # Errors
    /// As [`Object::invoke`], as far as they are known by then; IMP_LIMIT when as many calls are
    /// begun on the connection as may be (`pending_calls`); NO_IMPLEMENT with client interceptors.
    ///
    /// # Real-time
    /// As [`Object::send`], and copies the encoded arguments to a block of the ORB's pool. The
    /// first such call of a connection allocates.
    pub fn begin<'a>(
        &self,
        operation: &Operation,
        arguments: &dyn Fn(&mut Encoder<'a>),
    ) -> Result<PendingCall> {
        if self.has_times() {
            self.refuse_start()?;
        }
        let policies = self.effective_policies()?;
        if self.client_chain().is_some() {
            return Err(SystemException::from(Kind::NoImplement).detail(
                "a call with client interceptors cannot be begun: they run on the thread that waits",
            ));
        }
        let sent_request = SentRequest::default();
        let mut call = self.call(operation, Response::Target, arguments, policies)?;
        let mut target = self.target()?;
        let sent = call_scope(|scope| -> Result<Sent> {
            if matches!(target.locality, Locality::Local) {
                let answer = call.attempt(&target, scope, policies).map_err(Failure::into_exception)?;
                let Some(Answer::Any(_, octets, _)) = answer else { return Err(Kind::Internal.into()) };
                let mut kept = self.orb().pool().take(octets.len()).ok_or(Kind::NoMemory)?;
                kept.bytes_mut()[..octets.len()].copy_from_slice(octets);
                return Ok(Sent::Local(kept, octets.len()));
            }
            call.sent_request = Some(&sent_request);
            let outcome = call.attempt_outcome(&target, scope, policies);
            if !matches!(outcome, Ok(Outcome::Done)) {
                let mut again = |now: &Arc<Target>, _: Progress| {
                    target = now.clone();
                    Ok(call.attempt_outcome(now, scope, policies))
                };
                self.go_on(&call, self.target()?, outcome, policies, &mut again)?;
            }
            let begun = sent_request.begun.take().ok_or(Kind::Internal)?;
            Ok(Sent::Remote(begun, sent_request.arguments.take()))
        })?;
        let (object, operation) = (self.clone(), operation.name);
        let (began, deadline) = (call.began, call.deadline);
        Ok(PendingCall { object, operation, policies, began, deadline, target, sent })
    }
}

impl PendingCall {
    /// Whether a wait would end at once: the reply has arrived, none will come, or the time-out has
    /// passed.
    ///
    /// # Real-time
    /// Allocates nothing and does not wait; at most one receive system call for each message that
    /// has arrived.
    pub fn is_ready(&self) -> bool {
        self.is_known() || {
            self.read_replies();
            self.is_known()
        }
    }

    /// As [`is_ready`](Self::is_ready), as far as it is known without a system call.
    fn is_known(&self) -> bool {
        match &self.sent {
            Sent::Remote(begun, _) => begun.is_ready() || self.deadline.is_past(),
            Sent::Local(..) => true,
        }
    }

    fn begun(&self) -> Option<&PendingRequest> {
        match &self.sent {
            Sent::Remote(begun, _) => Some(begun),
            Sent::Local(..) => None,
        }
    }

    /// Delivers what has arrived on the connection. Says whether another thread reads it.
    fn read_replies(&self) -> Reader {
        let Sent::Remote(begun, _) = &self.sent else { return Reader::None };
        read_replies(self.object.orb(), begun.connection())
    }

    /// Waits for the reply, which lies in `scope`. Sends the request again where a call would: to
    /// the target of a forward, or over another connection if the server closed this one before it
    /// took the request.
    ///
    /// # Errors
    /// The system exception that the call ended in; TIMEOUT at the deadline, which counts from the
    /// beginning of the call.
    ///
    /// # Real-time
    /// As [`Object::invoke`].
    pub fn wait_in<'s>(self, scope: &'s Scope<'s>) -> Result<Reply<'s>> {
        let PendingCall { object, operation, policies, began, deadline, target, sent } = self;
        let orb = object.orb();
        let (begun, kept) = match sent {
            Sent::Remote(begun, kept) => (Ok(begun), kept),
            Sent::Local(octets, len) => (Err((octets, len)), None),
        };
        let arguments = |e: &mut Encoder<'_>| match &kept {
            Some(kept) => kept.write(e),
            None => e.fail(ErrorKind::NotRemotable),
        };
        let call = Call::waiting(&object, operation, &arguments, (began, deadline, policies.timeout));
        let answer = match &begun {
            Ok(begun) => call.receive_begun(begun, &target, scope),
            Err((octets, len)) => copy_octets(&octets.bytes()[..*len], scope, orb.pool())
                .and_then(|octets| Ok(Answer::Any(Arrived::of_local(octets)?, octets, Text::HELD)))
                .map_err(Failure::Final),
        };
        // The slot is free for a second attempt.
        drop(begun);
        let outcome = match answer {
            Ok(Answer::Results(body, order, text)) => {
                return Ok(Reply::Results(call.results((body, order, text), scope)?));
            }
            Ok(answer) => call.outcome(answer, scope),
            Err(failure) => Err(failure),
        };
        let mut again = |target: &Arc<Target>, _: Progress| match &kept {
            None if !matches!(target.locality, Locality::Local) => {
                Err(SystemException::from(Kind::Transient)
                    .detail("the object is elsewhere, and the arguments were not kept: call again"))
            }
            _ => Ok(call.attempt_outcome(target, scope, policies)),
        };
        object.go_on(&call, target, outcome, policies, &mut again)?.ok_or(Kind::Internal.into())
    }

    /// Has the client lane wake `waker` once, when the call may be [ready](Self::is_ready); for
    /// event loops that are no executors of futures. Look again after this call: the reply may have
    /// come before it.
    ///
    /// # Errors
    /// BAD_INV_ORDER without a client lane
    /// ([`RtOrb::start_client_lane`](crate::rt::RtOrb::start_client_lane)).
    ///
    /// # Real-time
    /// One PI lock of the connection and one of the lane; clones `waker`. The lane's thread wakes
    /// it.
    pub fn wake_when_ready(&self, waker: &Waker) -> Result<()> {
        let Sent::Remote(begun, _) = &self.sent else { return Ok(()) };
        let Some(lane) = self.object.orb().server().client_lane.get() else {
            return Err(SystemException::from(Kind::BadInvOrder).detail(
                "no thread reads replies for futures: call RtOrb::start_client_lane first, or wait() instead of await",
            ));
        };
        begun.register(waker, self.deadline);
        lane.watch(begun.connection(), self.deadline)
    }
}

impl Call<'_, '_> {
    /// Sends a request over a connection, and leaves its slot to the call's beginning.
    #[cold]
    pub(super) fn begin_on<'s>(
        &self,
        sent_request: &SentRequest,
        target: &Target,
        connection: &Arc<Connection>,
        scope: &'s Scope<'s>,
        timeout: Timeout,
        contexts: RtContexts,
    ) -> Result<Option<Answer<'s>>, Failure> {
        let Some(begun) = PendingRequest::claim(connection) else { return Err(none_free()) };
        if begun.reads_first() {
            read_replies(self.orb, connection);
        }
        with_buffers(connection.pool(), |buffers| {
            self.send_request(target, connection, scope, timeout, contexts, begun.id(), buffers)
        })?;
        sent_request.begun.set(Some(begun));
        Ok(None)
    }

    /// The reply to a request that was sent before.
    fn receive_begun<'s>(
        &self,
        begun: &PendingRequest,
        target: &Target,
        scope: &'s Scope<'s>,
    ) -> Result<Answer<'s>, Failure> {
        let connection = begun.connection();
        with_buffers(connection.pool(), |buffers: &mut CallBuffers| {
            let mut other = |arrived: Arrived, block: &mut Buffer| {
                dispatch::handle_while_waiting(self.orb, connection, arrived, block);
            };
            let block = &mut buffers.block;
            let arrived = match begun.wait(self.deadline, block, &mut other) {
                Ok(arrived) => arrived,
                Err(error) => return Err(self.read_failure(error, connection, begun.id(), target)),
            };
            let text = connection.text(arrived.header.version);
            let message = &block.bytes()[..arrived.len];
            if let Some(reply) = OrdinaryReply::find(message, &arrived.header)
                && reply.status == ReplyStatus::NoException
                && let Some(body) = copy_body(scope, &message[OrdinaryReply::BODY_AT..])
            {
                return Ok(Answer::Results(body, arrived.header.order, text));
            }
            let octets = take_message(scope, block, arrived.len, connection.pool())
                .map_err(|exception| exception.completed(Completion::Maybe))?;
            Ok(Answer::Any(arrived, octets, text))
        })
    }
}

/// A call that [`wait_any`] can wait for.
pub trait AnyPending {
    /// The call, unless its results were taken.
    fn call(&self) -> Option<&PendingCall>;
}

impl AnyPending for PendingCall {
    fn call(&self) -> Option<&PendingCall> {
        Some(self)
    }
}

impl<T, E> AnyPending for Pending<T, E> {
    fn call(&self) -> Option<&PendingCall> {
        self.call.as_ref()
    }
}

impl<P: AnyPending + ?Sized> AnyPending for &P {
    fn call(&self) -> Option<&PendingCall> {
        (**self).call()
    }
}

impl fmt::Debug for PendingCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingCall").field("operation", &self.operation).finish_non_exhaustive()
    }
}

/// Another thread that reads a connection may leave it without a word: how long until
/// [`wait_any`] looks.
const LOOK: Duration = Duration::from_millis(1);

/// Most connections that [`wait_any`] waits for.
const MOST_CONNECTIONS: usize = isorb_rt::net::MOST_FILES - 1;

thread_local! {
    /// What wakes this thread while it waits for several calls.
    static EVENT: Option<(Arc<WakeEvent>, Waker)> = WakeEvent::new().ok().map(|event| {
        let event = Arc::new(event);
        (event.clone(), Waker::from(event))
    });
}

/// Waits until one of the calls is [ready](PendingCall::is_ready), and gives its index. The calling
/// thread reads the connections that no other thread reads. Calls without results, which were
/// taken, are skipped.
///
/// # Errors
/// BAD_PARAM for no calls; IMP_LIMIT for calls over more than 63 connections; NO_RESOURCES when the
/// process has no file descriptor left.
///
/// # Real-time
/// Allocates in the first call of a thread only. Blocks until the earliest deadline of the calls at
/// the latest. Where another thread reads a connection and leaves it, up to 1 ms passes until this
/// one reads.
pub fn wait_any<P: AnyPending>(calls: &[P]) -> Result<usize> {
    let no_event = || SystemException::from(Kind::NoResources).detail("no file descriptor is left");
    let all = || calls.iter().enumerate().filter_map(|(index, call)| Some((index, call.call()?)));
    let remote = || all().filter_map(|(_, call)| Some((call, call.begun()?)));
    let known = || all().find(|(_, call)| call.is_known()).map(|(index, _)| index);
    if all().next().is_none() {
        return Err(SystemException::from(Kind::BadParam).detail("there is no call to wait for"));
    }
    EVENT.with(|event| {
        let (event, waker) = event.as_ref().ok_or_else(no_event)?;
        let found = loop {
            event.clear();
            let mut deadline = Deadline::NONE;
            for (call, begun) in remote() {
                begun.register(waker, Deadline::NONE);
                deadline = deadline.earlier(call.deadline);
            }
            let mut files = [event.as_fd(); MOST_CONNECTIONS + 1];
            let mut used = 1;
            for (call, begun) in remote() {
                let stream = begun.connection().stream();
                if files[1..used].iter().any(|file| file.as_raw_fd() == stream.fd().as_raw_fd()) {
                    continue;
                }
                if used > MOST_CONNECTIONS {
                    return Err(SystemException::from(Kind::ImpLimit)
                        .detail(format!("the calls wait on more than {MOST_CONNECTIONS} connections")));
                }
                stream.watched();
                if call.read_replies() == Reader::Another {
                    deadline = deadline.earlier(Deadline::after(LOOK));
                } else {
                    files[used] = stream.fd();
                    used += 1;
                }
            }
            if let Some(index) = known() {
                break index;
            }
            wait_any_ready(&files[..used], deadline)
                .map_err(|error| SystemException::from(Kind::NoResources).detail(error.to_string()))?;
        };
        remote().for_each(|(_, begun)| begun.forget_waker());
        Ok(found)
    })
}

/// A call that was begun, by its results: what a generated `…_begin` returns.
///
/// Wait for it with [`wait`](Self::wait), or `await` it: then a client lane
/// ([`RtOrb::start_client_lane`](crate::rt::RtOrb::start_client_lane)) reads the reply and wakes
/// the task. Dropping it abandons the call.
#[must_use = "dropping it abandons the call"]
pub struct Pending<T, E = SystemException> {
    call: Option<PendingCall>,
    read: for<'s> fn(Reply<'s>) -> Result<T, E>,
}

impl<T, E: From<SystemException>> Pending<T, E> {
    /// A call and the function that reads its results.
    pub fn new(call: PendingCall, read: for<'s> fn(Reply<'s>) -> Result<T, E>) -> Pending<T, E> {
        Pending { call: Some(call), read }
    }

    /// Waits for the results.
    ///
    /// # Errors
    /// The exception that the call ended in.
    ///
    /// # Real-time
    /// As [`PendingCall::wait_in`]; owned results allocate.
    pub fn wait(mut self) -> Result<T, E> {
        self.take()
    }

    fn take(&mut self) -> Result<T, E> {
        let call = self.call.take().ok_or_else(taken)?;
        call_scope(|scope| (self.read)(call.wait_in(scope)?))
    }

    /// The results, if they are known without waiting.
    ///
    /// # Real-time
    /// As [`PendingCall::is_ready`]; owned results allocate.
    pub fn try_wait(&mut self) -> Option<Result<T, E>> {
        match &self.call {
            Some(call) if !call.is_ready() => None,
            _ => Some(self.take()),
        }
    }

    /// The call itself, for results that borrow from a scope:
    /// `probe::read_sample(call.wait_in(scope)?)`.
    ///
    /// # Errors
    /// BAD_INV_ORDER when the results were taken before.
    pub fn into_call(self) -> Result<PendingCall> {
        self.call.ok_or_else(taken)
    }
}

#[cold]
fn taken() -> SystemException {
    SystemException::from(Kind::BadInvOrder).detail("the results of this call were taken before")
}

impl<T, E: From<SystemException>> Future for Pending<T, E> {
    type Output = Result<T, E>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T, E>> {
        if let Some(call) = &self.call
            && !call.is_known()
        {
            if let Err(exception) = call.wake_when_ready(context.waker()) {
                return Poll::Ready(Err(exception.into()));
            }
            if !call.is_known() {
                return Poll::Pending;
            }
        }
        Poll::Ready(self.take())
    }
}

impl<T, E> fmt::Debug for Pending<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending").field("call", &self.call).finish_non_exhaustive()
    }
}
