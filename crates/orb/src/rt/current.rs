//! The priority of the calling thread (RT-CORBA 1.2: `RTCORBA::Current`).

use crate::sched::{checked, thread};
use crate::{Orb, Result, SystemException};
use isorb_giop::Kind;
use isorb_rt::priority::Priority;

/// `RTCORBA::Current`: the CORBA priority that the calling thread has, from [`Orb::rt_current`].
///
/// In a servant of a Real-Time POA it is the priority of the request, which calls of the servant
/// carry. A thread of the program has none until it sets one.
#[derive(Clone, Debug)]
pub struct RtCurrent(Orb);

impl Orb {
    /// The priority of the calling thread.
    pub fn rt_current(&self) -> RtCurrent {
        RtCurrent(self.clone())
    }
}

impl RtCurrent {
    /// The CORBA priority of the calling thread (`the_priority`).
    ///
    /// # Errors
    /// INITIALIZE when no priority was set.
    ///
    /// # Real-time
    /// One read of the thread's own memory.
    pub fn the_priority(&self) -> Result<Priority> {
        thread::priority().ok_or_else(|| {
            SystemException::from(Kind::Initialize).detail("this thread has no CORBA priority: none was set")
        })
    }

    /// Sets the CORBA priority of the calling thread (`the_priority`), and its native priority as
    /// the ORB's mapping says.
    ///
    /// Without the right to real-time scheduling, and if the configuration permits that, the CORBA
    /// priority still has its effect: it selects bands and lanes and travels with requests. Only
    /// the processor of this machine ignores it.
    ///
    /// # Errors
    /// BAD_PARAM for a negative priority; DATA_CONVERSION (OMG|2) for one that the mapping has no
    /// native priority for; NO_PERMISSION where the system refuses. The thread has the priority
    /// that it had, then.
    ///
    /// # Real-time
    /// One PI lock; one system call where the native priority changes. No allocation.
    pub fn set_the_priority(&self, priority: i16) -> Result<()> {
        let priority = checked(priority)?;
        thread::set_priority(&self.0.sched().priorities, priority)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;
    use crate::invoke::binding::calling_priority;
    use crate::rt::{Continuous, NativeRange, SchedClass};
    use isorb_giop::minor;
    use std::sync::Arc;

    /// Runs `f` on a thread of its own: what it sets must not stay with the test's.
    fn apart(f: impl FnOnce() + Send + 'static) {
        std::thread::spawn(f).join().unwrap();
    }

    #[test]
    fn a_thread_has_no_priority_before_it_sets_one() {
        apart(|| {
            let orb = Orb::with_config(Config::default()).unwrap();
            let current = orb.rt_current();
            assert_eq!(current.the_priority().unwrap_err().kind, Kind::Initialize);
            assert_eq!(current.set_the_priority(-1).unwrap_err().kind, Kind::BadParam);
            assert_eq!(current.set_the_priority(i16::MIN).unwrap_err().kind, Kind::BadParam);
            assert_eq!(current.the_priority().unwrap_err().kind, Kind::Initialize);
            current.set_the_priority(0).unwrap();
            assert_eq!(current.the_priority(), Ok(Priority::MIN));
            apart(move || {
                assert_eq!(current.the_priority().unwrap_err().kind, Kind::Initialize, "another thread");
            });
        });
    }

    #[test]
    fn the_mapping_decides_what_is_possible() {
        apart(|| {
            let orb = Orb::with_config(Config::default()).unwrap();
            orb.rt().set_priority_mapping(Arc::new(Continuous(NativeRange { min: 1, max: 3 })));
            let current = orb.rt_current();
            let refused = current.set_the_priority(3).unwrap_err();
            assert_eq!(
                (refused.kind, refused.minor),
                (Kind::DataConversion, minor::DATA_CONVERSION_PRIORITY)
            );
            assert_eq!(current.the_priority().unwrap_err().kind, Kind::Initialize, "nothing was set");
            current.set_the_priority(2).unwrap();
            assert_eq!(calling_priority(&orb).unwrap().map(Priority::get), Some(2));
            match SchedClass::current().unwrap().native_priority() {
                Some(native) => assert_eq!(native, 3),
                None => println!("skipped in part: this process may not schedule in real time"),
            }
        });
    }

    #[test]
    fn a_native_priority_counts_where_none_was_set() {
        apart(|| {
            let orb = Orb::with_config(Config::default()).unwrap();
            orb.rt().set_priority_mapping(Arc::new(Continuous(NativeRange { min: 1, max: 3 })));
            assert_eq!(calling_priority(&orb), Ok(None), "an ordinary thread is no real-time client");
            if SchedClass::Fifo(2).set_current().is_err() {
                return println!("skipped: this process may not schedule in real time");
            }
            assert_eq!(calling_priority(&orb).unwrap().map(Priority::get), Some(1));
            orb.rt().set_priority_mapping(Arc::new(Continuous(NativeRange { min: 1, max: 1 })));
            assert_eq!(calling_priority(&orb).unwrap_err().kind, Kind::DataConversion);
        });
    }
}
