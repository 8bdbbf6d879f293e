//! Readers of several areas: of all that match a pattern, and of the strongest living writer.

use crate::handles::Handles;
use crate::pointers::{
    Output, octets_mut, optional_output, output, structure, structure_or_default, structures, text,
};
use crate::result::{
    Failure, ISORB_CRM_BUFFER_TOO_SMALL, ISORB_CRM_CHANGED, ISORB_CRM_NO_VALUE, call, isorb_crm_result,
};
use crate::session::{Session, session};
use crate::types::{
    Expected, isorb_crm_area_set, isorb_crm_candidate, isorb_crm_reader_qos, isorb_crm_sample,
    isorb_crm_session, isorb_crm_strongest, isorb_crm_type, reserved,
};
use core::ffi::{c_char, c_void};
use isorb_reflective_memory::memory::{ReadError, WaitError};
use isorb_reflective_memory::{AreaReader, AreaSet, Shown, StrongestReader};
use std::sync::Arc;
use std::time::Duration;

struct OpenSet {
    set: AreaSet,
    expected: Expected,
    /// Dropped after the readers, which call the server when they end.
    _session: Arc<Session>,
}

struct OpenStrongest {
    reader: StrongestReader,
    expected: Expected,
    /// As in a set.
    _session: Arc<Session>,
}

static SETS: Handles<OpenSet> = Handles::new();
static STRONGEST: Handles<OpenStrongest> = Handles::new();

/// Becomes a reader of all areas, of any node, with names that match a pattern: `*` stands for any
/// characters, `?` for one. Areas that are made later join, and destroyed ones leave; there may be
/// none yet. At most 1,000 areas are read. Those of another type are not; isorb_crm_set_count tells
/// how many. `qos` may be null, which is all zero.
///
/// # Safety
/// `pattern` and the texts of `values` are null or end with a zero; `values` and `qos` are null or
/// structures of their types; `out` is null or there is room for a set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isorb_crm_attach_matching(
    session: isorb_crm_session,
    pattern: *const c_char,
    values: *const isorb_crm_type,
    qos: *const isorb_crm_reader_qos,
    out: *mut isorb_crm_area_set,
) -> isorb_crm_result {
    call(|| {
        // SAFETY: the caller's promise.
        let (out, pattern, qos, expected) = unsafe {
            let expected = Expected::new(structure(values, "values")?)?;
            (output(out, "out")?, text(pattern, "pattern")?, structure_or_default(qos, "qos")?, expected)
        };
        out.set(isorb_crm_area_set { handle: 0 });
        let (session, qos) = (self::session(session)?, qos.of(&expected)?);
        let set = session.library.attach_matching(pattern, qos).map_err(|error| expected.refine(error))?;
        out.set(isorb_crm_area_set { handle: SETS.insert(OpenSet { set, expected, _session: session })? });
        Ok(())
    })
}

/// Closes a set.
#[unsafe(no_mangle)]
pub extern "C" fn isorb_crm_close_set(set: isorb_crm_area_set) -> isorb_crm_result {
    call(|| SETS.remove(set.handle, |_| Ok(())).map(drop))
}

/// How many areas the set reads, and how many match and refused it. Each may be null.
///
/// # Safety
/// `attached` and `refused` are null or there is room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isorb_crm_set_count(
    set: isorb_crm_area_set,
    attached: *mut usize,
    refused: *mut usize,
) -> isorb_crm_result {
    call(|| {
        // SAFETY: the caller's promise.
        let (attached, refused) =
            unsafe { (optional_output(attached, "attached")?, optional_output(refused, "refused")?) };
        SETS.with(set.handle, |open| {
            attached.set(open.set.readers().count());
            refused.set(open.set.refused().count());
            Ok(())
        })
    })
}

/// Waits up to `timeout_ns` for an area with a value that was not read, each area in turn, and
/// copies its latest value into `data`, which has room for `capacity` octets, and its name, with a
/// zero at its end, into `name`, which has room for `name_capacity` octets. `about`, which may be
/// null, gets what is known about the value. ISORB_CRM_TIMED_OUT: there was none.
/// ISORB_CRM_BUFFER_TOO_SMALL: the room for one of the two is too small, and the value counts as
/// not read; `len` of `about` is set. `name` may be null with `name_capacity` 0.
///
/// Not for real-time threads: looks for new areas once a second, by a call to the server. Meanwhile
/// other threads get ISORB_CRM_BUSY.
///
/// # Safety
/// There is room for `capacity` octets at `data`, and for `name_capacity` at `name`; `about` is
/// null or there is room for a sample.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isorb_crm_set_next(
    set: isorb_crm_area_set,
    timeout_ns: u64,
    data: *mut c_void,
    capacity: usize,
    about: *mut isorb_crm_sample,
    name: *mut c_char,
    name_capacity: usize,
) -> isorb_crm_result {
    call(|| {
        // SAFETY: the caller's promise.
        let room = unsafe { Room::new(data, capacity, about, name, name_capacity)? };
        SETS.with(set.handle, |OpenSet { set, expected, .. }| {
            let reader =
                set.wait(Duration::from_nanos(timeout_ns)).ok_or(Failure::Wait(WaitError::TimedOut))?;
            room.copy(reader, expected)
        })
    })
}

/// Becomes a reader of several areas of one type, `count` of them at `areas`, with one living
/// writer each: it shows the area of the greatest strength with a living writer. With a deadline, a
/// writer with a stale value does not count as living. Areas that are missing join when they are
/// there. `qos` may be null, which is all zero.
///
/// # Safety
/// There are `count` candidates at `areas` with names that end with a zero; the texts of `values`
/// are null or end with a zero; `values` and `qos` are null or structures of their types; `out` is
/// null or there is room for a reader.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isorb_crm_attach_strongest(
    session: isorb_crm_session,
    areas: *const isorb_crm_candidate,
    count: usize,
    values: *const isorb_crm_type,
    qos: *const isorb_crm_reader_qos,
    out: *mut isorb_crm_strongest,
) -> isorb_crm_result {
    call(|| {
        // SAFETY: the caller's promise.
        let (out, areas, qos, expected) = unsafe {
            let expected = Expected::new(structure(values, "values")?)?;
            let areas = structures(areas, count, "areas")?;
            (output(out, "out")?, areas, structure_or_default(qos, "qos")?, expected)
        };
        out.set(isorb_crm_strongest { handle: 0 });
        if areas.is_empty() {
            return Err(Failure::Argument("count", "is 0; a reader needs an area"));
        }
        let candidate = |area: &isorb_crm_candidate| {
            reserved(area.reserved, "areas.reserved")?;
            // SAFETY: the caller's promise.
            Ok((unsafe { text(area.name, "areas.name") }?, area.strength))
        };
        let areas = areas.iter().map(candidate).collect::<Result<Vec<_>, Failure>>()?;
        let (session, qos) = (self::session(session)?, qos.of(&expected)?);
        let reader = session.library.strongest_reader(&areas, qos).map_err(|error| expected.refine(error))?;
        let handle = STRONGEST.insert(OpenStrongest { reader, expected, _session: session })?;
        out.set(isorb_crm_strongest { handle });
        Ok(())
    })
}

/// Closes a reader of the strongest writer.
#[unsafe(no_mangle)]
pub extern "C" fn isorb_crm_close_strongest(reader: isorb_crm_strongest) -> isorb_crm_result {
    call(|| STRONGEST.remove(reader.handle, |_| Ok(())).map(drop))
}

/// Waits up to `timeout_ns`. ISORB_CRM_OK: the area that is shown has a value that was not read.
/// ISORB_CRM_CHANGED: another area is shown than before, or none where no writer lives.
/// ISORB_CRM_TIMED_OUT: neither. Each ends the wait at once.
///
/// Not for real-time threads where an area is missing: it calls the server once a second then.
/// Meanwhile other threads get ISORB_CRM_BUSY.
#[unsafe(no_mangle)]
pub extern "C" fn isorb_crm_strongest_wait(reader: isorb_crm_strongest, timeout_ns: u64) -> isorb_crm_result {
    call(|| {
        STRONGEST.with(reader.handle, |open| match open.reader.wait(Duration::from_nanos(timeout_ns))? {
            Shown::Value => Ok(()),
            Shown::Changed => Err(Failure::Known(ISORB_CRM_CHANGED, "another area is shown than before")),
        })
    })
}

/// Copies the latest value of the area that is shown, and the area's name. ISORB_CRM_NO_VALUE: no
/// writer lives, or it has written nothing. Arguments and results as those of isorb_crm_set_next.
///
/// # Safety
/// As isorb_crm_set_next.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isorb_crm_strongest_latest(
    reader: isorb_crm_strongest,
    data: *mut c_void,
    capacity: usize,
    about: *mut isorb_crm_sample,
    name: *mut c_char,
    name_capacity: usize,
) -> isorb_crm_result {
    call(|| {
        // SAFETY: the caller's promise.
        let room = unsafe { Room::new(data, capacity, about, name, name_capacity)? };
        STRONGEST.with(reader.handle, |OpenStrongest { reader, expected, .. }| {
            let none = Failure::Known(ISORB_CRM_NO_VALUE, "no writer of these areas lives");
            let reader = reader.current().ok_or(none)?;
            room.copy(reader, expected)
        })
    })
}

/// Where the caller wants a value, what is known about it, and the name of its area.
struct Room<'c> {
    data: &'c mut [u8],
    about: Output<isorb_crm_sample>,
    name: &'c mut [u8],
}

impl Room<'_> {
    /// # Safety
    /// As [`isorb_crm_set_next`].
    unsafe fn new(
        data: *mut c_void,
        capacity: usize,
        about: *mut isorb_crm_sample,
        name: *mut c_char,
        name_capacity: usize,
    ) -> Result<Self, Failure> {
        // SAFETY: the caller's promise.
        unsafe {
            Ok(Room {
                data: octets_mut(data.cast(), capacity, "data")?,
                about: optional_output(about, "about")?,
                name: octets_mut(name.cast(), name_capacity, "name")?,
            })
        }
    }

    /// Copies the latest value and the name of its area.
    fn copy(self, reader: &mut AreaReader, expected: &Expected) -> Result<(), Failure> {
        let Room { data, about, name } = self;
        if let Some(room) = name.len().checked_sub(1) {
            let octets = reader.name().as_bytes();
            if octets.len() > room {
                about.set(isorb_crm_sample::default());
                let reason =
                    "the name of the area has more octets than name_capacity, with the zero at its end";
                return Err(Failure::Known(ISORB_CRM_BUFFER_TOO_SMALL, reason));
            }
            name[..octets.len()].copy_from_slice(octets);
            name[octets.len()] = 0;
        }
        let read = reader.latest(data).inspect_err(|error| {
            let len = if let ReadError::BufferTooSmall { needed } = error { *needed } else { 0 };
            about.set(isorb_crm_sample { len, ..isorb_crm_sample::default() });
        })?;
        // After the value was read, so that the others of a set go on.
        expected.check_order(reader.name(), reader.data_type()).inspect_err(|_| {
            about.set(isorb_crm_sample::default());
        })?;
        about.set_with(|| (&read).into());
        Ok(())
    }
}
