//! A node's server: it owns the segments, runs the agents, and talks to libraries, other nodes and
//! the coordinator.
//!
//! ```text
//!   libraries ──Lib_Comm──► areas     sessions, attachments, memory
//!       ▲   local socket      ▲
//!       └── descriptors       │
//!   other nodes ─CRM_Comm─► channels  both ends, admission ──► dispatching threads: agents, UDP
//!                             │
//!   coordinator ◄─Glob_Comm─ link     registration
//! ```
//!
//! The server has three owners: `areas`, `channels` and the link to the
//! coordinator. Each has a state machine without I/O under a lock of its own. `Node` has the
//! operations in which two owners take part.
//!
//! | thread | purpose | calls other processes |
//! |---|---|---|
//! | `memory-sessions` | sessions of libraries; all timers | no |
//! | `memory-handback` | adopts areas after a restart | the coordinator |
//! | `memory-register` | keeps the node registered | the coordinator |
//! | `memory-ping` | finds dead readers' nodes | other nodes |
//! | `memory-reopen` | opens silent channels again; one a node, while it lasts | other nodes |
//! | `memory-close` | closes the channels of an ended process | other nodes |
//! | `memory-orb-push` | pushes by calls; one a channel, urgent where that is guaranteed | the reader's node |
//! | `lane-N` of the ORB | receives guaranteed values by calls, from the first such channel on | no |
//! | `memory-disp-N` | dispatching thread: sends and receives datagrams | no |
//! | `memory-recv-N` | receives best effort beside a real-time dispatching thread | no |
//!
//! Set-up runs on the ORB's threads and may wait for other nodes. Values by datagrams never do.

mod areas;
mod channels;
mod config;
mod coordinator_link;
mod dispatcher;
mod doorbells;
mod failover;
mod measure;
mod multicast;
mod operations;
mod orb_path;
mod receive_sockets;
mod report;
mod servants;
mod status;
mod timers;

pub(crate) use areas::{idl_state, largest};
pub(crate) use channels::interval;
pub use config::{Limits, ServerConfig};
pub use dispatcher::{DispatcherConfig, StartError};
pub use measure::measure_costs;
pub(crate) use servants::{owned as owned_area, view as area_view};
pub use status::{AreaStatus, NodeStatus, PushStatus, ReplicaStatus, ValueStatus};

use crate::Error;
use crate::idl::{CRM_CommRef, Glob_CommRef, Lib_CommRef};
use crate::session_socket::Listener;
use areas::Areas;
use areas::sessions::Workers;
use channels::{Channels, Unanswered};
use coordinator_link::{CoordinatorLink, LinkAction};
use dispatcher::Dispatcher;
use isorb::{Orb, Policies, Reference};
use isorb_rt::sched::{SpawnError, Thread, ThreadSpec};
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use timers::Timers;

/// The socket at which libraries look for their node's server: `ISORB_MEMORY_SOCKET`, or
/// `isorb-memory.socket` in a folder of the user: `XDG_RUNTIME_DIR`, else `isorb-UID` in the
/// temporary folder. Both ends refuse such a folder if other users can write to it.
pub fn default_socket() -> PathBuf {
    crate::session_socket::default_path()
}

/// A node's server in this process. It ends when it is dropped. Areas live on in the processes that
/// use them.
pub struct NodeServer {
    node: Arc<Node>,
    listener: Arc<Listener>,
    threads: Vec<Thread<()>>,
    /// The server's objects, which end with it.
    poa: isorb::poa::Poa,
    objects: Vec<isorb::poa::ObjectId>,
}

/// The three owners of a node's server, and the driver of their timers.
pub(crate) struct Node {
    config: ServerConfig,
    areas: Arc<Areas>,
    channels: Arc<Channels>,
    link: Arc<CoordinatorLink>,
    timers: Arc<Timers>,
    /// The reference that libraries get.
    lib_comm: OnceLock<String>,
    stop: AtomicBool,
    accept_failures: AtomicU64,
    accept_exhausted: AtomicBool,
    /// The thread of sessions and timers cannot wait for them.
    sessions_fail: AtomicBool,
}

impl NodeServer {
    /// Starts the server: its threads, its objects below the ORB's root POA, its local socket.
    ///
    /// # Errors
    /// What the system or the ORB refused; [`Error::Os`] with ADDRINUSE where a server listens at
    /// the socket already; [`Error::Caller`] where another file is at its path, or the configured
    /// silence is shorter than two heartbeats or longer than a day; [`Error::Unavailable`] where
    /// the coordinator knows another live server of this name.
    pub fn start(
        orb: &Orb,
        config: ServerConfig,
        coordinator: Option<Glob_CommRef>,
    ) -> Result<NodeServer, Error> {
        config.check()?;
        let listener = Arc::new(Listener::at(&config.socket)?);
        let timers = Arc::new(Timers::new()?);
        let areas = Arc::new(Areas::new(config.limits));
        let link = Arc::new(CoordinatorLink::new(coordinator.as_ref(), &config.name, config.answer));
        let channels = Channels::start(config.clone(), areas.clone(), link.clone(), timers.clone(), orb)?;
        let node = Arc::new(Node {
            config,
            areas,
            channels: Arc::new(channels),
            link,
            timers,
            lib_comm: OnceLock::new(),
            stop: AtomicBool::new(false),
            accept_failures: AtomicU64::new(0),
            accept_exhausted: AtomicBool::new(false),
            sessions_fail: AtomicBool::new(false),
        });
        node.channels.lane.serve(&node);
        let poa = orb.root_poa()?;
        let servant = || Arc::new(servants::Servant { node: node.clone() });
        let lib_comm: Lib_CommRef = poa.activate(servant()).map_err(Error::setup)?;
        let server: CRM_CommRef = poa.activate(servant()).map_err(Error::setup)?;
        let _ = node.lib_comm.set(lib_comm.object().to_string());
        let objects = [poa.reference_to_id(lib_comm.object()), poa.reference_to_id(server.object())];
        let objects = objects.into_iter().flatten().collect();
        node.link.set_server(server);
        poa.manager().activate().map_err(Error::setup)?;
        // Dropping it ends the parts that were started, if the rest fails.
        let mut server = NodeServer { node, listener, threads: Vec::new(), poa, objects };
        // A coordinator that does not answer now is called again later.
        if let Err(refused @ Error::Unavailable(_)) = server.node.register() {
            return Err(refused);
        }
        server.start_threads()?;
        Ok(server)
    }

    fn start_threads(&mut self) -> Result<(), Error> {
        let (hand_backs, requests) = areas::queue(self.node.config.limits.sessions);
        let ((coordinator, calls), (pings, rounds)) = (sync_channel(1), sync_channel(1));
        let workers = Workers { hand_backs, coordinator, pings };
        let (node, listener) = (self.node.clone(), self.listener.clone());
        self.threads.push(spawn_supervised("memory-sessions", move || {
            node.clone().serve_sessions(&listener, &workers)
        })?);
        let node = self.node.clone();
        self.threads.push(spawn_supervised("memory-handback", move || node.adopt_all(&requests))?);
        let node = self.node.clone();
        let register = move || calls.iter().for_each(|()| node.call_coordinator());
        self.threads.push(spawn_supervised("memory-register", register)?);
        let channels = self.node.channels.clone();
        let ping = move || {
            let mut unanswered = Unanswered::new();
            rounds.iter().for_each(|()| channels.ping_readers(&mut unanswered));
        };
        self.threads.push(spawn_supervised("memory-ping", ping)?);
        Ok(())
    }

    /// The reference that other nodes' servers call.
    pub fn object(&self) -> Option<&CRM_CommRef> {
        self.node.link.server()
    }

    /// The addresses of the dispatching threads' datagrams.
    pub fn datagram_addresses(&self) -> Vec<SocketAddr> {
        self.node.channels.dispatchers().iter().map(Dispatcher::address).collect()
    }

    /// Whether libraries can begin sessions and the timers of the node run. False while the system
    /// refuses to wait for them, which is logged and tried again.
    ///
    /// # Real-time
    /// Neither allocates nor blocks.
    pub fn is_serving(&self) -> bool {
        !self.node.sessions_fail.load(Ordering::Relaxed)
    }

    /// Areas, sessions, attachments and outgoing channels.
    pub fn counts(&self) -> (usize, usize, usize, usize) {
        let (areas, sessions, attachments) = self.node.areas.lock().counts();
        (areas, sessions, attachments, self.node.channels.lock().count())
    }
}

impl Drop for NodeServer {
    fn drop(&mut self) {
        self.node.stop.store(true, Ordering::Release);
        self.node.timers.poller.wake_for_good();
        // The session thread has the other ends of the workers' queues, so they end after it.
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        self.node.channels.stop();
        for object in &self.objects {
            let _ = self.poa.deactivate_object(object);
        }
        self.node.areas.lock().close_all_sessions();
        self.listener.remove_file();
    }
}

impl Node {
    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Checks that the coordinator knows this node and all of its areas.
    fn call_coordinator(&self) {
        if self.link.next_action() == LinkAction::Register || !self.link.is_known() {
            // If it fails, it is repeated a second later.
            let _ = self.register();
        }
    }

    /// Registers the node and its areas. Areas that were adopted unconfirmed, and that another node
    /// has, are withdrawn.
    fn register(&self) -> Result<(), Error> {
        let (areas, revision) = self.areas.lock().to_register();
        let Some(mut registered) = self.link.register(&areas)? else { return Ok(()) };
        let elsewhere = std::mem::take(&mut registered.elsewhere);
        let withdrawn = self.areas.lock().confirm(&areas, elsewhere, revision);
        if let Some(withdrawn) = withdrawn {
            self.link.confirm(&registered);
            withdrawn.iter().for_each(|name| self.withdraw(name));
        }
        Ok(())
    }
}

impl fmt::Debug for NodeServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeServer").field("name", &self.node.config.name).finish_non_exhaustive()
    }
}

/// A number that cannot be guessed.
pub(crate) fn secret() -> u64 {
    isorb_rt::random_u64()
}

/// The same object with a time-out for its calls.
pub(crate) fn timed<T: Reference>(object: &T, answer: Duration) -> T {
    let policies = Policies { round_trip_timeout: Some(answer), ..Policies::default() };
    object.object().with_policies(policies).unchecked_narrow()
}

/// Starts a thread that ends.
fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<Thread<()>, Error> {
    started(name, ThreadSpec::inheriting(name).spawn(run))
}

/// Starts a thread that is replaced when it panics.
fn spawn_supervised(name: &str, run: impl FnMut() + Send + 'static) -> Result<Thread<()>, Error> {
    started(name, ThreadSpec::inheriting(name).spawn_supervised(run))
}

fn started(name: &str, thread: Result<Thread<()>, SpawnError>) -> Result<Thread<()>, Error> {
    thread.map_err(|error| Error::os(format!("the thread {name}"), std::io::Error::other(error)))
}
