//! Recordings of events: files that are written and read.

use super::event::{PyEvent, class_handle};
use super::locked;
use crate::error;
use crate::types::TypeHandle;
use isorb_event::Header;
use isorb_event::remote::RemoteConsumer;
use isorb_event_file::{Record, RecordedEvent, Recorder, RecordingCounts};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

/// A recording under way.
#[pyclass(frozen, module = "isorb")]
pub struct Recording {
    pub(super) consumer: Mutex<Option<RemoteConsumer>>,
    pub(super) recorder: Arc<Recorder>,
    pub(super) path: PathBuf,
}

fn recorded<'py>(py: Python<'py>, it: &RecordingCounts) -> PyResult<Bound<'py, PyDict>> {
    let counts = PyDict::new(py);
    counts.set_item("events", it.events)?;
    counts.set_item("octets", it.octets)?;
    counts.set_item("lost", it.lost())?;
    Ok(counts)
}

#[pymethods]
impl Recording {
    /// The counts so far. Events that wait for the disk are not in them.
    fn counts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        recorded(py, &self.recorder.counts())
    }

    /// Ends the recording and returns its counts.
    fn stop<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let finished = py.detach(|| {
            let consumer = locked(&self.consumer).take();
            drop(consumer);
            self.recorder.finish()
        });
        let counts = finished.map_err(|why| error::other(py, format!("{}: {why}", self.path.display())))?;
        recorded(py, &counts)
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_error))]
    fn __exit__(&self, py: Python<'_>, _error: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.stop(py).map(drop)
    }
}

/// Reads a recording, event by event.
#[pyclass(frozen, module = "isorb")]
pub struct Events {
    reader: Mutex<isorb_event_file::Reader>,
    path: PathBuf,
    payload: Option<Py<TypeHandle>>,
}

#[pymethods]
impl Events {
    #[new]
    #[pyo3(signature = (path, payload=None))]
    fn new(py: Python<'_>, path: PathBuf, payload: Option<&Bound<'_, PyAny>>) -> PyResult<Events> {
        let payload = payload.map(|class| class_handle(class, "Events: payload")).transpose()?;
        let reader = isorb_event_file::Reader::open(&path)
            .map_err(|why| error::other(py, format!("{}: {why}", path.display())))?;
        Ok(Events { reader: Mutex::new(reader), path, payload })
    }

    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<PyEvent>> {
        let next = py.detach(|| -> std::io::Result<Option<PyEvent>> {
            let mut reader = locked(&self.reader);
            loop {
                let event = match reader.next()? {
                    None => return Ok(None),
                    Some(Record::Event(event)) => event,
                    Some(_) => continue,
                };
                let RecordedEvent { event_type, source, ttl, creation_time, .. } = event;
                let header = Header { event_type, source, ttl, creation_time };
                let (octets, any) = (event.octets.to_vec(), event.any.to_vec());
                return Ok(Some(PyEvent { header, octets, any, at_ns: Some(event.at_ns), payload: None }));
            }
        });
        let next = next.map_err(|why| error::other(py, format!("{}: {why}", self.path.display())))?;
        Ok(next.map(|mut event| {
            event.payload = self.payload.as_ref().map(|payload| payload.clone_ref(py));
            event
        }))
    }

    /// What was skipped so far, as a sentence.
    #[getter]
    fn damage(&self) -> String {
        locked(&self.reader).damage().to_string()
    }
}
