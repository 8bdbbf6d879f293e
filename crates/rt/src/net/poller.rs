//! Waiting for one of many sockets.

use core::fmt;
use core::time::Duration;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::Errno;

use crate::time::Deadline;

/// What a socket is watched for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interest {
    read: bool,
    write: bool,
}

impl Interest {
    /// Something to receive, or the end of the stream.
    pub const READ: Interest = Interest { read: true, write: false };
    /// Room to send.
    pub const WRITE: Interest = Interest { read: false, write: true };
    /// Either.
    pub const BOTH: Interest = Interest { read: true, write: true };
    /// The end of the stream, and nothing before it.
    pub const END: Interest = Interest { read: false, write: false };
}

/// When readiness is reported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trigger {
    /// When readiness begins or more arrives: one report each, to one thread, which receives until
    /// `AGAIN`.
    Edge,
    /// As long as it lasts, to every thread that waits.
    Level,
    /// Once, then not until [`Poller::modify`].
    Once,
}

/// A set of watched sockets that several threads may wait on; the kernel chooses which of them gets
/// an event.
///
/// A socket that is closed is no longer watched, but an event of it that was reported already may
/// still be on its way, so tokens carry a generation where slots are reused.
///
/// ```
/// use isorb_rt::{net::{Events, Interest, Poller, Trigger}, time::Deadline};
/// use std::{io::Write, os::unix::net::UnixStream};
///
/// let (mut a, b) = UnixStream::pair()?;
/// let poller = Poller::new()?;
/// poller.add(&b, 7, Interest::READ, Trigger::Edge)?;
/// a.write_all(b"!")?;
/// let mut events = Events::<8>::new();
/// for event in poller.wait(&mut events, Deadline::NONE)? {
///     assert!(event.token == 7 && event.readable && !event.closed);
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Poller {
    epoll: OwnedFd,
    waker: OwnedFd,
}

/// Room for `N` events of one [`Poller::wait`].
pub struct Events<const N: usize>([epoll::Event; N]);

/// A socket that became ready.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    /// What it was added with; [`Poller::WAKE`] for a [`Poller::wake`].
    pub token: u64,
    /// There is something to receive, or a receive would say why not.
    pub readable: bool,
    /// There is room to send, or a send would say why not.
    pub writable: bool,
    /// The peer will send no more, or the connection is broken. What it sent before may still be
    /// there.
    pub closed: bool,
}

impl<const N: usize> Events<N> {
    /// No events yet.
    pub const fn new() -> Self {
        const { assert!(N > 0, "a wait needs room for an event") };
        Events([epoll::Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; N])
    }
}

impl<const N: usize> fmt::Debug for Events<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").field("room", &N).finish()
    }
}

impl<const N: usize> Default for Events<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl Poller {
    /// The token of [`wake`](Self::wake)'s events.
    pub const WAKE: u64 = u64::MAX;

    /// A poller that watches nothing.
    ///
    /// # Errors
    /// `MFILE`, `NFILE`: too many open files. It takes two.
    pub fn new() -> Result<Poller, Errno> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let waker = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(&epoll, &waker, EventData::new_u64(Self::WAKE), EventFlags::IN | EventFlags::ET)?;
        Ok(Poller { epoll, waker })
    }

    /// Watches a socket. If it is ready already, that is reported too.
    ///
    /// # Errors
    /// `EXIST` if it is watched, `PERM` if the file cannot be, `NOSPC` beyond the user's limit of
    /// watches, `INVAL` for the token [`WAKE`](Self::WAKE).
    ///
    /// # Real-time
    /// One system call, which allocates in the kernel. For the set-up of a connection.
    pub fn add(&self, fd: impl AsFd, token: u64, interest: Interest, trigger: Trigger) -> Result<(), Errno> {
        if token == Self::WAKE {
            return Err(Errno::INVAL);
        }
        epoll::add(&self.epoll, fd, EventData::new_u64(token), flags(interest, trigger))
    }

    /// Watches a socket for something else. If that is so already, it is reported: also the way to
    /// re-arm.
    ///
    /// # Errors
    /// `NOENT` if it is not watched, `INVAL` for the token [`WAKE`](Self::WAKE).
    ///
    /// # Real-time
    /// Neither allocates nor blocks; one system call.
    pub fn modify(
        &self,
        fd: impl AsFd,
        token: u64,
        interest: Interest,
        trigger: Trigger,
    ) -> Result<(), Errno> {
        if token == Self::WAKE {
            return Err(Errno::INVAL);
        }
        epoll::modify(&self.epoll, fd, EventData::new_u64(token), flags(interest, trigger))
    }

    /// Stops watching a socket.
    ///
    /// # Errors
    /// `NOENT` if it is not watched.
    ///
    /// # Real-time
    /// One system call. For the end of a connection.
    pub fn delete(&self, fd: impl AsFd) -> Result<(), Errno> {
        epoll::delete(&self.epoll, fd)
    }

    /// Waits until something is ready or `deadline` has passed; then there are no events. A signal
    /// does not end the wait.
    ///
    /// # Errors
    /// None is known for a poller that was created.
    ///
    /// # Real-time
    /// Does not allocate. Blocks until an event or `deadline`, to the nanosecond (`epoll_pwait2`,
    /// Linux 5.11).
    pub fn wait<'e, const N: usize>(
        &self,
        events: &'e mut Events<N>,
        deadline: Deadline,
    ) -> Result<impl Iterator<Item = Event> + use<'e, N>, Errno> {
        let ready = loop {
            match epoll::wait(&self.epoll, &mut events.0[..], deadline.remaining_timespec().as_ref()) {
                Ok(ready) => break ready,
                Err(Errno::INTR) => {}
                Err(Errno::NOSYS) => break wait_for_ms(&self.epoll, &mut events.0, deadline)?,
                Err(e) => return Err(e),
            }
        };
        Ok(events.0[..ready].iter().map(event))
    }

    /// Ends a [`wait`](Self::wait) of one thread, or the next one, with an event of token
    /// [`WAKE`](Self::WAKE). Several wakes before a wait sees them become one.
    ///
    /// # Real-time
    /// Neither allocates nor blocks; one system call.
    pub fn wake(&self) {
        // Fails when the counter is full, after 2^64 - 2 wakes.
        let _ = rustix::io::write(&self.waker, &1u64.to_ne_bytes());
    }

    /// From now on every [`wait`](Self::wait), in all threads, ends at once with an event of token
    /// [`WAKE`](Self::WAKE). For shutting down.
    pub fn wake_for_good(&self) {
        // The eventfd keeps its count, so all it takes is to report it by level. It is watched as
        // long as this lives.
        let _ = epoll::modify(&self.epoll, &self.waker, EventData::new_u64(Self::WAKE), EventFlags::IN);
        self.wake();
    }
}

/// As [`Poller::wait`] where `epoll_pwait2` is missing, as under valgrind: with milliseconds, up to
/// one late.
#[cold]
#[allow(unsafe_code)]
fn wait_for_ms(epoll: &OwnedFd, events: &mut [epoll::Event], deadline: Deadline) -> Result<usize, Errno> {
    let room = i32::try_from(events.len()).unwrap_or(i32::MAX);
    loop {
        let ms = |left: Duration| i32::try_from(left.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX);
        let timeout = deadline.remaining().map_or(-1, ms);
        // SAFETY: the kernel writes at most `room` events; rustix's have its layout, since rustix
        // hands them to the kernel as well.
        let ready = unsafe { libc::epoll_wait(epoll.as_raw_fd(), events.as_mut_ptr().cast(), room, timeout) };
        match usize::try_from(ready) {
            Ok(ready) => return Ok(ready),
            Err(_) => match Errno::from_io_error(&std::io::Error::last_os_error()) {
                Some(Errno::INTR) => {}
                other => return Err(other.unwrap_or(Errno::INVAL)),
            },
        }
    }
}

/// Waits until one socket is ready, or broken, or `deadline` has passed; says whether it was in
/// time. A signal does not end the wait.
///
/// # Errors
/// `NOMEM`: the kernel has none.
///
/// # Real-time
/// Does not allocate. Blocks until ready or `deadline`, to the nanosecond; one system call, which a
/// time-out on the socket would save.
pub fn wait_ready(fd: impl AsFd, interest: Interest, deadline: Deadline) -> Result<bool, Errno> {
    let mut events = PollFlags::empty();
    events.set(PollFlags::IN, interest.read);
    events.set(PollFlags::OUT, interest.write);
    events.set(PollFlags::RDHUP, interest == Interest::END);
    let mut watched = [PollFd::new(&fd, events)];
    loop {
        match poll(&mut watched, deadline.remaining_timespec().as_ref()) {
            Ok(ready) => return Ok(ready > 0),
            Err(Errno::INTR) => {}
            Err(e) => return Err(e),
        }
    }
}

fn flags(interest: Interest, trigger: Trigger) -> EventFlags {
    let mut events = EventFlags::empty();
    events.set(EventFlags::IN, interest.read);
    events.set(EventFlags::RDHUP, interest.read || interest == Interest::END);
    events.set(EventFlags::OUT, interest.write);
    match trigger {
        Trigger::Edge => events | EventFlags::ET,
        Trigger::Level => events,
        Trigger::Once => events | EventFlags::ONESHOT,
    }
}

fn event(raw: &epoll::Event) -> Event {
    let (flags, data) = (raw.flags, raw.data);
    let broken = flags.intersects(EventFlags::ERR | EventFlags::HUP);
    Event {
        token: data.u64(),
        readable: broken || flags.intersects(EventFlags::IN | EventFlags::RDHUP),
        writable: broken || flags.intersects(EventFlags::OUT),
        closed: broken || flags.intersects(EventFlags::RDHUP),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::time::now_ns;

    fn tokens(poller: &Poller, deadline: Deadline) -> Vec<u64> {
        poller.wait(&mut Events::<4>::new(), deadline).unwrap().map(|e| e.token).collect()
    }

    #[test]
    fn without_the_call_for_nanoseconds_it_waits_for_milliseconds() {
        let (mut a, b) = UnixStream::pair().unwrap();
        let poller = Poller::new().unwrap();
        poller.add(&b, 7, Interest::READ, Trigger::Level).unwrap();
        let mut events = Events::<4>::new();
        assert_eq!(wait_for_ms(&poller.epoll, &mut events.0, Deadline::PAST), Ok(0));
        let start = now_ns();
        let soon = Deadline::after(Duration::from_micros(1500));
        assert_eq!(wait_for_ms(&poller.epoll, &mut events.0, soon), Ok(0));
        assert!(now_ns() - start >= 1_500_000);
        a.write_all(b"!").unwrap();
        assert_eq!(wait_for_ms(&poller.epoll, &mut events.0, Deadline::NONE), Ok(1));
        assert!(super::event(&events.0[0]).readable && super::event(&events.0[0]).token == 7);
    }

    #[test]
    fn interest_in_the_end_reports_nothing_else() {
        let (mut a, b) = UnixStream::pair().unwrap();
        let poller = Poller::new().unwrap();
        poller.add(&b, 7, Interest::END, Trigger::Edge).unwrap();
        a.write_all(b"!").unwrap();
        assert!(tokens(&poller, Deadline::PAST).is_empty());
        assert_eq!(wait_ready(&b, Interest::END, Deadline::PAST), Ok(false));
        drop(a);
        assert_eq!(tokens(&poller, Deadline::NONE), [7]);
        assert_eq!(wait_ready(&b, Interest::END, Deadline::PAST), Ok(true));
    }

    #[test]
    fn an_edge_is_reported_once_and_again_for_more() {
        let (mut a, mut b) = UnixStream::pair().unwrap();
        let p = Poller::new().unwrap();
        p.add(&b, 1, Interest::READ, Trigger::Edge).unwrap();
        assert_eq!(tokens(&p, Deadline::PAST), []);
        a.write_all(b"x").unwrap();
        assert_eq!(tokens(&p, Deadline::NONE), [1]);
        assert_eq!(tokens(&p, Deadline::PAST), []);
        a.write_all(b"y").unwrap();
        assert_eq!(tokens(&p, Deadline::NONE), [1]);
        b.read_exact(&mut [0; 2]).unwrap();
        p.delete(&b).unwrap();
        a.write_all(b"z").unwrap();
        assert_eq!(tokens(&p, Deadline::PAST), []);
        assert_eq!(p.delete(&b), Err(Errno::NOENT));
    }

    #[test]
    fn level_lasts_and_once_is_once() {
        let (mut a, b) = UnixStream::pair().unwrap();
        a.write_all(b"x").unwrap();
        let p = Poller::new().unwrap();
        p.add(&b, 1, Interest::READ, Trigger::Level).unwrap();
        assert_eq!(p.add(&b, 1, Interest::READ, Trigger::Level), Err(Errno::EXIST));
        assert_eq!(tokens(&p, Deadline::NONE), [1]);
        assert_eq!(tokens(&p, Deadline::NONE), [1]);
        p.modify(&b, 2, Interest::READ, Trigger::Once).unwrap();
        assert_eq!(tokens(&p, Deadline::NONE), [2]);
        assert_eq!(tokens(&p, Deadline::PAST), []);
        p.modify(&b, 3, Interest::BOTH, Trigger::Once).unwrap();
        let mut events = Events::<4>::new();
        let all: Vec<_> = p.wait(&mut events, Deadline::NONE).unwrap().collect();
        assert_eq!(all, [Event { token: 3, readable: true, writable: true, closed: false }]);
    }

    #[test]
    fn the_end_of_a_stream_is_readable_and_closed() {
        let (a, b) = UnixStream::pair().unwrap();
        let p = Poller::new().unwrap();
        p.add(&b, 1, Interest::READ, Trigger::Edge).unwrap();
        drop(a);
        let mut events = Events::<1>::new();
        let e = p.wait(&mut events, Deadline::NONE).unwrap().next().unwrap();
        assert!(e.readable && e.closed);
    }

    #[test]
    fn waits_end_at_their_deadline() {
        let p = Poller::new().unwrap();
        let (a, _b) = UnixStream::pair().unwrap();
        let at = now_ns() + 1_500_000;
        assert_eq!(tokens(&p, Deadline::at_ns(at)), []);
        assert!(now_ns() >= at);
        let at = now_ns() + 1_500_000;
        assert_eq!(wait_ready(&a, Interest::READ, Deadline::at_ns(at)), Ok(false));
        assert!(now_ns() >= at);
        assert_eq!(wait_ready(&a, Interest::WRITE, Deadline::NONE), Ok(true));
    }

    #[test]
    fn a_wake_is_kept_and_ends_a_wait() {
        let p = Arc::new(Poller::new().unwrap());
        p.wake();
        p.wake();
        assert_eq!(tokens(&p, Deadline::NONE), [Poller::WAKE]);
        assert_eq!(tokens(&p, Deadline::PAST), []);
        let q = p.clone();
        let t = std::thread::spawn(move || tokens(&q, Deadline::after(Duration::from_secs(60))));
        p.wake();
        assert_eq!(t.join().unwrap(), [Poller::WAKE]);
    }

    #[test]
    fn a_wake_for_good_ends_every_wait() {
        let p = Arc::new(Poller::new().unwrap());
        let waiters: Vec<_> = (0..3)
            .map(|_| {
                let p = p.clone();
                std::thread::spawn(move || tokens(&p, Deadline::after(Duration::from_secs(60))))
            })
            .collect();
        p.wake_for_good();
        waiters.into_iter().for_each(|t| assert_eq!(t.join().unwrap(), [Poller::WAKE]));
        assert_eq!(tokens(&p, Deadline::NONE), [Poller::WAKE]);
    }

    #[test]
    fn the_wake_token_is_taken() {
        let (a, _b) = UnixStream::pair().unwrap();
        let p = Poller::new().unwrap();
        assert_eq!(p.add(&a, Poller::WAKE, Interest::READ, Trigger::Edge), Err(Errno::INVAL));
    }
}
