//! Values of the type `any`, and type codes.

use crate::decode::{Reader, Unread};
use crate::encode::{Writer, Wrong};
use crate::error;
use crate::types::{Ty, Types, handle_of};
use isorb::{Any, TypeCode};
use isorb_any::copy_value;
use isorb_cdr::{Decoder, Encoder, Order, Text};
use isorb_scope::Region;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyFloat, PyInt, PyString};
use std::sync::Arc;

/// A type: its code, its form here, and the file that it is of, if it is of one.
type Typed = (TypeCode, Ty, Option<Arc<Types>>);

/// A type code.
#[pyclass(frozen, name = "TypeCode", module = "isorb")]
pub struct PyTypeCode {
    pub code: TypeCode,
}

#[pymethods]
impl PyTypeCode {
    /// The repository id; an empty text for a type without one.
    #[getter]
    fn repository_id(&self) -> String {
        self.code.id().unwrap_or_default().to_owned()
    }

    fn __str__(&self) -> String {
        self.code.to_string()
    }

    fn __repr__(&self) -> String {
        format!("<TypeCode {}>", self.code)
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<PyTypeCode>().is_ok_and(|other| other.get().code.equivalent(&self.code))
    }

    fn __hash__(&self) -> u64 {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let mut hasher = DefaultHasher::new();
        self.code.original().kind().hash(&mut hasher);
        hasher.finish()
    }
}

/// A value that carries its type.
#[pyclass(frozen, name = "Any", module = "isorb")]
pub struct PyAnyValue {
    pub any: Any,
    types: Option<Arc<Types>>,
}

/// A value with its type in IDL, from its class or from the name of a basic type.
pub fn typed(value: &Bound<'_, PyAny>, ty: Option<&Bound<'_, PyAny>>) -> PyResult<(Any, Option<Arc<Types>>)> {
    if let Ok(any) = value.cast::<PyAnyValue>() {
        return Ok((any.get().any.clone(), any.get().types.clone()));
    }
    let (tc, ty, types) = match ty {
        Some(ty) => match ty.cast::<PyString>() {
            Ok(name) => basic(&name.to_cow()?)?,
            Err(_) => of_class(ty)?.ok_or_else(|| {
                PyTypeError::new_err(format!(
                    "Any: a type is a class of an IDL file or the name of a basic type such as 'short', not {}",
                    error::shown(ty)
                ))
            })?,
        },
        None => inferred(value)?,
    };
    let empty;
    let writer = Writer {
        types: match &types {
            Some(types) => types,
            None => {
                empty = no_types()?;
                &empty
            }
        },
    };
    let any = encoded(&writer, &tc, &ty, value).map_err(|wrong| wrong.into_error(&format!("Any of {tc}")))?;
    Ok((any, types))
}

fn no_types() -> PyResult<Arc<Types>> {
    crate::idl::compiled_text("").map(Arc::new)
}

/// A value as an `Any` of its type.
pub fn encoded(writer: &Writer<'_>, tc: &TypeCode, ty: &Ty, value: &Bound<'_, PyAny>) -> Result<Any, Wrong> {
    let mut e = Encoder::new(Vec::new(), Text::DEFAULT);
    writer.write(ty, value, &mut e, 0)?;
    let octets = e.flatten().map_err(|error| PyValueError::new_err(format!("{tc}: {error}")))?;
    let any = Any::from_cdr(tc.clone(), &octets, Order::NATIVE, Text::DEFAULT);
    Ok(any.map_err(|error| PyValueError::new_err(format!("{tc}: {error}")))?)
}

fn basic(name: &str) -> PyResult<Typed> {
    let (tc, ty) = match name {
        "boolean" => (TypeCode::BOOLEAN, Ty::Boolean),
        "char" => (TypeCode::CHAR, Ty::Char),
        "wchar" => (TypeCode::WCHAR, Ty::WChar),
        "octet" => (TypeCode::OCTET, Ty::Octet),
        "short" => (TypeCode::SHORT, Ty::Short),
        "unsigned short" => (TypeCode::USHORT, Ty::UShort),
        "long" => (TypeCode::LONG, Ty::Long),
        "unsigned long" => (TypeCode::ULONG, Ty::ULong),
        "long long" => (TypeCode::LONGLONG, Ty::LongLong),
        "unsigned long long" => (TypeCode::ULONGLONG, Ty::ULongLong),
        "float" => (TypeCode::FLOAT, Ty::Float),
        "double" => (TypeCode::DOUBLE, Ty::Double),
        "string" => (TypeCode::string(0), Ty::String(0)),
        "wstring" => (TypeCode::wstring(0), Ty::WString(0)),
        "Object" => (TypeCode::object(), Ty::Object),
        _ => {
            return Err(PyValueError::new_err(format!(
                "Any: '{name}' is no basic type; use 'boolean', 'long', 'double', 'string' and so on, or a class \
                 of an IDL file"
            )));
        }
    };
    Ok((tc, ty, None))
}

fn of_class(class: &Bound<'_, PyAny>) -> PyResult<Option<Typed>> {
    let Some(handle) = handle_of(class)? else { return Ok(None) };
    let handle = handle.get();
    let tc = handle.types.type_code(handle.index).map_err(PyTypeError::new_err)?;
    Ok(Some((tc, Ty::Named(handle.index), Some(handle.types.clone()))))
}

fn inferred(value: &Bound<'_, PyAny>) -> PyResult<Typed> {
    if let Some(found) = of_class(value.get_type().as_any())? {
        return Ok(found);
    }
    if value.is_instance_of::<PyBool>() {
        return basic("boolean");
    }
    if value.is_instance_of::<PyInt>() {
        return basic(if value.extract::<i32>().is_ok() { "long" } else { "long long" });
    }
    if value.is_instance_of::<PyFloat>() {
        return basic("double");
    }
    if value.is_instance_of::<PyString>() {
        return basic("string");
    }
    if value.is_instance_of::<PyBytes>() {
        let tc = TypeCode::sequence(&TypeCode::OCTET, 0).unwrap_or(TypeCode::NULL);
        return Ok((tc, Ty::Sequence(Arc::new(Ty::Octet), 0), None));
    }
    if value.is_instance_of::<crate::object::Object>() {
        return basic("Object");
    }
    Err(PyTypeError::new_err(format!(
        "any: the type of {} is not known; wrap it as isorb.Any(value, type)",
        error::shown(value)
    )))
}

/// The octets of a value as an encapsulation: the byte order, then the value.
pub fn encoded_value(types: &Types, ty: &Ty, value: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    let mut e = Encoder::new(Vec::new(), Text::DEFAULT);
    e.put(u8::from(cfg!(target_endian = "little")));
    let name = types.spell(ty);
    Writer { types }.write(ty, value, &mut e, 0).map_err(|wrong| wrong.into_error(&name))?;
    e.flatten().map_err(|error| PyValueError::new_err(format!("{name}: {error}")))
}

/// Calls `read` with a decoder on octets in this machine's form.
pub fn with_decoder<R>(
    octets: &[u8],
    orb: Option<&isorb::Orb>,
    read: impl FnOnce(&mut Decoder<'_>) -> R,
) -> R {
    with_order(octets, Order::NATIVE, orb, read)
}

/// Calls `read` with a decoder on octets of a byte order.
pub fn with_order<R>(
    octets: &[u8],
    order: Order,
    orb: Option<&isorb::Orb>,
    read: impl FnOnce(&mut Decoder<'_>) -> R,
) -> R {
    let mut region = Region::new(2 * octets.len() + 512);
    let scope = region.enter();
    let copy = scope.aligned_copy(octets).unwrap_or(&mut []);
    let mut d = Decoder::new(copy, order, Text::DEFAULT, &scope);
    if let Some(orb) = orb {
        d = d.with_context(orb);
    }
    read(&mut d)
}

impl PyAnyValue {
    pub fn new(any: Any, types: Arc<Types>) -> PyAnyValue {
        PyAnyValue { any, types: Some(types) }
    }

    /// Writes a parameter of the type `any`.
    pub fn write(
        types: &Types,
        value: &Bound<'_, PyAny>,
        e: &mut Encoder<'_>,
        level: usize,
    ) -> Result<(), Wrong> {
        if value.is_none() {
            TypeCode::NULL.write(e);
            return Ok(());
        }
        if let Ok(any) = value.cast::<PyAnyValue>() {
            let any = &any.get().any;
            any.type_code().write(e);
            let copied = with_decoder(any.value(), None, |d| copy_value(any.type_code(), d, e));
            return copied.map_err(|error| PyValueError::new_err(format!("any: {error}")).into());
        }
        let (tc, ty, own) = inferred(value)?;
        tc.write(e);
        Writer { types: own.as_deref().unwrap_or(types) }.write(&ty, value, e, level + 1)
    }
}

#[pymethods]
impl PyAnyValue {
    #[new]
    #[pyo3(signature = (value, r#type=None))]
    fn make(value: &Bound<'_, PyAny>, r#type: Option<&Bound<'_, PyAny>>) -> PyResult<PyAnyValue> {
        let (any, types) = typed(value, r#type)?;
        Ok(PyAnyValue { any, types })
    }

    /// The type.
    #[getter]
    fn r#type(&self) -> PyTypeCode {
        PyTypeCode { code: self.any.type_code().clone() }
    }

    /// The value: of the class of its type, if the IDL file has that type; else as from JSON.
    #[getter]
    fn value<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        if self.any.is_null() {
            return Ok(py.None().into_bound(py));
        }
        let types = match &self.types {
            Some(types) => types.clone(),
            None => no_types()?,
        };
        let ty = types.of_type_code(self.any.type_code());
        let read = with_decoder(self.any.value(), crate::orb::first().as_ref(), |d| {
            Reader { py, types: &types }.read(&ty, d, 0)
        });
        match read {
            Ok(value) => Ok(value),
            Err(Unread::Python(error)) => Err(error),
            Err(Unread::Octets(_)) => {
                let text = self.any.to_json(MAX_JSON).map_err(|error| error::other(py, error))?;
                py.import("json")?.getattr("loads")?.call1((text,))
            }
        }
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<PyAnyValue>().is_ok_and(|other| other.get().any == self.any)
    }

    fn __repr__(&self) -> String {
        format!("<Any {}: {}>", self.any.type_code(), self.any)
    }
}

/// The longest JSON of a value, in octets.
const MAX_JSON: usize = 64 << 20;
