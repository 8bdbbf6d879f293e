//! The options of a thread pool.

use crate::SystemException;
use crate::sched::{HeapFree, LocalCalls, UpcallMemory};
use isorb_rt::sched::{Cpus, Reservation, SchedClass};
use std::fmt;
use std::time::Duration;

/// The threads of a lane (`RTCORBA::ThreadpoolLane`).
///
/// ```
/// # use isorb::rt::ThreadpoolLane;
/// let urgent = ThreadpoolLane::new(20_000, 2).dynamic_threads(3).endpoint("127.0.0.1:0");
/// # assert_eq!(urgent.static_threads, 2);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadpoolLane {
    /// CORBA priority of the lane, 0 to 32767; of a pool without lanes the default priority.
    pub lane_priority: i16,
    /// Threads that start with the pool; at least 1.
    pub static_threads: u32,
    /// Threads that are started when a request arrives while all others are busy, and that end
    /// after some idle time.
    pub dynamic_threads: u32,
    /// The lane's endpoint, as in [`Config::endpoints`](crate::Config::endpoints); none for a free
    /// port at the host of the first of those. Objects that outlive the process need a fixed port.
    pub endpoint: Option<String>,
    /// Further endpoints of the lane for clients of this host, as in
    /// [`Config::endpoints`](crate::Config::endpoints): `unix:PATH`, `segment:PATH`. None for a
    /// free address of each such transport of the ORB's endpoints.
    pub local_endpoints: Vec<String>,
    /// Guaranteed processor time of each thread of the lane (`SCHED_DEADLINE`), in place of the
    /// priority's scheduling class. The kernel runs the thread with the earliest deadline, before
    /// all threads with priorities.
    pub reservation: Option<Reservation>,
    /// The lane's message blocks; none for those of the configuration
    /// ([`RealTimeConfig::lane_messages`](crate::rt::RealTimeConfig::lane_messages)).
    pub messages: Vec<LaneMessages>,
}

/// Message blocks that a lane reserves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneMessages {
    /// Octets of the longest message that a block takes, its header aside.
    pub bytes: usize,
    /// The number of blocks.
    pub count: usize,
}

impl ThreadpoolLane {
    /// A lane with threads that start at once.
    pub fn new(lane_priority: i16, static_threads: u32) -> ThreadpoolLane {
        ThreadpoolLane {
            lane_priority,
            static_threads,
            dynamic_threads: 0,
            endpoint: None,
            local_endpoints: Vec::new(),
            reservation: None,
            messages: Vec::new(),
        }
    }

    /// Sets the number of dynamic threads.
    #[must_use]
    pub fn dynamic_threads(mut self, threads: u32) -> ThreadpoolLane {
        self.dynamic_threads = threads;
        self
    }

    /// Sets the endpoint of the lane, which is plain TCP. Otherwise it is a free port beside the
    /// ORB's first TCP endpoint.
    #[must_use]
    pub fn endpoint(mut self, endpoint: impl Into<String>) -> ThreadpoolLane {
        self.endpoint = Some(endpoint.into());
        self
    }

    /// Adds an endpoint for clients of this host.
    #[must_use]
    pub fn local_endpoint(mut self, endpoint: impl Into<String>) -> ThreadpoolLane {
        self.local_endpoints.push(endpoint.into());
        self
    }

    /// Reserves `count` blocks for messages of up to `bytes` octets: requests that arrive, wait in
    /// the lane or run, and replies that their clients have yet to read. May be called several
    /// times, for messages of different sizes. A count of 0, and no other call, lets the lane share
    /// the blocks of the ORB.
    ///
    /// The blocks are allocated, touched and, where the process may do so, locked when the pool is
    /// created. The lane takes no memory from the heap for a message afterwards, and none of its
    /// blocks serves another lane. A request that is too long is IMP_LIMIT to its client (minor
    /// code 4 of isorb), one that finds no free block NO_RESOURCES (minor code 1 of isorb); the
    /// connection goes on. A reply is not longer than the longest block either.
    ///
    /// Besides, each thread has its region, a block of 68 KiB to receive to (or the longest, if
    /// that is shorter) and a buffer for replies as long as the longest block. The lane has blocks
    /// of 4 KiB for messages that come in pieces and for buffered requests.
    ///
    /// ```
    /// # use isorb::rt::ThreadpoolLane;
    /// // Twelve requests of 256 KiB at a time, and two images.
    /// let lane = ThreadpoolLane::new(20_000, 2).messages(256 << 10, 12).messages(4 << 20, 2);
    /// # assert_eq!(lane.messages.len(), 2);
    /// ```
    #[must_use]
    pub fn messages(mut self, bytes: usize, count: usize) -> ThreadpoolLane {
        self.messages.push(LaneMessages { bytes, count });
        self
    }

    /// Reserves `runtime` of processor time in each `period` for each thread, within `deadline` of
    /// the period's beginning: `runtime` is at least 1024 ns, and `runtime <= deadline <= period`.
    /// A thread that has used its time waits for the next period.
    ///
    /// The kernel admits reservations as far as the processors can serve all of them (95 % of their
    /// time unless `kernel.sched_rt_runtime_us` says otherwise), only from processes with
    /// CAP_SYS_NICE, and only for threads that may run on all processors of their root domain. So a
    /// lane with a reservation cannot be confined to processors, but the whole process can be
    /// confined to a partition (`cpuset.cpus.partition`). A refusal is an error if `real_time.mode`
    /// is `require`. Otherwise it is logged once, and the lane runs in the class of its priority.
    /// [`LaneStatus::class`] tells the class in use.
    #[must_use]
    pub fn reservation(mut self, runtime: Duration, deadline: Duration, period: Duration) -> ThreadpoolLane {
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.reservation =
            Some(Reservation { runtime_ns: ns(runtime), deadline_ns: ns(deadline), period_ns: ns(period) });
        self
    }
}

/// The number of requests that each lane buffers while all its threads are busy. One more is
/// TRANSIENT for its caller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestBuffering {
    /// Limit of requests; 0 for that of the configuration.
    pub max_buffered_requests: u32,
    /// Limit of bytes; 0 for that of the configuration.
    pub max_request_buffer_size: u32,
}

/// Further options of a pool. The default: 2 MiB of stack that is touched when used, no buffering,
/// no borrowing, and otherwise the values of [`RealTimeConfig`](crate::rt::RealTimeConfig).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ThreadpoolOptions {
    /// Stack of each thread in bytes; 0 for 2 MiB.
    pub stack_size: usize,
    /// The part of the stack that is touched before a thread's first request, in bytes.
    pub prefault: usize,
    /// Whether, and how many, requests are buffered while all threads are busy
    /// (`allow_request_buffering`). The request of the highest priority runs first, requests of
    /// equal priority in order of arrival. A lane that buffers, grows or borrows has one thread
    /// more than configured, which reads while the others run.
    pub buffering: Option<RequestBuffering>,
    /// Whether a lane with all its threads busy lets idle threads of lower lanes run its requests,
    /// at its own priority (`allow_borrowing`). A pool without lanes has no lower lanes. A lane
    /// that borrows also buffers requests, up to the limits of the configuration.
    pub allow_borrowing: bool,
    /// Idle time after which a dynamic thread ends.
    pub idle_timeout: Option<Duration>,
    /// Processors that the threads may use.
    pub cpus: Option<Cpus>,
    /// Memory of an upcall in bytes.
    pub region_bytes: Option<usize>,
    /// The location of an upcall's memory.
    pub memory: Option<UpcallMemory>,
    /// The threads that run calls of this process.
    pub local_calls: Option<LocalCalls>,
    /// What happens when a servant of the pool allocates.
    pub heap_free: Option<HeapFree>,
}

/// `RTCORBA::RTORB::InvalidThreadpool`: no pool with this number exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidThreadpool;

impl fmt::Display for InvalidThreadpool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InvalidThreadpool: the ORB has no thread pool of this number; use one that create_threadpool gave")
    }
}

impl std::error::Error for InvalidThreadpool {}

/// The errors of [`destroy_threadpool`](crate::rt::RtOrb::destroy_threadpool).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DestroyError {
    /// No pool has this number.
    InvalidThreadpool,
    /// BAD_INV_ORDER: POAs use it.
    System(SystemException),
}

impl fmt::Display for DestroyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DestroyError::InvalidThreadpool => InvalidThreadpool.fmt(f),
            DestroyError::System(exception) => exception.fmt(f),
        }
    }
}

impl std::error::Error for DestroyError {}

/// The state of a lane at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneStatus {
    /// CORBA priority of the lane.
    pub lane_priority: i16,
    /// Scheduling class that the lane's threads started in.
    pub class: SchedClass,
    /// Host and port in references.
    pub address: (String, u16),
    /// Connections that are open.
    pub connections: usize,
    /// Running requests, without those on borrowed threads. Counted only if the lane grows,
    /// buffers, borrows or lends.
    pub running: u32,
    /// The highest number of requests that ran at a time.
    pub peak: u32,
    /// Dynamic threads that exist.
    pub dynamic_threads: u32,
    /// Buffered requests.
    pub buffered_requests: usize,
    /// Their length in bytes.
    pub buffered_bytes: usize,
    /// Bytes that the lane reserved for messages; 0 if it shares the blocks of the ORB.
    pub message_bytes: usize,
    /// Of the blocks for the longest messages, those that are free.
    pub free_blocks: usize,
    /// Whether the reserved bytes are locked in memory.
    pub locked: bool,
    /// Requests that were refused because no block was long enough, or none free.
    pub refused_messages: u64,
    /// Connections that were closed because others needed their blocks.
    pub evicted_connections: u64,
    /// Upcalls that allocated, in a pool that is declared [heap-free](HeapFree).
    pub heap_upcalls: u64,
}
