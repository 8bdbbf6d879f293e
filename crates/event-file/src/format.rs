//! The octets of the file, all numbers with the lowest octet first.
//!
//! ```text
//! header: "isorbevt" version:u32 started:u64 crc:u32
//! record: "isEV" length:u32 crc:u32 body
//! event:  1 0 0 0 type:i32 source:i32 ttl:i32 pad1:i32 at:u64 created:u64 supplier:u64 number:u64
//!         octets:u32 data
//! loss:   2 cause:u8 0 0 type:i32 source:i32 count:u64 at:u64
//! end:    3 0 0 0 at:u64 events:u64 lost:u64
//! ```

/// The version that is written and read.
pub const VERSION: u32 = 1;

pub(crate) const MAGIC: &[u8; 8] = b"isorbevt";
/// Octets of the header.
pub(crate) const HEADER: usize = 24;
/// The begin of each record: behind damage a reader looks for it.
pub(crate) const MARKER: &[u8; 4] = b"isEV";
/// Octets of a record before its body.
pub(crate) const PREFIX: usize = 12;
/// Octets of an event's body before its data.
pub(crate) const EVENT: usize = 56;
/// The longest body that is read or written.
pub(crate) const MAX_BODY: usize = 1 << 28;

/// An event as it was received.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RecordedEvent<'a> {
    /// Its type.
    pub event_type: i32,
    /// Its source.
    pub source: i32,
    /// The number of channels over which it could still be forwarded.
    pub ttl: i32,
    /// The padding of TAO's layout, which applications may use.
    pub pad1: i32,
    /// When it was recorded, in nanoseconds from the start of the recording.
    pub at_ns: u64,
    /// When its supplier made it, in units of 100 ns, as the supplier says.
    pub creation_time: u64,
    /// Its supplier, by a number that it drew at random; 0 for one that gives no numbers.
    pub supplier: u64,
    /// Its number among those of this supplier, type and source, from 1.
    pub number: u64,
    /// The payload as octets.
    pub octets: &'a [u8],
    /// The payload as an `any`: its CDR encapsulation, or empty.
    pub any: &'a [u8],
}

/// Events that are not in the recording.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Loss {
    /// Where they were lost.
    pub cause: LossCause,
    /// Their type; 0 if several types were lost.
    pub event_type: i32,
    /// Their source; 0 if several sources were.
    pub source: i32,
    /// Their number.
    pub count: u64,
    /// When the loss was noticed, in nanoseconds from the start of the recording.
    pub at_ns: u64,
}

/// Where events were lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LossCause {
    /// On their way from the supplier: the numbers of its events have a gap.
    OnTheWay = 1,
    /// The recorder's buffer was full: the disk is too slow.
    BufferFull = 2,
    /// The disk did not take them: it was full, or failed.
    NotWritten = 3,
}

/// The sums at the end of a recording.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// The length of the recording in nanoseconds.
    pub at_ns: u64,
    /// Its events.
    pub events: u64,
    /// Events that were lost, for all causes.
    pub lost: u64,
}

/// A record of the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Record<'a> {
    /// An event.
    Event(RecordedEvent<'a>),
    /// A gap.
    Loss(Loss),
    /// The end: the recorder was not killed.
    End(Totals),
}

/// The header of a recording that started at this time, in nanoseconds since 1970.
pub(crate) fn header(started_ns: u64) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..8].copy_from_slice(MAGIC);
    header[8..12].copy_from_slice(&VERSION.to_le_bytes());
    header[12..20].copy_from_slice(&started_ns.to_le_bytes());
    let crc = crc32fast::hash(&header[..20]);
    header[20..].copy_from_slice(&crc.to_le_bytes());
    header
}

/// The octets of a record of this event. `None` if the event is too large to be recorded.
pub(crate) fn event_length(event: &RecordedEvent<'_>) -> Option<usize> {
    let body = EVENT.checked_add(event.octets.len())?.checked_add(event.any.len())?;
    (body <= MAX_BODY).then_some(PREFIX + body)
}

/// Appends a record.
///
/// # Real-time
/// Does not allocate while `out` has room.
pub(crate) fn write(out: &mut Vec<u8>, record: &Record<'_>) {
    let begin = out.len();
    out.extend_from_slice(MARKER);
    out.extend_from_slice(&[0; 8]);
    match record {
        Record::Event(event) => {
            out.extend_from_slice(&[1, 0, 0, 0]);
            for number in [event.event_type, event.source, event.ttl, event.pad1] {
                out.extend_from_slice(&number.to_le_bytes());
            }
            for number in [event.at_ns, event.creation_time, event.supplier, event.number] {
                out.extend_from_slice(&number.to_le_bytes());
            }
            out.extend_from_slice(&(event.octets.len() as u32).to_le_bytes());
            out.extend_from_slice(event.octets);
            out.extend_from_slice(event.any);
        }
        Record::Loss(loss) => {
            out.extend_from_slice(&[2, loss.cause as u8, 0, 0]);
            out.extend_from_slice(&loss.event_type.to_le_bytes());
            out.extend_from_slice(&loss.source.to_le_bytes());
            out.extend_from_slice(&loss.count.to_le_bytes());
            out.extend_from_slice(&loss.at_ns.to_le_bytes());
        }
        Record::End(totals) => {
            out.extend_from_slice(&[3, 0, 0, 0]);
            for number in [totals.at_ns, totals.events, totals.lost] {
                out.extend_from_slice(&number.to_le_bytes());
            }
        }
    }
    let body = begin + PREFIX;
    let (length, crc) = ((out.len() - body) as u32, crc32fast::hash(&out[body..]));
    out[begin + 4..begin + 8].copy_from_slice(&length.to_le_bytes());
    out[begin + 8..body].copy_from_slice(&crc.to_le_bytes());
}

/// Reads numbers from the front of a body.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*first)
    }

    fn i32(&mut self) -> Option<i32> {
        self.take().map(i32::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }
}

/// The record of a body. `None` for a body that this version does not write.
pub(crate) fn parse(body: &[u8]) -> Option<Record<'_>> {
    let mut fields = Fields(body);
    let [kind, cause, ..] = fields.take::<4>()?;
    let record = match kind {
        1 => {
            let [event_type, source, ttl, pad1] =
                [fields.i32()?, fields.i32()?, fields.i32()?, fields.i32()?];
            let [at_ns, creation_time, supplier, number] =
                [fields.u64()?, fields.u64()?, fields.u64()?, fields.u64()?];
            let length = fields.u32()? as usize;
            let (octets, any) = fields.0.split_at_checked(length)?;
            return Some(Record::Event(RecordedEvent {
                event_type,
                source,
                ttl,
                pad1,
                at_ns,
                creation_time,
                supplier,
                number,
                octets,
                any,
            }));
        }
        2 => Record::Loss(Loss {
            cause: match cause {
                1 => LossCause::OnTheWay,
                2 => LossCause::BufferFull,
                3 => LossCause::NotWritten,
                _ => return None,
            },
            event_type: fields.i32()?,
            source: fields.i32()?,
            count: fields.u64()?,
            at_ns: fields.u64()?,
        }),
        3 => Record::End(Totals { at_ns: fields.u64()?, events: fields.u64()?, lost: fields.u64()? }),
        _ => return None,
    };
    fields.0.is_empty().then_some(record)
}
