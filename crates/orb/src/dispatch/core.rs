//! The server side of an ORB: what its layers below the POA reach by [`RequestHandler`].

use super::{InterfaceDefinitions, handle, request_priority};
use crate::buffers::CallBuffers;
use crate::connection::{Arrived, Connection};
use crate::interceptor::{Interceptors, components};
use crate::orb_core::{RequestHandler, SendReply};
use crate::poa::{ComponentSource, Refusal, Registry, with_wait_deadline};
use crate::pool::ServerResources;
use crate::server::{Endpoints, Lane};
use crate::transports::secure;
use crate::{Caller, Guard, Object, Orb, RequestForwarder, UnknownTargetObserver};
use isorb_giop::Ior;
use isorb_giop::context::{ListenPoint, listen_points};
use isorb_rt::priority::Priority;
use isorb_rt::sync::{PiCondvar, PiMutex};
use isorb_rt::time::Deadline;
use std::any::Any;
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock, Weak};

/// The server side of an ORB, with the settings that only the upper layers use.
pub(crate) struct ServerCore {
    /// The arguments that are not the ORB's.
    pub arguments: Vec<String>,
    pub interceptors: Interceptors,
    pub guard: Option<Arc<dyn Guard>>,
    pub registry: Registry,
    pub resources: Arc<ServerResources>,
    /// The multicast groups that objects of this ORB belong to.
    #[cfg(feature = "miop")]
    pub groups: super::Groups,
    /// Held while the endpoints are opened.
    pub opening: PiMutex<()>,
    /// Initial references.
    pub references: PiMutex<HashMap<String, Object>>,
    pub plain_keys: PiMutex<HashMap<Vec<u8>, Object>>,
    pub interface_definitions: InterfaceDefinitions,
    pub unknown_targets: PiMutex<Vec<Weak<dyn UnknownTargetObserver>>>,
    /// Knows other servers' objects, in an implementation repository.
    pub forwarder: OnceLock<Arc<dyn RequestForwarder>>,
    /// Whether the ORB was shut down.
    pub ended: (PiMutex<bool>, PiCondvar),
    /// The lane that reads replies for futures.
    pub client_lane: OnceLock<Arc<Lane>>,
}

impl Orb {
    #[inline]
    pub(crate) fn server(&self) -> &ServerCore {
        let handler: &dyn Any = self.handler();
        // Every ORB is made with one, by `Orb::from_parts`.
        handler.downcast_ref().unwrap_or_else(|| unreachable!())
    }

    pub(crate) fn endpoints(&self) -> Option<&Arc<Endpoints>> {
        self.server().resources.endpoints()
    }
}

impl ServerCore {
    pub fn new(
        arguments: Vec<String>,
        interceptors: Interceptors,
        references: Vec<(String, Object)>,
        guard: Option<Arc<dyn Guard>>,
        interface_definitions: InterfaceDefinitions,
    ) -> ServerCore {
        // Transient references of an earlier process must not find objects of this one.
        let epoch = isorb_rt::random_u64();
        let resources = Arc::<ServerResources>::default();
        let ior = interceptors.ior().to_vec();
        let source = move |name: &str, policies: &_| components(&ior, name, policies);
        let source: Option<ComponentSource> = match interceptors.ior() {
            [] => None,
            _ => Some(Box::new(source)),
        };
        ServerCore {
            arguments,
            guard,
            registry: Registry::new(epoch as u32, resources.clone(), source),
            interceptors,
            resources,
            #[cfg(feature = "miop")]
            groups: super::Groups::default(),
            opening: PiMutex::new(()),
            references: PiMutex::new(references.into_iter().collect()),
            plain_keys: PiMutex::default(),
            interface_definitions,
            unknown_targets: PiMutex::default(),
            forwarder: OnceLock::new(),
            ended: (PiMutex::new(false), PiCondvar::new()),
            client_lane: OnceLock::new(),
        }
    }

    /// The object behind a plain key.
    pub fn plain_key(&self, key: &[u8]) -> Option<Object> {
        self.plain_keys.lock().get(key).cloned()
    }

    /// The refusal of a request for an object that this ORB does not have: a forward, if its
    /// implementation repository knows the object's server.
    #[cold]
    pub fn forward(&self, orb: &Orb, key: &[u8], refusal: Refusal) -> Refusal {
        let Some(forwarder) = self.forwarder.get() else { return refusal };
        match forwarder.forward(orb, key) {
            Some(Ok(to)) => Refusal::Forward { to, permanent: false },
            Some(Err(exception)) => exception.into(),
            None => refusal,
        }
    }

    /// Notifies the observers of a oneway request to an object that does not exist. Returns true if
    /// its connection is to be broken off.
    #[cold]
    pub fn report_unknown_target(&self, operation: &str, caller: Caller<'_>) -> bool {
        // One after the other, and called without the lock.
        let observer = |at: usize| self.unknown_targets.lock().get(at).cloned();
        let observers = (0..).map_while(observer).filter_map(|observer| observer.upgrade());
        observers.fold(false, |ends, observer| ends | observer.unknown_target(operation, caller))
    }

    /// What to tell a server on the first request of a connection so that it may call back over it.
    pub(crate) fn offer_bidirectional(&self, orb: &Orb, connection: &Arc<Connection>) -> Option<Vec<u8>> {
        let endpoints = self.resources.endpoints()?;
        if connection.bidirectional.swap(true, Ordering::AcqRel) {
            return None;
        }
        let points =
            endpoints.published.iter().map(|(host, port)| ListenPoint { host: host.clone(), port: *port });
        let points: Vec<_> = points.collect();
        endpoints.read_also(orb, connection).ok()?;
        listen_points(&points).ok()
    }
}

impl RequestHandler for ServerCore {
    fn local_key(&self, ior: &Ior) -> Option<Vec<u8>> {
        let endpoints = self.resources.endpoints()?;
        let profiles = ior.iiop_profiles().flatten();
        let mut ours = profiles.filter(|profile| {
            endpoints.published.iter().any(|(host, port)| (host, *port) == (&profile.host, profile.port))
                || self.resources.pools.listen_at(&profile.host, profile.port)
        });
        let local = || {
            let mut ways = endpoints.local.iter();
            let at_all = ways.find_map(|way| ior.profiles.iter().find_map(|profile| way.key(profile)));
            at_all.or_else(|| {
                ior.profiles.iter().find_map(|profile| self.resources.pools.key_of_local(profile))
            })
        };
        let secure = || {
            let mut profiles = ior.iiop_profiles().flatten();
            let ours = profiles.find(|profile| {
                let port = secure::port(profile);
                endpoints.secure.iter().any(|(host, own)| *host == profile.host && Some(*own) == port)
            });
            ours.map(|profile| profile.key)
        };
        let indirect = || self.resources.indirect().and_then(|indirect| indirect.key_of_own(ior));
        let indirect = || indirect().filter(|key| self.registry.is_own(key));
        ours.next().map(|profile| profile.key).or_else(secure).or_else(local).or_else(indirect)
    }

    #[inline]
    fn exported(&self, ior: &Ior) {
        if self.registry.root_waits() && self.local_key(ior).is_some() {
            self.registry.activate_untouched_root();
        }
    }

    fn handle(
        &self,
        orb: &Orb,
        connection: &Arc<Connection>,
        arrived: Arrived,
        buffers: &mut CallBuffers,
        send: &mut SendReply<'_>,
    ) -> ControlFlow<()> {
        handle(self, orb, connection, arrived, buffers, send)
    }

    fn request_priority(&self, orb: &Orb, arrived: Arrived, buffers: &mut CallBuffers) -> Option<Priority> {
        request_priority(self, orb, arrived, buffers)
    }

    #[cfg(feature = "miop")]
    fn handle_group_request(
        &self,
        orb: &Orb,
        text: isorb_cdr::Text,
        arrived: Arrived,
        buffers: &mut CallBuffers,
    ) {
        super::joined::run(self, orb, text, arrived, buffers);
    }

    fn handle_local(
        &self,
        orb: &Orb,
        deadline: Deadline,
        arrived: Arrived,
        buffers: &mut CallBuffers,
        send: &mut SendReply<'_>,
    ) {
        // This process made the request, so it can be read.
        let _ = with_wait_deadline(deadline, || super::request(self, orb, None, arrived, buffers, send));
    }

    fn prepare_thread(&self) {
        super::prepare_thread();
    }
}
