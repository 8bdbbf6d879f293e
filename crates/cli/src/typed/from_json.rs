//! JSON to octets by a type code, in the forms that `Any::to_json` shows.

use isorb_any::{Any, Kind, Label, TypeCode};
use isorb_cdr::{Decoder, Encoder, Order, Text};
use isorb_scope::Region;
use serde_json::{Map, Value};

/// Values nest no deeper.
const DEEPEST: u32 = 64;

/// The octets of a value.
pub fn encode(tc: &TypeCode, value: &Value, encapsulated: bool) -> Result<Vec<u8>, String> {
    let mut encoder = Encoder::new(Vec::new(), Text::DEFAULT);
    if encapsulated {
        encoder.put(u8::from(cfg!(target_endian = "little")));
    }
    let mut writer = Writer { encoder, path: Vec::new() };
    writer.value(tc, value)?;
    writer.encoder.flatten().map_err(|error| format!("the value cannot be written: {error}"))
}

/// Reads an encapsulation.
pub fn after_flag(tc: &TypeCode, octets: &[u8], order: Order) -> isorb_cdr::Result<Any> {
    let mut octets = octets.to_vec();
    let mut region = Region::new(4096);
    let scope = region.enter();
    let mut decoder = Decoder::new(&mut octets, order, Text::DEFAULT, &scope);
    decoder.skip(1);
    let any = Any::take(tc.clone(), &mut decoder)?;
    match decoder.remaining() {
        0 => Ok(any),
        _ => Err(decoder.error(isorb_cdr::ErrorKind::Length)),
    }
}

struct Writer {
    encoder: Encoder<'static>,
    /// Where in the value, for messages.
    path: Vec<String>,
}

impl Writer {
    fn wrong(&self, tc: &TypeCode, value: &Value) -> String {
        let text: String = value.to_string().chars().take(60).collect();
        match self.path.is_empty() {
            true => format!("{text} is no {tc}"),
            false => format!("{}: {text} is no {tc}", self.path.join(".")),
        }
    }

    fn inside<T>(
        &mut self,
        name: String,
        work: impl FnOnce(&mut Self) -> Result<T, String>,
    ) -> Result<T, String> {
        if self.path.len() as u32 >= DEEPEST {
            return Err(format!("{}: the value nests deeper than {DEEPEST}", self.path.join(".")));
        }
        self.path.push(name);
        let done = work(self);
        self.path.pop();
        done
    }

    fn value(&mut self, tc: &TypeCode, value: &Value) -> Result<(), String> {
        let tc = &tc.original();
        let wrong = || self.wrong(tc, value);
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
                let place = enumerator(tc, value).ok_or_else(wrong)?;
                self.encoder.put(place);
            }
            Kind::Sequence | Kind::Array => self.list(tc, value)?,
            Kind::Struct | Kind::Except => self.structure(tc, value)?,
            Kind::Union => self.union(tc, value)?,
            _ => return Err(format!("{}: a {tc} cannot be written from JSON", self.path.join("."))),
        }
        Ok(())
    }

    fn bounded(&self, tc: &TypeCode, length: usize) -> Result<(), String> {
        match tc.length().map_err(|error| error.to_string())? as usize {
            0 => Ok(()),
            bound if length <= bound => Ok(()),
            bound => Err(format!("{}: {length} are more than the bound, {bound}", self.path.join("."))),
        }
    }

    fn list(&mut self, tc: &TypeCode, value: &Value) -> Result<(), String> {
        let element = tc.content_type().map_err(|error| error.to_string())?;
        let octets = match value.as_str() {
            Some(digits) if element.original().kind() == Kind::Octet => Some(super::from_hex(digits)?),
            _ => None,
        };
        let items = value.as_array();
        let Some(count) = octets.as_ref().map(Vec::len).or(items.map(Vec::len)) else {
            return Err(self.wrong(tc, value));
        };
        match tc.kind() {
            Kind::Sequence => {
                self.bounded(tc, count)?;
                self.encoder.count(count);
            }
            _ => {
                let length = tc.length().map_err(|error| error.to_string())? as usize;
                if count != length {
                    let path = self.path.join(".");
                    return Err(format!("{path}: {count} elements, and the array has {length}"));
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

    fn structure(&mut self, tc: &TypeCode, value: &Value) -> Result<(), String> {
        let Some(object) = value.as_object() else { return Err(self.wrong(tc, value)) };
        let mut known = Vec::new();
        for (name, member) in members(tc)? {
            let Some(value) = object.get(&name) else {
                return Err(format!("{}: the member {name} is missing", self.path.join(".")));
            };
            self.inside(name.clone(), |writer| writer.value(&member, value))?;
            known.push(name);
        }
        self.nothing_else(object, |name| known.iter().any(|known| known == name))
    }

    fn union(&mut self, tc: &TypeCode, value: &Value) -> Result<(), String> {
        let Some(object) = value.as_object() else { return Err(self.wrong(tc, value)) };
        let discriminator = tc.discriminator_type().map_err(|error| error.to_string())?.original();
        let Some(case) = object.get("$case") else {
            return Err(format!("{}: a union needs its $case", self.path.join(".")));
        };
        self.inside("$case".into(), |writer| writer.value(&discriminator, case))?;
        let Some(number) = number_of(&discriminator, case) else {
            return Err(self.wrong(&discriminator, case));
        };
        let labels = (0..members(tc)?.len() as u32).map(|index| (index, tc.member_label(index)));
        let (mut exact, mut default) = (None, None);
        for (index, label) in labels {
            match label.map_err(|error| error.to_string())? {
                Label::Value(value) if value == number => exact = Some(index),
                Label::Default => default = Some(index),
                Label::Value(_) => {}
            }
        }
        let chosen = exact.or(default).map(|index| members(tc).map(|all| all[index as usize].clone()));
        let Some(chosen) = chosen else { return self.nothing_else(object, |name| name == "$case") };
        let (name, member) = chosen?;
        let Some(value) = object.get(&name) else {
            return Err(format!("{}: the member {name} is missing", self.path.join(".")));
        };
        self.inside(name.clone(), |writer| writer.value(&member, value))?;
        self.nothing_else(object, |other| other == "$case" || other == name)
    }

    fn nothing_else(&self, object: &Map<String, Value>, known: impl Fn(&str) -> bool) -> Result<(), String> {
        match object.keys().find(|name| !known(name)) {
            Some(name) => Err(format!("{}: there is no member {name}", self.path.join("."))),
            None => Ok(()),
        }
    }
}

/// Names and types; members without a name are called by their index.
fn members(tc: &TypeCode) -> Result<Vec<(String, TypeCode)>, String> {
    let of = |index: u32| {
        let name = tc.member_name(index)?;
        let name = if name.is_empty() { index.to_string() } else { name.to_owned() };
        Ok((name, tc.member_type(index)?))
    };
    let count = tc.member_count().map_err(|error| error.to_string())?;
    (0..count).map(of).collect::<Result<_, isorb_any::TypeCodeError>>().map_err(|error| error.to_string())
}

fn enumerator(tc: &TypeCode, value: &Value) -> Option<u32> {
    let count = tc.member_count().ok()?;
    match value.as_str() {
        Some(name) => (0..count).find(|index| tc.member_name(*index) == Ok(name)),
        None => value.as_u64().and_then(|place| u32::try_from(place).ok()).filter(|place| *place < count),
    }
}

/// A discriminator's value as a label has it.
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
