//! Writers.

use crate::handles::Handles;
use crate::pointers::{octets, optional_output, output, structure, structure_or_default, text};
use crate::result::{call, isorb_crm_result};
use crate::session::{Session, session};
use crate::types::{
    Expected, isorb_crm_session, isorb_crm_statistics, isorb_crm_type, isorb_crm_writer, isorb_crm_writer_qos,
};
use core::ffi::{c_char, c_void};
use isorb_reflective_memory::{AreaWriter, wait_for};
use std::sync::Arc;
use std::time::Duration;

struct OpenWriter {
    writer: AreaWriter,
    /// Dropped after the writer, which calls the server when it ends.
    _session: Arc<Session>,
}

static WRITERS: Handles<OpenWriter> = Handles::new();

/// Becomes the writer of an area of this node. `qos` may be null: no promises. Waits up to
/// `timeout_ns` for what is missing and may come, such as the area; 0: one attempt.
///
/// # Safety
/// `name` and the texts of `values` are null or end with a zero; `values` and `qos` are null or
/// structures of their types; `out` is null or there is room for a writer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isorb_crm_map_writer(
    session: isorb_crm_session,
    name: *const c_char,
    values: *const isorb_crm_type,
    qos: *const isorb_crm_writer_qos,
    timeout_ns: u64,
    out: *mut isorb_crm_writer,
) -> isorb_crm_result {
    call(|| {
        // SAFETY: the caller's promise.
        let (out, name, qos, expected) = unsafe {
            let expected = Expected::new(structure(values, "values")?)?;
            (output(out, "out")?, text(name, "name")?, structure_or_default(qos, "qos")?, expected)
        };
        out.set(isorb_crm_writer { handle: 0 });
        let (session, qos) = (self::session(session)?, qos.of(&expected)?);
        let map = || session.library.map_writer(name, qos);
        let writer = wait_for(&format!("the area {name}"), Duration::from_nanos(timeout_ns), map)
            .map_err(|error| expected.refine(error))?;
        expected.check_order(name, writer.data_type())?;
        let handle = WRITERS.insert(OpenWriter { writer, _session: session })?;
        out.set(isorb_crm_writer { handle });
        Ok(())
    })
}

/// Closes a writer. The area and its last value stay.
#[unsafe(no_mangle)]
pub extern "C" fn isorb_crm_close_writer(writer: isorb_crm_writer) -> isorb_crm_result {
    call(|| WRITERS.remove(writer.handle, |_| Ok(())).map(drop))
}

/// Writes a value. Readers of this node can read it when this returns; agents push it to other
/// nodes. `number`, which may be null, gets the value's number.
///
/// Neither allocates nor waits. A copy and a system call; another one where other nodes read.
///
/// # Safety
/// There are `len` octets at `data`; `number` is null or there is room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isorb_crm_write(
    writer: isorb_crm_writer,
    data: *const c_void,
    len: usize,
    number: *mut u64,
) -> isorb_crm_result {
    call(|| {
        // SAFETY: the caller's promise.
        let (data, number) =
            unsafe { (octets(data.cast(), len, "data")?, optional_output(number, "number")?) };
        WRITERS.with(writer.handle, |open| {
            number.set(open.writer.write(data)?);
            Ok(())
        })
    })
}

/// Octets of the largest value that the writer may write.
///
/// # Safety
/// `out` is null or there is room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isorb_crm_writer_size(
    writer: isorb_crm_writer,
    out: *mut usize,
) -> isorb_crm_result {
    call(|| {
        // SAFETY: the caller's promise.
        let out = unsafe { output(out, "out") }?;
        WRITERS.with(writer.handle, |open| {
            out.set(open.writer.size());
            Ok(())
        })
    })
}

/// Whether a server serves the writer: false while there is none, and where a restarted one refused
/// the area. Values then reach the processes that have the area mapped, and no other node.
///
/// # Safety
/// `out` is null or there is room for a bool.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isorb_crm_writer_is_served(
    writer: isorb_crm_writer,
    out: *mut bool,
) -> isorb_crm_result {
    call(|| {
        // SAFETY: the caller's promise.
        let out = unsafe { output(out, "out") }?;
        WRITERS.with(writer.handle, |open| {
            out.set(open.writer.is_served());
            Ok(())
        })
    })
}

/// The server's counts of a writer: a call to the server.
///
/// # Safety
/// `out` is null or there is room for statistics.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isorb_crm_writer_statistics(
    writer: isorb_crm_writer,
    out: *mut isorb_crm_statistics,
) -> isorb_crm_result {
    call(|| {
        // SAFETY: the caller's promise.
        let out = unsafe { output(out, "out") }?;
        WRITERS.with(writer.handle, |open| {
            out.set(open.writer.statistics()?.into());
            Ok(())
        })
    })
}
