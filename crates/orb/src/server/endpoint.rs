//! The endpoints of an ORB, and the connections that they accept.

use super::LOG;
use super::connection_threads::ConnectionThreads;
use super::idle_reaper::IdleReaper;
use super::lane::Lane;
use crate::config::Endpoint;
use crate::connection::{AdmissionLimits, Connection, Side};
use crate::log::warn;
use crate::sched::{Setup, prepare, prepare_listener};
use crate::transports::{Published, Route, TAG_TCP, TAG_TLS, TAG_UDP, omni};
use crate::{Orb, Result, SystemException};
use isorb_giop::Kind;
use isorb_giop::component::TaggedComponent;
use isorb_rt::sched::{SpawnError, ThreadSpec};
use isorb_transport::{ConnectionLimit, Listener, Stream, Transport, Wait};
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The open endpoints of an ORB.
pub(crate) struct Endpoints {
    listeners: Vec<Arc<ListeningEndpoint>>,
    /// Host and port of each TCP endpoint, as references name them.
    pub published: Vec<(String, u16)>,
    /// Host and port of each TLS endpoint, which references name beside or instead of those.
    pub secure: Vec<(String, u16)>,
    /// The endpoints of other transports.
    pub local: Vec<Published>,
    /// Components for the unix sockets among them, as omniORB's clients expect them.
    pub for_omni: Vec<TaggedComponent>,
    idle_reaper: IdleReaper,
    threads: Arc<ConnectionThreads>,
    closed: Arc<AtomicBool>,
}

/// One endpoint, with the lane that serves it unless each connection has a thread.
struct ListeningEndpoint {
    protocol: &'static str,
    /// Profile tag of its transport.
    tag: u32,
    listener: Box<dyn Listener>,
    lane: Option<Arc<Lane>>,
    threads: usize,
}

impl Endpoints {
    /// Opens the configured endpoints. Nothing is accepted before [`Endpoints::start`].
    pub fn open(orb: &Orb) -> Result<Endpoints> {
        let config = orb.config();
        let mut listeners = Vec::new();
        let mut published = Vec::new();
        let mut secure = Vec::new();
        let mut local = Vec::new();
        for endpoint in &config.endpoints {
            let Endpoint { protocol, address, publish, lane } = config.endpoint(endpoint)?;
            let transport = orb.transports().by_name(&protocol).ok_or_else(|| {
                let sentence = format!("endpoint {endpoint}: this ORB has no transport named {protocol}");
                SystemException::from(Kind::BadParam).detail(sentence)
            })?;
            if lane.is_some() {
                check_pollable(&**transport, endpoint)?;
            }
            let listener = transport.listen(&address).map_err(|error| {
                SystemException::from(Kind::CommFailure)
                    .detail(format!("cannot listen at {endpoint}: {error}"))
            })?;
            let (accepted, limit) = (orb.accepted().clone(), config.max_connections);
            listener.set_limit(ConnectionLimit::new(move || accepted.room(limit)));
            let tag = transport.profile_tag();
            if matches!(tag, TAG_TCP | TAG_TLS) {
                let known = if tag == TAG_TCP { &mut published } else { &mut secure };
                known.push(public_address(listener.address(), publish, config.publish.as_ref(), endpoint)?);
            } else {
                let address = match tag {
                    TAG_UDP => {
                        let (host, port) =
                            public_address(listener.address(), publish, config.publish.as_ref(), endpoint)?;
                        Route::tcp(&host, port).address
                    }
                    _ => listener.address().to_string(),
                };
                let locality = transport.locality(&address);
                local.push(Published { route: Route { tag, address }, locality });
            }
            let threads = lane.unwrap_or(0);
            let lane =
                lane.map(|threads| Lane::new(threads > 1).map(Arc::new).map_err(os_error)).transpose()?;
            listeners.push(Arc::new(ListeningEndpoint {
                protocol: transport.name(),
                tag: transport.profile_tag(),
                listener,
                lane,
                threads,
            }));
        }
        Ok(Endpoints {
            listeners,
            published,
            secure,
            for_omni: omni::components(&local),
            local,
            idle_reaper: IdleReaper::default(),
            threads: Arc::default(),
            closed: Arc::default(),
        })
    }

    /// Transport and address of each endpoint.
    pub fn names(&self) -> Vec<(&'static str, String)> {
        self.listeners
            .iter()
            .map(|listening| (listening.protocol, listening.listener.address().to_string()))
            .collect()
    }

    /// Applies the settings to the listening sockets.
    pub fn prepare(&self, setup: &Setup) {
        self.listeners.iter().for_each(|at| prepare_listener(&*at.listener, at.tag, setup));
    }

    /// Starts the threads: one that accepts for each endpoint, and those of its lane.
    pub fn start(&self, orb: &Orb) -> Result<()> {
        for listening in &self.listeners {
            for i in 0..listening.threads {
                let (listening, orb) = (listening.clone(), orb.clone());
                spawn_supervised(format!("isorb-lane-{i}"), move || {
                    if let Some(lane) = &listening.lane {
                        lane.run(&orb);
                    }
                })?;
            }
            let (listening, orb, closed) = (listening.clone(), orb.clone(), self.closed.clone());
            let threads = self.threads.clone();
            spawn_supervised("isorb-accept".into(), move || accept(&orb, &listening, &threads, &closed))?;
        }
        self.idle_reaper.start(orb, orb.config().idle_limits())
    }

    /// Reads a connection that this ORB opened. Requests that come over it are served also while no
    /// call waits there.
    pub fn read_also(&self, orb: &Orb, connection: &Arc<Connection>) -> Result<()> {
        orb.accepted().admit(connection, AdmissionLimits::NONE);
        // As connections of the first endpoint.
        let lane = self.listeners.first().and_then(|listening| listening.lane.as_deref());
        serve_connection(orb, &self.threads, lane.filter(|_| connection.is_pollable()), connection)
    }

    /// Stops accepting and closes all connections in order, those with running requests after the
    /// replies.
    pub fn close(&self, orb: &Orb) {
        self.closed.store(true, Ordering::SeqCst);
        self.idle_reaper.stop();
        for listening in &self.listeners {
            listening.listener.close();
        }
        Connection::close_all(&orb.accepted().all());
        self.threads.close();
        for lane in self.listeners.iter().filter_map(|listening| listening.lane.as_ref()) {
            lane.close();
        }
    }
}

/// Listens at a TCP endpoint of a lane; also returns the host and port for references.
///
/// # Errors
/// BAD_PARAM for an endpoint of another transport, COMM_FAILURE when it cannot be opened.
pub(crate) fn open_listener(orb: &Orb, endpoint: &str) -> Result<(Box<dyn Listener>, (String, u16))> {
    let config = orb.config();
    let Endpoint { protocol, address, publish, .. } = config.endpoint(endpoint)?;
    let transport = orb.transports().by_name(&protocol).filter(|found| found.profile_tag() == TAG_TCP);
    let transport = transport.ok_or_else(|| {
        SystemException::from(Kind::BadParam).detail(format!(
            "endpoint {endpoint}: a lane listens at a TCP endpoint; unix sockets and segments come beside (local_endpoint)"
        ))
    })?;
    check_pollable(&**transport, endpoint)?;
    let listener = transport.listen(&address).map_err(|error| {
        SystemException::from(Kind::CommFailure).detail(format!("cannot listen at {endpoint}: {error}"))
    })?;
    let at = public_address(listener.address(), publish, config.publish.as_ref(), endpoint)?;
    Ok((listener, at))
}

/// Listens at an endpoint of a lane that only this host reaches; also returns its profile's
/// address.
///
/// # Errors
/// BAD_PARAM for an endpoint that other hosts reach, COMM_FAILURE when it cannot be opened.
pub(crate) fn open_local_listener(orb: &Orb, endpoint: &str) -> Result<(Box<dyn Listener>, Published)> {
    let Endpoint { protocol, address, .. } = orb.config().endpoint(endpoint)?;
    let transport = orb.transports().by_name(&protocol).filter(|found| is_local(&***found));
    let transport = transport.ok_or_else(|| {
        SystemException::from(Kind::BadParam).detail(format!(
            "endpoint {endpoint}: a lane listens at one TCP endpoint, and besides at unix sockets and segments"
        ))
    })?;
    check_pollable(&**transport, endpoint)?;
    let listener = transport.listen(&address).map_err(|error| {
        SystemException::from(Kind::CommFailure).detail(format!("cannot listen at {endpoint}: {error}"))
    })?;
    let address = listener.address().to_string();
    let locality = transport.locality(&address);
    Ok((listener, Published { route: Route { tag: transport.profile_tag(), address }, locality }))
}

/// Checks that a lane can watch connections of this transport: it needs their descriptors.
///
/// # Errors
/// BAD_PARAM for a transport without descriptors.
fn check_pollable(transport: &dyn Transport, endpoint: &str) -> Result<()> {
    if transport.capabilities().pollable {
        return Ok(());
    }
    Err(SystemException::from(Kind::BadParam).detail(format!(
        "endpoint {endpoint}: a lane cannot watch connections by {}, which is not pollable; give each its thread, with \
         ;connection behind the endpoint",
        transport.name()
    )))
}

fn is_local(transport: &dyn Transport) -> bool {
    !transport.capabilities().crosses_hosts
}

/// For each local transport that the ORB listens by, an endpoint at any free address.
pub(crate) fn free_local_endpoints(orb: &Orb) -> Vec<String> {
    let config = orb.config();
    let mut all: Vec<String> = Vec::new();
    for endpoint in config.endpoints.iter().flat_map(|endpoint| config.endpoint(endpoint)) {
        let fits = |found: &dyn Transport| is_local(found) && found.capabilities().pollable;
        let local = orb.transports().by_name(&endpoint.protocol).is_some_and(|found| fits(&**found));
        // The form that transports of the program have too.
        let free = format!("giop:{}:", endpoint.protocol);
        if local && !all.contains(&free) {
            all.push(free);
        }
    }
    all
}

/// Whether one of the ORB's endpoints is of the transport with this profile tag.
pub(crate) fn listens_by(orb: &Orb, tag: u32) -> bool {
    let config = orb.config();
    let endpoints = config.endpoints.iter().flat_map(|endpoint| config.endpoint(endpoint));
    let mut tags = endpoints.filter_map(|endpoint| orb.transports().by_name(&endpoint.protocol));
    tags.any(|transport| transport.profile_tag() == tag)
}

/// The host and port of a TCP endpoint in references: the endpoint's option, else the ORB's
/// setting, else the address that it listens at.
fn public_address(
    listens_at: &str,
    own: Option<(String, Option<u16>)>,
    all: Option<&String>,
    endpoint: &str,
) -> Result<(String, u16)> {
    let (host, port) = listens_at.rsplit_once(':').unwrap_or((listens_at, "0"));
    let (host, port) = (host.trim_start_matches('[').trim_end_matches(']'), port.parse().unwrap_or(0));
    match (own, all) {
        (Some((host, other)), _) => Ok((host, other.unwrap_or(port))),
        (None, Some(host)) => Ok((host.clone(), port)),
        (None, None) if matches!(host, "0.0.0.0" | "::" | "*") => {
            Err(SystemException::from(Kind::BadParam).detail(format!(
                "{endpoint} listens at every address; say which one references shall name, with -ORBPublish HOST or with \
                 ;publish=HOST behind the endpoint"
            )))
        }
        _ => Ok((host.into(), port)),
    }
}

/// Gives a connection to a lane, or starts a thread for it.
fn serve_connection(
    orb: &Orb,
    threads: &Arc<ConnectionThreads>,
    lane: Option<&Lane>,
    connection: &Arc<Connection>,
) -> Result<()> {
    match lane {
        Some(lane) => {
            connection.keep_no_block();
            lane.add(connection.clone()).map_err(os_error)
        }
        None => started(threads.serve(orb, connection)),
    }
}

/// A connection that was accepted by the transport with this profile tag.
pub(super) fn accepted_connection(orb: &Orb, tag: u32, stream: Box<dyn Stream>) -> Connection {
    let limits = orb.config().limits();
    let connection = Connection::new(stream, Side::Acceptor, limits, orb.pool().clone(), orb.accepted());
    match orb.transports().by_tag(tag) {
        Some(transport) => connection.with_capabilities(transport.capabilities()),
        None => connection,
    }
}

/// Whether the peer caused a failure to accept: it may not connect, or has left. Others need not
/// wait then.
pub(super) fn is_fault_of_peer(error: &std::io::Error) -> bool {
    use ErrorKind::{ConnectionAborted, NotConnected, PermissionDenied};
    matches!(error.kind(), PermissionDenied | NotConnected | ConnectionAborted)
}

fn accept(orb: &Orb, listening: &ListeningEndpoint, threads: &Arc<ConnectionThreads>, closed: &AtomicBool) {
    loop {
        match listening.listener.accept(Wait::Block) {
            Ok(stream) => {
                let config = orb.config();
                let connection = Arc::new(accepted_connection(orb, listening.tag, stream));
                if let Some(setup) = orb.rt_client().accepting()
                    && let Err(exception) = prepare(connection.stream().fd(), listening.tag, setup)
                {
                    warn(LOG, format_args!("{}: refused: {exception}", connection.peer()));
                    connection.close();
                    continue;
                }
                let admitted = orb.accepted().admit(&connection, config.admission_limits());
                if closed.load(Ordering::SeqCst) {
                    connection.close();
                    continue;
                }
                let peer = connection.peer();
                if !admitted {
                    let limit = config.max_connections;
                    let why = format_args!("{limit} connections are open and in use (max_connections)");
                    warn(LOG, format_args!("{peer}: refused, {why}"));
                    connection.close();
                } else if let Err(exception) =
                    serve_connection(orb, threads, listening.lane.as_deref(), &connection)
                {
                    warn(LOG, format_args!("{peer}: refused: {exception}"));
                    connection.close();
                }
            }
            Err(_) if closed.load(Ordering::Acquire) => return,
            Err(error) if is_fault_of_peer(&error) => warn(LOG, format_args!("accept: {error}")),
            // No descriptor or no memory; a later client may find some.
            Err(error) => {
                warn(LOG, format_args!("accept: {error}"));
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

/// Starts a thread that is replaced when it panics. It has the class of the thread that opens the
/// endpoints, so that a real-time server serves at its priority.
pub(crate) fn spawn_supervised(name: String, f: impl FnMut() + Send + 'static) -> Result<()> {
    started(ThreadSpec::inheriting(name).spawn_supervised(f).map(drop))
}

fn started(spawned: std::result::Result<(), SpawnError>) -> Result<()> {
    spawned.map_err(|error| SystemException::from(Kind::NoResources).detail(error.to_string()))
}

fn os_error(error: std::io::Error) -> SystemException {
    SystemException::from(Kind::NoResources).detail(error.to_string())
}
