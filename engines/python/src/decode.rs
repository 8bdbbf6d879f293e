//! CDR to Python values, by the type in IDL.

use crate::any::{PyAnyValue, PyTypeCode};
use crate::encode::{MAX_LEVELS, label_of};
use crate::object;
use crate::types::{Def, Member, Ty, Types};
use isorb::TypeCode;
use isorb_cdr::{Decode, Decoder, ErrorKind, Handle, LongDouble, Plain};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString, PyTuple, PyType};
use std::sync::Arc;

/// Why no value could be made.
pub enum Unread {
    Octets(isorb_cdr::Error),
    Python(PyErr),
}

impl From<isorb_cdr::Error> for Unread {
    fn from(error: isorb_cdr::Error) -> Unread {
        Unread::Octets(error)
    }
}

impl From<PyErr> for Unread {
    fn from(error: PyErr) -> Unread {
        Unread::Python(error)
    }
}

type Result<T, E = Unread> = std::result::Result<T, E>;

/// Reads values of the types of one IDL file.
#[derive(Clone, Copy)]
pub struct Reader<'t, 'py> {
    pub py: Python<'py>,
    pub types: &'t Arc<Types>,
}

impl<'py> Reader<'_, 'py> {
    /// Reads a value.
    pub fn read(&self, ty: &Ty, d: &mut Decoder<'_>, level: usize) -> Result<Bound<'py, PyAny>> {
        let py = self.py;
        Ok(match ty {
            Ty::Long => d.get::<i32>()?.into_bound_py_any(py)?,
            Ty::ULong => d.get::<u32>()?.into_bound_py_any(py)?,
            Ty::Double => d.get::<f64>()?.into_bound_py_any(py)?,
            Ty::Float => d.get::<f32>()?.into_bound_py_any(py)?,
            Ty::String(bound) => {
                let text = d.string()?;
                self.bounded(*bound, text, d)?;
                PyString::new(py, text).into_any()
            }
            Ty::Named(index) => return self.named(*index, d, level),
            Ty::Boolean => d.boolean()?.into_bound_py_any(py)?,
            Ty::Octet => d.get::<u8>()?.into_bound_py_any(py)?,
            Ty::Short => d.get::<i16>()?.into_bound_py_any(py)?,
            Ty::UShort => d.get::<u16>()?.into_bound_py_any(py)?,
            Ty::LongLong => d.get::<i64>()?.into_bound_py_any(py)?,
            Ty::ULongLong => d.get::<u64>()?.into_bound_py_any(py)?,
            Ty::LongDouble => f64::from(LongDouble::decode(d)?).into_bound_py_any(py)?,
            Ty::Char => d.char()?.into_bound_py_any(py)?,
            Ty::WChar => d.wchar()?.into_bound_py_any(py)?,
            Ty::WString(bound) => {
                let text = d.wstring_owned()?;
                self.bounded(*bound, &text, d)?;
                PyString::new(py, &text).into_any()
            }
            Ty::Sequence(element, bound) => {
                let n = d.count(1)?;
                if *bound != 0 {
                    d.check_bound(n, *bound)?;
                }
                return self.list(element, n, d, level);
            }
            Ty::Array(element, length) => return self.list(element, *length as usize, d, level),
            Ty::Fixed(digits, scale) => {
                let octets = d.take(usize::from(*digits) / 2 + 1)?;
                let text = decimal(octets, *scale).ok_or_else(|| d.error(ErrorKind::Value))?;
                py.import("decimal")?.getattr("Decimal")?.call1((text,))?
            }
            Ty::Object => match isorb::Object::decode_handle(d)? {
                Some(object) => object::typed(py, Some(self.types), object, None)?,
                None => py.None().into_bound(py),
            },
            Ty::Any => {
                let any = isorb::Any::read(d)?;
                Bound::new(py, PyAnyValue::new(any, self.types.clone()))?.into_any()
            }
            Ty::TypeCode => Bound::new(py, PyTypeCode { code: TypeCode::read(d)? })?.into_any(),
            Ty::Unsupported(_) => return Err(d.error(ErrorKind::NotRemotable).into()),
        })
    }

    fn bounded(&self, bound: u32, text: &str, d: &Decoder<'_>) -> Result<()> {
        if bound != 0 { Ok(d.check_bound(text.chars().count(), bound)?) } else { Ok(()) }
    }

    fn list(&self, element: &Ty, n: usize, d: &mut Decoder<'_>, level: usize) -> Result<Bound<'py, PyAny>> {
        if level == MAX_LEVELS {
            return Err(d.error(ErrorKind::Depth).into());
        }
        let py = self.py;
        match element {
            Ty::Octet => return Ok(PyBytes::new(py, d.take(n)?).into_any()),
            Ty::Char => {
                // At least one octet each.
                if n > d.remaining() {
                    return Err(d.error(ErrorKind::Truncated).into());
                }
                let text = (0..n).map(|_| d.char()).collect::<isorb_cdr::Result<String>>()?;
                return Ok(PyString::new(py, &text).into_any());
            }
            Ty::Double => return self.numbers::<f64>(n, d),
            Ty::Float => return self.numbers::<f32>(n, d),
            Ty::Long => return self.numbers::<i32>(n, d),
            Ty::ULong => return self.numbers::<u32>(n, d),
            Ty::Short => return self.numbers::<i16>(n, d),
            Ty::UShort => return self.numbers::<u16>(n, d),
            Ty::LongLong => return self.numbers::<i64>(n, d),
            Ty::ULongLong => return self.numbers::<u64>(n, d),
            _ => {}
        }
        let list = PyList::empty(py);
        for _ in 0..n {
            list.append(self.read(element, d, level + 1)?)?;
        }
        Ok(list.into_any())
    }

    fn numbers<T: Plain + Copy + IntoPyObject<'py>>(
        &self,
        n: usize,
        d: &mut Decoder<'_>,
    ) -> Result<Bound<'py, PyAny>> {
        if n.saturating_mul(size_of::<T>()) > d.remaining() + 8 {
            return Err(d.error(ErrorKind::Truncated).into());
        }
        let mut read = Vec::with_capacity(n);
        for _ in 0..n {
            read.push(d.get::<T>()?);
        }
        Ok(PyList::new(self.py, read)?.into_any())
    }

    fn named(&self, index: usize, d: &mut Decoder<'_>, level: usize) -> Result<Bound<'py, PyAny>> {
        let py = self.py;
        if level == MAX_LEVELS {
            return Err(d.error(ErrorKind::Depth).into());
        }
        match self.types.def(index) {
            Some(Def::Struct { class, members }) => self.structure(class, members, d, level),
            Some(Def::Enum { members, .. }) => {
                let member = members.get(d.get::<u32>()? as usize);
                Ok(member.ok_or_else(|| d.error(ErrorKind::Value))?.bind(py).clone())
            }
            Some(Def::Union { class, discriminator, cases, labels, default }) => {
                let selected = self.read(discriminator, d, level + 1)?;
                let case = labels.get(&label_of(&selected)?).copied().or(*default);
                let member = match case.and_then(|case| cases.get(case)) {
                    Some(case) => self.read(&case.ty, d, level + 1)?,
                    None => py.None().into_bound(py),
                };
                Ok(class.bind(py).call1((selected, member))?)
            }
            Some(Def::Interface { class }) => match isorb::Object::decode_handle(d)? {
                Some(object) => Ok(object::typed(py, Some(self.types), object, Some(class))?),
                None => Ok(py.None().into_bound(py)),
            },
            None => Err(d.error(ErrorKind::NotRemotable).into()),
        }
    }

    /// Reads the members of a structure or exception.
    pub fn structure(
        &self,
        class: &Py<PyType>,
        members: &[Member],
        d: &mut Decoder<'_>,
        level: usize,
    ) -> Result<Bound<'py, PyAny>> {
        let mut values = Vec::with_capacity(members.len());
        for member in members {
            values.push(self.read(&member.ty, d, level + 1)?);
        }
        Ok(class.bind(self.py).call1(PyTuple::new(self.py, values)?)?)
    }
}

/// A decimal from packed digits, as text.
fn decimal(octets: &[u8], scale: i16) -> Option<String> {
    let mut nibbles: Vec<u8> = octets.iter().flat_map(|octet| [octet >> 4, octet & 0xf]).collect();
    let negative = match nibbles.pop()? {
        0xc => false,
        0xd => true,
        _ => return None,
    };
    if nibbles.iter().any(|nibble| *nibble > 9) {
        return None;
    }
    let mut text: String = nibbles.iter().map(|nibble| char::from(b'0' + nibble)).collect();
    let scale = usize::try_from(scale).ok()?;
    while text.len() <= scale {
        text.insert(0, '0');
    }
    if scale > 0 {
        text.insert(text.len() - scale, '.');
    }
    let trimmed = text.trim_start_matches('0');
    let text = if trimmed.is_empty() || trimmed.starts_with('.') {
        format!("0{trimmed}")
    } else {
        trimmed.to_owned()
    };
    Some(if negative { format!("-{text}") } else { text })
}
