//! `isorb memory watch` of several areas: all that match a pattern, or the strongest living writer.

use super::latest;
use super::watch::line;
use crate::typed::Typed;
use isorb_cdr::Order;
use isorb_reflective_memory::idl::{DataType, RAW_OCTETS, ReaderQoS};
use isorb_reflective_memory::memory::WaitError;
use isorb_reflective_memory::{AreaReader, Library, Shown};
use std::collections::BTreeSet;
use std::error::Error;
use std::io::Write;
use std::time::Duration;

/// The longest wait before the areas that refused the reader are reported.
const ROUND: Duration = Duration::from_secs(1);

/// Prints each new value of all areas that match, until `count` values were printed.
pub(super) fn matching(
    library: &Library,
    pattern: &str,
    qos: ReaderQoS,
    count: Option<u64>,
    typed: Option<Typed>,
) -> Result<(), Box<dyn Error>> {
    let qos = ReaderQoS { type_hash: hash(typed.as_ref()), ..qos };
    let mut set = library.attach_matching(pattern, qos)?;
    let (mut shown, mut reported) = (0, BTreeSet::new());
    while count.is_none_or(|count| shown < count) {
        if let Some(reader) = set.wait(ROUND) {
            shown += u64::from(print(reader, typed.clone())?);
        }
        for (name, error) in set.refused() {
            if reported.insert(name.to_owned()) {
                eprintln!("isorb: warning: {name} is not shown: {error}");
            }
        }
    }
    Ok(())
}

/// Prints each new value of the first area with a living writer, until `count` values were printed.
pub(super) fn strongest(
    library: &Library,
    (name, fallback): (&str, &[String]),
    qos: ReaderQoS,
    count: Option<u64>,
    typed: Option<Typed>,
) -> Result<(), Box<dyn Error>> {
    let qos = ReaderQoS { type_hash: hash(typed.as_ref()), ..qos };
    let names = std::iter::once(name).chain(fallback.iter().map(String::as_str));
    let areas: Vec<(&str, i32)> = names.zip((0..).map(|place: i32| -place)).collect();
    let (mut reader, mut shown) = (library.strongest_reader(&areas, qos)?, 0);
    while count.is_none_or(|count| shown < count) {
        match reader.wait(ROUND) {
            Ok(Shown::Changed) => match reader.shown() {
                Some((name, _)) => writeln!(std::io::stdout(), "-- {name} is shown")?,
                None => writeln!(std::io::stdout(), "-- no writer lives")?,
            },
            Ok(Shown::Value) => {}
            Err(WaitError::TimedOut) => continue,
            Err(error) => return Err(error.into()),
        }
        if let Some(reader) = reader.current()
            && reader.has_new()
        {
            shown += u64::from(print(reader, typed.clone())?);
        }
    }
    Ok(())
}

/// The type that readers expect.
fn hash(typed: Option<&Typed>) -> u64 {
    typed.and_then(Typed::type_code).map_or(RAW_OCTETS, |code| DataType::of_type_code(code).hash)
}

/// Prints the latest value after its area's name. False if it cannot be read now.
fn print(reader: &mut AreaReader, mut typed: Option<Typed>) -> Result<bool, Box<dyn Error>> {
    let mut value = vec![0; reader.size()];
    let Some(sample) = latest(reader, &mut value)? else { return Ok(false) };
    let data = reader.data_type();
    if let Some(typed) = typed.as_mut().filter(|_| !data.is_octets()) {
        typed.order = if data.little_endian { Order::Little } else { Order::Big };
    }
    writeln!(std::io::stdout(), "{:<20} {}", reader.name(), line(&sample, "", &value, typed.as_ref()))?;
    std::io::stdout().flush()?;
    Ok(true)
}
