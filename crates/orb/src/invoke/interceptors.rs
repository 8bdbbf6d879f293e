//! Client requests and their interceptors (clauses 16.3.2 to 16.3.7).

use super::{Failure, Outcome, Reply};
use crate::interceptor::{ClientChain, ClientRequestInfo, Exchange, Point, Raised, Received, ReplyStatus};
use crate::object::Target;
use crate::{Kind, Object, Result, SyncScope, SystemException};
use isorb_giop::Completion;
use isorb_giop::message::Response;
use std::sync::atomic::Ordering;

/// One attempt of a call, and how the ORB treats its failure.
pub(crate) struct Attempt<'r> {
    pub object: &'r Object,
    pub target: &'r Target,
    pub operation: &'r str,
    pub response: Response,
    pub sync_scope: SyncScope,
    /// A request that was not processed is sent again.
    pub retries: bool,
    /// The exception instead of following a forward, if any.
    pub refuses_forward: &'r dyn Fn() -> Option<SystemException>,
}

impl ClientChain {
    /// Runs one attempt of a call between the starting and the ending points.
    ///
    /// # Errors
    /// An exception that an interceptor raised. The caller gets it without another attempt.
    ///
    /// # Real-time
    /// As the [module](super) says.
    #[inline(never)]
    pub fn around<'r, 's: 'r>(
        &self,
        attempt: Attempt<'r>,
        send: impl FnOnce(&Exchange) -> Result<Outcome<'s>, Failure>,
    ) -> Result<Result<Outcome<'s>, Failure>> {
        let Attempt { object, target, operation, response, sync_scope, retries, refuses_forward } = attempt;
        let mut info = ClientRequestInfo {
            object,
            at: target,
            operation,
            response,
            sync_scope: if response == Response::Target { SyncScope::WithTarget } else { sync_scope },
            id: self.next_id.fetch_add(1, Ordering::Relaxed),
            point: Point::SendRequest,
            status: ReplyStatus::Successful,
            slots: self.current.copy(),
            exchange: Exchange::new(),
            received: Received::Nothing,
            forward: None,
        };
        let fresh = self.current.enter(self.current.empty());
        let mut flow = 0;
        let mut raised = None;
        for interceptor in &self.interceptors {
            match interceptor.send_request(&mut info) {
                Ok(()) => flow += 1,
                Err(error) => {
                    raised = Some(error);
                    break;
                }
            }
        }
        if let Some(fresh) = &fresh {
            fresh.reset();
        }
        let given = match raised {
            Some(error) => {
                info.raise(error);
                None
            }
            None => {
                let mut given = send(&info.exchange);
                if let Ok(Outcome::Forward(..)) = given
                    && let Some(refusal) = refuses_forward()
                {
                    given = Err(Failure::Final(refusal));
                }
                info.end(&given, retries);
                Some(given)
            }
        };
        let mut replaced = given.is_none();
        for interceptor in self.interceptors[..flow].iter().rev() {
            let ended = match info.point {
                Point::ReceiveReply => interceptor.receive_reply(&info).map_err(Raised::Exception),
                Point::ReceiveException => interceptor.receive_exception(&info),
                Point::ReceiveOther | Point::SendRequest => interceptor.receive_other(&info),
            };
            if let Err(error) = ended {
                info.raise(error);
                replaced = true;
            }
        }
        match given {
            Some(given) if !replaced => Ok(given),
            _ => info.verdict(),
        }
    }
}

impl<'r> ClientRequestInfo<'r> {
    /// Sets the ending point for the outcome of an attempt.
    fn end<'s: 'r>(&mut self, given: &Result<Outcome<'s>, Failure>, retries: bool) {
        (self.point, self.status) = match given {
            Ok(Outcome::Reply(Reply::Results(_))) => (Point::ReceiveReply, ReplyStatus::Successful),
            Ok(Outcome::Reply(Reply::Exception(id, _))) => {
                self.received = Received::User(id);
                (Point::ReceiveException, ReplyStatus::UserException)
            }
            Ok(Outcome::Forward(ior, _)) => {
                self.forward = Some(Object::new(self.object.orb(), ior.clone()));
                (Point::ReceiveOther, ReplyStatus::LocationForward)
            }
            Ok(Outcome::Readdress(_)) => (Point::ReceiveOther, ReplyStatus::TransportRetry),
            Ok(Outcome::Done) => (Point::ReceiveOther, ReplyStatus::Successful),
            Err(Failure::NotProcessed(_)) if retries => (Point::ReceiveOther, ReplyStatus::TransportRetry),
            // The forwarded object is gone: the ORB returns to the reference's address.
            Err(Failure::Final(exception))
                if exception.kind == Kind::ObjectNotExist && self.at.forwarded() =>
            {
                (Point::ReceiveOther, ReplyStatus::TransportRetry)
            }
            // No server is at the forward's address.
            Err(Failure::Unreachable(_)) if self.at.forwarded() => {
                (Point::ReceiveOther, ReplyStatus::TransportRetry)
            }
            Err(
                Failure::NotProcessed(exception)
                | Failure::Unreachable(exception)
                | Failure::Final(exception),
            ) => {
                self.received = Received::System(exception.clone());
                (Point::ReceiveException, ReplyStatus::SystemException)
            }
            // The attempt has gone over the loan's connection, or has failed.
            Err(Failure::OnLoan(_)) => (Point::ReceiveOther, ReplyStatus::TransportRetry),
        };
    }

    /// Sets the ending point for an interceptor's exception or forward.
    fn raise(&mut self, raised: Raised) {
        match raised {
            Raised::Exception(exception) => {
                let completed = match (self.point, &self.received) {
                    (Point::ReceiveException, Received::System(before)) => before.completed,
                    (Point::ReceiveException | Point::ReceiveReply, _) => Completion::Yes,
                    (Point::SendRequest | Point::ReceiveOther, _) => Completion::No,
                };
                self.forward = None;
                self.received = Received::System(exception.completed(completed));
                (self.point, self.status) = (Point::ReceiveException, ReplyStatus::SystemException);
            }
            Raised::Forward(to) => {
                self.received = Received::Nothing;
                self.forward = Some(to);
                (self.point, self.status) = (Point::ReceiveOther, ReplyStatus::LocationForward);
            }
        }
    }

    /// The outcome by the last interceptor that raised.
    fn verdict<'s>(&mut self) -> Result<Result<Outcome<'s>, Failure>> {
        match (self.forward.take(), std::mem::replace(&mut self.received, Received::Nothing)) {
            (Some(to), _) => Ok(Ok(Outcome::Forward(to.ior().clone(), false))),
            (None, Received::System(exception)) => Err(exception),
            (None, _) => Err(Kind::Internal.into()),
        }
    }
}
