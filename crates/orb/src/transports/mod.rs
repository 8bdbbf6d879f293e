//! The transports of an ORB, and the order in which a client tries a reference's addresses.

mod config;
pub(crate) mod omni;
mod route;
pub(crate) mod secure;

pub use config::TransportConfig;
pub(crate) use route::{Published, Route, address_profile, find};

use isorb_giop::component::TaggedComponent;
#[cfg(feature = "udp")]
use isorb_giop::{Header, MessageKind, Version};
use isorb_transport::{DatagramCounts, Tcp, Transport};
use std::sync::Arc;

/// The number of the component that has TLS addresses stands for this transport.
pub(crate) const TAG_TLS: u32 = isorb_giop::component::TAG_SSL_SEC_TRANS;

/// Profile tag of UDP.
pub(crate) const TAG_UDP: u32 = isorb_giop::profile::TAG_TAO_DIOP;

/// Profile tag of TCP.
pub(crate) const TAG_TCP: u32 = isorb_giop::profile::TAG_INTERNET_IOP;

/// The addresses in a reference. The default: all of the ORB's.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReferenceAddresses {
    /// A host and port instead of the ORB's.
    pub tcp: Option<(String, u16)>,
    /// Components of the profile with this address.
    pub of_tcp: Vec<TaggedComponent>,
    /// The transports that it names, by profile tag; `None` for all.
    pub tags: Option<Vec<u32>>,
    /// Addresses by other transports instead of the ORB's, with the components of their profiles.
    pub local: Option<Vec<(Published, Vec<TaggedComponent>)>>,
}

impl ReferenceAddresses {
    /// Whether it names addresses of this transport.
    pub fn names(&self, tag: u32) -> bool {
        self.tags.as_ref().is_none_or(|tags| tags.contains(&tag))
    }
}

/// The transports that an ORB has: its own, then those that were registered.
pub(crate) struct Transports {
    all: Vec<Arc<dyn Transport>>,
    order: Vec<u32>,
    datagrams: Arc<DatagramCounts>,
    #[cfg(feature = "miop")]
    groups: Arc<isorb_transport::Miop>,
}

/// Whether a datagram is one GIOP message and nothing else. There are no fragments in datagrams,
/// since they would be lost one by one.
#[cfg(feature = "udp")]
fn is_message(datagram: &[u8]) -> bool {
    let header = datagram.first_chunk().and_then(|head| Header::parse(head).ok());
    header.is_some_and(|header| {
        header.total() == datagram.len() && !header.more_fragments && header.kind != MessageKind::Fragment
    })
}

/// Whether a whole message expects a reply. For requests of GIOP 1.0 and 1.1 this is not known,
/// since the flag follows the service contexts.
#[cfg(feature = "udp")]
fn asks_for_answer(message: &[u8]) -> bool {
    /// Of GIOP 1.2, behind the request's number (CORBA 3.3 part 2, 9.4.2.2).
    const RESPONSE_FLAGS: usize = Header::LEN + 4;
    let header = message.first_chunk().and_then(|head| Header::parse(head).ok());
    header.is_some_and(|header| match header.kind {
        MessageKind::Request if header.version >= Version::V1_2 => {
            message.get(RESPONSE_FLAGS).is_some_and(|flags| flags & 1 == 1)
        }
        kind => kind == MessageKind::LocateRequest,
    })
}

impl Transports {
    pub fn new(config: &TransportConfig, more: Vec<Arc<dyn Transport>>) -> Transports {
        let mut all: Vec<Arc<dyn Transport>> = Vec::new();
        #[cfg(feature = "segments")]
        all.push(Arc::new(isorb_transport::Segments {
            bytes: config.segment_bytes,
            arena_bytes: config.segment_arena_bytes,
            spin: config.segment_spin(),
            mode: config.socket_mode,
            users: config.segment_users.clone(),
        }));
        #[cfg(feature = "unix")]
        all.push(Arc::new(isorb_transport::Unix { mode: config.socket_mode }));
        all.push(Arc::new(Tcp));
        let datagrams = Arc::<DatagramCounts>::default();
        #[cfg(feature = "udp")]
        all.push(Arc::new(isorb_transport::Udp {
            whole: is_message,
            expects_reply: asks_for_answer,
            peers: config.udp_peers,
            amplification: config.udp_amplification,
            counts: datagrams.clone(),
        }));
        #[cfg(feature = "miop")]
        let groups = Arc::new(config.miop());
        #[cfg(feature = "miop")]
        all.push(groups.clone());
        all.extend(more);
        let order = order(&all, &config.protocols);
        Transports {
            all,
            order,
            datagrams,
            #[cfg(feature = "miop")]
            groups,
        }
    }

    /// Counts of dropped datagrams.
    pub fn datagrams(&self) -> &Arc<DatagramCounts> {
        &self.datagrams
    }

    /// The transport to groups.
    #[cfg(feature = "miop")]
    pub fn groups(&self) -> &Arc<isorb_transport::Miop> {
        &self.groups
    }

    pub fn by_name(&self, name: &str) -> Option<&Arc<dyn Transport>> {
        self.all.iter().find(|transport| transport.name() == name)
    }

    pub fn by_tag(&self, tag: u32) -> Option<&Arc<dyn Transport>> {
        self.all.iter().find(|transport| transport.profile_tag() == tag)
    }

    /// Profile tags in order of preference. A protocol policy gives [`find`] another such list.
    /// Other tags are not used.
    pub fn order(&self) -> &[u32] {
        &self.order
    }
}

/// The names of the built-in transports; features leave some out.
const OWN: [&str; 5] = ["segment", "unix", "tcp", "udp", "miop"];

/// Stands in the order of protocols for all added transports that the order does not name.
pub(crate) const ADDED: &str = "added";

/// The tags of the transports in the order of `names`. Other transports are not used.
fn order(all: &[Arc<dyn Transport>], names: &[String]) -> Vec<u32> {
    let named = |name: &str| names.iter().any(|other| other == name);
    let mut order = Vec::new();
    for name in names {
        let meant = all.iter().filter(|transport| match name.as_str() {
            ADDED => !OWN.contains(&transport.name()) && !named(transport.name()),
            name => transport.name() == name,
        });
        order.extend(meant.map(|transport| transport.profile_tag()));
    }
    order
}

/// Checks an order of protocols. The built-in names are valid in every build, so that one
/// configuration file serves all builds.
///
/// # Errors
/// A sentence with the unknown name.
pub(crate) fn check_order(names: &[String], added: &[Arc<dyn Transport>]) -> Result<(), String> {
    let known = |name: &str| {
        name == ADDED || OWN.contains(&name) || added.iter().any(|transport| transport.name() == name)
    };
    match names.iter().find(|name| !known(name)) {
        None => Ok(()),
        Some(name) => Err(format!(
            "protocols names {name}, which is no transport of this ORB; there are {}, {ADDED} and those that were added with \
             OrbInitInfo::add_transport",
            OWN.join(", ")
        )),
    }
}
