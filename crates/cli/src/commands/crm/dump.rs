//! `isorb crm dump`.

use super::qos::PLAIN;
use super::{hex, latest};
use crate::typed::Typed;
use isorb_reflective_memory::Library;
use std::error::Error;
use std::io::Write;
use std::time::{Duration, Instant};

/// How a value is shown.
pub(super) enum Form {
    Table,
    Raw,
    Typed(Typed),
}

/// Prints the latest value, and waits for a first one.
pub(super) fn dump(
    library: &Library,
    name: &str,
    form: &Form,
    patience: Duration,
) -> Result<(), Box<dyn Error>> {
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
