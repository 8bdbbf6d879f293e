//! Addresses over TLS: a component of the IIOP profile (OMG Security, TAG_SSL_SEC_TRANS) with a
//! port at the profile's host, and the protection that the server supports and requires.

use super::{Route, TAG_TCP, TAG_TLS};
use isorb_giop::IiopProfile;
use isorb_giop::component::Component;

/// Association options of the security service, as bits.
const NO_PROTECTION: u16 = 1;
const INTEGRITY: u16 = 2;
const CONFIDENTIALITY: u16 = 4;
const DETECT_REPLAY: u16 = 8;
const DETECT_MISORDERING: u16 = 16;
const TRUST_IN_TARGET: u16 = 32;
const TRUST_IN_CLIENT: u16 = 64;

/// The protection of TLS.
const PROTECTED: u16 = INTEGRITY | CONFIDENTIALITY | DETECT_REPLAY | DETECT_MISORDERING;

/// The component of a server that listens at `port` over TLS, and perhaps at another port without.
pub(crate) fn component(port: u16, plain_too: bool) -> Component {
    let certain = PROTECTED | TRUST_IN_TARGET | TRUST_IN_CLIENT;
    match plain_too {
        true => Component::Ssl { supports: certain | NO_PROTECTION, requires: NO_PROTECTION, port },
        false => Component::Ssl { supports: certain, requires: INTEGRITY | CONFIDENTIALITY, port },
    }
}

/// The port for TLS of a profile.
pub(crate) fn port(profile: &IiopProfile) -> Option<u16> {
    ssl(profile).map(|(_, port)| port)
}

/// The protection that the server requires, and the port.
fn ssl(profile: &IiopProfile) -> Option<(u16, u16)> {
    profile.components.iter().find_map(|tagged| match Component::parse(tagged) {
        Ok(Component::Ssl { requires, port, .. }) => Some((requires, port)),
        _ => None,
    })
}

/// All addresses of an IIOP profile: the one over TLS, if any, and the plain ones, unless the
/// server requires protection.
pub(crate) fn routes(profile: &IiopProfile) -> impl Iterator<Item = Route> {
    let ssl = ssl(profile);
    let secure = ssl.map(|(_, port)| Route { tag: TAG_TLS, ..Route::tcp(&profile.host, port) });
    let only_secure = ssl.is_some_and(|(requires, _)| requires & PROTECTED != 0);
    // Port 0 beside a port for TLS is no address.
    let plain = profile.addresses().filter(move |(_, port)| !only_secure && (ssl.is_none() || *port != 0));
    let plain: Vec<Route> = plain.map(|(host, port)| Route::tcp(&host, port)).collect();
    debug_assert!(plain.iter().all(|route| route.tag == TAG_TCP));
    secure.into_iter().chain(plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use isorb_giop::Version;

    fn tags(port: u16, components: &[Component]) -> Vec<(u32, String)> {
        let components = components.iter().map(|component| component.to_tagged().unwrap()).collect();
        let profile =
            IiopProfile { version: Version::V1_2, host: "lab".into(), port, key: b"k".into(), components };
        routes(&profile).map(|route| (route.tag, route.address)).collect()
    }

    #[test]
    fn protection_is_used_where_it_is_there_and_required_where_it_is_wanted() {
        assert_eq!(tags(7, &[]), [(TAG_TCP, "lab:7".into())]);
        assert_eq!(tags(7, &[component(8, true)]), [(TAG_TLS, "lab:8".into()), (TAG_TCP, "lab:7".into())]);
        assert_eq!(tags(0, &[component(8, false)]), [(TAG_TLS, "lab:8".into())]);
        // A port without TLS does not count where protection is required, nor port 0 anywhere
        // beside TLS.
        assert_eq!(tags(7, &[component(8, false)]), [(TAG_TLS, "lab:8".into())]);
        assert_eq!(tags(0, &[component(8, true)]), [(TAG_TLS, "lab:8".into())]);
        let more = Component::AlternateAddress { host: "other".into(), port: 9 };
        assert_eq!(tags(7, &[component(8, true), more]).len(), 3);
    }
}
