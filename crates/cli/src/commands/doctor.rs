//! `isorb doctor`: checks whether this machine is set up for real time.

use isorb_doctor::probe::{Latency, Plan, watch};
use isorb_doctor::report::Report;
use isorb_doctor::{Level, Root, Wanted, examine, facts};
use isorb_rt::sched::SchedClass;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Arguments of `isorb doctor`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit code: 0 nothing is blocking, 1 something is (with --strict: or a warning). \
    It looks and measures; it changes nothing.")]
pub struct Args {
    /// Highest native priority that programs will use.
    #[arg(long, default_value_t = Wanted::default().native_priority, value_parser = clap::value_parser!(u8).range(1..=99))]
    priority: u8,
    /// Seconds to measure wake-up latencies in each of two scheduling classes; 0 to skip.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(0..=600))]
    seconds: u64,
    /// Acceptable wake-up latency; a longer one is reported as blocking.
    #[arg(long, value_name = "MICROSECONDS")]
    max_latency: Option<u64>,
    /// Treats warnings as blocking.
    #[arg(long)]
    strict: bool,
    /// Also lists checks without findings.
    #[arg(long)]
    all: bool,
    /// Prints one JSON object.
    #[arg(long)]
    json: bool,
    /// Reads the files below another folder, and measures nothing.
    #[arg(long, value_name = "DIR", hide = true)]
    root: Option<PathBuf>,
}

pub fn run(args: &Args) -> ExitCode {
    let root = args.root.as_ref().map_or_else(Root::system, Root::at);
    let findings = examine(&root, Wanted { native_priority: args.priority });
    let (wake_up, not_measured) = if root.is_system() && args.seconds > 0 {
        measure(args, &root)
    } else {
        (Vec::new(), (!root.is_system()).then(|| "not this machine's".to_owned()))
    };
    let report = Report::new(findings, wake_up, not_measured);
    let too_late = args.max_latency.is_some_and(|most| {
        // A latency that could not be measured is not acceptable.
        let urgent = report.wake_up.iter().find(|latency| latency.fifo.is_some());
        urgent.is_none_or(|latency| latency.max_ns > most.saturating_mul(1000))
    });
    if args.json {
        match serde_json::to_string(&report) {
            Ok(text) => println!("{text}"),
            Err(error) => eprintln!("isorb doctor: {error}"),
        }
    } else {
        print!("{}", report.text(args.all));
        if too_late {
            println!("the longest wake-up latency is longer than asked for, or not known");
        }
    }
    let limit = if args.strict { Level::Warning } else { Level::Blocking };
    if report.verdict >= limit || too_late { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// The ordinary class and the real-time class.
fn measure(args: &Args, root: &Root) -> (Vec<Latency>, Option<String>) {
    let plan = Plan { length: Duration::from_secs(args.seconds), period: Duration::from_millis(1) };
    let cpus = facts::allowed(root);
    let mut measured = Vec::new();
    for class in [SchedClass::Other, SchedClass::Fifo(args.priority)] {
        match watch(plan, class, &cpus) {
            Ok(latency) => measured.push(latency),
            Err(error) => return (measured, Some(error.to_string())),
        }
    }
    (measured, None)
}
