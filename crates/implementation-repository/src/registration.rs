//! What an administrator says of a server.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;
use std::time::Duration;

/// When a server is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    /// By the first request for one of its objects.
    Normal,
    /// By an administrator only.
    Manual,
    /// As [`Mode::Normal`], and when the repository starts.
    AutoStart,
}

/// A registered server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registration {
    /// Its name: that of the setting `server_name`.
    pub name: String,
    /// The absolute path of its program; empty for a server that is started by others.
    pub program: String,
    /// The arguments of the program. Those that name the repository follow them.
    pub arguments: Vec<String>,
    /// The working folder; empty for that of the repository.
    pub folder: String,
    /// When it is started.
    pub mode: Mode,
    /// How long a start may take until the server registers.
    pub start_timeout: Duration,
    /// Starts in [`restart_period`](Self::restart_period).
    pub restart_limit: u32,
    /// The period of [`restart_limit`](Self::restart_limit).
    pub restart_period: Duration,
}

/// Limits of registrations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Registered servers.
    pub servers: usize,
    /// Requests that wait for one server.
    pub waiting: usize,
    /// How long a server may take to say where an object is.
    pub answer: Duration,
    /// How long a process may take to end after SIGTERM.
    pub stop: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { servers: 1024, waiting: 64, answer: Duration::from_secs(2), stop: Duration::from_secs(10) }
    }
}

/// Why a registration is not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidRegistration(pub String);

impl fmt::Display for InvalidRegistration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for InvalidRegistration {}

const NAME: usize = 255;
const ARGUMENTS: usize = 256;
const OCTETS: usize = 64 << 10;
const LONGEST: Duration = Duration::from_secs(86_400);

impl Registration {
    /// Checks all members.
    ///
    /// # Errors
    /// A sentence about the first that is wrong.
    pub fn check(&self) -> Result<(), InvalidRegistration> {
        let wrong = |sentence: String| Err(InvalidRegistration(sentence));
        // The name is that of the file with the server's output, too.
        let is_plain = |c: char| !c.is_control() && c != '/';
        if self.name.is_empty() || self.name.len() > NAME || !self.name.chars().all(is_plain) {
            return wrong(format!("the name has 1 to {NAME} octets, without control characters and /"));
        }
        if [".", ".."].contains(&&*self.name) {
            return wrong(format!("{} is the name of a folder; give another one", self.name));
        }
        let texts = [&self.program, &self.folder].into_iter().chain(&self.arguments);
        if self.arguments.len() > ARGUMENTS || texts.clone().map(String::len).sum::<usize>() > OCTETS {
            return wrong(format!("a server has at most {ARGUMENTS} arguments, of {OCTETS} octets in all"));
        }
        if texts.clone().any(|text| text.contains('\0')) {
            return wrong("no argument can have a zero octet".into());
        }
        for (what, time) in [("start-timeout", self.start_timeout), ("restart period", self.restart_period)] {
            if time.is_zero() || time > LONGEST {
                return wrong(format!("the {what} is 1 ms to a day, not {time:?}"));
            }
        }
        if self.restart_limit == 0 {
            return wrong("the restart limit is at least 1".into());
        }
        match (self.program.is_empty(), self.mode) {
            (true, Mode::Manual) => {}
            (true, _) => {
                return wrong("a server without a program is started by others: make it manual".into());
            }
            (false, _) if !Path::new(&self.program).is_absolute() => {
                return wrong(format!("{} is no absolute path", self.program));
            }
            (false, _) if !Path::new(&self.program).is_file() => {
                return wrong(format!("{} is no file on the host of the repository", self.program));
            }
            _ => {}
        }
        if !self.folder.is_empty() && !Path::new(&self.folder).is_dir() {
            return wrong(format!("{} is no folder on the host of the repository", self.folder));
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A registration that can be taken.
    pub fn sample(name: &str) -> Registration {
        Registration {
            name: name.into(),
            program: "/bin/true".into(),
            arguments: Vec::new(),
            folder: String::new(),
            mode: Mode::Normal,
            start_timeout: Duration::from_secs(10),
            restart_limit: 3,
            restart_period: Duration::from_secs(60),
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        assert_eq!(sample("lamp").check(), Ok(()));
        type Change = fn(&mut Registration);
        let cases: [(Change, &str); 11] = [
            (|it| it.name.clear(), "1 to 255"),
            (|it| it.name = "../etc".into(), "1 to 255"),
            (|it| it.name = "..".into(), "folder"),
            (|it| it.name = "a\nb".into(), "control"),
            (|it| it.program = "true".into(), "absolute"),
            (|it| it.program = "/no/such/program".into(), "no file"),
            (|it| it.program.clear(), "manual"),
            (|it| it.folder = "/bin/true".into(), "no folder"),
            (|it| it.start_timeout = Duration::ZERO, "start-timeout"),
            (|it| it.restart_limit = 0, "restart limit"),
            (|it| it.arguments = vec!["x".repeat(OCTETS)], "octets"),
        ];
        for (change, message) in cases {
            let mut wrong = sample("lamp");
            change(&mut wrong);
            let InvalidRegistration(sentence) = wrong.check().unwrap_err();
            assert!(sentence.contains(message), "{sentence} instead of {message}");
        }
        let outside = Registration { program: String::new(), mode: Mode::Manual, ..sample("lamp") };
        assert_eq!(outside.check(), Ok(()));
    }
}
