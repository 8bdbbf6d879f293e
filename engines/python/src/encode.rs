//! Python values to CDR, by the type in IDL.

use crate::any::PyAnyValue;
use crate::object::Object;
use crate::types::{Def, Member, Ty, Types};
pub use crate::wrong::Wrong;
use crate::wrong::wrong;
use isorb_cdr::{Encode, Encoder, Handle, LongDouble};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyList, PyString, PyTuple};

/// How deeply values may be nested, as for values that are read.
pub const MAX_LEVELS: usize = 120;

type Result<T = (), E = Wrong> = std::result::Result<T, E>;

/// Writes values of the types of one IDL file.
#[derive(Clone, Copy)]
pub struct Writer<'t> {
    pub types: &'t Types,
}

impl Writer<'_> {
    fn wrong<T>(&self, ty: &Ty, given: &Bound<'_, PyAny>) -> Result<T> {
        let expected = match ty {
            Ty::Octet | Ty::Short | Ty::UShort | Ty::Long | Ty::ULong | Ty::LongLong | Ty::ULongLong => {
                format!("{ty}, an int")
            }
            Ty::Float | Ty::Double | Ty::LongDouble => format!("{ty}, a float"),
            Ty::Boolean => "boolean, True or False".into(),
            Ty::Char | Ty::WChar => format!("{ty}, a str of one character"),
            Ty::String(_) | Ty::WString(_) => format!("{ty}, a str"),
            Ty::Fixed(..) => format!("{ty}, a decimal.Decimal"),
            Ty::Object => "Object, a reference or None".into(),
            Ty::Sequence(element, _) if matches!(**element, Ty::Octet) => {
                format!("{}, bytes", self.types.spell(ty))
            }
            Ty::Sequence(..) | Ty::Array(..) => format!("{}, a list", self.types.spell(ty)),
            _ => self.types.spell(ty),
        };
        Err(wrong(expected, given, false))
    }

    /// A value of the class that fits, but not of its range.
    fn out_of_range<T>(&self, expected: String, given: &Bound<'_, PyAny>) -> Result<T> {
        Err(wrong(expected, given, true))
    }

    fn integer<T>(&self, ty: &Ty, value: &Bound<'_, PyAny>, low: i128, high: i128) -> Result<T>
    where
        T: TryFrom<i64> + TryFrom<u64>,
    {
        if let Ok(number) = value.extract::<i64>() {
            return match T::try_from(number) {
                Ok(number) => Ok(number),
                Err(_) => self.out_of_range(format!("{ty}, {low} to {high}"), value),
            };
        }
        // A float is refused here, although it could be rounded.
        if let Some(number) = value.extract::<u64>().ok().and_then(|number| T::try_from(number).ok()) {
            return Ok(number);
        }
        if value.is_instance_of::<pyo3::types::PyInt>() {
            return self.out_of_range(format!("{ty}, {low} to {high}"), value);
        }
        self.wrong(ty, value)
    }

    fn real(&self, ty: &Ty, value: &Bound<'_, PyAny>) -> Result<f64> {
        value.extract::<f64>().or_else(|_| self.wrong(ty, value))
    }

    fn character(&self, ty: &Ty, value: &Bound<'_, PyAny>) -> Result<char> {
        let Ok(text) = value.cast::<PyString>() else { return self.wrong(ty, value) };
        let text = text.to_cow()?;
        let mut chars = text.chars();
        match (chars.next(), chars.next()) {
            (Some(c), None) => Ok(c),
            _ => self.wrong(ty, value),
        }
    }

    /// Writes a value.
    pub fn write(&self, ty: &Ty, value: &Bound<'_, PyAny>, e: &mut Encoder<'_>, level: usize) -> Result {
        match ty {
            Ty::Long => e.put::<i32>(self.integer(ty, value, i32::MIN.into(), i32::MAX.into())?),
            Ty::ULong => e.put::<u32>(self.integer(ty, value, 0, u32::MAX.into())?),
            Ty::Double => e.put(self.real(ty, value)?),
            Ty::Float => {
                let number = self.real(ty, value)?;
                if number.is_finite() && !(number as f32).is_finite() {
                    return self.out_of_range("float, at most 3.4e38".into(), value);
                }
                e.put(number as f32);
            }
            Ty::String(bound) | Ty::WString(bound) => {
                let Ok(text) = value.cast::<PyString>() else { return self.wrong(ty, value) };
                let Ok(text) = text.to_cow() else {
                    return self.out_of_range(format!("{ty} without unpaired surrogates"), value);
                };
                if text.contains('\0') {
                    return self.out_of_range(format!("{ty} without zero characters"), value);
                }
                if *bound != 0 && text.chars().count() > *bound as usize {
                    let given = format!("{} characters", text.chars().count());
                    return Err(Wrong::Value {
                        path: Vec::new(),
                        expected: ty.to_string(),
                        given,
                        range: true,
                    });
                }
                match ty {
                    Ty::String(_) => e.string(&text),
                    _ => e.wstring(&text),
                }
            }
            Ty::Named(index) => return self.named(*index, value, e, level),
            Ty::Boolean => match value.extract::<bool>() {
                Ok(truth) => e.put(u8::from(truth)),
                Err(_) => return self.wrong(ty, value),
            },
            Ty::Octet => e.put::<u8>(self.integer(ty, value, 0, u8::MAX.into())?),
            Ty::Short => e.put::<i16>(self.integer(ty, value, i16::MIN.into(), i16::MAX.into())?),
            Ty::UShort => e.put::<u16>(self.integer(ty, value, 0, u16::MAX.into())?),
            Ty::LongLong => e.put::<i64>(self.integer(ty, value, i64::MIN.into(), i64::MAX.into())?),
            Ty::ULongLong => e.put::<u64>(self.integer(ty, value, 0, u64::MAX.into())?),
            Ty::LongDouble => LongDouble::from(self.real(ty, value)?).encode(e),
            Ty::Char => {
                let c = self.character(ty, value)?;
                if u32::from(c) > 0xff {
                    return self.out_of_range("char, U+0000 to U+00FF".into(), value);
                }
                e.char(c);
            }
            Ty::WChar => {
                let c = self.character(ty, value)?;
                if u32::from(c) > 0xffff {
                    return self.out_of_range("wchar, U+0000 to U+FFFF".into(), value);
                }
                e.wchar(c);
            }
            Ty::Sequence(element, bound) => return self.list(ty, element, None, *bound, value, e, level),
            Ty::Array(element, length) => return self.list(ty, element, Some(*length), 0, value, e, level),
            Ty::Fixed(digits, scale) => {
                let text = value.str()?.to_string();
                if value.extract::<f64>().is_err() || value.is_instance_of::<PyString>() {
                    return self.wrong(ty, value);
                }
                match bcd(&text, *digits, *scale) {
                    Some(octets) => e.raw(&octets),
                    None => return self.out_of_range(ty.to_string(), value),
                }
            }
            Ty::Object => write_object(None, value, e)?,
            Ty::Any => PyAnyValue::write(self.types, value, e, level)?,
            Ty::TypeCode => match value.cast::<crate::any::PyTypeCode>() {
                Ok(code) => code.get().code.write(e),
                Err(_) => return self.wrong(ty, value),
            },
            Ty::Unsupported(_) => return self.wrong(ty, value),
        }
        Ok(())
    }

    #[allow(clippy::too_many_arguments, reason = "of one caller")]
    fn list(
        &self,
        ty: &Ty,
        element: &Ty,
        length: Option<u32>,
        bound: u32,
        value: &Bound<'_, PyAny>,
        e: &mut Encoder<'_>,
        level: usize,
    ) -> Result {
        if level == MAX_LEVELS {
            return self.too_deep(value);
        }
        let begin = |n: usize, e: &mut Encoder<'_>| match length {
            Some(length) if n != length as usize => {
                let (expected, given) = (self.types.spell(ty), format!("{n} elements"));
                Err(Wrong::Value { path: Vec::new(), expected, given, range: true })
            }
            Some(_) => Ok(()),
            None if bound != 0 && n > bound as usize => {
                let (expected, given) = (self.types.spell(ty), format!("{n} elements"));
                Err(Wrong::Value { path: Vec::new(), expected, given, range: true })
            }
            None => {
                e.count(n);
                Ok(())
            }
        };
        if matches!(element, Ty::Octet) {
            if let Ok(bytes) = value.cast::<PyBytes>() {
                begin(bytes.as_bytes().len(), e)?;
                e.raw(bytes.as_bytes());
                return Ok(());
            }
            let memory = value.is_instance_of::<PyByteArray>()
                || value.get_type().name()?.to_cow()? == "memoryview"
                || value.hasattr(pyo3::intern!(value.py(), "__array_interface__"))?;
            if memory {
                let bytes = value.py().get_type::<PyBytes>().call1((value,))?;
                let bytes = bytes.cast::<PyBytes>().map_err(PyErr::from)?;
                begin(bytes.as_bytes().len(), e)?;
                e.raw(bytes.as_bytes());
                return Ok(());
            }
        }
        if let Ok(text) = value.cast::<PyString>() {
            if !matches!(element, Ty::Char) {
                return self.wrong(ty, value);
            }
            let text = text.to_cow()?;
            begin(text.chars().count(), e)?;
            for c in text.chars() {
                if u32::from(c) > 0xff {
                    return self.out_of_range("char, U+0000 to U+00FF".into(), value);
                }
                e.char(c);
            }
            return Ok(());
        }
        let write = |at: usize, item: &Bound<'_, PyAny>, e: &mut Encoder<'_>| {
            self.write(element, item, e, level + 1).map_err(|wrong| wrong.within(|| format!("[{at}]")))
        };
        if let Ok(items) = value.cast::<PyTuple>() {
            begin(items.len(), e)?;
            return items.iter_borrowed().enumerate().try_for_each(|(at, item)| write(at, &item, e));
        }
        // A copy: writing an element may run Python code, which may change the list.
        let items = match value.cast::<PyList>() {
            Ok(list) => list.to_tuple(),
            Err(_) if value.hasattr(pyo3::intern!(value.py(), "__len__"))? && value.try_iter().is_ok() => {
                if value.hasattr(pyo3::intern!(value.py(), "keys"))? {
                    return self.wrong(ty, value);
                }
                value
                    .py()
                    .get_type::<PyTuple>()
                    .call1((value,))?
                    .cast_into::<PyTuple>()
                    .map_err(PyErr::from)?
            }
            Err(_) => return self.wrong(ty, value),
        };
        begin(items.len(), e)?;
        items.iter_borrowed().enumerate().try_for_each(|(at, item)| write(at, &item, e))
    }

    fn too_deep<T>(&self, _: &Bound<'_, PyAny>) -> Result<T> {
        let expected = format!("at most {MAX_LEVELS} levels of nesting");
        Err(Wrong::Value { path: Vec::new(), expected, given: "more".into(), range: true })
    }

    fn named(&self, index: usize, value: &Bound<'_, PyAny>, e: &mut Encoder<'_>, level: usize) -> Result {
        if level == MAX_LEVELS {
            return self.too_deep(value);
        }
        let py = value.py();
        match self.types.def(index) {
            Some(Def::Struct { class, members }) => {
                if !value.is_instance(class.bind(py))? {
                    return self.wrong(&Ty::Named(index), value);
                }
                self.members(members, value, e, level)
            }
            Some(Def::Enum { class, .. }) => {
                if !value.is_instance(class.bind(py))? {
                    return self.wrong(&Ty::Named(index), value);
                }
                e.put(value.extract::<u32>()?);
                Ok(())
            }
            Some(Def::Union { class, discriminator, cases, labels, default }) => {
                if !value.is_instance(class.bind(py))? {
                    return self.wrong(&Ty::Named(index), value);
                }
                let selected = value.getattr(pyo3::intern!(py, "_d"))?;
                self.write(discriminator, &selected, e, level + 1)
                    .map_err(|wrong| wrong.within(|| "._d".into()))?;
                let case = labels.get(&label_of(&selected)?).copied().or(*default);
                let member = value.getattr(pyo3::intern!(py, "_v"))?;
                match case.and_then(|case| cases.get(case)) {
                    Some(case) => self
                        .write(&case.ty, &member, e, level + 1)
                        .map_err(|wrong| wrong.within(|| format!(".{}", case.text))),
                    None if member.is_none() => Ok(()),
                    None => Err(wrong("None, as the discriminator selects no member".into(), &member, false)),
                }
            }
            Some(Def::Interface { class }) => write_object(Some(class.bind(py).as_any()), value, e),
            None => self.wrong(&Ty::Named(index), value),
        }
    }

    /// Writes the members of a structure or exception.
    pub fn members(
        &self,
        members: &[Member],
        value: &Bound<'_, PyAny>,
        e: &mut Encoder<'_>,
        level: usize,
    ) -> Result {
        for member in members {
            let within = |wrong: Wrong| wrong.within(|| format!(".{}", member.text));
            let Some(item) = value.getattr_opt(member.name.bind(value.py()))? else {
                let expected = self.types.spell(&member.ty);
                let given = "nothing: the attribute is missing".into();
                return Err(within(Wrong::Value { path: Vec::new(), expected, given, range: false }));
            };
            self.write(&member.ty, &item, e, level + 1).map_err(within)?;
        }
        Ok(())
    }

    /// Names the parameter of a wrong value.
    pub fn argument(&self, name: &str, ty: &Ty, value: &Bound<'_, PyAny>, e: &mut Encoder<'_>) -> Result {
        self.write(ty, value, e, 0).map_err(|wrong| wrong.within(|| name.to_owned()))
    }
}

/// The number of a discriminator's value.
pub fn label_of(value: &Bound<'_, PyAny>) -> PyResult<i128> {
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(text.to_cow()?.chars().next().map_or(0, |c| i128::from(u32::from(c))));
    }
    value.extract::<i64>().map(i128::from).or_else(|_| value.extract::<u64>().map(i128::from))
}

fn write_object(class: Option<&Bound<'_, PyAny>>, value: &Bound<'_, PyAny>, e: &mut Encoder<'_>) -> Result {
    if value.is_none() {
        isorb::Object::encode_handle(None, e);
        return Ok(());
    }
    // An untyped reference is taken as one of any interface, as a cast of the program's.
    match value.cast::<Object>() {
        Ok(object) => {
            isorb::Object::encode_handle(Some(&object.get().object), e);
            Ok(())
        }
        Err(_) => {
            let name = class.map_or(Ok("Object".to_owned()), |class| {
                Ok::<_, PyErr>(class.getattr(pyo3::intern!(class.py(), "__name__"))?.to_string())
            })?;
            Err(wrong(format!("a reference to {name}, or None"), value, false))
        }
    }
}

/// A decimal in packed digits (CORBA 3.3 part 2, clause 9.3.2.8); `None` if it does not fit.
fn bcd(text: &str, digits: u16, scale: i16) -> Option<Vec<u8>> {
    let (negative, text) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let text = text.strip_prefix('+').unwrap_or(text);
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    if !whole.bytes().chain(part.bytes()).all(|b| b.is_ascii_digit()) {
        return None;
    }
    let (digits, scale) = (usize::from(digits), usize::try_from(scale).ok()?);
    let whole = whole.trim_start_matches('0');
    let part = part.trim_end_matches('0');
    if part.len() > scale || whole.len() > digits - scale {
        return None;
    }
    let mut all: Vec<u8> = Vec::with_capacity(digits + 2);
    all.resize(usize::from(digits % 2 == 0) + digits - scale - whole.len(), 0);
    all.extend(whole.bytes().chain(part.bytes()).map(|b| b - b'0'));
    all.resize(all.len() + scale - part.len(), 0);
    all.push(if negative { 0xd } else { 0xc });
    Some(all.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}
