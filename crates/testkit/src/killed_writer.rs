//! A child that writes and acknowledges until it is killed.

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// When a writer is killed.
#[derive(Clone, Copy, Debug)]
pub enum KilledAfter {
    /// So long after its start: perhaps while it opens its file.
    Start(Duration),
    /// So long after its first acknowledgement, however late the machine lets that come.
    Acknowledgement(Duration),
}

/// Runs a command until it is killed, and returns what followed `ack ` in lines of its output.
///
/// # Panics
/// Where it ends before of itself.
pub fn acknowledged_before_kill(command: &mut Command, when: KilledAfter) -> Vec<String> {
    let mut child = command.stdout(Stdio::piped()).spawn().expect("the command can be started");
    let output = BufReader::new(child.stdout.take().expect("its output is a pipe"));
    let (first, first_came) = mpsc::channel();
    let killer = std::thread::spawn(move || {
        let delay = match when {
            KilledAfter::Start(delay) => delay,
            KilledAfter::Acknowledgement(delay) => {
                // An error is the end of the output: of the child, too.
                let _ = first_came.recv();
                delay
            }
        };
        std::thread::sleep(delay);
        child.kill().expect("a child can be killed");
        let ended = child.wait().expect("a child can be waited for");
        assert_eq!(ended.signal(), Some(9), "it ended of itself");
    });
    // A test harness writes to standard output, too.
    let lines = output.split(b'\n').map_while(Result::ok);
    let acknowledged = lines.filter_map(|line| String::from_utf8(line.strip_prefix(b"ack ")?.into()).ok());
    let acknowledged = acknowledged
        .inspect(|_| {
            let _ = first.send(());
        })
        .collect();
    drop(first);
    killer.join().expect("only the kill ends it");
    acknowledged
}
