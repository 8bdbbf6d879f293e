//! `isorb event-channel`: an event channel as a process.

use super::admin::{self, AdminArgs};
use super::event_control::{self, Dispatching, MOST_THREADS, Modules};
use super::event_processors;
use super::metrics;
use super::service::ServiceArgs;
use crate::commands::arguments::{Wrong, to_read, to_write};
use isorb::{Kind, Orb};
use isorb_admin::ChannelSource;
use isorb_event::Containment;
use isorb_event::federation::{Federation, Gateways, Levels, LinkId, MIN_KEY, MemberKey, Pace, Security};
use isorb_event::servants::{
    CosEventService, DependencyRecorder, EventServiceOptions, FederationServant, Layout, LinkError,
    LinkOptions, RegisteredOperations, RegistrationStore, RtecEventService, UdpGateway, UdpOptions,
    Unscheduled, beyond_this_host, peer_proxies,
};
use isorb_event::{
    AsDeclared, Channel, ChannelBuilder, Configuration, HistoryQos, Lifespan, Limits, Overflow, Quality,
    RunTimeScheduler, SizeClass, Strategy, ThreadSetup, Totals, Undeclared,
};
use isorb_rt::log;
use isorb_rt::sched::{NativeRange, Need, RealTime};
use isorb_sched::Preemption;
use isorb_sched_service::rtec_scheduler::SchedulerRef;
use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::ops::RangeInclusive;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

const LOG: &str = "isorb::event";

/// What to do with an event for a consumer with a full queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Full {
    DropOldest,
    DropNewest,
    Block,
    Refuse,
}

/// What to do with a consumer that used more processor time than its schedule declares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Overrun {
    /// Counts it.
    Count,
    /// Drops its next event, too.
    Skip,
    /// Serves it at the least urgent level from then on.
    Demote,
    /// Disconnects it.
    Disconnect,
}

/// What to do with an event that its supplier did not declare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum UndeclaredEvents {
    /// Counts it and delivers it.
    Count,
    /// Counts it and discards it.
    Refuse,
}

/// Arguments of `isorb event-channel`. Further arguments go to the ORB (`-ORB…`).
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    service: ServiceArgs,
    /// How events are dispatched [default: that of the --store, or none].
    #[arg(long, value_enum)]
    dispatching: Option<Dispatching>,
    /// The channel's modules. `isorb event-control` replaces them later [default: those of the
    /// --store, or full].
    #[arg(long, value_enum)]
    configuration: Option<Modules>,
    /// Number of threads for each priority level (`--dispatching threads`).
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_THREADS)))]
    threads: u32,
    /// Number of threads for each priority level that push to remote consumers; 0 pushes on the
    /// dispatching threads.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(0..=i64::from(MOST_THREADS)))]
    push_threads: u32,
    /// Greatest number of pushes that wait for a consumer.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=MOST))]
    queue: u32,
    /// What to do with an event for a consumer with a full queue.
    #[arg(long, value_enum, default_value = "drop-oldest")]
    full: Full,
    /// What to do with a consumer that used more processor time than its operation declares
    /// (`--scheduler`, `--schedule`).
    #[arg(long, value_enum, default_value = "count")]
    overrun: Overrun,
    /// Greatest number of events that wait in the channel.
    #[arg(long, default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..=MOST))]
    events: u32,
    /// Greatest data of such an event, in octets. The pool takes `--events` times as much.
    #[arg(long, default_value_t = 8192, value_parser = clap::value_parser!(u32).range(0..=MOST_DATA))]
    payload: u32,
    /// Room for waiting events with more data: their greatest data in octets, and their number; up
    /// to three times. Still larger events are lost for consumers with a queue, and counted; the
    /// first of each supplier is logged.
    #[arg(long, value_name = "OCTETS:EVENTS", default_values = ["65536:64", "1048576:4"], value_parser = size_class)]
    larger: Vec<SizeClass>,
    /// Keeps the last N events of each type and source for consumers that connect later and ask for
    /// them; 0 keeps none [default: 100 with --keep-for, else 0].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=MOST))]
    keep_last: Option<u32>,
    /// Keeps events for this time only, in milliseconds.
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=LONGEST))]
    keep_for: Option<u64>,
    /// Greatest number of types and sources that have a history.
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    keep_streams: u32,
    /// Greatest data of a kept event, in octets. The memory is `--keep-streams` times `--keep-last`
    /// times as much.
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u32).range(0..=MOST_DATA))]
    keep_payload: u32,
    /// Lifespan of events of a type, or of all other types, in milliseconds from their arrival;
    /// repeatable. Older events are dropped and counted.
    #[arg(long, value_name = "[TYPE=]MS", value_parser = lifespan)]
    lifespan: Vec<Lifespan>,
    /// What to do with an event that its supplier did not declare.
    #[arg(long, value_enum, default_value = "count")]
    undeclared: UndeclaredEvents,
    /// Timeout of a push to a consumer that does not read, in milliseconds.
    #[arg(long, default_value_t = 500)]
    push_timeout: u64,
    /// Interval of the test whether consumers still exist, in milliseconds; 0 for never.
    #[arg(long, default_value_t = 10_000)]
    ping: u64,
    /// Proxies that one client may have: one certificate, else one user of this host, else one
    /// address. 0 for no limit.
    #[arg(long, value_name = "N", default_value_t = 0)]
    max_peer_proxies: usize,
    /// Links to this channel that one client may have, each by a join. 0 for no limit.
    #[arg(long, value_name = "N", default_value_t = 0)]
    max_peer_joins: usize,
    /// Leaves the channel's time stamps out of events on the wire, for a TAO built with
    /// TAO_LACKS_EVENT_CHANNEL_TIMESTAMPS.
    #[arg(long)]
    plain_header: bool,
    /// Real-time threads: require, prefer, off.
    #[arg(long, default_value = "prefer")]
    real_time: String,
    /// Admits consumers as operations of this schedule file, by the handle that they connect with
    /// (`rt_info`). Handles count the file's operations from 1.
    #[arg(long, value_name = "FILE", conflicts_with = "scheduler", value_parser = to_read())]
    schedule: Option<PathBuf>,
    /// The processors that dispatch the consumers of `--schedule`, by the kernel's numbers: each
    /// has a thread for each level, bound to it, and the operations are placed on them by worst fit
    /// [default: those that the file names; without any, a verdict for one processor].
    #[arg(long, value_name = "CPU,...", value_delimiter = ',')]
    processors: Vec<usize>,
    /// Admits consumers as operations of this scheduler (`isorb scheduler`): a URL such as
    /// corbaloc::host/ScheduleService, or a reference.
    #[arg(long, value_name = "URL")]
    scheduler: Option<String>,
    /// A configuration run (`--scheduler`): tells the scheduler which operations of suppliers
    /// release which of consumers, as they connect. No consumer is refused.
    #[arg(long, requires = "scheduler")]
    record: bool,
    /// Least number of priority levels (`--scheduler`). The last level serves consumers that are
    /// not operations. A schedule with more levels has as many.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u8).range(2..=64))]
    levels: u8,
    /// The CORBA priorities of the schedule, if the scheduler has not computed one (`--scheduler`).
    #[arg(long, value_name = "FIRST..LAST", default_value = "0..32767", value_parser = priorities)]
    priorities: RangeInclusive<u16>,
    /// The channel's number, unique in its federation; 0 for no federation.
    #[arg(long, default_value_t = 0)]
    id: u64,
    /// Interval of the announcements to neighbours, in milliseconds. A neighbour that is silent for
    /// thirty intervals is forgotten.
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u64).range(10..=86_400_000))]
    tick: u64,
    /// URL or reference of a neighbour in the federation; repeatable. The channel tries again until
    /// the neighbour answers.
    #[arg(long, value_name = "URL")]
    join: Vec<String>,
    /// File with the key of the federation: at least 16 octets that all its members have, readable
    /// by their user only. Datagrams and joins without it are ignored.
    #[arg(long, value_name = "FILE", conflicts_with = "insecure", value_parser = to_read())]
    key_file: Option<PathBuf>,
    /// Exchanges events with neighbours beyond this host without a key: any host that reaches the
    /// channel can join it, and forge and read events.
    #[arg(long)]
    insecure: bool,
    /// Receives events of neighbours at the channel's own port, in order. Otherwise each of four
    /// priority levels has its own port and thread, so that an urgent event does not wait for
    /// others.
    #[arg(long)]
    one_port: bool,
    /// Marks the packets of events by their priority level, for the network (DSCP) and for the
    /// queue of the interface.
    #[arg(long, conflicts_with = "one_port")]
    mark: bool,
    /// What is sent of a priority level over each link at most: octets a second, and octets at
    /// once; repeatable. `isorb sched federation` prints them. Other levels are not limited.
    #[arg(long, value_name = "LEVEL=RATE:BURST", value_parser = pace)]
    pace: Vec<Pace>,
    /// A neighbour in the federation over UDP: the address to listen at, and the neighbour's
    /// address. Other senders are ignored. Repeatable.
    #[arg(long, value_name = "HERE=THERE", value_parser = neighbour)]
    udp: Vec<UdpOptions>,
    /// An IPv4 multicast group with all its channels as neighbours, and the address of the
    /// interface; repeatable.
    #[arg(long, value_name = "GROUP:PORT[@INTERFACE]", value_parser = group)]
    multicast: Vec<UdpOptions>,
    /// URL of a naming service, such as corbaloc::host/NameService, to bind `EventService` and
    /// `CosEventService` in, as TAO's services do.
    #[arg(long, value_name = "URL")]
    ns: Option<String>,
    /// Ends the process when a client destroys the channel.
    #[arg(long)]
    exit_on_destroy: bool,
    /// File to write the reference of the real-time channel to.
    #[arg(long, value_name = "FILE", value_parser = to_write())]
    ior_file: Option<PathBuf>,
    /// File with the registrations of remote consumers and suppliers of TAO's interfaces, and with
    /// the modules that `isorb event-control` chose. They outlive the process: the proxies are
    /// there again after a restart, under the same references. Needs --port.
    #[arg(long, value_name = "FILE", value_parser = to_write())]
    store: Option<PathBuf>,
    /// Records a trace from the start; `isorb event-control URL --trace FILE` fetches it. `--admin`
    /// implies it.
    #[arg(long)]
    trace: bool,
    #[command(flatten)]
    admin: AdminArgs,
}

/// Upper limits of the options: waiting events or pushes, and the data of an event in octets.
const MOST: i64 = 1 << 20;
const MOST_DATA: i64 = 1 << 26;
/// Upper limit of times that events are kept: a year in milliseconds.
const LONGEST: u64 = 365 * 86_400_000;

/// The events of a type that are kept with `--keep-for` alone.
const KEPT_FOR_A_TIME: u32 = 100;

/// Announcements missed before a neighbour is forgotten. Its state is lost then, so that a busy
/// machine must not look like a silent one.
const TIMEOUT: u64 = 30;

/// Serves until it is killed. It can be killed at any time without damage.
pub fn run(args: &Args, orb_arguments: Vec<String>) -> Result<(), Box<dyn Error>> {
    if args.id == 0 && !(args.join.is_empty() && args.udp.is_empty() && args.multicast.is_empty()) {
        let wrong = "--join, --udp and --multicast need --id, the channel's number in the federation";
        return Err(Wrong(wrong.into()).into());
    }
    let named = super::listen::names_endpoint(&orb_arguments).is_some();
    if args.store.is_some() && args.service.listen.port.unwrap_or(0) == 0 && !named {
        let wrong = "--store needs --port: references stay valid only if the channel listens at the same port each time";
        return Err(Wrong(wrong.into()).into());
    }
    let mut larger = [SizeClass::default(); 3];
    if args.larger.len() > larger.len() {
        let wrong = format!("--larger is given {} times; give it at most three times", args.larger.len());
        return Err(Wrong(wrong).into());
    }
    larger.iter_mut().zip(&args.larger).for_each(|(class, wanted)| *class = *wanted);
    let mut config = args.service.config(orb_arguments, 0)?;
    let setup = setup(&args.real_time)?;
    if setup.mapping.is_none() {
        // One warning is enough, and the links' threads are like the others.
        config.real_time.mode = RealTime::Off;
    }
    let mut process = args.service.start(config)?;
    let orb = process.orb.clone();
    let store = store(args)?;
    let (configuration, strategy) = modules(args, store.as_ref())?;
    let security = security(args)?;
    args.join.iter().try_for_each(|url| is_reference(&orb, url, &security))?;
    let dependencies = recorder(args, &orb)?;
    let mut processors = Vec::new();
    let (scheduler, levels) = match scheduler(args, strategy, &orb)? {
        None if args.record => (Arc::new(Unscheduled) as _, ChannelBuilder::default_levels()),
        None => (Arc::new(AsDeclared) as Arc<dyn RunTimeScheduler>, ChannelBuilder::default_levels()),
        Some(Admitting { operations, of, processors: named }) => {
            processors = named;
            for sentence in operations.unplaced() {
                log::warn(LOG, format_args!("{of}: {sentence}; their consumers will be refused"));
            }
            if setup.mapping.is_none() {
                log::warn(
                    LOG,
                    format_args!(
                        "consumers are admitted as if threads were real-time ones, and these are not"
                    ),
                );
            }
            let levels =
                operations.levels(usize::from(args.levels)).map_err(|error| format!("{of}: {error}"))?;
            (Arc::new(operations) as _, levels)
        }
    };
    // Pushes at a level's priority have its native priority.
    let setup = setup.for_levels(&levels);
    if let Some(mapping) = &setup.mapping {
        orb.rt().set_priority_mapping(mapping.clone());
    }
    let channel = Channel::builder()
        .scheduler(scheduler)
        .levels(levels)
        .processors(event_processors::sets(&processors))
        .strategy(strategy)
        .configuration(configuration)
        .limits(Limits {
            events: args.events as usize,
            payload: args.payload as usize,
            larger,
            ..Limits::default()
        })
        .history(HistoryQos {
            depth: args.keep_last.unwrap_or(args.keep_for.map_or(0, |_| KEPT_FOR_A_TIME)) as usize,
            age: args.keep_for.map(Duration::from_millis),
            streams: args.keep_streams as usize,
            payload: args.keep_payload as usize,
        })
        .lifespans(args.lifespan.clone())
        .threads(setup.clone())
        .undeclared(match args.undeclared {
            UndeclaredEvents::Count => Undeclared::Count,
            UndeclaredEvents::Refuse => Undeclared::Refuse,
        })
        .id(args.id)
        // The page shows latencies.
        .trace(args.trace || args.admin.is_wanted())
        .latencies(args.admin.is_wanted())
        .build()?;
    let quality = Quality {
        queue: args.queue as usize,
        overflow: match args.full {
            Full::DropOldest => Overflow::DropOldest,
            Full::DropNewest => Overflow::DropNewest,
            Full::Block => Overflow::Block,
            Full::Refuse => Overflow::Refuse,
        },
        containment: match args.overrun {
            Overrun::Count => Containment::Count,
            Overrun::Skip => Containment::Skip,
            Overrun::Demote => Containment::Demote,
            Overrun::Disconnect => Containment::Disconnect,
        },
        ..Quality::default()
    };
    let options = EventServiceOptions {
        layout: if args.plain_header { Layout::Plain } else { Layout::Stamped },
        quality: quality.clone(),
        push_timeout: Duration::from_millis(args.push_timeout),
        threads: args.push_threads as usize,
        setup: setup.clone(),
        peer_proxies: peer_proxies(args.max_peer_proxies),
        ping: (args.ping != 0).then(|| Duration::from_millis(args.ping)),
        dependencies,
        shutdown_on_destroy: args.exit_on_destroy,
        ..EventServiceOptions::default()
    };
    let real_time = match &store {
        None => RtecEventService::start(&orb, &channel, options.clone())?,
        Some(store) => RtecEventService::start_persistent(&orb, &channel, options.clone(), store.clone())?,
    };
    let standard = CosEventService::start(&orb, &channel, options)?;
    if let Some(file) = &args.ior_file {
        std::fs::write(file, format!("{}\n", real_time.object()))
            .map_err(|error| format!("{}: {error}", file.display()))?;
    }
    let federation = match args.id {
        0 => None,
        _ => {
            // A link that stalls must not count as failed. It has a thread of its own.
            let threads = args.join.len().clamp(1, 8);
            let federation = Federation::builder(&channel)
                .quality(Quality { failures: 0, ..quality })
                .gateways(Gateways::Threads(threads, setup.clone()))
                .security(security)
                .paces(&args.pace)
                .build()?;
            let links = LinkOptions::new(Duration::from_millis(args.push_timeout)).lanes(!args.one_port);
            let links = links.marked(args.mark).peer_links(args.max_peer_joins);
            let neighbourhood = FederationServant::start(&orb, &federation, links)?;
            let gateways = args.udp.iter().chain(&args.multicast).map(|options| {
                let options = UdpOptions { marked: args.mark, ..*options };
                UdpGateway::start_with_threads(&federation, options, &setup)
                    .map_err(|error| format!("datagrams from {} to {}: {error}", options.listen, options.to))
            });
            let gateways = gateways.collect::<Result<Vec<_>, _>>()?;
            Some((federation, neighbourhood, gateways))
        }
    };
    let name = if args.id == 0 { "channel".to_owned() } else { format!("channel {}", args.id) };
    let admitted = is_scheduled(args) && args.push_threads == 0;
    let admitted = admitted.then(|| strategy.preemption()).flatten();
    let member = federation.as_ref().map(|(federation, ..)| federation.clone());
    event_control::serve(&orb, (&channel, member), name, admitted, store)?;
    orb.root_poa()?.manager().activate()?;
    if let Some(url) = &args.ns {
        super::ready::bind(&orb, url, "EventService", real_time.object())?;
        super::ready::bind(&orb, url, "CosEventService", standard.object())?;
    }
    let mut source = ChannelSource::new(&channel, args.events as usize);
    if let Some((federation, ..)) = &federation {
        source = source.federation(federation);
    }
    let page = args.admin.start(source)?;
    let mut lines = admin::line(page.as_ref());
    if let Some((_, neighbourhood, _)) = &federation {
        let url = super::ready::reference(&orb, "EventFederation", neighbourhood.object());
        lines += &format!("FEDERATION {url}\n");
    }
    let reference = super::ready::reference(&orb, "EventService", real_time.object());
    let counted = channel.clone();
    process.add_metrics(Arc::new(move |text| {
        for (name, help, value) in counters(&counted.totals()) {
            metrics::family(text, name, "counter", help, value);
        }
        event_processors::metrics(text, &processors, &counted);
    }));
    let _metrics = process.ready(&reference, &lines)?;
    if let Some((federation, neighbourhood, gateways)) = federation {
        let (orb, join, tick) = (orb.clone(), args.join.clone(), Duration::from_millis(args.tick));
        let member = move || {
            keep_joined(&orb, &federation, &neighbourhood, &join, tick);
            drop(gateways);
        };
        std::thread::Builder::new().name("event-federation".into()).spawn(member)?;
    }
    process.run();
    Ok(())
}

/// The counters of a channel, for `--metrics`.
fn counters(totals: &Totals) -> Vec<(&'static str, &'static str, u64)> {
    vec![
        ("isorb_event_too_large", "Pushes lost because the event is too large.", totals.too_large),
        ("isorb_event_undeclared", "Events that their supplier had not declared.", totals.undeclared),
        (
            "isorb_event_not_owned",
            "Events dropped because a stronger supplier owns their instance.",
            totals.not_owned,
        ),
        ("isorb_event_owners_changed", "Times that an instance got an owner.", totals.owners_changed),
        (
            "isorb_event_owners_unknown",
            "Events delivered without a look at ownership, since there are too many instances.",
            totals.owners_unknown,
        ),
        (
            "isorb_event_instances_missed",
            "Times that an instance was silent for longer than a consumer's period.",
            totals.instances_missed,
        ),
        ("isorb_event_suppliers_lost", "Suppliers that did not answer.", totals.suppliers_lost),
        (
            "isorb_event_unknown_proxies",
            "Pushes to proxies that the channel does not have.",
            totals.unknown_proxies,
        ),
    ]
}

fn store(args: &Args) -> Result<Option<RegistrationStore>, String> {
    let open = |file: &PathBuf| {
        RegistrationStore::open(file).map_err(|error| format!("--store {}: {error}", file.display()))
    };
    args.store.as_ref().map(open).transpose()
}

/// The modules that the arguments name; where they name none, those of the store.
fn modules(
    args: &Args,
    store: Option<&RegistrationStore>,
) -> Result<(Configuration, Strategy), Box<dyn Error>> {
    let known = if args.dispatching.is_none() && args.configuration.is_none() {
        store.map_or(Ok(None), RegistrationStore::modules)?
    } else {
        None
    };
    Ok(known.unwrap_or_else(|| {
        let dispatching = args.dispatching.unwrap_or(Dispatching::None);
        let configuration = args.configuration.unwrap_or(Modules::Full);
        (configuration.configuration(), dispatching.strategy(args.threads as usize))
    }))
}

fn is_scheduled(args: &Args) -> bool {
    args.schedule.is_some() || args.scheduler.is_some() && !args.record
}

/// The scheduler that admits consumers.
struct Admitting {
    operations: RegisteredOperations,
    /// Its name for messages.
    of: String,
    /// The processors of the operations; none where they have one together.
    processors: Vec<usize>,
}

const NO_FILE: &str = "--processors places the operations of a --schedule; a scheduling service computes for one processor: have it \
     write its operations to a file (isorb scheduler --record FILE), and give the channel that file";

fn scheduler(args: &Args, strategy: Strategy, orb: &Orb) -> Result<Option<Admitting>, Box<dyn Error>> {
    if !args.processors.is_empty() && args.schedule.is_none() {
        return Err(NO_FILE.into());
    }
    if !is_scheduled(args) {
        return Ok(None);
    }
    let file = args.schedule.as_ref().map(|file| super::sched::read(file)).transpose()?;
    if let Some(file) = &file {
        let processors = event_processors::of(&args.processors, file)?;
        if !processors.is_empty() {
            if args.push_threads == 0 {
                return Err("the threads of the processors push to the consumers of the schedule, and --push-threads to all others: \
                     give it at least 1 thread"
                    .into());
            }
            let operations = RegisteredOperations::of_file_on(file, &processors)?;
            return Ok(Some(Admitting { operations, of: file.name.clone(), processors }));
        }
    }
    let preemption = match args.push_threads {
        0 => strategy.preemption().ok_or(
            "a schedule orders the consumers: with --push-threads 0 it needs --dispatching threads, single or upcalls",
        )?,
        // Remote consumers have their own threads for each level.
        _ => Preemption::Full,
    };
    let processors = Vec::new();
    if let Some(file) = file {
        let operations = RegisteredOperations::of_file(&file, preemption)?;
        return Ok(Some(Admitting { operations, of: file.name, processors }));
    }
    let Some(url) = &args.scheduler else { return Ok(None) };
    let scheduler = scheduler_at(url, orb)?;
    let operations = RegisteredOperations::of_scheduler(scheduler, args.priorities.clone(), preemption);
    Ok(Some(Admitting { operations, of: url.clone(), processors }))
}

fn scheduler_at(url: &str, orb: &Orb) -> Result<SchedulerRef, String> {
    orb.resolve(url).map_err(|error: isorb::SystemException| format!("no scheduler at {url}: {error}"))
}

/// The recorder of a configuration run.
fn recorder(args: &Args, orb: &Orb) -> Result<Option<Arc<DependencyRecorder>>, String> {
    let url = args.scheduler.as_deref().filter(|_| args.record);
    url.map(|url| Ok(Arc::new(DependencyRecorder::new(scheduler_at(url, orb)?)))).transpose()
}

/// CORBA priorities, from the least to the most urgent.
fn priorities(text: &str) -> Result<RangeInclusive<u16>, String> {
    let wrong = || format!("{text}: give two priorities of 0 to 32767, as in 1..99");
    let (first, last) = text.split_once("..").ok_or_else(wrong)?;
    let [first, last] = [first, last].map(|number| number.parse::<u16>().ok().filter(|n| *n <= 32767));
    match (first, last) {
        (Some(first), Some(last)) if first < last => Ok(first..=last),
        _ => Err(wrong()),
    }
}

/// Two addresses of one neighbourhood by datagrams.
fn neighbour(text: &str) -> Result<UdpOptions, String> {
    let wrong = || format!("{text}: give two addresses, as in 10.0.0.1:5001=10.0.0.2:5001");
    let (here, there) = text.split_once('=').ok_or_else(wrong)?;
    let [here, there] = [here, there].map(|address| address.parse::<SocketAddr>().map_err(|_| wrong()));
    let (here, there) = (here?, there?);
    match there.ip().is_multicast() || here.ip().is_multicast() {
        true => Err(format!("{text}: this is a multicast group; use --multicast")),
        false => Ok(UdpOptions::to_neighbour(here, there)),
    }
}

/// The pace of a level.
fn pace(text: &str) -> Result<Pace, String> {
    let last = Levels::default().begins().len() - 1;
    let wrong = || {
        format!(
            "{text}: give a level of 0 to {last}, octets a second and octets at once, as in 3=1000000:4096"
        )
    };
    let (level, rest) = text.split_once('=').ok_or_else(wrong)?;
    let (rate, burst) = rest.split_once(':').ok_or_else(wrong)?;
    let level = level.parse().ok().filter(|level| usize::from(*level) <= last);
    let number = |text: &str| text.parse::<u64>().ok().filter(|number| *number > 0);
    match (level, number(rate), number(burst)) {
        (Some(level), Some(octets_per_second), Some(burst)) => Ok(Pace { level, octets_per_second, burst }),
        _ => Err(wrong()),
    }
}

/// A lifespan, of a type or of all.
fn lifespan(text: &str) -> Result<Lifespan, String> {
    let wrong = || format!("{text}: give milliseconds, or a type and milliseconds, as in 16=500");
    let (event_type, span) = match text.split_once('=') {
        None => (0, text),
        Some((event_type, span)) => (event_type.parse().map_err(|_| wrong())?, span),
    };
    let span = span.parse().ok().filter(|ms| (1..=LONGEST).contains(ms)).ok_or_else(wrong)?;
    Ok(Lifespan { event_type, span: Duration::from_millis(span) })
}

/// The size of copies, and their number.
fn size_class(text: &str) -> Result<SizeClass, String> {
    let wrong = || format!("{text}: give octets and events, as in 65536:64; at most {MOST_DATA} octets");
    let (payload, events) = text.split_once(':').ok_or_else(wrong)?;
    let number = |text: &str, most: i64| text.parse().ok().filter(|number| (1..=most).contains(number));
    let (payload, events) = number(payload, MOST_DATA).zip(number(events, MOST)).ok_or_else(wrong)?;
    Ok(SizeClass { payload: payload as usize, events: events as usize })
}

/// A multicast group, and the address of its interface.
fn group(text: &str) -> Result<UdpOptions, String> {
    let wrong = || format!("{text}: give a group, as in 239.255.77.1:5001 or 239.255.77.1:5001@10.0.0.1");
    let (group, interface) = text.split_once('@').unwrap_or((text, "0.0.0.0"));
    let group: SocketAddrV4 = group.parse().map_err(|_| wrong())?;
    let interface: Ipv4Addr = interface.parse().map_err(|_| wrong())?;
    match group.ip().is_multicast() {
        true => Ok(UdpOptions::to_group(*group.ip(), group.port(), interface)),
        false => Err(wrong()),
    }
}

/// The hosts that the channel exchanges events with.
fn security(args: &Args) -> Result<Security, Box<dyn Error>> {
    if let Some(file) = &args.key_file {
        return Ok(Security::Key(read_key(file).map_err(|why| format!("{}: {why}", file.display()))?));
    }
    if args.insecure {
        log::warn(
            LOG,
            format_args!(
                "--insecure: any host that reaches this channel can join its federation, and forge and read events"
            ),
        );
        return Ok(Security::Insecure);
    }
    Ok(Security::Loopback)
}

/// The key of a file that only its user reads, without white space at its end.
fn read_key(file: &Path) -> Result<MemberKey, String> {
    let mode = std::fs::metadata(file).map_err(|error| error.to_string())?.permissions().mode();
    if mode & 0o077 != 0 {
        return Err(format!("others can read or write this key (mode {:o}); chmod 600 it", mode & 0o777));
    }
    let octets = std::fs::read(file).map_err(|error| error.to_string())?;
    let octets = octets.trim_ascii_end();
    MemberKey::new(octets)
        .ok_or_else(|| format!("a key has at least {MIN_KEY} octets, this one {}", octets.len()))
}

/// Refuses a URL that can never become a reference, or is beyond this host without a key. An
/// unreachable host or an unbound name may be there later.
fn is_reference(orb: &Orb, url: &str, security: &Security) -> Result<(), String> {
    if url.starts_with("corbaname:") {
        return Ok(());
    }
    match orb.string_to_object(url) {
        Err(error)
            if matches!(
                error.kind,
                Kind::BadParam | Kind::InvObjref | Kind::DataConversion | Kind::Marshal
            ) =>
        {
            Err(format!("--join {url}: {error}"))
        }
        Ok(object) if matches!(security, Security::Loopback) => match beyond_this_host(&object) {
            Some(host) => Err(format!("--join {url}: {}", LinkError::BeyondThisHost(host))),
            None => Ok(()),
        },
        _ => Ok(()),
    }
}

/// A neighbour of `--join`.
struct Joined<'a> {
    url: &'a str,
    link: Option<LinkId>,
    /// Why it is not joined, as it was logged.
    logged: Option<String>,
}

impl Joined<'_> {
    /// Joins the neighbour if it is not. Logs why it cannot, once for each reason.
    fn keep(&mut self, orb: &Orb, federation: &Federation, neighbourhood: &FederationServant) {
        if let Some(lost) = self.link.take_if(|link| !federation.is_up(*link)) {
            // The neighbour may have restarted; its old link is of no use then.
            federation.leave(lost);
        }
        if self.link.is_some() {
            return;
        }
        let object = orb.string_to_object(self.url).map_err(|error| error.to_string());
        let joined = object.and_then(|object| neighbourhood.join(&object).map_err(|error| error.to_string()));
        let why = joined.map(|link| self.link = Some(link)).err();
        if let Some(why) = why.as_ref().filter(|why| self.logged.as_ref() != Some(why)) {
            log::warn(
                "isorb::federation",
                format_args!(
                    "channel {}: not linked to {}: {why}; it is tried again with each tick",
                    federation.id(),
                    self.url
                ),
            );
        }
        self.logged = why;
    }
}

/// Joins the neighbours that are not joined yet, repeatedly, and announces this channel to all.
fn keep_joined(
    orb: &Orb,
    federation: &Federation,
    neighbourhood: &FederationServant,
    join: &[String],
    tick: Duration,
) {
    let mut neighbours: Vec<_> = join.iter().map(|url| Joined { url, link: None, logged: None }).collect();
    while !orb.is_shut_down() {
        neighbours.iter_mut().for_each(|neighbour| neighbour.keep(orb, federation, neighbourhood));
        let ns = u64::try_from(tick.as_nanos()).unwrap_or(u64::MAX);
        federation.tick(isorb_rt::time::now_ns(), ns.saturating_mul(TIMEOUT));
        std::thread::sleep(tick);
    }
}

fn setup(real_time: &str) -> Result<ThreadSetup, Box<dyn Error>> {
    let mode: RealTime = real_time.parse()?;
    let need = Need { native_priority: NativeRange::system().max, lock_memory: None };
    let granted = mode.resolve(need).map_err(|missing| missing.to_string())?;
    for missing in granted.missing() {
        log::warn(LOG, format_args!("{missing}"));
    }
    Ok(if granted.scheduling { ThreadSetup::fifo() } else { ThreadSetup::default() })
}
