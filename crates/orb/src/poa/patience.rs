//! How long a request may wait on its way to the servant: a collocated call's, which waits in its caller's thread, until the call's time
//! is up. One that came over a connection waits for as long as it must, since its caller gives up by itself.

use super::errors::no;
use isorb_giop::{Kind, SystemException};
use isorb_rt::time::Deadline;
use std::cell::Cell;

thread_local! {
    static UNTIL: Cell<Deadline> = const { Cell::new(Deadline::NONE) };
}

/// The call's time was up before its servant was reached.
pub(super) const TIMED_OUT: SystemException = no(Kind::Timeout, 0);

/// Runs `f` for a request that this thread serves, and that may wait until `deadline`.
///
/// # Real-time
/// Two stores in the thread's own memory.
pub(crate) fn waiting_until<T>(deadline: Deadline, f: impl FnOnce() -> T) -> T {
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

/// Until when the request that this thread serves may wait.
pub(super) fn deadline() -> Deadline {
    UNTIL.get()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_served_inside_of_another_has_its_own_time() {
        let outer = Deadline::at_ns(7);
        waiting_until(outer, || {
            assert_eq!(deadline(), outer);
            waiting_until(Deadline::NONE, || assert_eq!(deadline(), Deadline::NONE));
            let panicked =
                std::panic::catch_unwind(|| waiting_until(Deadline::PAST, || panic!("as a servant may")));
            assert!(panicked.is_err());
            assert_eq!(deadline(), outer);
        });
        assert_eq!(deadline(), Deadline::NONE);
    }
}
