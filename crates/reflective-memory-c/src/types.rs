//! Structures and numbers of the header, and what they are in Rust.

use crate::pointers::text;
use crate::result::Failure;
use core::ffi::c_char;
use isorb_reflective_memory::Error;
use isorb_reflective_memory::idl::{
    Area, DataType, Mode, Path, RAW_OCTETS, ReaderQoS, State as IdlState, Statistics, WriterQoS, WrongType,
};
use isorb_reflective_memory::memory::{Sample, State};

/// A session with the server of this node. 0 is none.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct isorb_crm_session {
    /// Opaque.
    pub handle: u64,
}

/// The writer of an area. 0 is none.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct isorb_crm_writer {
    /// Opaque.
    pub handle: u64,
}

/// A reader of an area. 0 is none.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct isorb_crm_reader {
    /// Opaque.
    pub handle: u64,
}

/// A reader of all areas with names that match a pattern. 0 is none.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct isorb_crm_area_set {
    /// Opaque.
    pub handle: u64,
}

/// A reader of several areas that shows the strongest living writer. 0 is none.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct isorb_crm_strongest {
    /// Opaque.
    pub handle: u64,
}

/// An area of a reader of the strongest living writer.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct isorb_crm_candidate {
    /// Its name.
    pub name: *const c_char,
    /// The greatest is shown; of equals the one that comes first.
    pub strength: i32,
    /// 0.
    pub reserved: u32,
}

/// Values are octets, and the area must be one without a type.
pub const ISORB_CRM_OCTETS: u32 = 1;
/// Values have the type of `id` and `definition`, and the area must have the same.
pub const ISORB_CRM_TYPED: u32 = 2;
/// Values are handled as octets, whatever type the area has. Not for making an area.
pub const ISORB_CRM_ANY_TYPE: u32 = 3;

/// What values are. All zero is refused, so that no program handles octets unknowingly.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct isorb_crm_type {
    /// ISORB_CRM_OCTETS, ISORB_CRM_TYPED or ISORB_CRM_ANY_TYPE.
    pub kind: u32,
    /// Of a typed one: the repository id, such as "IDL:Plant/Pressure:1.0". Else null.
    pub id: *const c_char,
    /// Of a typed one: the IDL in one line, such as
    /// "struct Pressure { double bar; boolean valid; }". Processes agree on a type where both texts
    /// are equal. Values are in CDR: members lie one behind the other, each aligned to its own
    /// size, without octets behind the last. Else null.
    pub definition: *const c_char,
}

/// An area.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct isorb_crm_area {
    /// Unique among all nodes of a coordinator.
    pub name: *const c_char,
    /// Octets of the largest value.
    pub size: u32,
    /// Values that are kept beside the latest.
    pub histories: u32,
    /// What values are.
    pub values: isorb_crm_type,
}

/// The promises of a writer. Guaranteed readers are admitted by them.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct isorb_crm_writer_qos {
    /// The shortest time between two values; 0 for no promise.
    pub period_ns: u64,
    /// Octets of the largest value that it writes; 0 for the area's size.
    pub size: u32,
    /// 0.
    pub reserved: u32,
}

/// Each value is pushed when it is written.
pub const ISORB_CRM_PUSH_ON_WRITE: u32 = 0;
/// The latest value is pushed once a period.
pub const ISORB_CRM_PERIODIC_PUSH: u32 = 1;

/// Between nodes by datagrams.
pub const ISORB_CRM_PATH_UDP: u32 = 0;
/// Between nodes by a call for each value.
pub const ISORB_CRM_PATH_ORB: u32 = 1;
/// Between nodes by oneway calls.
pub const ISORB_CRM_PATH_ONEWAY: u32 = 2;
/// Between nodes by datagrams to a group.
pub const ISORB_CRM_PATH_MULTICAST: u32 = 3;

/// The timing and path that a reader asks for. All zero: each value by datagrams, best effort.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct isorb_crm_reader_qos {
    /// ISORB_CRM_PUSH_ON_WRITE or ISORB_CRM_PERIODIC_PUSH.
    pub mode: u32,
    /// ISORB_CRM_PATH_UDP, _ORB, _ONEWAY or _MULTICAST.
    pub path: u32,
    /// Of the pushes, when periodic.
    pub period_ns: u64,
    /// From the write until the value can be read; 0 for none. An older value is stale.
    pub deadline_ns: u64,
    /// Values kept beside the latest.
    pub histories: u32,
    /// 1: with this timing, or refused. 2: the same, also from nodes without a real-time class or
    /// measured costs, which assure nothing. 0: best effort.
    pub guaranteed: u32,
    /// One parity datagram after this many datagrams, at most 255; 0 for none.
    pub parity: u32,
    /// 0.
    pub reserved: u32,
}

/// What is known about a value.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct isorb_crm_sample {
    /// Octets of it.
    pub len: usize,
    /// Its number in the memory that was read, from 1, without gaps.
    pub number: u64,
    /// Its number at the writer.
    pub source: u64,
    /// The number of the writer among all writers of the area; another one than before means that
    /// the writer was restarted.
    pub writer: u64,
    /// Values since the last one that this reader read, which it did not read.
    pub missed: u64,
    /// Nanoseconds since it was written.
    pub age_ns: u64,
    /// How far the age may be wrong in either direction, because another node's clock took the time
    /// of writing; UINT64_MAX where it is not known.
    pub age_bound_ns: u64,
}

/// A value in place.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct isorb_crm_lease {
    /// The octets, aligned to 16. They are mapped for reading until the lease is ended. The writer
    /// does not wait: they may change, so what was read counts only if isorb_crm_end_lease returns
    /// ISORB_CRM_OK. Do not act on them before.
    pub data: *const u8,
    /// Octets of it.
    pub len: usize,
    /// The number of the lease, for isorb_crm_end_lease.
    pub lease: u64,
}

/// Values are written.
pub const ISORB_CRM_STATE_OPEN: u32 = 0;
/// The channel was stopped, and may be started again.
pub const ISORB_CRM_STATE_STOPPED: u32 = 1;
/// The writer's process ended, or its node cannot be reached. The last value stays readable.
pub const ISORB_CRM_STATE_WRITER_GONE: u32 = 2;
/// The latest value is older than the reader's deadline allows.
pub const ISORB_CRM_STATE_STALE: u32 = 3;
/// The area was destroyed: no value will come.
pub const ISORB_CRM_STATE_DESTROYED: u32 = 4;
/// The area continues in other memory, which the server is about to hand over.
pub const ISORB_CRM_STATE_MOVED: u32 = 5;

/// The server's counts of one writer or reader.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct isorb_crm_statistics {
    /// One of ISORB_CRM_STATE_….
    pub state: u32,
    /// 0.
    pub reserved: u32,
    /// Values written or, at another node, arrived.
    pub values: u64,
    /// Values that arrived in part or not at all.
    pub lost: u64,
    /// Values that the writer's node did not send, because a later one overtook them.
    pub skipped: u64,
    /// Datagrams that were restored from parity.
    pub recovered: u64,
    /// Datagrams that were ignored: repeated, late, forged, malformed.
    pub ignored: u64,
    /// How often the value was older than the reader's deadline.
    pub stale: u64,
    /// How often the writer's node fell silent.
    pub silent: u64,
    /// The largest age on arrival, with its bound.
    pub worst_age_ns: u64,
    /// How far ages may be wrong; UINT64_MAX where it is not known.
    pub age_bound_ns: u64,
}

/// A type that a caller expects.
pub(crate) enum Expected {
    Octets,
    Typed(DataType),
    Any,
}

impl Expected {
    /// # Safety
    /// The texts of `from` are null, or end with a zero.
    #[allow(unsafe_code)]
    pub unsafe fn new(from: &isorb_crm_type) -> Result<Expected, Failure> {
        let of_kind = "has a kind that is none of ISORB_CRM_OCTETS, ISORB_CRM_TYPED and ISORB_CRM_ANY_TYPE";
        match from.kind {
            ISORB_CRM_TYPED => {
                // SAFETY: the caller's promise.
                let (id, definition) =
                    unsafe { (text(from.id, "type.id")?, text(from.definition, "type.definition")?) };
                if id.is_empty() {
                    return Err(Failure::Argument("type.id", "is empty"));
                }
                Ok(Expected::Typed(DataType::described(id, definition)))
            }
            _ if !(from.id.is_null() && from.definition.is_null()) => Err(Failure::Argument(
                "type",
                "has an id or a definition, and its kind is not ISORB_CRM_TYPED",
            )),
            ISORB_CRM_OCTETS => Ok(Expected::Octets),
            ISORB_CRM_ANY_TYPE => Ok(Expected::Any),
            _ => Err(Failure::Argument("type", of_kind)),
        }
    }

    /// As in the quality of service of a writer or reader.
    pub fn hash(&self) -> u64 {
        match self {
            Expected::Octets => 0,
            Expected::Typed(data) => data.hash,
            Expected::Any => RAW_OCTETS,
        }
    }

    /// Names the difference in an error about the type.
    pub fn refine(&self, error: Error) -> Failure {
        Failure::Memory(match self {
            Expected::Typed(data) => error.naming_difference(data),
            Expected::Octets | Expected::Any => error,
        })
    }

    /// The library converts no values, so a typed area of the other byte order is refused.
    pub fn check_order(&self, name: &str, has: &DataType) -> Result<(), Failure> {
        match self {
            Expected::Typed(data) if data.little_endian != has.little_endian => {
                let reason = "its values have another byte order than this machine's; ask for ISORB_CRM_ANY_TYPE and convert them".into();
                let (name, has) = (name.into(), has.clone());
                Err(Error::WrongType(WrongType { name, has, reason }).into())
            }
            _ => Ok(()),
        }
    }
}

/// # Safety
/// The texts of `from` are null, or end with a zero.
#[allow(unsafe_code)]
pub(crate) unsafe fn area(from: &isorb_crm_area) -> Result<Area, Failure> {
    // SAFETY: the caller's promise.
    let (name, values) = unsafe { (text(from.name, "area.name")?, Expected::new(&from.values)?) };
    let area = Area::new(name, from.size, from.histories);
    match values {
        Expected::Octets => Ok(area),
        Expected::Typed(data) => Ok(area.typed(data)),
        Expected::Any => Err(Failure::Argument(
            "area.values",
            "is ISORB_CRM_ANY_TYPE; an area has one type, or holds octets (ISORB_CRM_OCTETS)",
        )),
    }
}

impl isorb_crm_writer_qos {
    pub(crate) fn of(&self, expected: &Expected) -> Result<WriterQoS, Failure> {
        reserved(self.reserved, "qos.reserved")?;
        Ok(WriterQoS { period: self.period_ns, size: self.size, type_hash: expected.hash() })
    }
}

impl isorb_crm_reader_qos {
    pub(crate) fn of(&self, expected: &Expected) -> Result<ReaderQoS, Failure> {
        reserved(self.reserved, "qos.reserved")?;
        let how = match self.mode {
            ISORB_CRM_PUSH_ON_WRITE => Mode::PushOnWrite,
            ISORB_CRM_PERIODIC_PUSH => Mode::PeriodicPush,
            _ => return Err(Failure::Argument("qos.mode", "is neither 0 (on write) nor 1 (periodic)")),
        };
        let through = match self.path {
            ISORB_CRM_PATH_UDP => Path::PathUdp,
            ISORB_CRM_PATH_ORB => Path::PathOrb,
            ISORB_CRM_PATH_ONEWAY => Path::PathOneway,
            ISORB_CRM_PATH_MULTICAST => Path::PathMulticast,
            _ => return Err(Failure::Argument("qos.path", "is none of the four paths, 0 to 3")),
        };
        if self.guaranteed > 2 {
            return Err(Failure::Argument("qos.guaranteed", "is none of 0, 1 and 2"));
        }
        let parity =
            u8::try_from(self.parity).map_err(|_| Failure::Argument("qos.parity", "is larger than 255"))?;
        Ok(ReaderQoS {
            how,
            period: self.period_ns,
            deadline: self.deadline_ns,
            histories: self.histories,
            guaranteed: self.guaranteed > 0,
            soft: self.guaranteed == 2,
            through,
            parity,
            type_hash: expected.hash(),
        })
    }
}

/// So that later versions may give the member a meaning.
pub(crate) fn reserved(value: u32, argument: &'static str) -> Result<(), Failure> {
    if value == 0 { Ok(()) } else { Err(Failure::Argument(argument, "is not 0")) }
}

impl From<&Sample> for isorb_crm_sample {
    fn from(sample: &Sample) -> isorb_crm_sample {
        isorb_crm_sample {
            len: sample.len,
            number: sample.sequence,
            source: sample.source,
            writer: sample.epoch,
            missed: sample.missed,
            age_ns: sample.age_ns(),
            age_bound_ns: sample.age_bound_ns().unwrap_or(u64::MAX),
        }
    }
}

impl From<Statistics> for isorb_crm_statistics {
    fn from(from: Statistics) -> isorb_crm_statistics {
        let state = match from.now {
            IdlState::StateOpen => State::Open,
            IdlState::StateStopped => State::Stopped,
            IdlState::StateWriterGone => State::WriterGone,
            IdlState::StateStale => State::Stale,
            IdlState::StateDestroyed => State::Destroyed,
            IdlState::StateMoved => State::Moved,
        };
        isorb_crm_statistics {
            state: state as u32,
            reserved: 0,
            values: from.values,
            lost: from.lost,
            skipped: from.skipped,
            recovered: from.recovered,
            ignored: from.ignored,
            stale: from.stale,
            silent: from.silent,
            worst_age_ns: from.worst_age,
            age_bound_ns: from.age_bound,
        }
    }
}

const _: () = {
    // The header's numbers are those of the memory.
    assert!(ISORB_CRM_STATE_OPEN == State::Open as u32);
    assert!(ISORB_CRM_STATE_STOPPED == State::Stopped as u32);
    assert!(ISORB_CRM_STATE_WRITER_GONE == State::WriterGone as u32);
    assert!(ISORB_CRM_STATE_STALE == State::Stale as u32);
    assert!(ISORB_CRM_STATE_DESTROYED == State::Destroyed as u32);
    assert!(ISORB_CRM_STATE_MOVED == State::Moved as u32);
};
