//! From an IDL file to the classes of Python.

mod operations;

use crate::type_codes;
use crate::types::{Def, Member, Ty, TypeHandle, Types};
use isorb_idl::model::{ConstValue, DefId, DefKind, Spec, Type};
use isorb_idl::{FsLoader, Loader, MemoryLoader, Options, compile_with, standard};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyFileNotFoundError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString, PyTuple, PyType};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Words of Python that cannot be names (the OMG's mapping puts an underscore in front).
const KEYWORDS: &[&str] = &[
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue", "def",
    "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import", "in", "is",
    "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try", "while", "with", "yield",
];

/// The name in Python of a name in IDL.
pub fn python_name(name: &str) -> String {
    if KEYWORDS.contains(&name) { format!("_{name}") } else { name.to_owned() }
}

/// Compiles an IDL file and gives its modules and classes.
#[pyfunction]
#[pyo3(signature = (file, include=Vec::new(), defines=HashMap::new()))]
pub fn load(
    py: Python<'_>,
    file: PathBuf,
    include: Vec<PathBuf>,
    defines: HashMap<String, String>,
) -> PyResult<Py<PyAny>> {
    let defines = defines.into_iter().collect();
    let options =
        Options { include_dirs: include, defines, embedded: Some(standard::file), ..Options::default() };
    let name = file.to_string_lossy().into_owned();
    let types = match (file.exists(), standard::file(&name)) {
        (false, Some(text)) => compiled(&options, &MemoryLoader::new().with(&*name, text), &file)?,
        (false, None) => {
            return Err(PyFileNotFoundError::new_err(format!("idl: there is no file {name}")));
        }
        _ => compiled(&options, &FsLoader, &file)?,
    };
    let stem = file.file_stem().map_or("idl".into(), |stem| stem.to_string_lossy().into_owned());
    classes(py, &Arc::new(types), &stem)
}

/// Compiles the text of an IDL file.
#[pyfunction]
#[pyo3(signature = (text, name="text.idl"))]
pub fn load_text(py: Python<'_>, text: &str, name: &str) -> PyResult<Py<PyAny>> {
    let options = Options { embedded: Some(standard::file), ..Options::default() };
    let types = compiled(&options, &MemoryLoader::new().with(name, text), Path::new(name))?;
    classes(py, &Arc::new(types), name.trim_end_matches(".idl"))
}

/// The types of a text, without classes.
pub fn compiled_text(text: &str) -> PyResult<Types> {
    compiled(&Options::default(), &MemoryLoader::new().with("none.idl", text), Path::new("none.idl"))
}

fn compiled(options: &Options, loader: &dyn Loader, file: &Path) -> PyResult<Types> {
    let mut outcome = compile_with(options, loader, file);
    match outcome.spec.take() {
        Some(spec) => Ok(Types::new(spec)),
        None => Err(Python::attach(|py| {
            let text = outcome.render(false);
            let made =
                py.import("isorb._errors").and_then(|module| module.getattr("IdlError")?.call1((text,)));
            made.map_or_else(|error| error, PyErr::from_value)
        })),
    }
}

/// Makes the classes of all definitions.
fn classes(py: Python<'_>, types: &Arc<Types>, stem: &str) -> PyResult<Py<PyAny>> {
    let make = py.import("isorb._classes")?;
    let root = make.getattr("module")?.call1((stem, ""))?;
    let mut maker = Maker { py, types, make: make.into_any(), made: HashMap::new(), root: root.clone() };
    let all: Vec<DefId> = types.spec.definitions().map(|(id, _)| id).collect();
    for id in &all {
        maker.definition(*id)?;
    }
    // References to an interface may stand before it.
    for id in &all {
        if matches!(types.spec[*id].kind, DefKind::Interface(_)) {
            maker.operations(*id)?;
        }
    }
    Ok(root.unbind())
}

struct Maker<'t, 'py> {
    py: Python<'py>,
    types: &'t Arc<Types>,
    /// `isorb._classes`
    make: Bound<'py, PyAny>,
    /// Modules and classes.
    made: HashMap<usize, Bound<'py, PyAny>>,
    root: Bound<'py, PyAny>,
}

impl<'py> Maker<'_, 'py> {
    fn spec(&self) -> &Spec {
        &self.types.spec
    }

    /// What the attributes of a definition are set on.
    fn scope(&mut self, parent: Option<DefId>) -> PyResult<Bound<'py, PyAny>> {
        match parent {
            None => Ok(self.root.clone()),
            Some(parent) => {
                self.definition(parent)?;
                // Valuetypes have no class; the names in them are not shown.
                Ok(self.made.get(&parent.index()).cloned().unwrap_or_else(|| self.root.clone()))
            }
        }
    }

    fn definition(&mut self, id: DefId) -> PyResult<()> {
        if self.made.contains_key(&id.index()) {
            return Ok(());
        }
        let types = self.types.clone();
        let it = &types.spec[id];
        let scope = self.scope(it.parent)?;
        let name = python_name(&it.name);
        let full = types.spec.scoped_name(id);
        let doc = it.doc.as_deref().unwrap_or("");
        let (py, of) = (self.py, types.clone());
        let handle = move || Bound::new(py, TypeHandle::new(of.clone(), id.index()));
        let made = match &it.kind {
            DefKind::Module => self.make.call_method1("module", (&name, full))?,
            DefKind::Struct(it) => {
                let names = self.names(it.members.iter().map(|member| &member.name))?;
                let class = self.make.call_method1("struct", (&name, full, names, doc, handle()?))?;
                self.structure(id, &class, &it.members)?;
                class
            }
            DefKind::Exception(it) => {
                let names = self.names(it.members.iter().map(|member| &member.name))?;
                let class = self.make.call_method1("exception", (&name, full, names, doc, handle()?))?;
                self.structure(id, &class, &it.members)?;
                class
            }
            DefKind::Enum(it) => {
                let names = it.enumerators.iter().map(|id| &types.spec[*id].name);
                let names = self.names(names)?;
                let class = self.make.call_method1("enum", (&name, full, &names, doc, handle()?))?;
                let mut members = Vec::new();
                for (at, name) in names.iter().enumerate() {
                    let member = class.call1((at,))?;
                    scope.setattr(name.cast::<PyString>().map_err(PyErr::from)?, &member)?;
                    members.push(member.unbind());
                }
                types.set(id.index(), Def::Enum { class: self.class(&class)?, members });
                class
            }
            DefKind::Union(it) => {
                let discriminator = self.ty(&it.discriminator);
                let cases = self.members(it.cases.iter().map(|case| &case.member))?;
                let mut labels = HashMap::new();
                let (mut default, mut described) = (None, Vec::new());
                for (at, case) in it.cases.iter().enumerate() {
                    labels
                        .extend(case.labels.iter().map(|label| (type_codes::label(&types.spec, label), at)));
                    if case.is_default {
                        default = Some(at);
                    }
                    let mut values = Vec::new();
                    for label in &case.labels {
                        values.push(self.constant(label)?);
                    }
                    if let (true, Some(free)) = (case.is_default && values.is_empty(), &it.default_label) {
                        values.push(self.constant(free)?);
                    }
                    described.push((python_name(&case.member.name), values, case.is_default));
                }
                let described = PyList::new(self.py, described)?;
                let class = self.make.call_method1("union", (&name, full, described, doc, handle()?))?;
                let def = Def::Union { class: self.class(&class)?, discriminator, cases, labels, default };
                types.set(id.index(), def);
                class
            }
            DefKind::Interface(it) => {
                let mut bases = Vec::new();
                for base in &it.bases {
                    self.definition(*base)?;
                    bases.extend(self.made.get(&base.index()).cloned());
                }
                let bases = PyTuple::new(self.py, bases)?;
                let class = self.make.call_method1("interface", (&name, full, bases, doc, handle()?))?;
                types.set(id.index(), Def::Interface { class: self.class(&class)? });
                class
            }
            DefKind::Const(it) => self.constant(&it.value)?,
            DefKind::Typedef(it) => match types.spec.resolve(&it.ty) {
                Type::Named(target) => {
                    self.definition(*target)?;
                    match self.made.get(&target.index()) {
                        Some(class) => class.clone(),
                        None => return Ok(()),
                    }
                }
                _ => return Ok(()),
            },
            _ => return Ok(()),
        };
        scope.setattr(&*name, &made)?;
        self.made.insert(id.index(), made);
        Ok(())
    }

    fn class(&self, class: &Bound<'py, PyAny>) -> PyResult<Py<PyType>> {
        Ok(class.cast::<PyType>().map_err(PyErr::from)?.clone().unbind())
    }

    fn names<'n>(&self, names: impl Iterator<Item = &'n String>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(self.py, names.map(|name| python_name(name)).collect::<Vec<_>>())
    }

    fn structure(
        &self,
        id: DefId,
        class: &Bound<'py, PyAny>,
        members: &[isorb_idl::model::Member],
    ) -> PyResult<()> {
        let members = self.members(members.iter())?;
        self.types.set(id.index(), Def::Struct { class: self.class(class)?, members });
        Ok(())
    }

    fn members<'m>(
        &self,
        members: impl Iterator<Item = &'m isorb_idl::model::Member>,
    ) -> PyResult<Vec<Member>> {
        let one = |member: &isorb_idl::model::Member| Member {
            name: PyString::intern(self.py, &python_name(&member.name)).unbind(),
            text: member.name.clone(),
            ty: self.ty(&member.ty),
        };
        Ok(members.map(one).collect())
    }

    /// The type, with aliases resolved.
    fn ty(&self, ty: &Type) -> Ty {
        let spec = self.spec();
        let unsupported = || Ty::Unsupported(spec.type_name(ty).into());
        match spec.resolve(ty) {
            Type::Boolean => Ty::Boolean,
            Type::Char => Ty::Char,
            Type::WChar => Ty::WChar,
            Type::Octet | Type::Int8 => Ty::Octet,
            Type::Short => Ty::Short,
            Type::UShort => Ty::UShort,
            Type::Long => Ty::Long,
            Type::ULong => Ty::ULong,
            Type::LongLong => Ty::LongLong,
            Type::ULongLong => Ty::ULongLong,
            Type::Float => Ty::Float,
            Type::Double => Ty::Double,
            Type::LongDouble => Ty::LongDouble,
            Type::String { bound } => Ty::String(bound.unwrap_or(0)),
            Type::WString { bound } => Ty::WString(bound.unwrap_or(0)),
            Type::Sequence { element, bound } => Ty::Sequence(Arc::new(self.ty(element)), bound.unwrap_or(0)),
            Type::Array { element, dims } => {
                let element = self.ty(element);
                dims.iter().rev().fold(element, |element, length| Ty::Array(Arc::new(element), *length))
            }
            Type::Fixed { digits, scale } => Ty::Fixed(*digits, *scale as i16),
            Type::Any => Ty::Any,
            Type::TypeCode => Ty::TypeCode,
            Type::Object => Ty::Object,
            Type::Named(id) => match &spec[*id].kind {
                DefKind::Struct(_) | DefKind::Union(_) | DefKind::Enum(_) | DefKind::Exception(_) => {
                    Ty::Named(id.index())
                }
                DefKind::Interface(it) if !it.local && !it.abstract_ => Ty::Named(id.index()),
                _ => unsupported(),
            },
            _ => unsupported(),
        }
    }

    fn constant(&mut self, value: &ConstValue) -> PyResult<Bound<'py, PyAny>> {
        let py = self.py;
        match value {
            ConstValue::Integer(number) => number.into_bound_py_any(py),
            ConstValue::Boolean(truth) => truth.into_bound_py_any(py),
            ConstValue::Char(c) | ConstValue::WChar(c) => c.into_bound_py_any(py),
            ConstValue::String(text) | ConstValue::WString(text) => text.into_bound_py_any(py),
            ConstValue::Float(number) => number.into_bound_py_any(py),
            ConstValue::Fixed(_) => {
                let text = self.spec().value_name(value);
                py.import("decimal")?.getattr("Decimal")?.call1((text.trim_end_matches('d'),))
            }
            ConstValue::Enumerator(id) => {
                let types = self.types.clone();
                let DefKind::Enumerator(it) = &types.spec[*id].kind else {
                    return Ok(py.None().into_bound(py));
                };
                self.definition(it.enum_)?;
                match self.made.get(&it.enum_.index()) {
                    Some(class) => class.call1((it.ordinal,)),
                    None => Ok(py.None().into_bound(py)),
                }
            }
        }
    }
}
