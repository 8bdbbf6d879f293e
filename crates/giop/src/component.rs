//! Tagged components of a profile (clause 7.6.6).

use crate::codeset::CodeSetComponentInfo;
use crate::cursor::Cursor;
use crate::octets::{encapsulated, put_name, put_octets};
use alloc::string::String;
use alloc::vec::Vec;
use isorb_cdr::{Encoder, Result};

/// TAG_ORB_TYPE.
pub const TAG_ORB_TYPE: u32 = 0;
/// TAG_CODE_SETS.
pub const TAG_CODE_SETS: u32 = 1;
/// TAG_POLICIES.
pub const TAG_POLICIES: u32 = 2;
/// TAG_ALTERNATE_IIOP_ADDRESS.
pub const TAG_ALTERNATE_IIOP_ADDRESS: u32 = 3;
/// TAG_SSL_SEC_TRANS.
pub const TAG_SSL_SEC_TRANS: u32 = 20;
/// TAG_CSI_SEC_MECH_LIST; [`crate::csi::SecMechList`] reads it.
pub const TAG_CSI_SEC_MECH_LIST: u32 = 33;
/// TAG_NULL_TAG: no transport mechanism of CSIv2.
pub const TAG_NULL: u32 = 34;
/// TAG_TLS_SEC_TRANS, a transport mechanism of CSIv2.
pub const TAG_TLS_SEC_TRANS: u32 = 36;
/// TAO's list of endpoints, one for each lane; [`crate::lane_endpoints`] reads it.
pub const TAG_TAO_ENDPOINTS: u32 = 0x5441_4f02;
/// omniORB's address over a unix socket: the name of the host, and the path.
pub const TAG_OMNIORB_UNIX_TRANS: u32 = 0x4154_5402;
/// The locality of an address of one host: isorb's own component ("ISO\x01").
pub const TAG_LOCALITY: u32 = 0x4953_4f01;
/// The endpoints of lanes of transports that TAO does not have: isorb's own component ("ISO\x02").
pub const TAG_LANE_ENDPOINTS: u32 = 0x4953_4f02;

/// TAG_ORB_TYPE of omniORB ("ATT").
pub const ORB_TYPE_OMNIORB: u32 = 0x4154_5400;
/// TAG_ORB_TYPE of TAO ("TAO").
pub const ORB_TYPE_TAO: u32 = 0x5441_4f00;
/// TAG_ORB_TYPE of this ORB ("ISO").
pub const ORB_TYPE_ISORB: u32 = 0x4953_4f00;

/// The standard's name of a component tag; `None` when it is not known here.
pub fn tag_name(tag: u32) -> Option<&'static str> {
    Some(match tag {
        TAG_ORB_TYPE => "TAG_ORB_TYPE",
        TAG_CODE_SETS => "TAG_CODE_SETS",
        TAG_POLICIES => "TAG_POLICIES",
        TAG_ALTERNATE_IIOP_ADDRESS => "TAG_ALTERNATE_IIOP_ADDRESS",
        5 => "TAG_COMPLETE_OBJECT_KEY",
        6 => "TAG_ENDPOINT_ID_POSITION",
        12 => "TAG_LOCATION_POLICY",
        13 => "TAG_ASSOCIATION_OPTIONS",
        14 => "TAG_SEC_NAME",
        TAG_SSL_SEC_TRANS => "TAG_SSL_SEC_TRANS",
        21 => "TAG_CSI_ECMA_PUBLIC_SEC",
        25 => "TAG_JAVA_CODEBASE",
        27 => "TAG_FT_GROUP",
        28 => "TAG_FT_PRIMARY",
        29 => "TAG_FT_HEARTBEAT_ENABLED",
        TAG_CSI_SEC_MECH_LIST => "TAG_CSI_SEC_MECH_LIST",
        TAG_NULL => "TAG_NULL_TAG",
        TAG_TLS_SEC_TRANS => "TAG_TLS_SEC_TRANS",
        38 => "TAG_RMI_CUSTOM_MAX_STREAM_FORMAT",
        39 => "TAG_GROUP",
        40 => "TAG_GROUP_IIOP",
        TAG_TAO_ENDPOINTS => "TAO endpoint list",
        TAG_LOCALITY => "isorb locality",
        TAG_LANE_ENDPOINTS => "isorb endpoints of lanes",
        0x4154_5401 => "omniORB bidirectional",
        0x4154_5402 => "omniORB unix transport",
        0x4154_5403 => "omniORB persistent server id",
        0x4154_5404 => "omniORB connection restrictions",
        0x4154_5405 => "omniORB open communications transport",
        _ => return None,
    })
}

/// A component with its data as octets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaggedComponent {
    /// The component's tag.
    pub tag: u32,
    /// Its octets, mostly an encapsulation.
    pub data: Vec<u8>,
}

impl TaggedComponent {
    /// Reads a sequence of components.
    pub(crate) fn read_all(c: &mut Cursor<'_>) -> Result<Vec<TaggedComponent>> {
        let n = c.count(8)?;
        (0..n).map(|_| Ok(TaggedComponent { tag: c.u32()?, data: c.octets()?.into() })).collect()
    }

    /// Writes a sequence of components.
    pub(crate) fn write_all(components: &[TaggedComponent], e: &mut Encoder<'_>) {
        e.count(components.len());
        for component in components {
            e.put(component.tag);
            put_octets(e, &component.data);
        }
    }
}

/// A policy that a server publishes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyValue {
    /// Policy type.
    pub policy_type: u32,
    /// Its value, an encapsulation.
    pub value: Vec<u8>,
}

impl PolicyValue {
    pub(crate) fn read_all(c: &mut Cursor<'_>) -> Result<Vec<PolicyValue>> {
        let n = c.count(8)?;
        (0..n).map(|_| Ok(PolicyValue { policy_type: c.u32()?, value: c.octets()?.into() })).collect()
    }

    pub(crate) fn write_all(policies: &[PolicyValue], e: &mut Encoder<'_>) {
        e.count(policies.len());
        for policy in policies {
            e.put(policy.policy_type);
            put_octets(e, &policy.value);
        }
    }
}

/// A component with its meaning.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Component {
    /// The ORB that made the reference.
    OrbType(u32),
    /// Code sets of the server.
    CodeSets(CodeSetComponentInfo),
    /// Policies of the server.
    Policies(Vec<PolicyValue>),
    /// Another address of the same server.
    AlternateAddress {
        /// Host name or address.
        host: String,
        /// TCP port.
        port: u16,
    },
    /// The address for TLS (OMG Security, SSL tagged component).
    Ssl {
        /// Association options that the target supports, as bits.
        supports: u16,
        /// Association options that the target requires.
        requires: u16,
        /// TCP port.
        port: u16,
    },
    /// An address of omniORB's over a unix socket, for processes of that host.
    OmniUnix {
        /// The host's own name for itself.
        host: String,
        /// The socket.
        path: String,
    },
    /// The locality of the profile's address. A client may use the address if it finds the same two
    /// texts for it.
    Locality {
        /// The host, identified by its boot.
        host: String,
        /// The address's identity on the host.
        identity: String,
    },
    /// Any other component, unchanged.
    Unknown(TaggedComponent),
}

impl Component {
    /// Reads a component.
    ///
    /// # Errors
    /// [`isorb_cdr::Error`] when one of a known tag is malformed.
    pub fn parse(tagged: &TaggedComponent) -> Result<Component> {
        if !matches!(
            tagged.tag,
            TAG_ORB_TYPE
                | TAG_CODE_SETS
                | TAG_POLICIES
                | TAG_ALTERNATE_IIOP_ADDRESS
                | TAG_SSL_SEC_TRANS
                | TAG_LOCALITY
                | TAG_OMNIORB_UNIX_TRANS
        ) {
            return Ok(Component::Unknown(tagged.clone()));
        }
        let c = &mut Cursor::encapsulation(&tagged.data)?;
        Ok(match tagged.tag {
            TAG_ORB_TYPE => Component::OrbType(c.u32()?),
            TAG_CODE_SETS => Component::CodeSets(CodeSetComponentInfo::read(c)?),
            TAG_POLICIES => Component::Policies(PolicyValue::read_all(c)?),
            TAG_ALTERNATE_IIOP_ADDRESS => {
                Component::AlternateAddress { host: c.str()?.into(), port: c.u16()? }
            }
            TAG_LOCALITY => Component::Locality { host: c.str()?.into(), identity: c.str()?.into() },
            TAG_OMNIORB_UNIX_TRANS => Component::OmniUnix { host: c.str()?.into(), path: c.str()?.into() },
            _ => Component::Ssl { supports: c.u16()?, requires: c.u16()?, port: c.u16()? },
        })
    }

    /// Writes a component.
    ///
    /// # Errors
    /// [`isorb_cdr::Error`] for a host with a zero character in it.
    pub fn to_tagged(&self) -> Result<TaggedComponent> {
        let (tag, data) = match self {
            Component::OrbType(orb) => (TAG_ORB_TYPE, encapsulated(|e| e.put(*orb))),
            Component::CodeSets(sets) => (TAG_CODE_SETS, encapsulated(|e| sets.write(e))),
            Component::Policies(policies) => {
                (TAG_POLICIES, encapsulated(|e| PolicyValue::write_all(policies, e)))
            }
            Component::AlternateAddress { host, port } => (
                TAG_ALTERNATE_IIOP_ADDRESS,
                encapsulated(|e| {
                    put_name(e, host);
                    e.put(*port);
                }),
            ),
            Component::Ssl { supports, requires, port } => (
                TAG_SSL_SEC_TRANS,
                encapsulated(|e| [*supports, *requires, *port].into_iter().for_each(|v| e.put(v))),
            ),
            Component::OmniUnix { host, path } => (
                TAG_OMNIORB_UNIX_TRANS,
                encapsulated(|e| {
                    put_name(e, host);
                    put_name(e, path);
                }),
            ),
            Component::Locality { host, identity } => (
                TAG_LOCALITY,
                encapsulated(|e| {
                    put_name(e, host);
                    put_name(e, identity);
                }),
            ),
            Component::Unknown(tagged) => return Ok(tagged.clone()),
        };
        Ok(TaggedComponent { tag, data: data? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use proptest::prelude::*;

    fn tagged(tag: u32, data: &[u8]) -> TaggedComponent {
        TaggedComponent { tag, data: data.into() }
    }

    #[test]
    fn golden() {
        // Clause 7.6.6.1, big endian: byte order, padding, ulong.
        let orb = tagged(TAG_ORB_TYPE, b"\0\0\0\0TAO\0");
        assert_eq!(Component::parse(&orb), Ok(Component::OrbType(0x5441_4f00)));
        // Clause 7.10.2.4, little endian: native, conversions of char; native, conversions of
        // wchar.
        let sets =
            tagged(TAG_CODE_SETS, b"\x01\0\0\0\x01\0\x01\0\x01\0\0\0\x01\0\x01\x05\x09\x01\x01\0\0\0\0\0");
        let Ok(Component::CodeSets(info)) = Component::parse(&sets) else { panic!() };
        assert_eq!(
            (info.char_data.native, &info.char_data.conversion[..]),
            (0x0001_0001, &[0x0501_0001][..])
        );
        assert_eq!((info.wchar_data.native, info.wchar_data.conversion.len()), (0x0001_0109, 0));
        let address = tagged(TAG_ALTERNATE_IIOP_ADDRESS, b"\0\0\0\0\0\0\0\x02h\0\x0a\xf9");
        assert_eq!(
            Component::parse(&address),
            Ok(Component::AlternateAddress { host: "h".into(), port: 2809 })
        );
        let ssl = tagged(TAG_SSL_SEC_TRANS, b"\0\0\0\x66\0\x26\x02\xac");
        assert_eq!(Component::parse(&ssl), Ok(Component::Ssl { supports: 0x66, requires: 0x26, port: 684 }));
        // A policy's value is an encapsulation inside the encapsulation.
        let policies = tagged(TAG_POLICIES, b"\0\0\0\0\0\0\0\x01\0\0\0\x28\0\0\0\x02\0\x01");
        assert_eq!(
            Component::parse(&policies),
            Ok(Component::Policies(vec![PolicyValue { policy_type: 40, value: vec![0, 1] }]))
        );
        assert_eq!(
            Component::parse(&tagged(99, b"?")),
            Ok(Component::Unknown(tagged(99, b"?"))),
            "kept as it is"
        );
        assert!(Component::parse(&tagged(TAG_ORB_TYPE, b"")).is_err());
    }

    #[test]
    fn round_trips() {
        for component in [
            Component::OrbType(ORB_TYPE_ISORB),
            Component::CodeSets(CodeSetComponentInfo::ours()),
            Component::Policies(vec![
                PolicyValue { policy_type: 40, value: vec![1, 2, 3] },
                PolicyValue { policy_type: 45, value: vec![] },
            ]),
            Component::AlternateAddress { host: "fe80::1".into(), port: 1 },
            Component::Ssl { supports: 1, requires: 2, port: 3 },
            Component::Locality { host: "boot".into(), identity: "fe00:1".into() },
            Component::OmniUnix { host: "lab".into(), path: "/run/x".into() },
            Component::Unknown(tagged(77, &[1, 2])),
        ] {
            assert_eq!(Component::parse(&component.to_tagged().unwrap()), Ok(component));
        }
    }

    proptest! {
        #[test]
        fn any_bytes(tag in prop_oneof![0u32..40, Just(TAG_LOCALITY)], data: Vec<u8>) {
            if let Ok(component) = Component::parse(&TaggedComponent { tag, data }) {
                // What was read can be written and read again.
                prop_assert_eq!(Component::parse(&component.to_tagged().unwrap()), Ok(component));
            }
        }
    }
}
