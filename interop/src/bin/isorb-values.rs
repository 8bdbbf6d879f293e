//! Values of isorb beside those of omniORB (`interop/setup.sh omniorb`).
//!
//! ```text
//! isorb-values                     a tree of 10,000 values there and back: isorb and omniORB take turns
//! isorb-values server              as omniORB's program `values`: READY and the references of Boxes and Values
//! isorb-values time VALUES CALLS   the median time of a call, in microseconds
//! ```

use isorb_interop::values::{graph, orb, serve};
use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};

/// Calls of a turn, and turns.
const CALLS: &str = "21";
const TURNS: usize = 11;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match words[..] {
        [] => compare(),
        ["server"] => server(),
        ["time", values, calls] => time(values, calls),
        _ => {
            eprintln!("usage: isorb-values [server | time VALUES CALLS]");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("isorb-values: {error}");
            ExitCode::FAILURE
        }
    }
}

fn server() -> Result<(), Box<dyn Error>> {
    let orb = orb()?;
    let (boxes, values) = serve(&orb)?;
    println!("READY {boxes} {values}");
    std::io::stdout().flush()?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(orb.shutdown(true)?)
}

fn time(values: &str, calls: &str) -> Result<(), Box<dyn Error>> {
    let orb = orb()?;
    let time = graph::time(&orb.resolve(values)?, calls.parse()?)?;
    println!(
        "{:.1}",
        time.ok_or("the tree came back with another size, or there were no calls")?.as_secs_f64() * 1e6
    );
    Ok(())
}

/// A server and the program of its clients.
struct Subject {
    program: PathBuf,
    server: Child,
    values: String,
    times: Vec<f64>,
}

impl Subject {
    fn start(program: PathBuf, arguments: &[&str]) -> Result<Subject, Box<dyn Error>> {
        let mut command = Command::new(&program);
        command.arg("server").args(arguments);
        let mut server = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut ready = String::new();
        BufReader::new(server.stdout.take().ok_or("no output")?).read_line(&mut ready)?;
        let values = ready.split_whitespace().nth(2).ok_or("the server said nothing")?.to_owned();
        Ok(Subject { program, server, values, times: Vec::new() })
    }

    fn turn(&mut self) -> Result<(), Box<dyn Error>> {
        let output = Command::new(&self.program).args(["time", &self.values, CALLS]).output()?;
        let said = String::from_utf8_lossy(&output.stdout);
        self.times
            .push(said.trim().parse().map_err(|_| format!("{} said {said:?}", self.program.display()))?);
        Ok(())
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        // The end of its input ends it.
        drop(self.server.stdin.take());
        let _ = self.server.wait();
    }
}

fn compare() -> Result<(), Box<dyn Error>> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let build = std::env::var_os("ISORB_INTEROP_BUILD").map_or(here.join(".build"), PathBuf::from);
    let omniorb = build.join("omniorb/values");
    if !omniorb.exists() {
        return Err("omniORB's program is not built: run interop/setup.sh omniorb".into());
    }
    let isorb = Subject::start(std::env::current_exe()?, &[])?;
    let mut subjects = [isorb, Subject::start(omniorb, &["-ORBendPoint", "giop:tcp:127.0.0.1:"])?];
    for _ in 0..TURNS {
        subjects.iter_mut().try_for_each(Subject::turn)?;
    }
    let quotients = subjects[0].times.iter().zip(&subjects[1].times).map(|(isorb, omniorb)| isorb / omniorb);
    let mut quotients: Vec<f64> = quotients.collect();
    let [isorb, omniorb] = subjects.each_ref().map(|subject| median(&mut subject.times.clone()));
    println!("10,000 values there and back, medians of {TURNS} turns of {CALLS} calls, in microseconds");
    println!("isorb {isorb:.0}, omniORB {omniorb:.0}, quotient {:.2}", median(&mut quotients));
    Ok(())
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}
