//! The target of a request (clause 9.4.2.1, TargetAddress of GIOP 1.2).

use crate::cursor::Cursor;
use crate::octets::put_octets;
use isorb_cdr::{Decoder, Encoder, ErrorKind, Result, Version};

/// A tagged profile, read in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawProfile<'m> {
    /// Profile tag, 0 for IIOP.
    pub tag: u32,
    /// Its octets.
    pub data: &'m [u8],
}

impl<'m> RawProfile<'m> {
    /// The object key of an IIOP profile; `None` for another profile or a malformed one.
    ///
    /// # Real-time
    /// O(1), allocates nothing.
    pub fn key(&self) -> Option<&'m [u8]> {
        if self.tag != crate::profile::TAG_INTERNET_IOP {
            return None;
        }
        let mut c = Cursor::encapsulation(self.data).ok()?;
        c.take(2).ok()?;
        c.octets().ok()?;
        c.u16().ok()?;
        c.octets().ok()
    }
}

/// The ways in which a request names its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target<'m> {
    /// By its object key: the usual way, and the only one before GIOP 1.2.
    Key(&'m [u8]),
    /// By a profile of its reference.
    Profile(RawProfile<'m>),
    /// By its whole reference; the selected profile is kept.
    Reference(RawProfile<'m>),
}

impl<'m> Target<'m> {
    /// The object key; `None` for a profile that is not IIOP, which a server answers with
    /// NEEDS_ADDRESSING_MODE.
    pub fn key(&self) -> Option<&'m [u8]> {
        match self {
            Target::Key(key) => Some(key),
            Target::Profile(profile) | Target::Reference(profile) => profile.key(),
        }
    }

    /// Reads the target of a message of the decoder's version.
    #[inline(always)]
    pub(super) fn read(d: &mut Decoder<'m>) -> Result<Target<'m>> {
        if d.text().version < Version::V1_2 {
            return Ok(Target::Key(super::octets(d)?));
        }
        let disposition = d.get()?;
        Target::read_as(d, disposition)
    }

    /// Reads the part behind the address disposition of GIOP 1.2.
    #[inline(always)]
    pub(super) fn read_as(d: &mut Decoder<'m>, disposition: u16) -> Result<Target<'m>> {
        match disposition {
            0 => Ok(Target::Key(super::octets(d)?)),
            kind => other(d, kind),
        }
    }
}

/// The unusual kinds.
#[cold]
fn other<'m>(d: &mut Decoder<'m>, kind: u16) -> Result<Target<'m>> {
    match kind {
        1 => Ok(Target::Profile(profile(d)?)),
        2 => reference(d),
        _ => Err(d.error(ErrorKind::Value)),
    }
}

fn profile<'m>(d: &mut Decoder<'m>) -> Result<RawProfile<'m>> {
    Ok(RawProfile { tag: d.get()?, data: super::octets(d)? })
}

/// IORAddressingInfo: the index of the selected profile, then the reference.
fn reference<'m>(d: &mut Decoder<'m>) -> Result<Target<'m>> {
    let selected = d.get::<u32>()? as usize;
    super::octets(d)?;
    let count = d.count(8)?;
    let mut found = None;
    for index in 0..count {
        let profile = profile(d)?;
        if index == selected {
            found = Some(profile);
        }
    }
    found.map(Target::Reference).ok_or_else(|| d.error(ErrorKind::Value))
}

/// Writes a target by key.
pub(super) fn write_key(e: &mut Encoder<'_>, key: &[u8]) {
    if e.text().version >= Version::V1_2 {
        e.put(0u16);
    }
    put_octets(e, key);
}
