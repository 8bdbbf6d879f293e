//! `isorb-bench instructions` and `syscalls`: runs of two lengths under a tool that counts.
//!
//! The difference of the two runs is what the calls took: start and end cancel out. Instructions
//! repeat exactly where times do not.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::time::Duration;

use clap::Args;
use serde_json::json;

use super::BenchError;
use crate::cases::Case;
use crate::process::{Launcher, Side};
use crate::progress::Progress;
use crate::protocol::Block;
use crate::subjects::build::installed;
use crate::subjects::{Pair, PairScheduling, Programs, Subject};

/// Calls of the shorter run, and of the longer one.
const CALLS: [usize; 2] = [2_000, 12_000];
/// Programs run tens of times slower there.
const TIMEOUT: Duration = Duration::from_secs(300);

/// What to count.
#[derive(Args, Debug)]
pub struct Options {
    /// One JSON object a line on standard output; the table goes to standard error
    #[arg(long)]
    json: bool,
    /// Subjects, separated by commas; all that differ and can be counted if not given
    #[arg(long, value_delimiter = ',')]
    subjects: Vec<Subject>,
    /// The call
    #[arg(long, default_value = "void")]
    case: Case,
}

impl Options {
    /// The usual ones without some, unless others are named.
    fn subjects(&self, without: &[Subject]) -> Vec<Subject> {
        let usual = || Subject::usual().iter().filter(|subject| !without.contains(subject)).copied();
        if self.subjects.is_empty() { usual().collect() } else { self.subjects.clone() }
    }
}

/// The two raw subjects are one program.
const SAME: &[Subject] = &[Subject::RawAgain];
/// valgrind 3.19, which stable distributions have, does not know `epoll_pwait2`, on which lanes
/// wait.
const NOT_UNDER_VALGRIND: &[Subject] = &[Subject::RawAgain, Subject::IsorbLane, Subject::IsorbBand];

/// Counts by name: instructions have one name.
type Counts = BTreeMap<String, u64>;
type Rates = BTreeMap<String, f64>;

/// A tool that counts.
struct Tool {
    package: &'static str,
    /// Subjects that are counted where they are named only.
    without: &'static [Subject],
    /// The words in front of a program; the tool writes its report to the file.
    words: fn(&Path) -> Vec<OsString>,
    /// Reads a report; `None` if it is not one.
    read: fn(&str) -> Option<Counts>,
    /// The heading of the table.
    heading: String,
    /// The lines of the table and the JSON of a subject, by the rates of client and server.
    show: fn(&'static str, [&Rates; 2]) -> (String, String),
}

/// Counts instructions in user space, and prints as it goes.
pub fn instructions(launcher: &Launcher, options: &Options) -> Result<(), BenchError> {
    let columns = format!("  {:<14} {:>9} {:>9} {:>9}", "subject", "client", "server", "together");
    let heading = format!("{}: user-space instructions a call, under callgrind\n{columns}", options.case);
    let words = |file: &Path| {
        let mut out = OsString::from("--callgrind-out-file=");
        out.push(file);
        vec!["valgrind".into(), "-q".into(), "--tool=callgrind".into(), out]
    };
    let show = |subject, rates: [&Rates; 2]| {
        let [client, server] = rates.map(|rates| rates.values().sum::<f64>().round() as u64);
        let line = format!("  {subject:<14} {client:>9} {server:>9} {:>9}", client + server);
        (line, object(subject, "instructions", [json!(client), json!(server)]))
    };
    let without = NOT_UNDER_VALGRIND;
    run(launcher, options, &Tool { package: "valgrind", without, words, read: read_callgrind, heading, show })
}

/// Counts system calls by name, and prints as it goes.
pub fn syscalls(launcher: &Launcher, options: &Options) -> Result<(), BenchError> {
    let heading = format!("{}: system calls a call, under strace", options.case);
    let words = |file: &Path| {
        let words = ["strace", "-f", "-qq", "-c", "-U", "calls,name", "-o"].map(OsString::from);
        words.into_iter().chain([file.into()]).collect()
    };
    let show = |subject, rates: [&Rates; 2]| {
        // What rounds to nothing is left out, such as a scan every now and then.
        let [client, server] = rates.map(|rates| {
            let rounded = rates.iter().map(|(name, rate)| (name.clone(), (rate * 100.0).round() / 100.0));
            rounded.filter(|(_, rate)| *rate > 0.0).collect::<Rates>()
        });
        let line =
            format!("  {subject:<14} client: {}\n  {:<14} server: {}", list(&client), "", list(&server));
        (line, object(subject, "syscalls", [json!(client), json!(server)]))
    };
    run(
        launcher,
        options,
        &Tool { package: "strace", without: SAME, words, read: read_strace, heading, show },
    )
}

/// A line of the results, its fields in their order.
fn object(subject: &str, what: &str, [client, server]: [serde_json::Value; 2]) -> String {
    format!(r#"{{"subject":"{subject}","client_{what}":{client},"server_{what}":{server}}}"#)
}

/// The line `summary: N` (callgrind's file format), N being instructions where no cache is
/// simulated.
fn read_callgrind(text: &str) -> Option<Counts> {
    let line = text.lines().find_map(|l| l.strip_prefix("summary:").or_else(|| l.strip_prefix("totals:")))?;
    let count = line.split_ascii_whitespace().next()?.parse().ok()?;
    Some(Counts::from([("instructions".to_owned(), count)]))
}

/// A table of two columns between rules, with a sum below.
fn read_strace(text: &str) -> Option<Counts> {
    let rows = text.lines().filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let count = words.next()?.parse().ok()?;
        words.next().filter(|&name| name != "total").map(|name| (name.to_owned(), count))
    });
    let calls: Counts = rows.collect();
    (!calls.is_empty()).then_some(calls)
}

fn list(rates: &Rates) -> String {
    rates.iter().map(|(name, rate)| format!("{name} {rate}")).collect::<Vec<_>>().join(", ")
}

/// Counts each subject that can run, and prints.
fn run(launcher: &Launcher, options: &Options, tool: &Tool) -> Result<(), BenchError> {
    if !installed(tool.package) {
        return Err(BenchError::NoTool(tool.package));
    }
    let print = |text: &str| if options.json { eprintln!("{text}") } else { println!("{text}") };
    print(&tool.heading);
    let subjects = options.subjects(tool.without);
    let progress = Progress::of_steps(subjects.len() as u64 * 2);
    let mut counted_any = false;
    for subject in subjects {
        progress.show(subject.name());
        let counted = match subject.programs(launcher) {
            Ok(programs) => {
                rates(launcher, subject, &programs, tool, options.case, || progress.step(subject.name()))
                    .map_err(|e| format!("failed: {e}"))
            }
            Err(missing) => Err(missing.to_string()),
        };
        counted_any |= counted.is_ok();
        progress.suspend(|| match counted {
            Ok([client, server]) => {
                let (line, json) = (tool.show)(subject.name(), [&client, &server]);
                print(&line);
                if options.json {
                    println!("{json}");
                }
            }
            Err(why) => print(&format!("  {:<14} {why}", subject.name())),
        });
    }
    progress.finish();
    if counted_any { Ok(()) } else { Err(BenchError::NoSubject) }
}

/// The counts a call of client and server.
fn rates(
    launcher: &Launcher,
    subject: Subject,
    programs: &Programs,
    tool: &Tool,
    case: Case,
    mut progress: impl FnMut(),
) -> Result<[Rates; 2], BenchError> {
    let folder = tempfile::tempdir()?;
    let mut count = |calls| {
        let counts = count(launcher, subject, programs, tool, case, calls, folder.path());
        progress();
        counts
    };
    let ([client, server], [longer_client, longer_server]) = (count(CALLS[0])?, count(CALLS[1])?);
    Ok([a_call(&client, &longer_client), a_call(&server, &longer_server)])
}

fn a_call(short: &Counts, long: &Counts) -> Rates {
    let rate = |(name, &count): (&String, &u64)| {
        let more = count.saturating_sub(short.get(name).copied().unwrap_or(0));
        (name.clone(), more as f64 / (CALLS[1] - CALLS[0]) as f64)
    };
    long.iter().map(rate).collect()
}

fn count(
    launcher: &Launcher,
    subject: Subject,
    programs: &Programs,
    tool: &Tool,
    case: Case,
    calls: usize,
    folder: &Path,
) -> Result<[Counts; 2], BenchError> {
    let file = |side: Side| folder.join(side.to_string());
    let under = |side, program: &[OsString]| [(tool.words)(&file(side)), program.to_vec()].concat();
    let wrapped = Programs {
        server: under(Side::Server, &programs.server),
        client: under(Side::Client, &programs.client),
    };
    let mut pair = Pair::start(launcher, subject, &wrapped, PairScheduling::ANY, TIMEOUT)?;
    // Untimed: reading the clock is no part of a call.
    pair.run(Block { case, warm: calls, calls: 0, gap_us: 0 }, TIMEOUT)?;
    pair.end(TIMEOUT)?;
    let report = |side| -> Result<Counts, BenchError> {
        let text = fs::read_to_string(file(side))?;
        (tool.read)(&text).ok_or_else(|| std::io::Error::from(std::io::ErrorKind::InvalidData).into())
    };
    Ok([report(Side::Client)?, report(Side::Server)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_tool_cannot_run_is_counted_where_it_is_named() {
        let of = |subjects: &[Subject]| {
            let options = Options { json: false, subjects: subjects.to_vec(), case: "void".parse().unwrap() };
            options.subjects(NOT_UNDER_VALGRIND)
        };
        let usual = of(&[]);
        assert!(usual.contains(&Subject::Isorb) && !usual.contains(&Subject::IsorbLane));
        assert_eq!(of(&[Subject::IsorbLane]), [Subject::IsorbLane]);
    }

    #[test]
    fn reports_are_read() {
        let text = "# callgrind format\nversion: 1\nevents: Ir\nsummary: 123456\n\nfn=(1) main\n1 5\n";
        let count = |text| read_callgrind(text).map(|counts| counts["instructions"]);
        assert_eq!((count(text), count("events: Ir\ntotals: 77\n")), (Some(123_456), Some(77)));
        assert_eq!((count("events: Ir\nsummary: x\n"), count("")), (None, None));
        let text = "    calls syscall\n--------- ----------------\n       20 sendto\n      3 read\n\
                    --------- ----------------\n       23 total\n";
        let calls = read_strace(text).unwrap();
        assert_eq!(calls, Counts::from([("sendto".into(), 20), ("read".into(), 3)]));
        assert_eq!(read_strace("strace: no\n"), None);
    }

    #[test]
    fn rates_are_of_the_difference() {
        let short = Counts::from([("sendto".into(), 2_005), ("mmap".into(), 30)]);
        let long = Counts::from([("sendto".into(), 12_005), ("mmap".into(), 31), ("futex".into(), 5_000)]);
        let rates = a_call(&short, &long);
        assert_eq!(list(&rates), "futex 0.5, mmap 0.0001, sendto 1");
        assert_eq!(a_call(&long, &short)["mmap"], 0.0);
    }
}
