//! GSSUP, user names and passwords in the form of the GSS-API (CORBA 3.3 part 2, clause 10.2.4.1;
//! RFC 2743, clauses 3.1 and 3.2).

use super::{MAX_TOKEN, bounded};
use crate::cursor::Cursor;
use crate::octets::{encapsulated, put_octets};
use alloc::vec::Vec;
use isorb_cdr::{Error, ErrorKind, Result};

/// The object identifier of GSSUP, 2.23.130.1.1.1, in DER.
pub const GSSUP_OID: &[u8] = &[0x06, 0x06, 0x67, 0x81, 0x02, 0x01, 0x01, 0x01];

/// The tag of an initial token: [APPLICATION 0], constructed.
const INITIAL_TOKEN: u8 = 0x60;
/// The identifier of an exported name.
const EXPORTED_NAME: [u8; 2] = [4, 1];

/// A user name and password for a target (`GSSUP::InitialContextToken`).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct InitialToken<'a> {
    /// The user's name in UTF-8, perhaps with `@` and a scope.
    pub user: &'a [u8],
    /// The password in UTF-8.
    pub password: &'a [u8],
    /// The target, an exported name; empty if the client does not know one.
    pub target: &'a [u8],
}

impl<'a> InitialToken<'a> {
    /// Reads a client authentication token.
    ///
    /// JacORB writes a length from 128 on with seven bits to an octet, most significant ones first,
    /// which DER does not allow. It is accepted if it fits the token.
    ///
    /// # Errors
    /// [`ErrorKind::Length`] for a token that is too long or has a wrong length,
    /// [`ErrorKind::Value`] for one of another mechanism.
    pub fn read(token: &'a [u8]) -> Result<InitialToken<'a>> {
        let wrong = |kind| Error::new(kind, 0);
        if token.len() > MAX_TOKEN {
            return Err(wrong(ErrorKind::Length));
        }
        let Some((&INITIAL_TOKEN, framed)) = token.split_first() else {
            return Err(wrong(ErrorKind::Value));
        };
        let content = content(framed).ok_or(wrong(ErrorKind::Length))?;
        let inner = content.strip_prefix(GSSUP_OID).ok_or(wrong(ErrorKind::Value))?;
        let c = &mut Cursor::encapsulation(inner)?;
        Ok(InitialToken { user: bounded(c)?, password: bounded(c)?, target: bounded(c)? })
    }

    /// Writes the token.
    ///
    /// # Errors
    /// [`ErrorKind::Length`] for a token longer than [`MAX_TOKEN`].
    pub fn write(&self) -> Result<Vec<u8>> {
        let inner = encapsulated(|e| {
            put_octets(e, self.user);
            put_octets(e, self.password);
            // After octets of any number a count is aligned.
            put_octets(e, self.target);
        })?;
        let length = GSSUP_OID.len() + inner.len();
        let mut token = Vec::with_capacity(length + 4);
        token.push(INITIAL_TOKEN);
        match length {
            ..=0x7f => token.push(length as u8),
            0x80..=0xff => token.extend([0x81, length as u8]),
            _ => token.extend([0x82, (length >> 8) as u8, length as u8]),
        }
        token.extend_from_slice(GSSUP_OID);
        token.extend_from_slice(&inner);
        if token.len() > MAX_TOKEN { Err(Error::new(ErrorKind::Length, 0)) } else { Ok(token) }
    }
}

impl core::fmt::Debug for InitialToken<'_> {
    /// Without the password.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let user = alloc::string::String::from_utf8_lossy(self.user);
        f.debug_struct("InitialToken").field("user", &user).finish_non_exhaustive()
    }
}

/// What follows a length, if the length is that of all the rest: in DER, or as JacORB writes it.
fn content(framed: &[u8]) -> Option<&[u8]> {
    let (&first, rest) = framed.split_first()?;
    let of_der = match first {
        ..=0x7f => Some((usize::from(first), rest)),
        0x81 => rest.split_first().map(|(length, rest)| (usize::from(*length), rest)),
        0x82 => rest
            .split_first_chunk::<2>()
            .map(|(length, rest)| (usize::from(u16::from_be_bytes(*length)), rest)),
        _ => None,
    };
    let of_jacorb = || match *framed {
        [high, low, ref rest @ ..] if high >= 0x80 && low < 0x80 => {
            Some((usize::from(high & 0x7f) << 7 | usize::from(low), rest))
        }
        _ => None,
    };
    let fits = |(length, rest): &(usize, &[u8])| *length == rest.len();
    of_der.filter(fits).or_else(|| of_jacorb().filter(fits)).map(|(_, rest)| rest)
}

/// A name with the mechanism to which it belongs (RFC 2743, clause 3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExportedName<'a> {
    /// The mechanism's object identifier in DER.
    pub mechanism: &'a [u8],
    /// The name.
    pub name: &'a [u8],
}

impl<'a> ExportedName<'a> {
    /// A name of GSSUP.
    pub fn gssup(name: &'a str) -> ExportedName<'a> {
        ExportedName { mechanism: GSSUP_OID, name: name.as_bytes() }
    }

    /// Reads an exported name.
    ///
    /// # Errors
    /// [`ErrorKind::Value`], [`ErrorKind::Length`] for octets that are none.
    pub fn read(octets: &'a [u8]) -> Result<ExportedName<'a>> {
        let length = || Error::new(ErrorKind::Length, 0);
        let rest = octets.strip_prefix(&EXPORTED_NAME).ok_or(Error::new(ErrorKind::Value, 0))?;
        let (n, rest) = rest.split_first_chunk::<2>().ok_or_else(length)?;
        let (mechanism, rest) =
            rest.split_at_checked(usize::from(u16::from_be_bytes(*n))).ok_or_else(length)?;
        let (n, name) = rest.split_first_chunk::<4>().ok_or_else(length)?;
        match u32::from_be_bytes(*n) as usize == name.len() && name.len() <= MAX_TOKEN {
            true => Ok(ExportedName { mechanism, name }),
            false => Err(length()),
        }
    }

    /// Writes the name.
    pub fn write(&self) -> Vec<u8> {
        let mut octets = EXPORTED_NAME.to_vec();
        octets.extend((self.mechanism.len() as u16).to_be_bytes());
        octets.extend_from_slice(self.mechanism);
        octets.extend((self.name.len() as u32).to_be_bytes());
        octets.extend_from_slice(self.name);
        octets
    }
}
