//! Conditions on the payload of events, compiled from the payload's IDL type.
//!
//! ```text
//!  "position.altitude > 300 && id == 7"        TypeCode of the payload
//!        │ lexer, syntax                              │ layout
//!        ▼                                            ▼
//!       Expr ───────────────── compile ─────────► Program: a flat list of instructions
//!                                                     │ evaluation: forward only
//!                     octets of an event ─────────────┴─► true, false, or unreadable
//! ```
//!
//! A program reads the octets in place, in either byte order. It goes forward only, so its length
//! bounds its time, except where it passes values of varying size: those are bounded by
//! [`ContentLimits::steps`].

mod compile;
mod emitter;
mod error;
mod layout;
mod lexer;
mod parser;
mod paths;
mod payload;
mod program;
mod syntax;
#[cfg(all(test, not(loom)))]
mod tests;

pub use error::ContentError;
pub use payload::PayloadError;

use isorb_any::{AnyValue, TypeCode};
use program::Program;
use std::fmt;
use std::sync::Arc;

/// What a content filter may cost. See [`ContentFilter::within`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ContentLimits {
    /// The longest expression, in octets.
    pub octets: usize,
    /// The deepest nesting of an expression, parentheses included.
    pub depth: usize,
    /// The most instructions of its program. An event takes each once at most.
    pub instructions: usize,
    /// The most members and elements of varying size that the program passes for one event, on its
    /// way to those that it reads. An event that takes more is not delivered.
    pub steps: u32,
}

impl Default for ContentLimits {
    fn default() -> ContentLimits {
        ContentLimits { octets: 2048, depth: 32, instructions: 1024, steps: 4096 }
    }
}

/// A condition on the payload of events, as `position.altitude > 300 && id == 7`. The grammar is in
/// `docs/reference/events.md`.
///
/// The payload is a CDR encapsulation of an IDL type, as [`encode`](crate::remote::encode) makes
/// it. Clones share the program.
///
/// ```
/// use isorb_any::TypeCode;
/// use isorb_event::ContentFilter;
///
/// let point = [("x", TypeCode::DOUBLE), ("id", TypeCode::LONG)];
/// let point = TypeCode::new_struct("IDL:Point:1.0", "Point", &point)?;
/// let filter = ContentFilter::new("x > 0.5 && id == 7", &point)?;
/// assert_eq!(filter.expression(), "x > 0.5 && id == 7");
///
/// let refused = ContentFilter::new("x > 0.5 && name == 7", &point).unwrap_err();
/// assert_eq!(refused.range(), 11..15);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct ContentFilter(Arc<Compiled>);

struct Compiled {
    expression: String,
    payload: TypeCode,
    program: Program,
}

impl ContentFilter {
    /// Compiles a condition on payloads of this type.
    ///
    /// # Errors
    /// [`ContentError`] shows the offending part of the expression.
    ///
    /// # Real-time
    /// Allocates.
    pub fn new(expression: &str, payload: &TypeCode) -> Result<ContentFilter, ContentError> {
        ContentFilter::within(ContentLimits::default(), expression, payload)
    }

    /// As [`new`](Self::new), for payloads of a type of Rust.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn of<T: AnyValue>(expression: &str) -> Result<ContentFilter, ContentError> {
        ContentFilter::new(expression, &T::type_code())
    }

    /// As [`new`](Self::new), with limits of the caller's.
    ///
    /// # Errors
    /// As [`new`](Self::new); the error names the limit that was met.
    pub fn within(
        limits: ContentLimits,
        expression: &str,
        payload: &TypeCode,
    ) -> Result<ContentFilter, ContentError> {
        let program = compile::compile(limits, expression, payload)?;
        let expression = expression.to_owned();
        Ok(ContentFilter(Arc::new(Compiled { expression, payload: payload.clone(), program })))
    }

    /// The expression.
    pub fn expression(&self) -> &str {
        &self.0.expression
    }

    /// The type of the payload.
    pub fn payload(&self) -> &TypeCode {
        &self.0.payload
    }

    /// Returns true if the octets of an event satisfy the condition. Only the members that the
    /// condition needs are read, and those on the way to them.
    ///
    /// # Errors
    /// [`PayloadError`].
    ///
    /// # Real-time
    /// Neither allocates nor blocks. At most [`ContentLimits::instructions`] instructions and
    /// [`ContentLimits::steps`] steps; comparing text takes as long as the text.
    pub fn matches(&self, octets: &[u8]) -> Result<bool, PayloadError> {
        self.0.program.run(octets)
    }
}

/// Equal expressions on equal types.
impl PartialEq for ContentFilter {
    fn eq(&self, other: &ContentFilter) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
            || self.0.expression == other.0.expression && self.0.payload == other.0.payload
    }
}

impl Eq for ContentFilter {}

impl fmt::Debug for ContentFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ContentFilter")
            .field("expression", &self.0.expression)
            .field("payload", &self.0.payload)
            .finish()
    }
}
