//! From a reference to the addresses to try.
//!
//! A local address, such as a path, is valid only where it means the server's socket. Its profile
//! names the host as it runs now and the file; the client checks that it finds the same. Otherwise
//! a path could lead to another server, on another host or in another container.

use super::{TAG_TCP, TAG_UDP, Transports, omni, secure};
use isorb_giop::codeset::CodeSetComponentInfo;
use isorb_giop::component::Component;
use isorb_giop::profile::TAG_INTERNET_IOP;
use isorb_giop::{AddressProfile, IiopProfile, Ior, TaggedProfile, Version};
use isorb_transport::Locality;

/// Where a connection may be opened: the transport's profile tag, and an address in its form.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Route {
    pub tag: u32,
    pub address: String,
}

impl Route {
    pub fn tcp(host: &str, port: u16) -> Route {
        let address = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
        Route { tag: TAG_TCP, address }
    }
}

/// An address that this ORB listens at and references carry in a profile of its transport.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Published {
    pub route: Route,
    pub locality: Option<Locality>,
}

impl Published {
    /// The profile of an object with this key.
    pub fn profile(
        &self,
        version: Version,
        key: Vec<u8>,
        mut components: Vec<isorb_giop::component::TaggedComponent>,
    ) -> isorb_cdr::Result<TaggedProfile> {
        if let Some(Locality { host, identity }) = self.locality.clone() {
            components.push(Component::Locality { host, identity }.to_tagged()?);
        }
        let Route { tag, address } = self.route.clone();
        if tag == TAG_UDP {
            let (host, port) = host_and_port(&address);
            let profile = IiopProfile { version, host, port, key, components }.to_tagged()?;
            return Ok(TaggedProfile { tag, ..profile });
        }
        AddressProfile { tag, version, address, key, components }.to_tagged()
    }

    /// The object key in `profile`, if the profile names this address.
    pub fn key(&self, profile: &TaggedProfile) -> Option<Vec<u8>> {
        if profile.tag != self.route.tag {
            return None;
        }
        let profile = address_profile(profile).ok()?;
        let locality = profile.locality().map(|(host, identity)| Locality { host, identity });
        (profile.address == self.route.address && locality == self.locality).then_some(profile.key)
    }
}

/// Host and port of an address that [`Route::tcp`] made, or that is in its form.
fn host_and_port(address: &str) -> (String, u16) {
    let (host, port) = address.rsplit_once(':').unwrap_or((address, "0"));
    (host.trim_start_matches('[').trim_end_matches(']').into(), port.parse().unwrap_or(0))
}

/// A profile of a transport other than TCP. That of UDP is laid out as IIOP's is.
///
/// # Errors
/// [`isorb_cdr::Error`].
pub(crate) fn address_profile(profile: &TaggedProfile) -> isorb_cdr::Result<AddressProfile> {
    if profile.tag != TAG_UDP {
        return AddressProfile::parse(profile);
    }
    let IiopProfile { version, host, port, key, components } = IiopProfile::parse(&profile.data)?;
    let Route { address, .. } = Route::tcp(&host, port);
    Ok(AddressProfile { tag: profile.tag, version, address, key, components })
}

/// The addresses of an object, from all its profiles.
#[derive(Clone, Debug)]
pub(crate) struct ObjectAddresses {
    /// In the order in which they are tried.
    pub routes: Vec<Route>,
    pub key: Vec<u8>,
    pub version: Version,
    pub code_sets: Option<CodeSetComponentInfo>,
    pub orb_type: Option<u32>,
}

impl ObjectAddresses {
    /// The same, for each transport apart.
    fn by_tag(mut self) -> Vec<(u32, ObjectAddresses)> {
        let mut parts: Vec<(u32, Vec<Route>)> = Vec::new();
        for route in std::mem::take(&mut self.routes) {
            match parts.iter_mut().find(|(tag, _)| *tag == route.tag) {
                Some((_, routes)) => routes.push(route),
                None => parts.push((route.tag, vec![route])),
            }
        }
        parts.into_iter().map(|(tag, routes)| (tag, ObjectAddresses { routes, ..self.clone() })).collect()
    }
}

/// How certain an address is, the best first: known to be the server's, or not known to be
/// another's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Trust {
    Sure,
    Perhaps,
}

struct Candidate {
    found: ObjectAddresses,
    trust: Trust,
    rank: usize,
}

/// The addresses of `ior` that transports of `order` reach. Profiles with the same key as the first
/// are the same object. `None` when there is none.
pub(crate) fn find(ior: &Ior, transports: &Transports, order: &[u32]) -> Option<ObjectAddresses> {
    let candidates = ior.profiles.iter().flat_map(|profile| {
        let read = read(profile, transports).into_iter().chain(omni::read(profile, transports));
        let found = read.flat_map(|(found, trust)| {
            found.by_tag().into_iter().map(move |(tag, found)| (tag, found, trust))
        });
        found.filter_map(|(tag, found, trust)| {
            let rank = order.iter().position(|known| *known == tag)?;
            Some(Candidate { found, trust, rank })
        })
    });
    let mut candidates: Vec<Candidate> = candidates.collect();
    let key = candidates.first()?.found.key.clone();
    candidates.retain(|candidate| candidate.found.key == key);
    // A path may occur twice: in a profile with its locality, and for omniORB.
    let sure: Vec<Route> = candidates
        .iter()
        .filter(|candidate| candidate.trust == Trust::Sure)
        .flat_map(|candidate| candidate.found.routes.clone())
        .collect();
    candidates.retain(|c| c.trust == Trust::Sure || !c.found.routes.iter().all(|route| sure.contains(route)));
    candidates.sort_by_key(|candidate| (candidate.trust, candidate.rank));
    let mut all = candidates.into_iter().map(|candidate| candidate.found);
    let mut found = all.next()?;
    for other in all {
        found.routes.extend(other.routes);
        found.code_sets = found.code_sets.or(other.code_sets);
        found.orb_type = found.orb_type.or(other.orb_type);
        found.version = found.version.min(other.version);
    }
    Some(found)
}

fn read(profile: &TaggedProfile, transports: &Transports) -> Option<(ObjectAddresses, Trust)> {
    if profile.tag == TAG_INTERNET_IOP {
        let profile = IiopProfile::parse(&profile.data).ok()?;
        let routes = secure::routes(&profile).filter(|route| !omni::is_nowhere(&profile, route)).collect();
        let (code_sets, orb_type) = (profile.code_sets(), profile.orb_type());
        let found =
            ObjectAddresses { routes, version: profile.version, code_sets, orb_type, key: profile.key };
        return Some((found, Trust::Sure));
    }
    let transport = transports.by_tag(profile.tag).filter(|transport| !transport.capabilities().multicast)?;
    let profile = address_profile(profile).ok()?;
    let trust = match (profile.locality(), transport.locality(&profile.address)) {
        _ if transport.capabilities().crosses_hosts => Trust::Sure,
        (Some((host, identity)), Some(here)) if host == here.host && identity == here.identity => Trust::Sure,
        // On this host, but the file is another: the server may have come back.
        (Some((host, _)), Some(here)) if host == here.host => Trust::Perhaps,
        // Another ORB's profile, without the file.
        (None, Some(_)) => Trust::Perhaps,
        _ => return None,
    };
    let (code_sets, orb_type) = (profile.code_sets(), profile.orb_type());
    let routes = vec![Route { tag: profile.tag, address: profile.address }];
    Some((ObjectAddresses { routes, version: profile.version, code_sets, orb_type, key: profile.key }, trust))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transports::TransportConfig;
    use isorb_transport::{Transport, Unix};

    fn transports() -> Transports {
        Transports::new(&TransportConfig::default(), Vec::new())
    }

    fn iiop() -> TaggedProfile {
        let profile = IiopProfile {
            version: Version::V1_2,
            host: "lab".into(),
            port: 7,
            key: b"k".into(),
            components: vec![],
        };
        profile.to_tagged().unwrap()
    }

    fn tags(profiles: Vec<TaggedProfile>, order: &[u32]) -> Vec<u32> {
        let ior = Ior { type_id: String::new(), profiles };
        find(&ior, &transports(), order).map_or(vec![], |f| f.routes.iter().map(|r| r.tag).collect())
    }

    #[test]
    fn a_path_is_taken_only_where_it_means_the_same() {
        let listener = Unix::default().listen("").unwrap();
        let address = listener.address().to_string();
        let locality = Unix::default().locality(&address).unwrap();
        let (unix, order) = (Unix::default().profile_tag(), transports().order().to_vec());
        let profile = |locality| {
            let route = Route { tag: unix, address: address.clone() };
            Published { route, locality }.profile(Version::V1_2, b"k".into(), vec![]).unwrap()
        };
        let elsewhere = Locality { host: "other".into(), ..locality.clone() };
        let earlier = Locality { identity: "other".into(), ..locality.clone() };
        assert_eq!(tags(vec![iiop(), profile(Some(locality.clone()))], &order), [unix, 0]);
        assert_eq!(tags(vec![iiop(), profile(Some(elsewhere.clone()))], &order), [0]);
        assert_eq!(tags(vec![iiop(), profile(Some(earlier.clone()))], &order), [0, unix]);
        assert_eq!(tags(vec![profile(None), iiop()], &order), [0, unix]);
        assert_eq!(tags(vec![profile(Some(earlier))], &order), [unix]);
        assert_eq!(tags(vec![profile(Some(elsewhere))], &order), Vec::<u32>::new());
        // A policy's order is followed, and other transports are not used.
        assert_eq!(tags(vec![iiop(), profile(Some(locality.clone()))], &[0, unix]), [0, unix]);
        assert_eq!(tags(vec![iiop(), profile(Some(locality.clone()))], &[0]), [0]);
        let ours =
            Published { route: Route { tag: unix, address: address.clone() }, locality: Some(locality) };
        assert_eq!(ours.key(&profile(ours.locality.clone())), Some(b"k".to_vec()));
        assert_eq!(ours.key(&profile(None)), None);
        drop(listener);
        assert_eq!(
            tags(vec![profile(ours.locality)], &order),
            Vec::<u32>::new(),
            "nothing is there any more"
        );
    }

    #[test]
    fn another_key_is_another_object() {
        let mut other = IiopProfile::parse(&iiop().data).unwrap();
        other.key = b"other".into();
        assert_eq!(tags(vec![iiop(), other.to_tagged().unwrap(), iiop()], &[0]), [0, 0]);
    }
}
