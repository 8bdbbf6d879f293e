//! `isorb crm`: looks at reflective memory, and writes into it.

mod dump;
mod list;
mod qos;
mod watch;
mod write;

use crate::typed::TypeArgs;
use dump::Form;
use isorb::{Config, Kind, Orb};
use isorb_reflective_memory::idl::Glob_CommRef;
use isorb_reflective_memory::memory::{ReadError, Sample};
use isorb_reflective_memory::node::default_socket;
use isorb_reflective_memory::{AreaReader, Library};
use qos::{ReaderArgs, WriterArgs};
use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;

/// Which server, and what to do.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The node's server [default: in the run-time folder, or ISORB_CRM_SOCKET].
    #[arg(long, value_name = "FILE", global = true)]
    socket: Option<PathBuf>,
    /// The coordinator, to see all nodes.
    #[arg(long, value_name = "URL", global = true)]
    coordinator: Option<String>,
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Lists areas: size, writer, readers, values a second, age, state; and what is read here of other nodes, with what was lost or
    /// too old. With --coordinator, of all nodes.
    Ls {
        /// Milliseconds over which values a second are counted; 0 shows none.
        #[arg(long, value_name = "MS", default_value_t = 300)]
        over: u64,
        /// Areas of a node at most, and as many that are read on it.
        #[arg(long, default_value_t = 1000)]
        limit: u32,
    },
    /// Shows values as they come: number, age, rate, misses, first octets, or the value by its IDL type.
    Watch {
        /// The area.
        name: String,
        /// Ends after so many values.
        #[arg(long)]
        count: Option<u64>,
        #[command(flatten)]
        asked: ReaderArgs,
        #[command(flatten)]
        of: TypeArgs,
    },
    /// Prints the latest value.
    Dump {
        /// The area.
        name: String,
        /// The octets themselves instead of a table of them.
        #[arg(long)]
        raw: bool,
        /// Milliseconds to wait for a first value.
        #[arg(long, value_name = "MS", default_value_t = 2000)]
        patience: u64,
        #[command(flatten)]
        of: TypeArgs,
    },
    /// Writes a value, from an argument or from standard input, into an area without a writer; makes the area with --create. With --period
    /// it goes on: the value again, or one of each line of standard input.
    Write {
        /// The area.
        name: String,
        /// The value; standard input without it.
        value: Option<String>,
        /// Makes the area first, for values of so many bytes.
        #[arg(long, value_name = "BYTES")]
        create: Option<u32>,
        #[command(flatten)]
        promised: WriterArgs,
        /// The value is hexadecimal digits.
        #[arg(long, conflicts_with = "idl")]
        hex: bool,
        /// With a type, the value is JSON.
        #[command(flatten)]
        of: TypeArgs,
    },
}

/// Runs the command.
pub fn run(args: &Args, orb_arguments: Vec<String>) -> Result<(), Box<dyn Error>> {
    let (config, _) = Config::from_args(orb_arguments)?;
    let orb = Orb::with_config(config)?;
    let library = || Library::connect(&orb, args.socket.clone().unwrap_or_else(default_socket));
    match &args.what {
        What::Ls { over, limit } => {
            let over = Duration::from_millis(*over);
            match &args.coordinator {
                Some(url) => list::all(&coordinator(&orb, url)?, *limit, over),
                None => list::here(&library()?, *limit, over),
            }
        }
        What::Watch { name, count, asked, of } => {
            watch::watch(&library()?, name, &asked.qos()?, *count, of.load()?.as_ref())
        }
        What::Dump { name, raw, patience, of } => {
            let form = if *raw { Form::Raw } else { of.load()?.map_or(Form::Table, Form::Typed) };
            dump::dump(&library()?, name, &form, Duration::from_millis(*patience))
        }
        What::Write { name, value, create, promised, hex, of } => {
            let form = write::Input { hex: *hex, typed: of.load()? };
            write::write(&library()?, name, value.as_deref(), &form, *create, promised)
        }
    }
}

/// The coordinator at a URL.
///
/// # Errors
/// A sentence that says what to look at, where it does not answer or something else does.
pub(super) fn coordinator(orb: &Orb, url: &str) -> Result<Glob_CommRef, String> {
    orb.resolve(url).map_err(|exception| {
        let hint = match exception.kind {
            Kind::Transient | Kind::CommFailure | Kind::Timeout => {
                "; is `isorb crm-coordinator` running there? It prints its URL as it starts"
            }
            Kind::ObjectNotExist => "; who listens there is no coordinator",
            _ => "",
        };
        format!("coordinator {url}: {exception}{hint}")
    })
}

/// The latest value, none where there is none yet.
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
