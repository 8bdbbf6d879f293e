//! What a reference says about real time: the server's policies, and the addresses of its lanes.

use super::policy::{PriorityBand, PriorityModel, Protocol, RtPolicy, from_components};
use crate::{Result, SystemException};
use isorb_giop::component::{Component, TAG_TAO_ENDPOINTS, TaggedComponent};
use isorb_giop::{IiopProfile, Kind, minor};
use isorb_rt::priority::Priority;

/// Who says at which priority a call runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum Model {
    /// Nobody: the object is not a real-time one.
    #[default]
    None,
    /// The client; the server's priority is that of clients that are not real-time.
    Propagated(Priority),
    /// The server.
    Declared(Priority),
}

/// What a profile says about real time.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    pub model: Model,
    pub bands: Option<Vec<PriorityBand>>,
    pub protocols: Option<Vec<Protocol>>,
    /// The lanes' addresses, by priority, the profile's own among them.
    pub lanes: Vec<(Priority, (String, u16))>,
}

impl Facts {
    /// Reads a profile's components; `None` when they say nothing about real time.
    ///
    /// # Errors
    /// INV_OBJREF when they are malformed: who ignored them would call at any priority.
    pub fn read(profile: &IiopProfile) -> Result<Option<Facts>> {
        let malformed = |error: isorb_cdr::Error| {
            SystemException::from(Kind::InvObjref)
                .minor(minor::INV_OBJREF_MALFORMED)
                .detail(format!("the reference's real-time policies are malformed: {error}"))
        };
        let mut facts = Facts::default();
        for policy in from_components(&profile.components).map_err(malformed)? {
            match policy {
                RtPolicy::PriorityModel(policy) => {
                    // It was checked when it was read.
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
        let endpoints = |component: &&TaggedComponent| component.tag == TAG_TAO_ENDPOINTS;
        for component in profile.components.iter().filter(endpoints) {
            if let Component::TaoEndpoints(endpoints) = Component::parse(component).map_err(malformed)? {
                // TAO says a negative priority where an endpoint has none.
                let lanes = endpoints.into_iter().filter_map(|endpoint| {
                    Some((Priority::new(endpoint.priority)?, (endpoint.host, endpoint.port)))
                });
                facts.lanes.extend(lanes);
            }
        }
        Ok((facts != Facts::default()).then_some(facts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rt::policy::{PriorityModelPolicy, to_component};
    use isorb_cdr::Version;
    use isorb_giop::component::TaoEndpoint;

    fn profile(components: Vec<TaggedComponent>) -> IiopProfile {
        IiopProfile { version: Version::V1_2, host: "h".into(), port: 1, key: b"k".into(), components }
    }

    #[test]
    fn a_profile_says_it_or_not() {
        assert_eq!(Facts::read(&profile(vec![])), Ok(None));
        let model = PriorityModelPolicy { model: PriorityModel::ServerDeclared, server_priority: 7 };
        let bands = vec![PriorityBand { low: 1, high: 9 }];
        let policies = [RtPolicy::PriorityModel(model), RtPolicy::PriorityBands(bands.clone())];
        let policies = to_component(&policies).unwrap().unwrap();
        let endpoint = |port, priority| TaoEndpoint { host: "h".into(), port, priority };
        let lanes = Component::TaoEndpoints(vec![endpoint(1, 7), endpoint(2, 9), endpoint(3, -1)]);
        let facts =
            Facts::read(&profile(vec![policies.clone(), lanes.to_tagged().unwrap()])).unwrap().unwrap();
        let p = |value| Priority::new(value).unwrap();
        let expected = Facts {
            model: Model::Declared(p(7)),
            bands: Some(bands),
            protocols: None,
            lanes: vec![(p(7), ("h".into(), 1)), (p(9), ("h".into(), 2))],
        };
        assert_eq!(facts, expected);
        let cut = TaggedComponent { data: policies.data[..18].into(), ..policies };
        assert_eq!(Facts::read(&profile(vec![cut])).unwrap_err().kind, Kind::InvObjref);
    }
}
