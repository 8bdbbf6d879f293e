//! The time that a request may wait on its way to the servant. A collocated call waits in its
//! caller's thread until its own deadline. A request from a connection waits without limit, because
//! its caller has a time-out of its own.

use super::errors::no;
use isorb_giop::{Kind, SystemException};
use isorb_rt::time::Deadline;
use std::cell::Cell;

thread_local! {
    static UNTIL: Cell<Deadline> = const { Cell::new(Deadline::NONE) };
}

/// The deadline passed before the servant was reached.
pub(super) const TIMED_OUT: SystemException = no(Kind::Timeout, 0);

/// Runs `f` for a request that this thread serves, with `deadline` as the limit of its waits.
///
/// # Real-time
/// Two stores in the thread's own memory.
pub(crate) fn with_wait_deadline<T>(deadline: Deadline, f: impl FnOnce() -> T) -> T {
    /// Also after a panic.
    struct Before(Deadline);
    impl Drop for Before {
        fn drop(&mut self) {
            UNTIL.set(self.0);
        }
    }
    let _before = Before(UNTIL.replace(deadline));
    f()
}

/// The deadline of the request that this thread serves.
pub(crate) fn current() -> Deadline {
    UNTIL.get()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_served_inside_of_another_has_its_own_time() {
        let outer = Deadline::at_ns(7);
        with_wait_deadline(outer, || {
            assert_eq!(current(), outer);
            with_wait_deadline(Deadline::NONE, || assert_eq!(current(), Deadline::NONE));
            let panicked = std::panic::catch_unwind(|| {
                with_wait_deadline(Deadline::PAST, || panic!("as a servant may"))
            });
            assert!(panicked.is_err());
            assert_eq!(current(), outer);
        });
        assert_eq!(current(), Deadline::NONE);
    }
}
