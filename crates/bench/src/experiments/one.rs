//! Runs one experiment of the [catalogue](super::catalogue): the machine, the tables, the verdict.

use std::collections::BTreeMap;
use std::io::Write;

use clap::Args;
use serde::Serialize;

use super::catalogue::Experiment;
use super::{BenchError, Context, Urgency};
use crate::claim::Verdict;
use crate::machine::Machine;
use crate::process::Launcher;

/// How to run it.
#[derive(Args, Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// At most a minute, with fewer samples
    #[arg(long)]
    pub quick: bool,
    /// JSON lines on standard output, the verdict last; the tables go to standard error
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub urgency: Urgency,
    /// Only shows that it runs
    #[arg(long, hide = true)]
    pub smoke: bool,
    /// What `isorb-bench serve` printed on another host: its servers are called (worst)
    #[arg(long, value_name = "FILE", value_parser = servers)]
    pub servers: Option<Servers>,
    /// Blocks of 1,000 cycles of each subject instead of 1,000, for less time (worst)
    #[arg(long, value_name = "N", conflicts_with = "quick", value_parser = clap::value_parser!(u32).range(9..))]
    pub blocks: Option<u32>,
}

/// Addresses of servers on another host, by the names of subjects.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Servers(BTreeMap<String, String>);

fn servers(file: &str) -> Result<Servers, String> {
    let text = std::fs::read_to_string(file).map_err(|error| error.to_string())?;
    serde_json::from_str(&text).map(Servers).map_err(|error| error.to_string())
}

/// The last line: the verdict, and the machine that it was measured on.
#[derive(Serialize)]
struct Last<'a> {
    #[serde(flatten)]
    verdict: &'a Verdict,
    machine: &'a Machine,
}

/// Runs it, and prints.
pub fn run(launcher: &Launcher, experiment: &Experiment, options: Options) -> Result<(), BenchError> {
    let Options { quick, json, urgency, smoke, servers, blocks } = options;
    let print = |text: &str| if json { eprintln!("{text}") } else { println!("{text}") };
    let seconds = match blocks {
        Some(blocks) => experiment.takes(quick).saturating_mul(blocks) / 1_000,
        None => experiment.takes(quick),
    };
    let (mut cx, missing) = Context::new(launcher, urgency, quick, seconds)?;
    cx = cx.smoke(smoke);
    cx.servers = servers.map(|Servers(servers)| servers);
    cx.blocks = blocks.map(|blocks| blocks as usize);
    print(&format!("{}\n", cx.machine));
    missing.iter().for_each(|text| print(text));
    print(&format!("{}: {}, about {seconds} s\n", experiment.name, experiment.source));
    let outcome = experiment.outcome(&mut cx);
    cx.finish();
    let outcome = outcome?;
    print(&outcome.text());
    if json {
        let mut output = std::io::stdout().lock();
        outcome.lines().try_for_each(|row| line(&mut output, &row))?;
        line(&mut output, &Last { verdict: &outcome.verdict, machine: &cx.machine })?;
        output.flush()?;
    }
    Ok(())
}

fn line(output: &mut impl Write, value: &impl Serialize) -> std::io::Result<()> {
    serde_json::to_writer(&mut *output, value)?;
    writeln!(output)
}
