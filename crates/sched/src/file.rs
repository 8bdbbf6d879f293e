//! The schedule file: operations, what makes them run, what they share, and the names that
//! `RTCosScheduling` looks up.
//!
//! ```toml
//! policy = "dm"                      # rms, dm, edf, mlf, muf, criticality, declared
//! preemption = "full"                # full, deferred, none
//! priorities = [100, 200]            # CORBA priorities of the threads
//! processors = [2, 3]                # those of several processors, by the kernel's numbers
//!
//! [[operation]]
//! name = "imu"
//! cost = "2 ms"
//! period = "33 ms"
//!
//! [[operation]]
//! name = "navigate"
//! cost = "3 ms"
//! deadline = "30 ms"
//! after = ["imu"]                    # released by it
//! calls = [{ operation = "filter" }] # and waits for it
//! holds = [{ resource = "map", for = "200 us" }]
//!
//! [[operation]]
//! name = "filter"
//! cost = "1 ms"
//!
//! [[resource]]
//! name = "map"
//!
//! [[activity]]
//! name = "guidance"
//! priority = 180
//! ```

pub(crate) mod text;
mod write;

use crate::graph::{Call, Dependency, Graph, GraphError, Kind, Operation, Resource};
use crate::schedule::{Config, Schedule, ScheduleError, Severity};
use crate::{Policy, Preemption};
use std::collections::BTreeMap;
use std::fmt;
use text::Text;

/// A parsed schedule file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduleFile {
    /// The file's name in messages.
    pub name: String,
    /// The configuration of the analysis.
    pub config: Config,
    /// The processors that the operations run on, by the kernel's numbers, each once. Empty: one,
    /// whichever.
    pub processors: Vec<usize>,
    /// The operations.
    pub graph: Graph,
    /// The CORBA priority of each activity (`RTCosScheduling::ClientScheduler::schedule_activity`).
    pub activities: BTreeMap<String, u16>,
    /// The CORBA priority of each object (`RTCosScheduling::ServerScheduler::schedule_object`).
    pub objects: BTreeMap<String, u16>,
    /// Use of old keys. The file is valid.
    pub warnings: Vec<FileError>,
    /// The line of each operation.
    lines: BTreeMap<String, usize>,
}

/// A fault in a schedule file, and its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileError {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The fault, with names and numbers.
    pub message: String,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.message)
    }
}

impl std::error::Error for FileError {}

impl ScheduleFile {
    /// Parses `text`; `name` is the file's name in messages.
    ///
    /// # Errors
    /// [`FileError`] for invalid TOML, an unknown key, an unknown operation or resource, a
    /// duplicate name, a cycle.
    pub fn parse(name: &str, text: &str) -> Result<ScheduleFile, FileError> {
        let error = |at: usize, message: String| FileError {
            file: name.to_string(),
            line: text[..at.min(text.len())].bytes().filter(|octet| *octet == b'\n').count() + 1,
            message,
        };
        let read: Text = toml::from_str(text).map_err(|fault| {
            let at = fault.span().map_or(0, |span| span.start);
            error(at, fault.message().to_string())
        })?;
        let mut graph = Graph::new();
        let mut lines = BTreeMap::new();
        for resource in read.resource {
            let at = resource.name.span().start;
            let name = resource.name.into_inner();
            if graph.resources.iter().any(|other| other.name == name) {
                return Err(error(at, format!("{name}: there is a resource of this name already")));
            }
            if let Some(ceiling) = resource.ceiling.filter(|ceiling| *ceiling > 32767) {
                return Err(error(
                    at,
                    format!("{name}: its ceiling is a CORBA priority, at most 32767, not {ceiling}"),
                ));
            }
            graph.resources.push(Resource { name, ceiling: resource.ceiling });
        }
        for operation in &read.operation {
            let at = operation.name.span().start;
            let new = operation.plain();
            lines.insert(new.name.clone(), error(at, String::new()).line);
            graph.add(new).map_err(|fault| error(at, fault.to_string()))?;
        }
        for (id, operation) in read.operation.iter().enumerate() {
            let found = dependencies(&graph, operation).map_err(|(at, message)| error(at, message))?;
            if let Some(operation) = graph.get_mut(id) {
                (operation.dependencies, operation.holds) = found;
            }
        }
        let named = |what: &str, all: Vec<text::Named>| {
            let mut found = BTreeMap::new();
            for text::Named { name, priority } in all {
                let at = name.span().start;
                let name = name.into_inner();
                if priority > 32767 {
                    return Err(error(
                        at,
                        format!("{name}: a CORBA priority is at most 32767, not {priority}"),
                    ));
                }
                let priority = u16::try_from(priority).unwrap_or(32767);
                if found.insert(name.clone(), priority).is_some() {
                    return Err(error(at, format!("{name}: there is an {what} of this name already")));
                }
            }
            Ok(found)
        };
        let mut warnings = Vec::new();
        let old = read.turns.map(|turns| (turns.span().start, turns.into_inner()));
        let one_thread_per_level = match (read.one_thread_per_level, old) {
            (Some(_), Some((at, _))) => {
                return Err(error(at, "turns is the old name of one_thread_per_level; remove it".into()));
            }
            (None, Some((at, turns))) => {
                warnings.push(error(at, "turns is called one_thread_per_level now; rename the key".into()));
                turns
            }
            (given, None) => given.unwrap_or(true),
        };
        let [first, last] = read.priorities.unwrap_or([0, 32767]);
        if first > last || last > 32767 {
            let at = text.find("priorities").unwrap_or(0);
            return Err(error(
                at,
                format!("priorities from {first} to {last} are none: they go from 0 to 32767"),
            ));
        }
        let file = ScheduleFile {
            name: name.to_string(),
            config: Config {
                policy: read.policy.unwrap_or(text::PolicyName(Policy::RateMonotonic)).0,
                preemption: read.preemption.map_or(Preemption::Full, Preemption::from),
                one_thread_per_level,
                priorities: first..=last,
            },
            activities: named("activity", read.activity)?,
            objects: named("object", read.object)?,
            processors: processors(read.processors).map_err(|(at, message)| error(at, message))?,
            lines,
            warnings,
            graph,
        };
        match file.graph.order() {
            Ok(_) => Ok(file),
            Err(fault) => Err(file.at(&ScheduleError::Graph(fault))),
        }
    }

    /// Schedules the operations of the file.
    ///
    /// # Errors
    /// [`FileError`] at the operation that cannot be scheduled.
    pub fn schedule(&self) -> Result<Schedule, FileError> {
        self.graph.schedule(self.config.clone()).map_err(|fault| self.at(&fault))
    }

    /// Like [`ScheduleFile::schedule`], for a schedule that is going to run.
    ///
    /// # Errors
    /// Also [`FileError`] for a utilisation over one. Missed deadlines are a verdict.
    pub fn compile(&self) -> Result<Schedule, FileError> {
        let schedule = self.schedule()?;
        match schedule.anomalies.iter().find(|anomaly| anomaly.severity == Severity::Fatal) {
            Some(fatal) => {
                let (file, message) = (self.name.clone(), fatal.description.clone());
                Err(FileError { file, line: 1, message })
            }
            None => Ok(schedule),
        }
    }

    /// The error at an operation's line.
    #[must_use]
    pub fn line_of(&self, operation: &str) -> Option<usize> {
        self.lines.get(operation).copied()
    }

    /// A fault of its operations, at the line of the one that it names.
    #[must_use]
    pub fn at(&self, fault: &ScheduleError) -> FileError {
        // A task of one of several streams is named after its operation and the stream.
        let name = fault.name().map(|name| name.split(" by ").next().unwrap_or(name));
        let line = name.and_then(|name| self.line_of(name)).unwrap_or(1);
        FileError { file: self.name.clone(), line, message: fault.to_string() }
    }
}

/// No machine has a processor with this number.
const MAX_PROCESSOR: u32 = 1024;

/// The processors that a file names.
fn processors(named: Option<toml::Spanned<Vec<u32>>>) -> Result<Vec<usize>, (usize, String)> {
    let Some(named) = named else { return Ok(Vec::new()) };
    let at = named.span().start;
    let mut processors = Vec::new();
    for number in named.into_inner() {
        if number >= MAX_PROCESSOR {
            return Err((at, format!("processor {number}: their numbers are below {MAX_PROCESSOR}")));
        }
        let number = number as usize;
        if processors.contains(&number) {
            return Err((at, format!("processor {number} is named twice")));
        }
        processors.push(number);
    }
    match processors.is_empty() {
        true => Err((at, "processors names none: leave it out for one processor".into())),
        false => Ok(processors),
    }
}

type Requirements = (Vec<Dependency>, Vec<(usize, crate::Nanos)>);

/// The dependencies and resources of an operation, by index.
fn dependencies(graph: &Graph, operation: &text::OperationText) -> Result<Requirements, (usize, String)> {
    let name = operation.name.get_ref();
    let find = |link: &toml::Spanned<text::Link>, call: Call| {
        let other = link.get_ref().operation();
        let on = graph.lookup(other).ok_or_else(|| {
            let unknown = GraphError::Unknown { name: name.clone() };
            (link.span().start, format!("{unknown}: {other}"))
        })?;
        Ok(Dependency { on, call, times: link.get_ref().times() })
    };
    let mut found = Vec::new();
    for link in &operation.after {
        found.push(find(link, Call::OneWay)?);
    }
    for link in &operation.calls {
        found.push(find(link, Call::TwoWay)?);
    }
    let mut holds = Vec::new();
    for hold in &operation.holds {
        let resource = hold.resource.get_ref();
        let place = graph.resources.iter().position(|other| other.name == *resource).ok_or_else(|| {
            (
                hold.resource.span().start,
                format!("{name}: it holds a resource that does not exist: {resource}"),
            )
        })?;
        if hold.time.0 > operation.cost.0 {
            let message = format!(
                "{name}: it holds {resource} for {}, longer than its cost of {}",
                hold.time.0, operation.cost.0
            );
            return Err((hold.resource.span().start, message));
        }
        holds.push((place, hold.time.0));
    }
    Ok((found, holds))
}

impl text::OperationText {
    /// The operation without dependencies and resources.
    fn plain(&self) -> Operation {
        let time = |time: &Option<text::Time>| time.as_ref().map(|time| time.0).unwrap_or_default();
        Operation {
            kind: self.kind.map_or(Kind::Operation, Kind::from),
            worst: self.cost.0,
            typical: time(&self.typical),
            cached: time(&self.cached),
            period: time(&self.period),
            deadline: self.deadline.as_ref().map(|time| time.0),
            jitter: time(&self.jitter),
            blocking: time(&self.blocking),
            section: self.section.as_ref().map(|time| time.0),
            offset: time(&self.offset),
            priority: self.priority,
            criticality: self.criticality.map(Into::into).unwrap_or_default(),
            importance: self.importance.map(Into::into).unwrap_or_default(),
            quantum: time(&self.quantum),
            threads: self.threads,
            ..Operation::new(self.name.get_ref())
        }
    }
}
