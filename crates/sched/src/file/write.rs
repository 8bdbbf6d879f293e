//! Schedule files as text, for example of a recorded configuration.

use super::ScheduleFile;
use crate::graph::{Call, Dependency, Graph, Kind, Operation};
use crate::schedule::Config;
use crate::{Criticality, Importance, Nanos, Preemption};
use std::collections::BTreeMap;
use std::fmt::{self, Display, Write};

impl ScheduleFile {
    /// A file of a graph from another source, for example a configuration run. `name` is its name
    /// in messages.
    #[must_use]
    pub fn of(name: &str, config: Config, graph: Graph) -> ScheduleFile {
        let (activities, objects, processors) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        let (name, lines, warnings) = (name.to_string(), BTreeMap::new(), Vec::new());
        ScheduleFile { name, config, processors, graph, activities, objects, lines, warnings }
    }

    /// The file as text, from which [`parse`](Self::parse) reads the same schedule. Comments of the
    /// original are lost.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = self.write(&mut text);
        text
    }

    fn write(&self, to: &mut String) -> fmt::Result {
        let Config { policy, preemption, one_thread_per_level, priorities } = &self.config;
        let preemption = match preemption {
            Preemption::Full => "full",
            Preemption::Deferred => "deferred",
            Preemption::None => "none",
        };
        writeln!(
            to,
            "policy = \"{policy}\"\npreemption = \"{preemption}\"\none_thread_per_level = {one_thread_per_level}"
        )?;
        writeln!(to, "priorities = [{}, {}]", priorities.start(), priorities.end())?;
        if !self.processors.is_empty() {
            writeln!(to, "processors = {:?}", self.processors)?;
        }
        for operation in self.graph.operations() {
            self.operation(to, operation)?;
        }
        for resource in &self.graph.resources {
            writeln!(to, "\n[[resource]]\nname = {}", quoted(&resource.name))?;
            if let Some(ceiling) = resource.ceiling {
                writeln!(to, "ceiling = {ceiling}")?;
            }
        }
        for (table, named) in [("activity", &self.activities), ("object", &self.objects)] {
            for (name, priority) in named {
                writeln!(to, "\n[[{table}]]\nname = {}\npriority = {priority}", quoted(name))?;
            }
        }
        Ok(())
    }

    fn operation(&self, to: &mut String, operation: &Operation) -> fmt::Result {
        writeln!(to, "\n[[operation]]\nname = {}", quoted(&operation.name))?;
        let kind = match operation.kind {
            Kind::Operation => None,
            Kind::Conjunction => Some("conjunction"),
            Kind::Disjunction => Some("disjunction"),
            Kind::RemoteDependant => Some("remote-dependant"),
        };
        if let Some(kind) = kind {
            writeln!(to, "kind = \"{kind}\"")?;
        }
        let some = |time: Nanos| (!time.is_zero()).then_some(time);
        let times = [
            ("cost", some(operation.worst)),
            ("typical", some(operation.typical)),
            ("cached", some(operation.cached)),
            ("period", some(operation.period)),
            ("deadline", operation.deadline),
            ("jitter", some(operation.jitter)),
            ("blocking", some(operation.blocking)),
            ("section", operation.section),
            ("offset", some(operation.offset)),
            ("quantum", some(operation.quantum)),
        ];
        for (key, time) in times {
            if let Some(time) = time {
                writeln!(to, "{key} = \"{}\"", exact(time))?;
            }
        }
        for (key, number) in [("priority", operation.priority), ("threads", operation.threads)] {
            if number != 0 {
                writeln!(to, "{key} = {number}")?;
            }
        }
        if operation.criticality != Criticality::default() {
            writeln!(to, "criticality = \"{}\"", criticality(operation.criticality))?;
        }
        if operation.importance != Importance::default() {
            writeln!(to, "importance = \"{}\"", importance(operation.importance))?;
        }
        self.links(to, "after", Call::OneWay, &operation.dependencies)?;
        self.links(to, "calls", Call::TwoWay, &operation.dependencies)?;
        let holds = operation.holds.iter().filter_map(|&(place, time)| {
            let resource = quoted(&self.graph.resources.get(place)?.name);
            Some(format!("{{ resource = {resource}, for = \"{}\" }}", exact(time)))
        });
        list(to, "holds", &holds.collect::<Vec<_>>())
    }

    fn links(&self, to: &mut String, key: &str, call: Call, all: &[Dependency]) -> fmt::Result {
        let links = all.iter().filter(|dependency| dependency.call == call).filter_map(|dependency| {
            let name = quoted(&self.graph.get(dependency.on)?.name);
            Some(match dependency.times {
                1 => name,
                times => format!("{{ operation = {name}, times = {times} }}"),
            })
        });
        list(to, key, &links.collect::<Vec<_>>())
    }
}

fn list(to: &mut String, key: &str, all: &[String]) -> fmt::Result {
    if all.is_empty() { Ok(()) } else { writeln!(to, "{key} = [{}]", all.join(", ")) }
}

/// A time in the largest unit in which it is a whole number.
fn exact(time: Nanos) -> impl Display {
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
    let unit = units.into_iter().find(|&(unit, _)| !time.is_zero() && time.ns().is_multiple_of(unit));
    let (unit, name) = unit.unwrap_or((1, "ns"));
    format!("{} {name}", time.ns() / unit)
}

/// A basic string of TOML.
fn quoted(name: &str) -> String {
    let mut text = String::from("\"");
    for c in name.chars() {
        match c {
            '"' | '\\' => text.extend(['\\', c]),
            // TOML writes control characters by number.
            c if c.is_control() => text.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => text.push(c),
        }
    }
    text.push('"');
    text
}

fn criticality(grade: Criticality) -> &'static str {
    match grade {
        Criticality::VeryLow => "very-low",
        Criticality::Low => "low",
        Criticality::Medium => "medium",
        Criticality::High => "high",
        Criticality::VeryHigh => "very-high",
    }
}

fn importance(grade: Importance) -> &'static str {
    match grade {
        Importance::VeryLow => "very-low",
        Importance::Low => "low",
        Importance::Medium => "medium",
        Importance::High => "high",
        Importance::VeryHigh => "very-high",
    }
}
