//! `isorb memory dump`.

use super::qos::BEST_EFFORT;
use super::{hex, latest};
use crate::typed::Typed;
use isorb_reflective_memory::Library;
use std::error::Error;
use std::io::Write;
use std::time::{Duration, Instant};

/// Output formats.
pub(super) enum Form {
    Table,
    Raw,
    Typed(Typed),
}

/// Prints the latest value. Waits up to `timeout` for a first one.
pub(super) fn dump(
    library: &Library,
    name: &str,
    mut form: Form,
    timeout: Duration,
) -> Result<(), Box<dyn Error>> {
    let start = Instant::now();
    let typed = match &mut form {
        Form::Typed(typed) => Some(typed),
        Form::Raw | Form::Table => None,
    };
    let mut reader = super::reader(library, name, (BEST_EFFORT, timeout), typed)?;
    let mut value = vec![0; reader.size()];
    let sample = loop {
        match latest(&mut reader, &mut value)? {
            Some(sample) => break sample,
            None if start.elapsed() >= timeout => {
                return Err(format!(
                    "{name}: no value was written within {timeout:?}; --timeout changes how long to wait"
                )
                .into());
            }
            None => {
                let _ = reader.wait(timeout.saturating_sub(start.elapsed()));
            }
        }
    };
    let value = &value[..sample.len];
    let mut output = std::io::stdout().lock();
    match &form {
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
