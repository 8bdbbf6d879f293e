//! Servers that this ORB calls, and the connections to them.

use crate::config::Config;
use crate::connection::{Connection, ConnectionMonitors, ConnectionTable, Side};
use crate::policy::Timeout;
use crate::sched::{Setup, prepare};
use crate::transports::{Route, Transports};
use crate::{Result, SystemException};
use isorb_giop::{Completion, Kind, minor};
use isorb_rt::sync::{PiGuard, PiLatch, PiMutex};
use isorb_rt::time::Deadline;
use isorb_scope::BufferPool;
use isorb_transport::{Unprotected, is_shortage};
use std::cell::Cell;
use std::collections::HashMap;
use std::hint::cold_path;
use std::io::ErrorKind;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Opens connections to servers.
pub(crate) struct Connector {
    pub config: Config,
    pub transports: Transports,
    pub pool: Arc<BufferPool>,
    /// The connections that are evicted when message blocks run out.
    pub accepted: Arc<ConnectionTable>,
    pub monitors: ConnectionMonitors,
}

pub(crate) type Routes = Vec<Route>;

/// With this many peers, unused ones are removed.
const SWEEP_AT: usize = 64;

/// All peers by the routes to them, and by what keeps their connections apart.
#[derive(Default)]
pub(crate) struct Peers(PiMutex<PeerTable>);

#[derive(Default)]
struct PeerTable {
    peers: HashMap<(Routes, Setup), Arc<Peer>>,
    /// How many peers there were after the last sweep.
    swept: usize,
}

impl Peers {
    pub fn get(&self, routes: Routes, setup: Setup) -> Arc<Peer> {
        let key = (routes, setup);
        let mut known = self.0.lock();
        if let Some(peer) = known.peers.get(&key) {
            return peer.clone();
        }
        let unused =
            if known.peers.len() >= SWEEP_AT.max(2 * known.swept) { sweep(&mut known) } else { Vec::new() };
        let peer = Arc::new(Peer::new(key.0.clone(), key.1.clone()));
        known.peers.insert(key, peer.clone());
        drop(known);
        unused.iter().for_each(|connection| connection.break_off());
        peer
    }

    /// Removes ended connections, and peers without references.
    #[cold]
    pub fn sweep(&self) {
        let unused = sweep(&mut self.0.lock());
        unused.iter().for_each(|connection| connection.break_off());
    }

    /// Uses a connection that a client opened for calls to the objects that it serves
    /// (bidirectional GIOP).
    pub fn adopt(&self, routes: Routes, connection: &Arc<Connection>) {
        for route in routes {
            let peer = self.get(vec![route], Setup::default());
            let mut connections = peer.connections.lock();
            connections.open.retain(|other| other.is_open() && !Arc::ptr_eq(other, connection));
            connections.open.insert(0, connection.clone());
        }
    }

    pub fn for_each_connection(&self, mut f: impl FnMut(&Arc<Connection>)) {
        let all: Vec<_> =
            self.0.lock().peers.values().flat_map(|peer| peer.connections.lock().open.clone()).collect();
        all.iter().for_each(&mut f);
    }
}

/// Removes unused peers and ended connections; returns the connections that are to be closed.
fn sweep(known: &mut PeerTable) -> Vec<Arc<Connection>> {
    let mut unused = Vec::new();
    known.peers.retain(|_, peer| {
        let mut connections = peer.connections.lock();
        // Collected, so that descriptors are closed without the locks.
        unused.extend(connections.open.extract_if(.., |connection| !connection.is_open()));
        let idle = |connection: &Arc<Connection>| {
            !connection.bidirectional.load(Ordering::Relaxed)
                && connection.in_flight.load(Ordering::Relaxed) == 0
        };
        // A peer is found by the map only, which is locked.
        let keep = Arc::strong_count(peer) > 1
            || !connections.openers.is_empty()
            || !connections.open.iter().all(idle);
        if !keep {
            unused.append(&mut connections.open);
        }
        keep
    });
    known.swept = known.peers.len();
    unused
}

/// A connection that was idle for longer, in nanoseconds, is checked before a request is sent on
/// it. The time may be off by a tick of the kernel's clock.
const IDLE_NS: u64 = 10_000_000;

/// One server, by the routes to it in order of preference.
pub(crate) struct Peer {
    routes: Routes,
    setup: Setup,
    connections: PiMutex<Connections>,
}

#[derive(Default)]
struct Connections {
    open: Vec<Arc<Connection>>,
    /// The latches of the threads that open connections, oldest first.
    openers: Vec<Arc<PiLatch>>,
    /// Failed attempts, and the exception of the last one.
    failures: u64,
    failure: Option<SystemException>,
}

/// The terms of a call for its connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeaseRequest {
    /// When the call began, in nanoseconds; up to a tick of the kernel's clock early.
    pub began: u64,
    pub deadline: Deadline,
    /// How long the call may take in all.
    pub timeout: Timeout,
    /// Whether a lost connection may be replaced.
    pub reconnect: bool,
    /// Only an open connection will do: the call must not wait for another.
    pub only_open: bool,
    /// A connection was closed during this call: every connection is checked first.
    pub wary: bool,
}

impl Connections {
    fn full(&self, connector: &Connector) -> bool {
        self.open.len() + self.openers.len() >= connector.config.connections_per_server.max(1)
    }
}

impl Peer {
    fn new(routes: Routes, setup: Setup) -> Peer {
        Peer { routes, setup, connections: PiMutex::default() }
    }

    pub fn routes(&self) -> &Routes {
        &self.routes
    }

    /// What distinguishes its connections from others by these routes.
    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    /// A connection for one call: an idle one; else a new one while there are fewer than the limit;
    /// else the one with the fewest calls. A connection that was idle for a while is checked first,
    /// since the peer may have closed it.
    ///
    /// # Errors
    /// TRANSIENT and TIMEOUT when none can be opened, NO_PERMISSION when the peer cannot be
    /// trusted, REBIND when none may be opened.
    ///
    /// # Real-time
    /// One PI lock; after an idle time one receive system call that does not wait. The first call
    /// connects, or waits for another call that does.
    pub fn lease(&self, connector: &Connector, request: LeaseRequest) -> Result<Lease> {
        let idle_ns = if request.wary { 0 } else { IDLE_NS };
        loop {
            let connections = self.connections.lock();
            if let Some(first) = connections.open.first()
                && first.in_flight.load(Ordering::Relaxed) == 0
                && first.is_open()
                && !first.bidirectional.load(Ordering::Acquire)
            {
                // The count is 0, so no thread decrements it. Threads increment it under this lock,
                // since only a bidirectional connection has more than one peer.
                first.in_flight.store(1, Ordering::Relaxed);
                let lease = Lease { connection: first.clone(), waited: false };
                drop(connections);
                if !lease.was_idle(request.began, idle_ns) || lease.still_open() {
                    return Ok(lease);
                }
                cold_path();
                continue;
            }
            cold_path();
            let mut closed = false;
            let mut best: Option<&Arc<Connection>> = None;
            for connection in connections.open.iter() {
                if !connection.is_open() {
                    closed = true;
                    continue;
                }
                let load = connection.in_flight.load(Ordering::Relaxed);
                if best.is_none_or(|best| load < best.in_flight.load(Ordering::Relaxed)) {
                    best = Some(connection);
                }
                if load == 0 {
                    break;
                }
            }
            let Some(best) = best else { return self.open_another(connector, request, closed, connections) };
            let idle = best.in_flight.load(Ordering::Relaxed) == 0;
            let full = connections.full(connector);
            if !idle && !full && !request.only_open && !best.bidirectional.load(Ordering::Relaxed) {
                return self.open_another(connector, request, closed, connections);
            }
            let lease = Lease::new(best.clone(), false);
            drop(connections);
            if !lease.was_idle(request.began, idle_ns) || lease.still_open() {
                return Ok(lease);
            }
        }
    }

    /// The connection of a loan, for a call with the loan among its arguments; `None` if it leads
    /// to another peer.
    ///
    /// # Errors
    /// COMM_FAILURE when it has ended.
    #[cold]
    #[cfg(not(loom))]
    pub fn lease_of_loan(&self, connection: &Arc<Connection>) -> Result<Option<Lease>> {
        let connections = self.connections.lock();
        if !connection.is_open() {
            return Err(loan_ended(connection.peer()));
        }
        let ours = connections.open.iter().any(|other| Arc::ptr_eq(other, connection));
        Ok(ours.then(|| Lease::new(connection.clone(), false)))
    }

    #[cold]
    fn open_another<'p>(
        &'p self,
        connector: &Connector,
        request: LeaseRequest,
        closed: bool,
        mut connections: PiGuard<'p, Connections>,
    ) -> Result<Lease> {
        if request.only_open {
            return Err(SystemException::from(Kind::Rebind)
                .detail("no connection is open, and the policies forbid the call to open one"));
        }
        if closed {
            connections.open.retain(|connection| connection.is_open());
            if !request.reconnect {
                return Err(SystemException::from(Kind::Rebind)
                    .detail("the connection is gone, and the rebind policy forbids another"));
            }
        }
        // Other calls open all the connections that may be opened: one of theirs will do.
        let failures = connections.failures;
        while connections.full(connector)
            && connections.open.is_empty()
            && let Some(opener) = connections.openers.first()
        {
            let (opener, only) = (opener.clone(), connections.openers.len() == 1);
            drop(connections);
            // Lends the opener this thread's priority.
            opener.wait_until(if only {
                request.deadline
            } else {
                Deadline::after(LOOK).earlier(request.deadline)
            });
            connections = self.connections.lock();
            if connections.failures != failures
                && let Some(failure) = &connections.failure
            {
                return Err(failure.clone());
            }
            if connections.open.is_empty() && request.deadline.is_past() {
                let sentence = format!(
                    "another call still connects (within {:?})",
                    request.timeout.duration().unwrap_or_default()
                );
                return Err(SystemException::from(Kind::Timeout).detail(sentence));
            }
        }
        if connections.full(connector)
            && let Some(connection) = connections.open.iter().find(|connection| connection.is_open())
        {
            return Ok(Lease::new(connection.clone(), true));
        }
        let opening = Opening::begin(self, connections);
        let connected = self.connect(connector, request.deadline, request.timeout);
        let mut connections = self.connections.lock();
        let leased = match connected {
            Ok(connection) => {
                connections.open.push(connection.clone());
                Ok(Lease::new(connection, true))
            }
            Err(exception) => {
                connections.failures += 1;
                connections.failure = Some(exception.clone());
                Err(exception)
            }
        };
        drop(connections);
        drop(opening);
        leased
    }

    /// Connects by the first route that leads to the server.
    ///
    /// # Errors
    /// TRANSIENT and TIMEOUT when none does, with a minor code of its own where this process lacked
    /// what a connection takes; NO_PERMISSION for a peer that cannot be trusted. After such a peer,
    /// or a failed handshake, no further route is tried, since it may be unprotected.
    fn connect(
        &self,
        connector: &Connector,
        deadline: Deadline,
        timeout: Timeout,
    ) -> Result<Arc<Connection>> {
        let config = &connector.config;
        let limit = config.connect_timeout();
        let mut why = String::from("the reference has no address");
        let mut code = minor::TRANSIENT_CONNECT;
        for Route { tag, address } in &self.routes {
            let Some(transport) = connector.transports.by_tag(*tag) else { continue };
            let left = match (deadline.remaining(), limit) {
                (Some(left), Some(limit)) => Some(left.min(limit)),
                (left, limit) => left.or(limit),
            };
            let refused = Cell::new(None);
            let prepared = transport.connect_prepared(address, left, &|fd| {
                prepare(fd, *tag, &self.setup).map_err(|exception| {
                    refused.set(Some(exception));
                    ErrorKind::Unsupported.into()
                })
            });
            // Another route would be refused the same options, or be slower in silence.
            if let Some(exception) = refused.take() {
                return Err(exception);
            }
            match prepared {
                Ok(stream) => {
                    let limits = config.limits();
                    let (pool, roll) = (connector.pool.clone(), &connector.accepted);
                    let connection = Connection::new(stream, Side::Connector, limits, pool, roll);
                    return Ok(Arc::new(connection.with_capabilities(transport.capabilities())));
                }
                Err(error) => {
                    why = format!("cannot connect to {address} by {}: {error}", transport.name());
                    if is_shortage(&error) {
                        code = minor::TRANSIENT_SHORTAGE;
                    }
                    match Unprotected::of(&error) {
                        None => {}
                        Some(Unprotected::Unfinished(_)) => break,
                        Some(Unprotected::Untrusted(_)) => {
                            return Err(SystemException::from(Kind::NoPermission).detail(why));
                        }
                    }
                }
            }
        }
        if deadline.is_past() {
            let limit = timeout.duration().unwrap_or_default();
            return Err(SystemException::from(Kind::Timeout).detail(format!("{why} (within {limit:?})")));
        }
        Err(SystemException::new(Kind::Transient, code, Completion::No).detail(why))
    }
}

/// The exception of a call with a loan of a connection that has ended.
#[cold]
#[cfg(not(loom))]
fn loan_ended(peer: &str) -> SystemException {
    let detail =
        format!("the loan among the arguments is of a connection to {peer} that has ended; make another");
    SystemException::from(Kind::CommFailure).detail(detail).completed(Completion::No)
}

/// The longest wait for one of several threads that open connections: another may be faster.
const LOOK: Duration = Duration::from_millis(5);

/// A connection that the calling thread opens. Calls that need it wait for the latch, so that the
/// thread resolves names and connects at their priority.
struct Opening<'p> {
    peer: &'p Peer,
    latch: Arc<PiLatch>,
}

impl<'p> Opening<'p> {
    fn begin(peer: &'p Peer, mut connections: PiGuard<'_, Connections>) -> Opening<'p> {
        let latch = Arc::new(PiLatch::new());
        connections.openers.push(latch.clone());
        Opening { peer, latch }
    }
}

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        self.peer.connections.lock().openers.retain(|latch| !Arc::ptr_eq(latch, &self.latch));
        self.latch.open();
    }
}

/// A connection in use by one call.
pub(crate) struct Lease {
    connection: Arc<Connection>,
    /// Whether the call waited for it.
    pub waited: bool,
}

impl Lease {
    fn new(connection: Arc<Connection>, waited: bool) -> Lease {
        connection.in_flight.fetch_add(1, Ordering::Relaxed);
        Lease { connection, waited }
    }
}

impl std::fmt::Debug for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Peer")
            .field("routes", &self.routes)
            .field("setup", &self.setup)
            .finish_non_exhaustive()
    }
}

impl Deref for Lease {
    type Target = Arc<Connection>;
    fn deref(&self) -> &Arc<Connection> {
        &self.connection
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.connection.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}
