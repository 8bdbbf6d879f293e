//! Calls: an operation of an interface, its arguments from Python, its results to Python.

use crate::any::with_decoder;
use crate::decode::{Reader, Unread};
use crate::encode::{Writer, Wrong};
use crate::error;
use crate::object::Object;
use crate::types::{Def, Ty, Types};
use isorb::{DynamicOperation, Mode, Operation, PendingCall, Reply, SystemException};
use isorb_any::copy_value;
use isorb_cdr::{Decoder, Encoder, ErrorKind, Text};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};

pub struct Parameter {
    pub name: String,
    pub mode: Mode,
    pub ty: Ty,
}

/// An operation that is known at run time, or one side of an attribute.
#[pyclass(frozen, name = "Operation", module = "isorb")]
pub struct PyOperation {
    /// Its scoped name, for errors.
    pub label: String,
    /// Its name in Python, for servants.
    pub attribute: String,
    pub types: Arc<Types>,
    pub operation: Operation,
    pub parameters: Vec<Parameter>,
    pub result: Option<Ty>,
    /// Exceptions that it raises.
    pub raises: Vec<usize>,
    /// The same as type codes; or why it cannot be called from Python.
    pub dynamic: Result<DynamicOperation, String>,
}

/// How a call ended without results.
enum Failure {
    System(SystemException),
    Python(PyErr),
}

impl From<SystemException> for Failure {
    fn from(exception: SystemException) -> Failure {
        Failure::System(exception)
    }
}

impl Failure {
    fn into_error(self, py: Python<'_>) -> PyErr {
        match self {
            Failure::System(exception) => error::system(py, &exception),
            Failure::Python(error) => error,
        }
    }
}

impl PyOperation {
    fn callable(&self) -> PyResult<&DynamicOperation> {
        self.dynamic.as_ref().map_err(|why| PyTypeError::new_err(format!("{}: {why}", self.label)))
    }

    pub fn sent(&self) -> impl Iterator<Item = &Parameter> {
        self.parameters.iter().filter(|parameter| parameter.mode != Mode::Out)
    }

    pub fn returned(&self) -> impl Iterator<Item = &Ty> {
        let out = self.parameters.iter().filter(|parameter| parameter.mode != Mode::In);
        self.result.iter().chain(out.map(|parameter| &parameter.ty))
    }

    /// The arguments in this machine's form.
    fn arguments(&self, values: &Bound<'_, PyTuple>) -> PyResult<Vec<u8>> {
        let (wanted, given) = (self.sent().count(), values.len());
        if wanted != given {
            let names: Vec<&str> = self.sent().map(|parameter| &*parameter.name).collect();
            let names = names.join(", ");
            return Err(PyTypeError::new_err(format!(
                "{} takes {wanted} arguments ({names}), {given} are given",
                self.label
            )));
        }
        let mut e = Encoder::new(Vec::with_capacity(256), Text::DEFAULT);
        let writer = Writer { types: &self.types };
        for (parameter, value) in self.sent().zip(values.iter_borrowed()) {
            writer
                .argument(&parameter.name, &parameter.ty, &value, &mut e)
                .map_err(|wrong| wrong.into_error(&self.label))?;
        }
        e.flatten().map_err(|error| {
            pyo3::exceptions::PyValueError::new_err(format!(
                "{}: the arguments have no form on the wire: {error}",
                self.label
            ))
        })
    }

    /// Writes the arguments to a request, which may have other code sets.
    fn write<'a>(&self, octets: &'a [u8], e: &mut Encoder<'a>) {
        if octets.is_empty() {
            return;
        }
        if e.text() == Text::DEFAULT && e.offset().is_multiple_of(8) {
            return e.raw_lent(octets);
        }
        let Ok(dynamic) = &self.dynamic else { return e.fail(ErrorKind::NotRemotable) };
        let copied = with_decoder(octets, None, |d| {
            dynamic.arguments().try_for_each(|(_, type_code)| copy_value(type_code, d, e))
        });
        if let Err(error) = copied {
            e.fail(error.kind);
        }
    }

    /// Reads results or an exception, with the interpreter.
    fn read(&self, reply: Reply<'_>) -> Result<Py<PyAny>, Failure> {
        let attached = Python::try_attach(|py| {
            let reader = Reader { py, types: &self.types };
            let unread = |unread: Unread, keep: &mut Option<PyErr>| match unread {
                Unread::Octets(error) => error,
                Unread::Python(error) => {
                    *keep = Some(error);
                    isorb_cdr::Error::new(ErrorKind::Value, 0)
                }
            };
            let (mut in_results, mut in_exception) = (None, None);
            let read = |d: &mut Decoder<'_>| {
                self.results(&reader, d).map_err(|error| unread(error, &mut in_results))
            };
            let known = |id: &str, d: &mut Decoder<'_>| {
                let listed = self.raises.iter().find(|index| {
                    self.types.id(**index).is_some_and(|def| self.types.spec[def].repository_id == id)
                });
                let Some(Def::Struct { class, members }) = listed.and_then(|index| self.types.def(*index))
                else {
                    return Ok(None);
                };
                let raised = reader.structure(class, members, d, 0);
                let raised = raised.map_err(|error| unread(error, &mut in_exception))?;
                Ok(Some(Failure::Python(PyErr::from_value(raised))))
            };
            let outcome = reply.raises(read, known);
            match in_results.or(in_exception) {
                Some(error) => Err(Failure::Python(error)),
                None => outcome,
            }
        });
        attached.unwrap_or_else(|| {
            Err(Failure::System(SystemException::from(isorb::Kind::Transient).detail("the interpreter ends")))
        })
    }

    fn results(&self, reader: &Reader<'_, '_>, d: &mut Decoder<'_>) -> Result<Py<PyAny>, Unread> {
        let py = reader.py;
        let mut types = self.returned();
        let (Some(first), second) = (types.next(), types.next()) else { return Ok(py.None()) };
        let first = reader.read(first, d, 0)?;
        let Some(second) = second else { return Ok(first.unbind()) };
        let mut all = vec![first, reader.read(second, d, 0)?];
        for ty in types {
            all.push(reader.read(ty, d, 0)?);
        }
        Ok(PyTuple::new(py, all)?.into_any().unbind())
    }
}

#[pymethods]
impl PyOperation {
    /// Calls an object. Other threads of Python run meanwhile.
    fn __call__(
        &self,
        py: Python<'_>,
        target: &Bound<'_, Object>,
        values: &Bound<'_, PyTuple>,
    ) -> PyResult<Py<PyAny>> {
        self.callable()?;
        let octets = self.arguments(values)?;
        let object = &target.get().object;
        let outcome: Result<Py<PyAny>, Failure> = py.detach(|| {
            if self.operation.oneway {
                object.send(&self.operation, &|e| self.write(&octets, e))?;
                return Ok(Python::try_attach(|py| py.None())
                    .ok_or(SystemException::from(isorb::Kind::Transient))?);
            }
            object.orb().scope(|scope| {
                let reply = object.invoke(&self.operation, scope, &|e| self.write(&octets, e))?;
                self.read(reply)
            })
        });
        outcome.map_err(|failure| failure.into_error(py))
    }

    /// Begins a call for an event loop.
    fn begin(
        &self,
        py: Python<'_>,
        target: &Bound<'_, Object>,
        values: &Bound<'_, PyTuple>,
    ) -> PyResult<PyPending> {
        self.callable()?;
        let octets = self.arguments(values)?;
        let object = &target.get().object;
        crate::orb::start_client_lane(object.orb()).map_err(|exception| error::system(py, &exception))?;
        let begun = py.detach(|| match self.operation.oneway {
            true => object.send(&self.operation, &|e| self.write(&octets, e)).map(|()| None),
            false => object.begin(&self.operation, &|e| self.write(&octets, e)).map(Some),
        });
        let call = begun.map_err(|exception| error::system(py, &exception))?;
        Ok(PyPending { orb: object.orb().clone(), call: Mutex::new(call), oneway: self.operation.oneway })
    }

    /// The results of a call that is ready.
    fn finish(&self, py: Python<'_>, pending: &Bound<'_, PyPending>) -> PyResult<Py<PyAny>> {
        let pending = pending.get();
        let Some(call) = pending.call.lock().unwrap_or_else(PoisonError::into_inner).take() else {
            return Ok(py.None());
        };
        let outcome: Result<Py<PyAny>, Failure> =
            py.detach(|| pending.orb.scope(|scope| self.read(call.wait_in(scope)?)));
        outcome.map_err(|failure| failure.into_error(py))
    }

    /// The scoped name.
    #[getter]
    fn name(&self) -> &str {
        &self.label
    }

    fn __repr__(&self) -> String {
        format!("<IDL operation {}>", self.label)
    }
}

/// A call that was begun.
#[pyclass(frozen, name = "Pending", module = "isorb")]
pub struct PyPending {
    orb: isorb::Orb,
    call: Mutex<Option<PendingCall>>,
    oneway: bool,
}

/// Runs a function of Python when a reply is there, on the thread that reads replies.
struct Notify(Py<PyAny>);

impl Wake for Notify {
    fn wake(self: Arc<Self>) {
        // An interpreter that ends awaits nothing.
        Python::try_attach(|py| {
            if let Err(error) = self.0.call0(py) {
                error.write_unraisable(py, None);
            }
        });
    }
}

#[pymethods]
impl PyPending {
    /// Whether the reply is there. If not, `notify` is called when it may be, once.
    fn watch(&self, py: Python<'_>, notify: Py<PyAny>) -> PyResult<bool> {
        let waker = Waker::from(Arc::new(Notify(notify)));
        let ready = py.detach(|| -> isorb::Result<bool> {
            let call = self.call.lock().unwrap_or_else(PoisonError::into_inner);
            match &*call {
                Some(call) if !self.oneway && !call.is_ready() => {
                    call.wake_when_ready(&waker)?;
                    Ok(call.is_ready())
                }
                _ => Ok(true),
            }
        });
        ready.map_err(|exception| error::system(py, &exception))
    }

    /// Gives the call up.
    fn abandon(&self) {
        self.call.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

/// Names what a servant gave that is not of the operation's types.
pub fn wrong_result(operation: &PyOperation, wrong: Wrong) -> PyErr {
    wrong.into_error(&format!("{}: the servant's result", operation.label))
}
