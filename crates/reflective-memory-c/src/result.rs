//! Codes, and the sentence of the last failure of a thread.

use core::ffi::{CStr, c_char};
use core::fmt::{self, Write};
use isorb_reflective_memory::Error;
use isorb_reflective_memory::memory::{ReadError, TooLarge, WaitError};
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// One of the codes `ISORB_CRM_…`. 0 is success.
pub type isorb_crm_result = i32;

/// Success.
pub const ISORB_CRM_OK: isorb_crm_result = 0;
/// An argument is null, misaligned, not UTF-8, or not one of the numbers that it may be.
pub const ISORB_CRM_INVALID_ARGUMENT: isorb_crm_result = 1;
/// The session, writer or reader was closed, or never opened.
pub const ISORB_CRM_CLOSED: isorb_crm_result = 2;
/// Another thread is using the writer or reader.
pub const ISORB_CRM_BUSY: isorb_crm_result = 3;
/// The reader has a lease that has not ended.
pub const ISORB_CRM_LEASED: isorb_crm_result = 4;
/// The reader has no such lease: it ended before, or was of another reader.
pub const ISORB_CRM_NO_LEASE: isorb_crm_result = 5;
/// The program was compiled with the header of another version.
pub const ISORB_CRM_WRONG_VERSION: isorb_crm_result = 6;
/// The server, the coordinator or the area's node does not answer. A later attempt may succeed.
pub const ISORB_CRM_UNAVAILABLE: isorb_crm_result = 7;
/// No node has such an area, or not the node of this session where it must be.
pub const ISORB_CRM_UNKNOWN_AREA: isorb_crm_result = 8;
/// There is an area of this name with another size, other histories or another type.
pub const ISORB_CRM_AREA_EXISTS: isorb_crm_result = 9;
/// The area has a living writer.
pub const ISORB_CRM_WRITER_EXISTS: isorb_crm_result = 10;
/// A size or number exceeds its limit.
pub const ISORB_CRM_WRONG_SIZE: isorb_crm_result = 11;
/// The area has another type; the text names the first difference.
pub const ISORB_CRM_WRONG_TYPE: isorb_crm_result = 12;
/// The timing cannot be guaranteed; the text has the nearest that can.
pub const ISORB_CRM_NOT_ADMITTED: isorb_crm_result = 13;
/// No new value came in time.
pub const ISORB_CRM_TIMED_OUT: isorb_crm_result = 14;
/// The state of the area changed.
pub const ISORB_CRM_CHANGED: isorb_crm_result = 15;
/// Nothing has been written, or nothing that was not read.
pub const ISORB_CRM_NO_VALUE: isorb_crm_result = 16;
/// The value is no longer kept, or the writer overtook the reader.
pub const ISORB_CRM_OVERWRITTEN: isorb_crm_result = 17;
/// The value is larger than the memory for it.
pub const ISORB_CRM_BUFFER_TOO_SMALL: isorb_crm_result = 18;
/// The content of the memory cannot come from a correct writer.
pub const ISORB_CRM_DAMAGED: isorb_crm_result = 19;
/// The process has as many sessions, writers or readers as it may have.
pub const ISORB_CRM_LIMIT: isorb_crm_result = 20;
/// Any other failure, which another attempt would meet again.
pub const ISORB_CRM_FAILED: isorb_crm_result = 21;
/// A fault in this library. The text has the message of the panic.
pub const ISORB_CRM_PANIC: isorb_crm_result = 22;

/// Octets of a sentence, with the zero at its end. A longer one is cut.
const LONGEST_TEXT: usize = 2048;

/// A text of bounded length, so that failures that are part of the work, such as a time-out, do not
/// allocate.
struct Text {
    octets: [u8; LONGEST_TEXT],
    len: usize,
}

thread_local! {
    static LAST: RefCell<Text> = const { RefCell::new(Text { octets: [0; LONGEST_TEXT], len: 0 }) };
}

impl Text {
    fn set(&mut self, text: &dyn fmt::Display) {
        self.len = 0;
        // It fails when the text is full.
        let _ = write!(self, "{text}");
        self.octets[self.len] = 0;
    }
}

impl Write for Text {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        let room = LONGEST_TEXT - 1 - self.len;
        let cut = (0..=room.min(part.len())).rev().find(|at| part.is_char_boundary(*at)).unwrap_or(0);
        // A zero octet would end the text for C.
        for octet in part.bytes().take(cut) {
            self.octets[self.len] = if octet == 0 { b' ' } else { octet };
            self.len += 1;
        }
        if cut == part.len() { Ok(()) } else { Err(fmt::Error) }
    }
}

/// The sentence of the last failure of this thread: what happened, to what, why, and what to do. It
/// is valid until the next failure of this thread. Empty before the first one; success leaves it as
/// it is.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub extern "C" fn isorb_crm_error_text() -> *const c_char {
    // Without the thread's memory, as in a destructor at its end, there is no text.
    LAST.try_with(|last| last.borrow().octets.as_ptr().cast()).unwrap_or(c"".as_ptr())
}

/// Why a function failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A code and its sentence.
    Known(isorb_crm_result, &'static str),
    /// This argument is not what it must be.
    Argument(&'static str, &'static str),
    Memory(Error),
    Read(ReadError),
    Wait(WaitError),
    TooLarge(TooLarge),
}

impl Failure {
    fn code(&self) -> isorb_crm_result {
        match self {
            Failure::Known(code, _) => *code,
            Failure::Argument(..) => ISORB_CRM_INVALID_ARGUMENT,
            Failure::Memory(error) => code_of(error),
            Failure::Read(ReadError::Empty) => ISORB_CRM_NO_VALUE,
            Failure::Read(ReadError::Gone | ReadError::Lapped) => ISORB_CRM_OVERWRITTEN,
            Failure::Read(ReadError::BufferTooSmall { .. }) => ISORB_CRM_BUFFER_TOO_SMALL,
            Failure::Read(ReadError::Damaged) | Failure::Wait(WaitError::Damaged) => ISORB_CRM_DAMAGED,
            Failure::Wait(WaitError::TimedOut) => ISORB_CRM_TIMED_OUT,
            Failure::Wait(WaitError::Changed(_)) => ISORB_CRM_CHANGED,
            Failure::TooLarge(_) => ISORB_CRM_WRONG_SIZE,
        }
    }
}

fn code_of(error: &Error) -> isorb_crm_result {
    match error {
        Error::UnknownArea(_) => ISORB_CRM_UNKNOWN_AREA,
        Error::AreaExists(_) => ISORB_CRM_AREA_EXISTS,
        Error::WriterExists(_) => ISORB_CRM_WRITER_EXISTS,
        Error::WrongSize(_) => ISORB_CRM_WRONG_SIZE,
        Error::WrongType(_) => ISORB_CRM_WRONG_TYPE,
        Error::NotAdmitted(_) => ISORB_CRM_NOT_ADMITTED,
        error if error.is_temporary() => ISORB_CRM_UNAVAILABLE,
        _ => ISORB_CRM_FAILED,
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Known(_, text) => f.write_str(text),
            Failure::Argument(argument, text) => write!(f, "the argument {argument} {text}"),
            Failure::Memory(error) => error.fmt(f),
            Failure::Read(error) => error.fmt(f),
            Failure::Wait(error) => error.fmt(f),
            Failure::TooLarge(error) => error.fmt(f),
        }
    }
}

macro_rules! causes {
    ($($cause:ty => $variant:ident)*) => {$(
        impl From<$cause> for Failure {
            fn from(error: $cause) -> Failure {
                Failure::$variant(error)
            }
        }
    )*};
}

causes! {
    Error => Memory
    ReadError => Read
    WaitError => Wait
    TooLarge => TooLarge
}

/// The body of an exported function: gives its code, keeps its sentence, and lets no panic out.
pub(crate) fn call(body: impl FnOnce() -> Result<(), Failure>) -> isorb_crm_result {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => ISORB_CRM_OK,
        Ok(Err(failure)) => keep(failure.code(), &failure),
        Err(panic) => {
            // The value of a panic may panic itself when it is dropped.
            let panic = std::mem::ManuallyDrop::new(panic);
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic");
            keep(ISORB_CRM_PANIC, &format_args!("a fault in libisorb_crm: {text}"))
        }
    }
}

fn keep(code: isorb_crm_result, text: &dyn fmt::Display) -> isorb_crm_result {
    let _ = LAST.try_with(|last| last.borrow_mut().set(text));
    code
}

/// The name of a code, as in the header: `ISORB_CRM_OK`. Valid for ever; for a number that is none,
/// `ISORB_CRM_?`.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub extern "C" fn isorb_crm_result_name(code: isorb_crm_result) -> *const c_char {
    const NAMES: [&CStr; 23] = [
        c"ISORB_CRM_OK",
        c"ISORB_CRM_INVALID_ARGUMENT",
        c"ISORB_CRM_CLOSED",
        c"ISORB_CRM_BUSY",
        c"ISORB_CRM_LEASED",
        c"ISORB_CRM_NO_LEASE",
        c"ISORB_CRM_WRONG_VERSION",
        c"ISORB_CRM_UNAVAILABLE",
        c"ISORB_CRM_UNKNOWN_AREA",
        c"ISORB_CRM_AREA_EXISTS",
        c"ISORB_CRM_WRITER_EXISTS",
        c"ISORB_CRM_WRONG_SIZE",
        c"ISORB_CRM_WRONG_TYPE",
        c"ISORB_CRM_NOT_ADMITTED",
        c"ISORB_CRM_TIMED_OUT",
        c"ISORB_CRM_CHANGED",
        c"ISORB_CRM_NO_VALUE",
        c"ISORB_CRM_OVERWRITTEN",
        c"ISORB_CRM_BUFFER_TOO_SMALL",
        c"ISORB_CRM_DAMAGED",
        c"ISORB_CRM_LIMIT",
        c"ISORB_CRM_FAILED",
        c"ISORB_CRM_PANIC",
    ];
    let name = usize::try_from(code).ok().and_then(|code| NAMES.get(code));
    name.unwrap_or(&c"ISORB_CRM_?").as_ptr()
}

#[cfg(test)]
#[allow(unsafe_code)]
mod tests {
    use super::*;

    fn text() -> String {
        // SAFETY: the function returns a text of this thread that ends with a zero.
        unsafe { CStr::from_ptr(isorb_crm_error_text()) }.to_str().unwrap().to_owned()
    }

    #[test]
    fn a_failure_leaves_its_sentence_for_its_thread() {
        assert_eq!((call(|| Ok(())), text()), (ISORB_CRM_OK, String::new()));
        let failed = call(|| Err(Failure::Argument("name", "is null")));
        assert_eq!((failed, text()), (ISORB_CRM_INVALID_ARGUMENT, "the argument name is null".into()));
        call(|| Ok(()));
        assert_eq!(text(), "the argument name is null");
        assert_eq!(std::thread::spawn(text).join().unwrap(), "");
        let read = call(|| Err(ReadError::BufferTooSmall { needed: 9 }.into()));
        assert_eq!((read, text()), (ISORB_CRM_BUFFER_TOO_SMALL, "the value needs 9 bytes".into()));
    }

    #[test]
    fn a_panic_becomes_a_code() {
        let failed = call(|| panic!("number {}", 7));
        assert_eq!((failed, text()), (ISORB_CRM_PANIC, "a fault in libisorb_crm: number 7".into()));
        assert_eq!(call(|| std::panic::panic_any(7)), ISORB_CRM_PANIC);
        assert_eq!(text(), "a fault in libisorb_crm: a panic");
    }

    #[test]
    fn a_long_sentence_is_cut_between_characters_and_has_no_zero() {
        keep(ISORB_CRM_FAILED, &format_args!("a\0{}", "é".repeat(2000)));
        assert_eq!(text(), format!("a {}", "é".repeat((LONGEST_TEXT - 3) / 2)));
    }

    #[test]
    fn codes_have_their_names() {
        let source = include_str!("result.rs");
        let codes = source.lines().filter_map(|line| line.strip_prefix("pub const "));
        let mut known = 0;
        for line in codes {
            let (name, number) = line.trim_end_matches(';').split_once(": isorb_crm_result = ").unwrap();
            // SAFETY: the function returns a constant text that ends with a zero.
            let text = unsafe { CStr::from_ptr(isorb_crm_result_name(number.parse().unwrap())) };
            assert_eq!(text.to_str(), Ok(name));
            known += 1;
        }
        assert_eq!(known, 23);
        for unknown in [-1, 23, i32::MAX] {
            // SAFETY: as above.
            let text = unsafe { CStr::from_ptr(isorb_crm_result_name(unknown)) };
            assert_eq!(text, c"ISORB_CRM_?");
        }
    }
}
