//! The options of `isorb event-channel`, and what their values look like.

use crate::commands::admin::AdminArgs;
use crate::commands::arguments::{to_read, to_write};
use crate::commands::event_control::{Dispatching, MOST_THREADS, Modules};
use crate::commands::service::ServiceArgs;
use isorb_event::federation::{Levels, Pace};
use isorb_event::servants::UdpOptions;
use isorb_event::{Lifespan, SizeClass};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

/// What to do with an event for a consumer with a full queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Full {
    DropOldest,
    DropNewest,
    Block,
    Refuse,
}

/// What to do with a consumer that used more processor time than its schedule declares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Overrun {
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
pub enum UndeclaredEvents {
    /// Counts it and delivers it.
    Count,
    /// Counts it and discards it.
    Refuse,
}

/// Arguments of `isorb event-channel`. Further arguments go to the ORB (`-ORB…`).
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub service: ServiceArgs,
    /// How events are dispatched [default: that of the --store, or none].
    #[arg(long, value_enum)]
    pub dispatching: Option<Dispatching>,
    /// The channel's modules. `isorb event-control` replaces them later [default: those of the
    /// --store, or full].
    #[arg(long, value_enum)]
    pub configuration: Option<Modules>,
    /// Number of threads for each priority level (`--dispatching threads`).
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_THREADS)))]
    pub threads: u32,
    /// Number of threads for each priority level that push to remote consumers; 0 pushes on the
    /// dispatching threads.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(0..=i64::from(MOST_THREADS)))]
    pub push_threads: u32,
    /// Greatest number of pushes that wait for a consumer.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=MOST))]
    pub queue: u32,
    /// What to do with an event for a consumer with a full queue.
    #[arg(long, value_enum, default_value = "drop-oldest")]
    pub full: Full,
    /// What to do with a consumer that used more processor time than its operation declares
    /// (`--scheduler`, `--schedule`).
    #[arg(long, value_enum, default_value = "count")]
    pub overrun: Overrun,
    /// Greatest number of events that wait in the channel.
    #[arg(long, default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..=MOST))]
    pub events: u32,
    /// Greatest data of such an event, in octets. The pool takes `--events` times as much.
    #[arg(long, default_value_t = 8192, value_parser = clap::value_parser!(u32).range(0..=MOST_DATA))]
    pub payload: u32,
    /// Room for waiting events with more data: their greatest data in octets, and their number; up
    /// to three times. Still larger events are lost for consumers with a queue, and counted; the
    /// first of each supplier is logged.
    #[arg(long, value_name = "OCTETS:EVENTS", default_values = ["65536:64", "1048576:4"], value_parser = size_class)]
    pub larger: Vec<SizeClass>,
    /// Keeps the last N events of each type and source for consumers that connect later and ask for
    /// them; 0 keeps none [default: 100 with --keep-for, else 0].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=MOST))]
    pub keep_last: Option<u32>,
    /// Keeps events for this time only, in milliseconds.
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=LONGEST))]
    pub keep_for: Option<u64>,
    /// Greatest number of types and sources that have a history.
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub keep_streams: u32,
    /// Greatest data of a kept event, in octets. The memory is `--keep-streams` times `--keep-last`
    /// times as much.
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u32).range(0..=MOST_DATA))]
    pub keep_payload: u32,
    /// Lifespan of events of a type, or of all other types, in milliseconds from their arrival;
    /// repeatable. Older events are dropped and counted.
    #[arg(long, value_name = "[TYPE=]MS", value_parser = lifespan)]
    pub lifespan: Vec<Lifespan>,
    /// What to do with an event that its supplier did not declare.
    #[arg(long, value_enum, default_value = "count")]
    pub undeclared: UndeclaredEvents,
    /// Timeout of a push to a consumer that does not read, in milliseconds.
    #[arg(long, default_value_t = 500)]
    pub push_timeout: u64,
    /// Interval of the test whether consumers still exist, in milliseconds; 0 for never.
    #[arg(long, default_value_t = 10_000)]
    pub ping: u64,
    /// Proxies that one client may have: one certificate, else one user of this host, else one
    /// address. 0 for no limit.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub max_peer_proxies: usize,
    /// Links to this channel that one client may have, each by a join. 0 for no limit.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub max_peer_joins: usize,
    /// Leaves the channel's time stamps out of events on the wire, for a TAO built with
    /// TAO_LACKS_EVENT_CHANNEL_TIMESTAMPS.
    #[arg(long)]
    pub plain_header: bool,
    /// Real-time threads: require, prefer, off.
    #[arg(long, default_value = "prefer")]
    pub real_time: String,
    /// Admits consumers as operations of this schedule file, by the handle that they connect with
    /// (`rt_info`). Handles count the file's operations from 1.
    #[arg(long, value_name = "FILE", conflicts_with = "scheduler", value_parser = to_read())]
    pub schedule: Option<PathBuf>,
    /// The processors that dispatch the consumers of `--schedule`, by the kernel's numbers: each
    /// has a thread for each level, bound to it, and the operations are placed on them by worst fit
    /// [default: those that the file names; without any, a verdict for one processor].
    #[arg(long, value_name = "CPU,...", value_delimiter = ',')]
    pub processors: Vec<usize>,
    /// Admits consumers as operations of this scheduler (`isorb scheduler`): a URL such as
    /// corbaloc::host/ScheduleService, or a reference.
    #[arg(long, value_name = "URL")]
    pub scheduler: Option<String>,
    /// A configuration run (`--scheduler`): tells the scheduler which operations of suppliers
    /// release which of consumers, as they connect. No consumer is refused.
    #[arg(long, requires = "scheduler")]
    pub record: bool,
    /// Least number of priority levels (`--scheduler`). The last level serves consumers that are
    /// not operations. A schedule with more levels has as many.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u8).range(2..=64))]
    pub levels: u8,
    /// The CORBA priorities of the schedule, if the scheduler has not computed one (`--scheduler`).
    #[arg(long, value_name = "FIRST..LAST", default_value = "0..32767", value_parser = priorities)]
    pub priorities: RangeInclusive<u16>,
    /// The channel's number, unique in its federation; 0 for no federation.
    #[arg(long, default_value_t = 0)]
    pub id: u64,
    /// Interval of the announcements to neighbours, in milliseconds. A neighbour that is silent for
    /// thirty intervals is forgotten.
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u64).range(10..=86_400_000))]
    pub tick: u64,
    /// URL or reference of a neighbour in the federation; repeatable. The channel tries again until
    /// the neighbour answers.
    #[arg(long, value_name = "URL")]
    pub join: Vec<String>,
    /// File with the key of the federation: at least 16 octets that all its members have, readable
    /// by their user only. Datagrams and joins without it are ignored.
    #[arg(long, value_name = "FILE", conflicts_with = "insecure", value_parser = to_read())]
    pub key_file: Option<PathBuf>,
    /// Exchanges events with neighbours beyond this host without a key: any host that reaches the
    /// channel can join it, and forge and read events.
    #[arg(long)]
    pub insecure: bool,
    /// Receives events of neighbours at the channel's own port, in order. Otherwise each of four
    /// priority levels has its own port and thread, so that an urgent event does not wait for
    /// others. With --tls always, since those ports have no TLS.
    #[arg(long)]
    pub one_port: bool,
    /// Marks the packets of events by their priority level, for the network (DSCP) and for the
    /// queue of the interface.
    #[arg(long, conflicts_with = "one_port")]
    pub mark: bool,
    /// What is sent of a priority level over each link at most: octets a second, and octets at
    /// once; repeatable. `isorb sched federation` prints them. Other levels are not limited.
    #[arg(long, value_name = "LEVEL=RATE:BURST", value_parser = pace)]
    pub pace: Vec<Pace>,
    /// A neighbour in the federation over UDP: the address to listen at, and the neighbour's
    /// address. Other senders are ignored. Repeatable.
    #[arg(long, value_name = "HERE=THERE", value_parser = neighbour)]
    pub udp: Vec<UdpOptions>,
    /// An IPv4 multicast group with all its channels as neighbours, and the address of the
    /// interface; repeatable.
    #[arg(long, value_name = "GROUP:PORT[@INTERFACE]", value_parser = group)]
    pub multicast: Vec<UdpOptions>,
    /// URL of a naming service, such as corbaloc::host/NameService, to bind `EventService` and
    /// `CosEventService` in, as TAO's services do.
    #[arg(long, value_name = "URL")]
    pub ns: Option<String>,
    /// Ends the process when a client destroys the channel.
    #[arg(long)]
    pub exit_on_destroy: bool,
    /// File to write the reference of the real-time channel to.
    #[arg(long, value_name = "FILE", value_parser = to_write())]
    pub ior_file: Option<PathBuf>,
    /// File with the registrations of remote consumers and suppliers of TAO's interfaces, and with
    /// the modules that `isorb event-control` chose. They outlive the process: the proxies are
    /// there again after a restart, under the same references. Needs --port.
    #[arg(long, value_name = "FILE", value_parser = to_write())]
    pub store: Option<PathBuf>,
    /// Records a trace from the start; `isorb event-control URL --trace FILE` fetches it. `--admin`
    /// implies it.
    #[arg(long)]
    pub trace: bool,
    #[command(flatten)]
    pub admin: AdminArgs,
}

/// Upper limits of the options: waiting events or pushes, and the data of an event in octets.
const MOST: i64 = 1 << 20;
const MOST_DATA: i64 = 1 << 26;
/// Upper limit of times that events are kept: a year in milliseconds.
const LONGEST: u64 = 365 * 86_400_000;

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
