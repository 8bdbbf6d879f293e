//! The ORB: one per process as a rule, several where a program wants them apart.

mod builder;
#[cfg(feature = "interface-repository")]
mod interface_lookup;
mod interfaces;
mod registration;
mod resolving;

pub use builder::OrbBuilder;
pub use registration::SERVER_TOKEN;

use crate::config::Config;
use crate::connection::Connection;
use crate::dispatch::{InterfaceDefinitions, ServerCore};
use crate::interceptor::{Initial, PiCurrent};
use crate::orb_core::{ClientCore, Orb};
use crate::poa::Poa;
use crate::sched::policy::PriorityBand;
use crate::server::{Endpoints, listens_by};
use crate::statistics::RequestStatistics;
use crate::transports::{TAG_TCP, TAG_TLS};
use crate::{
    Guard, LaneRequests, Object, OperationRequests, RequestForwarder, Result, SystemException,
    UnknownTargetObserver,
};
use isorb_any::{Any, AnyValue};
use isorb_rt::time::Deadline;
use isorb_scope::Scope;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// A connection over which an ORB serves requests.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServedConnection {
    /// The address of the client.
    pub peer: String,
    /// The priority band that the client announced for it.
    pub band: Option<PriorityBand>,
}

impl ServedConnection {
    fn of(connection: &Connection) -> ServedConnection {
        ServedConnection { peer: connection.peer().into(), band: connection.band() }
    }
}

/// Counts of the connections that an ORB accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConnectionCounts {
    /// Open ones.
    pub open: u64,
    /// How many may be open (`max_connections`).
    pub limit: u64,
    /// Accepted ever.
    pub accepted: u64,
    /// Refused, since all open ones were in use.
    pub refused: u64,
    /// Closed in order for a new one, since they were idle.
    pub evicted: u64,
    /// Requests that clients have at this ORB now. Counted with a limit for one client only
    /// (`max_peer_calls`, `max_peer_octets`), as the next two are.
    pub peer_calls: u64,
    /// Octets that messages of clients hold now.
    pub peer_octets: u64,
    /// Requests that were refused at a limit of their client.
    pub peer_refused: u64,
}

/// Octets of the message blocks of an ORB, without those that lanes reserve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BufferCounts {
    /// In use.
    pub in_use: u64,
    /// The most that may be in use (`memory_limit`).
    pub limit: u64,
}

impl Orb {
    /// Makes an ORB from a command line (`-ORB…` arguments), the environment and `isorb.toml`; see
    /// [`Config`](crate::Config). Same as [`Orb::builder`] with these arguments.
    ///
    /// # Errors
    /// As [`OrbBuilder::build`].
    pub fn init(args: impl IntoIterator<Item = String>) -> Result<Orb> {
        Orb::builder().arguments(args).build()
    }

    /// Makes an ORB with a configuration that the program made. Same as [`Orb::builder`] with this
    /// configuration.
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

    fn from_parts(
        config: Config,
        arguments: Vec<String>,
        initial: Initial,
        guard: Option<Arc<dyn Guard>>,
    ) -> Orb {
        let Initial { interceptors, references, transports, value_types } = initial;
        let client = ClientCore::new(config, transports, interceptors.client().is_some(), value_types);
        Orb::new(
            client,
            Box::new(ServerCore::new(
                arguments,
                interceptors,
                references,
                guard,
                InterfaceDefinitions::of_orb(),
            )),
        )
    }

    /// The arguments that [`Orb::init`] left over.
    pub fn arguments(&self) -> &[String] {
        &self.server().arguments
    }

    /// The root POA. The first call opens the endpoints and starts the threads that serve them.
    ///
    /// # Errors
    /// COMM_FAILURE when an endpoint cannot be opened, BAD_INV_ORDER after shutdown.
    pub fn root_poa(&self) -> Result<Poa> {
        self.check_running()?;
        if self.endpoints().is_none() {
            let _one = self.server().opening.lock();
            if self.endpoints().is_none() {
                self.find_repository()?;
                let endpoints = Arc::new(Endpoints::open(self)?);
                let _ = self.server().resources.endpoints.set(endpoints.clone());
                endpoints.start(self)?;
                self.begin_registration()?;
            }
        }
        self.server().registry.root(self)
    }

    /// Host and port of each open TCP endpoint, as references name them; none before
    /// [`Orb::root_poa`].
    pub fn endpoint_addresses(&self) -> Vec<(String, u16)> {
        self.endpoints().map_or_else(Vec::new, |endpoints| endpoints.published.clone())
    }

    /// The connections over which this ORB serves requests.
    ///
    /// # Real-time
    /// Allocates.
    pub fn served_connections(&self) -> Vec<ServedConnection> {
        let open = self.accepted().all().into_iter().filter(|connection| connection.is_open());
        open.map(|connection| ServedConnection::of(&connection)).collect()
    }

    /// Counts of the connections that this ORB accepted.
    ///
    /// # Real-time
    /// Allocates.
    pub fn connection_counts(&self) -> ConnectionCounts {
        let table = self.accepted();
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let (calls, octets) = table.peer_counts();
        ConnectionCounts {
            open: table.all().iter().filter(|connection| connection.is_open()).count() as u64,
            limit: self.config().max_connections as u64,
            accepted: count(&table.accepted),
            refused: count(&table.refused),
            evicted: count(&table.evicted),
            peer_calls: calls as u64,
            peer_octets: octets as u64,
            peer_refused: count(&table.requests_refused),
        }
    }

    /// Requests by lane, if `request_statistics` asks for them.
    ///
    /// # Real-time
    /// Allocates. Threads that serve requests do not wait for it.
    pub fn requests_by_lane(&self) -> Vec<LaneRequests> {
        self.statistics().map_or_else(Vec::new, RequestStatistics::lanes)
    }

    /// Requests by operation, if `request_statistics` asks for them.
    ///
    /// # Real-time
    /// Allocates. Threads that serve requests do not wait for it.
    pub fn requests_by_operation(&self) -> Vec<OperationRequests> {
        self.statistics().map_or_else(Vec::new, RequestStatistics::operations)
    }

    /// Notifies `observer` of oneway requests to objects that do not exist, as long as it lives.
    ///
    /// # Real-time
    /// Allocates. Requests to objects that do not exist take a PI lock from then on.
    pub fn observe_unknown_targets(&self, observer: Weak<dyn UnknownTargetObserver>) {
        let mut observers = self.server().unknown_targets.lock();
        observers.retain(|known| known.strong_count() > 0);
        observers.push(observer);
    }

    /// Lets `forwarder` say where the objects are that this ORB does not have. An ORB has one
    /// forwarder; a second one is not taken.
    ///
    /// # Errors
    /// BAD_INV_ORDER if the ORB has one.
    ///
    /// # Real-time
    /// Allocates nothing. Requests to objects that exist are not affected.
    pub fn set_request_forwarder(&self, forwarder: Arc<dyn RequestForwarder>) -> Result<()> {
        self.server().forwarder.set(forwarder).map_err(|_| {
            SystemException::from(isorb_giop::Kind::BadInvOrder)
                .detail("the ORB has a forwarder of requests already")
        })
    }

    /// The use of message blocks.
    ///
    /// # Real-time
    /// Reads two numbers.
    pub fn buffer_counts(&self) -> BufferCounts {
        BufferCounts { in_use: self.pool().out() as u64, limit: self.pool().limit() as u64 }
    }

    /// Transport and address of each open endpoint, in the transport's own form; none before
    /// [`Orb::root_poa`].
    pub fn endpoint_names(&self) -> Vec<(&'static str, String)> {
        self.endpoints().map_or_else(Vec::new, |endpoints| endpoints.names())
    }

    /// Whether the ORB's configuration has endpoints over TLS and none over plain TCP. Lanes of
    /// thread pools have no TLS, so such an ORB makes none unless its endpoint is named.
    ///
    /// # Real-time
    /// Allocates: for start-up.
    pub fn listens_only_over_tls(&self) -> bool {
        listens_by(self, TAG_TLS) && !listens_by(self, TAG_TCP)
    }

    /// Counts of the datagrams that this ORB's UDP endpoints and calls dropped.
    pub fn datagram_counts(&self) -> Arc<isorb_transport::DatagramCounts> {
        self.transports().datagrams().clone()
    }

    /// Serves until [`Orb::shutdown`], and until the requests that ran then are answered. Activates
    /// the root POA's manager if the program has not.
    ///
    /// # Real-time
    /// Blocks the calling thread, which serves only the requests of POAs with the main-thread
    /// model.
    pub fn run(&self) {
        if self.endpoints().is_some() {
            self.server().registry.activate_untouched_root();
        }
        if let Some(indirect) = self.server().resources.indirect() {
            indirect.serves();
        }
        self.server().registry.serve_main_thread();
        let (ended, changed) = &self.server().ended;
        let mut ended = ended.lock();
        while !*ended {
            changed.wait_until(&mut ended, Deadline::NONE);
        }
        drop(ended);
        // The caller may end the process.
        while self.accepted().all().iter().any(|connection| connection.is_closing()) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Runs one request of a POA with the main-thread model, waiting up to `timeout` for one;
    /// `false` when none came.
    ///
    /// # Real-time
    /// Blocks up to `timeout`, then for the upcall.
    pub fn perform_work(&self, timeout: Duration) -> bool {
        self.server().registry.main_thread().run_one(Deadline::after(timeout))
            == crate::poa::RunOutcome::Served
    }

    /// Lets clients reach `object` under a plain key, as in `corbaloc::host:port/NameService`.
    ///
    /// # Real-time
    /// Keys that this ORB made are not affected; a plain key costs one look-up under a PI lock.
    pub fn register_corbaloc_key(&self, key: &str, object: &Object) {
        self.server().plain_keys.lock().insert(key.as_bytes().to_vec(), object.clone());
    }

    /// Stops: POAs are deactivated and destroyed, their servants etherealised, connections closed
    /// in order. With `wait`, running upcalls are waited for; without, they go on, and their
    /// clients get their replies.
    ///
    /// # Errors
    /// BAD_INV_ORDER (OMG minor 3) with `wait` from inside an upcall, which would wait for itself.
    pub fn shutdown(&self, wait: bool) -> Result<()> {
        if !self.begin_shutdown() {
            return Ok(());
        }
        self.end_registration();
        if let Err(exception) = self.server().registry.shutdown(wait) {
            self.end_shutdown(true);
            return Err(exception);
        }
        if let Some(endpoints) = self.endpoints() {
            endpoints.close(self);
        }
        #[cfg(feature = "miop")]
        self.server().groups.close();
        self.server().resources.pools.close();
        self.sched().watchdog.stop();
        if let Some(lane) = self.server().client_lane.get() {
            lane.close();
        }
        let mut both_ways = Vec::new();
        self.peers().for_each_connection(|connection| {
            if connection.bidirectional.load(Ordering::Acquire) {
                both_ways.push(connection.clone());
            } else {
                connection.break_off();
            }
        });
        Connection::close_all(&both_ways);
        self.server().references.lock().clear();
        self.server().plain_keys.lock().clear();
        self.end_shutdown(false);
        self.server().interceptors.destroy();
        let (ended, changed) = &self.server().ended;
        *ended.lock() = true;
        changed.notify_all(ended);
        Ok(())
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

    /// The value in `any`, if it is a `T` or of a type equivalent to it. References in it belong to
    /// this ORB, so that they can be called; [`Any::get`] does for values without references.
    ///
    /// A reference is found as the type that the sender said, and as an [`Object`], which can be
    /// narrowed.
    ///
    /// # Real-time
    /// Allocates.
    pub fn extract<T: AnyValue>(&self, any: &Any) -> Option<T> {
        any.get_with(Some(self))
    }

    /// Finds the servant behind `key` and `operation` of its interface, as a request does, and
    /// releases them; for measurements of demultiplexing. False when a request would be refused.
    #[doc(hidden)]
    pub fn demultiplex(&self, key: &[u8], operation: &str) -> bool {
        let entered = self.server().registry.enter(key, operation);
        entered.is_ok_and(|e| e.servant().interface().operations.look_up(operation.as_bytes()).is_some())
    }

    /// The calling thread's slots, in which services pass what they know to their interceptors
    /// (PICurrent).
    pub fn pi_current(&self) -> PiCurrent {
        self.server().interceptors.current()
    }
}

impl fmt::Debug for Orb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Orb").field("endpoints", &self.endpoint_addresses()).finish_non_exhaustive()
    }
}
