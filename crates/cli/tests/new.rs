//! `isorb new` as a user runs it: what it makes builds, and does what its page says.

mod common;

use common::{Service, ended, isorb, run};
use isorb_testkit::{Process, TempFolder, wait_until};
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

struct Project {
    folder: TempFolder,
}

impl Project {
    /// A project of its own, compiled where the tests are: the dependencies are there already.
    fn made(template: &str) -> Project {
        let project = Project { folder: TempFolder::new() };
        let (code, output, error) =
            run(&["new", &project.folder.text("trial"), "--template", template, "--isorb", SOURCES]);
        assert_eq!((code, &*error), (Some(0), ""), "{output}");
        assert!(output.contains("trial/README.md"), "{output}");
        // Versions that are here.
        std::fs::copy(Path::new(SOURCES).join("Cargo.lock"), project.at().join("Cargo.lock")).unwrap();
        project.cargo(&["build", "--quiet", "--bins"]);
        project
    }

    fn at(&self) -> PathBuf {
        self.folder.file("trial")
    }

    fn cargo(&self, arguments: &[&str]) {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(arguments).arg("--offline").current_dir(self.at());
        // With the debug information of the tests: that of the workspace, or what `.ci/run` says.
        let debug = std::env::var_os("CARGO_PROFILE_DEV_DEBUG").unwrap_or("line-tables-only".into());
        cargo.env("CARGO_TARGET_DIR", target()).env("CARGO_PROFILE_DEV_DEBUG", debug);
        let (code, output, error) = ended(cargo);
        assert_eq!((code, &*error), (Some(0), ""), "{output}");
    }

    fn program(&self, name: &str) -> Command {
        let mut command = Command::new(target().join("debug").join(name));
        command.current_dir(self.at());
        command
    }
}

fn target() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().to_owned()
}

/// One after the other: all have a package of one name in one target folder.
#[test]
fn what_is_made_builds_and_runs() {
    let project = Project::made("object");
    project.cargo(&["test", "--quiet", "--bin", "trial"]);
    let _server = Process::unread(&mut project.program("trial"));
    wait_until("the server has written its reference", || {
        std::fs::read_to_string(project.at().join("lamp.ior")).is_ok_and(|text| text.starts_with("IOR:"))
    });
    let said = "Hello, I am off\nHello again, I am on\n";
    assert_eq!(ended(project.program("client")), (Some(0), said.into(), String::new()));

    let project = Project::made("events");
    let channel = Service::start(&["event-channel", "--port", "0"]);
    let mut consumer = Process::start(project.program("trial").arg(&channel.url));
    consumer.expect_line("connected");
    let (code, output, error) = ended(project.program("supplier").arg(&channel.url));
    assert_eq!((code, &*output, &*error), (Some(0), "10 pushed, 0 lost\n", ""));
    consumer.expect_line("48.2000 16.3000 at 500 m");
    consumer.expect_line("48.2000 16.3000 at 520 m");

    let project = Project::made("memory");
    let coordinator = Service::start(&["memory-coordinator", "--memory", "--port", "0"]);
    let socket = project.at().join("node.socket");
    let socket = socket.to_str().unwrap();
    let _node = Service::start(&[
        "memory-server",
        "--name",
        "here",
        "--socket",
        socket,
        "--coordinator",
        &coordinator.url,
    ]);
    let _writer = Process::unread(&mut project.program("writer"));
    let mut reader = None;
    // A reader needs the area, which the writer makes.
    wait_until("the reader has a value", || {
        let mut process = Process::start(&mut project.program("trial"));
        reader = process.next_line().map(|line| (process, line));
        reader.is_some()
    });
    let (mut process, line) = reader.unwrap();
    assert!(line.contains(" m, valve open: "), "{line}");
    process.expect_line("value");
}

#[test]
fn bad_input_is_refused_with_a_sentence() {
    let folder = TempFolder::new();
    let text = folder.text("");
    let good = folder.text("trial");
    let refused = |arguments: &[&str], words: &[&str]| {
        let mut command = isorb(&[&["new"], arguments].concat());
        command.env_remove("ISORB");
        let (code, output, error) = ended(command);
        assert_eq!((code.is_some_and(|code| code > 0), &*output), (true, ""), "{arguments:?}");
        assert!(words.iter().all(|word| error.contains(word)), "{arguments:?}: {error}");
        assert_eq!(error.lines().filter(|line| !line.is_empty()).count(), 1, "{error}");
    };
    refused(&[&good], &["--isorb FOLDER", "ISORB=FOLDER"]);
    refused(&[&good, "--isorb", &text], &["no crates/orb", "--isorb"]);
    refused(&[&good, "--isorb", "/nowhere"], &["/nowhere", "--isorb"]);
    refused(&[&text, "--isorb", SOURCES], &["is no name for a package"]);
    for name in ["9lives", "Trial", "a b", "isorb-x", "test", "..", "/"] {
        refused(&[&folder.text(name), "--isorb", SOURCES], &["is no name for a package", "FOLDER"]);
    }
    std::fs::create_dir(&good).unwrap();
    refused(&[&good, "--isorb", SOURCES], &["exists already"]);
    assert_eq!(std::fs::read_dir(&good).unwrap().count(), 0);
}
