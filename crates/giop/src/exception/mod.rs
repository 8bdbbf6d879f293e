//! System exceptions: kind, minor code, completion status, and a sentence for people.

mod kind;
pub mod minor;

pub use kind::Kind;

use alloc::boxed::Box;
use alloc::string::{String, ToString};

use core::fmt;
use isorb_cdr::{Decoder, Encoder, ErrorKind};
use isorb_scope::{Full, Scope};

/// Whether the operation was executed before the exception was raised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Completion {
    /// It was executed.
    Yes = 0,
    /// It was not executed: a repeated call does not execute it twice.
    No = 1,
    /// Unknown.
    Maybe = 2,
}

impl Completion {
    /// The name in the standard.
    pub const fn name(self) -> &'static str {
        match self {
            Completion::Yes => "COMPLETED_YES",
            Completion::No => "COMPLETED_NO",
            Completion::Maybe => "COMPLETED_MAYBE",
        }
    }
}

/// A system exception. Two are equal when kind, minor code and completion status are equal; the
/// sentence does not count.
///
/// `Debug` and `Display` print the same text, so that a `main` that returns one prints a sentence.
///
/// # Real-time
/// Making one allocates nothing unless a sentence is added.
#[derive(Clone)]
pub struct SystemException {
    /// The standard exception.
    pub kind: Kind,
    /// The reason; see [`minor`].
    pub minor: u32,
    /// Whether the operation was executed.
    pub completed: Completion,
    /// A sentence for people: the peer, the operation, the time. It travels in service context 14,
    /// if at all.
    pub detail: Option<Box<str>>,
}

impl SystemException {
    /// An exception without a sentence.
    pub const fn new(kind: Kind, minor: u32, completed: Completion) -> SystemException {
        SystemException { kind, minor, completed, detail: None }
    }

    /// Sets the minor code.
    #[must_use]
    pub fn minor(mut self, minor: u32) -> SystemException {
        self.minor = minor;
        self
    }

    /// Sets the completion status.
    #[must_use]
    pub fn completed(mut self, completed: Completion) -> SystemException {
        self.completed = completed;
        self
    }

    /// Adds a sentence.
    ///
    /// # Real-time
    /// The sentence is on the heap.
    #[must_use]
    pub fn detail(mut self, detail: impl Into<String>) -> SystemException {
        self.detail = Some(detail.into().into_boxed_str());
        self
    }

    /// Repository id of its kind.
    pub const fn repository_id(&self) -> &'static str {
        self.kind.repository_id()
    }

    /// Writes the body of a reply with status SYSTEM_EXCEPTION (clause 9.4.3.2): id, minor code,
    /// completion.
    pub fn encode(&self, e: &mut Encoder<'_>) {
        e.string(self.repository_id());
        e.put(self.minor);
        e.put(self.completed as u32);
    }

    /// Adds how much did not fit `scope`, if it is the exception of a full scope without a detail.
    #[must_use]
    pub fn in_scope(self, scope: &Scope<'_>) -> SystemException {
        match scope.refused() {
            Some(full) if self.is_full_scope() && self.detail.is_none() => self.detail(full.to_string()),
            _ => self,
        }
    }

    /// Whether a scope had no room for a value.
    pub fn is_full_scope(&self) -> bool {
        (self.kind, self.minor) == (Kind::NoMemory, minor::NO_MEMORY_SCOPE)
    }

    /// Whether the call failed because this process, its host or the server has no more of
    /// something: memory, descriptors, ports, places. It says nothing against the target, which may
    /// be there and well.
    ///
    /// # Real-time
    /// Two comparisons.
    pub fn is_shortage(&self) -> bool {
        matches!(self.kind, Kind::NoMemory | Kind::NoResources | Kind::ImpLimit)
            || (self.kind, self.minor) == (Kind::Transient, minor::TRANSIENT_SHORTAGE)
    }

    /// Reads such a body. An exception outside the standard becomes UNKNOWN with the OMG's minor
    /// code 2; the sentence is its id.
    ///
    /// # Errors
    /// The errors of reading its parts; [`ErrorKind::Value`] for an unknown completion status.
    ///
    /// # Real-time
    /// Allocates for an exception outside the standard.
    pub fn decode(d: &mut Decoder<'_>) -> isorb_cdr::Result<SystemException> {
        let id = d.string()?;
        let minor = d.get::<u32>()?;
        let completed = match d.get::<u32>()? {
            0 => Completion::Yes,
            1 => Completion::No,
            2 => Completion::Maybe,
            _ => return Err(d.error(ErrorKind::Value)),
        };
        Ok(match Kind::from_repository_id(id) {
            Some(kind) => SystemException::new(kind, minor, completed),
            None => {
                SystemException::new(Kind::Unknown, minor::UNKNOWN_SYSTEM_EXCEPTION, completed).detail(id)
            }
        })
    }
}

impl PartialEq for SystemException {
    fn eq(&self, other: &SystemException) -> bool {
        (self.kind, self.minor, self.completed) == (other.kind, other.minor, other.completed)
    }
}

impl Eq for SystemException {}

impl fmt::Display for SystemException {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind)?;
        if self.minor != 0 {
            match minor::assigner(self.minor) {
                Some(assigner) => write!(f, ", minor {assigner} {}", self.minor & !minor::VMCID_MASK)?,
                None => write!(f, ", minor {:#x}", self.minor)?,
            }
            if let Some(sentence) = minor::sentence(self.kind, self.minor) {
                write!(f, " ({sentence})")?;
            }
        }
        write!(f, ", {}", self.completed.name())?;
        match &self.detail {
            Some(detail) => write!(f, ": {detail}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for SystemException {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl core::error::Error for SystemException {}

impl From<Kind> for SystemException {
    /// Minor code 0, not executed.
    fn from(kind: Kind) -> SystemException {
        SystemException::new(kind, 0, Completion::No)
    }
}

impl From<Full> for SystemException {
    fn from(full: Full) -> SystemException {
        SystemException::new(Kind::NoMemory, minor::NO_MEMORY_SCOPE, Completion::No).detail(full.to_string())
    }
}

impl From<isorb_cdr::Error> for SystemException {
    /// One table for all decoding errors: the kind tells the party at fault, the minor code the
    /// error.
    fn from(error: isorb_cdr::Error) -> SystemException {
        let (kind, minor) = match error.kind {
            ErrorKind::Text => (Kind::DataConversion, minor::DATA_CONVERSION_CHARACTER),
            ErrorKind::Full => (Kind::NoMemory, minor::NO_MEMORY_SCOPE),
            ErrorKind::TooLarge => (Kind::ImpLimit, minor::IMP_LIMIT_MESSAGE),
            ErrorKind::NoWideCodeSet => (Kind::Marshal, minor::MARSHAL_WCHAR_CLIENT),
            ErrorKind::NotRemotable => (Kind::Marshal, minor::MARSHAL_LOCAL_OBJECT),
            ErrorKind::Truncated => (Kind::Marshal, minor::MARSHAL_TRUNCATED),
            ErrorKind::Length => (Kind::Marshal, minor::MARSHAL_LENGTH),
            ErrorKind::Terminator => (Kind::Marshal, minor::MARSHAL_TERMINATOR),
            ErrorKind::Value => (Kind::Marshal, minor::MARSHAL_VALUE),
            ErrorKind::Bound => (Kind::Marshal, minor::MARSHAL_BOUND),
            ErrorKind::Depth => (Kind::Marshal, minor::MARSHAL_DEPTH),
            ErrorKind::TypeCode => (Kind::Marshal, minor::MARSHAL_TYPECODE),
            ErrorKind::ValueType => (Kind::Marshal, minor::MARSHAL_NO_FACTORY),
            ErrorKind::ValueDepth => (Kind::ImpLimit, minor::IMP_LIMIT_VALUE_DEPTH),
            ErrorKind::ValueCount => (Kind::ImpLimit, minor::IMP_LIMIT_VALUE_COUNT),
            _ => (Kind::Marshal, minor::MARSHAL_OTHER),
        };
        SystemException::new(kind, minor, Completion::No)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::string::ToString;
    use alloc::vec::Vec;
    use isorb_cdr::{Error, Order, Text};
    use isorb_scope::Region;

    #[test]
    fn ids_go_both_ways() {
        for kind in Kind::ALL {
            assert_eq!(Kind::from_repository_id(kind.repository_id()), Some(*kind));
        }
        assert_eq!(Kind::ALL.len(), 40);
        assert_eq!(Kind::from_repository_id("IDL:omg.org/CORBA/NOPE:1.0"), None);
        assert_eq!(Kind::from_repository_id("IDL:omg.org/CORBA/UNKNOWN:1.1"), None);
    }

    #[test]
    fn says_what_happened() {
        let e = SystemException::from(Kind::Timeout)
            .minor(minor::TIMEOUT_CALL)
            .completed(Completion::Maybe)
            .detail("probe.sample at lab:2809 took more than 50 ms");
        assert_eq!(
            e.to_string(),
            "TIMEOUT, minor isorb 1 (the call's time ran out before the reply came), COMPLETED_MAYBE: \
             probe.sample at lab:2809 took more than 50 ms"
        );
        assert_eq!(format!("{e:?}"), e.to_string());
        assert_eq!(
            SystemException::new(Kind::Internal, 7, Completion::Yes).to_string(),
            "INTERNAL, minor 0x7, COMPLETED_YES"
        );
        assert_eq!(SystemException::from(Kind::NoMemory).to_string(), "NO_MEMORY, COMPLETED_NO");
    }

    /// Clause 9.4.3.2: string exception_id, ulong minor_code_value, ulong completion_status.
    #[test]
    fn body_on_the_wire() {
        let e = SystemException::new(Kind::Marshal, minor::MARSHAL_NO_FACTORY, Completion::Maybe);
        // 29 characters and the terminator are 30 octets; two of padding before the minor code.
        let mut big = Vec::from(*b"\0\0\0\x1eIDL:omg.org/CORBA/MARSHAL:1.0\0\0\0OM\0\x01\0\0\0\x02");
        let mut region = Region::new(256);
        let scope = region.enter();
        let mut d = Decoder::new(&mut big, Order::Big, Text::DEFAULT, &scope);
        assert_eq!(SystemException::decode(&mut d), Ok(e.clone()));
        assert_eq!(d.remaining(), 0);

        let mut out = Encoder::new(Vec::new(), Text::DEFAULT);
        e.encode(&mut out);
        let mut bytes = out.flatten().unwrap();
        let mut d = Decoder::new(&mut bytes, Order::NATIVE, Text::DEFAULT, &scope);
        assert_eq!(SystemException::decode(&mut d), Ok(e));
    }

    #[test]
    fn foreign_exceptions_are_unknown() {
        let mut out = Encoder::new(Vec::new(), Text::DEFAULT);
        out.string("IDL:acme/WORSE:1.0");
        out.put(3u32);
        out.put(0u32);
        let mut bytes = out.flatten().unwrap();
        let mut region = Region::new(256);
        let scope = region.enter();
        let e = SystemException::decode(&mut Decoder::new(&mut bytes, Order::NATIVE, Text::DEFAULT, &scope))
            .unwrap();
        assert_eq!(e, SystemException::new(Kind::Unknown, minor::UNKNOWN_SYSTEM_EXCEPTION, Completion::Yes));
        assert_eq!(e.detail.as_deref(), Some("IDL:acme/WORSE:1.0"));
    }

    #[test]
    fn every_cdr_error_has_words() {
        for kind in [
            ErrorKind::Truncated,
            ErrorKind::Length,
            ErrorKind::Terminator,
            ErrorKind::Value,
            ErrorKind::Bound,
            ErrorKind::Depth,
            ErrorKind::Text,
            ErrorKind::NoWideCodeSet,
            ErrorKind::Full,
            ErrorKind::TooLarge,
            ErrorKind::NotRemotable,
            ErrorKind::TypeCode,
            ErrorKind::ValueType,
            ErrorKind::ValueDepth,
            ErrorKind::ValueCount,
        ] {
            let e = SystemException::from(Error::new(kind, 0));
            assert!(minor::sentence(e.kind, e.minor).is_some(), "{e}");
        }
    }
}
