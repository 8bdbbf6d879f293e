//! The last events of a channel.

use super::backlog::{Backlog, RetainedRef};
use super::stream::{RetainedEvent, Ring};
use crate::counters::count;
use crate::event::{Event, EventCopy, EventPool, Header, NoCopy, SizeClass};
use isorb_rt::sync::PiMutex;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::atomic::{AtomicU8, AtomicU64};
use std::time::Duration;

/// Copies beyond those that the rings hold: for threads between their copy and its place in a ring,
/// and for consumers that are called with an event that was overwritten.
const SPARE: usize = 128;

/// What a channel keeps for consumers that join late (the DDS's HISTORY and DURABILITY). The events
/// of each type and source are a *stream* of their own, so that a frequent one displaces no other.
/// All memory is allocated when the channel is made: `streams` times `depth` copies of `payload`
/// octets.
///
/// Events that came over a link of a federation are not kept: the channel of their supplier has
/// them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HistoryQos {
    /// The most events of a stream; 0 keeps no history.
    pub depth: usize,
    /// The greatest age of an event, from its arrival.
    pub age: Option<Duration>,
    /// The most streams. Events of further ones are not kept, and counted
    /// ([`HistoryStatus::no_stream`]).
    pub streams: usize,
    /// The most octets of an event (payload and any together). Larger ones are not kept, and
    /// counted ([`HistoryStatus::too_large`]).
    pub payload: usize,
}

impl Default for HistoryQos {
    /// No history. With a `depth`: 256 streams, and events of up to 1,024 octets of any age.
    fn default() -> Self {
        HistoryQos { depth: 0, age: None, streams: 256, payload: 1024 }
    }
}

impl HistoryQos {
    /// Keeps the last `depth` events of each type and source.
    pub fn keep_last(depth: usize) -> HistoryQos {
        HistoryQos { depth, ..HistoryQos::default() }
    }

    pub(super) fn is_on(&self) -> bool {
        self.depth > 0 && self.streams > 0
    }
}

/// The part of a channel's history that a consumer gets when it connects, before later events.
///
/// It gets each event that its registrations let through once, in order of arrival; a registration
/// with a conjunction gets none. Events of the history are not subject to
/// [`Quality::min_separation`](crate::Quality::min_separation). While it is served, later events
/// wait in the consumer's queue, which must be long enough.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HistoryRequest {
    /// The most events of each type and source; 0 asks for none.
    pub last: usize,
    /// The greatest age, from the arrival at the channel.
    pub age: Option<Duration>,
}

impl HistoryRequest {
    /// The last `last` events of each type and source.
    pub fn last(last: usize) -> HistoryRequest {
        HistoryRequest { last, age: None }
    }

    /// All events of the history that are not older.
    pub fn within(age: Duration) -> HistoryRequest {
        HistoryRequest { last: usize::MAX, age: Some(age) }
    }
}

/// The history of a channel, for tools.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HistoryStatus {
    /// Its streams, by type and source.
    pub streams: Vec<StreamStatus>,
    /// Events that were not kept because they are larger than [`HistoryQos::payload`].
    pub too_large: u64,
    /// Events that were not kept because all [`HistoryQos::streams`] are of other types and
    /// sources.
    pub no_stream: u64,
    /// Events that were not kept because slow consumers held all spare copies.
    pub no_copy: u64,
}

/// The history of one type and source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StreamStatus {
    /// The type.
    pub event_type: i32,
    /// The source.
    pub source: i32,
    /// The events that a consumer would get now.
    pub kept: usize,
    /// Events that newer ones replaced.
    pub overwritten: u64,
    /// Events that were removed because they were older than [`HistoryQos::age`].
    pub aged: u64,
}

pub(crate) struct History {
    age: u64,
    streams: Box<[Stream]>,
    pool: EventPool,
    /// The number of the next event.
    next: AtomicU64,
    too_large: AtomicU64,
    no_stream: AtomicU64,
    no_copy: AtomicU64,
    /// The cause of the first loss, until it is logged.
    first_loss: AtomicU8,
}

const NONE: u8 = 0;
const NO_STREAM: u8 = 1;
const TOO_LARGE: u8 = 2;
const NO_COPY: u8 = 3;
const LOGGED: u8 = 4;

/// Open addressing: an event looks from the place of its hash on.
struct Stream {
    /// Type and source; 0 in a free stream.
    key: AtomicU64,
    ring: PiMutex<Ring>,
}

/// 0 for type and source 0, which belong to no application.
fn key(header: &Header) -> u64 {
    u64::from(header.event_type as u32) << 32 | u64::from(header.source as u32)
}

impl History {
    /// `None` if its memory cannot be allocated.
    pub fn new(qos: HistoryQos) -> Option<History> {
        let events = qos.streams.checked_mul(qos.depth)?.checked_add(SPARE)?;
        let ring = qos.depth.checked_mul(size_of::<RetainedEvent>())?.checked_mul(qos.streams)?;
        Vec::<u8>::new().try_reserve_exact(ring).ok()?;
        let pool = EventPool::new(vec![SizeClass { payload: qos.payload, events }])?;
        let stream = |_| Stream { key: AtomicU64::new(0), ring: PiMutex::new(Ring::new(qos.depth)) };
        Some(History {
            age: qos.age.map_or(u64::MAX, nanoseconds),
            streams: (0..qos.streams).map(stream).collect(),
            pool,
            next: AtomicU64::new(1),
            too_large: AtomicU64::new(0),
            no_stream: AtomicU64::new(0),
            no_copy: AtomicU64::new(0),
            first_loss: AtomicU8::new(NONE),
        })
    }

    /// Keeps an event, or counts why not. Returns true for the first loss, which the caller has
    /// logged ([`log_first_loss`](Self::log_first_loss)) by another thread.
    ///
    /// # Real-time
    /// Does not allocate. One PI lock for a short section; the search for the stream is linear in
    /// the streams where all are in use.
    pub fn keep(&self, event: &Event<'_>, expires: u64, view: u64, now: u64) -> bool {
        let Some(stream) = self.stream(key(&event.header)) else {
            return self.not_kept(&self.no_stream, NO_STREAM);
        };
        let copy = match self.pool.copy(event, expires) {
            Ok(copy) => copy,
            Err(NoCopy::TooLarge) => {
                return self.not_kept(&self.too_large, TOO_LARGE);
            }
            Err(NoCopy::Exhausted) => {
                return self.not_kept(&self.no_copy, NO_COPY);
            }
        };
        let since = now.saturating_sub(self.age);
        let mut ring = stream.ring.lock();
        // Under the lock, so that a ring is in order.
        let number = self.next.fetch_add(1, Relaxed);
        let gone = ring.push(RetainedEvent { number, at: now, view, copy: copy.share() }, since);
        drop(ring);
        drop(gone);
        false
    }

    #[cold]
    fn not_kept(&self, counter: &AtomicU64, cause: u8) -> bool {
        count(counter);
        self.first_loss.compare_exchange(NONE, cause, Relaxed, Relaxed).is_ok()
    }

    /// Logs the first loss, once.
    pub fn log_first_loss(&self) {
        let why = match self.first_loss.load(Relaxed) {
            NO_STREAM => "all HistoryQos::streams (--keep-streams) are in use",
            TOO_LARGE => "it is larger than HistoryQos::payload (--keep-payload)",
            NO_COPY => "slow consumers hold all spare copies",
            _ => return,
        };
        self.first_loss.store(LOGGED, Relaxed);
        isorb_rt::log::warn(
            "isorb::event",
            format_args!("an event is not in the history, because {why}; later ones are counted only"),
        );
    }

    /// The stream with this key, or a free one that becomes it.
    fn stream(&self, key: u64) -> Option<&Stream> {
        if key == 0 {
            return None;
        }
        let count = self.streams.len();
        let start = (key ^ key >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15) as usize % count;
        (start..start + count).map(|at| &self.streams[at % count]).find(|stream| {
            match stream.key.load(Acquire) {
                0 => match stream.key.compare_exchange(0, key, AcqRel, Acquire) {
                    Ok(_) => true,
                    Err(other) => other == key,
                },
                other => other == key,
            }
        })
    }

    /// The events that a consumer of the view `view` gets: those that it was not pushed.
    ///
    /// # Real-time
    /// For the administrating side. Allocates; takes the lock of each stream for a section that is
    /// linear in its depth.
    pub fn collect(
        &self,
        request: &HistoryRequest,
        (view, now): (u64, u64),
        wants: impl Fn(&Header) -> bool,
    ) -> Backlog {
        let age = request.age.map_or(u64::MAX, nanoseconds).min(self.age);
        let since = now.saturating_sub(age);
        let mut found = Vec::new();
        for (number, stream) in self.streams.iter().enumerate() {
            let ring = stream.ring.lock();
            let events = ring.newest(request.last, since, view);
            let wanted = events.filter(|kept| wants(&kept.copy.event().header));
            found.extend(wanted.map(|kept| RetainedRef { stream: number as u32, number: kept.number }));
        }
        found.sort_unstable_by_key(|kept| kept.number);
        Backlog::new(found)
    }

    /// An event of a backlog; `None` if it was overwritten.
    ///
    /// # Real-time
    /// Does not allocate. One PI lock for a short section, O(log n) in the depth.
    pub fn get(&self, wanted: RetainedRef) -> Option<EventCopy> {
        let stream = self.streams.get(wanted.stream as usize)?;
        let ring = stream.ring.lock();
        ring.get(wanted.number).map(|kept| kept.copy.clone())
    }

    /// Its streams and counts.
    pub fn status(&self, now: u64) -> HistoryStatus {
        let since = now.saturating_sub(self.age);
        let mut streams: Vec<StreamStatus> = self
            .streams
            .iter()
            .filter_map(|stream| {
                let key = stream.key.load(Acquire);
                let ring = stream.ring.lock();
                (key != 0).then(|| StreamStatus {
                    event_type: (key >> 32) as i32,
                    source: key as i32,
                    kept: ring.len(since),
                    overwritten: ring.overwritten,
                    aged: ring.aged,
                })
            })
            .collect();
        streams.sort_by_key(|stream| (stream.event_type, stream.source));
        HistoryStatus {
            streams,
            too_large: self.too_large.load(Relaxed),
            no_stream: self.no_stream.load(Relaxed),
            no_copy: self.no_copy.load(Relaxed),
        }
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
