//! JSON as values, in the forms of [`Any::to_json`].

use crate::{Any, DynAny, Kind, Label, TypeCode, TypeCodeError};
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use isorb_cdr::{Encoder, Text};
use serde_json::{Map, Value};

/// The greatest nesting of a value.
const MAX_DEPTH: usize = 64;

/// Why JSON is no value of a type: a sentence that names the member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonError(String);

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for JsonError {}

impl From<TypeCodeError> for JsonError {
    fn from(error: TypeCodeError) -> JsonError {
        JsonError(error.to_string())
    }
}

impl Any {
    /// A value of the type `tc` from JSON in the forms of [`Any::to_json`]. References, `any`
    /// and type codes cannot be read.
    ///
    /// # Errors
    /// A sentence that names the member and what it should be.
    pub fn from_json(tc: TypeCode, json: &str) -> Result<Any, JsonError> {
        let value =
            serde_json::from_str(json).map_err(|error| JsonError(format!("this is not JSON: {error}")))?;
        let mut writer = Writer { encoder: Encoder::new(Vec::new(), Text::HELD), path: Vec::new() };
        writer.value(&tc, &value)?;
        let any = Any::of_encoder(tc, writer.encoder);
        any.map_err(|error| JsonError(format!("the value cannot be encoded: {error}")))
    }
}

struct Writer {
    encoder: Encoder<'static>,
    /// The members that lead to the current one, for messages.
    path: Vec<String>,
}

impl Writer {
    fn error(&self, text: impl fmt::Display) -> JsonError {
        match &self.path[..] {
            [] => JsonError(text.to_string()),
            path => JsonError(format!("{}: {text}", path.join("."))),
        }
    }

    fn mismatch(&self, tc: &TypeCode, value: &Value) -> JsonError {
        let text: String = value.to_string().chars().take(60).collect();
        self.error(format_args!("{text} is no {tc}"))
    }

    fn inside<T>(
        &mut self,
        name: String,
        write: impl FnOnce(&mut Self) -> Result<T, JsonError>,
    ) -> Result<T, JsonError> {
        if self.path.len() >= MAX_DEPTH {
            return Err(self.error(format_args!("the value nests deeper than {MAX_DEPTH}")));
        }
        self.path.push(name);
        let result = write(self);
        self.path.pop();
        result
    }

    fn value(&mut self, tc: &TypeCode, value: &Value) -> Result<(), JsonError> {
        let tc = &tc.original();
        let wrong = || self.mismatch(tc, value);
        macro_rules! integer {
            ($ty:ty) => {{
                let number = value.as_i64().map(i128::from).or(value.as_u64().map(i128::from));
                let number = number.and_then(|number| <$ty>::try_from(number).ok()).ok_or_else(wrong)?;
                self.encoder.put(number)
            }};
        }
        match tc.kind() {
            Kind::Octet => integer!(u8),
            Kind::Short => integer!(i16),
            Kind::UShort => integer!(u16),
            Kind::Long => integer!(i32),
            Kind::ULong => integer!(u32),
            Kind::LongLong => integer!(i64),
            Kind::ULongLong => integer!(u64),
            Kind::Float => self.encoder.put(float(value).ok_or_else(wrong)? as f32),
            Kind::Double => self.encoder.put(float(value).ok_or_else(wrong)?),
            Kind::Boolean => self.encoder.put(u8::from(value.as_bool().ok_or_else(wrong)?)),
            Kind::Char => self.encoder.char(one_char(value).ok_or_else(wrong)?),
            Kind::WChar => self.encoder.wchar(one_char(value).ok_or_else(wrong)?),
            Kind::String => {
                let text = value.as_str().ok_or_else(wrong)?;
                self.bounded(tc, text.chars().count())?;
                self.encoder.string(text);
            }
            Kind::WString => {
                let text = value.as_str().ok_or_else(wrong)?;
                self.bounded(tc, text.chars().count())?;
                self.encoder.wstring(text);
            }
            Kind::Enum => {
                let ordinal = enumerator(tc, value).ok_or_else(wrong)?;
                self.encoder.put(ordinal);
            }
            Kind::Fixed => {
                let text = value.as_str().map(ToOwned::to_owned).unwrap_or_else(|| value.to_string());
                let mut number = DynAny::from_type(tc).map_err(|_| wrong())?;
                // A digit that would be cut off is an error here.
                let octets = match number.set_fixed(&text) {
                    Ok(true) => number.to_any().map_err(|_| wrong())?,
                    _ => return Err(wrong()),
                };
                self.encoder.raw(octets.value());
            }
            Kind::Sequence | Kind::Array => self.list(tc, value)?,
            Kind::Struct | Kind::Except => self.structure(tc, value)?,
            Kind::Union => self.union(tc, value)?,
            _ => return Err(self.error(format_args!("a {tc} cannot be read from JSON"))),
        }
        Ok(())
    }

    fn bounded(&self, tc: &TypeCode, length: usize) -> Result<(), JsonError> {
        match tc.length()? as usize {
            0 => Ok(()),
            bound if length <= bound => Ok(()),
            bound => Err(self.error(format_args!("{length} are more than the bound, {bound}"))),
        }
    }

    fn list(&mut self, tc: &TypeCode, value: &Value) -> Result<(), JsonError> {
        let element = tc.content_type()?;
        let octets = match value.as_str() {
            Some(digits) if element.original().kind() == Kind::Octet => {
                Some(from_hex(digits).ok_or_else(|| self.mismatch(tc, value))?)
            }
            _ => None,
        };
        let items = value.as_array();
        let Some(count) = octets.as_ref().map(Vec::len).or(items.map(Vec::len)) else {
            return Err(self.mismatch(tc, value));
        };
        match tc.kind() {
            Kind::Sequence => {
                self.bounded(tc, count)?;
                self.encoder.count(count);
            }
            _ => {
                let length = tc.length()? as usize;
                if count != length {
                    return Err(self.error(format_args!("{count} elements, and the array has {length}")));
                }
            }
        }
        if let Some(octets) = octets {
            self.encoder.raw(&octets);
        }
        for (index, item) in items.into_iter().flatten().enumerate() {
            self.inside(format!("[{index}]"), |writer| writer.value(&element, item))?;
        }
        Ok(())
    }

    fn structure(&mut self, tc: &TypeCode, value: &Value) -> Result<(), JsonError> {
        let Some(object) = value.as_object() else { return Err(self.mismatch(tc, value)) };
        let mut known = Vec::new();
        for (name, member) in members(tc)? {
            let Some(value) = object.get(&name) else {
                return Err(self.error(format_args!("the member {name} is missing")));
            };
            self.inside(name.clone(), |writer| writer.value(&member, value))?;
            known.push(name);
        }
        self.nothing_else(object, |name| known.iter().any(|known| known == name))
    }

    fn union(&mut self, tc: &TypeCode, value: &Value) -> Result<(), JsonError> {
        let Some(object) = value.as_object() else { return Err(self.mismatch(tc, value)) };
        let discriminator = tc.discriminator_type()?.original();
        let Some(case) = object.get("$case") else {
            return Err(self.error("a union needs its $case"));
        };
        self.inside("$case".into(), |writer| writer.value(&discriminator, case))?;
        let Some(number) = number_of(&discriminator, case) else {
            return Err(self.mismatch(&discriminator, case));
        };
        let labels = (0..members(tc)?.len() as u32).map(|index| (index, tc.member_label(index)));
        let (mut exact, mut default) = (None, None);
        for (index, label) in labels {
            match label? {
                Label::Value(value) if value == number => exact = Some(index),
                Label::Default => default = Some(index),
                Label::Value(_) => {}
            }
        }
        let chosen = exact.or(default).map(|index| members(tc).map(|all| all[index as usize].clone()));
        let Some(chosen) = chosen else { return self.nothing_else(object, |name| name == "$case") };
        let (name, member) = chosen?;
        let Some(value) = object.get(&name) else {
            return Err(self.error(format_args!("the member {name} is missing")));
        };
        self.inside(name.clone(), |writer| writer.value(&member, value))?;
        self.nothing_else(object, |other| other == "$case" || other == name)
    }

    fn nothing_else(
        &self,
        object: &Map<String, Value>,
        known: impl Fn(&str) -> bool,
    ) -> Result<(), JsonError> {
        match object.keys().find(|name| !known(name)) {
            Some(name) => Err(self.error(format_args!("there is no member {name}"))),
            None => Ok(()),
        }
    }
}

/// The names and types of members. A member without a name has its index as name.
fn members(tc: &TypeCode) -> Result<Vec<(String, TypeCode)>, TypeCodeError> {
    let of = |index: u32| {
        let name = tc.member_name(index)?;
        let name = if name.is_empty() { index.to_string() } else { name.to_owned() };
        Ok((name, tc.member_type(index)?))
    };
    (0..tc.member_count()?).map(of).collect()
}

fn enumerator(tc: &TypeCode, value: &Value) -> Option<u32> {
    let count = tc.member_count().ok()?;
    match value.as_str() {
        Some(name) => (0..count).find(|index| tc.member_name(*index) == Ok(name)),
        None => value.as_u64().and_then(|place| u32::try_from(place).ok()).filter(|ordinal| *ordinal < count),
    }
}

/// A discriminator's value in the form of labels.
fn number_of(tc: &TypeCode, value: &Value) -> Option<i128> {
    match tc.kind() {
        Kind::Enum => enumerator(tc, value).map(i128::from),
        Kind::Boolean => value.as_bool().map(i128::from),
        Kind::Char | Kind::WChar => one_char(value).map(|c| i128::from(u32::from(c))),
        _ => value.as_i64().map(i128::from).or(value.as_u64().map(i128::from)),
    }
}

fn float(value: &Value) -> Option<f64> {
    match value.as_str() {
        Some("NaN") => Some(f64::NAN),
        Some("Infinity") => Some(f64::INFINITY),
        Some("-Infinity") => Some(f64::NEG_INFINITY),
        _ => value.as_f64(),
    }
}

fn one_char(value: &Value) -> Option<char> {
    let mut chars = value.as_str()?.chars();
    chars.next().filter(|_| chars.next().is_none())
}

/// Octets of hexadecimal digits.
fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> =
        text.chars().map(|c| c.to_digit(16).map(|digit| digit as u8)).collect::<Option<_>>()?;
    let (pairs, rest) = digits.as_chunks::<2>();
    rest.is_empty().then(|| pairs.iter().map(|[high, low]| high << 4 | low).collect())
}
