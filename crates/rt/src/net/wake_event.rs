//! Waiting for several sockets at once, and for other threads.

use crate::time::Deadline;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::task::Wake;

/// An event that threads wait for beside sockets. As a [`Waker`](std::task::Waker) it is set by
/// waking.
#[derive(Debug)]
pub struct WakeEvent(OwnedFd);

impl WakeEvent {
    /// An event that is not set.
    ///
    /// # Errors
    /// `MFILE`, `NFILE`: too many open files.
    pub fn new() -> Result<WakeEvent, Errno> {
        Ok(WakeEvent(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Sets the event.
    ///
    /// # Real-time
    /// Neither allocates nor blocks; one system call.
    pub fn set(&self) {
        // Fails when the counter is full, after 2^64 - 2 times.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Clears the event.
    ///
    /// # Real-time
    /// As [`set`](Self::set).
    pub fn clear(&self) {
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

impl AsFd for WakeEvent {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Wake for WakeEvent {
    fn wake(self: Arc<Self>) {
        self.set();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.set();
    }
}

/// Most files that [`wait_any_ready`] waits for.
pub const MOST_FILES: usize = 64;

/// Waits until one of the files can be read or is broken, or `deadline` has passed; says whether it
/// was in time. Of more than [`MOST_FILES`] the others are ignored.
///
/// # Errors
/// `NOMEM`: the kernel has none.
///
/// # Real-time
/// Does not allocate. Blocks until ready or `deadline`; one system call.
pub fn wait_any_ready(files: &[BorrowedFd<'_>], deadline: Deadline) -> Result<bool, Errno> {
    let Some(first) = files.first() else { return Ok(false) };
    let files = &files[..files.len().min(MOST_FILES)];
    let mut watched: [PollFd<'_>; MOST_FILES] =
        std::array::from_fn(|at| PollFd::from_borrowed_fd(*files.get(at).unwrap_or(first), PollFlags::IN));
    let watched = &mut watched[..files.len()];
    loop {
        match poll(watched, deadline.remaining_timespec().as_ref()) {
            Ok(ready) => return Ok(ready > 0),
            Err(Errno::INTR) => {}
            Err(e) => return Err(e),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    use std::task::Waker;

    #[test]
    fn one_of_several_files_or_a_waker_ends_the_wait() {
        let (mut a, b) = UnixStream::pair().unwrap();
        let event = Arc::new(WakeEvent::new().unwrap());
        let files = [event.as_fd(), b.as_fd()];
        assert_eq!(wait_any_ready(&files, Deadline::PAST), Ok(false));
        Waker::from(event.clone()).wake_by_ref();
        assert_eq!(wait_any_ready(&files, Deadline::NONE), Ok(true));
        event.clear();
        assert_eq!(wait_any_ready(&files, Deadline::PAST), Ok(false));
        a.write_all(b"!").unwrap();
        assert_eq!(wait_any_ready(&files, Deadline::NONE), Ok(true));
        assert_eq!(wait_any_ready(&[], Deadline::NONE), Ok(false));
    }
}
