//! Servants in Python.

use crate::any::{encoded, with_decoder};
use crate::call::{PyOperation, wrong_result};
use crate::decode::{Reader, Unread};
use crate::encode::Writer;
use crate::error;
use crate::types::{Def, TypeHandle};
use isorb::{Any, Completion, DynamicOperation, DynamicReply, DynamicServant, Kind, SystemException, Upcall};
use isorb_cdr::{Encoder, Order, Text};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::collections::HashMap;
use std::sync::Arc;

/// An instance of a Python class that serves the operations of an interface.
pub struct PythonServant {
    pub instance: Py<PyAny>,
    pub operations: HashMap<&'static str, Py<PyOperation>>,
}

impl DynamicServant for PythonServant {
    fn invoke(
        &self,
        cx: Upcall<'_>,
        operation: &DynamicOperation,
        arguments: Vec<Any>,
    ) -> isorb::Result<DynamicReply> {
        let known = self.operations.get(operation.name()).ok_or(Kind::BadOperation)?;
        let attached = Python::try_attach(|py| {
            let known = known.bind(py).get();
            self.upcall(py, cx, known, operation, arguments).map_err(|error| {
                error::raised(py, &error).unwrap_or_else(|| {
                    let sentence = error.to_string();
                    // The traceback goes to the program's log; the client gets the sentence.
                    log_error(py, &known.label, error);
                    SystemException::new(Kind::Unknown, 0, Completion::Maybe).detail(sentence)
                })
            })
        });
        attached.unwrap_or_else(|| {
            Err(SystemException::from(Kind::Transient).detail("the server's interpreter ends"))
        })
    }
}

impl PythonServant {
    fn upcall(
        &self,
        py: Python<'_>,
        cx: Upcall<'_>,
        known: &PyOperation,
        operation: &DynamicOperation,
        arguments: Vec<Any>,
    ) -> PyResult<DynamicReply> {
        let reader = Reader { py, types: &known.types };
        let mut values = Vec::with_capacity(arguments.len());
        for (parameter, any) in known.sent().zip(&arguments) {
            let read = with_decoder(any.value(), Some(cx.orb()), |d| reader.read(&parameter.ty, d, 0));
            values.push(read.map_err(|unread| match unread {
                Unread::Python(error) => error,
                Unread::Octets(error) => error::system(py, &error.into()),
            })?);
        }
        drop(arguments);
        let instance = self.instance.bind(py);
        let returned = if known.operation.name.starts_with("_get_") && known.parameters.is_empty() {
            instance.getattr(&*known.attribute)
        } else if known.operation.name.starts_with("_set_") && values.len() == 1 {
            let none = || py.None().into_bound(py);
            instance.setattr(&*known.attribute, &values[0]).map(|()| none())
        } else {
            let Some(method) = instance.getattr_opt(&*known.attribute)? else {
                let class = instance.get_type().name()?.to_string();
                let sentence = format!("{class} has no method {}", known.attribute);
                let missing = SystemException::from(Kind::NoImplement).detail(sentence);
                return Err(error::system(py, &missing));
            };
            method.call1(PyTuple::new(py, values)?)
        };
        match returned {
            Ok(value) => results(known, operation, &value),
            Err(error) => match exception(py, known, operation, &error)? {
                Some(exception) => Ok(DynamicReply::Exception(exception)),
                None => Err(error),
            },
        }
    }
}

fn results(
    known: &PyOperation,
    operation: &DynamicOperation,
    value: &Bound<'_, PyAny>,
) -> PyResult<DynamicReply> {
    let count = known.returned().count();
    let values: Vec<Bound<'_, PyAny>> = match count {
        0 => Vec::new(),
        1 => vec![value.clone()],
        _ => match value.cast::<PyTuple>() {
            Ok(tuple) if tuple.len() == count => tuple.iter().collect(),
            _ => {
                let sentence = format!(
                    "{}: the servant returns {}, the operation has {count} results: return a tuple of them",
                    known.label,
                    error::shown(value)
                );
                return Err(pyo3::exceptions::PyTypeError::new_err(sentence));
            }
        },
    };
    let writer = Writer { types: &known.types };
    let mut results = Vec::with_capacity(count);
    for ((ty, (_, type_code)), value) in known.returned().zip(operation.results()).zip(&values) {
        results.push(encoded(&writer, type_code, ty, value).map_err(|wrong| wrong_result(known, wrong))?);
    }
    Ok(DynamicReply::Results(results))
}

/// An exception that the operation lists.
fn exception(
    py: Python<'_>,
    known: &PyOperation,
    operation: &DynamicOperation,
    error: &PyErr,
) -> PyResult<Option<Any>> {
    for (index, type_code) in known.raises.iter().zip(operation.exceptions()) {
        let Some(Def::Struct { class, members }) = known.types.def(*index) else { continue };
        let value = error.value(py);
        if !value.is_instance(class.bind(py))? {
            continue;
        }
        let mut e = Encoder::new(Vec::new(), Text::DEFAULT);
        let writer = Writer { types: &known.types };
        writer.members(members, value.as_any(), &mut e, 0).map_err(|wrong| wrong_result(known, wrong))?;
        let octets = e.flatten().map_err(|error| error::system(py, &error.into()))?;
        let any = Any::from_cdr(type_code.clone(), &octets, Order::NATIVE, Text::DEFAULT);
        return Ok(Some(any.map_err(|error| error::system(py, &error.into()))?));
    }
    Ok(None)
}

fn log_error(py: Python<'_>, operation: &str, error: PyErr) {
    let logged = py
        .import("isorb._errors")
        .and_then(|module| module.getattr("log_servant_error")?.call1((operation, error.value(py))));
    if logged.is_err() {
        error.write_unraisable(py, None);
    }
}

/// The servant of an instance, for an interface.
pub fn make(
    instance: Py<PyAny>,
    handle: &TypeHandle,
    bases: &[&str],
    operations: Vec<Py<PyOperation>>,
) -> Result<isorb::Servant, String> {
    let interface = handle.served(|| {
        let dynamic: Result<Vec<DynamicOperation>, String> = operations
            .iter()
            .map(|operation| {
                let operation = operation.get();
                operation.dynamic.clone().map_err(|why| format!("{}: {why}", operation.label))
            })
            .collect();
        isorb::DynamicInterface::new(&handle.repository_id_text(), bases, dynamic?)
            .map_err(|error| error.to_string())
    })?;
    let operations = operations.into_iter().map(|it| (it.get().operation.name, it)).collect();
    Ok(interface.servant(Arc::new(PythonServant { instance, operations })))
}
