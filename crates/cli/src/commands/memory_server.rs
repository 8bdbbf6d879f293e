//! `isorb memory-server`, `memory-coordinator` and `memory-holder`: the processes of reflective
//! memory.

use super::admin::{self, AdminArgs};
use super::listen::{self, Listen, endpoint};
use super::service::{AccessArgs, Service, ServiceArgs};
use crate::commands::arguments::{Wrong, to_write};
use isorb::{Config, Reference};
use isorb_admin::MemorySource;
use isorb_reflective_memory::admission::{Costs, CostsError, Switch};
use isorb_reflective_memory::agents::Recorded;
use isorb_reflective_memory::coordinator::{
    Coordinator, CoordinatorStore, FileStore, MemoryStore, PeerLimits,
};
use isorb_reflective_memory::node::{NodeServer, ServerConfig, default_socket, measure_costs};
use isorb_reflective_memory::{Holder, Library, ValueStore};
use isorb_rt::common_clock::CommonClockConfig;
use isorb_rt::log;
use isorb_rt::priority::{Linear, Priority, PriorityMapping};
use isorb_rt::sched::{NativeRange, Need, RealTime, SchedClass};
use isorb_trace::{Participant, Recording, Role, encode};
use std::error::Error;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

const LOG: &str = "isorb::memory";

/// The port of coordinators.
const PORT: u16 = 2810;

/// Arguments of the node server, which owns the areas of a node and pushes them to other nodes.
#[derive(Debug, clap::Args)]
pub struct ServerArgs {
    /// The node's name [default: the host's].
    #[arg(long)]
    name: Option<String>,
    /// Socket at which libraries connect [default: ISORB_MEMORY_SOCKET, or a file in the run-time
    /// folder].
    #[arg(long, value_name = "FILE")]
    socket: Option<PathBuf>,
    /// URL of the coordinator; without it the node is on its own.
    #[arg(long, value_name = "URL")]
    coordinator: Option<String>,
    /// Address at which other nodes send calls and datagrams [default: 127.0.0.1].
    #[arg(long)]
    host: Option<IpAddr>,
    /// Address to announce to other nodes, if it differs from --host.
    #[arg(long, value_name = "ADDRESS")]
    publish: Option<IpAddr>,
    /// Address of a second interface. Calls, and channels to nodes with a second interface,
    /// continue over it when the first path fails.
    #[arg(long, value_name = "ADDRESS")]
    second: Option<IpAddr>,
    /// First of 16 multicast groups, and their port; the same on all nodes. Values that several
    /// nodes read can then be sent once.
    #[arg(long, value_name = "GROUP:PORT")]
    multicast: Option<SocketAddr>,
    /// Number of dispatching threads.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    dispatchers: u16,
    /// CORBA priority of the dispatching threads; without it they have no real-time class.
    #[arg(long, value_parser = clap::value_parser!(i16).range(0..))]
    priority: Option<i16>,
    /// Rate of the link in Mbit/s: all datagrams are paced by it, and guaranteed channels admitted
    /// [default: the interface's rate, which paces while there are guaranteed channels].
    #[arg(long, value_name = "MBIT", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    link: Option<u64>,
    /// Costs of agents for admission, in nanoseconds
    /// (push=10000,datagram=10000,kib=1000,call=200000), or `measure` to measure them at start.
    #[arg(long, value_name = "COSTS", value_parser = costs)]
    costs: Option<CostSource>,
    /// KiB that the switch keeps for the port of this node; guaranteed channels are admitted only
    /// as far as their bursts fit.
    #[arg(long, value_name = "KIB", value_parser = clap::value_parser!(u64).range(1..=1 << 30))]
    switch_buffer: Option<u64>,
    /// The switch does not sort datagrams by their class (DSCP): guaranteed values also wait for
    /// best effort.
    #[arg(long)]
    switch_fifo: bool,
    /// Measures the costs of agents on this machine, prints the option --costs, and ends.
    #[arg(long)]
    measure_costs: bool,
    /// Clock that all nodes read alike: a PTP device such as /dev/ptp0, or `realtime` where a
    /// daemon keeps the system's. Ages across nodes are then known better than by round trips.
    #[arg(long, value_name = "CLOCK")]
    common_clock: Option<PathBuf>,
    /// How far that clock may be wrong, in nanoseconds: the worst that its daemon reports.
    #[arg(long, value_name = "NS", requires = "common_clock", default_value_t = 1_000)]
    clock_error: u32,
    /// Time without a heartbeat after which a node counts as dead, in milliseconds; at least 200,
    /// two heartbeats.
    #[arg(long, value_name = "MS", default_value_t = 350)]
    silence: u64,
    /// Writes the latest pushes to this file once a second, for `isorb timeline`. Further
    /// dispatching threads have files beside it, with their number as extension.
    #[arg(long, value_name = "FILE", value_parser = to_write())]
    trace: Option<PathBuf>,
    /// Unix socket to listen at for calls, besides the port.
    #[arg(long, value_name = "FILE")]
    unix: Option<PathBuf>,
    #[command(flatten)]
    access: AccessArgs,
    #[command(flatten)]
    admin: AdminArgs,
}

impl ServerArgs {
    /// Its port is a free one.
    fn listen(&self) -> Listen {
        Listen { host: self.host.map(|host| host.to_string()), unix: self.unix.clone(), port: None }
    }

    fn host(&self) -> IpAddr {
        self.host.unwrap_or(Ipv4Addr::LOCALHOST.into())
    }
}

/// The source of the costs.
#[derive(Clone, Copy, Debug)]
enum CostSource {
    Given(Costs),
    Measured,
}

fn costs(text: &str) -> Result<CostSource, CostsError> {
    match text {
        "measure" => Ok(CostSource::Measured),
        numbers => numbers.parse().map(CostSource::Given),
    }
}

/// Arguments of the holder, which keeps the areas of a node mapped.
#[derive(Debug, clap::Args)]
pub struct HolderArgs {
    /// Socket of the node's server [default: ISORB_MEMORY_SOCKET, or a file in the run-time
    /// folder].
    #[arg(long, value_name = "FILE")]
    socket: Option<PathBuf>,
    /// File that stores the last values of areas, which are made again after a reboot; created if
    /// it does not exist.
    #[arg(long, value_name = "FILE", value_parser = to_write())]
    store: Option<PathBuf>,
    /// Areas with last values to store, by name or pattern (`plant/*`); repeatable.
    #[arg(long, value_name = "PATTERN", requires = "store", default_value = "*")]
    persist: Vec<String>,
    /// Most MiB of all stored values.
    #[arg(long, value_name = "MIB", requires = "store", default_value_t = 256)]
    store_limit: u64,
}

/// Arguments of the coordinator, which knows all nodes and their areas.
#[derive(Debug, clap::Args)]
pub struct CoordinatorArgs {
    #[command(flatten)]
    service: ServiceArgs,
    /// Address of a second interface to listen at. The printed URL names both; clients use one when
    /// the other fails.
    #[arg(long, value_name = "ADDRESS")]
    second: Option<IpAddr>,
    /// File that stores nodes and areas; created if it does not exist [default: isorb-memory.redb].
    #[arg(long, value_name = "FILE", conflicts_with = "memory", value_parser = to_write())]
    store: Option<PathBuf>,
    /// Stores nothing; node servers register again after a restart.
    #[arg(long)]
    memory: bool,
    /// Nodes that one client may register: one certificate, else one user of this host, else one
    /// address. 0 for no limit.
    #[arg(long, value_name = "N", default_value_t = 0)]
    max_peer_nodes: usize,
    /// Areas that one client may register, of all of its nodes together. 0 for no limit.
    #[arg(long, value_name = "N", default_value_t = 0)]
    max_peer_areas: usize,
}

/// Serves until SIGTERM. It can be killed at any time without damage.
pub fn server(args: &ServerArgs, orb_arguments: Vec<String>) -> Result<(), Box<dyn Error>> {
    if args.measure_costs {
        println!("--costs {}", measure_costs()?);
        return Ok(());
    }
    let mut process = orb(orb_arguments, &args.listen(), (args.publish, args.second), &args.access, 0)?;
    let orb = process.orb.clone();
    let name = args.name.clone().unwrap_or_else(host_name);
    let mut config = ServerConfig::new(name, args.socket.clone().unwrap_or_else(default_socket));
    config.dispatcher.udp = (args.host(), 0).into();
    config.dispatcher.second = args.second.map(|address| (address, 0).into());
    config.dispatcher.multicast = args.multicast;
    config.dispatcher.class = class(args.priority)?;
    config.dispatcher.common_clock = args.common_clock.as_ref().map(|clock| CommonClockConfig {
        device: Some(clock.clone()).filter(|clock| clock.as_os_str() != "realtime"),
        error_ns: args.clock_error,
    });
    config.publish = args.publish;
    config.dispatchers = args.dispatchers.into();
    config.admission.link_bits_per_s = args.link.unwrap_or(0) * 1_000_000;
    config.admission.measured = args.costs.is_some();
    config.admission.switch =
        Switch { buffer: args.switch_buffer.unwrap_or(0) * 1024, sorts: !args.switch_fifo };
    match args.costs {
        Some(CostSource::Given(costs)) => config.admission.costs = costs,
        Some(CostSource::Measured) => config.admission.costs = measure_costs()?,
        None => {}
    }
    config.silence = Duration::from_millis(args.silence);
    let coordinator = match &args.coordinator {
        Some(url) => Some(super::memory::coordinator_to_be(&orb, url)?),
        None => None,
    };
    let socket = config.socket.clone();
    let server = Arc::new(NodeServer::start(&orb, config, coordinator)?);
    if let Some(file) = args.trace.clone() {
        write_trace(&server, file);
    }
    let served = Arc::downgrade(&server);
    process.is_ready_while(Arc::new(move || served.upgrade().is_some_and(|server| server.is_serving())));
    let page = args.admin.start(MemorySource::new(Arc::downgrade(&server)))?;
    let _metrics = process.ready(&socket.display(), &admin::line(page.as_ref()))?;
    process.run();
    Ok(())
}

/// Trace records kept for each dispatching thread. A datagram makes about three.
const TRACE_RECORDS: usize = 1 << 16;

/// Records a trace and writes it once a second, as long as the server exists.
fn write_trace(server: &Arc<NodeServer>, file: PathBuf) {
    server.record(TRACE_RECORDS);
    let server = Arc::downgrade(server);
    std::thread::spawn(move || {
        while let Some(server) = server.upgrade() {
            for (number, recorded) in server.recorded().into_iter().enumerate() {
                let to = if number == 0 { file.clone() } else { file.with_extension(number.to_string()) };
                // A reader never sees a part of a file.
                let new = to.with_extension("new");
                let written = std::fs::write(&new, encode(&recording(recorded)))
                    .and_then(|()| std::fs::rename(&new, &to));
                if let Err(error) = written {
                    log::warn(
                        LOG,
                        format_args!(
                            "the trace {} cannot be written: {error}; tracing to files has ended",
                            to.display()
                        ),
                    );
                    return;
                }
            }
            drop(server);
            std::thread::sleep(Duration::from_secs(1));
        }
    });
}

/// The trace in the format of `isorb timeline`: a supplier for each area and node, and a consumer
/// for each band.
fn recording(recorded: Recorded) -> Recording {
    let participant = |(releases, id, name)| Participant {
        role: if releases { Role::Supplier } else { Role::Consumer },
        id,
        name,
        deadline: None,
    };
    Recording {
        name: recorded.track.thread.clone(),
        participants: recorded.rows().into_iter().map(participant).collect(),
        tracks: vec![recorded.track],
        ..Recording::default()
    }
}

/// Interval at which the holder maps new areas.
const HOLDER_INTERVAL: Duration = Duration::from_millis(500);

/// Maps the areas of a node and keeps them until it is killed. The server may restart meanwhile.
pub fn holder(args: &HolderArgs, orb_arguments: Vec<String>) -> Result<(), Box<dyn Error>> {
    let (config, _) = Config::from_args(orb_arguments)?;
    let socket = args.socket.clone().unwrap_or_else(default_socket);
    let library = Library::connect(&super::orb::plain(config)?, &socket)?;
    let open = |file: &PathBuf| ValueStore::open(file, args.persist.clone(), args.store_limit << 20);
    let mut store = args.store.as_ref().map(open).transpose()?;
    if let Some(store) = &mut store {
        store.restore(&library)?;
    }
    let mut holder = Holder::new(&library);
    ready(&holder.look()?, "")?;
    let mut is_reported = false;
    loop {
        std::thread::sleep(HOLDER_INTERVAL);
        // An error means that the server is away; there are no new areas then.
        let _ = holder.look();
        match store.as_mut().map(|store| store.save(&library)) {
            Some(Err(error)) if !error.is_temporary() && !std::mem::replace(&mut is_reported, true) => {
                let again = "trying again twice a second";
                log::warn(LOG, format_args!("last values are not stored: {error}; {again}"));
            }
            Some(Ok(_)) => is_reported = false,
            _ => {}
        }
    }
}

/// Serves until SIGTERM. It can be killed at any time without damage.
pub fn coordinator(args: &CoordinatorArgs, orb_arguments: Vec<String>) -> Result<(), Box<dyn Error>> {
    let ServiceArgs { listen, access } = &args.service;
    let process = orb(orb_arguments, listen, (None, args.second), access, PORT)?;
    let orb = &process.orb;
    let store: Arc<dyn CoordinatorStore> = match args.memory {
        true => Arc::new(MemoryStore::default()),
        false => Arc::new(FileStore::open(args.store.clone().unwrap_or_else(default_store))?),
    };
    let limits = PeerLimits { nodes: args.max_peer_nodes, areas: args.max_peer_areas };
    let coordinator = Coordinator::start_with(orb, store, limits)?;
    let urls: Vec<String> =
        orb.endpoint_addresses().iter().map(|(host, port)| format!(":1.2@{host}:{port}")).collect();
    let url = match urls.is_empty() {
        true => coordinator.object().object().to_string(),
        false => format!("corbaloc:{}/ReflectiveMemory", urls.join(",")),
    };
    let _metrics = process.ready(&url, "")?;
    process.run();
    Ok(())
}

/// `isorb-memory.redb`, or `isorb-crm.redb` of an earlier version if only that exists.
fn default_store() -> PathBuf {
    let (current, old) = (PathBuf::from("isorb-memory.redb"), PathBuf::from("isorb-crm.redb"));
    if !current.exists() && old.exists() { old } else { current }
}

/// A process with an ORB that listens at a host, which references name by its published address,
/// and at a second one.
fn orb(
    arguments: Vec<String>,
    listen: &Listen,
    (publish, second): (Option<IpAddr>, Option<IpAddr>),
    access: &AccessArgs,
    port: u16,
) -> Result<Service, Box<dyn Error>> {
    let own = listen::names_endpoint(&arguments).is_none();
    let mut config = listen.config(arguments, port)?;
    // The ORB's arguments say all about its endpoints.
    if own {
        if let Some(publish) = publish {
            config.endpoints[0] += &format!(";publish={publish}");
        }
        let port = listen.port.unwrap_or(port);
        config.endpoints.extend(second.map(|second| endpoint(&second.to_string(), port)));
    } else if publish.is_some() || second.is_some() {
        let wrong = "--publish and --second are about the endpoint of --host; say them with -ORBEndPoint too, as in \
                     HOST:PORT;publish=ADDRESS, or leave that out";
        return Err(Wrong(wrong.into()).into());
    }
    let process = access.start(config)?;
    // Opens the endpoints.
    process.orb.root_poa()?;
    Ok(process)
}

/// Prints the line that other programs wait for.
fn ready(what: &dyn std::fmt::Display, more: &str) -> std::io::Result<()> {
    let mut output = std::io::stdout();
    write!(output, "READY {what}\n{more}")?;
    output.flush()
}

/// The scheduling class of a CORBA priority. Logs a warning where the system does not grant it.
fn class(priority: Option<i16>) -> Result<SchedClass, Box<dyn Error>> {
    let Some(priority) = priority else { return Ok(SchedClass::Other) };
    let priority = Priority::new(priority).ok_or("a CORBA priority is 0 to 32767")?;
    let native = Linear(NativeRange::system())
        .to_native(priority)
        .ok_or("the priority has no native priority on this system")?;
    let granted = RealTime::Prefer.resolve(Need { native_priority: native, lock_memory: None })?;
    for missing in granted.missing() {
        log::warn(LOG, format_args!("{missing}"));
    }
    Ok(granted.class(SchedClass::Fifo(native)))
}

fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match name.trim() {
        "" => "node".into(),
        name => name.into(),
    }
}
