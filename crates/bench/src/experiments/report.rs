//! `isorb-bench report`: several experiments, one page.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;

use super::catalogue::{self, Experiment};
use super::{BenchError, Context, Urgency};
use crate::figure::Outcome;
use crate::page::{Earlier, Report};
use crate::process::Launcher;

/// What to run, and where the page goes.
#[derive(Args, Debug)]
pub struct Options {
    /// Names of experiments; all if not given
    #[arg(value_parser = experiment)]
    experiments: Vec<&'static Experiment>,
    /// Each experiment within a minute
    #[arg(long)]
    quick: bool,
    /// The page
    #[arg(long, value_name = "FILE", default_value = "isorb-report.html")]
    output: PathBuf,
    /// Lines of JSON that `isorb-bench NAME --json` wrote, here or on another machine; may be given
    /// several times, and then only the named experiments run
    #[arg(long, value_name = "FILE")]
    read: Vec<PathBuf>,
    #[command(flatten)]
    urgency: Urgency,
}

fn experiment(name: &str) -> Result<&'static Experiment, String> {
    let names = || catalogue::ALL.iter().map(|experiment| experiment.name).collect::<Vec<_>>().join(", ");
    Experiment::named(name).ok_or_else(|| format!("expected one of: {}", names()))
}

/// Runs them one after the other and writes the page, with what was measured elsewhere. An
/// experiment that cannot run here, or fails, stands on the page with the reason.
pub fn run(launcher: &Launcher, options: &Options) -> Result<(), BenchError> {
    let all: Vec<&Experiment> = catalogue::ALL.iter().collect();
    let runs_all = options.experiments.is_empty() && options.read.is_empty();
    let chosen = if runs_all { &all } else { &options.experiments };
    let read = options.read.iter().map(|file| Earlier::read(file)).collect::<Result<Vec<_>, _>>()?;
    let seconds: u32 = chosen.iter().map(|experiment| experiment.takes(options.quick)).sum();
    let (mut cx, missing) = Context::new(launcher, options.urgency, options.quick, seconds)?;
    println!("{}\n", cx.machine);
    missing.iter().for_each(|text| println!("{text}"));
    println!("{} experiments, about {} min {} s\n", chosen.len(), seconds / 60, seconds % 60);
    let mut results: Vec<(&'static Experiment, Result<Outcome, String>)> = Vec::new();
    for &experiment in chosen {
        let result = experiment.outcome(&mut cx).map_err(|error| error.to_string());
        cx.suspend_progress(|| println!("{}", line(experiment, &result)));
        results.push((experiment, result));
    }
    cx.finish();
    let when = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let page = Report { machine: &cx.machine, when, quick: options.quick, results: &results, earlier: &read }
        .render();
    std::fs::write(&options.output, page.map_err(std::io::Error::from)?)?;
    println!("\nwritten: {}", options.output.display());
    Ok(())
}

fn line(experiment: &Experiment, result: &Result<Outcome, String>) -> String {
    match result {
        Ok(outcome) => format!("{:<18} {}", experiment.name, outcome.summary()),
        Err(why) => format!("{:<18} not run: {why}", experiment.name),
    }
}
