//! A small disk of the process's own: a tmpfs in a mount namespace, filled and emptied.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where the disk is, for the program in the namespace.
const DISK: &str = "ISORB_SOAK_DISK";
/// How the namespace is made: as root of this machine, or as that of a user namespace.
const WAYS: [&[&str]; 2] = [&["--mount"], &["--mount", "--map-root-user"]];

/// The disk.
#[derive(Debug)]
pub struct Disk(PathBuf);

/// Its file that leaves no room; removed when dropped.
#[derive(Debug)]
pub struct Filling(PathBuf);

/// Becomes this program again in a namespace with a disk of 32 MiB at the folder. Returns if there
/// can be none.
///
/// # Errors
/// The program cannot be started again.
pub fn enter(folder: &Path) -> io::Result<()> {
    let may = |way: &&[&str]| {
        let mut command = Command::new("unshare");
        command.args(way.iter()).args(["mount", "-t", "tmpfs", "none", "/mnt"]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    let Some(way) = WAYS.iter().find(|way| may(way)) else { return Ok(()) };
    let script = "mount -t tmpfs -o size=32m none \"$0\" && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(*way).args(["sh", "-c", script]).arg(folder).arg(std::env::current_exe()?);
    Err(command.args(std::env::args_os().skip(1)).env(DISK, folder).exec())
}

impl Disk {
    /// The disk of the namespace that this program was started in.
    pub fn inherited() -> Option<Disk> {
        std::env::var_os(DISK).map(|folder| Disk(folder.into()))
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        &self.0
    }

    /// Fills it.
    ///
    /// # Errors
    /// There can be no file.
    pub fn fill(&self) -> io::Result<Filling> {
        let path = self.0.join("filling");
        let mut file = File::create(&path)?;
        while file.write(&[0; 4096]).is_ok_and(|written| written > 0) {}
        Ok(Filling(path))
    }
}

impl Drop for Filling {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
