//! The worst case of each event from its creation, the refusals, and what gateways pace by.

use super::merged::{Executor, Merged};
use super::responses::Responses;
use super::{MESSAGE_OVERHEAD, Marking, Topology};
use crate::{Nanos, Response, Utilisation};
use std::collections::BTreeMap;
use std::fmt::Write;

/// What an event spends at one place of its path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The channel, or the link with how it is shared.
    pub place: String,
    /// The longest time there.
    pub time: Nanos,
}

/// A consumer at another channel than the event's supplier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndToEnd {
    /// The consumer, as channel and operation.
    pub consumer: String,
    /// The operation with the arrival that creates the event, or leads to it.
    pub origin: String,
    /// The event.
    pub event: String,
    /// The level at which it crosses links.
    pub level: u8,
    /// From its creation, with the clock errors of its links; `None` where there is no bound.
    pub worst: Option<Nanos>,
    /// From its creation.
    pub deadline: Nanos,
    /// Where the time goes. Empty where there is no bound.
    pub parts: Vec<Part>,
    /// When the consumer is released at the latest after the creation: the `jitter` of the
    /// operation that stands for the event in the schedule of its channel.
    pub released: Option<Nanos>,
}

/// The rate and burst that a gateway admits of a level to a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// The level.
    pub level: u8,
    /// Octets a second, rounded up.
    pub octets_per_second: u64,
    /// Octets that may be sent at once.
    pub burst: u64,
}

/// What is asked of a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkUse {
    /// The link.
    pub name: String,
    /// The share of it that events use.
    pub utilisation: Utilisation,
    /// By level.
    pub paces: Vec<Pace>,
}

/// The result of [`Topology::check`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FederationReport {
    /// The consumers at other channels.
    pub paths: Vec<EndToEnd>,
    /// The links.
    pub links: Vec<LinkUse>,
    /// The share of each channel's processor that is used.
    pub processors: Vec<(String, Utilisation)>,
    /// A sentence for each deadline that is not known to be met, which names the consumer, and the
    /// link or channel that takes most of the time.
    pub refusals: Vec<String>,
}

impl FederationReport {
    /// Whether every deadline is known to be met.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.refusals.is_empty()
    }

    /// The report for people.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = self.write(&mut text);
        text
    }

    fn write(&self, to: &mut String) -> std::fmt::Result {
        for path in &self.paths {
            let worst = path.worst.map_or("no bound".to_string(), |time| time.to_string());
            let verdict = if path.worst.is_some_and(|time| time <= path.deadline) { "met" } else { "MISSED" };
            writeln!(
                to,
                "{} by {} at level {}: worst case {worst} from creation, deadline {}: {verdict}",
                path.consumer, path.origin, path.level, path.deadline
            )?;
            if !path.parts.is_empty() {
                writeln!(to, "  {}", parts(&path.parts))?;
            }
            if let Some(released) = path.released {
                writeln!(to, "  in the schedule of its channel: jitter = \"{released}\"")?;
            }
        }
        writeln!(to)?;
        for (name, utilisation) in &self.processors {
            writeln!(to, "channel {name}: {utilisation} of its processor")?;
        }
        for link in &self.links {
            writeln!(to, "link {}: {} used by events", link.name, link.utilisation)?;
            for pace in &link.paces {
                writeln!(to, "  --pace {}={}:{}", pace.level, pace.octets_per_second, pace.burst)?;
            }
        }
        self.refusals.iter().try_for_each(|refusal| writeln!(to, "refused: {refusal}"))
    }
}

fn parts(parts: &[Part]) -> String {
    let each = parts.iter().map(|part| format!("{} {}", part.time, part.place));
    each.collect::<Vec<_>>().join(" + ")
}

/// Makes the report.
pub(super) fn build(topology: &Topology, merged: &Merged, found: &Responses<'_>) -> FederationReport {
    let channel = |at: usize| topology.channels[at].name.clone();
    let mut report = FederationReport {
        paths: Vec::new(),
        links: link_uses(topology, merged, found),
        processors: found.processors.iter().map(|(at, used)| (channel(*at), *used)).collect(),
        refusals: Vec::new(),
    };
    for (at, utilisation) in &found.wires {
        if *utilisation > Utilisation::ONE {
            report.refusals.push(format!(
                "link {}: its events ask for {utilisation} of it; send fewer or smaller ones, or raise its rate",
                topology.links[*at].name
            ));
        }
    }
    let all = &found.queues.links.all;
    for (task, link) in all.iter().enumerate() {
        let Executor::Channel(_) = merged.executors[link.operation] else { continue };
        let crossed = crossed(merged, found, task);
        let name = &merged.graph.operations()[link.operation].name;
        let origin = &merged.graph.operations()[link.stream.origin].name;
        let deadline = link.task.deadline;
        let worst = found.worst[task].bound();
        let met = worst.is_some_and(|worst| worst <= deadline);
        let Some(Crossed { event, level, by, direct }) = crossed else {
            if !met {
                report.refusals.push(format!(
                    "{name}: its response to {origin} is {}, its deadline {deadline}",
                    found.worst[task]
                ));
            }
            continue;
        };
        let parts = path_parts(topology, merged, found, task);
        if !met {
            report.refusals.push(refusal(
                topology,
                name,
                origin,
                found.worst[task],
                deadline,
                &parts,
                (event, &by),
            ));
        }
        report.paths.push(EndToEnd {
            consumer: name.clone(),
            origin: origin.clone(),
            event: topology.events[event].name.clone(),
            level,
            worst,
            deadline,
            parts,
            released: worst.filter(|_| direct).map(|_| found.tasks[task].jitter),
        });
    }
    report
}

/// The links that the stream of a task has crossed.
struct Crossed {
    /// The last event that did.
    event: usize,
    level: u8,
    /// The links, the last first.
    by: Vec<usize>,
    /// Whether the event itself releases the task.
    direct: bool,
}

/// The links on the way to a task; `None` where there are none.
fn crossed(merged: &Merged, found: &Responses<'_>, task: usize) -> Option<Crossed> {
    let all = &found.queues.links.all;
    let mut seen = vec![false; all.len()];
    let mut next: Vec<(usize, bool)> = all[task].after.iter().map(|(before, _)| (*before, true)).collect();
    let mut first: Option<Crossed> = None;
    while let Some((at, direct)) = next.pop() {
        if std::mem::replace(&mut seen[at], true) {
            continue;
        }
        let operation = all[at].operation;
        let direct = direct && !matches!(merged.executors[operation], Executor::Channel(_));
        if let (Executor::Link(link, level), Some(event)) =
            (merged.executors[operation], merged.messages.get(&operation))
        {
            let crossed = first.get_or_insert(Crossed { event: *event, level, by: Vec::new(), direct });
            crossed.by.push(link);
        }
        next.extend(all[at].after.iter().map(|(before, _)| (*before, direct)));
    }
    first
}

/// Where the time of a task goes, from the creation of the event on.
fn path_parts(topology: &Topology, merged: &Merged, found: &Responses<'_>, task: usize) -> Vec<Part> {
    let all = &found.queues.links.all;
    let mut parts: Vec<Part> = Vec::new();
    let mut at = task;
    loop {
        let link = &all[at];
        let before = link.after.iter().filter_map(|(before, wait)| {
            Some((found.worst[*before].bound()?.plus(*wait).plus(link.stream.wait), *before))
        });
        let before = before.max();
        let Some(done) = found.worst[at].bound() else { return Vec::new() };
        let own = done.minus(before.map_or(Nanos::ZERO, |(released, _)| released));
        let place = match merged.executors[link.operation] {
            Executor::Channel(channel) | Executor::Gateway(channel, _) => {
                format!("at {}", topology.channels[channel].name)
            }
            Executor::Link(link, _) => link_place(topology, link),
            Executor::Delay => "under way".into(),
        };
        let add = |parts: &mut Vec<Part>, place: String, time: Nanos| match parts.last_mut() {
            _ if time.is_zero() => {}
            Some(last) if last.place == place => last.time = last.time.plus(time),
            _ => parts.push(Part { place, time }),
        };
        add(&mut parts, place, own);
        let Some((released, previous)) = before else { break };
        let waited = released.minus(found.worst[previous].bound().unwrap_or_default());
        add(&mut parts, "for delays and clock errors".into(), waited);
        at = previous;
    }
    parts.reverse();
    parts
}

fn link_place(topology: &Topology, link: usize) -> String {
    let link = &topology.links[link];
    match link.marking {
        Marking::Marked => format!("on link {}", link.name),
        Marking::Unmarked(queue) => {
            format!("on link {} (unmarked, behind {} octets)", link.name, queue.unwrap_or(u64::MAX))
        }
    }
}

fn refusal(
    topology: &Topology,
    consumer: &str,
    origin: &str,
    worst: Response,
    deadline: Nanos,
    parts: &[Part],
    (event, by): (usize, &[usize]),
) -> String {
    let event = &topology.events[event].name;
    let Some(most) = parts.iter().max_by_key(|part| part.time) else {
        let links: Vec<&str> = by.iter().rev().map(|link| topology.links[*link].name.as_str()).collect();
        return format!(
            "{consumer}: event {event} of {origin} has no bound from its creation (link {}), its deadline is \
             {deadline}",
            links.join(", ")
        );
    };
    let worst = worst.bound().map_or_else(|| worst.to_string(), |time| time.to_string());
    format!(
        "{consumer}: event {event} of {origin} takes up to {worst} from its creation, its deadline is {deadline}; \
         most of it, {}, {}",
        most.time, most.place
    )
}

fn link_uses(topology: &Topology, merged: &Merged, found: &Responses<'_>) -> Vec<LinkUse> {
    let mut paces: BTreeMap<(usize, u8), (u128, u64)> = BTreeMap::new();
    for (task, link) in found.queues.links.all.iter().enumerate() {
        let Executor::Link(on, level) = merged.executors[link.operation] else { continue };
        let event = merged.messages.get(&link.operation).map(|event| &topology.events[*event]);
        let octets = event.map_or(0, |event| event.octets.saturating_add(MESSAGE_OVERHEAD));
        let at_once = octets.saturating_mul(u64::from(link.stream.times));
        let period = u128::from(link.stream.period.ns().max(1));
        let rate = (u128::from(at_once) * 1_000_000_000).div_ceil(period);
        // Late releases may catch up: those of the jitter come with the next one.
        let caught_up = 1 + found.tasks[task].jitter.ns() / link.stream.period.ns().max(1);
        let pace = paces.entry((on, level)).or_default();
        pace.0 += rate;
        pace.1 = pace.1.saturating_add(at_once.saturating_mul(caught_up + 1));
    }
    let uses = topology.links.iter().enumerate().map(|(at, link)| LinkUse {
        name: link.name.clone(),
        utilisation: found.wires.get(&at).copied().unwrap_or_default(),
        paces: paces
            .range((at, 0)..=(at, u8::MAX))
            .map(|((_, level), (rate, burst))| Pace {
                level: *level,
                octets_per_second: u64::try_from(*rate).unwrap_or(u64::MAX),
                burst: *burst,
            })
            .collect(),
    });
    uses.collect()
}
