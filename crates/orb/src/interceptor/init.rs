//! Registration, before the ORB exists (clause 16.7).

use super::slots::{PiCurrent, SlotId};
use super::{
    ClientChain, ClientRequestInterceptor, Interceptors, IorInterceptor, SecureComponent, ServerChain,
    ServerRequestInterceptor,
};
use crate::transports::{ADDED, Transports, check_order};
use crate::value_type::{ValueType, ValueTypes};
use crate::{Config, Object, SystemException};
use isorb_giop::Kind;
use isorb_transport::Transport;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A refused registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InitError {
    /// There is an interceptor of this kind and name already, or a transport of this name or
    /// profile tag.
    DuplicateName,
    /// The name of an initial reference is empty, or there is one of this name already.
    InvalidName,
}

impl fmt::Display for InitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            InitError::DuplicateName => {
                "DuplicateName: an interceptor of this kind and name is registered; give it another name or none"
            }
            InitError::InvalidName => "InvalidName: the name of an initial reference is empty or taken",
        })
    }
}

impl std::error::Error for InitError {}

impl From<InitError> for SystemException {
    fn from(error: InitError) -> SystemException {
        SystemException::from(Kind::Initialize).detail(error.to_string())
    }
}

/// Registers an ORB's interceptors and slots; from
/// [`OrbBuilder::register`](crate::OrbBuilder::register). The order of registration is the order of
/// calls.
#[derive(Default)]
pub struct OrbInitInfo {
    config: Config,
    arguments: Vec<String>,
    client: Vec<Arc<dyn ClientRequestInterceptor>>,
    server: Vec<Arc<dyn ServerRequestInterceptor>>,
    ior: Vec<Arc<dyn IorInterceptor>>,
    references: Vec<(String, Object)>,
    transports: Vec<Arc<dyn Transport>>,
    value_types: ValueTypes,
    #[cfg(feature = "interceptors")]
    secure_component: Option<Arc<dyn SecureComponent>>,
    slots: u32,
}

impl OrbInitInfo {
    pub(crate) fn new(config: Config, arguments: Vec<String>) -> OrbInitInfo {
        OrbInitInfo { config, arguments, ..OrbInitInfo::default() }
    }

    /// The configuration that the ORB will have.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The arguments without those of the ORB.
    pub fn arguments(&self) -> &[String] {
        &self.arguments
    }

    /// Registers an interceptor for the requests that the ORB sends.
    ///
    /// # Errors
    /// [`InitError::DuplicateName`].
    pub fn add_client_request_interceptor(
        &mut self,
        interceptor: Arc<dyn ClientRequestInterceptor>,
    ) -> Result<(), InitError> {
        add(&mut self.client, interceptor, |interceptor| interceptor.name())
    }

    /// Registers an interceptor for the requests that the ORB serves.
    ///
    /// # Errors
    /// [`InitError::DuplicateName`].
    pub fn add_server_request_interceptor(
        &mut self,
        interceptor: Arc<dyn ServerRequestInterceptor>,
    ) -> Result<(), InitError> {
        add(&mut self.server, interceptor, |interceptor| interceptor.name())
    }

    /// Registers an interceptor for the references that the ORB makes.
    ///
    /// # Errors
    /// [`InitError::DuplicateName`].
    pub fn add_ior_interceptor(&mut self, interceptor: Arc<dyn IorInterceptor>) -> Result<(), InitError> {
        add(&mut self.ior, interceptor, |interceptor| interceptor.name())
    }

    /// Makes `object` the initial reference `name`.
    ///
    /// # Errors
    /// [`InitError::InvalidName`].
    pub fn register_initial_reference(&mut self, name: &str, object: &Object) -> Result<(), InitError> {
        if name.is_empty() || self.references.iter().any(|(known, _)| known == name) {
            return Err(InitError::InvalidName);
        }
        self.references.push((name.into(), object.clone()));
        Ok(())
    }

    /// Adds a transport. Endpoints `giop:NAME:ADDRESS` listen by it, and calls use it for
    /// references with its profile tag, before TCP unless the configuration has another order.
    ///
    /// # Errors
    /// [`InitError::DuplicateName`] if another transport has this name or profile tag, and for the
    /// name `added`, which stands for all of them.
    pub fn add_transport(&mut self, transport: Arc<dyn Transport>) -> Result<(), InitError> {
        let own = Transports::new(&self.config.transport, self.transports.clone());
        let taken = transport.name() == ADDED || own.by_name(transport.name()).is_some();
        if taken || own.by_tag(transport.profile_tag()).is_some() {
            return Err(InitError::DuplicateName);
        }
        self.transports.push(transport);
        Ok(())
    }

    /// Adds a component to references, beside an address over TLS. There is one; the last counts.
    pub fn set_secure_component(&mut self, component: Arc<dyn SecureComponent>) {
        #[cfg(feature = "interceptors")]
        {
            self.secure_component = Some(component);
        }
        #[cfg(not(feature = "interceptors"))]
        drop(component);
    }

    /// Registers a valuetype, and with it those of the same IDL file that derive from it: where a
    /// value of any type is expected, or of a type that another file declares, a value of these can
    /// be read. The factory of a type that the ORB knows already takes its place.
    ///
    /// A parameter's own type, and what derives from it in its file, need no registration:
    /// `info.add_value_type(Leaf::value_type())` is for the others.
    pub fn add_value_type(&mut self, value_type: &'static ValueType) {
        self.value_types.add(value_type);
    }

    /// Lets `make` make servants of values behind abstract interfaces.
    pub(crate) fn add_value_servants(&mut self, make: Box<dyn std::any::Any + Send + Sync>) {
        self.value_types.add_servants(make);
    }

    /// A slot in the tables of [`PiCurrent`].
    pub fn allocate_slot_id(&mut self) -> SlotId {
        self.slots += 1;
        SlotId(self.slots - 1)
    }

    /// Checks what depends on the complete registration.
    ///
    /// # Errors
    /// A sentence.
    pub(crate) fn check(&self) -> Result<(), String> {
        check_order(&self.config.transport.protocols, &self.transports)
    }

    pub(crate) fn finish(self) -> (Config, Vec<String>, Initial) {
        static NUMBERS: AtomicUsize = AtomicUsize::new(1);
        let orb = NUMBERS.fetch_add(1, Ordering::Relaxed);
        let current = PiCurrent { orb, slots: self.slots as usize };
        let interceptors = Interceptors {
            client: ClientChain::new(self.client, current),
            server: ServerChain::new(self.server, current),
            ior: self.ior.into(),
            #[cfg(feature = "interceptors")]
            secure: self.secure_component,
            current,
        };
        let transports = Transports::new(&self.config.transport, self.transports);
        let (references, value_types) = (self.references, self.value_types);
        (self.config, self.arguments, Initial { interceptors, references, transports, value_types })
    }
}

/// Everything that was registered.
pub(crate) struct Initial {
    pub interceptors: Interceptors,
    pub references: Vec<(String, Object)>,
    pub transports: Transports,
    pub value_types: ValueTypes,
}

fn add<T: ?Sized>(
    to: &mut Vec<Arc<T>>,
    interceptor: Arc<T>,
    name: impl Fn(&T) -> &str,
) -> Result<(), InitError> {
    let new = name(&interceptor);
    if !new.is_empty() && to.iter().any(|known| name(known) == new) {
        return Err(InitError::DuplicateName);
    }
    to.push(interceptor);
    Ok(())
}

impl fmt::Debug for OrbInitInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OrbInitInfo")
            .field("client", &self.client.iter().map(|interceptor| interceptor.name()).collect::<Vec<_>>())
            .field("server", &self.server.iter().map(|interceptor| interceptor.name()).collect::<Vec<_>>())
            .field("ior", &self.ior.iter().map(|interceptor| interceptor.name()).collect::<Vec<_>>())
            .field("slots", &self.slots)
            .finish_non_exhaustive()
    }
}
