//! `isorb sched`: checks whether a schedule meets its deadlines, and draws it.

use crate::commands::arguments::{to_read, to_write};
use clap::{Parser, Subcommand};
use isorb_sched::federation::FederationFile;
use isorb_sched::file::ScheduleFile;
use isorb_sched::{Nanos, Policy, ScaledQuantity};
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
        #[arg(value_parser = to_read())]
        file: PathBuf,
        /// Policy instead of the file's: rms, dm, edf, mlf, muf, criticality, declared.
        #[arg(long)]
        policy: Option<Policy>,
        /// Also prints by how much all costs, all rates and the cost of each operation may grow.
        #[arg(long)]
        margins: bool,
        /// Places the operations on so many processors, and checks each. Operations that depend on
        /// each other or share a resource stay on one [default: those that the file names].
        #[arg(long, value_name = "N", conflicts_with = "margins",
              value_parser = clap::value_parser!(u16).range(1..=1024))]
        processors: Option<u16>,
    },
    /// Prints the worst case of each event between channels, from its creation, and what gateways
    /// pace by. The exit codes are those of check.
    Federation {
        /// The description of the channels and links (TOML). It names the channels' schedule files,
        /// relative to itself.
        #[arg(value_parser = to_read())]
        file: PathBuf,
    },
    /// Draws the timeline as a page. The exit codes are those of check.
    Plot {
        /// The schedule file (TOML).
        #[arg(value_parser = to_read())]
        file: PathBuf,
        /// Policy instead of the file's.
        #[arg(long)]
        policy: Option<Policy>,
        /// File for the page [default: the schedule file with the extension .html].
        #[arg(long, value_parser = to_write())]
        out: Option<PathBuf>,
        /// Time to draw, such as "200 ms" [default: until the schedule repeats, or four periods of
        /// the slowest task].
        #[arg(long)]
        span: Option<Nanos>,
    },
}

pub fn run(args: &Args) -> ExitCode {
    let result = match &args.command {
        Command::Check { file, policy, margins, processors } => check(file, *policy, *margins, *processors),
        Command::Federation { file } => check_federation(file),
        Command::Plot { file, policy, out, span } => plot(file, *policy, out.as_deref(), *span),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("isorb: {}", crate::printable::lines(&error.to_string()));
            ExitCode::from(2)
        }
    }
}

fn check(
    file: &Path,
    policy: Option<Policy>,
    margins: bool,
    count: Option<u16>,
) -> Result<bool, Box<dyn Error>> {
    let mut read = read(file)?;
    read.config.policy = policy.unwrap_or(read.config.policy);
    if let Some(count) = count {
        return check_each(&read, &(0..usize::from(count)).collect::<Vec<_>>());
    }
    if !read.processors.is_empty() {
        if margins {
            return Err(format!(
                "{}: --margins is for one processor, and it names its processors",
                read.name
            )
            .into());
        }
        return check_each(&read, &read.processors);
    }
    let schedule = read.schedule()?;
    print!("{}", schedule.table());
    if margins {
        let margin = |of| read.graph.margin(&read.config, of);
        println!(
            "\nevery deadline holds with all costs {}, with all rates {}",
            margin(ScaledQuantity::Costs)?,
            margin(ScaledQuantity::Rates)?
        );
        for (id, operation) in read.graph.operations().iter().enumerate() {
            if !operation.worst.is_zero() {
                println!("  with the cost of {} alone {}", operation.name, margin(ScaledQuantity::Cost(id))?);
            }
        }
    }
    Ok(schedule.schedulable())
}

/// Checks the operations on several processors, by these numbers.
fn check_each(read: &ScheduleFile, processors: &[usize]) -> Result<bool, Box<dyn Error>> {
    let partition = read.graph.partition(&read.config, processors.len());
    let partition = partition.map_err(|error| format!("{}: {error}", read.name))?;
    for (number, processor) in processors.iter().zip(&partition.processors) {
        match &processor.schedule {
            Some(schedule) => println!("processor {number}\n{}", schedule.table()),
            None => println!("processor {number}\nno operation\n"),
        }
    }
    partition.refused.iter().for_each(|refused| println!("refused: {}", refused.sentence(processors)));
    Ok(partition.schedulable())
}

/// Checks several channels and the links between them.
fn check_federation(file: &Path) -> Result<bool, Box<dyn Error>> {
    let name = file.display().to_string();
    let text = std::fs::read_to_string(file).map_err(|error| format!("{name}: {error}"))?;
    let folder = file.parent().unwrap_or(Path::new(""));
    let schedule = |name: &str| std::fs::read_to_string(folder.join(name)).map_err(|error| error.to_string());
    let read = FederationFile::parse(&name, &text, schedule)?;
    for warning in &read.warnings {
        eprintln!("isorb: warning: {warning}");
    }
    let report = read.topology.check().map_err(|error| read.at(&error))?;
    print!("{}", report.text());
    Ok(report.holds())
}

fn plot(
    file: &Path,
    policy: Option<Policy>,
    out: Option<&Path>,
    span: Option<Nanos>,
) -> Result<bool, Box<dyn Error>> {
    let mut read = read(file)?;
    read.config.policy = policy.unwrap_or(read.config.policy);
    if read.processors.len() > 1 {
        return Err(format!("{}: a plot is of one processor, and it names several", read.name).into());
    }
    let schedule = read.schedule()?;
    let title = file.file_stem().unwrap_or_default().to_string_lossy();
    let page = schedule.page(&title, span.unwrap_or_else(|| schedule.span(4)))?;
    let out = out.map_or_else(|| file.with_extension("html"), Path::to_path_buf);
    std::fs::write(&out, page).map_err(|error| format!("{}: {error}", out.display()))?;
    println!("{}", out.display());
    Ok(schedule.schedulable())
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
