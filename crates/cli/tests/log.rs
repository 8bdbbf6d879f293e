//! `isorb log-service` and `isorb log` as a user runs them.

mod common;

use common::{Service, ended, get, isorb, run};
use isorb_testkit::{Process, TempFolder, wait_until};
use serde_json::Value;
use std::io::Write;
use std::process::Stdio;

/// Runs `isorb log`, which succeeds.
fn log(url: &str, arguments: &[&str]) -> String {
    let (code, out, error) = run(&[&["log", "--service", url], arguments].concat());
    assert_eq!(code, Some(0), "{arguments:?}: {out}{error}");
    out
}

/// Runs `isorb log`, which fails.
fn refused(url: &str, arguments: &[&str]) -> String {
    let (code, out, error) = run(&[&["log", "--service", url], arguments].concat());
    assert_eq!(code, Some(1), "{arguments:?}: {out}{error}");
    error
}

fn records(url: &str, arguments: &[&str]) -> Vec<Value> {
    let out = log(url, &[&["read", "--json"], arguments].concat());
    out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn ids(records: &[Value]) -> Vec<u64> {
    records.iter().map(|record| record["id"].as_u64().unwrap()).collect()
}

#[test]
fn records_are_written_read_and_filtered() {
    let service = Service::start(&["log-service", "--memory", "--port", "0"]);
    let url = &*service.url;
    assert!(url.ends_with("/LogService"), "{url}");
    log(url, &["write", "no echo", "--level", "failure-alarm", "--producer-id", "radar/1"]);
    log(url, &["write", "tab\there", "--level", "26", "--producer-id", "pump", "--producer-name", "p 3"]);
    let mut lines = isorb(&["log", "--service", url, "write", "--producer-id", "lines"]);
    let mut lines = lines.stdin(Stdio::piped()).spawn().unwrap();
    lines.stdin.take().unwrap().write_all(b"one\ntwo\r\n\nthree").unwrap();
    assert!(lines.wait().unwrap().success());

    let all = records(url, &[]);
    assert_eq!(ids(&all), [1, 2, 3, 4, 5, 6]);
    let field = |record: &Value, name: &str| record[name].clone();
    assert_eq!(field(&all[0], "level_name"), "failure-alarm");
    assert_eq!((field(&all[1], "level"), field(&all[1], "level_name")), (26.into(), Value::Null));
    assert_eq!((field(&all[1], "data"), field(&all[1], "producer_name")), ("tab\there".into(), "p 3".into()));
    let data: Vec<&str> = all[2..].iter().map(|record| record["data"].as_str().unwrap()).collect();
    assert_eq!(data, ["one", "two", "", "three"]);

    assert_eq!(ids(&records(url, &["--level", "2", "--level", "26"])), [1, 2]);
    assert_eq!(ids(&records(url, &["--producer-id", "lines", "--producer-id", "pump"])), [2, 3, 4, 5, 6]);
    assert_eq!(ids(&records(url, &["--producer-name", "p 3"])), [2]);
    let both = ["--producer-id", "pump", "--producer-id", "radar/1", "--level", "26"];
    assert_eq!(ids(&records(url, &both)), [2]);
    assert_eq!(ids(&records(url, &["--from", "5"])), [5, 6]);
    assert_eq!(ids(&records(url, &["--last", "3"])), [4, 5, 6]);
    assert_eq!(ids(&records(url, &["--from", "2", "--count", "2"])), [2, 3]);
    assert_eq!(ids(&records(url, &["--since", "1d"])), [1, 2, 3, 4, 5, 6]);
    assert_eq!(ids(&records(url, &["--since", "2038-01-01T00:00:00Z"])), [0u64; 0]);
    // What a producer writes does not reach the terminal's controls.
    let text = log(url, &["read", "--from", "2", "--count", "1"]);
    assert!(text.starts_with("2 2") && text.ends_with("Z 26 pump (p 3): tab\u{fffd}here\n"), "{text:?}");

    for (arguments, message) in [
        (&["read", "--since", "yesterday"][..], "how long ago"),
        (&["read", "--level", "bad"], "security-alarm"),
        (&["set"], "--max-size"),
        (&["destroy"], "--yes"),
        (&["read", "--from", "1", "--last", "2"], "cannot be used with"),
    ] {
        let (code, _, error) = run(&[&["log", "--service", url], arguments].concat());
        assert!(code == Some(2) && error.contains(message), "{arguments:?}: {error}");
    }
    let silent = refused("127.0.0.1:1", &["status"]);
    assert!(
        silent.contains("corbaloc::1.2@127.0.0.1:1/LogService") && silent.contains("--service"),
        "{silent}"
    );
}

#[test]
fn a_reader_follows_the_log() {
    let service = Service::start(&["log-service", "--memory", "--port", "0"]);
    let url = &*service.url;
    log(url, &["write", "before"]);
    let arguments = ["log", "--service", url, "read", "--follow", "--interval", "10", "--json"];
    let mut follower = Process::start(&mut isorb(&arguments));
    let mut next = || -> Value { serde_json::from_str(&follower.next_line().unwrap()).unwrap() };
    assert_eq!(next()["data"], "before");
    log(url, &["write", "after"]);
    assert_eq!(next()["data"], "after");
}

#[test]
fn an_administrator_sees_and_sets_the_state() {
    let folder = TempFolder::new();
    let store = folder.text("log.redb");
    let options =
        ["log-service", "--port", "0", "--store", &store, "--max-size", "400", "--full-action", "halt"];
    let service = Service::start(&options);
    let url = &*service.url;
    let status = || -> Value { serde_json::from_str(&log(url, &["status", "--json"])).unwrap() };
    let first = status();
    assert_eq!((&first["max_size"], &first["full_action"]), (&400.into(), &"halt".into()));
    assert_eq!(
        (&first["administrative_state"], &first["operational_state"]),
        (&"unlocked".into(), &"enabled".into())
    );
    let text = "x".repeat(200);
    log(url, &["write", &text]);
    let full = refused(url, &["write", &text]);
    assert!(full.contains("full with 400 octets"), "{full}");
    assert_eq!(status()["log_full"], true);
    log(url, &["set", "--max-size", "1000", "--full-action", "wrap", "--state", "locked"]);
    let locked = refused(url, &["write", "a"]);
    assert!(locked.contains("locked"), "{locked}");
    assert_eq!((&status()["off_duty"], &status()["max_size"]), (&true.into(), &1000.into()));
    log(url, &["set", "--state", "unlocked"]);
    let small = refused(url, &["set", "--max-size", "10"]);
    assert!(small.contains("--max-size: 10 octets are less than the log has"), "{small}");
    log(url, &["clear"]);
    assert_eq!(status()["records"], 0);
    let plain = log(url, &["status"]);
    assert!(plain.contains("0 of 1000 octets") && plain.contains("wrap"), "{plain}");
    log(url, &["destroy", "--yes"]);
    assert!(refused(url, &["status"]).contains("no such object"));
}

#[test]
fn a_policy_says_who_may_write_as_which_producer() {
    let folder = TempFolder::new();
    let policy = "[roles.all]\nmembers = [\"anyone\"]\nmay = [\"read\", \"write:radar*\"]\n";
    std::fs::write(folder.file("policy.toml"), policy).unwrap();
    let policy = folder.text("policy.toml");
    let service = Service::start(&["log-service", "--memory", "--port", "0", "--access-policy", &policy]);
    let url = &*service.url;
    log(url, &["write", "a", "--producer-id", "radar/1"]);
    for arguments in [
        &["write", "a", "--producer-id", "pump"][..],
        &["clear"],
        &["set", "--state", "locked"],
        &["set", "--full-action", "halt"],
        &["set", "--max-size", "100000"],
        &["destroy", "--yes"],
    ] {
        let error = refused(url, arguments);
        assert!(error.contains("NO_PERMISSION"), "{arguments:?}: {error}");
    }
    assert_eq!(ids(&records(url, &[])), [1]);
}

#[test]
fn the_alarm_is_raised_once_and_the_numbers_are_served() {
    let options = ["log-service", "--memory", "--port", "0", "--max-size", "400", "--metrics", "0"];
    let mut command = isorb(&options);
    let folder = TempFolder::new();
    command.stderr(std::fs::File::create(folder.file("said")).unwrap());
    let (service, line) = Service::with_line(&mut command, "METRICS");
    for _ in 0..20 {
        log(&service.url, &["write", "12345678", "--producer-id", "p", "--producer-name", "n"]);
    }
    let place = line.strip_prefix("http://").and_then(|line| line.strip_suffix("/metrics")).unwrap();
    let text = get(place, "/metrics");
    for sample in [
        "isorb_log_service_records 10",
        "isorb_log_service_bytes 400",
        "isorb_log_service_bytes_limit 400",
        "isorb_log_service_lost_total 10",
        "isorb_log_service_discarded_total 0",
    ] {
        assert!(text.lines().any(|line| line == sample), "no {sample} in:\n{text}");
    }
    let said = || std::fs::read_to_string(folder.file("said")).unwrap();
    wait_until("the alarm is raised", || said().contains("the log is full"));
    assert_eq!(said().matches("the log is full").count(), 1, "{}", said());
    assert_eq!(said().matches("of 400 octets").count(), 1, "{}", said());
}

#[test]
fn a_store_of_another_program_is_refused() {
    let folder = TempFolder::new();
    std::fs::write(folder.file("other"), vec![7; 5000]).unwrap();
    let other = folder.text("other");
    let (code, out, error) = ended(isorb(&["log-service", "--port", "0", "--store", &other]));
    assert!(code == Some(1) && out.is_empty(), "{out}");
    assert!(error.contains(&other) && error.contains("no database"), "{error}");
}
