//! `isorb-bench federation`: how a federation of event channels grows, in virtual time.

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use isorb_event::federation::growth::{Growth, Plan, RESTING_TICKS, Traffic, grow};
use serde_json::json;

use super::BenchError;

/// The federation.
#[derive(Args, Debug)]
pub struct Options {
    /// Channels, from 2 to 1024
    #[arg(long, default_value_t = Plan::default().channels)]
    channels: usize,
    /// Consumers of each channel
    #[arg(long, default_value_t = Plan::default().consumers)]
    consumers: usize,
    /// The most neighbours below a channel, in the tree that the channels form
    #[arg(long, default_value_t = Plan::default().branches)]
    branches: usize,
    /// Types of events
    #[arg(long, default_value_t = Plan::default().types)]
    types: u32,
    /// How many of the types the consumers of a channel choose from
    #[arg(long, default_value_t = Plan::default().types_of_a_member)]
    types_of_a_channel: u32,
    /// How long a message takes over a link, in milliseconds of virtual time
    #[arg(long, default_value_t = Plan::default().delay_ms)]
    delay: u64,
    /// The time between two announcements of a channel, in milliseconds of virtual time
    #[arg(long, default_value_t = Plan::default().tick_ms)]
    tick: u64,
    /// One JSON object on standard output; the table goes to standard error
    #[arg(long)]
    json: bool,
}

/// Steps of the progress bar.
const STEPS: u64 = 1_000;

/// Simulates and prints.
pub fn run(options: &Options) -> Result<(), BenchError> {
    let plan = Plan {
        channels: options.channels,
        consumers: options.consumers,
        branches: options.branches,
        types: options.types,
        types_of_a_member: options.types_of_a_channel,
        delay_ms: options.delay,
        tick_ms: options.tick,
    };
    let bar = ProgressBar::new(STEPS);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} the federation {msg}, {eta} left") {
        bar.set_style(style);
    }
    let growth = grow(plan, &mut |progress| {
        bar.set_message(progress.phase);
        bar.set_position((progress.done * STEPS as f64) as u64);
    });
    bar.finish_and_clear();
    let growth = growth.map_err(|why| BenchError::Channel(why.to_string()))?;
    let table = table(&growth);
    match options.json {
        true => {
            eprint!("{table}");
            println!("{}", object(&growth));
        }
        false => print!("{table}"),
    }
    Ok(())
}

/// What crosses the links for each member and tick while nothing changes.
fn at_rest(growth: &Growth, of: fn(&Traffic) -> u64) -> f64 {
    of(&growth.at_rest) as f64 / (RESTING_TICKS * growth.plan.channels as u64) as f64
}

fn table(growth: &Growth) -> String {
    let Plan { channels, consumers, branches, types, delay_ms, tick_ms, .. } = growth.plan;
    let rest = |of: fn(&Traffic) -> u64| at_rest(growth, of);
    let memory = match growth.memory {
        Some(octets) => {
            let own = growth.filters / 1024;
            format!("{} KiB a channel, and {own} KiB for its own copy of all filters", octets / 1024)
        }
        None => "unknown: the system does not tell".to_owned(),
    };
    let rows = [
        ("to form", took(growth.formed_ms, &growth.formed)),
        (
            "at rest",
            format!(
                "{:.0} messages, {:.0} interests, {:.0} kB for each channel and tick",
                rest(|traffic| traffic.messages),
                rest(|traffic| traffic.interests),
                rest(|traffic| traffic.octets) / 1e3
            ),
        ),
        ("memory", memory),
        (
            "an event of each type",
            format!(
                "{} ms: {} link crossings for {} pushes",
                growth.events_ms, growth.events.events, growth.events.pushes
            ),
        ),
        ("a new filter", format!("{} ms until all channels know it", growth.change_ms)),
        ("a restarted channel", took(growth.restart_ms, &growth.restart)),
    ];
    let head = format!(
        "{channels} channels in a tree of {branches} branches, {} consumers, {types} types, {delay_ms} ms a link, a tick of {tick_ms} ms (virtual time)\n",
        channels * consumers
    );
    rows.iter().fold(head, |text, (name, row)| text + &format!("  {name:<22} {row}\n"))
}

fn took(ms: u64, traffic: &Traffic) -> String {
    format!(
        "{ms} ms: {} messages, {} interests, {} requests, {:.1} MB",
        traffic.messages,
        traffic.interests,
        traffic.requests,
        traffic.octets as f64 / 1e6
    )
}

fn object(growth: &Growth) -> serde_json::Value {
    let Plan { channels, consumers, branches, types, types_of_a_member, delay_ms, tick_ms } = growth.plan;
    let traffic = |of: &Traffic| {
        json!({
            "messages": of.messages, "interests": of.interests, "requests": of.requests,
            "positions": of.positions, "octets": of.octets, "events": of.events, "pushes": of.pushes,
        })
    };
    json!({
        "channels": channels, "consumers": channels * consumers, "branches": branches, "types": types,
        "types_of_a_channel": types_of_a_member, "delay_ms": delay_ms, "tick_ms": tick_ms,
        "formed_ms": growth.formed_ms, "formed": traffic(&growth.formed),
        "at_rest": traffic(&growth.at_rest), "at_rest_ticks": RESTING_TICKS,
        "memory_octets": growth.memory, "filters_octets": growth.filters,
        "events_ms": growth.events_ms, "events": traffic(&growth.events),
        "change_ms": growth.change_ms,
        "restart_ms": growth.restart_ms, "restart": traffic(&growth.restart),
    })
}
