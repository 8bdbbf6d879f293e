//! References to objects.

use crate::error;
use crate::types::{Types, handle_of};
use isorb::{Policies, SyncScope};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyType;
use std::sync::Arc;
use std::time::Duration;

/// A reference to an object: the base of the classes of interfaces.
#[pyclass(frozen, subclass, module = "isorb")]
pub struct Object {
    pub object: isorb::Object,
}

/// A reference as an instance of the class of its interface: the class that the file has for the
/// reference's own type, else the one that is expected.
pub fn typed<'py>(
    py: Python<'py>,
    types: Option<&Arc<Types>>,
    object: isorb::Object,
    expected: Option<&Py<PyType>>,
) -> PyResult<Bound<'py, PyAny>> {
    let own = types.and_then(|types| types.interface(object.type_id()));
    let class = match (own, expected) {
        (Some(own), Some(expected)) if own.bind(py).is_subclass(expected.bind(py))? => Some(own),
        (own, None) => own,
        (_, expected) => expected,
    };
    let plain = Bound::new(py, Object { object })?;
    match class {
        Some(class) => class.bind(py).call1((plain,)),
        None => Ok(plain.into_any()),
    }
}

/// A time in seconds from Python.
pub fn duration(seconds: f64, what: &str) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| PyValueError::new_err(format!("{what}: expected seconds, 0 or more, not {seconds}")))
}

#[pymethods]
impl Object {
    #[new]
    fn new(reference: &Bound<'_, Object>) -> Object {
        Object { object: reference.get().object.clone() }
    }

    /// The reference as the interface `cls`. Asks the object (`_is_a`) unless the reference says
    /// it, or `check` is False.
    #[pyo3(signature = (cls, check=true))]
    fn narrow<'py>(
        slf: &Bound<'py, Self>,
        cls: &Bound<'py, PyAny>,
        check: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let not_a_class = || {
            PyTypeError::new_err(format!(
                "narrow: expected the class of an interface, not {}",
                error::shown(cls)
            ))
        };
        let class = cls.cast::<PyType>().map_err(|_| not_a_class())?;
        if !class.is_subclass_of::<Object>()? {
            return Err(not_a_class());
        }
        let Some(handle) = handle_of(cls)? else { return class.call1((slf,)) };
        let id = {
            let handle = handle.get();
            handle
                .types
                .id(handle.index)
                .map(|id| handle.types.spec[id].repository_id.clone())
                .unwrap_or_default()
        };
        let object = &slf.get().object;
        if check && !py.detach(|| object.is_a(&id)).map_err(|exception| error::system(py, &exception))? {
            let name = class.name()?;
            let given = object.type_id();
            return Err(PyTypeError::new_err(format!(
                "narrow: the object is no {name} ({id}); it is {given}"
            )));
        }
        class.call1((slf,))
    }

    /// Whether the object is of the interface with this repository id (`_is_a`).
    fn is_a(&self, py: Python<'_>, repository_id: &str) -> PyResult<bool> {
        py.detach(|| self.object.is_a(repository_id)).map_err(|exception| error::system(py, &exception))
    }

    /// Whether the object is known not to exist (`_non_existent`).
    fn non_existent(&self, py: Python<'_>) -> PyResult<bool> {
        py.detach(|| self.object.non_existent()).map_err(|exception| error::system(py, &exception))
    }

    /// The same object with a time-out of calls, in seconds; 0 for none.
    fn with_timeout<'py>(slf: &Bound<'py, Self>, seconds: f64) -> PyResult<Bound<'py, PyAny>> {
        let timeout = duration(seconds, "with_timeout")?;
        let policies = Policies { round_trip_timeout: Some(timeout), ..Policies::default() };
        Object::again(slf, policies)
    }

    /// The same object with a sync scope of oneways: 'none', 'transport', 'server' or 'target'.
    fn with_sync_scope<'py>(slf: &Bound<'py, Self>, scope: &str) -> PyResult<Bound<'py, PyAny>> {
        let scope = match scope {
            "none" => SyncScope::None,
            "transport" => SyncScope::WithTransport,
            "server" => SyncScope::WithServer,
            "target" => SyncScope::WithTarget,
            _ => {
                return Err(PyValueError::new_err(format!(
                    "with_sync_scope: expected 'none', 'transport', 'server' or 'target', not '{scope}'"
                )));
            }
        };
        Object::again(slf, Policies { sync_scope: Some(scope), ..Policies::default() })
    }

    /// The repository id in the reference; empty when unknown.
    #[getter]
    fn repository_id(&self) -> &str {
        self.object.type_id()
    }

    /// The address in the reference, for people.
    #[getter]
    fn address(&self) -> Option<String> {
        self.object.address()
    }

    /// The stringified reference, `IOR:…`.
    #[getter]
    fn ior(&self) -> String {
        self.object.ior().to_string()
    }

    fn __str__(&self) -> String {
        self.ior()
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        let object = &slf.get().object;
        let address = object.address().unwrap_or_default();
        Ok(format!("<{} {} at {address}>", slf.get_type().name()?, object.type_id()))
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Object>().is_ok_and(|other| other.get().object == self.object)
    }

    fn __hash__(&self) -> u64 {
        self.object.hash_below(u32::MAX).into()
    }
}

impl Object {
    fn again<'py>(slf: &Bound<'py, Self>, policies: Policies) -> PyResult<Bound<'py, PyAny>> {
        let object = slf.get().object.with_policies(policies);
        slf.get_type().call1((Bound::new(slf.py(), Object { object })?,))
    }
}
