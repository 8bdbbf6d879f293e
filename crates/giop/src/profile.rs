//! Profiles: the addresses of an object (clauses 7.6.2 and 9.7.2).

use crate::component::{Component, TAG_CODE_SETS, TAG_ORB_TYPE, TaggedComponent};
use crate::cursor::Cursor;
use crate::header::minor_version;
use crate::octets::{encapsulated, put_name, put_octets};
use alloc::string::String;
use alloc::vec::Vec;
use isorb_cdr::{ErrorKind, Result, Version};

/// Profile tag of IIOP.
pub const TAG_INTERNET_IOP: u32 = 0;
/// A profile that only has components.
pub const TAG_MULTIPLE_COMPONENTS: u32 = 1;
/// Simple Common Container.
pub const TAG_SCCP_IOP: u32 = 2;
/// Unreliable multicast (MIOP).
pub const TAG_UIPMC: u32 = 3;
/// TAO's unix sockets.
pub const TAG_TAO_UIOP: u32 = 0x5441_4f00;
/// TAO's shared memory.
pub const TAG_TAO_SHMIOP: u32 = 0x5441_4f02;
/// TAO's UDP.
pub const TAG_TAO_DIOP: u32 = 0x5441_4f04;
/// TAO's SCTP.
pub const TAG_TAO_SCIOP: u32 = 0x5441_4f0e;

/// isorb's memory segments ("ISO\0").
pub const TAG_ISORB_SEGMENTS: u32 = 0x4953_4f00;

/// The name of a profile tag; `None` when it is not known here.
pub fn tag_name(tag: u32) -> Option<&'static str> {
    Some(match tag {
        TAG_INTERNET_IOP => "TAG_INTERNET_IOP",
        TAG_MULTIPLE_COMPONENTS => "TAG_MULTIPLE_COMPONENTS",
        TAG_SCCP_IOP => "TAG_SCCP_IOP",
        TAG_UIPMC => "TAG_UIPMC",
        TAG_TAO_UIOP => "TAO unix sockets",
        TAG_TAO_SHMIOP => "TAO shared memory",
        TAG_TAO_DIOP => "TAO UDP",
        TAG_TAO_SCIOP => "TAO SCTP",
        TAG_ISORB_SEGMENTS => "isorb memory segments",
        _ => return None,
    })
}

/// A profile with its data as octets.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TaggedProfile {
    /// The profile's tag.
    pub tag: u32,
    /// Its octets, an encapsulation.
    pub data: Vec<u8>,
}

/// An object reached over TCP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IiopProfile {
    /// Highest GIOP version that the server speaks.
    pub version: Version,
    /// Host name or address.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// Object key, meaningful to the server only.
    pub key: Vec<u8>,
    /// Components; none before version 1.1.
    pub components: Vec<TaggedComponent>,
}

impl IiopProfile {
    /// Reads the octets of a profile with tag 0. A later minor version is read as 1.2, which it
    /// extends.
    ///
    /// # Errors
    /// [`isorb_cdr::Error`]; [`ErrorKind::Value`] for a major version other than 1.
    pub fn parse(data: &[u8]) -> Result<IiopProfile> {
        let c = &mut Cursor::encapsulation(data)?;
        let version = version(c)?;
        let host = c.str()?.into();
        let port = c.u16()?;
        let key = c.octets()?.into();
        let components = if version == Version::V1_0 { Vec::new() } else { TaggedComponent::read_all(c)? };
        Ok(IiopProfile { version, host, port, key, components })
    }

    /// Writes the profile.
    ///
    /// # Errors
    /// [`isorb_cdr::Error`] for a host with a zero character in it.
    pub fn to_tagged(&self) -> Result<TaggedProfile> {
        let data = encapsulated(|e| {
            e.raw(&[1, minor_version(self.version)]);
            put_name(e, &self.host);
            e.put(self.port);
            put_octets(e, &self.key);
            if self.version > Version::V1_0 {
                TaggedComponent::write_all(&self.components, e);
            }
        })?;
        Ok(TaggedProfile { tag: TAG_INTERNET_IOP, data })
    }

    /// The first component with this tag.
    pub fn component(&self, tag: u32) -> Option<&TaggedComponent> {
        self.components.iter().find(|component| component.tag == tag)
    }

    /// The octets of the first component with this tag in a profile of IIOP, without reading the
    /// others. `None` if there is none, and for another or a malformed profile.
    ///
    /// # Real-time
    /// Linear in the number of components; allocates nothing.
    pub fn component_data(profile: &TaggedProfile, tag: u32) -> Option<&[u8]> {
        let c = &mut Cursor::encapsulation(&profile.data).ok().filter(|_| profile.tag == TAG_INTERNET_IOP)?;
        let version = version(c).ok()?;
        c.octets().ok()?;
        c.u16().ok()?;
        c.octets().ok()?;
        let count = if version == Version::V1_0 { 0 } else { c.count(8).ok()? };
        (0..count).find_map(|_| {
            let (found, data) = (c.u32().ok()?, c.octets().ok()?);
            (found == tag).then_some(data)
        })
    }

    /// The code sets that the server offers; `None` when it offers none or they are malformed.
    pub fn code_sets(&self) -> Option<crate::codeset::CodeSetComponentInfo> {
        match Component::parse(self.component(TAG_CODE_SETS)?) {
            Ok(Component::CodeSets(info)) => Some(info),
            _ => None,
        }
    }

    /// The ORB that wrote the profile ([`crate::component::TAG_ORB_TYPE`]), if the profile says so.
    pub fn orb_type(&self) -> Option<u32> {
        match Component::parse(self.component(TAG_ORB_TYPE)?) {
            Ok(Component::OrbType(orb)) => Some(orb),
            _ => None,
        }
    }

    /// The address of the profile and its alternate addresses, in order, without duplicates of the
    /// first.
    pub fn addresses(&self) -> impl Iterator<Item = (String, u16)> {
        let own = (self.host.clone(), self.port);
        let more = self.components.iter().filter_map(|tagged| match Component::parse(tagged) {
            Ok(Component::AlternateAddress { host, port }) => Some((host, port)),
            _ => None,
        });
        core::iter::once(own.clone()).chain(more.filter(move |address| *address != own))
    }
}

/// Reads the octets of a profile with tag 1.
///
/// # Errors
/// [`isorb_cdr::Error`].
pub fn multiple_components(data: &[u8]) -> Result<Vec<TaggedComponent>> {
    TaggedComponent::read_all(&mut Cursor::encapsulation(data)?)
}

/// The version at the beginning of a profile. A later minor version is read as 1.2, which it
/// extends.
pub(crate) fn version(c: &mut Cursor<'_>) -> Result<Version> {
    match (c.u8()?, c.u8()?) {
        (1, 0) => Ok(Version::V1_0),
        (1, 1) => Ok(Version::V1_1),
        (1, _) => Ok(Version::V1_2),
        _ => Err(c.error(ErrorKind::Value)),
    }
}
