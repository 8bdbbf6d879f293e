//! Values as JSON, for tools.
//!
//! | IDL | JSON |
//! |---|---|
//! | structure, exception | object; members without a name are called by their index |
//! | union | object of `"$case"` (the discriminator) and the member, if any |
//! | sequence, array | array; of octets: a string of hexadecimal digits |
//! | integers | number, however large |
//! | float, double, long double (rounded to a double) | number; `"NaN"`, `"Infinity"`, `"-Infinity"` |
//! | fixed | string, so that no digit is lost |
//! | enum | string; without a name its place as a number |
//! | any | object of `"$type"` and `"value"` |
//! | type code | object of `"$typecode"`, as IDL would write it |
//! | reference | `null`, or an object of `"$reference"` (type id) and `"profiles"` (how many) |

use crate::print::{Limited, Nesting, write_fixed};
use crate::walk::{Event, Stopped, Visitor, WalkError};
use crate::{Any, Label};
use alloc::string::String;
use core::fmt::{self, Write};

impl Any {
    /// The value as JSON, at most `limit` octets of it.
    ///
    /// # Errors
    /// [`WalkError::Stopped`] when it would be longer.
    pub fn to_json(&self, limit: usize) -> Result<String, WalkError> {
        let mut text = String::new();
        let mut json = Json { out: Limited { out: &mut text, left: limit }, nesting: Nesting::default() };
        self.walk(&mut json)?;
        Ok(text)
    }
}

struct Json<'a> {
    out: Limited<'a>,
    nesting: Nesting,
}

impl Json<'_> {
    fn separate(&mut self) -> fmt::Result {
        if self.nesting.needs_separator() { self.out.write_str(",") } else { Ok(()) }
    }

    fn open(&mut self, text: &str) -> fmt::Result {
        self.nesting.open();
        self.out.write_str(text)
    }

    fn close(&mut self, text: &str) -> fmt::Result {
        self.nesting.close();
        self.out.write_str(text)
    }

    fn number(&mut self, value: f64, text: fmt::Arguments<'_>) -> fmt::Result {
        match value {
            v if v.is_finite() => self.out.write_fmt(text),
            v if v.is_nan() => self.out.write_str("\"NaN\""),
            v if v > 0.0 => self.out.write_str("\"Infinity\""),
            _ => self.out.write_str("\"-Infinity\""),
        }
    }
}

impl Visitor for Json<'_> {
    fn event(&mut self, event: Event<'_>) -> Result<(), Stopped> {
        match event {
            Event::EndStruct | Event::EndUnion => return Ok(self.close("}")?),
            Event::EndAny => return Ok(self.close("}")?),
            Event::EndList => return Ok(self.close("]")?),
            _ => self.separate()?,
        }
        let out = &mut self.out;
        match event {
            Event::Null | Event::Reference("", 0) => out.write_str("null")?,
            Event::Again(number) => write!(out, "{{\"$value\":{number}}}")?,
            Event::Boolean(value) => write!(out, "{value}")?,
            Event::Char(value) => quote(value.encode_utf8(&mut [0; 4]), out)?,
            Event::Integer(value) => write!(out, "{value}")?,
            Event::Float(value) => self.number(value.into(), format_args!("{value:?}"))?,
            Event::Double(value) => self.number(value, format_args!("{value:?}"))?,
            Event::LongDouble(value) => {
                let value = f64::from(value);
                self.number(value, format_args!("{value:?}"))?;
            }
            Event::Fixed(unscaled, scale) => {
                out.write_str("\"")?;
                write_fixed(unscaled, scale, out)?;
                out.write_str("\"")?;
            }
            Event::Text(text) => quote(text, out)?,
            Event::Enumerator("", ordinal) => write!(out, "{ordinal}")?,
            Event::Enumerator(name, _) => quote(name, out)?,
            Event::Octets(octets) => {
                out.write_str("\"")?;
                octets.iter().try_for_each(|octet| write!(out, "{octet:02x}"))?;
                out.write_str("\"")?;
            }
            Event::Reference(id, profiles) => {
                out.write_str("{\"$reference\":")?;
                quote(id, out)?;
                write!(out, ",\"profiles\":{profiles}}}")?;
            }
            Event::TypeCode(tc) => {
                out.write_str("{\"$typecode\":")?;
                quote_display(tc, out)?;
                out.write_str("}")?;
            }
            Event::BeginStruct(..) => self.open("{")?,
            Event::BeginUnion(_, label, enumerator) => {
                self.open("{\"$case\":")?;
                match label {
                    _ if !enumerator.is_empty() => quote(enumerator, &mut self.out)?,
                    Label::Value(value) => write!(self.out, "{value}")?,
                    Label::Default => self.out.write_str("null")?,
                }
                self.nesting.begun();
            }
            Event::Member(name, index) => {
                if name.is_empty() {
                    write!(out, "\"{index}\"")?
                } else {
                    quote(name, out)?
                }
                out.write_str(":")?;
                self.nesting.named();
            }
            Event::BeginList(_) => self.open("[")?,
            Event::BeginAny(tc) => {
                self.open("{\"$type\":")?;
                quote_display(tc, &mut self.out)?;
                self.out.write_str(",\"value\":")?;
            }
            Event::EndStruct | Event::EndUnion | Event::EndList | Event::EndAny => {}
        }
        Ok(())
    }
}

/// Writes a JSON string (RFC 8259, clause 7).
fn quote(text: &str, out: &mut dyn Write) -> fmt::Result {
    out.write_str("\"")?;
    Escaped(out).write_str(text)?;
    out.write_str("\"")
}

fn quote_display(text: &dyn fmt::Display, out: &mut dyn Write) -> fmt::Result {
    out.write_str("\"")?;
    write!(Escaped(out), "{text}")?;
    out.write_str("\"")
}

/// Writes text as the inside of a JSON string.
struct Escaped<'a>(&'a mut dyn Write);

impl Write for Escaped<'_> {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        s.chars().try_for_each(|c| match c {
            '"' => self.0.write_str("\\\""),
            '\\' => self.0.write_str("\\\\"),
            '\n' => self.0.write_str("\\n"),
            '\r' => self.0.write_str("\\r"),
            '\t' => self.0.write_str("\\t"),
            c if c < ' ' => write!(self.0, "\\u{:04x}", c as u32),
            c => self.0.write_char(c),
        })
    }
}
