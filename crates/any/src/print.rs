//! Values as text for people.

use crate::typecode::display;
use crate::walk::{Event, Stopped, Visitor, WalkError};
use crate::{Any, Label};
use alloc::vec::Vec;
use core::fmt::{self, Write};

/// Text of a value ends with `…` after about this many octets.
const MAX_TEXT: usize = 64 * 1024;

/// The number of octets of a sequence that are printed.
const MAX_OCTETS: usize = 64;

/// The value, as `struct Point {x: 1, y: 2}`, cut off when it gets long.
impl fmt::Display for Any {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut printer = Printer { out: Limited { out: f, left: MAX_TEXT }, nesting: Nesting::default() };
        match self.walk(&mut printer) {
            Ok(()) => Ok(()),
            Err(WalkError::Stopped) if printer.out.left == 0 => f.write_str("…"),
            Err(WalkError::Stopped) => Err(fmt::Error),
            // Unreachable: the value was checked when it was made.
            Err(WalkError::Value(error)) => write!(f, "<{error}>"),
        }
    }
}

impl fmt::Debug for Any {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Any({}: {self})", self.type_code())
    }
}

/// Writes text up to a limit.
pub(crate) struct Limited<'a> {
    pub out: &'a mut dyn Write,
    pub left: usize,
}

impl Write for Limited<'_> {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        match self.left.checked_sub(s.len()) {
            Some(left) => {
                self.left = left;
                self.out.write_str(s)
            }
            None => {
                self.left = 0;
                Err(fmt::Error)
            }
        }
    }
}

/// The open structures and sequences, to decide on separators.
#[derive(Default)]
pub(crate) struct Nesting {
    /// For each open structure, whether it has an element already.
    open: Vec<bool>,
    named: bool,
}

impl Nesting {
    /// Whether the next value or name follows another element. A value does not follow its own
    /// name.
    pub fn needs_separator(&mut self) -> bool {
        let named = core::mem::take(&mut self.named);
        match self.open.last_mut() {
            Some(begun) if !named => core::mem::replace(begun, true),
            _ => false,
        }
    }

    pub fn open(&mut self) {
        self.open.push(false);
    }

    pub fn close(&mut self) {
        self.open.pop();
    }

    /// The name of the next value was written.
    pub fn named(&mut self) {
        self.named = true;
    }

    /// An element was written into the innermost open structure.
    pub fn begun(&mut self) {
        if let Some(begun) = self.open.last_mut() {
            *begun = true;
        }
    }
}

struct Printer<'a> {
    out: Limited<'a>,
    nesting: Nesting,
}

impl Printer<'_> {
    fn separate(&mut self) -> fmt::Result {
        if self.nesting.needs_separator() { self.out.write_str(", ") } else { Ok(()) }
    }

    fn open(&mut self, text: fmt::Arguments<'_>) -> fmt::Result {
        self.nesting.open();
        self.out.write_fmt(text)
    }

    fn close(&mut self, text: &str) -> fmt::Result {
        self.nesting.close();
        self.out.write_str(text)
    }
}

impl Visitor for Printer<'_> {
    fn event(&mut self, event: Event<'_>) -> Result<(), Stopped> {
        match event {
            Event::EndStruct | Event::EndUnion => return Ok(self.close("}")?),
            Event::EndList => return Ok(self.close("]")?),
            Event::EndAny => return Ok(self.close(")")?),
            _ => self.separate()?,
        }
        let out = &mut self.out;
        match event {
            Event::Null => out.write_str("null")?,
            Event::Again(number) => write!(out, "value #{number}")?,
            Event::Boolean(value) => write!(out, "{value}")?,
            Event::Char(value) => write!(out, "{value:?}")?,
            Event::Integer(value) => write!(out, "{value}")?,
            Event::Float(value) => write!(out, "{value:?}")?,
            Event::Double(value) => write!(out, "{value:?}")?,
            Event::LongDouble(value) => write!(out, "{:?}", f64::from(value))?,
            Event::Fixed(unscaled, scale) => write_fixed(unscaled, scale, out)?,
            Event::Text(text) => write!(out, "{text:?}")?,
            Event::Enumerator("", ordinal) => write!(out, "#{ordinal}")?,
            Event::Enumerator(name, _) => out.write_str(name)?,
            Event::Octets(octets) => write_octets(octets, out)?,
            Event::Reference("", 0) => out.write_str("nil")?,
            Event::Reference(id, profiles) => write!(out, "reference({id:?}, profiles: {profiles})")?,
            Event::TypeCode(tc) => {
                out.write_str("TypeCode(")?;
                display(tc.borrow(), out)?;
                out.write_str(")")?;
            }
            Event::BeginStruct(kind, name) => self.open(format_args!("{} {name} {{", kind.keyword()))?,
            Event::BeginUnion(name, label, enumerator) => match (label, enumerator) {
                (Label::Value(value), "") => self.open(format_args!("union {name} ({value}) {{"))?,
                (_, enumerator) => self.open(format_args!("union {name} ({enumerator}) {{"))?,
            },
            Event::Member(name, index) => {
                if name.is_empty() {
                    write!(out, "#{index}: ")?
                } else {
                    write!(out, "{name}: ")?
                }
                self.nesting.named();
            }
            Event::BeginList(_) => self.open(format_args!("["))?,
            Event::BeginAny(tc) => {
                self.open(format_args!("any("))?;
                display(tc.borrow(), &mut self.out)?;
                self.out.write_str(": ")?;
            }
            Event::EndStruct | Event::EndUnion | Event::EndList | Event::EndAny => {}
        }
        Ok(())
    }
}

fn write_octets(octets: &[u8], out: &mut Limited<'_>) -> fmt::Result {
    out.write_str("<")?;
    for octet in octets.iter().take(MAX_OCTETS) {
        write!(out, "{octet:02x}")?;
    }
    match octets.len() {
        0..=MAX_OCTETS => out.write_str(">"),
        n => write!(out, "… {n} octets>"),
    }
}

/// Writes a decimal from the number without its point.
pub(crate) fn write_fixed(unscaled: i128, scale: i16, out: &mut dyn Write) -> fmt::Result {
    let sign = if unscaled < 0 { "-" } else { "" };
    let digits = unscaled.unsigned_abs();
    match u32::try_from(scale) {
        Ok(0) => write!(out, "{sign}{digits}"),
        Ok(scale) => {
            let one = 10u128.pow(scale.min(38));
            write!(out, "{sign}{}.{:0width$}", digits / one, digits % one, width = scale as usize)
        }
        Err(_) if digits == 0 => out.write_str("0"),
        Err(_) => write!(out, "{sign}{digits}{:0<width$}", "", width = usize::from(scale.unsigned_abs())),
    }
}
