//! Runs one experiment of the [catalogue](super::catalogue): the machine, the tables, the verdict.

use std::collections::BTreeMap;
use std::io::Write;

use isorb_rt::sched::RealTime;
use serde::Serialize;

use super::catalogue::Experiment;
use super::{BenchError, Context};
use crate::claim::Verdict;
use crate::machine::Machine;
use crate::process::Launcher;

/// How to run it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// Within a minute.
    pub quick: bool,
    /// JSON lines on standard output, the verdict last; the tables go to standard error then.
    pub json: bool,
    /// Whether what is measured runs at real-time priority.
    pub real_time: RealTime,
    /// Which native priority that is.
    pub priority: u8,
    /// As quick as makes no sense but shows that everything runs.
    pub smoke: bool,
    /// Addresses of servers on another host, by the names of subjects.
    pub servers: Option<BTreeMap<String, String>>,
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
    let Options { quick, json, real_time, priority, smoke, servers } = options;
    let say = |text: &str| if json { eprintln!("{text}") } else { println!("{text}") };
    let seconds = experiment.takes(quick);
    let (mut cx, missing) = Context::new(launcher, real_time, priority, quick, seconds)?;
    cx = cx.smoke(smoke);
    cx.servers = servers;
    say(&format!("{}\n", cx.machine));
    missing.iter().for_each(|text| say(text));
    say(&format!("{}: {}, about {seconds} s\n", experiment.name, experiment.source));
    let outcome = experiment.outcome(&mut cx);
    cx.finish();
    let outcome = outcome?;
    say(&outcome.text());
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
