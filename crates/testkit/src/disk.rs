//! A small disk that a test can fill.

use crate::TempFolder;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

const DISK: &str = "ISORB_TEST_DISK";

/// Runs `body` with a disk of 6 MiB: a tmpfs in a mount namespace of a child, which runs the test
/// with this name again. Where no such namespace can be made, the test is skipped, and says so.
///
/// # Panics
/// If the child fails.
pub fn on_small_disk(test: &str, body: impl FnOnce(&Path)) {
    if let Some(disk) = std::env::var_os(DISK) {
        return body(&PathBuf::from(disk));
    }
    let folder = TempFolder::new();
    let program = std::env::current_exe().expect("the test is a program");
    let status = unshared("mount -t tmpfs -o size=6m none \"$0\" || exit 77; exec \"$@\"")
        .arg(folder.path())
        .arg(program)
        .args([test, "--exact", "--nocapture"])
        .env(DISK, folder.path())
        .status();
    match status.as_ref().map(|status| status.code()) {
        Ok(Some(0)) => {}
        Ok(Some(1 | 77)) | Err(_) if !is_allowed() => {
            eprintln!("skipped: no mount namespace can be made here");
        }
        _ => panic!("{status:?}"),
    }
}

/// Fills a disk. The file can be made shorter.
///
/// # Panics
/// If there can be no file.
pub fn fill_disk(disk: &Path) -> File {
    let mut filling = File::create(disk.join("filler")).expect("a file");
    while filling.write(&[0; 4096]).is_ok() {}
    filling
}

fn unshared(script: &str) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--map-root-user", "sh", "-c", script]);
    command
}

/// Whether a mount namespace with a tmpfs can be made.
fn is_allowed() -> bool {
    unshared("mount -t tmpfs none /mnt").status().is_ok_and(|status| status.success())
}
