//! The results that the avionics demo prints.

use super::cast::{Player, suppliers};
use super::machine::Machine;
use isorb_event::federation::FederationCounts;
use isorb_timeline::Timeline;
use isorb_trace::Recording;

/// The trace of a process, with the names of its parties.
pub fn record(name: &str, machine: &Machine, players: &[Player], link: &'static str) -> Recording {
    let mut names = suppliers(players);
    names.push((machine.federation.supplier(), link));
    machine.channel.recording(name, &names)
}

/// A line for each part with its calls, latencies and faults.
pub fn print_players(players: &[Player], recording: &Recording) {
    let timeline = Timeline::of("", std::slice::from_ref(recording));
    println!("\n{}", recording.name);
    println!(
        "  {:<13}{:>7}{:>8}{:>10}{:>11}{:>11}{:>11}{:>11}{:>8}{:>10}{:>11}",
        "consumer",
        "calls",
        "Hz",
        "deadline",
        "resp. p50",
        "p99",
        "max",
        "age p50",
        "missed",
        "overruns",
        "time-outs"
    );
    for player in players {
        let counts = player.consumer.counts();
        let row = timeline.rows.iter().find(|row| row.consumer && row.name == player.name);
        let s = row.map(|row| row.summary()).unwrap_or_default();
        let ages = player.worker.ages();
        let age = ages.get(ages.len() / 2).map_or("-".to_string(), |age| millis(*age));
        let first = row.and_then(|row| Some(row.runs.last()?.start.saturating_sub(row.runs.first()?.start)));
        let rate = first
            .filter(|span| *span > 0)
            .map_or(0.0, |span| s.runs.saturating_sub(1) as f64 * 1e9 / span as f64);
        println!(
            "  {:<13}{:>7}{rate:>8.1}{:>10}{:>11}{:>11}{:>11}{age:>11}{:>8}{:>10}{:>11}",
            player.name,
            counts.pushed,
            millis(player.period.as_nanos() as u64),
            millis(s.response_p50),
            millis(s.response_p99),
            millis(s.response_max),
            counts.missed,
            counts.overruns,
            counts.timeouts,
        );
    }
}

/// The events that crossed the link, as one end counted them.
pub fn print_link(counts: &FederationCounts) {
    println!(
        "  over the link: {} events sent, {} received, {} lost, {} repeated",
        counts.forwarded, counts.received, counts.lost, counts.repeated
    );
}

fn millis(ns: u64) -> String {
    format!("{:.2} ms", ns as f64 / 1e6)
}
