//! Limits for each client of a service: what one client may hold at a time.
//!
//! Without them a client that only does what it may takes all entries of a bounded table, and
//! others are refused. This counts; which client asks is for `guard` to say.

use crate::policy::Caller;
use isorb_rt::sync::PiMutex;
use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

/// A client, as far as limits tell clients apart: by the name under which it authenticated itself,
/// else by its certificate, its user on this host, or its address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Client {
    Principal(String),
    Certificate(String),
    User(u32),
    Address(IpAddr),
    Unknown,
}

impl Client {
    /// The client that calls; `None` for this process.
    pub fn of(caller: Caller<'_>) -> Option<Client> {
        let (identity, user) = match caller {
            Caller::Process => return None,
            Caller::Unknown => return Some(Client::Unknown),
            Caller::Principal(_, _, name) => return Some(Client::Principal(name.into())),
            Caller::Peer(identity, user) => (identity, user),
        };
        let certificate = identity.certificate.as_ref().map(|certificate| {
            let names = std::iter::once(&certificate.common_name).chain(&certificate.dns_names);
            names.into_iter().find(|name| !name.is_empty()).cloned().unwrap_or_default()
        });
        Some(match (certificate, user, identity.addresses) {
            (Some(name), ..) => Client::Certificate(name),
            (None, Some(user), _) => Client::User(user),
            (None, None, Some((peer, _))) => Client::Address(peer.ip().to_canonical()),
            (None, None, None) => Client::Unknown,
        })
    }
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Client::Principal(name) => write!(f, "the principal {name:?}"),
            Client::Certificate(name) => write!(f, "the client with the certificate {name:?}"),
            Client::User(number) => write!(f, "the user {number} of this host"),
            Client::Address(address) => write!(f, "the client at {address}"),
            Client::Unknown => f.write_str("a client without an address"),
        }
    }
}

/// The most of something that one client of a service may hold. A clone counts with the original.
///
/// Calls of the service's own process are not counted.
#[derive(Clone, Debug)]
pub struct PeerLimit(Arc<Counts>);

struct Counts {
    /// In the plural.
    what: &'static str,
    setting: &'static str,
    most: usize,
    /// Clients that hold none have no entry.
    held: PiMutex<HashMap<Client, usize>>,
}

impl fmt::Debug for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counts").field("what", &self.what).field("most", &self.most).finish_non_exhaustive()
    }
}

/// One of the things that a client holds, until it is dropped.
#[derive(Default)]
pub struct Share(Option<(PeerLimit, Client)>);

impl fmt::Debug for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Share").field(&self.0.as_ref().map(|(_, client)| client)).finish()
    }
}

impl PeerLimit {
    /// At most `most` for each client; 0 for no limit. `what` is its name in the plural, and
    /// `setting` what the operator sets: both stand in refusals.
    pub fn new(what: &'static str, setting: &'static str, most: usize) -> PeerLimit {
        PeerLimit(Arc::new(Counts { what, setting, most, held: PiMutex::default() }))
    }

    /// Whether there is none.
    pub fn is_none(&self) -> bool {
        self.0.most == 0
    }

    /// Counts one more of `client`; the error is a sentence for it.
    pub(crate) fn take_for(&self, client: Option<Client>) -> Result<Share, String> {
        let Some(client) = client.filter(|_| !self.is_none()) else { return Ok(Share(None)) };
        let Counts { what, setting, most, held } = &*self.0;
        let mut counts = held.lock();
        let count = counts.entry(client.clone()).or_default();
        if *count >= *most {
            return Err(format!(
                "{client} has {most} {what} already, as many as one client may have here ({setting})"
            ));
        }
        *count += 1;
        drop(counts);
        Ok(Share(Some((self.clone(), client))))
    }

    fn release(&self, client: &Client) {
        let mut held = self.0.held.lock();
        match held.get_mut(client) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(held.remove(client)),
        }
    }
}

impl Share {
    /// Whether this is a share of `client`.
    pub(crate) fn is_of(&self, client: Option<&Client>) -> bool {
        self.0.as_ref().map(|(_, holder)| holder) == client
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        if let Some((limit, client)) = &self.0 {
            limit.release(client);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isorb_transport::{PeerCertificate, PeerIdentity};

    fn at(address: [u8; 4]) -> Option<Client> {
        Some(Client::Address(IpAddr::from(address)))
    }

    #[test]
    fn a_client_at_its_limit_is_refused_and_another_is_not() {
        let limit = PeerLimit::new("bindings", "--max-peer-bindings", 2);
        let clone = limit.clone();
        let one = limit.take_for(at([10, 0, 0, 1])).unwrap();
        let two = clone.take_for(at([10, 0, 0, 1])).unwrap();
        let refused = limit.take_for(at([10, 0, 0, 1])).unwrap_err();
        assert!(
            refused.contains("10.0.0.1 has 2 bindings") && refused.contains("--max-peer-bindings"),
            "{refused}"
        );
        let other = limit.take_for(at([10, 0, 0, 2])).unwrap();
        assert!(other.is_of(at([10, 0, 0, 2]).as_ref()) && !other.is_of(at([10, 0, 0, 1]).as_ref()));
        drop(one);
        let again = limit.take_for(at([10, 0, 0, 1])).unwrap();
        drop((two, again, other));
        assert!(limit.0.held.lock().is_empty(), "clients that hold none take no memory");
    }

    #[test]
    fn no_limit_and_the_own_process_count_nothing() {
        let none = PeerLimit::new("bindings", "--max-peer-bindings", 0);
        let one = PeerLimit::new("bindings", "--max-peer-bindings", 1);
        let shares: Vec<Share> = (0..10)
            .flat_map(|_| [none.take_for(at([10, 0, 0, 1])), one.take_for(None)])
            .map(Result::unwrap)
            .collect();
        assert!(none.0.held.lock().is_empty() && one.0.held.lock().is_empty());
        drop(shares);
    }

    #[test]
    fn the_strongest_proof_names_the_client() {
        let address = ("10.0.0.1:7".parse().unwrap(), "10.0.0.9:2809".parse().unwrap());
        let mut identity = PeerIdentity { addresses: Some(address), ..PeerIdentity::default() };
        let of = |identity: &PeerIdentity, user| Client::of(Caller::Peer(identity, user));
        assert_eq!(of(&identity, None), at([10, 0, 0, 1]));
        assert_eq!(of(&identity, Some(7)), Some(Client::User(7)));
        let named = |common_name: &str| PeerCertificate {
            common_name: common_name.into(),
            dns_names: vec!["lab.example.org".into()],
            ..PeerCertificate::default()
        };
        identity.certificate = Some(Arc::new(named("lab")));
        assert_eq!(of(&identity, Some(7)), Some(Client::Certificate("lab".into())));
        identity.certificate = Some(Arc::new(named("")));
        assert_eq!(of(&identity, None), Some(Client::Certificate("lab.example.org".into())));
        let ada = Client::of(Caller::Principal(&identity, Some(7), "ada"));
        assert_eq!(ada, Some(Client::Principal("ada".into())));
        assert_eq!(of(&PeerIdentity::default(), None), Some(Client::Unknown));
        assert_eq!(Client::of(Caller::Process), None);
    }
}
