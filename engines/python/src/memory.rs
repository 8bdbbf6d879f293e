//! Reflective memory: areas, their writers and readers, and leases of values in place.

use crate::error;
use crate::object::duration;
use crate::orb::{PyOrb, SIGNALS};
use isorb_reflective_memory::idl::{Area, ReaderQoS, Statistics, WriterQoS};
use isorb_reflective_memory::memory::{Lease, ReadError, Sample, WaitError};
use isorb_reflective_memory::{AreaReader, AreaWriter, Library};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn counts<'py>(py: Python<'py>, it: &Statistics) -> PyResult<Bound<'py, PyDict>> {
    let counts = PyDict::new(py);
    counts.set_item("values", it.values)?;
    counts.set_item("lost", it.lost)?;
    counts.set_item("skipped", it.skipped)?;
    counts.set_item("recovered", it.recovered)?;
    counts.set_item("ignored", it.ignored)?;
    counts.set_item("stale", it.stale)?;
    counts.set_item("silent", it.silent)?;
    counts.set_item("worst_age_ns", it.worst_age)?;
    counts.set_item("age_bound_ns", it.age_bound)?;
    Ok(counts)
}

/// The session of this process with its node's server.
#[pyclass(frozen, module = "isorb")]
pub struct Memory {
    library: Library,
}

#[pymethods]
impl Memory {
    /// Connects to the server at a socket; waits for one up to `timeout` seconds.
    #[new]
    #[pyo3(signature = (orb, socket, timeout=5.0))]
    fn new(py: Python<'_>, orb: &Bound<'_, PyOrb>, socket: PathBuf, timeout: f64) -> PyResult<Memory> {
        let limit = duration(timeout, "Memory")?;
        let orb = orb.get().orb.clone();
        let library = py.detach(|| Library::connect_within(&orb, socket, limit));
        Ok(Memory { library: library.map_err(|error| error::other(py, error))? })
    }

    /// The areas of this node: name, octets of the largest value, values kept beside the latest.
    fn areas(&self, py: Python<'_>) -> PyResult<Vec<(String, u32, u32)>> {
        let areas = py.detach(|| self.library.list_areas()).map_err(|error| error::other(py, error))?;
        Ok(areas.into_iter().map(|area| (area.name, area.size, area.histories)).collect())
    }

    /// Makes an area on this node for values of at most `size` octets.
    #[pyo3(signature = (name, size, histories=2))]
    fn create(&self, py: Python<'_>, name: &str, size: u32, histories: u32) -> PyResult<()> {
        py.detach(|| self.library.create_area(&Area::new(name, size, histories)))
            .map_err(|error| error::other(py, error))
    }

    /// Ends an area. Its readers keep the last value.
    fn destroy(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        py.detach(|| self.library.destroy_area(name)).map_err(|error| error::other(py, error))
    }

    /// Becomes the writer of an area of this node. `period`: the shortest time between two values
    /// in seconds, which guaranteed readers are admitted by.
    #[pyo3(signature = (name, period=0.0))]
    fn writer(&self, py: Python<'_>, name: &str, period: f64) -> PyResult<Writer> {
        let qos = WriterQoS::every(duration(period, "writer")?);
        let writer =
            py.detach(|| self.library.map_writer(name, qos)).map_err(|error| error::other(py, error))?;
        Ok(Writer { writer: Mutex::new(writer) })
    }

    /// Becomes a reader of an area of any node; waits for it up to `timeout` seconds. A value is
    /// stale when it is older than `deadline` seconds; 0 for never.
    #[pyo3(signature = (name, deadline=0.0, timeout=5.0))]
    fn reader(&self, py: Python<'_>, name: &str, deadline: f64, timeout: f64) -> PyResult<Reader> {
        let deadline = duration(deadline, "reader: deadline")?.as_nanos().min(u128::from(u64::MAX)) as u64;
        let qos = ReaderQoS { deadline, ..ReaderQoS::on_write() };
        let limit = duration(timeout, "reader: timeout")?;
        let reader = py
            .detach(|| self.library.reader_within(name, qos, limit))
            .map_err(|error| error::other(py, error))?;
        Ok(Reader { name: name.to_owned(), size: reader.size(), reader: Mutex::new(reader) })
    }
}

/// The writer of an area.
#[pyclass(frozen, module = "isorb")]
pub struct Writer {
    writer: Mutex<AreaWriter>,
}

#[pymethods]
impl Writer {
    /// Writes a value: bytes, or anything with the buffer protocol, such as a NumPy array. Returns
    /// its number.
    fn write(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<u64> {
        let octets = match value.cast::<PyBytes>() {
            Ok(bytes) => bytes.clone(),
            Err(_) => {
                // A memoryview refuses what has no octets, such as a number.
                let memory = py.import("builtins")?.getattr("memoryview")?.call1((value,)).map_err(|_| {
                    PyTypeError::new_err(format!(
                        "write: expected bytes or an object with the buffer protocol, not {}",
                        error::shown(value)
                    ))
                })?;
                memory.call_method0("tobytes")?.cast_into::<PyBytes>().map_err(PyErr::from)?
            }
        };
        let octets = octets.as_bytes();
        py.detach(|| locked(&self.writer).write(octets)).map_err(|error| error::other(py, error))
    }

    /// The server's counts.
    fn statistics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let it = py.detach(|| locked(&self.writer).statistics()).map_err(|error| error::other(py, error))?;
        counts(py, &it)
    }

    /// Octets of the largest value.
    #[getter]
    fn size(&self, py: Python<'_>) -> usize {
        py.detach(|| locked(&self.writer).size())
    }
}

/// A reader of an area.
#[pyclass(frozen, module = "isorb")]
pub struct Reader {
    name: String,
    size: usize,
    reader: Mutex<AreaReader>,
}

#[pymethods]
impl Reader {
    /// The area's name.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// Octets of the largest value.
    #[getter]
    fn size(&self) -> usize {
        self.size
    }

    /// A copy of the latest value, new or not; None before the first one.
    fn latest<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let read = py.detach(|| {
            let mut octets = vec![0; self.size];
            locked(&self.reader).latest(&mut octets).map(|sample| {
                octets.truncate(sample.len);
                octets
            })
        });
        match read {
            Ok(octets) => Ok(Some(PyBytes::new(py, &octets))),
            Err(ReadError::Empty) => Ok(None),
            Err(error) => Err(error::other(py, format!("the area {}: {error}", self.name))),
        }
    }

    /// The latest value in place, without a copy.
    fn lease(&self, py: Python<'_>) -> PyResult<PyLease> {
        match py.detach(|| locked(&self.reader).lease()) {
            Ok(lease) => Ok(PyLease { lease }),
            Err(error) => Err(error::other(py, format!("the area {}: {error}", self.name))),
        }
    }

    /// Waits for a value that was not read, up to `timeout` seconds. False when none came; `state`
    /// says whether any will come.
    #[pyo3(signature = (timeout=1.0))]
    fn wait(&self, py: Python<'_>, timeout: f64) -> PyResult<bool> {
        let end = Instant::now().checked_add(duration(timeout, "wait")?);
        loop {
            let left = end.map_or(SIGNALS, |end| end.saturating_duration_since(Instant::now()));
            match py.detach(|| locked(&self.reader).wait(left.min(SIGNALS))) {
                Ok(()) => return Ok(true),
                Err(WaitError::TimedOut) if left > SIGNALS || end.is_none() => py.check_signals()?,
                Err(WaitError::TimedOut | WaitError::Changed(_)) => return Ok(false),
                Err(error) => return Err(error::other(py, format!("the area {}: {error}", self.name))),
            }
        }
    }

    /// Whether there is a value that was not read.
    #[getter]
    fn has_new(&self, py: Python<'_>) -> bool {
        py.detach(|| locked(&self.reader).has_new())
    }

    /// The area's state: 'Open', 'Stopped', 'WriterGone', 'Stale', 'Destroyed' or 'Moved'.
    #[getter]
    fn state(&self, py: Python<'_>) -> String {
        let state = py.detach(|| locked(&self.reader).state());
        state.map_or_else(|| "Damaged".to_owned(), |state| format!("{state:?}"))
    }

    /// The server's counts.
    fn statistics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let it = py.detach(|| locked(&self.reader).statistics()).map_err(|error| error::other(py, error))?;
        counts(py, &it)
    }
}

/// A value in the area, mapped for reading as long as this object lives.
#[pyclass(frozen, name = "_Lease", module = "isorb")]
pub struct PyLease {
    lease: Lease,
}

impl PyLease {
    fn sample(&self) -> &Sample {
        self.lease.sample()
    }
}

#[pymethods]
impl PyLease {
    /// The address of the first octet.
    #[getter]
    fn address(&self) -> usize {
        self.lease.as_ptr().addr()
    }

    /// Octets of the value.
    fn __len__(&self) -> usize {
        self.sample().len
    }

    /// The number of the value, from 1.
    #[getter]
    fn sequence(&self) -> u64 {
        self.sample().sequence
    }

    /// When it was written, in nanoseconds on the monotonic clock.
    #[getter]
    fn written_ns(&self) -> u64 {
        self.sample().written_ns
    }

    /// Which writer wrote it, from 1.
    #[getter]
    fn epoch(&self) -> u64 {
        self.sample().epoch
    }

    /// Whether the value is still whole: only then counts what was read in place.
    #[getter]
    fn intact(&self) -> bool {
        self.lease.is_intact()
    }
}
