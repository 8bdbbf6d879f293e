//! Names of operations.

use super::octets;
use crate::cursor::unterminated;
use core::fmt;
use isorb_cdr::{Decoder, Error, ErrorKind, Result};

/// The name of an operation in a request. It has no zero octet. [`text`](Self::text) checks that it
/// is text; a server that only compares it with known names does not need the check.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct OperationName<'m>(&'m [u8]);

impl<'m> OperationName<'m> {
    #[inline(always)]
    pub(super) fn read(d: &mut Decoder<'m>) -> Result<OperationName<'m>> {
        let name = octets(d)?;
        unterminated(name).map(OperationName).map_err(|kind| d.error(kind))
    }

    /// Octets that are not yet checked for zeros.
    #[inline(always)]
    pub(super) fn unchecked(octets: &'m [u8]) -> OperationName<'m> {
        OperationName(octets)
    }

    /// Its octets.
    #[inline]
    pub fn as_bytes(self) -> &'m [u8] {
        self.0
    }

    /// The name as text.
    ///
    /// # Errors
    /// [`ErrorKind::Text`] for octets that are not text.
    ///
    /// # Real-time
    /// Linear in its length; allocates nothing.
    pub fn text(self) -> Result<&'m str> {
        core::str::from_utf8(self.0).map_err(|error| Error::new(ErrorKind::Text, error.valid_up_to()))
    }
}

impl<'m> From<&'m str> for OperationName<'m> {
    fn from(name: &'m str) -> OperationName<'m> {
        OperationName(name.as_bytes())
    }
}

impl fmt::Debug for OperationName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}
