//! Sessions, and areas.

use crate::handles::Handles;
use crate::pointers::{optional_output, optional_text, output, structure, text};
use crate::result::{Failure, ISORB_CRM_WRONG_VERSION, call, isorb_crm_result};
use crate::types::{area, isorb_crm_area, isorb_crm_session};
use core::ffi::c_char;
use isorb::{Config, Orb};
use isorb_reflective_memory::node::default_socket;
use isorb_reflective_memory::{Library, wait_for};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The version of the functions and structures of this header. Another number is another interface.
pub const ISORB_CRM_VERSION: u32 = 1;

/// What a session, its writers and its readers share. It ends with the last of them.
pub(crate) struct Session {
    pub library: Library,
    /// Dropped after the library, which calls the server when it ends.
    _orb: SessionOrb,
}

/// The ORB of a session, which only calls: it listens nowhere.
struct SessionOrb(Orb);

impl Drop for SessionOrb {
    fn drop(&mut self) {
        // It serves nothing that could refuse to end.
        let _ = self.0.shutdown(false);
    }
}

static SESSIONS: Handles<Arc<Session>> = Handles::new();

pub(crate) fn session(handle: isorb_crm_session) -> Result<Arc<Session>, Failure> {
    SESSIONS.share(handle.handle, Arc::clone)
}

/// Opens a session with the node's server at a local socket; null for the default one.
/// `version` is ISORB_CRM_VERSION. Waits up to `timeout_ns` for a server; 0: one attempt.
///
/// A thread of ordinary priority keeps the session; no value waits for it. When the server is
/// restarted, the session goes on with the next one. A session does not survive fork: open it in
/// the child.
///
/// # Safety
/// `socket` is null or a text that ends with a zero; `out` is null or there is room for a session.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isorb_crm_open(
    version: u32,
    socket: *const c_char,
    timeout_ns: u64,
    out: *mut isorb_crm_session,
) -> isorb_crm_result {
    call(|| {
        // SAFETY: the caller's promise.
        let (out, socket) = unsafe { (output(out, "out")?, optional_text(socket, "socket")?) };
        out.set(isorb_crm_session { handle: 0 });
        if version != ISORB_CRM_VERSION {
            let text = "the program was compiled with the header of another version of libisorb_crm; compile it with this library's";
            return Err(Failure::Known(ISORB_CRM_WRONG_VERSION, text));
        }
        let orb = Orb::with_config(Config::default()).map_err(isorb_reflective_memory::Error::from)?;
        let orb = SessionOrb(orb);
        let socket = socket.map_or_else(default_socket, PathBuf::from);
        let library = Library::connect_within(&orb.0, socket, Duration::from_nanos(timeout_ns))?;
        let handle = SESSIONS.insert(Arc::new(Session { library, _orb: orb }))?;
        out.set(isorb_crm_session { handle });
        Ok(())
    })
}

/// Closes a session. Its writers and readers go on until they are closed.
#[unsafe(no_mangle)]
pub extern "C" fn isorb_crm_close(session: isorb_crm_session) -> isorb_crm_result {
    call(|| SESSIONS.remove(session.handle, |_| Ok(())).map(drop))
}

/// Makes an area on this node. Waits up to `timeout_ns` while the coordinator does not answer.
///
/// # Safety
/// `area` is null or an area with texts that end with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isorb_crm_create_area(
    session: isorb_crm_session,
    area: *const isorb_crm_area,
    timeout_ns: u64,
) -> isorb_crm_result {
    call(|| {
        let session = self::session(session)?;
        // SAFETY: the caller's promise.
        let area = unsafe { self::area(structure(area, "area")?) }?;
        let create = || session.library.create_area(&area);
        Ok(wait_for(&format!("the area {}", area.name), Duration::from_nanos(timeout_ns), create)?)
    })
}

/// Opens an area of this node, or makes it. `created` may be null.
///
/// # Safety
/// As isorb_crm_create_area; `created` is null or there is room for a bool.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isorb_crm_open_or_create_area(
    session: isorb_crm_session,
    area: *const isorb_crm_area,
    timeout_ns: u64,
    created: *mut bool,
) -> isorb_crm_result {
    call(|| {
        let session = self::session(session)?;
        // SAFETY: the caller's promise.
        let (area, created) =
            unsafe { (self::area(structure(area, "area")?)?, optional_output(created, "created")?) };
        let open = || session.library.open_or_create(&area);
        created.set(wait_for(&format!("the area {}", area.name), Duration::from_nanos(timeout_ns), open)?);
        Ok(())
    })
}

/// Ends an area of this node. Its readers keep the last value, and see ISORB_CRM_STATE_DESTROYED.
///
/// # Safety
/// `name` is null or a text that ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isorb_crm_destroy_area(
    session: isorb_crm_session,
    name: *const c_char,
) -> isorb_crm_result {
    call(|| {
        let session = self::session(session)?;
        // SAFETY: the caller's promise.
        let name = unsafe { text(name, "name") }?;
        Ok(session.library.destroy_area(name)?)
    })
}
