//! The status of a server for tools in other processes.

use super::status::{AreaStatus, NodeStatus, ReplicaStatus};
use super::{Node, idl_state};
use crate::agents::ReceiveStats;
use crate::idl::{
    Area, AreaReport, AreaReportView, NodeReport, NodeReportView, ReplicaReport, ReplicaReportView,
};
use isorb::{Result, Upcall};
use isorb_rt::time::now_ns;

/// The most areas, and the most replicas, in one answer.
const MOST: usize = 10_000;

impl Node {
    /// Covers at most `limit` areas and as many replicas.
    ///
    /// # Real-time
    /// As [`NodeServer::status`](super::NodeServer::status).
    pub fn report(&self, limit: u32) -> NodeReport {
        let (status, left_out) = self.status((limit as usize).min(MOST));
        let NodeStatus { name, areas, replicas, .. } = status;
        NodeReport {
            node: name,
            taken: now_ns(),
            areas: areas.into_iter().map(area).collect(),
            replicas: replicas.into_iter().map(replica).collect(),
            left_out: u32::try_from(left_out).unwrap_or(u32::MAX),
        }
    }
}

fn area(status: AreaStatus) -> AreaReport {
    let AreaStatus { name, size, histories, data, value, has_writer, period_ns, readers, pushed_to } = status;
    let (guaranteed_to, pushed_to): (Vec<_>, Vec<_>) =
        pushed_to.into_iter().partition(|(_, guaranteed)| *guaranteed);
    let names = |nodes: Vec<(String, bool)>| nodes.into_iter().map(|(node, _)| node).collect();
    AreaReport {
        what: Area::new(name, size, histories).typed(data),
        values: value.sequence,
        age: value.age_ns.unwrap_or(0),
        now: idl_state(value.state),
        has_writer,
        period: period_ns,
        readers: count(readers),
        guaranteed_to: names(guaranteed_to),
        pushed_to: names(pushed_to),
    }
}

fn replica(status: ReplicaStatus) -> ReplicaReport {
    let ReplicaStatus { id, name, value, readers, guaranteed, soft, deadline_ns, counts, .. } = status;
    let counted = |of: fn(&ReceiveStats) -> u64| counts.as_ref().map_or(0, of);
    ReplicaReport {
        name,
        values: value.sequence,
        age: value.age_ns.unwrap_or(0),
        now: idl_state(value.state),
        readers: count(readers),
        guaranteed,
        soft,
        deadline: deadline_ns,
        lost: counted(|counts| counts.counters.not_complete()),
        skipped: counted(|counts| counts.counters.skipped),
        stale: counted(|counts| counts.stale),
        silent: counted(|counts| counts.silent),
        worst_age: counted(|counts| counts.worst_age_ns),
        age_bound: counted(|counts| counts.age_bound_ns.unwrap_or(u64::MAX)),
        which: id,
    }
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// The report as an upcall gives it.
pub(super) fn view<'u>(cx: Upcall<'u>, report: NodeReport) -> Result<NodeReportView<'u>> {
    let report: &'u NodeReport = cx.keep(report)?;
    let mut areas = Vec::with_capacity(report.areas.len());
    for area in &report.areas {
        areas.push(AreaReportView {
            what: super::servants::view(&area.what),
            values: area.values,
            age: area.age,
            now: area.now,
            has_writer: area.has_writer,
            period: area.period,
            readers: area.readers,
            guaranteed_to: names(cx, &area.guaranteed_to)?,
            pushed_to: names(cx, &area.pushed_to)?,
        });
    }
    let replica = |r: &'u ReplicaReport| ReplicaReportView {
        name: &r.name,
        values: r.values,
        age: r.age,
        now: r.now,
        readers: r.readers,
        guaranteed: r.guaranteed,
        soft: r.soft,
        deadline: r.deadline,
        lost: r.lost,
        skipped: r.skipped,
        stale: r.stale,
        silent: r.silent,
        worst_age: r.worst_age,
        age_bound: r.age_bound,
        which: r.which,
    };
    let replicas: Vec<_> = report.replicas.iter().map(replica).collect();
    Ok(NodeReportView {
        node: &report.node,
        taken: report.taken,
        areas: cx.slice(&areas)?,
        replicas: cx.slice(&replicas)?,
        left_out: report.left_out,
    })
}

fn names<'u>(cx: Upcall<'u>, names: &'u [String]) -> Result<crate::idl::NamesView<'u>> {
    let names: Vec<&'u str> = names.iter().map(String::as_str).collect();
    cx.slice(&names)
}
