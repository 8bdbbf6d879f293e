//! A call, from the stub's arguments to the reply's results: its policies, and the attempts that it
//! takes.

mod attempt;
mod bands;
pub(crate) mod binding;
mod interceptors;
mod pending;
mod reply;
mod start;
mod unsent;

pub use pending::{AnyPending, Pending, PendingCall, wait_any};
pub use reply::Reply;
pub(crate) use reply::{Failure, Outcome};

use crate::buffers::with_scope;
use crate::interceptor::ClientChain;
use crate::object::{Addressing, Target};
use crate::policy::{Effective, Rebind, SyncScope};
use crate::{Object, Operation, Result, SystemException};
use attempt::{Answer, Call};
use interceptors::Attempt;
use isorb_cdr::Encoder;
use isorb_giop::message::Response;
use isorb_giop::{Kind, minor};
use isorb_scope::Scope;
use std::cell::Cell;
use std::hint::cold_path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Most forwards that one call follows.
const MAX_FORWARDS: u32 = 16;

/// Runs `f` with a scope of the calling thread. For stubs with owned results.
///
/// # Errors
/// What `f` gives; IMP_LIMIT when calls are nested too deeply.
///
/// # Real-time
/// Allocates on a thread's first call of each depth of nesting only.
pub fn call_scope<T, E: From<SystemException>>(
    f: impl for<'s> FnOnce(&'s Scope<'s>) -> Result<T, E>,
) -> Result<T, E> {
    with_scope(f)
}

impl Object {
    /// Calls an operation and waits for its reply, which lies in `scope`.
    ///
    /// # Errors
    /// The system exception that the call ended in.
    ///
    /// # Real-time
    /// After a thread's and a connection's first calls: allocates nothing, one PI lock to choose
    /// the connection and one to send, one send and (on a connection of its own) one receive system
    /// call; waits as long as the round-trip time-out says, and for the start times of the object
    /// or the thread.
    pub fn invoke<'s, 'a>(
        &self,
        operation: &Operation,
        scope: &'s Scope<'s>,
        arguments: &dyn Fn(&mut Encoder<'a>),
    ) -> Result<Reply<'s>> {
        self.invoke_reading(operation, scope, arguments, false)
    }

    /// As [`invoke`](Self::invoke), for results that are read [where the server lent
    /// them](crate::Lent).
    ///
    /// # Errors
    /// As [`invoke`](Self::invoke).
    ///
    /// # Real-time
    /// As [`invoke`](Self::invoke).
    pub fn invoke_in_place<'s, 'a>(
        &self,
        operation: &Operation,
        scope: &'s Scope<'s>,
        arguments: &dyn Fn(&mut Encoder<'a>),
    ) -> Result<Reply<'s>> {
        self.invoke_reading(operation, scope, arguments, true)
    }

    #[inline(always)]
    fn invoke_reading<'s, 'a>(
        &self,
        operation: &Operation,
        scope: &'s Scope<'s>,
        arguments: &dyn Fn(&mut Encoder<'a>),
        in_place: bool,
    ) -> Result<Reply<'s>> {
        if self.has_narrower_policies() {
            return self.invoke_between_times(operation, scope, arguments, in_place);
        }
        self.invoke_with(operation, scope, arguments, self.orb().effective_policies(), in_place)
    }

    #[inline(always)]
    fn invoke_with<'s, 'a>(
        &self,
        operation: &Operation,
        scope: &'s Scope<'s>,
        arguments: &dyn Fn(&mut Encoder<'a>),
        policies: Effective,
        in_place: bool,
    ) -> Result<Reply<'s>> {
        let mut call = self.call(operation, Response::Target, arguments, policies)?;
        call.in_place = in_place;
        if let Some(chain) = self.client_chain() {
            let reply = self.intercepted(chain, &call, scope, policies)?;
            return reply.ok_or(Kind::Internal.into());
        }
        let target = self.bound()?;
        let outcome = match call.attempt(&target, scope, policies) {
            // Opened here, not in a function further down, since results are large to hand up.
            Ok(Some(Answer::Results(body, order, text))) => {
                return Ok(Reply::Results(call.results((body, order, text), scope)?));
            }
            Ok(Some(answer)) => call.outcome(answer, scope),
            Ok(None) => Ok(Outcome::Done),
            Err(failure) => Err(failure),
        };
        let mut again = |target: &Arc<Target>, _: Progress| Ok(call.attempt_outcome(target, scope, policies));
        self.go_on(&call, target.into_owned(), outcome, policies, &mut again)?.ok_or(Kind::Internal.into())
    }

    /// Sends a oneway call; returns as the sync scope says.
    ///
    /// # Errors
    /// What could be known by then.
    ///
    /// # Real-time
    /// As [`Object::invoke`], without the receive unless the sync scope asks for it. With
    /// [`SyncScope::None`] it does not wait for the peer to read.
    pub fn send<'a>(&self, operation: &Operation, arguments: &dyn Fn(&mut Encoder<'a>)) -> Result<()> {
        if self.has_times() {
            cold_path();
            self.wait_for_start()?;
        }
        let policies = self.effective_policies()?;
        let response = match policies.sync_scope {
            SyncScope::None | SyncScope::WithTransport => Response::None,
            SyncScope::WithServer => Response::Server,
            SyncScope::WithTarget => Response::Target,
        };
        let call = self.call(operation, response, arguments, policies)?;
        call_scope(|scope| {
            let reply = match self.client_chain() {
                Some(chain) => self.intercepted(chain, &call, scope, policies)?,
                None => {
                    let target = self.bound()?;
                    let outcome = match call.attempt(&target, scope, policies) {
                        Ok(None) => return Ok(()),
                        Ok(Some(answer)) => call.outcome(answer, scope),
                        Err(failure) => Err(failure),
                    };
                    let mut again =
                        |target: &Arc<Target>, _: Progress| Ok(call.attempt_outcome(target, scope, policies));
                    self.go_on(&call, target.into_owned(), outcome, policies, &mut again)?
                }
            };
            reply.map_or(Ok(()), |reply| reply.results(|_| Ok(())))
        })
    }

    /// The client interceptors, if there are any.
    #[inline(always)]
    fn client_chain(&self) -> Option<&ClientChain> {
        let orb = self.orb();
        if orb.intercepts_calls() { orb.server().interceptors.client() } else { None }
    }

    /// A call that starts now.
    #[inline(always)]
    fn call<'c, 'a>(
        &'c self,
        operation: &Operation,
        response: Response,
        arguments: &'c dyn Fn(&mut Encoder<'a>),
        policies: Effective,
    ) -> Result<Call<'c, 'a>> {
        let orb = self.orb();
        orb.check_running()?;
        let timeout = policies.timeout;
        let (began, deadline) = timeout.begin();
        let (wary, retries) = (Cell::new(false), Cell::new(false));
        let operation = operation.name;
        let exchange = None;
        let waits = response != Response::None || policies.sync_scope != SyncScope::None;
        Ok(Call {
            orb,
            object: self,
            operation,
            response,
            waits,
            arguments,
            began,
            deadline,
            timeout,
            wary,
            retries,
            exchange,
            sent_request: None,
            in_place: false,
            body_at: Cell::new(0),
        })
    }

    /// A call with interceptors around each attempt.
    #[cold]
    fn intercepted<'s>(
        &self,
        chain: &ClientChain,
        call: &Call<'_, '_>,
        scope: &'s Scope<'s>,
        policies: Effective,
    ) -> Result<Option<Reply<'s>>> {
        let mut again = |target: &Arc<Target>, progress: Progress| {
            let attempt = Attempt {
                object: self,
                target,
                operation: call.operation,
                response: call.response,
                sync_scope: policies.sync_scope,
                retries: !progress.retried || target.forwarded(),
                refuses_forward: &|| refuse_forward(policies, progress.forwards + 1, call.operation),
            };
            chain.around(attempt, |exchange| call.with(exchange).attempt_outcome(target, scope, policies))
        };
        let target = self.target()?;
        let outcome = again(&target, Progress::default())?;
        self.go_on(call, target, outcome, policies, &mut again)
    }

    /// After an attempt that was not the last: follows forwards, tries `again`.
    #[cold]
    fn go_on<'s>(
        &self,
        call: &Call<'_, '_>,
        mut target: Arc<Target>,
        mut attempt: Result<Outcome<'s>, Failure>,
        policies: Effective,
        again: &mut NextAttempt<'_, 's>,
    ) -> Result<Option<Reply<'s>>> {
        let Progress { mut forwards, mut retried } = Progress::default();
        let mut readdressed = 0;
        let mut missing = false;
        call.retries.set(true);
        loop {
            match attempt {
                Ok(Outcome::Reply(reply)) => return Ok(Some(reply)),
                Ok(Outcome::Done) => return Ok(None),
                Ok(Outcome::Forward(ior, permanent)) => {
                    forwards += 1;
                    if let Some(refusal) = refuse_forward(policies, forwards, call.operation) {
                        return Err(refusal);
                    }
                    self.forward(&ior, permanent)?;
                }
                Ok(Outcome::Readdress(mode)) => {
                    // Each mode once: a server that accepts none of them would ask for ever.
                    readdressed += 1;
                    let addressing = Addressing::from_wire(mode)
                        .filter(|_| readdressed <= 2 && !target.ior.profiles.is_empty());
                    let Some(addressing) = addressing else {
                        return Err(SystemException::from(Kind::NoImplement).detail(format!(
                            "the server refuses the object's address: it wants mode {mode}"
                        )));
                    };
                    target.addressing.store(addressing, Ordering::Relaxed);
                }
                Err(Failure::NotProcessed(exception)) => {
                    // Once more on a new connection; a forwarded object goes back to where it was
                    // first.
                    let went_back = self.forget_forward(&target);
                    if retried && !went_back {
                        return Err(exception);
                    }
                    retried = true;
                    call.wary.set(true);
                }
                Err(Failure::Unreachable(exception)) => {
                    if !self.forget_forward(&target) {
                        return Err(exception);
                    }
                    // A forward led there: the call returns to its source, which may know a better
                    // address.
                    forwards += 1;
                    if forwards > MAX_FORWARDS {
                        return Err(exception);
                    }
                }
                Err(failure @ Failure::OnLoan(_)) => return Err(failure.into_exception()),
                Err(Failure::Final(exception)) => {
                    if exception.kind != Kind::ObjectNotExist || !self.forget_forward(&target) {
                        return Err(exception);
                    }
                    // The source of the forward may know a better address, once.
                    if std::mem::replace(&mut missing, true) {
                        return Err(exception);
                    }
                }
            }
            if call.deadline.is_past() {
                return Err(call.timed_out("the ORB"));
            }
            target = self.target()?;
            attempt = again(&target, Progress { forwards, retried })?;
        }
    }
}

/// Why a call does not follow its forward with this number.
fn refuse_forward(policies: Effective, number: u32, operation: &str) -> Option<SystemException> {
    if policies.rebind != Rebind::Transparent {
        return Some(
            SystemException::from(Kind::Rebind)
                .detail("the object was forwarded, which the rebind policy forbids"),
        );
    }
    (number > MAX_FORWARDS).then(|| {
        SystemException::from(Kind::Transient)
            .minor(minor::TRANSIENT_FORWARDS)
            .detail(format!("{operation} was forwarded more than {MAX_FORWARDS} times"))
    })
}

/// How far a call has come that needs more than one attempt.
#[derive(Clone, Copy, Default)]
struct Progress {
    forwards: u32,
    retried: bool,
}

/// One more attempt; an error of its own is the end of the call.
type NextAttempt<'f, 's> = dyn FnMut(&Arc<Target>, Progress) -> Result<Result<Outcome<'s>, Failure>> + 'f;
