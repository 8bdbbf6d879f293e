//! The ORB.

use crate::call::PyOperation;
use crate::error;
use crate::object::{Object, duration, typed};
use crate::servant;
use crate::types::handle_of;
use isorb::rt::ClientLaneOptions;
use isorb::{Config, Kind, SystemException};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple, PyType};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The ORBs of the process that run, which are shut down before the interpreter ends: their
/// threads may wait for it.
static RUNNING: Mutex<Vec<(u64, isorb::Orb)>> = Mutex::new(Vec::new());

fn running<R>(with: impl FnOnce(&mut Vec<(u64, isorb::Orb)>) -> R) -> R {
    with(&mut RUNNING.lock().unwrap_or_else(PoisonError::into_inner))
}

/// An ORB of the process, for references in values that came without one.
pub fn first() -> Option<isorb::Orb> {
    running(|orbs| orbs.first().map(|(_, orb)| orb.clone()))
}

/// Shuts all ORBs down; called before the interpreter ends.
#[pyfunction]
pub fn shutdown_all(py: Python<'_>) {
    let orbs = running(std::mem::take);
    py.detach(|| {
        for (_, orb) in orbs {
            // A servant that does not return must not keep the process.
            _ = orb.shutdown(false);
        }
    });
}

/// The lane that wakes event loops; one for each ORB.
pub fn start_client_lane(orb: &isorb::Orb) -> isorb::Result<()> {
    match orb.rt().start_client_lane(&ClientLaneOptions::default()) {
        // There is one.
        Err(exception) if exception.kind == Kind::BadInvOrder => Ok(()),
        other => other,
    }
}

/// An ORB: makes references from URLs, and serves objects.
#[pyclass(frozen, name = "Orb", module = "isorb")]
pub struct PyOrb {
    pub orb: isorb::Orb,
    number: u64,
    ended: Mutex<bool>,
    changed: Condvar,
}

#[pymethods]
impl PyOrb {
    #[new]
    #[pyo3(signature = (arguments=None, **options))]
    fn new(
        py: Python<'_>,
        arguments: Option<Vec<String>>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<PyOrb> {
        static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        let config = match options.filter(|options| !options.is_empty()) {
            Some(options) => {
                let config = toml::Value::Table(table(options)?).try_into::<Config>();
                let wrong = |error: toml::de::Error| {
                    PyValueError::new_err(format!("Orb: {}", error.to_string().trim()))
                };
                Some(config.map_err(wrong)?)
            }
            None => None,
        };
        let arguments = arguments.unwrap_or_default();
        let made = py.detach(|| {
            let builder = isorb::Orb::builder().arguments(arguments);
            match config {
                Some(config) => builder.config(config).build(),
                None => builder.build(),
            }
        });
        let orb = made.map_err(|exception| match exception.kind {
            Kind::BadParam => PyValueError::new_err(format!("Orb: {exception}")),
            _ => error::system(py, &exception),
        })?;
        let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        running(|orbs| orbs.push((number, orb.clone())));
        Ok(PyOrb { orb, number, ended: Mutex::new(false), changed: Condvar::new() })
    }

    /// The object of a URL (`corbaloc:`, `corbaname:`, `IOR:`, `file:`) or of an initial reference,
    /// as the interface `cls` if one is given.
    #[pyo3(signature = (url, cls=None))]
    fn object<'py>(
        &self,
        py: Python<'py>,
        url: &str,
        cls: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let object = py
            .detach(|| self.orb.string_to_object(url))
            .map_err(|exception| error::system(py, &exception))?;
        let plain = typed(py, None, object, None)?;
        match cls {
            Some(cls) => plain.call_method1("narrow", (cls,)),
            None => Ok(plain),
        }
    }

    /// The same as `object`, by the name that people know from naming.
    #[pyo3(signature = (name, cls=None))]
    fn resolve<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        cls: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.object(py, name, cls)
    }

    /// Serves `instance` as an object of the interface `cls`; clients also find it under
    /// `corbaloc::host:port/key` if a key is given. Returns the reference.
    #[pyo3(signature = (cls, instance, key=None))]
    fn serve<'py>(
        &self,
        py: Python<'py>,
        cls: &Bound<'py, PyAny>,
        instance: &Bound<'py, PyAny>,
        key: Option<&str>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let no_interface = || {
            PyTypeError::new_err(format!(
                "serve: expected the class of an interface, not {}",
                error::shown(cls)
            ))
        };
        let class = cls.cast::<PyType>().map_err(|_| no_interface())?;
        if !class.is_subclass_of::<Object>()? {
            return Err(no_interface());
        }
        let handle = handle_of(cls)?.ok_or_else(no_interface)?;
        let operations = cls.getattr("__isorb_operations__")?;
        let operations = operations.cast::<PyDict>().map_err(PyErr::from)?;
        let bases: Vec<String> = cls.getattr("__isorb_bases__")?.extract()?;
        let bases: Vec<&str> = bases.iter().map(String::as_str).collect();
        let operations: Vec<Py<PyOperation>> = operations
            .values()
            .iter()
            .map(|it| Ok(it.cast_into::<PyOperation>().map_err(PyErr::from)?.unbind()))
            .collect::<PyResult<_>>()?;
        for operation in &operations {
            let name = &operation.get().attribute;
            if operation.get().dynamic.is_ok() && !instance.hasattr(&**name)? {
                let label = &operation.get().label;
                let given = instance.get_type().name()?;
                return Err(PyTypeError::new_err(format!(
                    "serve: {given} has no {name}, which {label} needs"
                )));
            }
        }
        let servant = servant::make(instance.clone().unbind(), handle.get(), &bases, operations)
            .map_err(|why| PyTypeError::new_err(format!("serve: {why}")))?;
        let object = py
            .detach(|| -> Result<isorb::Object, SystemException> {
                let poa = self.orb.root_poa()?;
                let text = |error: String| SystemException::from(Kind::ObjAdapter).detail(error);
                poa.manager().activate().map_err(|error| text(error.to_string()))?;
                let made = poa.activate_object(servant).map_err(|error| text(error.to_string()))?;
                let object = poa.id_to_reference(&made).map_err(|error| text(error.to_string()))?;
                if let Some(key) = key {
                    self.orb.register_corbaloc_key(key, &object);
                }
                Ok(object)
            })
            .map_err(|exception| error::system(py, &exception))?;
        let class = class.clone().unbind();
        typed(py, Some(&handle.get().types), object, Some(&class))
    }

    /// Ends the service of an object that `serve` returned.
    fn withdraw(&self, py: Python<'_>, reference: &Bound<'_, Object>) -> PyResult<()> {
        let object = reference.get().object.clone();
        py.detach(|| {
            let poa = self.orb.root_poa()?;
            let text = |error: String| SystemException::from(Kind::ObjAdapter).detail(error);
            let id = poa.reference_to_id(&object).map_err(|error| text(error.to_string()))?;
            poa.deactivate_object(&id).map_err(|error| text(error.to_string()))
        })
        .map_err(|exception: SystemException| error::system(py, &exception))
    }

    /// Makes an object the initial reference `name` of this process.
    fn register_initial_reference(&self, name: &str, reference: &Bound<'_, Object>) {
        self.orb.register_initial_reference(name, &reference.get().object);
    }

    /// Host and port of each TCP endpoint that is open.
    #[getter]
    fn endpoints(&self) -> Vec<(String, u16)> {
        self.orb.endpoint_addresses()
    }

    /// Waits until another thread calls `shutdown`, a signal comes or `timeout` seconds have
    /// passed. Returns whether the ORB was shut down.
    #[pyo3(signature = (timeout=None))]
    fn run(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        let end = match timeout {
            Some(seconds) => Instant::now().checked_add(duration(seconds, "run")?),
            None => None,
        };
        loop {
            let now = Instant::now();
            let left = end.map_or(SIGNALS, |end| end.saturating_duration_since(now).min(SIGNALS));
            let ended = py.detach(|| {
                let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
                *self
                    .changed
                    .wait_timeout_while(ended, left, |ended| !*ended)
                    .unwrap_or_else(PoisonError::into_inner)
                    .0
            });
            py.check_signals()?;
            if ended || end.is_some_and(|end| end <= Instant::now()) {
                return Ok(ended);
            }
        }
    }

    /// Stops: objects are no longer served, connections are closed. With `wait`, requests that run
    /// are waited for.
    #[pyo3(signature = (wait=true))]
    fn shutdown(&self, py: Python<'_>, wait: bool) -> PyResult<()> {
        running(|orbs| orbs.retain(|(number, _)| *number != self.number));
        py.detach(|| self.orb.shutdown(wait)).map_err(|exception| error::system(py, &exception))?;
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
        Ok(())
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_error))]
    fn __exit__(&self, py: Python<'_>, _error: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.shutdown(py, true)
    }

    fn __repr__(&self) -> String {
        let endpoints: Vec<String> =
            self.orb.endpoint_addresses().iter().map(|(host, port)| format!("{host}:{port}")).collect();
        format!(
            "<Orb {}>",
            if endpoints.is_empty() { "without endpoints".into() } else { endpoints.join(", ") }
        )
    }
}

/// How often waiting looks for signals of Python.
pub const SIGNALS: Duration = Duration::from_millis(100);

/// Options as the table that `isorb.toml` would have.
fn table(options: &Bound<'_, PyDict>) -> PyResult<toml::Table> {
    let mut table = toml::Table::new();
    for (name, value) in options.iter() {
        let name: String = name.extract()?;
        let value = setting(&name, &value)?;
        table.insert(name, value);
    }
    Ok(table)
}

fn setting(name: &str, value: &Bound<'_, PyAny>) -> PyResult<toml::Value> {
    if value.is_instance_of::<PyBool>() {
        return Ok(toml::Value::Boolean(value.extract()?));
    }
    if value.is_instance_of::<PyInt>() {
        return Ok(toml::Value::Integer(value.extract()?));
    }
    if value.is_instance_of::<PyFloat>() {
        return Ok(toml::Value::Float(value.extract()?));
    }
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(toml::Value::String(text.to_string()));
    }
    if let Ok(inner) = value.cast::<PyDict>() {
        return Ok(toml::Value::Table(table(inner)?));
    }
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        let items = value.try_iter()?.map(|item| setting(name, &item?));
        return Ok(toml::Value::Array(items.collect::<PyResult<_>>()?));
    }
    Err(PyTypeError::new_err(format!(
        "Orb: {name}: expected a bool, an int, a str, a list or a dict, not {}",
        error::shown(value)
    )))
}
