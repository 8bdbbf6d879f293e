//! Readers.

use crate::handles::Handles;
use crate::pointers::{Output, octets_mut, optional_output, output, structure, structure_or_default, text};
use crate::result::{
    Failure, ISORB_CRM_LEASED, ISORB_CRM_NO_LEASE, ISORB_CRM_NO_VALUE, ISORB_CRM_OVERWRITTEN, call,
    isorb_crm_result,
};
use crate::session::{Session, session};
use crate::types::{
    Expected, isorb_crm_lease, isorb_crm_reader, isorb_crm_reader_qos, isorb_crm_sample, isorb_crm_session,
    isorb_crm_statistics, isorb_crm_type,
};
use core::ffi::{c_char, c_void};
use isorb_reflective_memory::memory::{Lease, ReadError, Sample, WaitError};
use isorb_reflective_memory::{AreaReader, wait_for};
use std::sync::Arc;
use std::time::Duration;

struct OpenReader {
    reader: AreaReader,
    lease: Option<Lease>,
    /// Leases so far; the number of the present one.
    leases: u64,
    /// Dropped after the reader, which calls the server when it ends.
    _session: Arc<Session>,
}

static READERS: Handles<OpenReader> = Handles::new();

/// Becomes a reader of an area of any node. `qos` may be null, which is all zero. Waits up to
/// `timeout_ns` for what is missing and may come, such as the area or its node; 0: one attempt.
///
/// # Safety
/// `name` and the texts of `values` are null or end with a zero; `values` and `qos` are null or
/// structures of their types; `out` is null or there is room for a reader.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isorb_crm_attach_reader(
    session: isorb_crm_session,
    name: *const c_char,
    values: *const isorb_crm_type,
    qos: *const isorb_crm_reader_qos,
    timeout_ns: u64,
    out: *mut isorb_crm_reader,
) -> isorb_crm_result {
    call(|| {
        // SAFETY: the caller's promise.
        let (out, name, qos, expected) = unsafe {
            let expected = Expected::new(structure(values, "values")?)?;
            (output(out, "out")?, text(name, "name")?, structure_or_default(qos, "qos")?, expected)
        };
        out.set(isorb_crm_reader { handle: 0 });
        let (session, qos) = (self::session(session)?, qos.of(&expected)?);
        let attach = || session.library.attach_reader(name, qos);
        let reader = wait_for(&format!("the area {name}"), Duration::from_nanos(timeout_ns), attach)
            .map_err(|error| expected.refine(error))?;
        expected.check_order(name, reader.data_type())?;
        let handle = READERS.insert(OpenReader { reader, lease: None, leases: 0, _session: session })?;
        out.set(isorb_crm_reader { handle });
        Ok(())
    })
}

/// Closes a reader. It must have no lease.
#[unsafe(no_mangle)]
pub extern "C" fn isorb_crm_close_reader(reader: isorb_crm_reader) -> isorb_crm_result {
    call(|| READERS.remove(reader.handle, OpenReader::has_no_lease).map(drop))
}

/// Octets of the largest value.
///
/// # Safety
/// `out` is null or there is room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isorb_crm_reader_size(
    reader: isorb_crm_reader,
    out: *mut usize,
) -> isorb_crm_result {
    // SAFETY: the caller's promise.
    unsafe { with_output(reader, out, |open| Ok(open.reader.size())) }
}

/// Whether there is a value that this reader has not read. Two loads.
///
/// # Safety
/// `out` is null or there is room for a bool.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isorb_crm_has_new(reader: isorb_crm_reader, out: *mut bool) -> isorb_crm_result {
    // SAFETY: the caller's promise.
    unsafe { with_output(reader, out, |open| Ok(open.reader.has_new())) }
}

/// The state of the area, one of ISORB_CRM_STATE_….
///
/// # Safety
/// `out` is null or there is room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isorb_crm_reader_state(reader: isorb_crm_reader, out: *mut u32) -> isorb_crm_result {
    let state = |open: &mut OpenReader| {
        open.reader.state().map(|state| state as u32).ok_or(Failure::Wait(WaitError::Damaged))
    };
    // SAFETY: the caller's promise.
    unsafe { with_output(reader, out, state) }
}

/// The server's counts of a reader: a call to the server.
///
/// # Safety
/// `out` is null or there is room for statistics.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isorb_crm_reader_statistics(
    reader: isorb_crm_reader,
    out: *mut isorb_crm_statistics,
) -> isorb_crm_result {
    // SAFETY: the caller's promise.
    unsafe { with_output(reader, out, |open| Ok(open.reader.statistics()?.into())) }
}

/// Starts or stops the channel from another node: a call to the server.
#[unsafe(no_mangle)]
pub extern "C" fn isorb_crm_set_running(reader: isorb_crm_reader, running: bool) -> isorb_crm_result {
    call(|| READERS.with(reader.handle, |open| Ok(open.reader.set_running(running)?)))
}

/// Waits up to `timeout_ns` for a value that this reader has not read. ISORB_CRM_OK: there is one.
/// ISORB_CRM_TIMED_OUT: there is none. ISORB_CRM_CHANGED: the state of the area changed, which is
/// reported once, and always when no value will come; `state`, which may be null, gets it.
///
/// Does not allocate; sleeps on the memory itself. Meanwhile other threads get ISORB_CRM_BUSY.
///
/// # Safety
/// `state` is null or there is room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isorb_crm_wait(
    reader: isorb_crm_reader,
    timeout_ns: u64,
    state: *mut u32,
) -> isorb_crm_result {
    call(|| {
        // SAFETY: the caller's promise.
        let state = unsafe { optional_output(state, "state") }?;
        READERS.with(reader.handle, |open| {
            let waited = open.reader.wait(Duration::from_nanos(timeout_ns));
            if let Err(WaitError::Changed(now)) = &waited {
                state.set(*now as u32);
            }
            Ok(waited?)
        })
    })
}

/// Copies the latest value, new or not, into `data`, which has room for `capacity` octets. `about`,
/// which may be null, gets what is known about it; its `len` is set also when the room is too
/// small.
///
/// Neither allocates nor waits.
///
/// # Safety
/// There is room for `capacity` octets at `data`; `about` is null or there is room for a sample.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isorb_crm_latest(
    reader: isorb_crm_reader,
    data: *mut c_void,
    capacity: usize,
    about: *mut isorb_crm_sample,
) -> isorb_crm_result {
    let read = |reader: &mut AreaReader, out: &mut [u8]| reader.latest(out).map(Some);
    // SAFETY: the caller's promise.
    unsafe { copy(reader, data, capacity, about, read) }
}

/// As isorb_crm_latest, of the oldest value that is still kept and was not read.
/// ISORB_CRM_NO_VALUE: all are read.
///
/// # Safety
/// As isorb_crm_latest.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isorb_crm_next(
    reader: isorb_crm_reader,
    data: *mut c_void,
    capacity: usize,
    about: *mut isorb_crm_sample,
) -> isorb_crm_result {
    let read = |reader: &mut AreaReader, out: &mut [u8]| reader.next(out);
    // SAFETY: the caller's promise.
    unsafe { copy(reader, data, capacity, about, read) }
}

/// As isorb_crm_latest, of the value that came `back` values before the latest. It does not count
/// as read.
///
/// # Safety
/// As isorb_crm_latest.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isorb_crm_history(
    reader: isorb_crm_reader,
    back: u32,
    data: *mut c_void,
    capacity: usize,
    about: *mut isorb_crm_sample,
) -> isorb_crm_result {
    let read = |reader: &mut AreaReader, out: &mut [u8]| reader.history(back as usize, out).map(Some);
    // SAFETY: the caller's promise.
    unsafe { copy(reader, data, capacity, about, read) }
}

/// Reads the latest value in place, new or not, without a copy. A reader has one lease at a time;
/// end it with isorb_crm_end_lease. `about` may be null.
///
/// Neither allocates nor waits.
///
/// # Safety
/// `out` is null or there is room for a lease; `about` is null or there is room for a sample.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isorb_crm_begin_lease(
    reader: isorb_crm_reader,
    out: *mut isorb_crm_lease,
    about: *mut isorb_crm_sample,
) -> isorb_crm_result {
    call(|| {
        // SAFETY: the caller's promise.
        let (out, about) = unsafe { (output(out, "out")?, optional_output(about, "about")?) };
        out.set(isorb_crm_lease { data: core::ptr::null(), len: 0, lease: 0 });
        READERS.with(reader.handle, |open| {
            open.has_no_lease()?;
            let lease = open.reader.lease()?;
            open.leases += 1;
            out.set(isorb_crm_lease { data: lease.as_ptr(), len: lease.sample().len, lease: open.leases });
            about.set_with(|| lease.sample().into());
            open.lease = Some(lease);
            Ok(())
        })
    })
}

/// Ends a lease. ISORB_CRM_OK: all that was read through it belongs to the value.
/// ISORB_CRM_OVERWRITTEN: the writer came round meanwhile; discard what was read. In both cases its
/// memory may be gone from now on. ISORB_CRM_NO_LEASE: the reader has no lease of this number.
#[unsafe(no_mangle)]
pub extern "C" fn isorb_crm_end_lease(reader: isorb_crm_reader, lease: u64) -> isorb_crm_result {
    call(|| {
        READERS.with(reader.handle, |open| {
            let number = open.leases;
            let held = open.lease.take_if(|_| number == lease).ok_or(Failure::Known(
                ISORB_CRM_NO_LEASE,
                "the reader has no lease of this number; it has ended, or was of another reader",
            ))?;
            match held.is_intact() {
                true => Ok(()),
                false => Err(Failure::Known(
                    ISORB_CRM_OVERWRITTEN,
                    "the writer overwrote the value during the lease; discard what was read, or keep more histories",
                )),
            }
        })
    })
}

impl OpenReader {
    fn has_no_lease(&self) -> Result<(), Failure> {
        let text = "the reader has a lease; end it first with isorb_crm_end_lease";
        if self.lease.is_some() { Err(Failure::Known(ISORB_CRM_LEASED, text)) } else { Ok(()) }
    }
}

/// # Safety
/// `out` is null or there is room for the value.
unsafe fn with_output<T>(
    reader: isorb_crm_reader,
    out: *mut T,
    value: impl FnOnce(&mut OpenReader) -> Result<T, Failure>,
) -> isorb_crm_result {
    call(|| {
        // SAFETY: the caller's promise.
        let out = unsafe { output(out, "out") }?;
        out.set(READERS.with(reader.handle, value)?);
        Ok(())
    })
}

/// # Safety
/// As [`isorb_crm_latest`].
unsafe fn copy(
    reader: isorb_crm_reader,
    data: *mut c_void,
    capacity: usize,
    about: *mut isorb_crm_sample,
    read: impl FnOnce(&mut AreaReader, &mut [u8]) -> Result<Option<Sample>, ReadError>,
) -> isorb_crm_result {
    call(|| {
        // SAFETY: the caller's promise.
        let (data, about): (_, Output<isorb_crm_sample>) =
            unsafe { (octets_mut(data.cast(), capacity, "data")?, optional_output(about, "about")?) };
        READERS.with(reader.handle, |open| match read(&mut open.reader, data) {
            Ok(Some(sample)) => {
                // The age is a reading of the clock.
                about.set_with(|| (&sample).into());
                Ok(())
            }
            Ok(None) => Err(Failure::Known(ISORB_CRM_NO_VALUE, "every value was read")),
            Err(error) => {
                if let ReadError::BufferTooSmall { needed } = error {
                    about.set(isorb_crm_sample { len: needed, ..isorb_crm_sample::default() });
                }
                Err(error.into())
            }
        })
    })
}
