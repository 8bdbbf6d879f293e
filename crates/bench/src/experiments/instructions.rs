//! `isorb-bench instructions`: user-space instructions a call, which repeat exactly where times do not.

use std::ffi::OsString;
use std::path::Path;

use serde::Serialize;

use super::BenchError;
pub use super::counted::Options;
use super::counted::{LONG, SHORT, Tool, all};
use crate::process::Launcher;
use crate::subjects::build::installed;

/// One line of the results: instructions in user space a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Row {
    /// Name of the subject.
    pub subject: &'static str,
    /// In the client's process, all threads.
    pub client_instructions: u64,
    /// In the server's.
    pub server_instructions: u64,
}

/// Counts, and prints as it goes.
pub fn run(launcher: &Launcher, options: &Options) -> Result<(), BenchError> {
    if !installed("valgrind") {
        return Err(BenchError::NoTool("valgrind"));
    }
    let print = |text: String| if options.json { eprintln!("{text}") } else { println!("{text}") };
    print(format!("{}: user-space instructions a call, under callgrind", options.case));
    print(format!("  {:<14} {:>9} {:>9} {:>9}", "subject", "client", "server", "together"));
    all(launcher, options, &Callgrind, |subject, counted| match counted {
        Ok([short, long]) => {
            let row = Row {
                subject: subject.name(),
                client_instructions: a_call(short.client, long.client),
                server_instructions: a_call(short.server, long.server),
            };
            let (client, server) = (row.client_instructions, row.server_instructions);
            print(format!("  {:<14} {client:>9} {server:>9} {:>9}", row.subject, client + server));
            if options.json {
                // Names and numbers cannot fail to be written.
                println!("{}", serde_json::to_string(&row).unwrap_or_default());
            }
        }
        Err(why) => print(format!("  {:<14} {why}", subject.name())),
    })
}

fn a_call(short: u64, long: u64) -> u64 {
    let calls = (LONG - SHORT) as f64;
    (long.saturating_sub(short) as f64 / calls).round() as u64
}

struct Callgrind;

impl Tool for Callgrind {
    type Report = u64;

    fn words(&self, file: &Path) -> Vec<OsString> {
        let mut out = OsString::from("--callgrind-out-file=");
        out.push(file);
        vec!["valgrind".into(), "-q".into(), "--tool=callgrind".into(), out]
    }

    /// The line `summary: N` (callgrind's file format), N being instructions where no cache is simulated.
    fn read(&self, text: &str) -> Option<u64> {
        let line =
            text.lines().find_map(|l| l.strip_prefix("summary:").or_else(|| l.strip_prefix("totals:")))?;
        line.split_ascii_whitespace().next()?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read() {
        let text = "# callgrind format\nversion: 1\nevents: Ir\nsummary: 123456\n\nfn=(1) main\n1 5\n";
        assert_eq!(Callgrind.read(text), Some(123_456));
        assert_eq!(Callgrind.read("events: Ir\ntotals: 77\n"), Some(77));
        assert_eq!(Callgrind.read("events: Ir\nsummary: x\n"), None);
        assert_eq!(Callgrind.read(""), None);
    }

    #[test]
    fn start_and_end_cancel_out() {
        assert_eq!(a_call(1_000_000 + 2_000 * 150, 1_000_000 + 12_000 * 150 + 37), 150);
        assert_eq!(a_call(10, 5), 0);
    }
}
