//! `RTScheduling::Current`: where a program begins, changes and ends segments.

use super::scheduler::Scheduled;
use super::stack::{self, Frame, Segment};
use super::threads::{DistributableThread, Guid};
use super::{Parameter, Scheduling, SchedulingError, cancelled, out_of_order};
use crate::sched::thread;
use crate::{Orb, SystemException};
use isorb_giop::Kind;
use isorb_rt::priority::Priority;
use isorb_rt::sched::ThreadSpec;

type Result<T, E = SchedulingError> = std::result::Result<T, E>;

/// The calling thread's face of dynamic scheduling, from [`Scheduling::current`]. It holds nothing
/// of a thread, and may be used by all.
#[derive(Clone, Debug)]
pub struct Current {
    scheduling: Scheduling,
    orb: Orb,
}

impl Current {
    pub(super) fn new(scheduling: Scheduling, orb: Orb) -> Current {
        Current { scheduling, orb }
    }

    /// Begins a segment. With its first one the calling thread becomes a distributable thread.
    /// Without a parameter the implicit one of the enclosing segment applies.
    ///
    /// # Errors
    /// UNSUPPORTED_SCHEDULING_DISCIPLINE; BAD_PARAM without any parameter; THREAD_CANCELLED; the
    /// errors of the scheduler. The segment has not begun then.
    pub fn begin_scheduling_segment(
        &self,
        name: &str,
        parameter: Option<Parameter>,
        implicit: Option<Parameter>,
    ) -> Result<()> {
        let parameter = self.parameter(parameter, implicit)?;
        let scheduler = self.scheduling.scheduler();
        let segment = Segment { name: name.into(), parameter, implicit };
        match stack::innermost() {
            Ok((thread, _)) => {
                go_on(&thread)?;
                scheduler.begin_nested_scheduling_segment(&self.scheduled(thread.id(), &segment))?;
                stack::top(|frame| {
                    if let Some(frame) = frame {
                        frame.segments.push(segment);
                    }
                });
            }
            Err(_) => {
                let thread = self.scheduling.threads().enter(Guid::fresh());
                let saved = thread::save();
                if let Err(exception) =
                    scheduler.begin_new_scheduling_segment(&self.scheduled(thread.id(), &segment))
                {
                    saved.restore();
                    return Err(exception.into());
                }
                let (thread, segments, saved) = (Some(thread), vec![segment], Some(saved));
                stack::push(Frame { thread, segments, foreign: 0, request: false, saved });
            }
        }
        Ok(())
    }

    /// Changes the parameters of the innermost segment, which has this name.
    ///
    /// # Errors
    /// BAD_INV_ORDER outside of any segment and for another name; else as
    /// [`begin_scheduling_segment`](Self::begin_scheduling_segment). Nothing has changed, then.
    pub fn update_scheduling_segment(
        &self,
        name: &str,
        parameter: Option<Parameter>,
        implicit: Option<Parameter>,
    ) -> Result<()> {
        let (thread, inner) = stack::innermost()?;
        named(&inner, name)?;
        go_on(&thread)?;
        let parameter = self.parameter(parameter, implicit)?;
        let segment = Segment { name: name.into(), parameter, implicit };
        self.scheduling.scheduler().update_scheduling_segment(&self.scheduled(thread.id(), &segment))?;
        stack::top(|frame| {
            if let Some(last) = frame.and_then(|frame| frame.segments.last_mut()) {
                *last = segment;
            }
        });
        Ok(())
    }

    /// Ends the innermost segment, which has this name. With the outermost one the distributable
    /// thread ends, and the calling thread is what it was before.
    ///
    /// # Errors
    /// BAD_INV_ORDER outside of any segment, for another name, and for the segment of the request
    /// that the calling thread serves. THREAD_CANCELLED and the errors of the scheduler; the
    /// segment has ended nevertheless.
    pub fn end_scheduling_segment(&self, name: &str) -> Result<()> {
        let (thread, inner) = stack::innermost()?;
        named(&inner, name)?;
        let scheduler = self.scheduling.scheduler();
        let outer = stack::top(|frame| {
            let frame =
                frame.ok_or_else(|| out_of_order("the calling thread is in no scheduling segment"))?;
            if frame.segments.len() <= frame.foreign {
                return Err(out_of_order("the segment came with the request, and ends with it"));
            }
            frame.segments.pop();
            Ok(frame.segments.last().cloned())
        })?;
        let outcome = match outer {
            Some(outer) => {
                scheduler.end_nested_scheduling_segment(&self.scheduled(thread.id(), &outer), name)
            }
            None => {
                let frame = stack::pop();
                let outer = stack::outer_parameter();
                let outcome = scheduler.end_scheduling_segment(&self.orb, thread.id(), outer.as_ref());
                frame.and_then(|frame| frame.saved).into_iter().for_each(|saved| saved.restore());
                outcome
            }
        };
        outcome?;
        go_on(&thread)
    }

    /// Starts a distributable thread of its own, which runs `action` in a segment of this name.
    /// Without a parameter the implicit one of the segment around holds. The thread begins at the
    /// base priority; segments that `action` leaves open end with it.
    ///
    /// # Errors
    /// BAD_INV_ORDER when the calling thread is in no segment; NO_RESOURCES when the system has no
    /// thread left; else as [`begin_scheduling_segment`](Self::begin_scheduling_segment). Errors of
    /// the scheduler on the new thread are logged, and `action` does not run.
    pub fn spawn(
        &self,
        name: &str,
        parameter: Option<Parameter>,
        implicit: Option<Parameter>,
        stack_size: usize,
        base_priority: Priority,
        action: impl FnOnce() + Send + 'static,
    ) -> Result<DistributableThread> {
        let (here, _) = stack::innermost()?;
        go_on(&here)?;
        let parameter = self.parameter(parameter, implicit)?;
        let class = self.orb.sched().priorities.class(base_priority)?;
        let thread = self.scheduling.threads().enter(Guid::fresh());
        let (current, spawned, name) = (self.clone(), thread.clone(), name.to_owned());
        let run = move || {
            thread::started_at(0, base_priority, class);
            let segment = Segment { name, parameter, implicit };
            let scheduled = current.scheduled(spawned.id(), &segment);
            let id = spawned.id();
            let scheduler = current.scheduling.scheduler();
            if let Err(exception) = scheduler.begin_new_scheduling_segment(&scheduled) {
                return crate::log::warn(
                    "isorb::scheduling",
                    format_args!("a distributable thread could not begin: {exception}"),
                );
            }
            let (thread, segments) = (Some(spawned), vec![segment]);
            stack::push(Frame { thread, segments, foreign: 1, request: false, saved: None });
            action();
            while stack::pop().is_some() {}
            if let Err(exception) = scheduler.end_scheduling_segment(&current.orb, id, None) {
                crate::log::warn(
                    "isorb::scheduling",
                    format_args!("a distributable thread could not end: {exception}"),
                );
            }
        };
        let spec = ThreadSpec::new("isorb-dt").class(class);
        let spec = if stack_size == 0 { spec } else { spec.stack_size(stack_size) };
        let started = spec.spawn(run);
        started.map_err(|error| SystemException::from(Kind::NoResources).detail(error.to_string()))?;
        Ok(thread)
    }

    /// The distributable thread with this identity, if it is in this process now; in calls to
    /// others counts as here.
    pub fn lookup(&self, id: Guid) -> Option<DistributableThread> {
        self.scheduling.threads().find(id)
    }

    /// Cancels a distributable thread. It gets THREAD_CANCELLED at its next scheduling point: where
    /// it begins, changes or ends a segment, makes a call, returns from one, or is served. Code
    /// that computes or blocks elsewhere continues until then; a part in another process continues
    /// until it returns.
    pub fn cancel(&self, thread: &DistributableThread) {
        if thread.mark_cancelled() {
            self.scheduling.scheduler().cancel(thread);
        }
    }

    /// The identity of the distributable thread that the calling thread is.
    ///
    /// # Errors
    /// BAD_INV_ORDER when it is none.
    pub fn id(&self) -> Result<Guid> {
        Ok(stack::innermost()?.0.id())
    }

    /// The parameter of the innermost segment.
    ///
    /// # Errors
    /// BAD_INV_ORDER outside of any segment.
    pub fn scheduling_parameter(&self) -> Result<Parameter> {
        Ok(stack::innermost()?.1.parameter)
    }

    /// The implicit parameter inside of the innermost segment.
    ///
    /// # Errors
    /// BAD_INV_ORDER outside of any segment.
    pub fn implicit_scheduling_parameter(&self) -> Result<Option<Parameter>> {
        Ok(stack::innermost()?.1.implicit)
    }

    /// The names of the segments that the calling thread is in, the innermost first; none outside
    /// of any. A segment that came with a request is the outermost here.
    pub fn current_scheduling_segment_names(&self) -> Vec<String> {
        stack::top(|frame| {
            let segments = frame.map_or(&[][..], |frame| &frame.segments);
            segments.iter().rev().map(|segment| segment.name.clone()).collect()
        })
    }

    fn parameter(&self, parameter: Option<Parameter>, implicit: Option<Parameter>) -> Result<Parameter> {
        let around = || stack::innermost().ok().and_then(|(_, segment)| segment.implicit);
        let parameter = parameter.or_else(around).ok_or_else(|| {
            SystemException::from(Kind::BadParam)
                .detail("a scheduling parameter is needed, since the segment around has no implicit one")
        })?;
        let scheduler = self.scheduling.scheduler();
        if [Some(parameter), implicit].iter().flatten().all(|parameter| scheduler.supports(parameter)) {
            Ok(parameter)
        } else {
            Err(SchedulingError::UnsupportedDiscipline)
        }
    }

    fn scheduled<'s>(&'s self, id: Guid, segment: &'s Segment) -> Scheduled<'s> {
        let Segment { name, parameter, implicit } = segment;
        Scheduled { orb: &self.orb, id, name, parameter: *parameter, implicit: *implicit }
    }
}

fn named(segment: &Segment, name: &str) -> Result<()> {
    if segment.name == name {
        return Ok(());
    }
    Err(out_of_order("the innermost scheduling segment has another name").into())
}

fn go_on(thread: &DistributableThread) -> Result<()> {
    if thread.is_cancelled() { Err(cancelled().into()) } else { Ok(()) }
}
