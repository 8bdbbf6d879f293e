//! Percent escapes (RFC 2396, as clause 7.6.10.4 narrows it).

use super::{UrlError, UrlErrorKind};
use crate::ior::nibble;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::{self, Write};

/// Characters that stand for themselves.
fn plain(octet: u8) -> bool {
    octet.is_ascii_alphanumeric() || b";/:?@&=+$,-_.!~*'()".contains(&octet)
}

/// The octets of a part of `url` that begins at `at`. Every printable character is accepted, though
/// only those above should be.
pub(super) fn octets(url: &str, at: usize, part: &str) -> Result<Vec<u8>, UrlError> {
    let mut octets = Vec::with_capacity(part.len());
    let bytes = part.as_bytes();
    let mut i = 0;
    while let Some(octet) = bytes.get(i) {
        if *octet == b'%' {
            match bytes.get(i + 1..i + 3) {
                Some([high, low]) if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                    octets.push(nibble(*high) << 4 | nibble(*low));
                }
                _ => return Err(UrlError::at(UrlErrorKind::Escape, url, at + i)),
            }
            i += 3;
        } else if octet.is_ascii_control() || *octet == b'#' {
            return Err(UrlError::at(UrlErrorKind::Character, url, at + i));
        } else {
            octets.push(*octet);
            i += 1;
        }
    }
    Ok(octets)
}

/// As [`unescape`], for octets that must be text.
pub(super) fn text(url: &str, at: usize, part: &str) -> Result<String, UrlError> {
    String::from_utf8(octets(url, at, part)?).map_err(|_| UrlError::at(UrlErrorKind::Escape, url, at))
}

/// Octets with escapes where they are needed.
pub(super) struct Escaped<'a>(pub &'a [u8]);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|octet| {
            if plain(*octet) { f.write_char(char::from(*octet)) } else { write!(f, "%{octet:02x}") }
        })
    }
}
