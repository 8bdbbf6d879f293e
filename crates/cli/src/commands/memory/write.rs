//! `isorb memory write`.

use super::qos::WriterArgs;
use crate::typed::{Typed, from_hex};
use isorb_reflective_memory::idl::{Area, DataType, WriterQoS};
use isorb_reflective_memory::{Library, wait_for};
use std::error::Error;
use std::io::{Read, Write};
use std::time::{Duration, Instant};

/// The format of the input.
pub(super) struct Input {
    pub hex: bool,
    pub value_type: Option<Typed>,
}

/// Writes one value, or one value in each period.
pub(super) fn write(
    library: &Library,
    name: &str,
    value: Option<&str>,
    input: &Input,
    (create, limit): (Option<u32>, Duration),
    writer_args: &WriterArgs,
) -> Result<(), Box<dyn Error>> {
    let qos = writer_args.qos()?;
    let mut values = Values::new(value, writer_args.period.is_some())?;
    // Before the area is created, since the first value may be invalid.
    let mut next = values.next(input)?;
    let type_code = input.value_type.as_ref().and_then(Typed::type_code);
    let data = type_code.map_or_else(DataType::default, DataType::of_type_code);
    let mut writer = super::with_type(input.value_type.as_ref(), |type_hash| {
        let qos = WriterQoS { type_hash, ..qos };
        match create {
            Some(size) => library.writer_within(&Area::new(name, size, 1).typed(data.clone()), qos, limit),
            None => wait_for(&format!("the area {name}"), limit, || library.map_writer(name, qos)),
        }
    })?;
    let period = Duration::from_nanos(qos.period);
    let (mut written, mut due) = (0, Instant::now());
    while let Some(value) = next {
        writeln!(std::io::stdout(), "{}", writer.write(&value)?)?;
        written += 1;
        if period.is_zero() || writer_args.count.is_some_and(|count| written >= count) {
            break;
        }
        next = values.next(input)?;
        due += period;
        // A late value does not shorten later periods: the promise is a minimum distance.
        due = due.max(Instant::now());
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
    }
    Ok(())
}

/// The source of values.
enum Values {
    Repeated(Vec<u8>),
    Lines(std::io::Lines<std::io::StdinLock<'static>>),
}

impl Values {
    /// The argument repeated, or standard input: line by line if `many`, else as a whole.
    fn new(value: Option<&str>, many: bool) -> std::io::Result<Values> {
        if let Some(value) = value {
            return Ok(Values::Repeated(value.as_bytes().to_vec()));
        }
        if many {
            return Ok(Values::Lines(std::io::stdin().lines()));
        }
        let mut value = Vec::new();
        std::io::stdin().read_to_end(&mut value)?;
        Ok(Values::Repeated(value))
    }

    fn next(&mut self, input: &Input) -> Result<Option<Vec<u8>>, Box<dyn Error>> {
        let text = match self {
            Values::Repeated(value) => value.clone(),
            Values::Lines(lines) => match lines.next() {
                Some(line) => line?.into_bytes(),
                None => return Ok(None),
            },
        };
        input.octets(text).map(Some)
    }
}

impl Input {
    /// The octets that are written into the area.
    fn octets(&self, text: Vec<u8>) -> Result<Vec<u8>, Box<dyn Error>> {
        match &self.value_type {
            Some(typed) => Ok(typed.parse(&String::from_utf8(text)?)?),
            None if self.hex => Ok(from_hex(&String::from_utf8(text)?)?),
            None => Ok(text),
        }
    }
}
