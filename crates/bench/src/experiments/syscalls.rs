//! `isorb-bench syscalls`: which system calls a call makes, on each side.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use serde::Serialize;

use super::BenchError;
pub use super::counted::Options;
use super::counted::{LONG, SHORT, Tool, all};
use crate::process::Launcher;
use crate::subjects::build::installed;

/// System calls by name.
type Calls = BTreeMap<String, u64>;
/// The same, a call.
type Rates = BTreeMap<String, f64>;

/// One line of the results: system calls a call, by name.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Row {
    /// Name of the subject.
    pub subject: &'static str,
    /// In the client's process, all threads.
    pub client_syscalls: Rates,
    /// In the server's.
    pub server_syscalls: Rates,
}

/// Counts, and prints as it goes.
pub fn run(launcher: &Launcher, options: &Options) -> Result<(), BenchError> {
    if !installed("strace") {
        return Err(BenchError::NoTool("strace"));
    }
    let print = |text: String| if options.json { eprintln!("{text}") } else { println!("{text}") };
    print(format!("{}: system calls a call, under strace", options.case));
    all(launcher, options, &Strace, |subject, counted| match counted {
        Ok([short, long]) => {
            let row = Row {
                subject: subject.name(),
                client_syscalls: a_call(&short.client, &long.client),
                server_syscalls: a_call(&short.server, &long.server),
            };
            print(format!("  {:<14} client: {}", row.subject, words(&row.client_syscalls)));
            print(format!("  {:<14} server: {}", "", words(&row.server_syscalls)));
            if options.json {
                // Names and numbers cannot fail to be written.
                println!("{}", serde_json::to_string(&row).unwrap_or_default());
            }
        }
        Err(why) => print(format!("  {:<14} {why}", subject.name())),
    })
}

/// To two digits; what rounds to nothing is left out, such as a scan every now and then.
fn a_call(short: &Calls, long: &Calls) -> Rates {
    let rate = |(name, &count): (&String, &u64)| {
        let more = count.saturating_sub(short.get(name).copied().unwrap_or(0));
        let rate = (more as f64 / (LONG - SHORT) as f64 * 100.0).round() / 100.0;
        (rate > 0.0).then(|| (name.clone(), rate))
    };
    long.iter().filter_map(rate).collect()
}

fn words(rates: &Rates) -> String {
    rates.iter().map(|(name, rate)| format!("{name} {rate}")).collect::<Vec<_>>().join(", ")
}

struct Strace;

impl Tool for Strace {
    type Report = Calls;

    fn words(&self, file: &Path) -> Vec<OsString> {
        let mut words: Vec<OsString> =
            ["strace", "-f", "-qq", "-c", "-U", "calls,name", "-o"].map(Into::into).into();
        words.push(file.into());
        words
    }

    /// A table of two columns between rules, with a sum below.
    fn read(&self, text: &str) -> Option<Calls> {
        let rows = text.lines().filter_map(|line| {
            let mut words = line.split_ascii_whitespace();
            let count = words.next()?.parse().ok()?;
            words.next().filter(|&name| name != "total").map(|name| (name.to_owned(), count))
        });
        let calls: Calls = rows.collect();
        (!calls.is_empty()).then_some(calls)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read() {
        let text = "    calls syscall\n--------- ----------------\n       20 sendto\n      3 read\n\
                    --------- ----------------\n       23 total\n";
        let calls = Strace.read(text).unwrap();
        assert_eq!(calls, Calls::from([("sendto".into(), 20), ("read".into(), 3)]));
        assert_eq!(Strace.read("strace: no\n"), None);
    }

    #[test]
    fn rates_are_of_the_difference() {
        let short = Calls::from([("sendto".into(), 2_005), ("mmap".into(), 30)]);
        let long = Calls::from([("sendto".into(), 12_005), ("mmap".into(), 31), ("futex".into(), 5_000)]);
        let rates = a_call(&short, &long);
        assert_eq!(rates, Rates::from([("sendto".into(), 1.0), ("futex".into(), 0.5)]));
        assert_eq!(words(&rates), "futex 0.5, sendto 1");
    }
}
