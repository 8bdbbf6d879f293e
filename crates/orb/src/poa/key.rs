//! Object keys, which name the POA and the object of a request.
//!
//! | kind | octets |
//! |---|---|
//! | transient | magic, ORB epoch, POA slot, POA generation, object id |
//! | persistent | magic, length of the path, path of POA names, object id |
//! | indirect | magic, length of the server's name, its name, length of the path, path of POA names, object id |
//!
//! An indirect key is that of a persistent object of a server with an implementation repository,
//! which reads the name of the server in it.
//!
//! Numbers are big-endian, 4 octets each. An id from the system is {object slot, object
//! generation}. In a persistent POA the epoch stands before it; in a transient one a random number
//! of 8 octets follows, so that a client of one object cannot guess the key of another. The usual
//! key of a transient object thus has 32 octets and leads to the servant in two array look-ups. A
//! key contains no hint at the
//! servant's earlier position, although one would save a hash for ids of the user: two references
//! to one object would then differ.

use crate::config::MAX_SERVER_NAME;
use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

const TRANSIENT: [u8; 4] = *b"iso\x01";
const PERSISTENT: [u8; 4] = *b"iso\x02";
const INDIRECT: [u8; 4] = *b"iso\x03";

/// The longest path of names, which bounds the search for one.
pub(super) const MAX_PATH: usize = 8 * 1024;

/// An object's id in its POA: octets chosen by the application or made by the POA. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId(Arc<[u8]>);

impl ObjectId {
    /// The octets.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Deref for ObjectId {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<[u8]> for ObjectId {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Borrow<[u8]> for ObjectId {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl From<&[u8]> for ObjectId {
    fn from(bytes: &[u8]) -> ObjectId {
        ObjectId(bytes.into())
    }
}

impl From<&str> for ObjectId {
    fn from(text: &str) -> ObjectId {
        ObjectId(text.as_bytes().into())
    }
}

impl From<Vec<u8>> for ObjectId {
    fn from(bytes: Vec<u8>) -> ObjectId {
        ObjectId(bytes.into())
    }
}

impl fmt::Display for ObjectId {
    /// Text unchanged, anything else in hexadecimal.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match std::str::from_utf8(&self.0) {
            Ok(text) if !text.is_empty() && !text.chars().any(char::is_control) => f.write_str(text),
            _ => self.0.iter().try_for_each(|octet| write!(f, "{octet:02x}")),
        }
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ObjectId({self})")
    }
}

/// A parsed key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key<'k> {
    Transient { epoch: u32, slot: u32, generation: u32, id: &'k [u8] },
    Persistent { path: &'k [u8], id: &'k [u8] },
    Indirect { server: &'k [u8], path: &'k [u8], id: &'k [u8] },
}

impl<'k> Key<'k> {
    /// `None` for octets that are not a key of this ORB.
    #[inline(always)]
    pub fn parse(octets: &'k [u8]) -> Option<Key<'k>> {
        let (magic, rest) = octets.split_first_chunk::<4>()?;
        let (first, rest) = split_u32(rest)?;
        match *magic {
            TRANSIENT => {
                let (slot, rest) = split_u32(rest)?;
                let (generation, id) = split_u32(rest)?;
                Some(Key::Transient { epoch: first, slot, generation, id })
            }
            PERSISTENT => {
                let length = usize::try_from(first).ok().filter(|length| *length <= MAX_PATH)?;
                let (path, id) = rest.split_at_checked(length)?;
                Some(Key::Persistent { path, id })
            }
            INDIRECT => Key::parse_indirect(first, rest),
            _ => None,
        }
    }

    #[cold]
    fn parse_indirect(length: u32, rest: &'k [u8]) -> Option<Key<'k>> {
        let length = usize::try_from(length).ok().filter(|length| (1..=MAX_SERVER_NAME).contains(length))?;
        let (server, rest) = rest.split_at_checked(length)?;
        let (length, rest) = split_u32(rest)?;
        let length = usize::try_from(length).ok().filter(|length| *length <= MAX_PATH)?;
        let (path, id) = rest.split_at_checked(length)?;
        Some(Key::Indirect { server, path, id })
    }
}

/// The server's name in the key of an indirect reference; `None` in another key.
pub(super) fn server_of(key: &[u8]) -> Option<&str> {
    match Key::parse(key)? {
        Key::Indirect { server, .. } => std::str::from_utf8(server).ok(),
        Key::Transient { .. } | Key::Persistent { .. } => None,
    }
}

#[inline]
fn split_u32(octets: &[u8]) -> Option<(u32, &[u8])> {
    let (number, rest) = octets.split_first_chunk::<4>()?;
    Some((u32::from_be_bytes(*number), rest))
}

/// The common beginning of a transient POA's keys.
pub(super) fn transient_prefix(epoch: u32, slot: u32, generation: u32) -> Box<[u8]> {
    let numbers = [epoch, slot, generation].map(u32::to_be_bytes);
    [&TRANSIENT[..], numbers.as_flattened()].concat().into()
}

/// The common beginning of a persistent POA's keys. `path` is at most [`MAX_PATH`] long.
pub(super) fn persistent_prefix(path: &[u8]) -> Box<[u8]> {
    let length = u32::try_from(path.len()).unwrap_or(u32::MAX);
    [&PERSISTENT, &length.to_be_bytes()[..], path].concat().into()
}

/// The common beginning of a persistent POA's keys in a server with an implementation repository.
/// `server` is at most [`MAX_SERVER_NAME`] long, `path` at most [`MAX_PATH`].
pub(super) fn indirect_prefix(server: &str, path: &[u8]) -> Box<[u8]> {
    let length = |octets: &[u8]| u32::try_from(octets.len()).unwrap_or(u32::MAX).to_be_bytes();
    let name = server.as_bytes();
    [&INDIRECT, &length(name)[..], name, &length(path)[..], path].concat().into()
}

/// The path of a child: that of its parent, the length of its name in 2 octets, its name. The
/// root's is empty. `None` when it would be longer than [`MAX_PATH`].
pub(super) fn child_path(parent: &[u8], name: &str) -> Option<Box<[u8]>> {
    let length = u16::try_from(name.len()).ok()?.to_be_bytes();
    let path = [parent, &length, name.as_bytes()].concat();
    (path.len() <= MAX_PATH).then(|| path.into())
}

/// Splits the first name off a path; `None` when it is malformed.
pub(super) fn split_name(path: &[u8]) -> Option<(&str, &[u8])> {
    let (length, rest) = path.split_first_chunk::<2>()?;
    let (name, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
    Some((std::str::from_utf8(name).ok()?, rest))
}

/// An id from the system: the object's slot, and how often the slot was used before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SystemId {
    pub slot: u32,
    pub generation: u32,
    /// The random number; 0 in a persistent POA: its ids outlive the process.
    pub secret: u64,
}

impl SystemId {
    /// The id in octets. `epoch` is for persistent POAs: their ids must differ from those of
    /// earlier processes.
    pub fn encode(self, epoch: Option<u32>) -> ObjectId {
        let (high, low) = ((self.secret >> 32) as u32, self.secret as u32);
        let numbers = [epoch.unwrap_or(0), self.slot, self.generation, high, low].map(u32::to_be_bytes);
        let octets = numbers.as_flattened();
        ObjectId::from(if epoch.is_some() { &octets[..12] } else { &octets[4..] })
    }

    /// Decodes an id; `None` if it has another form or epoch.
    #[inline(always)]
    pub fn decode(id: &[u8], epoch: Option<u32>) -> Option<SystemId> {
        let (address, secret) = match epoch {
            None => {
                let (address, secret) = id.split_first_chunk::<8>()?;
                (*address, u64::from_be_bytes(*<&[u8; 8]>::try_from(secret).ok()?))
            }
            Some(epoch) => {
                let (_, address) = split_u32(id).filter(|(number, _)| *number == epoch)?;
                (*<&[u8; 8]>::try_from(address).ok()?, 0)
            }
        };
        let both = u64::from_be_bytes(address);
        Some(SystemId { slot: (both >> 32) as u32, generation: both as u32, secret })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_go_both_ways() {
        let id = SystemId { slot: 7, generation: 9, secret: 0x0102_0304_0506_0708 }.encode(None);
        let key = [&transient_prefix(1, 2, 3)[..], &id].concat();
        assert_eq!(key.len(), 32);
        assert_eq!(Key::parse(&key), Some(Key::Transient { epoch: 1, slot: 2, generation: 3, id: &id }));
        assert_eq!(id[8..], [1, 2, 3, 4, 5, 6, 7, 8]);
        let decoded = SystemId::decode(&id, None).unwrap();
        assert_eq!(decoded, SystemId { slot: 7, generation: 9, secret: 0x0102_0304_0506_0708 });
        assert_eq!(SystemId::decode(&id[..8], None), None);

        let path = child_path(&child_path(b"", "a").unwrap(), "bé").unwrap();
        let key = [&persistent_prefix(&path)[..], b"lab/t1"].concat();
        assert_eq!(Key::parse(&key), Some(Key::Persistent { path: &path, id: b"lab/t1" }));
        let (name, rest) = split_name(&path).unwrap();
        assert_eq!((name, split_name(rest)), ("a", Some(("bé", &[][..]))));
    }

    /// References stored by other processes rely on these octets.
    #[test]
    fn persistent_keys_never_change() {
        let path = child_path(b"", "lab").unwrap();
        assert_eq!(persistent_prefix(&path)[..], *b"iso\x02\0\0\0\x05\0\x03lab");
        let id = SystemId { slot: 1, generation: 2, secret: 0 }.encode(Some(0x0a0b_0c0d));
        assert_eq!(id.as_bytes(), b"\x0a\x0b\x0c\x0d\0\0\0\x01\0\0\0\x02");
        assert_eq!(SystemId::decode(&id, Some(0x0a0b_0c0e)), None);
        let key = indirect_prefix("lamps", &path);
        assert_eq!(key[..], *b"iso\x03\0\0\0\x05lamps\0\0\0\x05\0\x03lab");
        let parsed = Some(Key::Indirect { server: b"lamps", path: &path, id: b"x" });
        assert_eq!((Key::parse(&[&key[..], b"x"].concat()), server_of(&key)), (parsed, Some("lamps")));
    }

    #[test]
    fn any_octets_are_safe() {
        let key = [&persistent_prefix(&child_path(b"", "abc").unwrap())[..], b"x"].concat();
        for end in 0..key.len() {
            let _ = Key::parse(&key[..end]);
        }
        let key = [&indirect_prefix("lamps", b"\0\x01a")[..], b"x"].concat();
        for end in 0..key.len() {
            let _ = (Key::parse(&key[..end]), server_of(&key[..end]));
        }
        assert_eq!(server_of(b"iso\x03\0\0\0\0\0\0\0\0x"), None, "a server has a name");
        assert_eq!(server_of(b"iso\x03\0\0\0\x01\xff\0\0\0\0x"), None, "a name is text");
        assert_eq!(server_of(b"iso\x03\xff\xff\xff\xffx"), None);
        assert_eq!(server_of(&[&b"iso\x03\0\0\x01\0"[..], &[b'a'; 300]].concat()), None);
        assert_eq!(Key::parse(b"NameService"), None);
        assert_eq!(Key::parse(b"iso\x02\xff\xff\xff\xffabc"), None);
        assert_eq!(Key::parse(b"iso\x02\0\0\0\x09abc"), None);
        assert_eq!(split_name(b"\0\x05abc"), None);
        assert_eq!(split_name(b"\0\x01\xff"), None);
        assert_eq!(SystemId::decode(b"123456789", None), None);
        assert_eq!(child_path(b"", &"x".repeat(MAX_PATH)), None);
    }

    #[test]
    fn ids_are_readable() {
        assert_eq!(ObjectId::from("lab/t1").to_string(), "lab/t1");
        assert_eq!(ObjectId::from(vec![0, 0xff]).to_string(), "00ff");
    }
}
