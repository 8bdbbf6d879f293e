//! Files of other users in shared folders: what `isorb demo` writes and which configuration is
//! read.

mod common;

use common::ISORB;
use isorb_testkit::{Process, TempFolder};
use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::process::{Command, Stdio};

#[test]
fn the_demo_does_not_write_through_links_in_the_temporary_folder() {
    let (shared, victim) = (TempFolder::new(), TempFolder::new());
    // `exec` keeps the process id, so that the shell can plant a link under a name made of it.
    let script = "ln -s \"$1\" \"$TMPDIR/isorb-avionics-$$\" && exec \"$0\" demo --seconds 1 --real-time off";
    let output = Command::new("sh")
        .args(["-c", script, ISORB])
        .arg(victim.path())
        .env("TMPDIR", shared.path())
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(std::fs::read_dir(victim.path()).unwrap().count(), 0, "the demo followed the link");
    let page = printed.lines().find_map(|line| line.strip_prefix("timeline  ")).unwrap();
    let folder = std::path::Path::new(page).parent().unwrap();
    assert!(folder.starts_with(shared.path()) && folder.join("perfetto.json").exists(), "{printed}");
    assert_eq!(std::fs::metadata(folder).unwrap().permissions().mode() & 0o777, 0o700);
}

/// Whether `isorb naming` starts in a folder, and what it prints on standard error.
fn starts_in(folder: &TempFolder, more: &[&str]) -> (bool, String) {
    let mut command = Command::new(ISORB);
    command.args(["naming", "--memory", "--port", "0"]).args(more).current_dir(folder.path());
    let errors = folder.file("errors");
    let mut process = Process::start(command.stderr(Stdio::from(std::fs::File::create(&errors).unwrap())));
    let ready = process.next_line().is_some_and(|line| line.starts_with("READY "));
    if !ready {
        process.finish();
    }
    (ready, std::fs::read_to_string(&errors).unwrap())
}

#[test]
fn a_configuration_that_another_user_could_have_written_is_not_read() {
    let folder = TempFolder::new();
    let file = folder.file("isorb.toml");
    std::fs::write(&file, "giop = \"1.2\"\n").unwrap();
    set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    assert_eq!(starts_in(&folder, &[]), (true, String::new()));
    set_permissions(&file, Permissions::from_mode(0o666)).unwrap();
    let (ready, error) = starts_in(&folder, &[]);
    assert!(!ready && error.contains("isorb.toml") && error.contains("mode 666"), "{error}");
    // A file that is named is the user's choice.
    assert_eq!(starts_in(&folder, &["-ORBConfig", "isorb.toml"]), (true, String::new()));

    const NOBODY: u32 = 65534;
    set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    if chown(&file, Some(NOBODY), None).is_err() {
        return println!("skipped in part: only root can give a file to another user");
    }
    let (ready, error) = starts_in(&folder, &[]);
    assert!(!ready && error.contains("isorb.toml") && error.contains("user 65534"), "{error}");
}
