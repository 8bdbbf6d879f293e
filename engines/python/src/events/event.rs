//! An event as an object of Python, and values of IDL types as octets.

use crate::any::{encoded_value, with_order};
use crate::decode::{Reader, Unread};
use crate::error;
use crate::types::{Ty, TypeHandle, handle_of};
use isorb_cdr::Order;
use isorb_event::{Data, Event, Header};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::time::Duration;

/// An event with its payload.
#[pyclass(frozen, name = "Event", module = "isorb")]
pub struct PyEvent {
    pub(super) header: Header,
    pub(super) octets: Vec<u8>,
    pub(super) any: Vec<u8>,
    /// Nanoseconds from the start of the recording that it is from.
    pub(super) at_ns: Option<u64>,
    pub(super) payload: Option<Py<TypeHandle>>,
}

impl PyEvent {
    pub(super) fn of(event: &Event<'_>) -> PyEvent {
        let Data { octets, any, .. } = event.data;
        PyEvent {
            header: event.header,
            octets: octets.to_vec(),
            any: any.to_vec(),
            at_ns: None,
            payload: None,
        }
    }

    pub(super) fn event(&self) -> Event<'_> {
        let data = Data { octets: &self.octets, any: &self.any, ..Data::default() };
        Event { header: self.header, data, ..Event::default() }
    }
}

#[pymethods]
impl PyEvent {
    /// The type.
    #[getter]
    fn r#type(&self) -> i32 {
        self.header.event_type
    }

    /// The source.
    #[getter]
    fn source(&self) -> i32 {
        self.header.source
    }

    /// When its supplier made it, in units of 100 ns; 0 if the supplier does not say.
    #[getter]
    fn created(&self) -> u64 {
        self.header.creation_time
    }

    /// The payload as octets.
    #[getter]
    fn octets<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.octets)
    }

    /// When it was recorded, in seconds from the start of its recording; None otherwise.
    #[getter]
    fn at(&self) -> Option<f64> {
        self.at_ns.map(|at| Duration::from_nanos(at).as_secs_f64())
    }

    /// The payload as a value of the class that the consumer gave; None without a class.
    #[getter]
    fn value<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(payload) = &self.payload else { return Ok(None) };
        decode_by(py, payload.bind(py).get(), &self.octets).map(Some)
    }

    fn __repr__(&self) -> String {
        format!(
            "<Event type={} source={} {} octets>",
            self.header.event_type,
            self.header.source,
            self.octets.len() + self.any.len()
        )
    }
}

fn decode_by<'py>(py: Python<'py>, handle: &TypeHandle, octets: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    let name = handle.types.name(handle.index);
    let malformed = |why: String| PyValueError::new_err(format!("the octets are no value of {name}: {why}"));
    let Some(flag) = octets.first() else { return Err(malformed("there are none".into())) };
    let order = if flag & 1 == 1 { Order::Little } else { Order::Big };
    let orb = crate::orb::first();
    let read = with_order(octets, order, orb.as_ref(), |d| {
        d.skip(1);
        Reader { py, types: &handle.types }.read(&Ty::Named(handle.index), d, 0)
    });
    read.map_err(|unread| match unread {
        Unread::Python(error) => error,
        Unread::Octets(error) => malformed(error.to_string()),
    })
}

pub(super) fn class_handle(class: &Bound<'_, PyAny>, what: &str) -> PyResult<Py<TypeHandle>> {
    handle_of(class)?.map(Bound::unbind).ok_or_else(|| {
        PyTypeError::new_err(format!("{what}: expected a class of an IDL file, not {}", error::shown(class)))
    })
}

/// The octets of a value of an IDL type: its byte order, then the value in CDR.
#[pyfunction]
pub fn encode<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    let handle = class_handle(value.get_type().as_any(), "encode")?;
    let handle = handle.bind(value.py()).get();
    let octets = encoded_value(&handle.types, &Ty::Named(handle.index), value)?;
    Ok(PyBytes::new(value.py(), &octets))
}

/// The value of octets that `encode` made, as the class `cls`.
#[pyfunction]
pub fn decode<'py>(cls: &Bound<'py, PyAny>, octets: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    let handle = class_handle(cls, "decode")?;
    decode_by(cls.py(), handle.bind(cls.py()).get(), octets)
}
