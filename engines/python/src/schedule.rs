//! Schedules: the verdict on each task, and the timeline as a page.

use crate::error;
use isorb_sched::file::ScheduleFile;
use isorb_sched::schedule::Schedule;
use isorb_sched::{Nanos, Policy};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::path::PathBuf;

/// A task with its verdict. Times are in nanoseconds.
#[pyclass(frozen, name = "Task", module = "isorb", get_all)]
pub struct PyTask {
    /// The name.
    name: String,
    /// The level of its queue, 0 the most urgent.
    level: u32,
    /// The CORBA priority of its thread.
    thread_priority: String,
    cost_ns: u64,
    period_ns: u64,
    deadline_ns: u64,
    jitter_ns: u64,
    blocking_ns: u64,
    /// The longest response; None where it has no bound.
    response_ns: Option<u64>,
    /// The deadline less the longest response; None if the deadline is not known to be met.
    slack_ns: Option<u64>,
    /// Whether it is known to meet every deadline.
    met: bool,
    /// The longest response as a sentence has it.
    response: String,
}

#[pymethods]
impl PyTask {
    fn __repr__(&self) -> String {
        let verdict = if self.met { "met" } else { "MISSED" };
        format!("<Task {}: response {}, {verdict}>", self.name, self.response)
    }
}

/// A schedule file, analysed.
#[pyclass(frozen, name = "Schedule", module = "isorb")]
pub struct PySchedule {
    name: String,
    warnings: Vec<String>,
    schedule: Schedule,
}

#[pymethods]
impl PySchedule {
    /// Reads a schedule file (TOML) and analyses it, with another policy than the file's if one is
    /// given: rms, dm, edf, mlf, muf, criticality, declared.
    #[new]
    #[pyo3(signature = (file, policy=None))]
    fn new(py: Python<'_>, file: PathBuf, policy: Option<&str>) -> PyResult<PySchedule> {
        let name = file.display().to_string();
        let text =
            std::fs::read_to_string(&file).map_err(|why| error::other(py, format!("{name}: {why}")))?;
        let mut read = ScheduleFile::parse(&name, &text).map_err(|why| error::other(py, why))?;
        if let Some(policy) = policy {
            read.config.policy = policy
                .parse::<Policy>()
                .map_err(|why| PyValueError::new_err(format!("Schedule: policy: {why}")))?;
        }
        let schedule = py.detach(|| read.schedule()).map_err(|why| error::other(py, why))?;
        let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let warnings = read.warnings.iter().map(ToString::to_string).collect();
        Ok(PySchedule { name: stem, warnings, schedule })
    }

    /// Whether every task is known to meet every deadline.
    #[getter]
    fn schedulable(&self) -> bool {
        self.schedule.schedulable()
    }

    /// The part of the processor that all tasks use, as text: '73.2 %'.
    #[getter]
    fn utilisation(&self) -> String {
        self.schedule.analysis.utilisation.to_string()
    }

    /// The policy.
    #[getter]
    fn policy(&self) -> String {
        self.schedule.config.policy.to_string()
    }

    /// Findings that do not prevent the schedule, and uses of old keys.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        let anomalies = self.schedule.anomalies.iter().map(|anomaly| anomaly.description.clone());
        self.warnings.iter().cloned().chain(anomalies).collect()
    }

    /// The tasks with their verdicts.
    #[getter]
    fn tasks(&self) -> Vec<PyTask> {
        let all = self.schedule.tasks.iter().zip(&self.schedule.analysis.verdicts);
        all.map(|(scheduled, verdict)| {
            let task = &scheduled.task;
            PyTask {
                name: task.name.clone(),
                level: scheduled.queue.level,
                thread_priority: scheduled.queue.thread_priority.to_string(),
                cost_ns: task.cost.ns(),
                period_ns: task.period.ns(),
                deadline_ns: task.deadline.ns(),
                jitter_ns: task.jitter.ns(),
                blocking_ns: verdict.blocking.ns(),
                response_ns: verdict.response.bound().map(Nanos::ns),
                slack_ns: verdict.slack().map(Nanos::ns),
                met: verdict.met(),
                response: verdict.response.to_string(),
            }
        })
        .collect()
    }

    /// The page of `isorb sched plot`, complete in one text. `span` is the time to draw, such as
    /// '200 ms'; until the schedule repeats, if none is given.
    #[pyo3(signature = (span=None))]
    fn page(&self, py: Python<'_>, span: Option<&str>) -> PyResult<String> {
        let span = match span {
            Some(text) => {
                text.parse::<Nanos>().map_err(|why| PyValueError::new_err(format!("plot: span: {why}")))?
            }
            None => self.schedule.span(4),
        };
        py.detach(|| self.schedule.page(&self.name, span)).map_err(|why| error::other(py, why))
    }

    /// The table of `isorb sched check`.
    fn __str__(&self) -> String {
        self.schedule.table()
    }

    fn __repr__(&self) -> String {
        let verdict =
            if self.schedule.schedulable() { "every deadline is met" } else { "deadlines cannot be met" };
        format!("<Schedule {}: {} tasks, {verdict}>", self.name, self.schedule.tasks.len())
    }
}
