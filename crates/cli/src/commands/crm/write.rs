//! `isorb crm write`.

use super::qos::WriterArgs;
use crate::typed::{Typed, from_hex};
use isorb_reflective_memory::Library;
use isorb_reflective_memory::idl::Area;
use std::error::Error;
use std::io::{Read, Write};
use std::time::{Duration, Instant};

/// How values are given.
pub(super) struct Input {
    pub hex: bool,
    pub typed: Option<Typed>,
}

/// Writes one value, or one a period.
pub(super) fn write(
    library: &Library,
    name: &str,
    value: Option<&str>,
    input: &Input,
    create: Option<u32>,
    promised: &WriterArgs,
) -> Result<(), Box<dyn Error>> {
    let qos = promised.qos()?;
    let mut values = Values::new(value, promised.period.is_some())?;
    // Before anything is made: the first may be none.
    let mut next = values.next(input)?;
    if let Some(size) = create {
        library.create_area(&Area { name: name.into(), size, histories: 1 })?;
    }
    let mut writer = library.map_writer(name, qos)?;
    let period = Duration::from_nanos(qos.period);
    let (mut written, mut due) = (0, Instant::now());
    while let Some(value) = next {
        writeln!(std::io::stdout(), "{}", writer.write(&value)?)?;
        written += 1;
        if period.is_zero() || promised.count.is_some_and(|count| written >= count) {
            break;
        }
        next = values.next(input)?;
        due += period;
        // What is late is not made up for: the promise is that values are at least this far apart.
        due = due.max(Instant::now());
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
    }
    Ok(())
}

/// Where values come from.
enum Values {
    Again(Vec<u8>),
    Lines(std::io::Lines<std::io::StdinLock<'static>>),
}

impl Values {
    /// The argument, again and again; else standard input: its lines where many are wanted, else all of it.
    fn new(value: Option<&str>, many: bool) -> std::io::Result<Values> {
        if let Some(value) = value {
            return Ok(Values::Again(value.as_bytes().to_vec()));
        }
        if many {
            return Ok(Values::Lines(std::io::stdin().lines()));
        }
        let mut value = Vec::new();
        std::io::stdin().read_to_end(&mut value)?;
        Ok(Values::Again(value))
    }

    fn next(&mut self, input: &Input) -> Result<Option<Vec<u8>>, Box<dyn Error>> {
        let text = match self {
            Values::Again(value) => value.clone(),
            Values::Lines(lines) => match lines.next() {
                Some(line) => line?.into_bytes(),
                None => return Ok(None),
            },
        };
        input.octets(text).map(Some)
    }
}

impl Input {
    /// What is to stand in memory.
    fn octets(&self, text: Vec<u8>) -> Result<Vec<u8>, Box<dyn Error>> {
        match &self.typed {
            Some(typed) => Ok(typed.parse(&String::from_utf8(text)?)?),
            None if self.hex => Ok(from_hex(&String::from_utf8(text)?)?),
            None => Ok(text),
        }
    }
}
