//! Exceptions of CORBA as exceptions of Python.

use isorb::{Completion, Kind, SystemException};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// The name of a completion status in the standard's mapping.
pub const fn status(completion: Completion) -> &'static str {
    match completion {
        Completion::Yes => "COMPLETED_YES",
        Completion::No => "COMPLETED_NO",
        Completion::Maybe => "COMPLETED_MAYBE",
    }
}

fn errors(py: Python<'_>) -> PyResult<&Bound<'_, PyModule>> {
    static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    MODULE.get_or_try_init(py, || py.import("isorb._errors").map(Bound::unbind)).map(|module| module.bind(py))
}

/// A system exception as one of Python.
pub fn system(py: Python<'_>, exception: &SystemException) -> PyErr {
    let detail = exception.detail.as_deref();
    let sentence = detail.or_else(|| isorb::minor::sentence(exception.kind, exception.minor)).unwrap_or("");
    let values = (exception.kind.name(), sentence, exception.minor, status(exception.completed));
    match errors(py).and_then(|module| module.getattr("make")?.call1(values)) {
        Ok(instance) => PyErr::from_value(instance),
        Err(error) => error,
    }
}

/// The system exception for an exception of Python that a servant raised, if it is one.
pub fn raised(py: Python<'_>, error: &PyErr) -> Option<SystemException> {
    let value = error.value(py);
    let class = errors(py).ok()?.getattr("SystemException").ok()?;
    if !value.is_instance(&class).ok()? {
        return None;
    }
    let text = |name: &str| value.getattr(name).ok()?.extract::<String>().ok();
    let kind = text("name")
        .and_then(|name| isorb::Kind::from_repository_id(&format!("IDL:omg.org/CORBA/{name}:1.0")));
    let completed = match text("completed").as_deref() {
        Some("COMPLETED_YES") => Completion::Yes,
        Some("COMPLETED_NO") => Completion::No,
        _ => Completion::Maybe,
    };
    let minor = value.getattr("minor").ok().and_then(|minor| minor.extract().ok()).unwrap_or(0);
    let exception = SystemException::new(kind.unwrap_or(Kind::Unknown), minor, completed);
    Some(match text("detail") {
        Some(detail) if !detail.is_empty() => exception.detail(detail),
        _ => exception,
    })
}

/// The value for an error: class and a short form.
pub fn shown(value: &Bound<'_, PyAny>) -> String {
    let class = value.get_type().name().map_or_else(|_| "?".into(), |name| name.to_string());
    let text = value.repr().map_or_else(|_| "…".into(), |text| text.to_string_lossy().into_owned());
    let short: String = text.chars().take(60).collect();
    let rest = if short.len() < text.len() { "…" } else { "" };
    if value.is_none() { "None".into() } else { format!("{class} {short}{rest}") }
}

/// An error of the operating system or of isorb as `isorb.Error`.
pub fn other(py: Python<'_>, sentence: impl std::fmt::Display) -> PyErr {
    match errors(py).and_then(|module| module.getattr("Error")?.call1((sentence.to_string(),))) {
        Ok(instance) => PyErr::from_value(instance),
        Err(error) => error,
    }
}
