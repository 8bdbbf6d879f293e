//! `isorb memory watch`.

use super::{hex, latest};
use crate::typed::Typed;
use isorb_reflective_memory::Library;
use isorb_reflective_memory::idl::ReaderQoS;
use isorb_reflective_memory::memory::{Sample, WaitError};
use std::error::Error;
use std::io::Write;
use std::time::{Duration, Instant};

/// Prints each new value, until `count` values were printed or the area is gone.
pub(super) fn watch(
    library: &Library,
    name: &str,
    qos: &ReaderQoS,
    (count, limit): (Option<u64>, Duration),
    mut typed: Option<Typed>,
) -> Result<(), Box<dyn Error>> {
    let mut reader = super::reader(library, name, (*qos, limit), typed.as_mut())?;
    let mut value = vec![0; reader.size()];
    // The first value is no rate yet: it may have been there for long.
    let (mut shown, mut first) = (0, None);
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
        let (begun, before) = *first.get_or_insert((Instant::now(), sample.sequence));
        let rate = match sample.sequence.saturating_sub(before) {
            0 => "-".into(),
            values => format!("{:.1}/s", values as f64 / begun.elapsed().as_secs_f64().max(1e-9)),
        };
        writeln!(std::io::stdout(), "{}", line(&sample, &rate, &value, typed.as_ref()))?;
        std::io::stdout().flush()?;
    }
    Ok(())
}

/// A value on one line.
pub(super) fn line(sample: &Sample, rate: &str, value: &[u8], typed: Option<&Typed>) -> String {
    let age = sample.age_ns() as f64 / 1e3;
    let bound = match sample.age_bound_ns() {
        Some(0) => String::new(),
        Some(bound) => format!(" +- {:.1}", bound as f64 / 1e3),
        None => " at least".into(),
    };
    let Sample { source, len, missed, .. } = *sample;
    let text = match typed {
        // The next value may be one of the type.
        Some(typed) => typed.show(&value[..len]).unwrap_or_else(|error| format!("({error})")),
        None => hex(&value[..len.min(16)]),
    };
    format!("{source:>8}  {len:>7} bytes  age {age:>10.1}{bound} us  {rate:>10}  missed {missed:<5} {text}")
}
