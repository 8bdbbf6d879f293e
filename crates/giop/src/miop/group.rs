//! The identity and address of a group (clause 11: TAG_UIPMC profile, TAG_GROUP and TAG_GROUP_IIOP
//! components).

use crate::codeset::CodeSetComponentInfo;
use crate::component::{Component, TAG_CODE_SETS, TaggedComponent};
use crate::cursor::Cursor;
use crate::header::minor_version;
use crate::octets::{encapsulated, put_name};
use crate::profile::{IiopProfile, TAG_UIPMC, TaggedProfile};
use alloc::string::String;
use alloc::vec::Vec;
use isorb_cdr::{ErrorKind, Result, Version};

/// Component tag of an object group.
pub const TAG_GROUP: u32 = 39;
/// Component tag of the IIOP profile for two-way requests to a group.
pub const TAG_GROUP_IIOP: u32 = 40;

/// An object group (PortableGroup::TagGroupTaggedComponent, version 1.0).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Group {
    /// The domain of its number.
    pub domain: String,
    /// Its number there.
    pub id: u64,
    /// Version of the reference.
    pub ref_version: u32,
}

/// A [`Group`], read in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupRef<'a> {
    /// The domain of its number.
    pub domain: &'a str,
    /// Its number there.
    pub id: u64,
    /// Version of the reference.
    pub ref_version: u32,
}

impl<'a> GroupRef<'a> {
    fn read(data: &'a [u8]) -> Result<GroupRef<'a>> {
        let c = &mut Cursor::encapsulation(data)?;
        // The component's own version, 1.x; a later one extends it.
        let (major, _) = (c.u8()?, c.u8()?);
        if major != 1 {
            return Err(c.error(ErrorKind::Value));
        }
        Ok(GroupRef { domain: c.str()?, id: c.u64()?, ref_version: c.u32()? })
    }

    /// The group in the octets of a profile with tag 3; `None` when there is none, or they are
    /// malformed.
    ///
    /// # Real-time
    /// Linear in the number of components; allocates nothing.
    pub fn find(profile: &'a [u8]) -> Option<GroupRef<'a>> {
        let c = &mut Cursor::encapsulation(profile).ok()?;
        if c.u8().ok()? != 1 {
            return None;
        }
        c.u8().ok()?;
        c.octets().ok()?;
        c.u16().ok()?;
        for _ in 0..c.count(8).ok()? {
            let (tag, data) = (c.u32().ok()?, c.octets().ok()?);
            if tag == TAG_GROUP {
                return GroupRef::read(data).ok();
            }
        }
        None
    }

    /// Whether this is the same group; the version of the reference does not count.
    #[inline]
    pub fn is(&self, group: &Group) -> bool {
        self.id == group.id && self.domain == group.domain
    }

    /// An owned copy.
    pub fn to_group(self) -> Group {
        Group { domain: self.domain.into(), id: self.id, ref_version: self.ref_version }
    }
}

impl Group {
    /// Reads a component with tag 39.
    ///
    /// # Errors
    /// [`isorb_cdr::Error`]; [`ErrorKind::Value`] for a major version other than 1.
    pub fn parse(data: &[u8]) -> Result<Group> {
        GroupRef::read(data).map(GroupRef::to_group)
    }

    /// Writes the component.
    ///
    /// # Errors
    /// [`isorb_cdr::Error`] for a domain with a zero character in it.
    pub fn to_tagged(&self) -> Result<TaggedComponent> {
        let data = encapsulated(|e| {
            e.raw(&[1, 0]);
            put_name(e, &self.domain);
            e.put(self.id);
            e.put(self.ref_version);
        })?;
        Ok(TaggedComponent { tag: TAG_GROUP, data })
    }
}

/// The address of a group: the profile with tag 3.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UipmcProfile {
    /// Version 1.0. Some ORBs write that of GIOP instead, which has no effect.
    pub version: Version,
    /// Address of the IP multicast group.
    pub address: String,
    /// UDP port.
    pub port: u16,
    /// Components, one of which identifies the object group.
    pub components: Vec<TaggedComponent>,
}

impl UipmcProfile {
    /// Reads the octets of a profile with tag 3.
    ///
    /// # Errors
    /// [`isorb_cdr::Error`]; [`ErrorKind::Value`] for a major version other than 1.
    pub fn parse(data: &[u8]) -> Result<UipmcProfile> {
        let c = &mut Cursor::encapsulation(data)?;
        let version = crate::profile::version(c)?;
        let (address, port) = (c.str()?.into(), c.u16()?);
        Ok(UipmcProfile { version, address, port, components: TaggedComponent::read_all(c)? })
    }

    /// Writes the profile.
    ///
    /// # Errors
    /// [`isorb_cdr::Error`] for an address with a zero character in it.
    pub fn to_tagged(&self) -> Result<TaggedProfile> {
        let data = encapsulated(|e| {
            e.raw(&[1, minor_version(self.version)]);
            put_name(e, &self.address);
            e.put(self.port);
            TaggedComponent::write_all(&self.components, e);
        })?;
        Ok(TaggedProfile { tag: TAG_UIPMC, data })
    }

    /// The group; `None` for a profile without one, or with a malformed one.
    pub fn group(&self) -> Option<Group> {
        Group::parse(&self.component(TAG_GROUP)?.data).ok()
    }

    /// The address for two-way requests to the group, if there is one. Some ORBs put it under the
    /// tag of IIOP's profiles.
    pub fn answering(&self) -> Option<IiopProfile> {
        let tagged = self.component(TAG_GROUP_IIOP).or(self.component(crate::profile::TAG_INTERNET_IOP))?;
        IiopProfile::parse(&tagged.data).ok().filter(|profile| !profile.host.is_empty())
    }

    /// The code sets of the members; `None` if the profile has none, or malformed ones.
    pub fn code_sets(&self) -> Option<CodeSetComponentInfo> {
        match Component::parse(self.component(TAG_CODE_SETS)?) {
            Ok(Component::CodeSets(info)) => Some(info),
            _ => None,
        }
    }

    fn component(&self, tag: u32) -> Option<&TaggedComponent> {
        self.components.iter().find(|component| component.tag == tag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use proptest::prelude::*;

    /// Clause 11 by hand, little endian: byte order, version 1.0, padding; "225.1.1.1" with its
    /// length; port 5000; one component, 39: byte order, version 1.0, padding, "Consumer" with its
    /// length, padding, group 1, reference version 7.
    const PROFILE: &[u8] = b"\x01\x01\0\0\x0a\0\0\x00225.1.1.1\0\x88\x13\x01\0\0\0\
        \x27\0\0\0\x24\0\0\0\x01\x01\0\0\x09\0\0\0Consumer\0\0\0\0\0\0\0\0\
        \x01\0\0\0\0\0\0\0\x07\0\0\0";

    #[test]
    fn golden() {
        let profile = UipmcProfile::parse(PROFILE).unwrap();
        assert_eq!((&*profile.address, profile.port, profile.version), ("225.1.1.1", 5000, Version::V1_0));
        let group = Group { domain: "Consumer".into(), id: 1, ref_version: 7 };
        assert_eq!(profile.group(), Some(group.clone()));
        assert_eq!((profile.answering(), profile.code_sets()), (None, None));
        assert!(GroupRef::find(PROFILE).unwrap().is(&group));
        assert!(!GroupRef::find(PROFILE).unwrap().is(&Group { id: 2, ..group.clone() }));
        let again = UipmcProfile { components: vec![group.to_tagged().unwrap()], ..profile.clone() };
        let tagged = again.to_tagged().unwrap();
        assert_eq!((tagged.tag, &tagged.data[3..]), (3, &PROFILE[3..]));
        assert_eq!(UipmcProfile::parse(&again.to_tagged().unwrap().data), Ok(profile));
        // Version 2 is not known, and a profile without a group names none.
        assert!(UipmcProfile::parse(&[&[1, 2][..], &PROFILE[2..]].concat()).is_err());
        let bare = UipmcProfile { components: vec![], ..again };
        assert_eq!(GroupRef::find(&bare.to_tagged().unwrap().data), None);
        assert_eq!(bare.group(), None);
    }

    #[test]
    fn an_iiop_profile_for_answers() {
        let iiop = IiopProfile {
            version: Version::V1_2,
            host: "lab".into(),
            port: 2809,
            key: b"k".into(),
            components: vec![],
        };
        let data = iiop.to_tagged().unwrap().data;
        for tag in [TAG_GROUP_IIOP, 0] {
            let components = vec![TaggedComponent { tag, data: data.clone() }];
            let profile = UipmcProfile { components, ..UipmcProfile::parse(PROFILE).unwrap() };
            assert_eq!(profile.answering(), Some(iiop.clone()));
        }
    }

    proptest! {
        #[test]
        fn any_bytes(data: Vec<u8>, head in 0usize..40) {
            let data = [&PROFILE[..head], &data].concat();
            let found = GroupRef::find(&data).map(GroupRef::to_group);
            if let Ok(profile) = UipmcProfile::parse(&data) {
                prop_assert_eq!(found, profile.group());
                prop_assert_eq!(UipmcProfile::parse(&profile.to_tagged().unwrap().data), Ok(profile));
            }
        }
    }
}
