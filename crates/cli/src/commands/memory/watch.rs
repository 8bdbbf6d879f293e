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
    count: Option<u64>,
    typed: Option<&Typed>,
) -> Result<(), Box<dyn Error>> {
    let mut reader = library.attach_reader(name, *qos)?;
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
                // The next value may be one of the type.
                Some(typed) => typed.show(&value[..len]).unwrap_or_else(|error| format!("({error})")),
                None => hex(&value[..len.min(16)]),
            }
        )?;
        std::io::stdout().flush()?;
    }
    Ok(())
}
