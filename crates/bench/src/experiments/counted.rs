//! Runs of two lengths under a tool that counts: the difference is what the calls took, start and end cancel out.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::BenchError;
use crate::cases::Case;
use crate::process::{Launcher, Role};
use crate::protocol::Block;
use crate::subjects::{Pair, Places, Programs, Subject};

/// Calls of the shorter run.
pub const SHORT: usize = 2_000;
/// Calls of the longer run.
pub const LONG: usize = 12_000;

/// Programs run tens of times slower there.
const PATIENCE: Duration = Duration::from_secs(300);

/// What to count.
#[derive(Clone, Debug)]
pub struct Options {
    /// The subjects.
    pub subjects: Vec<Subject>,
    /// The call.
    pub case: Case,
    /// JSON on standard output instead of the table, which goes to standard error then.
    pub json: bool,
}

/// A tool that counts.
pub trait Tool {
    /// Its report on one process.
    type Report;

    /// The words in front of a program; the tool writes its report to `file`.
    fn words(&self, file: &Path) -> Vec<OsString>;

    /// Reads a report; `None` if it is not one.
    fn read(&self, text: &str) -> Option<Self::Report>;
}

/// The reports on client and server of one run.
pub struct Counted<R> {
    /// On the client.
    pub client: R,
    /// On the server.
    pub server: R,
}

/// Runs `subject` for [`SHORT`] and for [`LONG`] calls under `tool`. `progress` is called after each run.
pub fn count<T: Tool>(
    launcher: &Launcher,
    subject: Subject,
    programs: &Programs,
    tool: &T,
    case: Case,
    mut progress: impl FnMut(),
) -> Result<[Counted<T::Report>; 2], BenchError> {
    let folder = Scratch::new()?;
    let mut run = |calls| {
        let counted = once(launcher, subject, programs, tool, case, calls, &folder.0);
        progress();
        counted
    };
    Ok([run(SHORT)?, run(LONG)?])
}

fn once<T: Tool>(
    launcher: &Launcher,
    subject: Subject,
    programs: &Programs,
    tool: &T,
    case: Case,
    calls: usize,
    folder: &Path,
) -> Result<Counted<T::Report>, BenchError> {
    let file = |role: Role| folder.join(role.to_string());
    let under = |role, program: &[OsString]| [tool.words(&file(role)), program.to_vec()].concat();
    let wrapped = Programs {
        server: under(Role::Server, &programs.server),
        client: under(Role::Client, &programs.client),
    };
    let mut pair = Pair::start(launcher, subject, &wrapped, Places::ANYWHERE, PATIENCE)?;
    // Untimed: reading the clock is no part of a call.
    pair.run(Block { case, warm: calls, calls: 0 }, PATIENCE)?;
    pair.end(PATIENCE)?;
    let report = |role| -> Result<T::Report, BenchError> {
        let text = fs::read_to_string(file(role))?;
        tool.read(&text).ok_or_else(|| std::io::Error::from(std::io::ErrorKind::InvalidData).into())
    };
    Ok(Counted { client: report(Role::Client)?, server: report(Role::Server)? })
}

/// Finds out who can run, counts each, and hands what came of it to `each`.
pub fn all<T: Tool>(
    launcher: &Launcher,
    options: &Options,
    tool: &T,
    mut each: impl FnMut(Subject, Result<[Counted<T::Report>; 2], String>),
) -> Result<(), BenchError> {
    let bar = ProgressBar::new(options.subjects.len() as u64 * 2);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {msg}, {eta} left") {
        bar.set_style(style);
    }
    let mut counted_any = false;
    for &subject in &options.subjects {
        bar.set_message(subject.name());
        let counted = match subject.programs(launcher) {
            Ok(programs) => count(launcher, subject, &programs, tool, options.case, || bar.inc(1))
                .map_err(|e| format!("failed: {e}")),
            Err(missing) => Err(missing.to_string()),
        };
        counted_any |= counted.is_ok();
        bar.suspend(|| each(subject, counted));
    }
    bar.finish_and_clear();
    if counted_any { Ok(()) } else { Err(BenchError::NoSubject) }
}

/// A folder that goes when this is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> std::io::Result<Scratch> {
        use std::sync::atomic::{AtomicU32, Ordering};
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("isorb-bench-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(name);
        // Fails if somebody else has made it: what is in there would not be ours.
        fs::create_dir(&folder)?;
        Ok(Scratch(folder))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A few files are left in the temporary folder if this fails.
        let _ = fs::remove_dir_all(&self.0);
    }
}
