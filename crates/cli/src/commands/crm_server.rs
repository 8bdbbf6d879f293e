//! `isorb crm-server` and `isorb crm-coordinator`: reflective memory's processes.

use super::admin::{self, AdminArgs};
use super::listen::endpoint;
use isorb::{Config, Orb, Reference};
use isorb_admin::MemorySource;
use isorb_reflective_memory::admission::{Costs, CostsError};
use isorb_reflective_memory::agents::Recorded;
use isorb_reflective_memory::coordinator::{Coordinator, CoordinatorStore, FileStore, MemoryStore};
use isorb_reflective_memory::node::{NodeServer, ServerConfig, default_socket, measure_costs};
use isorb_reflective_memory::{Holder, Library};
use isorb_rt::priority::{Linear, Priority, PriorityMapping};
use isorb_rt::sched::{NativeRange, Need, RealTime, SchedClass};
use isorb_trace::{Participant, Recording, Role, encode};
use std::error::Error;
use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// One a node: owns the memory, pushes it to other nodes.
#[derive(Debug, clap::Args)]
pub struct ServerArgs {
    /// The node's name [default: the host's].
    #[arg(long)]
    name: Option<String>,
    /// Where libraries find the server [default: in the run-time folder, or ISORB_CRM_SOCKET].
    #[arg(long, value_name = "FILE")]
    socket: Option<PathBuf>,
    /// The coordinator's URL; without one there is this node only.
    #[arg(long, value_name = "URL")]
    coordinator: Option<String>,
    /// Address for calls and datagrams of other nodes.
    #[arg(long, default_value = "127.0.0.1")]
    host: IpAddr,
    /// Address that other nodes are told for calls and datagrams, where it is another.
    #[arg(long, value_name = "ADDRESS")]
    publish: Option<IpAddr>,
    /// Address of a second interface: channels to nodes that have one, and calls, go on over it when the first path fails.
    #[arg(long, value_name = "ADDRESS")]
    second: Option<IpAddr>,
    /// First of 16 multicast groups and their port, the same on all nodes: areas that several nodes read may go once to all of them.
    #[arg(long, value_name = "GROUP:PORT")]
    multicast: Option<SocketAddr>,
    /// Dispatching threads.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    dispatchers: u16,
    /// CORBA priority of the dispatching threads; without it they are ordinary threads.
    #[arg(long, value_parser = clap::value_parser!(i16).range(0..))]
    priority: Option<i16>,
    /// Rate of the link in Mbit/s, for admission and pacing.
    #[arg(long, value_name = "MBIT", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    link: u64,
    /// What agents cost, for admission, in nanoseconds (push=10000,datagram=10000,kib=1000), or `measure`: measured at the start.
    #[arg(long, value_name = "COSTS", value_parser = costs)]
    costs: Option<CostsBy>,
    /// Measures what agents cost on this machine, prints it as --costs takes it, and ends.
    #[arg(long)]
    measure_costs: bool,
    /// Milliseconds of silence after which a node counts as dead: at least 200, two heartbeats.
    #[arg(long, value_name = "MS", default_value_t = 350)]
    silence: u64,
    /// Writes what was pushed lately to this file, once a second, for `isorb timeline`; with several dispatching threads, that of the
    /// others beside it.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    #[command(flatten)]
    admin: AdminArgs,
}

/// Where costs come from.
#[derive(Clone, Copy, Debug)]
enum CostsBy {
    Numbers(Costs),
    Measuring,
}

fn costs(text: &str) -> Result<CostsBy, CostsError> {
    match text {
        "measure" => Ok(CostsBy::Measuring),
        numbers => numbers.parse().map(CostsBy::Numbers),
    }
}

/// One a node, beside the server: keeps the areas that nobody else uses.
#[derive(Debug, clap::Args)]
pub struct HolderArgs {
    /// The node's server [default: in the run-time folder, or ISORB_CRM_SOCKET].
    #[arg(long, value_name = "FILE")]
    socket: Option<PathBuf>,
}

/// One a system: knows which areas there are and where.
#[derive(Debug, clap::Args)]
pub struct CoordinatorArgs {
    /// Address to listen at.
    #[arg(long, default_value = "127.0.0.1")]
    host: IpAddr,
    /// Port to listen at; 0 for a free one.
    #[arg(long, default_value_t = 2810)]
    port: u16,
    /// Address of a second interface to listen at as well: whoever is told of both finds it by one when the other fails.
    #[arg(long, value_name = "ADDRESS")]
    second: Option<IpAddr>,
    /// File that keeps what it knows; made if it is not there.
    #[arg(long, value_name = "FILE", default_value = "isorb-crm.redb", conflicts_with = "memory")]
    store: PathBuf,
    /// Keeps nothing; servers tell it again after a restart.
    #[arg(long)]
    memory: bool,
}

/// Serves until it is killed, which it may be at any moment.
pub fn server(args: &ServerArgs, orb_arguments: Vec<String>) -> Result<(), Box<dyn Error>> {
    if args.measure_costs {
        println!("--costs {}", measure_costs()?);
        return Ok(());
    }
    let orb = orb(orb_arguments, (args.host, args.publish), args.second, 0)?;
    let name = args.name.clone().unwrap_or_else(host_name);
    let mut config = ServerConfig::new(name, args.socket.clone().unwrap_or_else(default_socket));
    config.dispatcher.udp = (args.host, 0).into();
    config.dispatcher.second = args.second.map(|address| (address, 0).into());
    config.dispatcher.multicast = args.multicast;
    config.dispatcher.class = class(args.priority)?;
    config.publish = args.publish;
    config.dispatchers = args.dispatchers.into();
    config.admission.link_bits_per_s = args.link * 1_000_000;
    match args.costs {
        Some(CostsBy::Numbers(costs)) => config.admission.costs = costs,
        Some(CostsBy::Measuring) => config.admission.costs = measure_costs()?,
        None => {}
    }
    config.silence = Duration::from_millis(args.silence);
    let coordinator = match &args.coordinator {
        Some(url) => Some(super::crm::coordinator(&orb, url)?),
        None => None,
    };
    let socket = config.socket.clone();
    let server = Arc::new(NodeServer::start(&orb, config, coordinator)?);
    if let Some(file) = args.trace.clone() {
        keep_trace(&server, file);
    }
    let page = args.admin.start(MemorySource::new(Arc::downgrade(&server)))?;
    ready(&socket.display(), &admin::line(page.as_ref()))?;
    orb.run();
    Ok(())
}

/// Records of each dispatching thread that are kept: three a datagram or so.
const RECORDS: usize = 1 << 16;

/// Records, and writes it down while there is a server.
fn keep_trace(server: &Arc<NodeServer>, file: PathBuf) {
    server.record(RECORDS);
    let server = Arc::downgrade(server);
    std::thread::spawn(move || {
        while let Some(server) = server.upgrade() {
            for (number, recorded) in server.recorded().into_iter().enumerate() {
                let to = if number == 0 { file.clone() } else { file.with_extension(number.to_string()) };
                // Whoever reads it finds a whole one.
                let new = to.with_extension("new");
                let written = std::fs::write(&new, encode(&recording(recorded)))
                    .and_then(|()| std::fs::rename(&new, &to));
                if let Err(error) = written {
                    eprintln!("isorb: warning: {}: {error}; nothing more is written", to.display());
                    return;
                }
            }
            drop(server);
            std::thread::sleep(Duration::from_secs(1));
        }
    });
}

/// As `isorb timeline` has it: a supplier an area and node, and a consumer for each band that it was sent in.
fn recording(recorded: Recorded) -> Recording {
    let participant = |(releases, id, name)| Participant {
        role: if releases { Role::Supplier } else { Role::Consumer },
        id,
        name,
    };
    Recording {
        name: recorded.track.thread.clone(),
        participants: recorded.rows().into_iter().map(participant).collect(),
        tracks: vec![recorded.track],
        ..Recording::default()
    }
}

/// How often the holder looks for new areas.
const LOOK: Duration = Duration::from_millis(500);

/// Holds until it is killed. Whatever the server does, what is held stays.
pub fn holder(args: &HolderArgs, orb_arguments: Vec<String>) -> Result<(), Box<dyn Error>> {
    let (config, _) = Config::from_args(orb_arguments)?;
    let socket = args.socket.clone().unwrap_or_else(default_socket);
    let library = Library::connect(&Orb::with_config(config)?, &socket)?;
    let mut holder = Holder::new(&library);
    ready(&holder.look()?, "")?;
    loop {
        std::thread::sleep(LOOK);
        // Without a server there is nothing new to hold.
        let _ = holder.look();
    }
}

/// Serves until it is killed, which it may be at any moment.
pub fn coordinator(args: &CoordinatorArgs, orb_arguments: Vec<String>) -> Result<(), Box<dyn Error>> {
    let orb = orb(orb_arguments, (args.host, None), args.second, args.port)?;
    let store: Arc<dyn CoordinatorStore> = match args.memory {
        true => Arc::new(MemoryStore::default()),
        false => Arc::new(FileStore::open(&args.store)?),
    };
    let coordinator = Coordinator::start(&orb, store)?;
    let urls: Vec<String> =
        orb.endpoint_addresses().iter().map(|(host, port)| format!(":1.2@{host}:{port}")).collect();
    match urls.is_empty() {
        true => ready(coordinator.object().object(), "")?,
        false => ready(&format_args!("corbaloc:{}/ReflectiveMemory", urls.join(",")), "")?,
    }
    orb.run();
    Ok(())
}

/// Listens at a host, which references call as it is published, and at a second one.
fn orb(
    arguments: Vec<String>,
    (host, publish): (IpAddr, Option<IpAddr>),
    second: Option<IpAddr>,
    port: u16,
) -> Result<Orb, Box<dyn Error>> {
    let mut config = super::listen::config_at(arguments, &host.to_string(), port)?;
    // Unless arguments of the ORB say where it listens.
    if config.endpoints == [endpoint(&host.to_string(), port)] {
        if let Some(publish) = publish {
            config.endpoints[0] += &format!(";publish={publish}");
        }
        config.endpoints.extend(second.map(|second| endpoint(&second.to_string(), port)));
    }
    let orb = Orb::with_config(config)?;
    // Opens the endpoints.
    orb.root_poa()?;
    Ok(orb)
}

/// Whoever reads the first line finds a service.
fn ready(what: &dyn std::fmt::Display, more: &str) -> std::io::Result<()> {
    let mut output = std::io::stdout();
    write!(output, "READY {what}\n{more}")?;
    output.flush()
}

/// Real time is preferred, not required: what is missing is said once.
fn class(priority: Option<i16>) -> Result<SchedClass, Box<dyn Error>> {
    let Some(priority) = priority else { return Ok(SchedClass::Other) };
    let priority = Priority::new(priority).ok_or("a CORBA priority is 0 to 32767")?;
    let native =
        Linear(NativeRange::system()).to_native(priority).ok_or("this priority has no native one")?;
    let granted = RealTime::Prefer.resolve(Need { native_priority: native, lock_memory: None })?;
    for missing in granted.missing() {
        eprintln!("isorb: warning: {missing}");
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
