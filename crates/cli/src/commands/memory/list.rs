//! `isorb memory ls`: areas and replicas with their writers, readers and statistics.

use isorb_reflective_memory::Library;
use isorb_reflective_memory::idl::{AreaReport, Glob_CommRef, NodeReport, ReplicaReport, State};
use isorb_reflective_memory::memory;
use std::collections::HashMap;
use std::error::Error;
use std::io::Write;
use std::time::Duration;

/// Lists the areas and replicas of this node.
pub(super) fn here(library: &Library, limit: u32, over: Duration) -> Result<(), Box<dyn Error>> {
    let before = library.report(limit)?;
    std::thread::sleep(over);
    let after = if over.is_zero() { before.clone() } else { library.report(limit)? };
    print(&mut std::io::stdout().lock(), &before, &after)
}

/// Lists the areas and replicas of all nodes.
pub(super) fn all(coordinator: &Glob_CommRef, limit: u32, over: Duration) -> Result<(), Box<dyn Error>> {
    let nodes = coordinator.list_nodes()?;
    let report = |node: &isorb_reflective_memory::idl::Node| {
        node.server.as_ref().and_then(|server| server.report(limit).ok())
    };
    let before: Vec<_> = nodes.iter().map(report).collect();
    std::thread::sleep(over);
    let mut output = std::io::stdout().lock();
    for (node, before) in nodes.iter().zip(before) {
        let after = if over.is_zero() { before.clone() } else { report(node) };
        match (before, after) {
            (Some(before), Some(after)) => {
                writeln!(output, "node {:<25} answers", node.name)?;
                print(&mut output, &before, &after)?;
            }
            _ => writeln!(output, "node {:<25} does not answer", node.name)?,
        }
    }
    // The coordinator also knows the areas of nodes that do not answer.
    for area in coordinator.list_areas()? {
        writeln!(output, "{:<30} {:>10} bytes  on {}", area.what.name, area.what.size, area.node)?;
    }
    Ok(())
}

fn print(output: &mut impl Write, before: &NodeReport, after: &NodeReport) -> Result<(), Box<dyn Error>> {
    // By the node's clock, because the reports take their time.
    let time = Duration::from_nanos(after.taken.saturating_sub(before.taken));
    let values: HashMap<&str, u64> = before.areas.iter().map(|a| (&*a.what.name, a.values)).collect();
    for area in &after.areas {
        let rate = rate(values.get(&*area.what.name), area.values, time);
        writeln!(output, "{}", area_line(area, &rate))?;
    }
    let values: HashMap<u64, u64> = before.replicas.iter().map(|r| (r.which, r.values)).collect();
    for replica in &after.replicas {
        let rate = rate(values.get(&replica.which), replica.values, time);
        writeln!(output, "{}", replica_line(replica, &rate))?;
    }
    if after.left_out != 0 {
        writeln!(output, "{} more; raise --limit to list them", after.left_out)?;
    }
    Ok(())
}

fn rate(before: Option<&u64>, after: u64, time: Duration) -> String {
    match before {
        // A shorter interval gives no meaningful rate.
        Some(before) if time >= Duration::from_millis(1) => {
            format!("{:.1}/s", after.saturating_sub(*before) as f64 / time.as_secs_f64())
        }
        _ => "-".into(),
    }
}

fn area_line(area: &AreaReport, rate: &str) -> String {
    let AreaReport { what, values, age, now, has_writer, period, readers, guaranteed_to, pushed_to } = area;
    let mut line = format!(
        "{:<30} {:>10} bytes {:>5} histories {values:>10} values {rate:>10}  age {:>10}  {}",
        what.name,
        what.size,
        what.histories,
        age_text(*values, *age),
        memory_state(*now),
    );
    match (has_writer, period) {
        (false, _) => line += "  no writer",
        (true, 0) => line += "  written",
        (true, period) => line += &format!("  written every {} ms", *period as f64 / 1e6),
    }
    line += &format!("  {readers} readers here");
    if !what.data.is_octets() {
        line += &format!("  of {}", what.data);
    }
    if !guaranteed_to.is_empty() {
        line += &format!("  guaranteed to {}", guaranteed_to.join(", "));
    }
    if !pushed_to.is_empty() {
        line += &format!("  pushed to {}", pushed_to.join(", "));
    }
    line
}

fn replica_line(replica: &ReplicaReport, rate: &str) -> String {
    let ReplicaReport { name, values, age, now, readers, guaranteed, soft, .. } = replica;
    let ReplicaReport { deadline, lost, skipped, stale, silent, worst_age, age_bound, .. } = replica;
    let mut line = format!(
        "{:<30} {:>10} {:>11} {values:>16} values {rate:>10}  age {:>10}  {}  {readers} readers",
        name,
        "elsewhere",
        match (guaranteed, soft) {
            (true, false) => "guaranteed",
            (true, true) => "soft",
            (false, _) => "",
        },
        age_text(*values, *age) + &bound_text(*values, *age_bound),
        memory_state(*now),
    );
    if *deadline != 0 {
        line += &format!("  within {} ms: missed {stale}", *deadline as f64 / 1e6);
    }
    line + &format!(
        "  lost {lost}  skipped {skipped}  silent {silent}  worst {}",
        age_text(*values, *worst_age)
    )
}

fn age_text(values: u64, ns: u64) -> String {
    match (values, ns) {
        (0, _) => "-".into(),
        (_, ns) if ns < 10_000_000 => format!("{:.1} us", ns as f64 / 1e3),
        (_, ns) if ns < 10_000_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        (_, ns) => format!("{:.1} s", ns as f64 / 1e9),
    }
}

/// How far an age may be wrong.
fn bound_text(values: u64, bound_ns: u64) -> String {
    match bound_ns {
        u64::MAX if values > 0 => " at least".into(),
        0 | u64::MAX => String::new(),
        bound_ns => format!(" +- {}", age_text(1, bound_ns)),
    }
}

/// The state as readers see it.
fn memory_state(state: State) -> memory::State {
    match state {
        State::StateOpen => memory::State::Open,
        State::StateStopped => memory::State::Stopped,
        State::StateStale => memory::State::Stale,
        State::StateDestroyed => memory::State::Destroyed,
        State::StateMoved => memory::State::Moved,
        State::StateWriterGone => memory::State::WriterGone,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_ages_can_be_read() {
        assert_eq!(rate(Some(&10), 60, Duration::from_millis(500)), "100.0/s");
        assert_eq!(rate(None, 60, Duration::from_secs(1)), "-", "it was not there before");
        assert_eq!(rate(Some(&10), 60, Duration::ZERO), "-");
        assert_eq!(rate(Some(&60), 1, Duration::from_secs(1)), "0.0/s", "it was made anew");
        let ages = [(0, 5), (1, 1_500), (1, 25_000_000), (1, 90_000_000_000)].map(|(n, ns)| age_text(n, ns));
        assert_eq!(ages, ["-", "1.5 us", "25.0 ms", "90.0 s"]);
        let bounds = [(1, 0), (1, 60_000), (1, u64::MAX), (0, u64::MAX)].map(|(n, ns)| bound_text(n, ns));
        assert_eq!(bounds, ["", " +- 60.0 us", " at least", ""]);
    }
}
