//! Distributable threads from process to process: interceptors that send and receive their context.

use super::context::{self, SCHEDULING};
use super::scheduler::Scheduled;
use super::stack::{self, Frame, Segment};
use super::threads::{DistributableThread, Guid};
use super::{Scheduling, cancelled, out_of_order};
use crate::interceptor::{
    ClientRequestInfo, ClientRequestInterceptor, Raised, ServerRequestInfo, ServerRequestInterceptor,
};
use crate::sched::thread;
use crate::{Orb, Result, SystemException};
use isorb_giop::Kind;

pub(super) struct Flow(pub Scheduling);

fn scheduled<'s>(orb: &'s Orb, id: Guid, segment: &'s Segment) -> Scheduled<'s> {
    let Segment { name, parameter, implicit } = segment;
    Scheduled { orb, id, name, parameter: *parameter, implicit: *implicit }
}

/// The distributable thread that the calling thread is now.
fn calling() -> Option<(DistributableThread, Segment)> {
    stack::innermost().ok()
}

impl Flow {
    /// Back from a call.
    fn back(&self) -> Result<()> {
        let Some((thread, _)) = calling() else { return Ok(()) };
        self.0.scheduler().receive_reply(thread.id());
        if thread.is_cancelled() { Err(cancelled()) } else { Ok(()) }
    }

    /// A request is served.
    fn leave(&self, orb: &Orb) -> Result<()> {
        // Segments that the servant left open end with the request.
        let mut abandoned = false;
        let frame = loop {
            match stack::pop() {
                Some(frame) if frame.request => break frame,
                Some(frame) => {
                    abandoned = true;
                    frame.saved.into_iter().for_each(|saved| saved.restore());
                }
                None => return Ok(()),
            }
        };
        let Frame { thread, segments, foreign, saved, .. } = frame;
        let Some(thread) = thread else { return Ok(()) };
        let outer = stack::outer_parameter();
        let outcome = self.0.scheduler().send_reply(orb, thread.id(), outer.as_ref());
        saved.into_iter().for_each(|saved| saved.restore());
        outcome?;
        if thread.is_cancelled() {
            return Err(cancelled());
        }
        if abandoned || segments.len() > foreign {
            return Err(out_of_order("the servant returned from inside a scheduling segment that it began"));
        }
        Ok(())
    }
}

impl ClientRequestInterceptor for Flow {
    fn name(&self) -> &str {
        "RTScheduling"
    }

    fn send_request(&self, info: &mut ClientRequestInfo<'_>) -> Result<(), Raised> {
        let Some((thread, segment)) = calling() else { return Ok(()) };
        if thread.is_cancelled() {
            return Err(cancelled().into());
        }
        let orb = info.orb().clone();
        self.0.scheduler().send_request(&scheduled(&orb, thread.id(), &segment))?;
        let data = context::write(thread.id(), &segment)?;
        info.add_request_service_context(SCHEDULING, &data, true)?;
        Ok(())
    }

    fn receive_reply(&self, _: &ClientRequestInfo<'_>) -> Result<()> {
        self.back()
    }

    fn receive_exception(&self, info: &ClientRequestInfo<'_>) -> Result<(), Raised> {
        // Cancelled elsewhere, so the caller here is cancelled too.
        if let Ok(exception) = info.received_exception()
            && exception.kind == Kind::ThreadCancelled
            && let Some((thread, _)) = calling()
            && thread.mark_cancelled()
        {
            self.0.scheduler().cancel(&thread);
        }
        Ok(self.back()?)
    }

    fn receive_other(&self, _: &ClientRequestInfo<'_>) -> Result<(), Raised> {
        Ok(self.back()?)
    }
}

impl ServerRequestInterceptor for Flow {
    fn name(&self) -> &str {
        "RTScheduling"
    }

    fn receive_request_service_contexts(&self, info: &mut ServerRequestInfo<'_>) -> Result<(), Raised> {
        let orb = info.orb().clone();
        let data = info.request_service_context(SCHEDULING).ok();
        let Some(data) = data else {
            // A request of its own: what this thread was before, in a call that waits, it is not
            // now.
            stack::push(Frame { thread: None, segments: Vec::new(), foreign: 0, request: true, saved: None });
            return Ok(());
        };
        let (id, segment) = context::read(&orb, data)?;
        if !self.0.scheduler().supports(&segment.parameter) {
            return Err(SystemException::from(Kind::InvPolicy)
                .detail("the distributable thread is scheduled by another discipline than this process's")
                .into());
        }
        let thread = self.0.threads().enter(id);
        if thread.is_cancelled() {
            return Err(cancelled().into());
        }
        let saved = Some(thread::save());
        if let Err(exception) = self.0.scheduler().receive_request(&scheduled(&orb, id, &segment)) {
            saved.into_iter().for_each(|saved| saved.restore());
            return Err(exception.into());
        }
        let (thread, segments) = (Some(thread), vec![segment]);
        stack::push(Frame { thread, segments, foreign: 1, request: true, saved });
        Ok(())
    }

    fn send_reply(&self, info: &mut ServerRequestInfo<'_>) -> Result<()> {
        self.leave(info.orb())
    }

    fn send_exception(&self, info: &mut ServerRequestInfo<'_>) -> Result<(), Raised> {
        // The servant's exception matters more than a segment that it left open.
        match self.leave(info.orb()) {
            Err(exception) if exception.kind == Kind::ThreadCancelled => Err(exception.into()),
            _ => Ok(()),
        }
    }

    fn send_other(&self, info: &mut ServerRequestInfo<'_>) -> Result<(), Raised> {
        Ok(self.leave(info.orb())?)
    }
}
