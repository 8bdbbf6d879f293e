//! Servers that this ORB calls, and the connections to them.

use crate::connection::{Connection, Side};
use crate::{Orb, Result, SystemException};
use isorb_giop::{Completion, Kind, minor};
use isorb_rt::sync::PiMutex;
use isorb_rt::time::Deadline;
use isorb_transport::{Tcp, Transport};
use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

pub(crate) type Addresses = Vec<(String, u16)>;

/// All peers by their addresses.
#[derive(Default)]
pub(crate) struct Peers(PiMutex<HashMap<Addresses, Arc<Peer>>>);

impl Peers {
    pub fn get(&self, addresses: Addresses) -> Arc<Peer> {
        let mut peers = self.0.lock();
        peers.entry(addresses).or_insert_with_key(|addresses| Arc::new(Peer::new(addresses.clone()))).clone()
    }

    /// Uses a connection that a client opened for calls to the objects that it serves (bidirectional GIOP).
    pub fn adopt(&self, addresses: Addresses, connection: &Arc<Connection>) {
        for address in addresses {
            let peer = self.get(vec![address]);
            let mut connections = peer.connections.lock();
            connections.retain(|other| other.is_open() && !Arc::ptr_eq(other, connection));
            connections.insert(0, connection.clone());
        }
    }

    pub fn for_each_connection(&self, mut f: impl FnMut(&Arc<Connection>)) {
        let all: Vec<_> = self.0.lock().values().flat_map(|peer| peer.connections.lock().clone()).collect();
        all.iter().for_each(&mut f);
    }
}

/// One server, by its addresses in order of preference.
pub(crate) struct Peer {
    addresses: Addresses,
    connections: PiMutex<Vec<Arc<Connection>>>,
}

impl Peer {
    fn new(addresses: Addresses) -> Peer {
        Peer { addresses, connections: PiMutex::new(Vec::new()) }
    }

    /// A connection for one call: one that no call uses, else a new one while there are fewer than the limit, else the one
    /// with the fewest calls.
    ///
    /// # Real-time
    /// One PI lock; connects on a first call.
    pub fn lease(
        &self,
        orb: &Orb,
        deadline: Deadline,
        timeout: Option<Duration>,
        reconnect: bool,
    ) -> Result<Lease> {
        let connections = self.connections.lock();
        let had = !connections.is_empty();
        let mut closed = false;
        let mut best: Option<&Arc<Connection>> = None;
        for connection in connections.iter() {
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
        if let Some(best) = best {
            let idle = best.in_flight.load(Ordering::Relaxed) == 0;
            let full = connections.len() >= orb.config().connections_per_server.max(1);
            if idle || full || best.bidirectional.load(Ordering::Relaxed) {
                return Ok(Lease::new(best.clone()));
            }
        }
        drop(connections);
        self.open_another(orb, deadline, timeout, had, closed, reconnect)
    }

    #[cold]
    fn open_another(
        &self,
        orb: &Orb,
        deadline: Deadline,
        timeout: Option<Duration>,
        had: bool,
        closed: bool,
        reconnect: bool,
    ) -> Result<Lease> {
        if closed {
            self.connections.lock().retain(|connection| connection.is_open());
        }
        if had && closed && !reconnect {
            return Err(SystemException::from(Kind::Rebind)
                .detail("the connection is gone, and the rebind policy forbids another"));
        }
        let connection = self.connect(orb, deadline, timeout)?;
        self.connections.lock().push(connection.clone());
        Ok(Lease::new(connection))
    }

    fn connect(&self, orb: &Orb, deadline: Deadline, timeout: Option<Duration>) -> Result<Arc<Connection>> {
        let config = orb.config();
        let limit = config.connect_timeout();
        let mut why = String::from("the reference has no address");
        for (host, port) in &self.addresses {
            let left = match (deadline.remaining(), limit) {
                (Some(left), Some(limit)) => Some(left.min(limit)),
                (left, limit) => left.or(limit),
            };
            let address =
                if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
            match Tcp.connect(&address, left) {
                Ok(stream) => {
                    let limits = config.limits();
                    return Ok(Arc::new(Connection::new(
                        stream,
                        Side::Connector,
                        limits,
                        orb.pool().clone(),
                    )));
                }
                Err(error) => why = format!("cannot connect to {address}: {error}"),
            }
        }
        if deadline.is_past() {
            let limit = timeout.unwrap_or_default();
            return Err(SystemException::from(Kind::Timeout).detail(format!("{why} (within {limit:?})")));
        }
        Err(SystemException::new(Kind::Transient, minor::TRANSIENT_CONNECT, Completion::No).detail(why))
    }
}

/// A connection in use by one call.
pub(crate) struct Lease(Arc<Connection>);

impl Lease {
    fn new(connection: Arc<Connection>) -> Lease {
        connection.in_flight.fetch_add(1, Ordering::Relaxed);
        Lease(connection)
    }
}

impl Deref for Lease {
    type Target = Arc<Connection>;
    fn deref(&self) -> &Arc<Connection> {
        &self.0
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}
