//! Spans that wait for the exporter, in memory of a fixed size.

use isorb::interceptor::ReplyStatus;
use isorb_rt::sync::{Parker, PiMutex};
use isorb_trace_context::{Span, SpanSink, TraceParent};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

/// Octets of an interface's id and of an operation's name that are kept.
const INTERFACE: usize = 160;
const OPERATION: usize = 64;

/// A span as it waits. Longer names are cut off.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    pub context: TraceParent,
    pub parent: [u8; 8],
    interface: Text<INTERFACE>,
    operation: Text<OPERATION>,
    pub start: SystemTime,
    pub duration: Duration,
    pub status: ReplyStatus,
}

/// A text of at most `N` octets.
#[derive(Clone, Copy, Debug)]
struct Text<const N: usize> {
    octets: [u8; N],
    length: u8,
}

impl<const N: usize> Text<N> {
    fn new(text: &str) -> Text<N> {
        let length = text.floor_char_boundary(N);
        let mut octets = [0; N];
        octets[..length].copy_from_slice(&text.as_bytes()[..length]);
        Text { octets, length: length as u8 }
    }

    fn as_str(&self) -> &str {
        std::str::from_utf8(&self.octets[..usize::from(self.length)]).unwrap_or_default()
    }
}

impl Record {
    pub fn interface(&self) -> &str {
        self.interface.as_str()
    }

    pub fn operation(&self) -> &str {
        self.operation.as_str()
    }
}

/// A ring of spans. Its memory is reserved when it is made.
pub struct Queue {
    ring: PiMutex<Ring>,
    dropped: AtomicU64,
    /// Wakes the exporter's thread.
    pub wake: Parker,
}

struct Ring {
    records: Box<[Option<Record>]>,
    first: usize,
    length: usize,
}

impl Queue {
    pub fn new(capacity: usize) -> Queue {
        let records = vec![None; capacity.max(1)].into_boxed_slice();
        let ring = PiMutex::new(Ring { records, first: 0, length: 0 });
        Queue { ring, dropped: AtomicU64::new(0), wake: Parker::new() }
    }

    /// The spans that found no room.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// The spans that wait.
    pub fn len(&self) -> usize {
        self.ring.lock().length
    }

    /// Takes the oldest span. The lock is held for one at a time, so that a thread that serves
    /// requests never waits for more than one copy.
    pub fn pop(&self) -> Option<Record> {
        let mut ring = self.ring.lock();
        let first = ring.first;
        let record = ring.records[first].take()?;
        ring.first = (first + 1) % ring.records.len();
        ring.length -= 1;
        Some(record)
    }
}

impl SpanSink for Queue {
    fn ended(&self, span: &Span<'_>) {
        let record = Record {
            context: span.context,
            parent: span.parent,
            interface: Text::new(span.interface),
            operation: Text::new(span.operation),
            start: span.start,
            duration: span.duration,
            status: span.status,
        };
        let mut ring = self.ring.lock();
        let capacity = ring.records.len();
        if ring.length == capacity {
            drop(ring);
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let next = (ring.first + ring.length) % capacity;
        ring.records[next] = Some(record);
        ring.length += 1;
        let is_half_full = ring.length == capacity.div_ceil(2);
        drop(ring);
        if is_half_full {
            self.wake.unpark();
        }
    }
}
