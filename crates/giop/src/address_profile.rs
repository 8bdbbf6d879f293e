//! Profiles with a text as address: TAO's unix sockets, and every transport that is not TCP.

use crate::component::{Component, TAG_CODE_SETS, TAG_LOCALITY, TAG_ORB_TYPE, TaggedComponent};
use crate::cursor::Cursor;
use crate::header::minor_version;
use crate::octets::{encapsulated, put_name, put_octets};
use crate::profile::TaggedProfile;
use alloc::string::String;
use alloc::vec::Vec;
use isorb_cdr::{Result, Version};

/// An object behind a transport with texts as addresses. The layout is that of TAO's profile for
/// unix sockets: version, rendezvous point, object key and, from 1.1 on, components.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressProfile {
    /// The transport's profile tag.
    pub tag: u32,
    /// Highest GIOP version that the server speaks.
    pub version: Version,
    /// The address in the transport's own form, such as a path.
    pub address: String,
    /// Object key, meaningful to the server only.
    pub key: Vec<u8>,
    /// Components; none before version 1.1.
    pub components: Vec<TaggedComponent>,
}

impl AddressProfile {
    /// Reads a profile that is known to have this layout. A later minor version is read as 1.2,
    /// which it extends.
    ///
    /// # Errors
    /// [`isorb_cdr::Error`]; [`isorb_cdr::ErrorKind::Value`] for a major version other than 1.
    pub fn parse(tagged: &TaggedProfile) -> Result<AddressProfile> {
        let c = &mut Cursor::encapsulation(&tagged.data)?;
        let version = crate::profile::version(c)?;
        let address = c.str()?.into();
        let key = c.octets()?.into();
        let components = if version == Version::V1_0 { Vec::new() } else { TaggedComponent::read_all(c)? };
        Ok(AddressProfile { tag: tagged.tag, version, address, key, components })
    }

    /// Writes the profile.
    ///
    /// # Errors
    /// [`isorb_cdr::Error`] for an address with a zero character in it.
    pub fn to_tagged(&self) -> Result<TaggedProfile> {
        let data = encapsulated(|e| {
            e.raw(&[1, minor_version(self.version)]);
            put_name(e, &self.address);
            put_octets(e, &self.key);
            if self.version > Version::V1_0 {
                TaggedComponent::write_all(&self.components, e);
            }
        })?;
        Ok(TaggedProfile { tag: self.tag, data })
    }

    /// The locality of the address, as the server published it: the host, and the address's
    /// identity on it.
    pub fn locality(&self) -> Option<(String, String)> {
        match self.known(TAG_LOCALITY)? {
            Component::Locality { host, identity } => Some((host, identity)),
            _ => None,
        }
    }

    /// The code sets that the server offers; `None` when it offers none or they are malformed.
    pub fn code_sets(&self) -> Option<crate::codeset::CodeSetComponentInfo> {
        match self.known(TAG_CODE_SETS)? {
            Component::CodeSets(info) => Some(info),
            _ => None,
        }
    }

    /// The ORB that wrote the profile, if the profile says so.
    pub fn orb_type(&self) -> Option<u32> {
        match self.known(TAG_ORB_TYPE)? {
            Component::OrbType(orb) => Some(orb),
            _ => None,
        }
    }

    fn known(&self, tag: u32) -> Option<Component> {
        Component::parse(self.components.iter().find(|component| component.tag == tag)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::TAG_TAO_UIOP;
    use alloc::vec;
    use proptest::prelude::*;

    #[test]
    fn golden() {
        // By hand, big endian: byte order, version 1.2, "/t" and its length, key "key" and its
        // length, one component (ORB type TAO).
        let data = b"\0\x01\x02\0\0\0\0\x03/t\0\0\0\0\0\x03key\0\0\0\0\x01\0\0\0\0\0\0\0\x08\0\0\0\0TAO\0";
        let tagged = TaggedProfile { tag: TAG_TAO_UIOP, data: data.to_vec() };
        let profile = AddressProfile::parse(&tagged).unwrap();
        assert_eq!((&*profile.address, &*profile.key), ("/t", &b"key"[..]));
        assert_eq!((profile.version, profile.orb_type()), (Version::V1_2, Some(0x5441_4f00)));
        assert_eq!(profile.locality(), None);
        assert_eq!(AddressProfile::parse(&profile.to_tagged().unwrap()), Ok(profile));
        let v2 = TaggedProfile { tag: TAG_TAO_UIOP, data: b"\0\x02\0\0\0\0\0\x01\0\0\0\0\0\0\0\0".to_vec() };
        assert!(AddressProfile::parse(&v2).is_err());
    }

    #[test]
    fn a_locality_comes_back() {
        let locality = Component::Locality { host: "boot".into(), identity: "1:2".into() };
        let components = vec![locality.to_tagged().unwrap()];
        let profile =
            AddressProfile { tag: 7, version: Version::V1_2, address: "x".into(), key: vec![], components };
        assert_eq!(profile.locality(), Some(("boot".into(), "1:2".into())));
        let old = AddressProfile { version: Version::V1_0, ..profile };
        assert_eq!(AddressProfile::parse(&old.to_tagged().unwrap()).unwrap().locality(), None);
    }

    proptest! {
        #[test]
        fn any_bytes(tag: u32, data: Vec<u8>) {
            if let Ok(profile) = AddressProfile::parse(&TaggedProfile { tag, data }) {
                prop_assert_eq!(AddressProfile::parse(&profile.to_tagged().unwrap()), Ok(profile));
            }
        }
    }
}
