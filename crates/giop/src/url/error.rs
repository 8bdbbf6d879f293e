//! Errors in URLs, stringified references and names.

use crate::{Kind, SystemException, minor};
use alloc::string::ToString;
use core::fmt;

/// An error and its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UrlError {
    /// The error.
    pub kind: UrlErrorKind,
    /// The column of the error, in characters, from 1.
    pub column: usize,
}

/// The kinds of [`UrlError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UrlErrorKind {
    /// An unknown scheme.
    Scheme,
    /// A character in a stringified reference that is not a hexadecimal digit.
    HexDigit,
    /// An odd number of hexadecimal digits: some are missing.
    OddDigits,
    /// The octets of a stringified reference are malformed.
    Reference(isorb_cdr::Error),
    /// No address where one is needed.
    NoAddress,
    /// An address without its protocol and colon.
    Protocol,
    /// A version that is not `1.0`, `1.1` or `1.2`.
    Version,
    /// No host where one is needed, or a character that a host cannot have.
    Host,
    /// An IPv6 address without its closing bracket.
    Bracket,
    /// A port that is not a number from 1 to 65535.
    Port,
    /// The text before the slash of `miop:` is not a group.
    #[cfg(feature = "miop")]
    Group,
    /// The address of `miop:` is not a multicast address, or has no port.
    #[cfg(feature = "miop")]
    Multicast,
    /// The text behind the semicolon of `miop:` is not an IIOP address with a key.
    #[cfg(feature = "miop")]
    Answering,
    /// `rir:` beside other addresses, or with text between the colon and the key.
    Rir,
    /// A percent sign without two hexadecimal digits.
    Escape,
    /// A character that must be written as a percent escape.
    Character,
    /// A malformed name behind `#`: a backslash before an ordinary character or at the end.
    NameEscape,
    /// A name with an empty component.
    NameEmpty,
    /// A component with more than one dot.
    NameDots,
    /// A component that ends in its dot.
    NameKind,
    /// A `file:` URL that does not begin with a path from the root.
    Path,
}

impl UrlError {
    /// At a byte offset of a text.
    pub(crate) fn at(kind: UrlErrorKind, text: &str, offset: usize) -> UrlError {
        let column = text.char_indices().take_while(|(at, _)| *at < offset).count() + 1;
        UrlError { kind, column }
    }

    /// The same at a later column, for a part of a text.
    pub(crate) fn moved(self, columns: usize) -> UrlError {
        UrlError { column: self.column + columns, ..self }
    }
}

impl fmt::Display for UrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.kind {
            UrlErrorKind::Scheme => "unknown scheme: write IOR:, corbaloc:, corbaname: or file:",
            UrlErrorKind::HexDigit => {
                "not a hexadecimal digit: is the reference cut or broken by a line end?"
            }
            UrlErrorKind::OddDigits => {
                "an odd number of hexadecimal digits: the end of the reference is missing"
            }
            UrlErrorKind::Reference(error) => {
                return write!(
                    f,
                    "column {}: the digits are no object reference ({error}): copy it again",
                    self.column
                );
            }
            UrlErrorKind::NoAddress => "an address is missing: write it as in corbaloc::host:2809/key",
            UrlErrorKind::Protocol => {
                "an address begins with its protocol and a colon: write iiop:host or :host for IIOP"
            }
            UrlErrorKind::Version => "unknown version: write 1.0@, 1.1@ or 1.2@, or nothing",
            UrlErrorKind::Host => {
                "a host name or address is missing or has a character that cannot be in one"
            }
            UrlErrorKind::Bracket => "an IPv6 address ends in a bracket: write [fe80::1]",
            UrlErrorKind::Port => "a port is a number from 1 to 65535",
            #[cfg(feature = "miop")]
            UrlErrorKind::Group => {
                "a group is version 1.0, a domain without hyphens and a number: write miop:1.0@1.0-domain-1/225.1.1.1:5000"
            }
            #[cfg(feature = "miop")]
            UrlErrorKind::Multicast => {
                "a group's address is one of IP multicast, with a port: write 225.1.1.1:5000 or [ff15::1]:5000"
            }
            #[cfg(feature = "miop")]
            UrlErrorKind::Answering => {
                "for requests that are answered a group has an object behind IIOP: write ;iiop:1.2@host:2809/key"
            }
            UrlErrorKind::Rir => {
                "rir: stands alone, with nothing before the key: write corbaloc:rir:/NameService"
            }
            UrlErrorKind::Escape => "a percent sign needs two hexadecimal digits: write %25 for itself",
            UrlErrorKind::Character => "this character must be written as % and two hexadecimal digits",
            UrlErrorKind::NameEscape => "in a name a backslash stands before /, . or another backslash only",
            UrlErrorKind::NameEmpty => {
                "a name's components are not empty: write . for one without id and kind"
            }
            UrlErrorKind::NameDots => {
                "a name's component has one dot, between id and kind: write \\. for others"
            }
            UrlErrorKind::NameKind => "after a dot comes a kind: leave the dot away where there is none",
            UrlErrorKind::Path => "a file: URL names a path from the root: write file:///tmp/object.ior",
        };
        write!(f, "column {}: {what}", self.column)
    }
}

impl core::error::Error for UrlError {}

impl From<UrlError> for SystemException {
    /// BAD_PARAM with the minor code of the OMG for the part that is wrong.
    fn from(error: UrlError) -> SystemException {
        let minor = match error.kind {
            UrlErrorKind::Scheme => minor::BAD_PARAM_URL_SCHEME,
            UrlErrorKind::NoAddress
            | UrlErrorKind::Protocol
            | UrlErrorKind::Version
            | UrlErrorKind::Host
            | UrlErrorKind::Bracket
            | UrlErrorKind::Port => minor::BAD_PARAM_URL_ADDRESS,
            #[cfg(feature = "miop")]
            UrlErrorKind::Multicast => minor::BAD_PARAM_URL_ADDRESS,
            UrlErrorKind::HexDigit | UrlErrorKind::OddDigits | UrlErrorKind::Reference(_) => {
                minor::BAD_PARAM_URL
            }
            _ => minor::BAD_PARAM_URL_SPECIFIC,
        };
        SystemException::from(Kind::BadParam).minor(minor).detail(error.to_string())
    }
}
