//! Values of Python that are not of their type in IDL.

use crate::error::shown;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

/// A value that is not of its type: where it lies, what was expected and what was given.
pub enum Wrong {
    Value {
        /// From the inside out.
        path: Vec<String>,
        expected: String,
        given: String,
        /// Of the right class, but out of range.
        range: bool,
    },
    Python(PyErr),
}

impl From<PyErr> for Wrong {
    fn from(error: PyErr) -> Wrong {
        Wrong::Python(error)
    }
}

impl Wrong {
    pub fn within(mut self, step: impl FnOnce() -> String) -> Wrong {
        if let Wrong::Value { path, .. } = &mut self {
            path.push(step());
        }
        self
    }

    /// The exception, with the name of the operation, type or channel in front.
    pub fn into_error(self, whole: &str) -> PyErr {
        match self {
            Wrong::Python(error) => error,
            Wrong::Value { path, expected, given, range } => {
                let path: String = path.into_iter().rev().collect();
                let path = path.trim_start_matches('.');
                let path = if path.is_empty() { String::new() } else { format!("{path}: ") };
                let text = format!("{whole}: {path}expected {expected}, not {given}");
                if range { PyValueError::new_err(text) } else { PyTypeError::new_err(text) }
            }
        }
    }
}

/// A value that is not as expected.
#[cold]
pub fn wrong(expected: String, given: &Bound<'_, PyAny>, range: bool) -> Wrong {
    Wrong::Value { path: Vec::new(), expected, given: shown(given), range }
}
