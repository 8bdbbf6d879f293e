//! A thread by its number, to change the scheduling of other threads.

use rustix::io::Errno;

use super::class::{SchedClass, SchedError};
use crate::sync::futex::thread_id;
use crate::time::NS_PER_S;

/// The system's number of a thread of this process. Once the thread has ended, another may have it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ThreadId(i32);

impl ThreadId {
    /// That of the calling thread.
    ///
    /// # Real-time
    /// Neither allocates nor blocks; a system call the first time in a thread.
    pub fn current() -> ThreadId {
        ThreadId(thread_id() as i32)
    }

    /// The number, as tools show it.
    pub fn get(self) -> i32 {
        self.0
    }

    /// Gives the thread a class.
    ///
    /// # Errors
    /// [`SchedError`].
    ///
    /// # Real-time
    /// Neither allocates nor blocks; one system call, two for [`SchedClass::Other`].
    pub fn set_class(self, class: SchedClass) -> Result<(), SchedError> {
        class.set(self.0)
    }

    /// The thread's class.
    ///
    /// # Errors
    /// [`SchedError::NoThread`] once it has ended.
    ///
    /// # Real-time
    /// Neither allocates nor blocks; one system call.
    pub fn class(self) -> Result<SchedClass, SchedError> {
        SchedClass::get(self.0)
    }

    /// Nanoseconds of processor time that the thread has used, as
    /// [`thread_cpu_ns`](crate::time::thread_cpu_ns) gives them to the thread itself.
    ///
    /// # Errors
    /// `INVAL` once it has ended.
    ///
    /// # Real-time
    /// Neither allocates nor blocks; one system call.
    pub fn cpu_ns(self) -> Result<u64, Errno> {
        // How the kernel numbers the processor clocks of threads
        // (include/linux/posix-timers_types.h): the id inverted, 4 for a single thread, 2 for the
        // time that the scheduler counts.
        let clock = (!self.0 << 3) | 6;
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the kernel writes the structure that it is given, or refuses the clock.
        let r = unsafe { libc::clock_gettime(clock, &mut time) };
        if r != 0 {
            return Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL));
        }
        Ok(time.tv_sec as u64 * NS_PER_S + time.tv_nsec as u64)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::testing::{in_thread, may_be_real_time};
    use crate::time::{now_ns, thread_cpu_ns};

    #[test]
    fn processor_time_is_seen_from_outside() {
        in_thread(|| {
            let me = ThreadId::current();
            let (a, b) = (thread_cpu_ns(), me.cpu_ns().unwrap());
            assert!(b >= a);
            let end = now_ns() + 2_000_000;
            while now_ns() < end {}
            let outside = std::thread::spawn(move || me.cpu_ns().unwrap()).join().unwrap();
            assert!(outside > b && outside <= thread_cpu_ns());
        });
        let gone = std::thread::spawn(ThreadId::current).join().unwrap();
        // Another thread may have the number already; if not, the clock no longer exists.
        if let Err(error) = gone.cpu_ns() {
            assert_eq!(error, Errno::INVAL);
        }
    }

    #[test]
    fn a_class_is_given_by_number() {
        in_thread(|| {
            let me = ThreadId::current();
            assert_eq!(me.class(), Ok(SchedClass::Other));
            if may_be_real_time() {
                std::thread::spawn(move || me.set_class(SchedClass::Fifo(2)).unwrap()).join().unwrap();
                assert_eq!(SchedClass::current(), Ok(SchedClass::Fifo(2)));
            }
            assert_eq!(u32::try_from(me.get()), Ok(rustix::thread::gettid().as_raw_nonzero().get() as u32));
        });
    }
}
