//! Child processes that print lines.

use crate::wait_until;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};

/// A child process. Dropping it kills it as `kill -9` does, and waits for its end.
///
/// Its standard input stays open until then, so that a child can end by itself when the test dies.
#[derive(Debug)]
pub struct Process {
    child: Child,
    lines: Option<Lines>,
}

struct Lines(BufReader<Box<dyn Read + Send>>);

impl std::fmt::Debug for Lines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Lines")
    }
}

impl Process {
    /// Starts a command. The test reads its standard output line by line.
    ///
    /// # Panics
    /// Where the command cannot be started.
    pub fn start(command: &mut Command) -> Process {
        let mut child = spawn(command.stdout(Stdio::piped()));
        let output = child.stdout.take().expect("standard output is piped");
        Process { child, lines: Some(Lines(BufReader::new(Box::new(output)))) }
    }

    /// Like [`Process::start`], for a command that prints its lines on standard error, as those of
    /// a test program do.
    ///
    /// # Panics
    /// Where the command cannot be started.
    pub fn start_on_stderr(command: &mut Command) -> Process {
        let mut child = spawn(command.stdout(Stdio::null()).stderr(Stdio::piped()));
        let output = child.stderr.take().expect("standard error is piped");
        Process { child, lines: Some(Lines(BufReader::new(Box::new(output)))) }
    }

    /// Starts a command and discards its standard output.
    ///
    /// # Panics
    /// Where the command cannot be started.
    pub fn unread(command: &mut Command) -> Process {
        Process { child: spawn(command.stdout(Stdio::null())), lines: None }
    }

    /// Starts a command and waits for its line `READY …`. Returns the process and the line's rest,
    /// for example an object URL.
    ///
    /// # Panics
    /// Where the command cannot be started or its first line is another one.
    pub fn ready(command: &mut Command) -> (Process, String) {
        let mut process = Process::start(command);
        let rest = process.expect_line("READY");
        (process, rest)
    }

    /// The next line, without its end. `None` at the end of the output.
    ///
    /// # Panics
    /// Where the output is not read, or not text.
    pub fn next_line(&mut self) -> Option<String> {
        let Lines(output) = self.lines.as_mut().expect("the output is read");
        output.lines().next().map(|line| line.expect("the output is text"))
    }

    /// Reads the next line, which begins with `word`, and returns its rest.
    ///
    /// # Panics
    /// Where the line begins with another word.
    #[track_caller]
    pub fn expect_line(&mut self, word: &str) -> String {
        let line = self.next_line().unwrap_or_default();
        let rest = line.strip_prefix(word).filter(|rest| rest.is_empty() || rest.starts_with(' '));
        let rest = rest.unwrap_or_else(|| panic!("the process printed {line:?} instead of {word}"));
        rest.trim_start().to_owned()
    }

    /// Writes a line to the process's standard input.
    ///
    /// # Panics
    /// Where the process has ended.
    #[track_caller]
    pub fn write_line(&mut self, line: &str) {
        let input = self.child.stdin.as_mut().expect("standard input is piped");
        writeln!(input, "{line}").expect("the process reads");
    }

    /// Closes the process's standard input; its output is still read.
    pub fn close_input(&mut self) {
        self.child.stdin = None;
    }

    /// From now on a thread discards what the process prints, so that a full pipe cannot block it.
    pub fn discard_output(&mut self) {
        if let Some(Lines(mut output)) = self.lines.take() {
            std::thread::spawn(move || io::copy(&mut output, &mut io::sink()));
        }
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The exit status, if the process has ended.
    ///
    /// # Panics
    /// Where the system does not say.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("the process is a child")
    }

    /// Closes the process's standard input and waits for its end. Output that was not read is lost.
    ///
    /// # Panics
    /// Where the system does not say how it ended.
    pub fn finish(mut self) -> ExitStatus {
        self.discard_output();
        self.child.wait().expect("the process is a child")
    }

    /// Kills the process with SIGKILL and waits for its end.
    pub fn kill(&mut self) {
        // An error means that the process has ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The names of the threads of a process that wait in, or are about to make, a `write` to this
/// descriptor.
///
/// # Panics
/// Where the process has ended.
pub fn threads_in_write(process: u32, fd: u32) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).expect("the process runs");
    let writes = |task: &std::path::PathBuf| {
        // The number of the system call, and its arguments in hexadecimal.
        let call = std::fs::read_to_string(task.join("syscall")).unwrap_or_default();
        let write = if cfg!(target_arch = "x86_64") { 1 } else { 64 };
        call.starts_with(&format!("{write} {fd:#x} "))
    };
    let name = |task: std::path::PathBuf| std::fs::read_to_string(task.join("comm")).unwrap_or_default();
    let threads = tasks.flatten().map(|task| task.path()).filter(writes);
    threads.map(|task| name(task).trim().to_owned()).collect()
}

/// Stops a process as a debugger does, and waits until none of its threads runs: the signal stops
/// one after the other, and one that still runs may answer a call.
///
/// # Panics
/// Where the process has ended.
pub fn freeze(process: u32) {
    signal(process, "-STOP");
    let is_stopped = |stat: &str| stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('T'));
    wait_until(format!("all threads of process {process} are stopped"), || {
        let mut threads = std::fs::read_dir(format!("/proc/{process}/task")).expect("the process runs");
        threads.all(|thread| {
            let stat = thread.and_then(|thread| std::fs::read_to_string(thread.path().join("stat")));
            stat.is_ok_and(|stat| is_stopped(&stat))
        })
    });
}

/// Lets a stopped process go on.
///
/// # Panics
/// Where the process has ended.
pub fn resume(process: u32) {
    signal(process, "-CONT");
}

fn signal(process: u32, name: &str) {
    let sent = Command::new("kill").args([name, &process.to_string()]).status();
    assert!(sent.is_ok_and(|status| status.success()), "process {process} has ended: {name}");
}

/// Names the test that a child process of a test program runs.
const ALONE: &str = "ISORB_TEST_ALONE";

/// Runs a test of this program in a process of its own, which `timeout` kills if it hangs: its
/// threads could keep a processor for ever. The test calls this first, with its name, and goes on
/// if it returns `true`, which it does in the child. In the parent it returns `false` after the
/// child's end.
///
/// # Panics
/// Where the child fails, with its output.
pub fn runs_alone(test: &str) -> bool {
    if std::env::var(ALONE).is_ok_and(|name| name == test) {
        return true;
    }
    let program = std::env::current_exe().expect("a test knows its program");
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "60"]).arg(program).args(["--exact", test, "--nocapture"]).env(ALONE, test);
    let output = command.stdin(Stdio::null()).output().expect("timeout starts");
    let text = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
    let (out, error) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{test} in a process of its own: {}\n{out}{error}", output.status);
    out.lines().filter(|line| line.contains("skipped")).for_each(|line| println!("{line}"));
    false
}

fn spawn(command: &mut Command) -> Child {
    let child = command.stdin(Stdio::piped()).spawn();
    child.unwrap_or_else(|error| panic!("{command:?} does not start: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_says_that_it_is_ready_and_ends_with_its_input() {
        let script = "echo READY at=7; echo more; read nothing; exit 3";
        let (mut child, at) = Process::ready(Command::new("sh").args(["-c", script]));
        assert_eq!((&*at, child.next_line().as_deref(), child.ended()), ("at=7", Some("more"), None));
        assert_eq!(child.finish().code(), Some(3));
        let mut child = Process::start_on_stderr(Command::new("sh").args(["-c", "echo READY >&2; cat"]));
        assert_eq!(child.expect_line("READY"), "");
    }
}
