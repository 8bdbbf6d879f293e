//! Start times of requests and replies (part 1, clause 22.2.4): the calling thread sleeps.

use super::Reply;
use crate::{Object, Operation, Result, SystemException};
use isorb_cdr::Encoder;
use isorb_giop::{Completion, Kind};
use isorb_rt::time::{Deadline, sleep_until};
use isorb_scope::Scope;
use std::time::Instant;

/// The moments before which a request is not sent and a reply is not returned.
struct Starts {
    request: Option<Instant>,
    reply: Option<Instant>,
}

impl Object {
    /// As [`Object::invoke`], where the object or the thread sets policies.
    #[inline(never)]
    pub(super) fn invoke_between_times<'s, 'a>(
        &self,
        operation: &Operation,
        scope: &'s Scope<'s>,
        arguments: &dyn Fn(&mut Encoder<'a>),
        in_place: bool,
    ) -> Result<Reply<'s>> {
        let none = Starts { request: None, reply: None };
        let starts = if self.has_times() { self.starts()? } else { none };
        sleep(starts.request);
        let policies = self.narrower_policies()?;
        let reply = self.invoke_with(operation, scope, arguments, policies, in_place)?;
        sleep(starts.reply);
        Ok(reply)
    }

    /// Sleeps until a request may be sent.
    ///
    /// # Errors
    /// TIMEOUT for a start after the end.
    #[cold]
    pub(super) fn wait_for_start(&self) -> Result<()> {
        let starts = self.starts()?;
        sleep(starts.request);
        Ok(())
    }

    /// Refuses to begin a call before its start: nothing would wake the thread then.
    ///
    /// # Errors
    /// INV_POLICY, and TIMEOUT for a start after the end.
    #[cold]
    pub(super) fn refuse_start(&self) -> Result<()> {
        let Starts { request, reply } = self.starts()?;
        let now = Instant::now();
        if request.into_iter().chain(reply).any(|start| start > now) {
            return Err(SystemException::from(Kind::InvPolicy).detail(
                "a call is not begun before its start time (request_start or reply_start of the object or the \
                 thread): begin it then, or make an ordinary call, which sleeps",
            ));
        }
        Ok(())
    }

    fn starts(&self) -> Result<Starts> {
        let policies = self.all_policies();
        let starts = Starts { request: policies.request_start, reply: policies.reply_start };
        let latest = starts.request.into_iter().chain(starts.reply).max();
        if let (Some(start), Some(end)) = (latest, policies.end())
            && start >= end
        {
            return Err(SystemException::new(Kind::Timeout, 0, Completion::No).detail(
                "the request was not sent: its start time (request_start or reply_start) does not lie before \
                 its end time (request_end or reply_end)",
            ));
        }
        Ok(starts)
    }
}

fn sleep(start: Option<Instant>) {
    let left = start.map(|start| start.saturating_duration_since(Instant::now()));
    if let Some(left) = left.filter(|left| !left.is_zero()) {
        sleep_until(Deadline::after(left));
    }
}
