//! The stack of the calling thread: segments of distributable threads, and requests between them.

use super::threads::DistributableThread;
use super::{Parameter, SchedulingError, out_of_order};
use crate::sched::thread::SavedPriority;
use std::cell::RefCell;

/// A segment that was begun and not ended.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    pub name: String,
    pub parameter: Parameter,
    pub implicit: Option<Parameter>,
}

/// The segments of one distributable thread on this thread, or a request outside of any.
pub(super) struct Frame {
    pub thread: Option<DistributableThread>,
    pub segments: Vec<Segment>,
    /// The number of segments that came with a request, and end with it.
    pub foreign: usize,
    /// Whether this thread serves a request here.
    pub request: bool,
    /// The calling thread's priority before this frame.
    pub saved: Option<SavedPriority>,
}

thread_local! {
    static STACK: RefCell<Vec<Frame>> = const { RefCell::new(Vec::new()) };
}

pub(super) fn push(frame: Frame) {
    STACK.with_borrow_mut(|stack| stack.push(frame));
}

pub(super) fn pop() -> Option<Frame> {
    STACK.with_borrow_mut(Vec::pop)
}

/// Passes the innermost frame to `look`, if the calling thread is a distributable one now. `look`
/// must make no scheduling operation.
pub(super) fn top<T>(look: impl FnOnce(Option<&mut Frame>) -> T) -> T {
    STACK.with_borrow_mut(|stack| look(stack.last_mut().filter(|frame| frame.thread.is_some())))
}

/// The innermost segment and its thread.
///
/// # Errors
/// BAD_INV_ORDER outside of any.
pub(super) fn innermost() -> Result<(DistributableThread, Segment), SchedulingError> {
    top(|frame| {
        let frame = frame?;
        Some((frame.thread.clone()?, frame.segments.last()?.clone()))
    })
    .ok_or_else(|| out_of_order("the calling thread is in no scheduling segment").into())
}

/// The scheduling parameter of the calling thread below its innermost frame.
pub(super) fn outer_parameter() -> Option<Parameter> {
    STACK.with_borrow(|stack| {
        let outer = stack.iter().rev().find_map(|frame| frame.segments.last());
        outer.map(|segment| segment.parameter)
    })
}
