//! `isorb-bench campaign`: every system call of each service fails in turn, and the process is
//! killed at each of its store; or at random moments.

mod plan;
mod random;
mod table;
mod trial;

use std::io::Write;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use clap::Args;
use serde_json::json;

use crate::experiments::BenchError;
use crate::faults::circumstances;
use crate::faults::subjects::Subject;
use crate::process::Launcher;
use crate::progress::Progress;
use crate::subjects::build::installed;
use plan::Fault;
pub use table::into_page;
use trial::{Outcome, Setting};

/// What to try.
#[derive(Args, Debug)]
pub struct Options {
    /// Services, separated by commas; all if not given
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    service: Vec<Subject>,
    /// One JSON object a line on standard output; the table goes to standard error
    #[arg(long)]
    json: bool,
    /// One error and two occurrences of each call
    #[arg(long)]
    short: bool,
    /// Occurrences of a call at which it fails, and at which the process is killed
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(2..=1000))]
    depth: u32,
    /// Trials at the same time
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u16).range(1..=64))]
    jobs: u16,
    /// Kills each service so often at random moments under load instead
    #[arg(long, value_name = "ROUNDS", value_parser = clap::value_parser!(u32).range(1..=1_000_000),
        conflicts_with_all = ["json", "short", "depth", "calls"])]
    random: Option<u32>,
    /// Of the random moments
    #[arg(long, default_value_t = 1, requires = "random")]
    seed: u64,
    /// Only these system calls and limits, separated by commas
    #[arg(long, value_delimiter = ',', value_name = "CALL")]
    calls: Vec<String>,
    /// The program isorb; that beside this program if not given
    #[arg(long, value_name = "FILE")]
    isorb: Option<PathBuf>,
    /// Puts the table between the marks of this page, which is docs/reference/reliability.md
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
}

/// A fault that was tried.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tried {
    pub subject: Subject,
    pub fault: Fault,
    pub outcome: Outcome,
}

/// Tries all faults, and prints what held.
///
/// # Errors
/// Where strace or isorb is missing, a scenario fails without a fault, or a promise did not hold.
pub fn run(launcher: &Launcher, options: &Options) -> Result<(), BenchError> {
    let isorb = crate::faults::isorb(options.isorb.as_ref())?;
    let rest = Duration::from_millis(if options.short { 300 } else { 1_000 });
    let setting = Setting { launcher: launcher.clone(), isorb, rest };
    let subjects = if options.service.is_empty() { Subject::ALL.to_vec() } else { options.service.clone() };
    if let Some(rounds) = options.random {
        let (text, held) = random::run(&setting, &subjects, rounds, options.seed);
        println!("{text}");
        if let Some(page) = &options.page {
            into_page(page, random::BEGIN, random::END, &text)?;
        }
        return held;
    }
    if !installed("strace") {
        return Err(BenchError::NoTool("strace"));
    }
    let mut faults = Vec::new();
    for (number, subject) in (0..).zip(subjects) {
        let calls = trial::calls(&setting, subject, number)
            .map_err(|why| BenchError::Service(format!("{subject}, without a fault: {why}")))?;
        let depth = if options.short { 2 } else { options.depth };
        let planned = plan::plan(&calls, depth, options.short);
        let wanted =
            |fault: &Fault| options.calls.is_empty() || options.calls.iter().any(|of| of == fault.call);
        faults.extend(planned.into_iter().filter(wanted).map(|fault| (subject, fault)));
    }
    let tried = all(&setting, options, &faults);
    let text = summary(&tried);
    let print = |text: &str| if options.json { eprintln!("{text}") } else { println!("{text}") };
    print(&text);
    if options.json {
        lines(&tried)?;
    }
    if let Some(page) = &options.page {
        table::publish(page, &text)?;
    }
    let broken = tried.iter().filter(|one| matches!(one.outcome, Outcome::Broken(_))).count();
    match broken {
        0 => Ok(()),
        _ => Err(BenchError::Service(format!("{broken} of {} faults broke a promise", tried.len()))),
    }
}

/// Tries faults, several at a time.
fn all(setting: &Setting, options: &Options, faults: &[(Subject, Fault)]) -> Vec<Tried> {
    let progress = Progress::of_steps(faults.len() as u64);
    let next = AtomicUsize::new(0);
    let tried = Mutex::new(Vec::new());
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some((subject, fault)) = faults.get(number) else { return };
            // The first numbers are those of the scenarios without a fault.
            let outcome = trial::run(setting, *subject, fault, number as u32 + 100);
            if let Outcome::Broken(why) = &outcome {
                progress.suspend(|| eprintln!("BROKEN {subject}, {fault:?}: {why}"));
            }
            progress.step(format_args!("{subject} {}", fault.call));
            let one = Tried { subject: *subject, fault: fault.clone(), outcome };
            tried.lock().unwrap_or_else(PoisonError::into_inner).push((number, one));
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..options.jobs).map(|_| scope.spawn(work)).collect();
        drop(workers);
    });
    progress.finish();
    let mut tried = tried.into_inner().unwrap_or_else(PoisonError::into_inner);
    tried.sort_by_key(|(number, _)| *number);
    tried.into_iter().map(|(_, one)| one).collect()
}

/// The totals, the table, the machine and the date.
fn summary(tried: &[Tried]) -> String {
    let reached = tried.iter().filter(|one| one.outcome != Outcome::NotReached).count();
    let held = tried.iter().filter(|one| one.outcome == Outcome::Held).count();
    format!("{reached} faults were reached, {held} held.\n{}.\n\n{}", circumstances(), table::table(tried))
}

fn lines(tried: &[Tried]) -> std::io::Result<()> {
    let mut output = std::io::stdout().lock();
    for Tried { subject, fault, outcome } in tried {
        let (reached, broken) = match outcome {
            Outcome::NotReached => (false, None),
            Outcome::Held => (true, None),
            Outcome::Broken(why) => (true, Some(why)),
        };
        let line = json!({
            "service": subject.name(), "call": fault.call, "fault": format!("{:?}", fault.made),
            "reached": reached, "broken": broken,
        });
        writeln!(output, "{line}")?;
    }
    output.flush()
}
