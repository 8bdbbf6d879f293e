//! Every command of the program with wrong arguments: options that do not exist, are mistyped, lack
//! their value or contradict each other; numbers that are none; files that cannot be read or
//! written; octets that no terminal should get.
//!
//! Each is refused with one sentence on standard error and the exit code 2, before the command does
//! anything.

mod common;

use common::{ISORB, isorb, run};
use isorb_testkit::{HANG_LIMIT, TempFolder};
use serde::Deserialize;
use std::ffi::OsString;
use std::io::Read;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// A command, as `isorb command-tree` prints it.
#[derive(Deserialize)]
struct Tried {
    path: Vec<String>,
    commands: Vec<String>,
    needs_more: bool,
    takes_anything: bool,
    arguments: Vec<Argument>,
}

#[derive(Clone, Deserialize)]
struct Argument {
    long: Option<String>,
    short: Option<char>,
    /// The type of its value; `None` for a flag.
    value: Option<String>,
    /// The value's name in the help.
    name: Option<String>,
    conflicts: Vec<String>,
}

impl Argument {
    /// What the user types, and what errors name.
    fn option(&self) -> Option<String> {
        let short = || self.short.map(|short| format!("-{short}"));
        self.long.as_ref().map(|long| format!("--{long}")).or_else(short)
    }

    fn is_file(&self) -> bool {
        let name = self.name.as_deref().unwrap_or_default();
        let is_socket = matches!(self.long.as_deref(), Some("socket" | "unix"));
        self.value.as_deref() == Some("path") && !is_socket && !matches!(name, "DIR" | "FOLDER" | "CLOCK")
    }
}

/// Arguments that a command refuses, and what it says of them.
struct Case {
    arguments: Vec<OsString>,
    says: String,
}

/// What no command takes: with it, a command that took a wrong value would still do nothing.
const UNKNOWN: &str = "--no-such-option";

/// The longest argument that Linux passes on has 128 KiB.
const LONG: usize = 130_000;

fn hostile() -> [OsString; 3] {
    let control = "\u{1b}[31m\r\n\u{7}\u{9b}x";
    [control.into(), "A".repeat(LONG).into(), OsString::from_vec(vec![b'x', 0xff, 0xfe])]
}

/// The word with a letter missing in the middle, where it is long enough to be recognised.
fn mistyped(word: &str, others: &[String]) -> Option<String> {
    let mut letters: Vec<char> = word.chars().collect();
    (letters.len() >= 5).then(|| letters.remove(letters.len() / 2))?;
    let word: String = letters.into_iter().collect();
    (!others.contains(&word)).then_some(word)
}

impl Tried {
    fn case(&self, arguments: &[&str], says: &str) -> Case {
        let words = self.path.iter().map(String::as_str).chain(arguments.iter().copied());
        Case { arguments: words.map(OsString::from).collect(), says: says.to_owned() }
    }

    fn cases(&self) -> Vec<Case> {
        let mut cases = Vec::new();
        if self.takes_anything {
            return cases;
        }
        cases.push(self.case(&[UNKNOWN], "unexpected argument '--no-such-option' found"));
        if self.needs_more {
            cases.push(self.case(&[], ""));
        }
        for command in &self.commands {
            if let Some(command) = mistyped(command, &self.commands) {
                cases.push(self.case(&[&command], "similar subcommand"));
            }
        }
        let longs: Vec<String> = self.arguments.iter().filter_map(|argument| argument.long.clone()).collect();
        for long in &longs {
            if let Some(long) = mistyped(long, &longs) {
                cases.push(self.case(&[&format!("--{long}")], "a similar argument exists: '--"));
            }
        }
        // Those in front of a positional argument need a value that is right.
        let mut before: Vec<OsString> = Vec::new();
        for argument in &self.arguments {
            self.wrong_values(argument, &before, &mut cases);
            self.contradictions(argument, &mut cases);
            if argument.option().is_none() {
                before.push(if argument.is_file() { ISORB } else { "corbaloc::127.0.0.1:1/X" }.into());
            }
        }
        cases
    }

    fn wrong_values(&self, argument: &Argument, before: &[OsString], cases: &mut Vec<Case>) {
        let Some(kind) = argument.value.as_deref() else { return };
        let option = argument.option();
        if let Some(option) = &option {
            cases.push(self.case(&[option], &format!("a value is required for '{option}")));
        }
        let mut push = |value: OsString, says: String, is_wrong: bool| {
            let mut case = self.case(&[], &says);
            match &option {
                Some(option) if option.starts_with("--") => {
                    let mut both = OsString::from(format!("{option}="));
                    both.push(value);
                    case.arguments.push(both);
                }
                Some(option) => case.arguments.extend([option.into(), value]),
                None => {
                    case.arguments.extend(before.iter().cloned());
                    case.arguments.push(value);
                }
            }
            // It would be named before a value without an option.
            if option.is_some() || !is_wrong {
                case.arguments.push(UNKNOWN.into());
            }
            cases.push(case);
        };
        let numbers: &[&str] = match kind {
            "whole" => &["x", "0.5", "", "18446744073709551616", "-1"],
            "signed" => &["x", "0.5", "", "18446744073709551616"],
            "real" => &["x", ""],
            _ => &[],
        };
        let names = option.clone().unwrap_or_default();
        for number in numbers {
            push(number.into(), format!("value_of {names}"), true);
        }
        if argument.is_file() {
            push(".".into(), format!("invalid value '.' for '{names}"), true);
            push("absent/absent".into(), format!("invalid value 'absent/absent' for '{names}"), true);
        }
        for octets in hostile() {
            push(octets, String::new(), false);
        }
    }

    fn contradictions(&self, argument: &Argument, cases: &mut Vec<Case>) {
        let find = |long: &String| self.arguments.iter().find(|other| other.long.as_ref() == Some(long));
        let given = |argument: &Argument| -> Option<Vec<String>> {
            let long = argument.long.as_ref()?;
            Some(match argument.value.as_deref() {
                None => vec![format!("--{long}")],
                Some("whole" | "signed" | "real") => vec![format!("--{long}=1")],
                Some("path") => vec![format!("--{long}={ISORB}")],
                Some(_) => vec![format!("--{long}=127.0.0.1:1")],
            })
        };
        for other in argument.conflicts.iter().filter_map(find) {
            let (Some(one), Some(two)) = (given(argument), given(other)) else { continue };
            let both = [one, two].concat();
            let sure = argument.value.is_none() && other.value.is_none();
            let says = if sure { "cannot be used with" } else { "" };
            cases.push(self.case(&both.iter().map(String::as_str).collect::<Vec<_>>(), says));
        }
    }
}

/// The exit code, standard output and standard error of a command that may not end.
fn ended(arguments: &[OsString], folder: &Path) -> (Option<i32>, Vec<u8>, Vec<u8>) {
    let mut command = Command::new(ISORB);
    command.args(arguments).current_dir(folder).env_remove("ISORB").stdin(Stdio::null());
    let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let start = Instant::now();
    let status = loop {
        if let Some(status) = process.try_wait().unwrap() {
            break status;
        }
        if start.elapsed() > HANG_LIMIT {
            let _ = process.kill();
            panic!("{}: it goes on, or writes much", shown(arguments));
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    let (mut out, mut error) = (Vec::new(), Vec::new());
    process.stdout.take().unwrap().read_to_end(&mut out).unwrap();
    process.stderr.take().unwrap().read_to_end(&mut error).unwrap();
    (status.code(), out, error)
}

fn shown(arguments: &[OsString]) -> String {
    let short = |argument: &OsString| format!("{argument:?}").chars().take(80).collect::<String>();
    arguments.iter().map(short).collect::<Vec<_>>().join(" ")
}

/// What is wrong with how a command refused its arguments.
fn fault(case: &Case, folder: &Path) -> Option<String> {
    let (code, out, error) = ended(&case.arguments, folder);
    let error = String::from_utf8_lossy(&error).into_owned();
    let first = error.lines().next().unwrap_or_default();
    let says = match case.says.strip_prefix("value_of ") {
        // An empty value is missing, another one is invalid.
        Some(names) => {
            first.contains(names) && (first.contains("invalid value") || first.contains("is required"))
        }
        None => error.contains(&case.says),
    };
    let wrong = match () {
        () if code != Some(2) => format!("ends with {code:?}"),
        () if !out.is_empty() => "writes to standard output".to_owned(),
        () if error.contains("panicked") || error.contains("stack backtrace") => "panics".to_owned(),
        () if error.chars().any(|c| c.is_control() && c != '\n') => {
            "sends controls to the terminal".to_owned()
        }
        () if error.len() > 8_000 => format!("says too much: {} octets", error.len()),
        () if error.trim().is_empty() => "says nothing".to_owned(),
        // Without arguments a command shows its help.
        () if !case.says.is_empty() && !first.starts_with("error: ") => {
            "does not begin with the error".to_owned()
        }
        () if !says => format!("does not say {:?}", case.says),
        () if std::fs::read_dir(folder).unwrap().next().is_some() => "leaves a file".to_owned(),
        () => return None,
    };
    let error: String = error.chars().take(300).collect();
    Some(format!("isorb {}: {wrong}: {error:?}", shown(&case.arguments)))
}

/// The faults of all cases, which two threads try.
fn faults(cases: &[Case]) -> Vec<String> {
    let next = AtomicUsize::new(0);
    let try_some = || {
        let folder = TempFolder::new();
        let mut faults = Vec::new();
        while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            faults.extend(fault(case, folder.path()));
        }
        faults
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(try_some);
        let mut faults = try_some();
        faults.extend(other.join().unwrap());
        faults
    })
}

#[test]
fn every_command_refuses_wrong_arguments() {
    let (code, tree, error) = run(&["command-tree"]);
    assert_eq!(code, Some(0), "{error}");
    let commands: Vec<Tried> = tree.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |path: &[&str]| commands.iter().any(|command| command.path == path);
    assert!(of(&[]) && of(&["event", "watch"]) && of(&["memory-coordinator"]), "{tree}");
    let cases: Vec<Case> = commands.iter().flat_map(Tried::cases).collect();
    assert!(cases.len() > 1_000, "{} cases of {} commands", cases.len(), commands.len());
    let faults = faults(&cases);
    assert!(faults.is_empty(), "{} of {}:\n{}", faults.len(), cases.len(), faults.join("\n"));
}

/// What only the command itself can see: it ends with an error that a terminal can show.
#[test]
fn hostile_values_end_a_command_with_an_error() {
    let [control, long, octets] = hostile();
    let folder = TempFolder::new();
    let garbage = folder.file("garbage\u{1b}[31m");
    std::fs::write(&garbage, [&b"module \x1b[31m\x00\xff {"[..], &[b'A'; 100_000]].concat()).unwrap();
    let garbage = garbage.into_os_string();
    let url: OsString = "corbaloc::127.0.0.1:1/X".into();
    let before: [&[&str]; 12] = [
        &["ior"],
        &["new"],
        &["new", "--isorb"],
        &["sched", "check"],
        &["sched", "federation"],
        &["timeline"],
        &["idl", "--check"],
        &["name", "ls", "--ns"],
        &["naming", "--memory", "-ORBEndPoint"],
        &["naming", "--log"],
        &["naming", "--tls"],
        &["event-channel", "--schedule"],
    ];
    let mut tried: Vec<Vec<OsString>> = Vec::new();
    for value in [&control, &long, &octets, &garbage] {
        tried.extend(
            before.iter().map(|words| words.iter().map(OsString::from).chain([value.clone()]).collect()),
        );
        tried.push(vec!["call".into(), "--idl".into(), garbage.clone(), url.clone(), value.clone()]);
        tried.push(vec![
            "event".into(),
            "export".into(),
            garbage.clone(),
            "--perfetto".into(),
            value.clone(),
        ]);
    }
    let own = TempFolder::new();
    for arguments in &tried {
        let (code, out, error) = ended(arguments, own.path());
        let error = String::from_utf8_lossy(&error);
        let what = format!("{}: {}", shown(arguments), error.chars().take(500).collect::<String>());
        assert!(matches!(code, Some(1 | 2)), "{code:?} {what}");
        assert!(out.is_empty() && !error.contains("panicked"), "{what}");
        assert!(!error.chars().any(|c| c.is_control() && !"\n\t".contains(c)), "{what:?}");
        assert!((1..20_000).contains(&error.len()), "{}: {what}", error.len());
    }
    assert_eq!(std::fs::read_dir(own.path()).unwrap().count(), 0, "nothing is left");
    assert_eq!(common::ended(isorb(&["naming", "-ORBEndPoint"])).0, Some(2));
}
