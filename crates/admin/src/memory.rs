//! The numbers of a node's server of reflective memory.

use crate::Source;
use crate::channel::json;
use crate::process::ProcessCounts;
use crate::rate::per_second;
use isorb_reflective_memory::node::{AreaStatus, NodeServer, NodeStatus, ReplicaStatus, ValueStatus};
use serde::Serialize;
use std::collections::HashMap;
use std::sync::Weak;
use std::time::Instant;

/// Areas, and as many replicas, that the page shows: those that come first by name.
const SHOWN: usize = 256;

/// The numbers of a node's server, for an [`Admin`](crate::Admin).
#[derive(Debug)]
pub struct MemorySource {
    server: Weak<NodeServer>,
    before: Option<(Instant, HashMap<String, u64>)>,
}

impl MemorySource {
    /// The numbers of this server, which the value does not keep alive.
    pub fn new(server: Weak<NodeServer>) -> MemorySource {
        MemorySource { server, before: None }
    }
}

impl Source for MemorySource {
    fn sample(&mut self) -> String {
        let Some(server) = self.server.upgrade() else { return r#"{"kind":"ended"}"#.to_owned() };
        let (status, left_out) = server.status(SHOWN);
        let now = Instant::now();
        let ns = self.before.as_ref().map_or(0, |(at, _)| now.duration_since(*at).as_nanos() as u64);
        let no_values = HashMap::new();
        let view = view(&status, left_out, self.before.as_ref().map_or(&no_values, |(_, before)| before), ns);
        let text = json(&view);
        let areas = status.areas.iter().map(|area| (area_key(area), area.value.sequence));
        let replicas = status.replicas.iter().map(|replica| (replica_key(replica), replica.value.sequence));
        self.before = Some((now, areas.chain(replicas).collect()));
        text
    }
}

fn area_key(area: &AreaStatus) -> String {
    format!("a{}", area.name)
}

/// One area may have several replicas here, for readers with different requirements.
fn replica_key(replica: &ReplicaStatus) -> String {
    format!("r{}", replica.id)
}

#[derive(Serialize)]
struct View<'s> {
    kind: &'static str,
    name: &'s str,
    sessions: usize,
    bytes: usize,
    bytes_limit: usize,
    guaranteed: usize,
    cpu: f64,
    cpu_share: f64,
    link: f64,
    link_share: f64,
    left_out: usize,
    process: ProcessCounts,
    areas: Vec<Area<'s>>,
    replicas: Vec<Replica<'s>>,
}

#[derive(Serialize)]
struct Area<'s> {
    name: &'s str,
    size: u32,
    histories: u32,
    #[serde(flatten)]
    value: Value,
    has_writer: bool,
    period_ns: u64,
    readers: usize,
    pushed_to: &'s [(String, bool)],
}

#[derive(Serialize)]
struct Replica<'s> {
    name: &'s str,
    size: usize,
    #[serde(flatten)]
    value: Value,
    readers: usize,
    guaranteed: bool,
    soft: bool,
    deadline_ns: u64,
    datagrams: bool,
    /// Not counted on the ORB's path.
    lost: Option<u64>,
    /// Not sent by the writer's node, because a later value overtook them.
    skipped: Option<u64>,
    recovered: Option<u64>,
    ignored: Option<u64>,
    /// How often the value was older than its readers' deadline.
    missed: Option<u64>,
    silent: Option<u64>,
    worst_age_ns: Option<u64>,
    /// The error bound of ages, in both directions.
    age_bound_ns: Option<u64>,
}

#[derive(Serialize)]
struct Value {
    values: u64,
    rate: Option<f64>,
    age_ns: Option<u64>,
    state: String,
}

impl Value {
    fn of(value: &ValueStatus, before: Option<&u64>, ns: u64) -> Value {
        Value {
            values: value.sequence,
            rate: before.and_then(|before| per_second(*before, value.sequence, ns)),
            age_ns: value.age_ns,
            state: value.state.map_or("damaged".into(), |state| state.to_string()),
        }
    }
}

fn view<'s>(status: &'s NodeStatus, left_out: usize, before: &HashMap<String, u64>, ns: u64) -> View<'s> {
    let area = |area: &'s AreaStatus| Area {
        name: &area.name,
        size: area.size,
        histories: area.histories,
        value: Value::of(&area.value, before.get(&area_key(area)), ns),
        has_writer: area.has_writer,
        period_ns: area.period_ns,
        readers: area.readers,
        pushed_to: &area.pushed_to,
    };
    let replica = |replica: &'s ReplicaStatus| {
        let stats = replica.counts.as_ref();
        Replica {
            name: &replica.name,
            size: replica.size,
            value: Value::of(&replica.value, before.get(&replica_key(replica)), ns),
            readers: replica.readers,
            guaranteed: replica.guaranteed,
            soft: replica.soft,
            deadline_ns: replica.deadline_ns,
            datagrams: replica.datagrams,
            lost: stats.map(|s| s.counters.lost + s.counters.incomplete),
            skipped: stats.map(|s| s.counters.skipped),
            recovered: stats.map(|s| s.counters.recovered),
            ignored: stats.map(|s| {
                let c = &s.counters;
                c.repeated + c.late + c.forged + c.other_epoch + c.malformed
            }),
            missed: stats.map(|s| s.stale),
            silent: stats.map(|s| s.silent),
            worst_age_ns: stats.map(|s| s.worst_age_ns),
            age_bound_ns: stats.and_then(|s| s.age_bound_ns),
        }
    };
    View {
        kind: "reflective-memory",
        name: &status.name,
        sessions: status.sessions,
        bytes: status.bytes.0,
        bytes_limit: status.bytes.1,
        guaranteed: status.guaranteed,
        cpu: status.cpu.0,
        cpu_share: status.cpu.1,
        link: status.link.0,
        link_share: status.link.1,
        left_out,
        process: ProcessCounts::now(),
        areas: status.areas.iter().map(area).collect(),
        replicas: status.replicas.iter().map(replica).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isorb_reflective_memory::memory::State;

    fn value(sequence: u64) -> ValueStatus {
        ValueStatus { sequence, age_ns: (sequence > 0).then_some(1_500), state: Some(State::Open) }
    }

    #[test]
    fn rates_ages_and_misses_are_there() {
        let status = NodeStatus {
            name: "a".into(),
            looks: 0,
            refused_back: 0,
            accept_failures: 0,
            sessions: 1,
            bytes: (4096, 1 << 30),
            guaranteed: 2,
            cpu: (0.25, 0.7),
            link: (0.125, 0.8),
            areas: vec![AreaStatus {
                name: "plant/1".into(),
                size: 64,
                histories: 4,
                data: Default::default(),
                value: value(110),
                has_writer: true,
                period_ns: 10_000_000,
                readers: 3,
                pushed_to: vec![("b".into(), true)],
            }],
            replicas: vec![ReplicaStatus {
                id: 1,
                name: "plant/2".into(),
                size: 32,
                value: value(0),
                readers: 1,
                guaranteed: false,
                soft: false,
                deadline_ns: 0,
                counts: None,
                datagrams: false,
                handle: 7,
            }],
        };
        let before = HashMap::from([("aplant/1".to_owned(), 100)]);
        let text = json(&view(&status, 5, &before, 500_000_000));
        let seen: serde_json::Value = serde_json::from_str(&text).unwrap();
        let area = &seen["areas"][0];
        assert_eq!(
            (&area["rate"], &area["age_ns"], &area["values"]),
            (&20.0.into(), &1_500.into(), &110.into())
        );
        assert_eq!((&area["state"], &area["pushed_to"][0][0]), (&"open".into(), &"b".into()));
        let replica = &seen["replicas"][0];
        assert!(replica["rate"].is_null() && replica["lost"].is_null() && replica["age_ns"].is_null());
        assert_eq!((&seen["left_out"], &seen["link"]), (&5.into(), &0.125.into()));
    }

    #[test]
    fn a_server_that_has_ended_is_said_to_have() {
        assert_eq!(MemorySource::new(Weak::new()).sample(), r#"{"kind":"ended"}"#);
    }
}
