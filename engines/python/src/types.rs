//! The types of an IDL file, with the Python class of each.

use crate::type_codes;
use isorb::{DynamicInterface, TypeCode};
use isorb_any::Kind;
use isorb_idl::model::{DefId, Spec};
use pyo3::prelude::*;
use pyo3::types::{PyString, PyType};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock};

/// A type, with aliases resolved.
#[derive(Clone, Debug)]
pub enum Ty {
    Boolean,
    Char,
    WChar,
    Octet,
    Short,
    UShort,
    Long,
    ULong,
    LongLong,
    ULongLong,
    Float,
    Double,
    LongDouble,
    String(u32),
    WString(u32),
    Sequence(Arc<Ty>, u32),
    Array(Arc<Ty>, u32),
    Fixed(u16, i16),
    Any,
    TypeCode,
    Object,
    /// A definition of [`Types`].
    Named(usize),
    /// No type that has values in Python; with its name.
    Unsupported(Arc<str>),
}

/// A member of a structure, exception or union.
pub struct Member {
    /// Its name in Python, interned.
    pub name: Py<PyString>,
    /// Its name in IDL.
    pub text: String,
    pub ty: Ty,
}

pub enum Def {
    Struct {
        class: Py<PyType>,
        members: Vec<Member>,
    },
    Union {
        class: Py<PyType>,
        discriminator: Ty,
        cases: Vec<Member>,
        labels: HashMap<i128, usize>,
        default: Option<usize>,
    },
    Enum {
        class: Py<PyType>,
        members: Vec<Py<PyAny>>,
    },
    Interface {
        class: Py<PyType>,
    },
}

/// All types of an IDL file.
pub struct Types {
    pub spec: Spec,
    defs: Vec<OnceLock<Def>>,
    by_id: HashMap<String, usize>,
    codes: Mutex<HashMap<usize, TypeCode>>,
}

impl Types {
    pub fn new(spec: Spec) -> Types {
        let by_id = spec.definitions().map(|(id, it)| (it.repository_id.clone(), id.index())).collect();
        let defs = (0..spec.definitions().len()).map(|_| OnceLock::new()).collect();
        Types { spec, defs, by_id, codes: Mutex::default() }
    }

    pub fn set(&self, index: usize, def: Def) {
        // Each definition is set once.
        _ = self.defs[index].set(def);
    }

    pub fn def(&self, index: usize) -> Option<&Def> {
        self.defs.get(index)?.get()
    }

    /// The class of an interface.
    pub fn interface(&self, repository_id: &str) -> Option<&Py<PyType>> {
        match self.def(*self.by_id.get(repository_id)?)? {
            Def::Interface { class } => Some(class),
            _ => None,
        }
    }

    pub fn id(&self, index: usize) -> Option<DefId> {
        self.spec.definitions().nth(index).map(|(id, _)| id)
    }

    /// The scoped name of a definition.
    pub fn name(&self, index: usize) -> String {
        self.id(index).map_or_else(String::new, |id| self.spec.scoped_name(id))
    }

    /// The type code of a definition.
    pub fn type_code(&self, index: usize) -> Result<TypeCode, String> {
        let mut codes = self.codes.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(known) = codes.get(&index) {
            return Ok(known.clone());
        }
        let id = self.id(index).ok_or("no such definition")?;
        let made = type_codes::of_definition(&self.spec, id)?;
        codes.insert(index, made.clone());
        Ok(made)
    }

    /// The type of a type code: with the classes of this file where it has them.
    pub fn of_type_code(&self, tc: &TypeCode) -> Ty {
        let tc = tc.original();
        let unsupported = || Ty::Unsupported(tc.to_string().into());
        let number = |tc: &TypeCode| tc.length().unwrap_or(0);
        match tc.kind() {
            Kind::Boolean => Ty::Boolean,
            Kind::Char => Ty::Char,
            Kind::WChar => Ty::WChar,
            Kind::Octet => Ty::Octet,
            Kind::Short => Ty::Short,
            Kind::UShort => Ty::UShort,
            Kind::Long => Ty::Long,
            Kind::ULong => Ty::ULong,
            Kind::LongLong => Ty::LongLong,
            Kind::ULongLong => Ty::ULongLong,
            Kind::Float => Ty::Float,
            Kind::Double => Ty::Double,
            Kind::LongDouble => Ty::LongDouble,
            Kind::String => Ty::String(number(&tc)),
            Kind::WString => Ty::WString(number(&tc)),
            Kind::Any => Ty::Any,
            Kind::TypeCode => Ty::TypeCode,
            Kind::Sequence | Kind::Array => match tc.content_type() {
                Ok(content) => {
                    let element = Arc::new(self.of_type_code(&content));
                    let sequence = tc.kind() == Kind::Sequence;
                    if sequence {
                        Ty::Sequence(element, number(&tc))
                    } else {
                        Ty::Array(element, number(&tc))
                    }
                }
                Err(_) => unsupported(),
            },
            Kind::Fixed => match (tc.fixed_digits(), tc.fixed_scale()) {
                (Ok(digits), Ok(scale)) => Ty::Fixed(digits, scale),
                _ => unsupported(),
            },
            Kind::ObjRef => Ty::Object,
            Kind::Struct | Kind::Union | Kind::Enum => {
                let index = tc.id().ok().and_then(|id| self.by_id.get(id).copied());
                // The peer's type of that name may differ from ours.
                let same = |index: &usize| {
                    self.def(*index).is_some() && self.type_code(*index).is_ok_and(|own| own.equivalent(&tc))
                };
                index.filter(same).map_or_else(unsupported, Ty::Named)
            }
            _ => unsupported(),
        }
    }

    /// The type as IDL spells it, for errors.
    pub fn spell(&self, ty: &Ty) -> String {
        match ty {
            Ty::Named(index) => self.name(*index),
            Ty::Sequence(element, 0) => format!("sequence<{}>", self.spell(element)),
            Ty::Sequence(element, bound) => format!("sequence<{}, {bound}>", self.spell(element)),
            Ty::Array(element, length) => format!("{}[{length}]", self.spell(element)),
            other => other.to_string(),
        }
    }
}

impl fmt::Display for Ty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Ty::Boolean => "boolean",
            Ty::Char => "char",
            Ty::WChar => "wchar",
            Ty::Octet => "octet",
            Ty::Short => "short",
            Ty::UShort => "unsigned short",
            Ty::Long => "long",
            Ty::ULong => "unsigned long",
            Ty::LongLong => "long long",
            Ty::ULongLong => "unsigned long long",
            Ty::Float => "float",
            Ty::Double => "double",
            Ty::LongDouble => "long double",
            Ty::String(0) => "string",
            Ty::WString(0) => "wstring",
            Ty::String(bound) => return write!(f, "string<{bound}>"),
            Ty::WString(bound) => return write!(f, "wstring<{bound}>"),
            Ty::Fixed(digits, scale) => return write!(f, "fixed<{digits}, {scale}>"),
            Ty::Any => "any",
            Ty::TypeCode => "CORBA::TypeCode",
            Ty::Object => "Object",
            Ty::Unsupported(name) => name,
            Ty::Sequence(..) => "sequence",
            Ty::Array(..) => "array",
            Ty::Named(_) => "type",
        })
    }
}

/// A type of an IDL file as a value of Python: the attribute `__isorb__` of a class.
#[pyclass(frozen, module = "isorb")]
pub struct TypeHandle {
    pub types: Arc<Types>,
    pub index: usize,
    /// What servants of an interface share. A process makes a limited number of them, so it is
    /// made once for a class and not once for a servant.
    served: OnceLock<Arc<DynamicInterface>>,
}

impl TypeHandle {
    pub fn new(types: Arc<Types>, index: usize) -> TypeHandle {
        TypeHandle { types, index, served: OnceLock::new() }
    }

    /// The interface of servants; `make` makes it the first time.
    pub fn served<E>(
        &self,
        make: impl FnOnce() -> Result<DynamicInterface, E>,
    ) -> Result<Arc<DynamicInterface>, E> {
        if let Some(made) = self.served.get() {
            return Ok(made.clone());
        }
        let made = Arc::new(make()?);
        Ok(self.served.get_or_init(|| made).clone())
    }
}

#[pymethods]
impl TypeHandle {
    /// The repository id.
    #[getter]
    fn repository_id(&self) -> String {
        let id = self.types.id(self.index);
        id.map_or_else(String::new, |id| self.types.spec[id].repository_id.clone())
    }

    fn __repr__(&self) -> String {
        format!("<IDL type {}>", self.types.name(self.index))
    }
}

/// The type behind a class of an IDL file.
pub fn handle_of<'py>(class: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, TypeHandle>>> {
    match class.getattr_opt(pyo3::intern!(class.py(), "__isorb__"))? {
        Some(handle) => Ok(handle.cast_into::<TypeHandle>().ok()),
        None => Ok(None),
    }
}

impl TypeHandle {
    /// The repository id.
    pub fn repository_id_text(&self) -> String {
        self.repository_id()
    }
}
