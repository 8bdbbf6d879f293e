//! `isorb sched`: checks whether a schedule meets its deadlines, and draws it.

use clap::{Parser, Subcommand};
use isorb_sched::file::ScheduleFile;
use isorb_sched::schedule::Schedule;
use isorb_sched::{Nanos, Of, Policy};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Debug, Parser)]
#[command(arg_required_else_help = true)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Prints a verdict for each task. The exit code is 1 if a deadline can be missed, and 2 if the
    /// file is wrong.
    Check {
        /// The schedule file (TOML).
        file: PathBuf,
        /// Policy instead of the file's: rms, dm, edf, mlf, muf, criticality, declared.
        #[arg(long)]
        policy: Option<Policy>,
        /// Also prints by how much all costs, all rates and the cost of each operation may grow.
        #[arg(long)]
        margins: bool,
    },
    /// Draws the timeline as a page. The exit codes are those of check.
    Plot {
        /// The schedule file (TOML).
        file: PathBuf,
        /// Policy instead of the file's.
        #[arg(long)]
        policy: Option<Policy>,
        /// File for the page [default: the schedule file with the extension .html].
        #[arg(long)]
        out: Option<PathBuf>,
        /// Time to draw, such as "200 ms" [default: until the schedule repeats, or four periods of
        /// the slowest task].
        #[arg(long)]
        span: Option<Nanos>,
    },
}

pub fn run(args: &Args) -> ExitCode {
    let result = match &args.command {
        Command::Check { file, policy, margins } => check(file, *policy, *margins),
        Command::Plot { file, policy, out, span } => plot(file, *policy, out.as_deref(), *span),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("isorb: {error}");
            ExitCode::from(2)
        }
    }
}

fn check(file: &Path, policy: Option<Policy>, margins: bool) -> Result<bool, Box<dyn Error>> {
    let (read, schedule) = schedule(file, policy)?;
    print!("{}", schedule.table());
    if margins {
        let margin = |of| read.graph.margin(&read.config, of);
        println!(
            "\nevery deadline holds with all costs {}, with all rates {}",
            margin(Of::Costs)?,
            margin(Of::Rates)?
        );
        for (id, operation) in read.graph.operations().iter().enumerate() {
            if !operation.worst.is_zero() {
                println!("  with the cost of {} alone {}", operation.name, margin(Of::Cost(id))?);
            }
        }
    }
    Ok(schedule.schedulable())
}

fn plot(
    file: &Path,
    policy: Option<Policy>,
    out: Option<&Path>,
    span: Option<Nanos>,
) -> Result<bool, Box<dyn Error>> {
    let (_, schedule) = schedule(file, policy)?;
    let title = file.file_stem().unwrap_or_default().to_string_lossy();
    let page = schedule.page(&title, span.unwrap_or_else(|| schedule.span(4)))?;
    let out = out.map_or_else(|| file.with_extension("html"), Path::to_path_buf);
    std::fs::write(&out, page).map_err(|error| format!("{}: {error}", out.display()))?;
    println!("{}", out.display());
    Ok(schedule.schedulable())
}

fn schedule(file: &Path, policy: Option<Policy>) -> Result<(ScheduleFile, Schedule), Box<dyn Error>> {
    let mut read = read(file)?;
    read.config.policy = policy.unwrap_or(read.config.policy);
    let schedule = read.schedule()?;
    Ok((read, schedule))
}

/// Reads a schedule file. Prints its warnings.
pub fn read(file: &Path) -> Result<ScheduleFile, Box<dyn Error>> {
    let name = file.display().to_string();
    let text = std::fs::read_to_string(file).map_err(|error| format!("{name}: {error}"))?;
    let read = ScheduleFile::parse(&name, &text)?;
    for warning in &read.warnings {
        eprintln!("isorb: warning: {warning}");
    }
    Ok(read)
}
