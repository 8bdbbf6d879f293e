//! A node's server: owns the segments, runs the agents, speaks with libraries, other nodes and the coordinator.
//!
//! ```text
//!   libraries ──Lib_Comm──►┐                     ┌──CRM_Comm──► other nodes' servers
//!       ▲   local socket   │ setup: areas,       │
//!       └── descriptors ───┤ tickets, channels,  ├──Glob_Comm─► coordinator
//!           sessions       │ admission           │
//!                          └─► dispatchers: schedulers, one UDP socket each
//! ```
//!
//! Set-up runs on the ORB's threads and may wait for other nodes; values run on the dispatching threads, which wait for nobody. A value
//! on the ORB's path has an ordinary thread a channel ([`orb_path`](self)), so that a peer that hangs holds up itself only.

mod adopt;
mod channels;
mod dead;
mod dispatcher;
mod doorbells;
mod failover;
mod groups;
mod measure;
mod multicast;
mod orb_path;
mod receive_sockets;
mod rejoin;
mod reopen;
mod replicas;
mod report;
mod servants;
mod sessions;
mod setup;
mod status;
mod tables;
mod told;

pub(crate) use channels::interval;
pub use dispatcher::{DispatcherConfig, StartError};
pub use measure::measure_costs;
pub(crate) use servants::{owned as owned_area, view as area_view};
pub(crate) use setup::{idl_state, largest};
pub use status::{AreaStatus, NodeStatus, PushStatus, ReplicaStatus, ValueStatus};

use crate::Error;
use crate::admission::{NodeAdmission, NodeConfig, link_rate};
use crate::idl::{Area, CRM_CommRef, Glob_CommRef, Lib_CommRef};
use crate::wire::ETHERNET_FRAGMENT;
use dispatcher::Dispatcher;
use failover::FailoverRef;
use isorb::{Kind, Orb, Policies, Reference};
use isorb_rt::sync::PiMutex;
use isorb_rt::time::now_ns;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;
use tables::Tables;

/// How a node's server is set up.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// The node's name, unique among the coordinator's nodes.
    pub name: String,
    /// Where libraries find the server.
    pub socket: PathBuf,
    /// What other nodes send datagrams to; none: the address that the sockets are bound to.
    pub publish: Option<IpAddr>,
    /// The port of the first dispatching thread's datagrams as other nodes see it (behind a router that translates addresses), the
    /// others' follow; none: those that the sockets are bound to. With it no channel can be guaranteed at its reader's end: those have ports of their own.
    pub publish_port: Option<u16>,
    /// Dispatching threads.
    pub dispatchers: usize,
    /// What each of them needs.
    pub dispatcher: DispatcherConfig,
    /// What guaranteed channels may have.
    pub admission: NodeConfig,
    /// When a writer's node is silent for so long, it counts as dead. At least two [heartbeats](crate::agents::SchedulerConfig::heartbeat_ns), so
    /// that one may be late or lost; at most a day. On the ORB's paths, whose calls may have to wait, two seconds at least.
    pub silence: Duration,
    /// How long the coordinator and other nodes' servers may take to answer a call. What waits for one that hangs is set-up with that one only.
    pub answer: Duration,
    /// Bytes of a fragment.
    pub fragment: usize,
    /// Limits of the tables.
    pub limits: Limits,
}

/// How much a server takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Areas on this node.
    pub areas: usize,
    /// Areas that one process hands back to a server that was restarted; so none can fill the node's places with areas that nobody made.
    pub handed_back: usize,
    /// Bytes of all segments that this server made.
    pub bytes: usize,
    /// Processes with a session.
    pub sessions: usize,
    /// Writers and readers of all sessions.
    pub attachments: usize,
    /// Channels on the ORB's path that start here; each has a thread.
    pub orb_channels: usize,
}

impl Default for Limits {
    /// 4,096 areas in 4 GiB, half of them from one process that hands them back; 1,024 processes, 65,536 attachments, 64 channels on the ORB's path.
    fn default() -> Limits {
        Limits {
            areas: 4096,
            handed_back: 2048,
            bytes: 4 << 30,
            sessions: 1024,
            attachments: 65_536,
            orb_channels: 64,
        }
    }
}

impl ServerConfig {
    /// A server called `name` that libraries find at `socket`, and that uses loopback between nodes.
    pub fn new(name: impl Into<String>, socket: impl Into<PathBuf>) -> ServerConfig {
        ServerConfig {
            name: name.into(),
            socket: socket.into(),
            publish: None,
            publish_port: None,
            dispatchers: 1,
            dispatcher: DispatcherConfig {
                udp: SocketAddr::from(([127, 0, 0, 1], 0)),
                second: None,
                multicast: None,
                scheduler: crate::agents::SchedulerConfig::default(),
                class: isorb_rt::sched::SchedClass::Other,
            },
            admission: NodeConfig::default(),
            silence: Duration::from_millis(350),
            answer: Duration::from_secs(5),
            fragment: ETHERNET_FRAGMENT,
            limits: Limits::default(),
        }
    }

    /// A node that lives says so at each heartbeat; with a second path, the first has failed after two thirds of the silence.
    fn check(&self) -> Result<(), Error> {
        let beat = Duration::from_nanos(self.dispatcher.scheduler.heartbeat_ns);
        if (beat.saturating_mul(2)..=LONGEST_SILENCE).contains(&self.silence) {
            return Ok(());
        }
        Err(Error::unavailable(format_args!(
            "a silence of {:?} after which a node counts as dead: give {:?} at least, two heartbeats, and {LONGEST_SILENCE:?} at most",
            self.silence,
            beat.saturating_mul(2)
        )))
    }
}

/// Whoever wants to hear later than this of a node's death does not want to hear of it.
const LONGEST_SILENCE: Duration = Duration::from_secs(24 * 60 * 60);

/// Nodes of which is known which way answered last, though nothing leads to them at the moment.
const REMEMBERED: usize = 64;

/// Where libraries look for their node's server: `ISORB_MEMORY_SOCKET`, or a file in the user's run-time folder.
pub fn default_socket() -> PathBuf {
    if let Some(path) =
        std::env::var_os("ISORB_MEMORY_SOCKET").or_else(|| std::env::var_os("ISORB_CRM_SOCKET"))
    {
        return path.into();
    }
    let folder = std::env::var_os("XDG_RUNTIME_DIR").map_or_else(|| "/tmp".into(), PathBuf::from);
    folder.join(format!("isorb-memory-{}.socket", rustix::process::geteuid().as_raw()))
}

/// A node's server in this process. It ends when it is dropped; areas live on in the processes that use them.
pub struct NodeServer {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// Where its objects are, which end with it.
    poa: isorb::poa::Poa,
    objects: Vec<isorb::poa::ObjectId>,
}

pub(crate) struct Shared {
    config: ServerConfig,
    dispatchers: Vec<Dispatcher>,
    tables: PiMutex<Tables>,
    admission: PiMutex<NodeAdmission>,
    /// Nodes whose channels a thread is opening anew.
    reopening: PiMutex<HashSet<String>>,
    /// Held while a group is looked for and made.
    grouping: PiMutex<()>,
    coordinator: Option<FailoverRef<Glob_CommRef>>,
    /// Which address of each node answered last.
    best: PiMutex<HashMap<String, Arc<AtomicUsize>>>,
    orb_replicas: orb_path::Replicas,
    /// Threads on the ORB's paths.
    orb_channels: Arc<AtomicUsize>,
    incarnation: u64,
    me: OnceLock<CRM_CommRef>,
    lib_comm: OnceLock<String>,
    stop: AtomicBool,
    poller: isorb_rt::net::Poller,
}

impl NodeServer {
    /// Starts the server: its threads, its objects below the ORB's root POA, its local socket.
    ///
    /// # Errors
    /// What the system or the ORB refused; ADDRINUSE where a server is there already; `Unavailable` where the coordinator knows another
    /// server of this name, which answers, and where the configured silence is shorter than two heartbeats or longer than a day.
    pub fn start(
        orb: &Orb,
        config: ServerConfig,
        coordinator: Option<Glob_CommRef>,
    ) -> Result<NodeServer, Error> {
        config.check()?;
        let listener = crate::session_socket::listen_at(&config.socket)
            .map_err(|error| Error::unavailable(format_args!("{}: {error}", config.socket.display())))?;
        let mut config = config;
        // The dispatching threads share the link. Admission does not know who of them pushes what, so it gives away one thread's part.
        let threads = config.dispatchers.max(1) as u64;
        config.admission.link_bits_per_s /= threads;
        config.dispatcher.scheduler.link_bytes_per_s = link_rate(config.admission.link_bits_per_s);
        let dispatchers = (0..config.dispatchers.max(1))
            .map(|number| Dispatcher::start(&config.dispatcher, number).map_err(Error::unavailable))
            .collect::<Result<Vec<_>, _>>()?;
        let shared = Arc::new(Shared {
            admission: PiMutex::new(NodeAdmission::new(&config.admission)),
            tables: PiMutex::new(Tables::default()),
            grouping: PiMutex::new(()),
            reopening: PiMutex::default(),
            dispatchers,
            coordinator: coordinator.map(|glob| FailoverRef::of(&glob, config.answer, Arc::default())),
            best: PiMutex::new(HashMap::new()),
            orb_replicas: orb_path::Replicas::default(),
            orb_channels: Arc::default(),
            incarnation: secret(),
            me: OnceLock::new(),
            lib_comm: OnceLock::new(),
            stop: AtomicBool::new(false),
            poller: isorb_rt::net::Poller::new()?,
            config,
        });
        let poa = orb.root_poa()?;
        let servant = || Arc::new(servants::Servant { shared: shared.clone() });
        let lib_comm: Lib_CommRef = poa.activate(servant()).map_err(Error::unavailable)?;
        let me: CRM_CommRef = poa.activate(servant()).map_err(Error::unavailable)?;
        let _ = shared.lib_comm.set(lib_comm.object().to_string());
        let objects = [poa.reference_to_id(lib_comm.object()), poa.reference_to_id(me.object())];
        let objects = objects.into_iter().flatten().collect();
        let _ = shared.me.set(me);
        poa.manager().activate().map_err(Error::unavailable)?;
        // Ends what was begun, if the rest fails.
        let mut server = NodeServer { shared: shared.clone(), threads: Vec::new(), poa, objects };
        // A coordinator that is not there now is told by the watch, later.
        if let Err(refused @ Error::Unavailable(_)) = shared.register() {
            return Err(refused);
        }
        let threads = &mut server.threads;
        let sessions = shared.clone();
        let (handed, queue) = adopt::queue(shared.config.limits.sessions);
        threads.push(named("memory-sessions", move || sessions.serve_sessions(listener, handed))?);
        let adopting = shared.clone();
        threads.push(named("memory-handback", move || adopting.take_back(&queue))?);
        let watch = shared.clone();
        threads.push(named("memory-watch", move || watch.keep_watch())?);
        let reopen = shared.clone();
        let alive = shared.clone();
        threads.push(named("memory-register", move || alive.keep_known())?);
        threads.push(named("memory-reopen", move || reopen.keep_channels())?);
        Ok(server)
    }

    /// What other nodes' servers call.
    pub fn object(&self) -> Option<&CRM_CommRef> {
        self.shared.me.get()
    }

    /// Where datagrams come from and go to.
    pub fn datagram_addresses(&self) -> Vec<SocketAddr> {
        self.shared.dispatchers.iter().map(Dispatcher::address).collect()
    }

    /// Areas, sessions, attachments and outgoing channels.
    pub fn counts(&self) -> (usize, usize, usize, usize) {
        let tables = self.shared.tables.lock();
        (tables.areas.len(), tables.sessions.len(), tables.tickets.len(), tables.channels.len())
    }
}

impl Drop for NodeServer {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        self.shared.poller.wake_for_good();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        for dispatcher in &self.shared.dispatchers {
            dispatcher.stop();
        }
        // The threads of the ORB's paths are nobody else's.
        self.shared.end_channels(|_| true);
        for object in &self.objects {
            let _ = self.poa.deactivate_object(object);
        }
        self.shared.tables.lock().sessions.clear();
        let _ = std::fs::remove_file(&self.shared.config.socket);
    }
}

impl Shared {
    /// The address other nodes use for a dispatcher's socket.
    fn published(&self, dispatcher: usize) -> SocketAddr {
        let bound = self.dispatchers[dispatcher].address();
        let port = self.config.publish_port.map(|first| first.wrapping_add(dispatcher as u16));
        SocketAddr::new(self.config.publish.unwrap_or(bound.ip()), port.unwrap_or(bound.port()))
    }

    /// The same on the second path; empty and 0 for none, as in the IDL.
    fn published_second(&self, dispatcher: usize) -> (String, u16) {
        let second = self.dispatchers[dispatcher].second_address();
        second.map_or((String::new(), 0), |second| (second.ip().to_string(), second.port()))
    }

    /// A node's server by each of its addresses.
    fn ways(&self, node: &str, server: &CRM_CommRef) -> FailoverRef<CRM_CommRef> {
        let best = {
            let mut known = self.best.lock();
            if known.len() >= REMEMBERED && !known.contains_key(node) {
                // Names are whatever peers say. Those to which nothing leads any more are forgotten.
                known.retain(|_, best| Arc::strong_count(best) > 1);
            }
            known.entry(node.to_owned()).or_default().clone()
        };
        FailoverRef::of(server, self.config.answer, best)
    }

    /// What it means that a call to another server ended without an answer.
    fn unanswered(&self, who: &str, error: impl Into<Error>) -> Error {
        match error.into() {
            Error::System(error) if error.kind == Kind::Timeout => {
                Error::unavailable(format_args!("{who} did not answer within {:?}", self.config.answer))
            }
            other => other,
        }
    }

    fn held(&self) -> Vec<Area> {
        self.tables.lock().areas.values().map(|entry| entry.what.clone()).collect()
    }

    /// Twice a second: has a silent node come back? Every other second: do the nodes live that are pushed to? In a thread of its own, because calls to nodes that are gone take their time.
    fn keep_channels(self: &Arc<Self>) {
        let mut round = 0_u32;
        let mut unanswered = HashMap::new();
        while !self.stop.load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_millis(50));
            round = round.wrapping_add(1);
            if round.is_multiple_of(10) {
                self.reopen_silent();
            }
            if round.is_multiple_of(40) {
                self.forget_the_dead(&mut unanswered);
            }
        }
    }

    /// Do the ORB's channels live, and their writers? Calls nobody: whoever hangs delays the news of no death.
    fn keep_watch(&self) {
        let mut round = 0_u32;
        while !self.stop.load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_millis(50));
            round = round.wrapping_add(1);
            self.orb_replicas.look(now_ns());
            self.end_leaving();
            if !round.is_multiple_of(20) {
                continue;
            }
            self.look_for_dead_writers();
        }
    }
}

impl fmt::Debug for NodeServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeServer").field("name", &self.shared.config.name).finish_non_exhaustive()
    }
}

/// A number that nobody else can guess: the standard library keys its hashers from the system's randomness.
pub(crate) fn secret() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// The same object, whose calls end after so long.
pub(crate) fn timed<T: Reference>(object: &T, answer: Duration) -> T {
    let policies = Policies { round_trip_timeout: Some(answer), ..Policies::default() };
    object.object().with_policies(policies).unchecked_narrow()
}

fn named(name: &str, work: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.into()).spawn(work)
}
