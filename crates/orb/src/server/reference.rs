//! References to objects of this ORB: one profile for each transport that the ORB listens at.

use super::Endpoints;
use crate::transports::{Published, ReferenceAddresses, TAG_TCP, secure};
use crate::{Object, Orb};
use isorb_giop::component::{Component, ORB_TYPE_ISORB, TaggedComponent};
use isorb_giop::{IiopProfile, Ior};

/// A reference to an object of this ORB.
pub(crate) fn make_reference(
    orb: &Orb,
    endpoints: Option<&Endpoints>,
    type_id: &str,
    key: Vec<u8>,
    at: ReferenceAddresses,
    added: &[TaggedComponent],
) -> Object {
    let ours = [Component::OrbType(ORB_TYPE_ISORB), Component::CodeSets(orb.config().code_sets())];
    let ours = ours.into_iter().flat_map(|component| component.to_tagged());
    let version = orb.config().giop_version();
    let mut profiles = Vec::new();
    let open = endpoints.filter(|_| at.tcp.is_none());
    let mut tcp = at
        .tcp
        .clone()
        .map_or_else(
            || endpoints.map_or_else(Vec::new, |endpoints| endpoints.published.clone()),
            |at| vec![at],
        )
        .into_iter();
    // Without an endpoint the reference names an unused address; without a profile it would be nil.
    let nowhere = || open.is_none_or(|open| open.local.is_empty()).then(|| ("127.0.0.1".into(), 0));
    let secure = open.iter().flat_map(|open| &open.secure).next();
    let plain_too = open.is_some_and(|open| !open.published.is_empty());
    let protected = secure.map(|(_, port)| secure::component(*port, plain_too));
    // A server that has TLS endpoints only names port 0 for plain TCP.
    let only_secure = || secure.map(|(host, _)| (host.clone(), 0));
    if at.names(TAG_TCP)
        && let Some((host, port)) = tcp.next().or_else(only_secure).or_else(nowhere)
    {
        let more = tcp.map(|(host, port)| Component::AlternateAddress { host, port });
        let more = more.chain(protected).flat_map(|component| component.to_tagged());
        let omni = open.filter(|_| at.local.is_none() && at.names(isorb_giop::profile::TAG_TAO_UIOP));
        let more = more.chain(omni.into_iter().flat_map(|open| open.for_omni.iter().cloned()));
        let added = added.iter().chain(&at.of_tcp).cloned();
        let components = ours.clone().chain(more).chain(added);
        #[cfg(feature = "interceptors")]
        let components =
            components.chain(secure.and_then(|secure| orb.server().interceptors.secure_component(secure)));
        let components = components.collect();
        let profile = IiopProfile { version, host, port, key: key.clone(), components };
        // Only a host with a zero octet cannot be written, and no socket listens there.
        profiles.extend(profile.to_tagged());
    }
    let mut local = |way: &Published, own: &[TaggedComponent]| {
        if at.names(way.route.tag) {
            let components = ours.clone().chain(added.iter().chain(own).cloned()).collect();
            profiles.extend(way.profile(version, key.clone(), components));
        }
    };
    match &at.local {
        Some(own) => own.iter().for_each(|(way, components)| local(way, components)),
        None => {
            let all = endpoints.into_iter().flat_map(|open| &open.local);
            all.for_each(|way| local(way, &[]));
        }
    }
    Object::new(orb, Ior { type_id: type_id.into(), profiles })
}
