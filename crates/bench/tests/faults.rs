//! The campaign of faults and the soak, in their short forms, and a control that must be found out.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// The program, if the services and the tool that it needs are there.
fn bench() -> Option<Command> {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_isorb-bench"));
    let isorb = program.with_file_name("isorb");
    let has_strace = Command::new("strace").arg("-V").stdout(Stdio::null()).status().is_ok();
    match (isorb.is_file(), has_strace) {
        (true, true) => Some(Command::new(program)),
        (false, _) => {
            println!("skipped: {} is not built (cargo build -p isorb-cli)", isorb.display());
            None
        }
        (_, false) => {
            println!("skipped: strace is not installed (apt-get install strace)");
            None
        }
    }
}

const SERVICES: [&str; 7] = [
    "naming",
    "event-channel",
    "memory-coordinator",
    "memory-server",
    "scheduler",
    "log-service",
    "implementation-repository",
];

fn text(output: &Output) -> (String, String) {
    let text = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// The promises that did not hold, before all else that was said: a log may be shown shortened.
fn broken(said: &str) -> String {
    let broken: Vec<&str> = said.lines().filter(|line| line.starts_with("BROKEN")).collect();
    format!("{}\n{said}", broken.join("\n"))
}

#[test]
fn services_keep_their_promises_when_a_system_call_fails() {
    let Some(mut bench) = bench() else { return };
    let output = bench.args(["campaign", "--short", "--json"]).output().unwrap();
    let (lines, table) = text(&output);
    assert!(output.status.success(), "{}", broken(&table));
    let tried: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for service in SERVICES {
        let of = |kind: &str| {
            let reached = |one: &&serde_json::Value| {
                one["service"] == service && one["reached"] == true && one["fault"].to_string().contains(kind)
            };
            tried.iter().filter(reached).count()
        };
        assert!(of("Once") + of("Lasts") > 10, "{service}: {table}");
        assert!(of("Killed") > 2, "{service}: {table}");
        assert_eq!(of("Limited"), 3, "{service}: {table}");
    }
}

#[test]
fn a_service_that_stores_nothing_is_found_to_lose_names() {
    let Some(mut bench) = bench() else { return };
    let args = ["campaign", "--short", "--service", "forgetful", "--calls", "accept4"];
    let output = bench.args(args).output().unwrap();
    let (table, errors) = text(&output);
    assert!(!output.status.success(), "{table}");
    assert!(errors.contains("after a restart: write 0, which was acknowledged, is lost"), "{errors}");
}

#[test]
fn services_keep_what_they_acknowledged_when_they_are_killed_at_random_moments() {
    let Some(mut bench) = bench() else { return };
    let output = bench.args(["campaign", "--random", "3", "--seed", "7"]).output().unwrap();
    let (table, errors) = text(&output);
    assert!(output.status.success(), "{}{table}", broken(&errors));
    for service in SERVICES {
        let row = table.lines().find(|line| line.starts_with(&format!("| {service} | 3 |")));
        assert!(row.is_some_and(|row| row.ends_with("| 3 |")), "{service}: {table}");
    }
}

#[test]
fn a_service_that_stores_nothing_is_found_to_lose_names_at_random_moments() {
    let Some(mut bench) = bench() else { return };
    let output = bench.args(["campaign", "--random", "3", "--service", "forgetful"]).output().unwrap();
    let (table, errors) = text(&output);
    assert!(!output.status.success(), "{table}");
    assert!(errors.contains("which was acknowledged, is lost"), "{errors}");
}

#[test]
fn a_short_soak_fills_the_disk_and_kills_and_draws_the_page() {
    let Some(mut bench) = bench() else { return };
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("soak.html");
    let reference = folder.path().join("page.md");
    std::fs::write(&reference, "<!-- isorb-bench soak: begin -->\n<!-- isorb-bench soak: end -->\n").unwrap();
    let args = ["soak", "--hours", "0.006", "--kill-every", "2", "--fill-every", "12"];
    let output = bench.args(args).arg("--output").arg(&page).arg("--page").arg(&reference).output().unwrap();
    let (table, errors) = text(&output);
    // So few samples say nothing of memory.
    let broken =
        errors.lines().filter(|line| line.contains("; its log ends") || line.contains("link")).count();
    assert_eq!(broken, 0, "{table}{errors}");
    for row in [
        "| naming |",
        "| naming, killed |",
        "| scheduler, killed |",
        "| memory-server |",
        "| log-service, killed |",
    ] {
        assert!(table.contains(row), "{row} is not in\n{table}");
    }
    assert!(std::fs::read_to_string(&reference).unwrap().contains("| event-channel |"));
    assert!(std::fs::read_to_string(&page).unwrap().contains("data-figure=\"2\""));
}
