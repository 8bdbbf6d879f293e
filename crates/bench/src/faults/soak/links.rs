//! Two nodes of reflective memory on two hosts of the network lab. Their link is unplugged again
//! and again. The latest value arrives when the link is back.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use isorb_netlab::{Host, Lab, LinkSpec, Sorting};

use super::Run;
use crate::faults::daemon::Daemon;

/// How long the link is away, and how long it then stays.
const UNPLUGGED: Duration = Duration::from_secs(3);
const PLUGGED: Duration = Duration::from_secs(12);
/// A value that has not arrived then is lost.
const ARRIVAL: Duration = Duration::from_secs(60);

/// What became of the values.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Times that the link was unplugged.
    pub unplugged: u64,
    /// Values that arrived.
    pub arrived: u64,
    /// What did not hold.
    pub broken: Vec<String>,
}

/// The thread.
#[derive(Debug)]
pub struct Links(JoinHandle<Report>);

impl Links {
    /// Starts the nodes.
    ///
    /// # Errors
    /// Why there is no lab, or no node.
    pub fn start(run: &Arc<Run>, folder: &Path) -> Result<Links, String> {
        let spec = LinkSpec { rate_kbit: 100_000, sorting: Sorting::one_queue() };
        let lab = Lab::build(&spec).map_err(|error| error.to_string())?;
        let folder = folder.join("links");
        std::fs::create_dir(&folder).map_err(|error| error.to_string())?;
        let run = Arc::clone(run);
        Ok(Links(std::thread::spawn(move || {
            let mut report = Report::default();
            if let Err(why) = drive(&run, &lab, &folder, &mut report) {
                report.broken.push(format!("nodes with a link: {why}"));
            }
            report
        })))
    }

    /// Waits for the thread, which sees that the run ends.
    pub fn finish(self) -> Report {
        let broken = vec!["nodes with a link: the thread panicked".to_owned()];
        self.0.join().unwrap_or(Report { broken, ..Report::default() })
    }
}

fn daemon(run: &Run, host: &Host, words: &[&str]) -> Result<Daemon, String> {
    let mut all: Vec<OsString> = ["ip", "netns", "exec", host.namespace()].map(OsString::from).to_vec();
    all.push(run.isorb.clone().into());
    all.extend(words.iter().map(OsString::from));
    Daemon::start(&run.launcher, &all).map_err(|failed| format!("a service does not start: {}", failed.log))
}

fn memory(run: &Run, host: &Host, words: &[&str]) -> Result<String, String> {
    let mut command: Command = host.command(&run.isorb);
    let output = command.arg("memory").args(words).stdin(Stdio::null()).output();
    let output = output.map_err(|error| error.to_string())?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

fn drive(run: &Run, lab: &Lab, folder: &Path, report: &mut Report) -> Result<(), String> {
    let (left, right) = (lab.left(), lab.right());
    let [near, far] = ["left", "right"].map(|name| folder.join(name).display().to_string());
    let [at, there] = [left.address().to_string(), right.address().to_string()];
    let coordinator =
        daemon(run, left, &["memory-coordinator", "--memory", "--open", "--host", &at, "--port", "2810"])?;
    let node = |host, name, socket: &str, at: &str| {
        let words =
            ["memory-server", "--name", name, "--socket", socket, "--host", at, "--open", "--coordinator"];
        daemon(run, host, &[&words[..], &[&coordinator.url]].concat())
    };
    let _near = node(left, "left", &near, &at)?;
    let _far = node(right, "right", &far, &there)?;
    let mut value = 0_u64;
    while !run.ends.load(Ordering::Relaxed) {
        lab.set_plugged(false).map_err(|error| error.to_string())?;
        report.unplugged += 1;
        std::thread::sleep(UNPLUGGED);
        // The writer does not wait for the other node.
        value += 1;
        let text = format!("value {value}");
        memory(
            run,
            left,
            &["--socket", &near, "write", "link", &text, "--create", "64", "--timeout", "20000"],
        )?;
        lab.set_plugged(true).map_err(|error| error.to_string())?;
        let start = Instant::now();
        loop {
            let read = memory(run, right, &["--socket", &far, "dump", "link", "--raw", "--timeout", "5000"]);
            match read {
                Ok(read) if read == text => break,
                other if start.elapsed() > ARRIVAL => {
                    return Err(format!("{text:?} does not arrive after the link is back: {other:?}"));
                }
                _ => std::thread::sleep(Duration::from_millis(200)),
            }
        }
        report.arrived += 1;
        let end = Instant::now() + PLUGGED;
        while Instant::now() < end && !run.ends.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(100));
        }
    }
    Ok(())
}
