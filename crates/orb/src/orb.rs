//! The ORB: one per process as a rule, several where a program wants them apart.

mod builder;
mod resolving;

pub use builder::OrbBuilder;

use crate::config::Config;
use crate::connection::{Connection, Roll};
use crate::interceptor::{Initial, Interceptors, PiCurrent, TaggedComponent};
use crate::peer::{Peer, Peers, Routes};
use crate::poa::{Poa, Registry};
use crate::policy::{Effective, Policies, SharedPolicies};
use crate::rt::Setup;
use crate::rt::policy::PriorityBand;
use crate::server::Endpoints;
use crate::transports::{At, Published, Route, TAG_TCP, Transports, secure};
use crate::{Object, Result, SystemException};
use isorb_any::{Any, AnyValue};
use isorb_giop::component::{Component, ORB_TYPE_ISORB};
use isorb_giop::context::{ListenPoint, listen_points, read_listen_points};
use isorb_giop::{IiopProfile, Ior, Kind, minor};
use isorb_rt::sync::{PiCondvar, PiMutex};
use isorb_rt::time::Deadline;
use isorb_scope::{BufferPool, Scope};
use std::collections::HashMap;
use std::fmt;
use std::hint::cold_path;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// An object request broker. Cheap to clone; all clones are the same ORB.
///
/// Dropping the last clone does not end an ORB whose [root POA](Orb::root_poa) was asked for: its threads and POAs hold it, until
/// [`Orb::shutdown`]. After a `fork` only the process that made the ORB may use it: the other has none of its threads.
///
/// ```no_run
/// let orb = isorb::Orb::init(std::env::args())?;
/// let root = orb.root_poa()?;           // opens the endpoints
/// // root.activate(..)?, isorb_naming::Naming::initial(&orb)?.bind(..)?
/// orb.run();                            // until orb.shutdown(..)
/// # Ok::<(), isorb::SystemException>(())
/// ```
#[derive(Clone)]
pub struct Orb(Arc<Inner>);

/// A connection over which an ORB serves requests.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServedConnection {
    /// Who opened it.
    pub peer: String,
    /// The band of priorities that the peer said it uses it for.
    pub band: Option<PriorityBand>,
}

impl ServedConnection {
    fn of(connection: &Connection) -> ServedConnection {
        ServedConnection { peer: connection.peer().into(), band: connection.band() }
    }
}

struct Inner {
    config: Config,
    arguments: Vec<String>,
    policies: SharedPolicies,
    interceptors: Interceptors,
    rt_client: crate::rt::ClientState,
    registry: Registry,
    peers: Peers,
    transports: Transports,
    pool: Arc<BufferPool>,
    accepted: Arc<Roll>,
    #[cfg(feature = "miop")]
    groups: crate::groups::Groups,
    rt: crate::rt::State,
    endpoints: OnceLock<Arc<Endpoints>>,
    opening: PiMutex<()>,
    references: PiMutex<HashMap<String, Object>>,
    plain_keys: PiMutex<HashMap<Vec<u8>, Object>>,
    state: AtomicU8,
    ended: (PiMutex<bool>, PiCondvar),
}

const RUNNING: u8 = 0;
const STOPPING: u8 = 1;
const STOPPED: u8 = 2;

/// What message blocks may stay allocated while nobody uses them, in bytes.
const RETAIN: usize = 16 << 20;

impl Orb {
    /// Makes an ORB from a command line (`-ORB…` arguments), the environment and `isorb.toml`; see
    /// [`Config`](crate::Config). Same as [`Orb::builder`] with these arguments.
    ///
    /// # Errors
    /// As [`OrbBuilder::build`].
    pub fn init(args: impl IntoIterator<Item = String>) -> Result<Orb> {
        Orb::builder().arguments(args).build()
    }

    /// Makes an ORB with a configuration that the program made. Same as [`Orb::builder`] with this configuration.
    ///
    /// # Errors
    /// As [`OrbBuilder::build`].
    pub fn with_config(config: Config) -> Result<Orb> {
        Orb::builder().config(config).build()
    }

    /// Makes an ORB from a configuration, arguments and initializers.
    pub fn builder<'a>() -> OrbBuilder<'a> {
        OrbBuilder::default()
    }

    fn new(config: Config, arguments: Vec<String>, initial: Initial) -> Orb {
        let policies = config.policies();
        let rt = crate::rt::State::new(&config.real_time);
        let pool = BufferPool::new(config.memory_limit, RETAIN.min(config.memory_limit));
        // Transient references of an earlier process must not find objects of this one.
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let epoch = (since.as_nanos() as u64 ^ u64::from(std::process::id()) << 40) >> 8;
        Orb(Arc::new(Inner {
            config,
            arguments,
            policies: SharedPolicies::new(policies),
            interceptors: initial.interceptors,
            rt_client: crate::rt::ClientState::default(),
            registry: Registry::new(epoch as u32),
            peers: Peers::default(),
            transports: initial.transports,
            pool,
            accepted: Arc::default(),
            #[cfg(feature = "miop")]
            groups: crate::groups::Groups::default(),
            rt,
            endpoints: OnceLock::new(),
            opening: PiMutex::new(()),
            references: PiMutex::new(initial.references.into_iter().collect()),
            plain_keys: PiMutex::default(),
            state: AtomicU8::new(RUNNING),
            ended: (PiMutex::new(false), PiCondvar::new()),
        }))
    }

    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.0.config
    }

    /// The arguments that [`Orb::init`] left over.
    pub fn arguments(&self) -> &[String] {
        &self.0.arguments
    }

    /// The root POA. The first call opens the endpoints and starts the threads that serve them.
    ///
    /// # Errors
    /// COMM_FAILURE when an endpoint cannot be opened, BAD_INV_ORDER after shutdown.
    pub fn root_poa(&self) -> Result<Poa> {
        self.check_running()?;
        if self.0.endpoints.get().is_none() {
            let _one = self.0.opening.lock();
            if self.0.endpoints.get().is_none() {
                let endpoints = Arc::new(Endpoints::open(self)?);
                let _ = self.0.endpoints.set(endpoints.clone());
                endpoints.start(self)?;
            }
        }
        self.0.registry.root(self)
    }

    /// Host and port of each open TCP endpoint, as references name them; none before [`Orb::root_poa`].
    pub fn endpoint_addresses(&self) -> Vec<(String, u16)> {
        self.endpoints().map_or_else(Vec::new, |endpoints| endpoints.published.clone())
    }

    /// The connections over which this ORB serves requests, for those who look after a system.
    ///
    /// # Real-time
    /// Allocates.
    pub fn served_connections(&self) -> Vec<ServedConnection> {
        let open = self.0.accepted.all().into_iter().filter(|connection| connection.is_open());
        open.map(|connection| ServedConnection::of(&connection)).collect()
    }

    /// Transport and address of each open endpoint, in the transport's own form; none before [`Orb::root_poa`].
    pub fn endpoint_names(&self) -> Vec<(&'static str, String)> {
        self.endpoints().map_or_else(Vec::new, |endpoints| endpoints.names())
    }

    /// How many datagrams came to nothing at this ORB's UDP endpoints and calls.
    pub fn datagram_counts(&self) -> Arc<isorb_transport::DatagramCounts> {
        self.0.transports.datagrams().clone()
    }

    /// Serves until [`Orb::shutdown`], and until what ran then has been answered. Activates the root POA's manager if the program has
    /// not touched it.
    ///
    /// # Real-time
    /// Blocks the calling thread, which serves only the requests of POAs with the main-thread model.
    pub fn run(&self) {
        if self.0.endpoints.get().is_some() {
            self.0.registry.activate_untouched_root();
        }
        self.0.registry.serve_main_thread();
        let (ended, bell) = &self.0.ended;
        let mut ended = ended.lock();
        while !*ended {
            bell.wait_until(&mut ended, Deadline::NONE);
        }
        drop(ended);
        // Who returns from here may end the process.
        while self.0.accepted.all().iter().any(|connection| connection.is_closing()) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Runs one request of a POA with the main-thread model, waiting up to `timeout` for one; `false` when none came.
    ///
    /// # Real-time
    /// Blocks up to `timeout`, then for the upcall.
    pub fn perform_work(&self, timeout: Duration) -> bool {
        self.0.registry.main_queue().run_one(Deadline::after(timeout)) == crate::poa::Ran::One
    }

    /// Lets clients reach `object` under a plain key, as in `corbaloc::host:port/NameService`.
    ///
    /// # Real-time
    /// Keys that this ORB made are not affected; a plain key costs one look-up under a PI lock.
    pub fn register_corbaloc_key(&self, key: &str, object: &Object) {
        self.0.plain_keys.lock().insert(key.as_bytes().to_vec(), object.clone());
    }

    /// The object behind a plain key.
    pub(crate) fn plain_key(&self, key: &[u8]) -> Option<Object> {
        self.0.plain_keys.lock().get(key).cloned()
    }

    /// Stops: POAs are deactivated and destroyed, their servants etherealised, connections closed in order. With `wait`, running
    /// upcalls are waited for; without, they go on, and their clients get their replies.
    ///
    /// # Errors
    /// BAD_INV_ORDER (OMG minor 3) with `wait` from inside an upcall, which would wait for itself.
    pub fn shutdown(&self, wait: bool) -> Result<()> {
        if self.0.state.compare_exchange(RUNNING, STOPPING, Ordering::AcqRel, Ordering::Acquire).is_err() {
            return Ok(());
        }
        if let Err(exception) = self.0.registry.shutdown(wait) {
            self.0.state.store(RUNNING, Ordering::Release);
            return Err(exception);
        }
        if let Some(endpoints) = self.0.endpoints.get() {
            endpoints.close(self);
        }
        #[cfg(feature = "miop")]
        self.0.groups.close();
        self.0.rt.pools.close();
        self.0.rt.watchdog.stop();
        let mut both_ways = Vec::new();
        self.0.peers.for_each_connection(|connection| {
            if connection.bidirectional.load(Ordering::Acquire) {
                both_ways.push(connection.clone());
            } else {
                connection.break_off();
            }
        });
        Connection::close_all(&both_ways);
        self.0.references.lock().clear();
        self.0.plain_keys.lock().clear();
        self.0.state.store(STOPPED, Ordering::Release);
        self.0.interceptors.destroy();
        let (ended, bell) = &self.0.ended;
        *ended.lock() = true;
        bell.notify_all(ended);
        Ok(())
    }

    /// Whether [`Orb::shutdown`] was called.
    pub fn is_shut_down(&self) -> bool {
        self.0.state.load(Ordering::Acquire) != RUNNING
    }

    /// Runs `f` with a scope in which calls may place their results (`…_in`), without allocation.
    ///
    /// # Errors
    /// What `f` gives.
    pub fn scope<T, E: From<SystemException>>(
        &self,
        f: impl for<'s> FnOnce(&'s Scope<'s>) -> Result<T, E>,
    ) -> Result<T, E> {
        crate::invoke::call_scope(f)
    }

    /// The value in `any`, if it is a `T` or of a type equivalent to it. References in it belong to this ORB, so that they can be
    /// called; [`Any::get`] does for values without references.
    ///
    /// A reference is found as the type that the sender said, and as an [`Object`], which can be narrowed.
    ///
    /// # Real-time
    /// Allocates.
    pub fn extract<T: AnyValue>(&self, any: &Any) -> Option<T> {
        any.get_with(Some(self))
    }

    /// Finds the servant behind `key` and `operation` of its interface, as a request does, and lets go of them: what
    /// demultiplexing takes, for those who measure it. False where a request would be refused.
    #[doc(hidden)]
    pub fn demultiplex(&self, key: &[u8], operation: &str) -> bool {
        let entered = self.registry().enter(key, operation);
        entered.is_ok_and(|e| e.servant().interface().operations.look_up(operation.as_bytes()).is_some())
    }

    /// The real-time face of this ORB: thread pools, mutexes, priority mappings.
    pub fn rt(&self) -> crate::rt::RtOrb {
        crate::rt::RtOrb::new(self.clone())
    }

    #[inline]
    pub(crate) fn rt_state(&self) -> &crate::rt::State {
        &self.0.rt
    }

    /// The ORB's policies, the widest scope.
    pub fn policies(&self) -> Policies {
        self.0.policies.get()
    }

    #[inline]
    pub(crate) fn effective_policies(&self) -> Effective {
        self.0.policies.effective()
    }

    /// Sets the ORB's policies; what is `None` stays as it was.
    pub fn set_policies(&self, policies: Policies) {
        self.0.policies.set(policies);
    }

    /// A reference to an object of this ORB.
    pub(crate) fn make_reference(
        &self,
        type_id: &str,
        key: Vec<u8>,
        at: At,
        added: &[TaggedComponent],
    ) -> Object {
        let ours = [Component::OrbType(ORB_TYPE_ISORB), Component::CodeSets(self.config().code_sets())];
        let ours = ours.into_iter().flat_map(|component| component.to_tagged());
        let version = self.config().giop_version();
        let mut profiles = Vec::new();
        let open = if at.tcp.is_some() { None } else { self.endpoints() };
        let mut tcp = at.tcp.clone().map_or_else(|| self.endpoint_addresses(), |at| vec![at]).into_iter();
        // Who serves nothing still names an address that nobody listens at, since no profile would be the nil reference.
        let nowhere = || open.is_none_or(|open| open.local.is_empty()).then(|| ("127.0.0.1".into(), 0));
        let secure = open.iter().flat_map(|open| &open.secure).next();
        let plain_too = open.is_some_and(|open| !open.published.is_empty());
        let protected = secure.map(|(_, port)| secure::component(*port, plain_too));
        // A server that only speaks TLS has no port for others.
        let only_secure = || secure.map(|(host, _)| (host.clone(), 0));
        if at.names(TAG_TCP)
            && let Some((host, port)) = tcp.next().or_else(only_secure).or_else(nowhere)
        {
            let more = tcp.map(|(host, port)| Component::AlternateAddress { host, port });
            let more = more.chain(protected).flat_map(|component| component.to_tagged());
            let omni = open.filter(|_| at.local.is_none() && at.names(isorb_giop::profile::TAG_TAO_UIOP));
            let more = more.chain(omni.into_iter().flat_map(|open| open.for_omni.iter().cloned()));
            let added = added.iter().chain(&at.of_tcp).cloned();
            let components = ours.clone().chain(more).chain(added).collect();
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
                let all = self.endpoints().into_iter().flat_map(|open| &open.local);
                all.for_each(|way| local(way, &[]));
            }
        }
        Object::new(self, Ior { type_id: type_id.into(), profiles })
    }

    /// The object key in a reference to an object of this ORB.
    pub(crate) fn owns(&self, ior: &Ior) -> Option<Vec<u8>> {
        let endpoints = self.endpoints()?;
        let profiles = ior.iiop_profiles().flatten();
        let mut ours = profiles.filter(|profile| {
            endpoints.published.iter().any(|(host, port)| (host, *port) == (&profile.host, profile.port))
                || self.0.rt.pools.listen_at(&profile.host, profile.port)
        });
        let local = || {
            let mut ways = endpoints.local.iter();
            let at_all = ways.find_map(|way| ior.profiles.iter().find_map(|profile| way.key(profile)));
            at_all.or_else(|| ior.profiles.iter().find_map(|profile| self.0.rt.pools.key_of_local(profile)))
        };
        let secure = || {
            let mut profiles = ior.iiop_profiles().flatten();
            let ours = profiles.find(|profile| {
                let port = secure::port(profile);
                endpoints.secure.iter().any(|(host, own)| *host == profile.host && Some(*own) == port)
            });
            ours.map(|profile| profile.key)
        };
        ours.next().map(|profile| profile.key).or_else(secure).or_else(local)
    }

    /// The calling thread's slots, in which services pass what they know to their interceptors (PICurrent).
    pub fn pi_current(&self) -> PiCurrent {
        self.0.interceptors.current()
    }

    #[inline]
    pub(crate) fn interceptors(&self) -> &Interceptors {
        &self.0.interceptors
    }

    #[inline]
    pub(crate) fn rt_client(&self) -> &crate::rt::ClientState {
        &self.0.rt_client
    }

    pub(crate) fn registry(&self) -> &Registry {
        &self.0.registry
    }

    pub(crate) fn pool(&self) -> &Arc<BufferPool> {
        &self.0.pool
    }

    /// The connections that this ORB has accepted.
    pub(crate) fn accepted(&self) -> &Arc<Roll> {
        &self.0.accepted
    }

    /// The multicast groups that objects of this ORB belong to.
    #[cfg(feature = "miop")]
    pub(crate) fn joined_groups(&self) -> &crate::groups::Groups {
        &self.0.groups
    }

    pub(crate) fn transports(&self) -> &Transports {
        &self.0.transports
    }

    pub(crate) fn peer(&self, routes: Routes) -> Arc<Peer> {
        self.peer_by(routes, Setup::default())
    }

    /// The peer whose connections are apart from others by these routes.
    pub(crate) fn peer_by(&self, routes: Routes, setup: Setup) -> Arc<Peer> {
        self.0.peers.get(routes, setup)
    }

    /// A connection that served requests has ended.
    pub(crate) fn connection_ended(&self, connection: &Connection) {
        // It may stand among those that calls go out on.
        if connection.bidirectional.load(Ordering::Acquire) {
            self.0.peers.sweep();
        }
    }

    pub(crate) fn endpoints(&self) -> Option<&Arc<Endpoints>> {
        self.0.endpoints.get()
    }

    pub(crate) fn check_running(&self) -> Result<()> {
        if self.0.state.load(Ordering::Relaxed) == STOPPED { Err(stopped()) } else { Ok(()) }
    }

    /// What to tell a server on the first request of a connection so that it may call back over it.
    pub(crate) fn offer_bidirectional(&self, connection: &Arc<Connection>) -> Option<Vec<u8>> {
        if !self.config().bidirectional {
            return None;
        }
        cold_path();
        let endpoints = self.endpoints()?;
        if connection.bidirectional.swap(true, Ordering::AcqRel) {
            return None;
        }
        let points =
            endpoints.published.iter().map(|(host, port)| ListenPoint { host: host.clone(), port: *port });
        let points: Vec<_> = points.collect();
        endpoints.read_also(self, connection).ok()?;
        listen_points(&points).ok()
    }

    /// Uses a client's connection for calls to the addresses that it listens at, if this ORB is configured so.
    pub(crate) fn accept_bidirectional(&self, connection: &Arc<Connection>, data: &[u8]) {
        if !self.config().bidirectional || connection.bidirectional.swap(true, Ordering::AcqRel) {
            return;
        }
        if let Ok(points) = read_listen_points(data) {
            self.0.peers.adopt(
                points.iter().map(|point| Route::tcp(&point.host, point.port)).take(16).collect(),
                connection,
            );
        }
    }
}

impl PartialEq for Orb {
    fn eq(&self, other: &Orb) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for Orb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Orb").field("endpoints", &self.endpoint_addresses()).finish_non_exhaustive()
    }
}

#[cold]
fn stopped() -> SystemException {
    SystemException::from(Kind::BadInvOrder)
        .minor(minor::BAD_INV_ORDER_SHUTDOWN)
        .detail("the ORB was shut down")
}
