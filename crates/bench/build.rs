//! Makes Rust of the benchmark's IDL, and finds out which source this is, for the report.

use std::process::Command;

fn main() {
    isorb_idl_rust::Build::new().receive_in_place("Bench::Frame").compile("idl/bench.idl");
    println!("cargo::rerun-if-env-changed=ISORB_COMMIT");
    if std::env::var_os("ISORB_COMMIT").is_some() {
        // Given by a build from an archive.
        return;
    }
    let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) else { return };
    let changed =
        git(&["status", "--porcelain", "--untracked-files=no"]).is_some_and(|files| !files.is_empty());
    println!("cargo::rustc-env=ISORB_COMMIT={commit}{}", if changed { "+" } else { "" });
    // Written by every commit and checkout.
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]) {
        println!("cargo::rerun-if-changed={log}");
    }
}

/// What git says; nothing where there is no git or no repository.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
