//! One record, and the records of one thread.

/// What a [`Record`] reports.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
#[non_exhaustive]
pub enum RecordKind {
    /// A supplier pushed an event. `a`: type and source (upper and lower half).
    Push = 1,
    /// An event was put into a consumer's queue. `a`: the length of the queue.
    Queue = 2,
    /// A consumer began to run. `a`: how long its oldest event waited, in nanoseconds.
    Begin = 3,
    /// A consumer returned. `a`: how long it ran, in nanoseconds. `b`, bit 0: it failed. `b`, bit
    /// 1: its thread changed its processor meanwhile, so the records do not show when it was
    /// pre-empted.
    End = 4,
    /// A running consumer lost the processor to a more urgent one: on another thread, or on its own
    /// where it yielded. The thread of the more urgent consumer writes this. It cannot know whether
    /// the other consumer was running or waiting at this moment. `a`: the level of the more urgent
    /// one; `b`: its id.
    Preempt = 5,
    /// A consumer returned after its deadline. `a`: how late, in nanoseconds; `b`: the deadline.
    Miss = 6,
    /// A timer expired. `a`: how late that was noticed, in nanoseconds; `b`: 1 for a deadline
    /// timer.
    Timeout = 7,
    /// A consumer used more processor time than it declared. `a`: used, `b`: declared, in
    /// nanoseconds.
    Overrun = 8,
    /// An event was lost to a limit. `a`: the [`DropReason`].
    Drop = 9,
    /// A more urgent consumer returned, and the pre-empted one has the processor again unless a
    /// third one takes it now. The thread of the more urgent consumer writes this, if the
    /// pre-empted one has not returned meanwhile on another processor. `a`: how long the
    /// pre-emption lasted, in nanoseconds; `b`: the id of the more urgent one.
    Resume = 10,
}

impl RecordKind {
    /// The kind with this code (`self as u8`); `None` for an unknown code.
    pub fn from_code(code: u8) -> Option<RecordKind> {
        use RecordKind::*;
        [Push, Queue, Begin, End, Preempt, Miss, Timeout, Overrun, Drop, Resume]
            .into_iter()
            .find(|kind| *kind as u8 == code)
    }
}

/// Why an event was lost: argument `a` of [`RecordKind::Drop`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum DropReason {
    /// The consumer's queue was full, or the consumer was in backoff.
    Queue = 0,
    /// All copies of events were in use.
    Copies = 1,
    /// The event's data exceed the size of a copy.
    TooLarge = 2,
    /// It was skipped after an overrun.
    Skipped = 3,
}

/// One thing that happened.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Record {
    /// When, in nanoseconds of the recorder's clock.
    pub at: u64,
    /// What happened.
    pub kind: RecordKind,
    /// The consumer's priority level, counted from the least urgent.
    pub level: u8,
    /// The consumer's number, or the supplier's for a push.
    pub id: u32,
    /// See [`RecordKind`].
    pub a: u64,
    /// See [`RecordKind`].
    pub b: u64,
}

/// The records of one thread, the oldest first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Track {
    /// The thread's name.
    pub thread: String,
    /// How many older records were overwritten.
    pub overwritten: u64,
    /// The records that are left.
    pub records: Vec<Record>,
}
