//! The version of the program, with the commit that it was built from.

use std::path::Path;
use std::process::Command;

fn main() {
    let version = env!("CARGO_PKG_VERSION");
    println!("cargo::rerun-if-env-changed=ISORB_COMMIT");
    // A debug build would be made anew after each commit.
    let is_release = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let commit = std::env::var("ISORB_COMMIT").ok().or_else(|| is_release.then(of_checkout)?);
    let version = commit.map_or(version.to_owned(), |commit| format!("{version} ({commit})"));
    println!("cargo::rustc-env=ISORB_VERSION={version}");
}

/// The commit of the checkout; `None` where the sources are none, or git is missing.
fn of_checkout() -> Option<String> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
        output.status.success().then_some(text).filter(|text| !text.is_empty())
    };
    // Not that of a repository around an unpacked archive.
    git(&["ls-files", "--error-unmatch", "build.rs"])?;
    let head = git(&["rev-parse", "--git-path", "HEAD"])?;
    println!("cargo::rerun-if-changed={head}");
    if let Some(branch) = git(&["symbolic-ref", "--quiet", "HEAD"])
        && let Some(file) = git(&["rev-parse", "--git-path", &branch]).filter(|file| Path::new(file).exists())
    {
        println!("cargo::rerun-if-changed={file}");
    }
    git(&["rev-parse", "--short=10", "HEAD"])
}
