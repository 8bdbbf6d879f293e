//! The real-time components of a reference: the server's policies, and the addresses of its lanes.

use crate::sched::policy::{PriorityBand, PriorityModel, Protocol, RtPolicy, from_components};
use crate::transports::{Route, address_profile};
use crate::{Result, SystemException};
use isorb_giop::component::TaggedComponent;
use isorb_giop::lane_endpoints;
use isorb_giop::profile::TAG_INTERNET_IOP;
use isorb_giop::{IiopProfile, Ior, Kind, minor};
use isorb_rt::priority::Priority;

/// The side that decides the priority of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum Model {
    /// None: the object is not a real-time one.
    #[default]
    None,
    /// The client; clients without real-time priorities get the server's.
    Propagated(Priority),
    /// The server.
    Declared(Priority),
}

/// The real-time components of a profile.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct RtComponents {
    pub model: Model,
    pub bands: Option<Vec<PriorityBand>>,
    pub protocols: Option<Vec<Protocol>>,
    /// The lanes' addresses, by priority, the profile's own among them.
    pub lanes: Vec<(Priority, Route)>,
}

impl RtComponents {
    /// The components of the first profile that has any, and the lanes of the others; `None`
    /// without any. Unreadable profiles are left to the search for addresses.
    ///
    /// # Errors
    /// INV_OBJREF for malformed policies: a client that ignored them would call at an arbitrary
    /// priority.
    pub fn of(ior: &Ior) -> Result<Option<RtComponents>> {
        let mut first: Option<RtComponents> = None;
        for profile in &ior.profiles {
            let components = match profile.tag {
                TAG_INTERNET_IOP => IiopProfile::parse(&profile.data).map(|profile| profile.components),
                _ => address_profile(profile).map(|profile| profile.components),
            };
            let facts = RtComponents::read(profile.tag, &components.unwrap_or_default())?;
            match (&mut first, facts) {
                (None, facts) => first = facts,
                (Some(first), Some(facts)) => {
                    let more = facts.lanes.into_iter().filter(|lane| !first.lanes.contains(lane));
                    let more: Vec<_> = more.collect();
                    first.lanes.extend(more);
                }
                (Some(_), None) => {}
            }
        }
        Ok(first)
    }

    /// Reads a profile's components. An unreadable list of endpoints costs the lanes only.
    ///
    /// # Errors
    /// INV_OBJREF.
    pub fn read(tag: u32, components: &[TaggedComponent]) -> Result<Option<RtComponents>> {
        let malformed = |error: isorb_cdr::Error| {
            SystemException::from(Kind::InvObjref)
                .minor(minor::INV_OBJREF_MALFORMED)
                .detail(format!("the reference's real-time policies are malformed: {error}"))
        };
        let mut facts = RtComponents::default();
        for policy in from_components(components).map_err(malformed)? {
            match policy {
                RtPolicy::PriorityModel(policy) => {
                    // The reader has checked it.
                    let priority = Priority::new(policy.server_priority).unwrap_or_default();
                    facts.model = match policy.model {
                        PriorityModel::ClientPropagated => Model::Propagated(priority),
                        PriorityModel::ServerDeclared => Model::Declared(priority),
                    };
                }
                RtPolicy::PriorityBands(bands) => facts.bands = Some(bands),
                RtPolicy::ClientProtocol(protocols) => facts.protocols = Some(protocols),
                _ => {}
            }
        }
        let lists = components.iter().filter_map(|component| lane_endpoints::read(tag, component)?.ok());
        facts.lanes.extend(lists.flatten().filter_map(|endpoint| {
            // TAO writes a negative priority for an endpoint without one.
            let priority = Priority::new(endpoint.priority)?;
            let route = match endpoint.port {
                0 if tag != TAG_INTERNET_IOP => Route { tag, address: endpoint.address },
                port => Route { tag, ..Route::tcp(&endpoint.address, port) },
            };
            Some((priority, route))
        }));
        Ok((facts != RtComponents::default()).then_some(facts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rt::policy::{PriorityModelPolicy, to_component};
    use isorb_cdr::Version;
    use isorb_giop::component::TAG_TAO_ENDPOINTS;
    use isorb_giop::lane_endpoints::LaneEndpoint;
    use isorb_giop::profile::{TAG_ISORB_SEGMENTS, TAG_TAO_UIOP};

    /// The lanes of a reference of TAO's with lanes 10, 20 and 30: all of its profiles are read.
    #[test]
    fn lanes_of_tao() {
        let text = include_str!("../../../../interop/golden/tao-iors.txt");
        for (group, lanes) in [("ior_iiop", 3), ("ior_uiop", 3), ("ior_iiop_uiop", 6), ("ior_diop", 3)] {
            let name = format!("# {group} client_propagated_lanes");
            let url = text.lines().skip_while(|line| **line != name).nth(1).unwrap();
            let facts = RtComponents::of(&url.parse().unwrap()).unwrap().unwrap();
            assert_eq!(facts.lanes.len(), lanes, "{group}: {facts:?}");
            let at = |(priority, route): &(Priority, Route)| {
                route.address.ends_with(&format!("{}", priority.get()))
            };
            assert!(facts.lanes.iter().all(at), "{group}: {facts:?}");
        }
    }

    fn ior(components: Vec<TaggedComponent>) -> Ior {
        let (version, host, key) = (Version::V1_2, "h".into(), b"k".into());
        Ior::iiop("", &IiopProfile { version, host, port: 1, key, components }).unwrap()
    }

    #[test]
    fn a_profile_says_it_or_not() {
        assert_eq!(RtComponents::of(&ior(vec![])), Ok(None));
        let model = PriorityModelPolicy { model: PriorityModel::ServerDeclared, server_priority: 7 };
        let bands = vec![PriorityBand { low: 1, high: 9 }];
        let policies = [RtPolicy::PriorityModel(model), RtPolicy::PriorityBands(bands.clone())];
        let policies = to_component(&policies).unwrap().unwrap();
        let endpoint = |port, priority| LaneEndpoint { address: "h".into(), port, priority };
        let list = |tag, lanes: &[LaneEndpoint]| lane_endpoints::write(tag, lanes).unwrap().unwrap();
        let lanes = list(TAG_INTERNET_IOP, &[endpoint(1, 7), endpoint(2, 9), endpoint(3, -1)]);
        let facts = RtComponents::of(&ior(vec![policies.clone(), lanes.clone()])).unwrap().unwrap();
        let p = |value| Priority::new(value).unwrap();
        let expected = || RtComponents {
            model: Model::Declared(p(7)),
            bands: Some(bands.clone()),
            protocols: None,
            lanes: vec![(p(7), Route::tcp("h", 1)), (p(9), Route::tcp("h", 2))],
        };
        assert_eq!(facts, expected());
        // Profiles of other transports add the lanes' addresses there.
        let path = |path: &str, priority| LaneEndpoint { address: path.into(), port: 0, priority };
        for tag in [TAG_TAO_UIOP, TAG_ISORB_SEGMENTS, 0x4953_4f10] {
            let mut both = ior(vec![policies.clone(), lanes.clone()]);
            let local = list(tag, &[path("/run/a", 7), path("/run/b", 9)]);
            let (version, address) = (Version::V1_2, "/run/a".into());
            let components = vec![policies.clone(), local];
            let profile = isorb_giop::AddressProfile { tag, version, address, key: b"k".into(), components };
            both.profiles.push(profile.to_tagged().unwrap());
            let at = |address: &str| Route { tag, address: address.into() };
            let mut more = expected();
            more.lanes.extend([(p(7), at("/run/a")), (p(9), at("/run/b"))]);
            assert_eq!(RtComponents::of(&both), Ok(Some(more)));
        }
        // A list that cannot be read costs the lanes, not the reference.
        let unreadable = TaggedComponent { tag: TAG_TAO_ENDPOINTS, data: vec![1, 2, 3] };
        let facts = RtComponents::of(&ior(vec![policies.clone(), unreadable])).unwrap().unwrap();
        assert_eq!(facts, RtComponents { lanes: vec![], ..expected() });
        let cut = TaggedComponent { data: policies.data[..18].into(), ..policies };
        assert_eq!(RtComponents::of(&ior(vec![cut])).unwrap_err().kind, Kind::InvObjref);
    }
}
