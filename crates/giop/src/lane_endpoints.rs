//! The endpoints of a server's lanes, as a component of each profile lists them.
//!
//! The layout depends on the profile. TAO's lists hold host, port and priority where addresses have
//! ports, and path and priority for unix sockets. Other transports, isorb's segments among them,
//! use a component of isorb's own with the address as one text.

use crate::component::{TAG_LANE_ENDPOINTS, TAG_TAO_ENDPOINTS, TaggedComponent};
use crate::cursor::Cursor;
use crate::octets::{encapsulated, put_name};
use crate::profile::{TAG_INTERNET_IOP, TAG_TAO_DIOP, TAG_TAO_SCIOP, TAG_TAO_SHMIOP, TAG_TAO_UIOP};
use alloc::string::String;
use alloc::vec::Vec;
use isorb_cdr::Result;

/// An address with the CORBA priority of the lane that listens there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneEndpoint {
    /// Host name, path, or the address in the transport's own form.
    pub address: String,
    /// The port; 0 for transports without ports.
    pub port: u16,
    /// CORBA priority, 0 to 32767. TAO writes a negative number for an endpoint without one.
    pub priority: i16,
}

/// The component with the lanes of a profile with this tag, and whether its addresses have ports.
fn layout(profile: u32) -> Option<(u32, bool)> {
    match profile {
        TAG_INTERNET_IOP | TAG_TAO_DIOP | TAG_TAO_SHMIOP => Some((TAG_TAO_ENDPOINTS, true)),
        TAG_TAO_UIOP => Some((TAG_TAO_ENDPOINTS, false)),
        // Its entries are not read here, as nothing here speaks SCTP.
        TAG_TAO_SCIOP => None,
        _ => Some((TAG_LANE_ENDPOINTS, false)),
    }
}

/// Reads the list if `component` is one of lanes in a profile with the tag `profile`; `None` for
/// any other component. The first entry is the profile's own address.
///
/// # Errors
/// [`isorb_cdr::Error`] for a malformed list.
pub fn read(profile: u32, component: &TaggedComponent) -> Option<Result<Vec<LaneEndpoint>>> {
    let (_, ports) = layout(profile).filter(|(tag, _)| *tag == component.tag)?;
    Some(Cursor::encapsulation(&component.data).and_then(|mut c| read_list(&mut c, ports)))
}

fn read_list(c: &mut Cursor<'_>, ports: bool) -> Result<Vec<LaneEndpoint>> {
    let n = c.count(6)?;
    let one = |c: &mut Cursor<'_>| {
        let address = c.str()?.into();
        let port = if ports { c.u16()? } else { 0 };
        Ok(LaneEndpoint { address, port, priority: c.u16()?.cast_signed() })
    };
    (0..n).map(|_| one(c)).collect()
}

/// The component with these lanes for a profile with the tag `profile`; `None` if lanes cannot be
/// listed there.
///
/// # Errors
/// [`isorb_cdr::Error`] for an address with a zero character in it.
pub fn write(profile: u32, lanes: &[LaneEndpoint]) -> Result<Option<TaggedComponent>> {
    let Some((tag, ports)) = layout(profile) else { return Ok(None) };
    let data = encapsulated(|e| {
        e.count(lanes.len());
        for lane in lanes {
            put_name(e, &lane.address);
            if ports {
                e.put(lane.port);
            }
            e.put(lane.priority);
        }
    })?;
    Ok(Some(TaggedComponent { tag, data }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::TAG_ISORB_SEGMENTS;
    use alloc::vec;
    use proptest::prelude::*;

    #[test]
    fn the_profile_decides_the_layout() {
        let data = b"\0\0\0\0\0\0\0\x01\0\0\0\x02h\0\x0a\xf9\0\x07".to_vec();
        let component = TaggedComponent { tag: TAG_TAO_ENDPOINTS, data };
        let endpoint = |port, priority| vec![LaneEndpoint { address: "h".into(), port, priority }];
        assert_eq!(read(TAG_INTERNET_IOP, &component), Some(Ok(endpoint(2809, 7))));
        assert_eq!(read(TAG_TAO_UIOP, &component), Some(Ok(endpoint(0, 2809))));
        assert_eq!(read(TAG_TAO_SCIOP, &component), None, "not read here");
        assert_eq!(read(TAG_ISORB_SEGMENTS, &component), None, "not the component of segments");
        let cut = TaggedComponent { data: component.data[..17].into(), ..component };
        assert!(read(TAG_INTERNET_IOP, &cut).unwrap().is_err());
        assert_eq!(write(TAG_TAO_SCIOP, &[]), Ok(None));
    }

    #[test]
    fn round_trips() {
        for (profile, port) in
            [(TAG_INTERNET_IOP, 65535), (TAG_TAO_UIOP, 0), (TAG_ISORB_SEGMENTS, 0), (77, 0)]
        {
            let lanes = vec![LaneEndpoint { address: "/a".into(), port, priority: -1 }];
            let component = write(profile, &lanes).unwrap().unwrap();
            assert_eq!(read(profile, &component), Some(Ok(lanes)));
        }
    }

    proptest! {
        #[test]
        fn any_bytes(profile in prop_oneof![Just(0), Just(TAG_TAO_UIOP), Just(1)], data: Vec<u8>) {
            for tag in [TAG_TAO_ENDPOINTS, TAG_LANE_ENDPOINTS] {
                if let Some(Ok(lanes)) = read(profile, &TaggedComponent { tag, data: data.clone() }) {
                    let again = write(profile, &lanes).unwrap().unwrap();
                    prop_assert_eq!(read(profile, &again), Some(Ok(lanes)));
                }
            }
        }
    }
}
