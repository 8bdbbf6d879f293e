//! Roles: their members, and what these may do.

use crate::scope::{Permission, Scope, Subject};
use isorb_transport::{PeerIdentity, PeerProcess};
use std::fmt;
use std::net::IpAddr;

/// The identity of a caller.
#[derive(Clone, Copy, Debug)]
pub enum Caller<'a> {
    /// This process itself, which may do everything.
    Process,
    /// A peer, and the user of its process if the kernel vouches for one.
    Peer(&'a PeerIdentity, Option<u32>),
    /// The same, and the name under which the client authenticated itself.
    Principal(&'a PeerIdentity, Option<u32>, &'a str),
    /// An unknown sender, as with datagrams to a group.
    Unknown,
}

/// A role. A caller has all roles that it is a member of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Role {
    pub(crate) name: String,
    pub(crate) members: Vec<Member>,
    pub(crate) grants: Vec<Grant>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Member {
    Anyone,
    User(u32),
    /// The common name of a certificate, or a DNS name that it is valid for.
    Certificate(String),
    /// The name of an authenticated client.
    Principal(String),
    /// A network, by its address and the bits that count.
    Network(IpAddr, u8),
}

/// A permission, for everything or for a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    pub permission: Permission,
    pub scope: Option<Scope>,
}

/// The roles of a service. What no role grants is denied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    pub(crate) roles: Vec<Role>,
}

/// Why a policy is refused: where, what, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyError(pub(crate) String);

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for PolicyError {}

impl Policy {
    /// The policy without a file: everybody may do everything but administer. Callers of this
    /// process's user on this host, and of root, may do that too; with `open`, everybody.
    pub fn built_in(open: bool) -> Policy {
        let role = |name: &str, members: Vec<Member>, permissions: &[Permission]| Role {
            name: name.into(),
            members,
            grants: permissions
                .iter()
                .map(|permission| Grant { permission: *permission, scope: None })
                .collect(),
        };
        let own = vec![Member::User(PeerProcess::this().user), Member::User(0)];
        let [others @ .., administer] = Permission::ALL;
        let administrators = if open { vec![Member::Anyone] } else { own };
        Policy {
            roles: vec![
                role("everyone", vec![Member::Anyone], &others),
                role("administrators", administrators, &[administer]),
            ],
        }
    }

    /// The number of roles.
    pub fn roles(&self) -> usize {
        self.roles.len()
    }

    /// Whether the caller may do this, for everything or at least this subject. Without a subject:
    /// for everything.
    pub fn allows(&self, caller: Caller<'_>, permission: Permission, subject: Option<Subject<'_>>) -> bool {
        self.grants(caller).filter(|grant| grant.permission == permission).any(|grant| {
            match (&grant.scope, subject) {
                (None, _) => true,
                (Some(scope), Some(subject)) => scope.covers(subject),
                (Some(_), None) => false,
            }
        }) || matches!(caller, Caller::Process)
    }

    /// The permissions of a caller: a bit for each that it has at least in part, and one for each
    /// that it has for everything.
    pub(crate) fn bits(&self, caller: Caller<'_>) -> u32 {
        let of = |grant: &Grant| match grant.scope {
            None => grant.permission.some() | grant.permission.all(),
            Some(_) => grant.permission.some(),
        };
        match caller {
            Caller::Process => u32::MAX,
            _ => self.grants(caller).fold(0, |bits, grant| bits | of(grant)),
        }
    }

    fn grants<'p>(&'p self, caller: Caller<'p>) -> impl Iterator<Item = &'p Grant> {
        let of_caller = move |role: &&Role| role.members.iter().any(|member| member.is(caller));
        self.roles.iter().filter(of_caller).flat_map(|role| &role.grants)
    }
}

impl Member {
    fn is(&self, caller: Caller<'_>) -> bool {
        let (identity, user, principal) = match caller {
            Caller::Process => return true,
            Caller::Unknown => return *self == Member::Anyone,
            Caller::Peer(identity, user) => (identity, user, None),
            Caller::Principal(identity, user, name) => (identity, user, Some(name)),
        };
        match self {
            Member::Anyone => true,
            Member::User(number) => user == Some(*number),
            Member::Principal(name) => principal == Some(name),
            Member::Certificate(name) => identity
                .certificate
                .as_ref()
                .is_some_and(|of| of.common_name == *name || of.dns_names.contains(name)),
            Member::Network(network, bits) => identity
                .addresses
                .is_some_and(|(peer, _)| is_in(peer.ip().to_canonical(), network.to_canonical(), *bits)),
        }
    }
}

fn is_in(address: IpAddr, network: IpAddr, bits: u8) -> bool {
    let (address, network, width) = match (address, network) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (u128::from(a.to_bits()), u128::from(b.to_bits()), 32),
        (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits(), b.to_bits(), 128),
        _ => return false,
    };
    let ignored = width - u32::from(bits).min(width);
    (address ^ network).checked_shr(ignored).unwrap_or(0) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(address: &str) -> PeerIdentity {
        let address = address.parse().unwrap();
        PeerIdentity { addresses: Some((address, address)), ..PeerIdentity::default() }
    }

    #[test]
    fn without_a_file_the_own_user_and_root_administer() {
        let (near, policy) = (peer("127.0.0.1:9"), Policy::built_in(false));
        let own = PeerProcess::this().user;
        let may = |caller, permission| policy.allows(caller, permission, None);
        for stranger in [Caller::Unknown, Caller::Peer(&near, None), Caller::Peer(&near, Some(own + 1))] {
            assert!(may(stranger, Permission::Bind) && may(stranger, Permission::Read));
            assert!(!may(stranger, Permission::Administer), "{stranger:?}");
            assert!(Policy::built_in(true).allows(stranger, Permission::Administer, None));
        }
        for trusted in [Caller::Process, Caller::Peer(&near, Some(own)), Caller::Peer(&near, Some(0))] {
            assert!(may(trusted, Permission::Administer), "{trusted:?}");
        }
    }

    #[test]
    fn networks_are_compared_by_their_bits() {
        let member = Member::Network("10.1.0.0".parse().unwrap(), 16);
        for (address, inside) in
            [("10.1.2.3:1", true), ("10.2.0.1:1", false), ("[::ffff:10.1.2.3]:1", true), ("[::1]:1", false)]
        {
            assert_eq!(member.is(Caller::Peer(&peer(address), None)), inside, "{address}");
        }
        assert!(Member::Network("::".parse().unwrap(), 0).is(Caller::Peer(&peer("[::1]:1"), None)));
    }
}
