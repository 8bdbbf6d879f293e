//! `isorb crm`: looks at reflective memory, and writes into it.

use crate::typed::{TypeArgs, Typed, from_hex};
use isorb::{Config, Orb};
use isorb_crm::idl::{Area, Glob_CommRef, Mode, Path as Route, ReaderQoS, WriterQoS};
use isorb_crm::memory::{ReadError, Sample, WaitError};
use isorb_crm::node::default_socket;
use isorb_crm::{AreaReader, Library};
use std::error::Error;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

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
    /// Lists areas.
    Ls,
    /// Shows values as they come: number, age, rate, misses, first octets, or the value by its IDL type.
    Watch {
        /// The area.
        name: String,
        /// Ends after so many values.
        #[arg(long)]
        count: Option<u64>,
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
    /// Writes one value, from an argument or from standard input, into an area without a writer; makes the area with --create.
    Write {
        /// The area.
        name: String,
        /// The value; standard input without it.
        value: Option<String>,
        /// Makes the area first, for values of so many bytes.
        #[arg(long, value_name = "BYTES")]
        create: Option<u32>,
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
    let orb = Orb::with_config(config);
    let library = || Library::connect(&orb, args.socket.clone().unwrap_or_else(default_socket));
    match &args.what {
        What::Ls => match &args.coordinator {
            Some(url) => list_all(&orb.resolve::<Glob_CommRef>(url)?),
            None => list(&library()?),
        },
        What::Watch { name, count, of } => watch(&library()?, name, *count, of.load()?.as_ref()),
        What::Dump { name, raw, patience, of } => {
            let form = if *raw { Form::Raw } else { of.load()?.map_or(Form::Table, Form::Typed) };
            dump(&library()?, name, &form, Duration::from_millis(*patience))
        }
        What::Write { name, value, create, hex, of } => {
            let value = octets(input(value.as_deref())?, *hex, of.load()?.as_ref())?;
            write(&library()?, name, &value, *create)
        }
    }
}

const PLAIN: ReaderQoS = ReaderQoS {
    how: Mode::PushOnWrite,
    period: 0,
    deadline: 0,
    histories: 0,
    guaranteed: false,
    through: Route::PathUdp,
    parity: 0,
};

fn list(library: &Library) -> Result<(), Box<dyn Error>> {
    let mut areas = library.list_areas()?;
    areas.sort_by(|a, b| a.name.cmp(&b.name));
    for area in areas {
        let mut reader = library.attach_reader(&area.name, PLAIN)?;
        let state = reader.state().map_or("damaged".into(), |state| state.to_string());
        let values = reader.statistics()?.values;
        writeln!(
            std::io::stdout(),
            "{:<30} {:>10} bytes {:>5} histories {values:>10} values  {state}",
            area.name,
            area.size,
            area.histories
        )?;
    }
    Ok(())
}

fn list_all(coordinator: &Glob_CommRef) -> Result<(), Box<dyn Error>> {
    for place in coordinator.list_areas()? {
        let Area { name, size, histories } = place.what;
        writeln!(
            std::io::stdout(),
            "{name:<30} {size:>10} bytes {histories:>5} histories  on {}",
            place.node
        )?;
    }
    for node in coordinator.list_nodes()? {
        let lives = node.server.is_some_and(|server| server.ping().is_ok());
        writeln!(
            std::io::stdout(),
            "node {:<25} {}",
            node.name,
            if lives { "answers" } else { "does not answer" }
        )?;
    }
    Ok(())
}

fn watch(
    library: &Library,
    name: &str,
    count: Option<u64>,
    typed: Option<&Typed>,
) -> Result<(), Box<dyn Error>> {
    let mut reader = library.attach_reader(name, PLAIN)?;
    let mut value = vec![0; reader.size()];
    let (mut shown, start) = (0, Instant::now());
    while count.is_none_or(|count| shown < count) {
        match reader.wait(Duration::from_secs(1)) {
            Ok(()) => {}
            Err(WaitError::TimedOut) => continue,
            Err(WaitError::Changed(state)) => {
                writeln!(std::io::stdout(), "-- the area is {state}")?;
                if state.is_final() {
                    break;
                }
                continue;
            }
            Err(error) => return Err(error.into()),
        }
        let Some(sample) = latest(&mut reader, &mut value)? else { continue };
        shown += 1;
        let rate = shown as f64 / start.elapsed().as_secs_f64().max(1e-9);
        let age = sample.age_ns() as f64 / 1e3;
        let Sample { source, len, missed, .. } = sample;
        writeln!(
            std::io::stdout(),
            "{source:>8}  {len:>7} bytes  age {age:>10.1} us  {rate:>8.1}/s  missed {missed:<5} {}",
            match typed {
                // A value that is none of the type is no reason to end: the next may be.
                Some(typed) => typed.show(&value[..len]).unwrap_or_else(|error| format!("({error})")),
                None => hex(&value[..len.min(16)]),
            }
        )?;
        std::io::stdout().flush()?;
    }
    Ok(())
}

/// How a value is shown.
enum Form {
    Table,
    Raw,
    Typed(Typed),
}

fn dump(library: &Library, name: &str, form: &Form, patience: Duration) -> Result<(), Box<dyn Error>> {
    let mut reader = library.attach_reader(name, PLAIN)?;
    let mut value = vec![0; reader.size()];
    let start = Instant::now();
    let sample = loop {
        match latest(&mut reader, &mut value)? {
            Some(sample) => break sample,
            None if start.elapsed() >= patience => {
                return Err(format!("{name}: nothing has been written yet").into());
            }
            None => {
                let _ = reader.wait(patience.saturating_sub(start.elapsed()));
            }
        }
    };
    let value = &value[..sample.len];
    let mut output = std::io::stdout().lock();
    match form {
        Form::Raw => return Ok(output.write_all(value)?),
        Form::Typed(typed) => return Ok(writeln!(output, "{}", typed.show(value)?)?),
        Form::Table => {}
    }
    for (line, octets) in value.chunks(16).enumerate() {
        let text: String =
            octets.iter().map(|o| if (0x20..0x7f).contains(o) { char::from(*o) } else { '.' }).collect();
        writeln!(output, "{:08x}  {:<48} {text}", line * 16, hex(octets))?;
    }
    Ok(())
}

/// The argument, or standard input.
fn input(value: Option<&str>) -> std::io::Result<Vec<u8>> {
    if let Some(value) = value {
        return Ok(value.as_bytes().to_vec());
    }
    let mut value = Vec::new();
    std::io::stdin().read_to_end(&mut value)?;
    Ok(value)
}

/// What is to stand in memory.
fn octets(input: Vec<u8>, hex: bool, typed: Option<&Typed>) -> Result<Vec<u8>, Box<dyn Error>> {
    match typed {
        Some(typed) => Ok(typed.parse(&String::from_utf8(input)?)?),
        None if hex => Ok(from_hex(&String::from_utf8(input)?)?),
        None => Ok(input),
    }
}

fn write(library: &Library, name: &str, value: &[u8], create: Option<u32>) -> Result<(), Box<dyn Error>> {
    if let Some(size) = create {
        library.create_area(&Area { name: name.into(), size, histories: 1 })?;
    }
    let mut writer = library.map_writer(name, WriterQoS { period: 0, size: 0 })?;
    writeln!(std::io::stdout(), "{}", writer.write(value)?)?;
    Ok(())
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
