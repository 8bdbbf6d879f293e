//! Builds the smallest client and server with the profile `minimum`, checks their sizes, and runs
//! them.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

/// Largest file, without symbols, in bytes. The linker of GNU makes it 5 KiB larger than that of
/// rustc.
const FILE: u64 = 718 << 10;
/// Most resident memory of the server after calls, in KiB.
const RESIDENT_KIB: u64 = 3 << 10;

/// Builds the programs below the target folder of this test. Returns their paths.
fn build() -> [PathBuf; 2] {
    let target =
        Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("the folder lies in the target folder");
    let status = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--profile", "minimum", "-p", env!("CARGO_PKG_NAME")])
        .arg("--target-dir")
        .arg(target)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stdin(Stdio::null())
        .status()
        .expect("cargo can be started");
    assert!(status.success(), "the profile minimum does not build");
    ["minimum-client", "minimum-server"].map(|name| target.join("minimum").join(name))
}

/// A program that ends when this is dropped.
struct Running {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Running {
    fn start(program: &Path, arguments: &[&str]) -> Running {
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program can be started");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        Running { child, output }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("lines of text");
        line.trim().to_owned()
    }

    fn resident_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a process has memory");
        line.trim_end_matches("kB").trim().parse().expect("a number")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn client_and_server_fit_and_work() {
    let [client, server] = build();
    for program in [&client, &server] {
        let bytes = std::fs::metadata(program).expect("it was built").len();
        println!("{}: {} KiB", program.display(), bytes.div_ceil(1024));
        assert!(bytes < FILE, "{} has {bytes} bytes, {FILE} are allowed", program.display());
    }
    let mut serving = Running::start(&server, &[]);
    let reference = serving.line();
    for turns in 1..=3 {
        let text = Running::start(&client, &[&reference]).line();
        assert!(text.ends_with(&format!("turned {turns} times")), "{text}");
    }
    let resident = serving.resident_kib();
    println!("the server's resident memory: {resident} KiB");
    assert!(resident < RESIDENT_KIB, "{resident} KiB are resident, {RESIDENT_KIB} are allowed");
}

#[test]
fn errors_are_printed_without_unwind_tables() {
    let [client, _] = build();
    let output = Command::new(&client).stdin(Stdio::null()).output().expect("it can be started");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && text.contains("which lamp?"), "{text}");
}
