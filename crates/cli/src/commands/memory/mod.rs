//! `isorb memory`: lists, shows and writes areas of reflective memory.

mod dump;
mod list;
mod qos;
mod watch;
mod watch_several;
mod write;

use crate::typed::{TypeArgs, Typed};
use dump::Form;
use isorb::{Config, Kind, Orb, SystemException};
use isorb_cdr::Order;
use isorb_reflective_memory::idl::{DataType, Glob_CommRef, RAW_OCTETS, ReaderQoS};
use isorb_reflective_memory::memory::{ReadError, Sample};
use isorb_reflective_memory::node::default_socket;
use isorb_reflective_memory::{AreaReader, Library};
use qos::{ReaderArgs, WriterArgs};
use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;

/// Arguments of `isorb memory`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Socket of the node's server [default: ISORB_MEMORY_SOCKET, or a file in the run-time
    /// folder].
    #[arg(long, value_name = "FILE", global = true)]
    socket: Option<PathBuf>,
    /// URL of the coordinator, to list all nodes.
    #[arg(long, value_name = "URL", global = true)]
    coordinator: Option<String>,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Lists areas with size, writer, readers, rate, age and state, and the replicas that this node
    /// reads from other nodes, with lost and stale values. With --coordinator, lists all nodes.
    Ls {
        /// Interval in milliseconds over which rates are measured; 0 shows no rates.
        #[arg(long, value_name = "MS", default_value_t = 300)]
        over: u64,
        /// The most areas to list of a node, and the most replicas.
        #[arg(long, default_value_t = 1000)]
        limit: u32,
    },
    /// Shows each new value: number, age, rate, missed values, and its first octets or its JSON by
    /// an IDL type.
    Watch {
        /// Name of the area. With `*` (any characters) or `?` (one), all areas of all nodes that
        /// match, also those that are made later; each line begins with the area's name.
        name: String,
        /// Area of another writer of the same type; repeatable. Shows the first area, of these in
        /// their order, with a living writer.
        #[arg(long, value_name = "NAME")]
        fallback: Vec<String>,
        /// Number of values after which it ends.
        #[arg(long)]
        count: Option<u64>,
        /// How long to wait for the server, the area and its node, in milliseconds [default: until
        /// they are there].
        #[arg(long, value_name = "MS")]
        timeout: Option<u64>,
        #[command(flatten)]
        reader: ReaderArgs,
        #[command(flatten)]
        value_type: TypeArgs,
    },
    /// Prints the latest value.
    Dump {
        /// Name of the area.
        name: String,
        /// Writes the octets themselves instead of a table of them.
        #[arg(long)]
        raw: bool,
        /// How long to wait for a first value, in milliseconds.
        #[arg(long, alias = "patience", value_name = "MS", default_value_t = 2000)]
        timeout: u64,
        #[command(flatten)]
        value_type: TypeArgs,
    },
    /// Writes a value into an area that has no writer. With --period it writes periodically: the
    /// same value, or one value for each line of standard input.
    Write {
        /// Name of the area.
        name: String,
        /// The value [default: standard input].
        value: Option<String>,
        /// Creates the area first unless it exists, for values of at most this many bytes.
        #[arg(long, value_name = "BYTES")]
        create: Option<u32>,
        /// How long to wait for the server and the coordinator, in milliseconds.
        #[arg(long, value_name = "MS", default_value_t = 2000)]
        timeout: u64,
        #[command(flatten)]
        writer: WriterArgs,
        /// Reads the value as hexadecimal digits.
        #[arg(long, conflicts_with = "idl")]
        hex: bool,
        #[command(flatten)]
        value_type: TypeArgs,
    },
    /// Destroys an area of this node. Its readers keep the last value and see that it is destroyed.
    Destroy {
        /// Name of the area.
        name: String,
    },
}

/// Runs the command.
pub fn run(args: &Args, orb_arguments: Vec<String>) -> Result<(), Box<dyn Error>> {
    let (config, _) = Config::from_args(orb_arguments)?;
    let orb = super::orb::plain(config)?;
    let socket = || args.socket.clone().unwrap_or_else(default_socket);
    let library = || Library::connect(&orb, socket());
    let library_within = |limit| Library::connect_within(&orb, socket(), limit);
    match &args.action {
        Action::Ls { over, limit } => {
            let over = Duration::from_millis(*over);
            match &args.coordinator {
                Some(url) => list::all(&coordinator(&orb, url)?, *limit, over),
                None => list::here(&library()?, *limit, over),
            }
        }
        Action::Watch { name, fallback, count, timeout, reader, value_type } => {
            let limit = timeout.map_or(Duration::MAX, Duration::from_millis);
            let (qos, value_type) = (reader.qos()?, value_type.load()?);
            let library = library_within(limit)?;
            match (fallback.is_empty(), name.contains(['*', '?'])) {
                (true, false) => watch::watch(&library, name, &qos, (*count, limit), value_type),
                (true, true) => watch_several::matching(&library, name, qos, *count, value_type),
                (false, false) => {
                    watch_several::strongest(&library, (name, fallback), qos, *count, value_type)
                }
                (false, true) => Err(format!("{name} is a pattern, and --fallback is for one area").into()),
            }
        }
        Action::Dump { name, raw, timeout, value_type } => {
            let form = if *raw { Form::Raw } else { value_type.load()?.map_or(Form::Table, Form::Typed) };
            let limit = Duration::from_millis(*timeout);
            dump::dump(&library_within(limit)?, name, form, limit)
        }
        Action::Write { name, value, create, timeout, writer, hex, value_type } => {
            let form = write::Input { hex: *hex, value_type: value_type.load()? };
            let limit = Duration::from_millis(*timeout);
            let library = library_within(limit)?;
            write::write(&library, name, value.as_deref(), &form, (*create, limit), writer)
        }
        Action::Destroy { name } => Ok(library()?.destroy_area(name)?),
    }
}

/// The coordinator of a server, which may be started later: the server registers when it answers.
///
/// # Errors
/// As [`coordinator`]; also where the URL cannot be read.
pub(super) fn coordinator_to_be(orb: &Orb, url: &str) -> Result<Glob_CommRef, String> {
    match orb.resolve::<Glob_CommRef>(url) {
        Err(exception) if is_missing(&exception) => {
            let object =
                orb.string_to_object(url).map_err(|exception| format!("coordinator {url}: {exception}"))?;
            isorb_rt::log::warn(
                "isorb::memory",
                format_args!("the coordinator {url} does not answer ({exception}); registering when it does"),
            );
            Ok(object.unchecked_narrow())
        }
        _ => coordinator(orb, url),
    }
}

fn is_missing(exception: &SystemException) -> bool {
    matches!(exception.kind, Kind::Transient | Kind::CommFailure | Kind::Timeout)
}

/// Resolves the coordinator's URL.
///
/// # Errors
/// A message that names the URL and, for common causes, what to check.
pub(super) fn coordinator(orb: &Orb, url: &str) -> Result<Glob_CommRef, String> {
    orb.resolve(url).map_err(|exception| {
        let hint = match exception.kind {
            Kind::Transient | Kind::CommFailure | Kind::Timeout => {
                "; check that `isorb memory-coordinator` runs there; it prints its URL when it is ready"
            }
            Kind::ObjectNotExist => "; the server at this address is not a coordinator of reflective memory",
            _ => "",
        };
        format!("coordinator {url}: {exception}{hint}")
    })
}

/// The type hash for an area with values of this type, or for the octets of any type.
///
/// # Errors
/// As `attach`, which is called once more for an area without a type: the user knows the type.
fn with_type<T>(
    typed: Option<&Typed>,
    attach: impl Fn(u64) -> Result<T, isorb_reflective_memory::Error>,
) -> Result<T, isorb_reflective_memory::Error> {
    use isorb_reflective_memory::Error::WrongType;
    let Some(expected) = typed.and_then(Typed::type_code).map(DataType::of_type_code) else {
        return attach(RAW_OCTETS);
    };
    match attach(expected.hash) {
        Err(WrongType(wrong)) if wrong.has.is_octets() => attach(0),
        result => result.map_err(|error| error.naming_difference(&expected)),
    }
}

/// A reader for values of a type or for octets; sets the byte order of the type's values.
fn reader(
    library: &Library,
    name: &str,
    (qos, limit): (ReaderQoS, Duration),
    typed: Option<&mut Typed>,
) -> Result<AreaReader, isorb_reflective_memory::Error> {
    let attach = |type_hash| library.reader_within(name, ReaderQoS { type_hash, ..qos }, limit);
    let reader = with_type(typed.as_deref(), attach)?;
    let data = reader.data_type();
    if let Some(typed) = typed.filter(|_| !data.is_octets()) {
        typed.order = if data.little_endian { Order::Little } else { Order::Big };
    }
    Ok(reader)
}

/// Reads the latest value, if one has been written.
fn latest(reader: &mut AreaReader, value: &mut [u8]) -> Result<Option<Sample>, ReadError> {
    match reader.latest(value) {
        Ok(sample) => Ok(Some(sample)),
        Err(ReadError::Empty | ReadError::Lapped) => Ok(None),
        Err(error) => Err(error),
    }
}

fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x} ")).collect()
}
