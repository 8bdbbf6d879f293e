//! The steps of the protocol, for tests that end the process between any two of them.

/// A step that is about to be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FailPoint {
    MarkUnderWay,
    Fill,
    FillMore,
    MarkComplete,
    Name,
    Announce,
    Written,
    ReadLatest,
    ReadMark,
    Copy,
    Compare,
}

#[cfg(all(test, not(loom)))]
thread_local! {
    pub(crate) static HOOK: std::cell::Cell<Option<fn(FailPoint)>> = const { std::cell::Cell::new(None) };
}

/// Nothing in a build; in a test, whatever the test hung in.
#[inline(always)]
pub(crate) fn fail_point(_step: FailPoint) {
    #[cfg(all(test, not(loom)))]
    if let Some(hook) = HOOK.get() {
        hook(_step);
    }
}
