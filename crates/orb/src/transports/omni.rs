//! Unix sockets in omniORB's form: a component of the IIOP profile with the host's name and the
//! path.
//!
//! A name is less than isorb's own references say of a path
//! ([`Locality`](isorb_transport::Locality)): two hosts may have the same. So these addresses are
//! tried after those that are sure.

use super::route::{ObjectAddresses, Route, Trust};
use super::{Published, Transports};
use isorb_giop::component::{Component, TAG_OMNIORB_UNIX_TRANS, TaggedComponent};
use isorb_giop::profile::{TAG_INTERNET_IOP, TAG_TAO_UIOP};
use isorb_giop::{IiopProfile, TaggedProfile};

/// This host's name, from `gethostname`.
fn own_name() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    Some(name.trim_end().to_owned()).filter(|name| !name.is_empty())
}

/// The components for omniORB in the IIOP profiles of a server with these addresses.
pub(crate) fn components(local: &[Published]) -> Vec<TaggedComponent> {
    let Some(host) = own_name().filter(|_| cfg!(feature = "unix")) else { return Vec::new() };
    let unix = local.iter().filter(|way| way.route.tag == TAG_TAO_UIOP);
    let unix_components =
        unix.map(|way| Component::OmniUnix { host: host.clone(), path: way.route.address.clone() });
    unix_components.flat_map(|component| component.to_tagged()).collect()
}

/// Whether an address is a stand-in: omniORB writes port 0 where it has a unix socket and no port.
pub(super) fn is_nowhere(profile: &IiopProfile, route: &Route) -> bool {
    cfg!(feature = "unix")
        && route.address.ends_with(":0")
        && profile.component(TAG_OMNIORB_UNIX_TRANS).is_some()
}

/// The unix socket that an IIOP profile names for this host, if it is there.
pub(super) fn read(profile: &TaggedProfile, transports: &Transports) -> Option<(ObjectAddresses, Trust)> {
    if !cfg!(feature = "unix") || profile.tag != TAG_INTERNET_IOP {
        return None;
    }
    let profile = IiopProfile::parse(&profile.data).ok()?;
    let component = profile.component(TAG_OMNIORB_UNIX_TRANS)?;
    let Ok(Component::OmniUnix { host, path }) = Component::parse(component) else { return None };
    transports.by_tag(TAG_TAO_UIOP)?.locality(&path).filter(|_| own_name().is_some_and(|own| own == host))?;
    let routes = vec![Route { tag: TAG_TAO_UIOP, address: path }];
    let (code_sets, orb_type) = (profile.code_sets(), profile.orb_type());
    Some((
        ObjectAddresses { routes, version: profile.version, code_sets, orb_type, key: profile.key },
        Trust::Perhaps,
    ))
}

#[cfg(all(test, feature = "unix"))]
mod tests {
    use super::*;
    use crate::transports::{TransportConfig, find};
    use isorb_giop::{Ior, Version};
    use isorb_transport::{Transport, Unix};

    fn routes(port: u16, component: Component, more: Vec<TaggedProfile>) -> Vec<(u32, String)> {
        let components = vec![component.to_tagged().unwrap()];
        let profile =
            IiopProfile { version: Version::V1_2, host: "lab".into(), port, key: b"k".into(), components };
        let profiles = [vec![profile.to_tagged().unwrap()], more].concat();
        let transports = Transports::new(&TransportConfig::default(), Vec::new());
        let ior = Ior { type_id: String::new(), profiles };
        let found = find(&ior, &transports, transports.order());
        found.map_or(Vec::new(), |found| found.routes.into_iter().map(|r| (r.tag, r.address)).collect())
    }

    #[test]
    fn a_socket_of_this_host_is_an_address() {
        let listener = Unix::default().listen("").unwrap();
        let path = listener.address().to_string();
        let locality = Unix::default().locality(&path);
        let ours = Published { route: Route { tag: TAG_TAO_UIOP, address: path.clone() }, locality };
        let component = Component::parse(&components(std::slice::from_ref(&ours))[0]).unwrap();
        let (tcp, unix) = ((0, "lab:7".to_owned()), (TAG_TAO_UIOP, path.clone()));
        assert_eq!(routes(7, component.clone(), vec![]), [tcp.clone(), unix.clone()]);
        assert_eq!(routes(0, component.clone(), vec![]), std::slice::from_ref(&unix));
        // Once, and first, if the reference also has its locality.
        let tao = ours.profile(Version::V1_2, b"k".into(), vec![]).unwrap();
        assert_eq!(routes(7, component, vec![tao]), [unix, tcp.clone()]);
        let elsewhere = Component::OmniUnix { host: "another host".into(), path };
        assert_eq!(routes(7, elsewhere.clone(), vec![]), [tcp]);
        assert_eq!(routes(0, elsewhere, vec![]), []);
    }
}
