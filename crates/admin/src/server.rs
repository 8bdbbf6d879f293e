//! The listener and its threads.

use crate::Source;
use crate::board::SampleBoard;
use crate::connection::{PendingConnections, Permit, Shared, serve, turn_away};
use isorb_rt::sched::{SpawnError, Thread, ThreadSpec};
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

/// The options of a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// How often new numbers are sampled while there is a viewer.
    pub interval: Duration,
    /// How long a client may take to send its request, and to read an answer or a set of numbers.
    pub timeout: Duration,
    /// The most connections at a time; more get the answer 503.
    pub connections: usize,
    /// The most of them that may stay open for events; fewer, so that one more client can read the
    /// page.
    pub streams: usize,
    /// Host names, other than addresses and `localhost`, by which clients may request the page.
    pub hosts: Vec<String>,
}

impl Default for Options {
    /// Twice a second, a time-out of five seconds, 16 connections, 8 of them for events, no other
    /// host names.
    fn default() -> Options {
        Options {
            interval: Duration::from_millis(500),
            timeout: Duration::from_secs(5),
            connections: 16,
            streams: 8,
            hosts: Vec::new(),
        }
    }
}

/// A page that is served. It ends when this is dropped; connections end by themselves soon after.
pub struct Admin {
    address: SocketAddr,
    shared: Arc<Shared>,
    threads: Vec<Thread<()>>,
}

/// What a process says about itself to programs.
#[derive(Clone)]
pub struct Probes {
    /// The body of `/metrics`, in the text format of OpenMetrics 1.0.
    pub metrics: Arc<dyn Fn() -> String + Send + Sync>,
    /// `/healthz`: whether the process works; if not, it should be restarted.
    pub live: Arc<dyn Fn() -> bool + Send + Sync>,
    /// `/readyz`: whether the process takes requests.
    pub ready: Arc<dyn Fn() -> bool + Send + Sync>,
}

impl fmt::Debug for Probes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Probes").finish_non_exhaustive()
    }
}

/// How long the thread of an evicted client may take to end.
const EVICTION_TIMEOUT: Duration = Duration::from_millis(500);

/// Connections' threads do little.
const STACK: usize = 256 * 1024;

impl Admin {
    /// Serves the page of `source` at `address`.
    ///
    /// # Errors
    /// The system's error for the address (it is in use, or not this machine's) or for the two
    /// threads.
    ///
    /// # Real-time
    /// For start-up. Its threads are of class `Other`.
    pub fn start(address: SocketAddr, options: Options, source: impl Source) -> io::Result<Admin> {
        Admin::start_any(address, options, Some(Box::new(source)), None)
    }

    /// Serves `/metrics`, `/healthz` and `/readyz` at `address`, and no page.
    ///
    /// # Errors
    /// As [`Admin::start`].
    ///
    /// # Real-time
    /// As [`Admin::start`].
    pub fn start_probes(address: SocketAddr, options: Options, probes: Probes) -> io::Result<Admin> {
        Admin::start_any(address, options, None, Some(probes))
    }

    fn start_any(
        address: SocketAddr,
        options: Options,
        source: Option<Box<dyn Source>>,
        probes: Option<Probes>,
    ) -> io::Result<Admin> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            board: SampleBoard::default(),
            hosts: options.hosts,
            interval: options.interval,
            timeout: options.timeout.max(Duration::from_millis(1)),
            connections: AtomicUsize::new(0),
            streams: AtomicUsize::new(0),
            max_streams: options.streams,
            unheard: PendingConnections::default(),
            probes,
        });
        let mut admin = Admin { address, shared: shared.clone(), threads: Vec::new() };
        if let Some(source) = source {
            let (filler, interval) = (shared.clone(), options.interval);
            admin.threads.push(spawn("admin-sampler", move || filler.board.fill(source, interval))?);
        }
        let limit = options.connections;
        admin.threads.push(spawn("admin-accept", move || accept(&listener, &shared, limit))?);
        Ok(admin)
    }

    /// The address that it listens at.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Admin {
    fn drop(&mut self) {
        self.shared.board.stop();
        // Wakes the thread in accept.
        let ip = match self.address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
            ip => ip,
        };
        let woken =
            TcpStream::connect_timeout(&SocketAddr::new(ip, self.address.port()), Duration::from_secs(1));
        for thread in self.threads.drain(..) {
            // If the accepting thread cannot be woken, it ends with the next connection, and is not
            // waited for.
            if woken.is_ok() {
                let _ = thread.join();
            }
        }
    }
}

impl fmt::Debug for Admin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admin").field("address", &self.address).finish_non_exhaustive()
    }
}

/// A permit for a new client. Where there is none, the oldest client without a complete request is
/// evicted.
fn permit(shared: &Shared, limit: usize) -> Option<Permit<'_>> {
    let free = || Permit::take(&shared.connections, limit);
    free().or_else(|| {
        if !shared.unheard.end_oldest() {
            return None;
        }
        // Its thread ends at once.
        (0..EVICTION_TIMEOUT.as_millis()).find_map(|_| {
            std::thread::sleep(Duration::from_millis(1));
            free()
        })
    })
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>, limit: usize) {
    let mut number = 0;
    while !shared.board.is_stopped() {
        let Ok((mut stream, _)) = listener.accept() else {
            // No descriptor is left, or the client has closed already.
            std::thread::sleep(Duration::from_millis(20));
            continue;
        };
        if shared.board.is_stopped() {
            return;
        }
        let Some(permit) = permit(shared, limit) else {
            turn_away(&mut stream);
            continue;
        };
        number += 1;
        // Here, since the next client may come before the thread runs.
        shared.unheard.add(number, &stream);
        let theirs = shared.clone();
        let serving = spawn("admin-client", move || {
            let _permit = Permit::adopt(&theirs.connections);
            serve(stream, number, &theirs);
        });
        if serving.is_ok() {
            permit.keep();
        }
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<Thread<()>> {
    ThreadSpec::new(name).stack_size(STACK).spawn(work).map_err(|error| match error {
        SpawnError::Create(errno) => errno.into(),
        other => io::Error::other(other.to_string()),
    })
}
