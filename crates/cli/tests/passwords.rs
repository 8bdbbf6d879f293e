//! User names and passwords at a service: `--users`, `--login` and `isorb user`.

mod common;

use common::{Ended, Service, ended, isorb, run};
use isorb_testkit::{TempFolder, wait_until};
use isorb_tls::testing::Authority;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

/// Writes a file that only its owner can read.
fn secret(folder: &TempFolder, name: &str, text: &str) -> String {
    let file = folder.text(name);
    std::fs::write(&file, text).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    file
}

/// The line that `isorb user` prints.
fn line(user: &str, password: &str) -> String {
    let mut command = isorb(&["user", user]);
    let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    process.stdin.take().unwrap().write_all(format!("{password}\n").as_bytes()).unwrap();
    let output = process.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

fn tls(authority: &Authority, name: &str) -> String {
    authority.sign(name).unwrap();
    let file = |name: String| authority.folder().join(name).display().to_string();
    let (certificate, key) = (file(format!("{name}.pem")), file(format!("{name}.key")));
    format!("{certificate},{key},{}", file("authority.pem".into()))
}

#[test]
fn a_service_asks_for_a_password() {
    let folder = TempFolder::new();
    let authority = Authority::at(&folder.file("ca")).unwrap();
    let users = secret(&folder, "users", &line("ada", "engine"));
    let server = tls(&authority, "server");
    let service = Service::start(&["naming", "--memory", "--port", "0", "--tls", &server, "--users", &users]);
    let client = tls(&authority, "client");
    let (right, wrong) = (secret(&folder, "right", "engine\n"), secret(&folder, "wrong", "steam\n"));
    let ls = |login: &[&str]| run(&[&["name", "--tls", &client, "--ns", &service.url, "ls"], login].concat());
    assert_eq!(ls(&["--login", &format!("ada,{right}")]).0, Some(0));
    let refused = ls(&["--login", &format!("ada,{wrong}")]);
    assert_eq!(refused.0, Some(1));
    assert!(refused.2.contains("password is wrong"), "{}", refused.2);
    assert_eq!(ls(&[]).0, Some(1));
    // Another password, from the next request on.
    std::fs::write(&users, line("ada", "steam")).unwrap();
    let sent = Command::new("kill").args(["-HUP", &service.id().to_string()]).status().unwrap();
    assert!(sent.success());
    wait_until("the new password counts", || ls(&["--login", &format!("ada,{wrong}")]).0 == Some(0));
    assert_eq!(ls(&["--login", &format!("ada,{right}")]).0, Some(1));
}

#[test]
fn files_and_options_that_are_no_use_are_refused() {
    let folder = TempFolder::new();
    let authority = Authority::at(&folder.file("ca")).unwrap();
    let tls = tls(&authority, "client");
    let open = secret(&folder, "open", "engine\n");
    std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o644)).unwrap();
    let plain = secret(&folder, "plain", "ada:engine\n");
    let login = format!("ada,{open}");
    for (arguments, says) in [
        (&["--tls", &tls, "--login", &login, "name", "ls"][..], "chmod 600"),
        (&["--tls", &tls, "--login", "ada", "name", "ls"], "--login USER,FILE"),
        (&["--login", &login, "name", "ls"], "--tls"),
        (&["naming", "--memory", "--tls", &tls, "--users", &plain], "a line is NAME:pbkdf2-sha256"),
        (&["naming", "--memory", "--users", &plain], "--tls"),
    ] {
        let (code, _, error) = ended(isorb(arguments)) as Ended;
        assert_ne!(code, Some(0));
        assert!(error.contains(says), "{arguments:?}: {error}");
    }
}
