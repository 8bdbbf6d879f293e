//! A small federation, simulated by the program.

use std::process::{Command, Output};

fn bench(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_isorb-bench")).arg("federation").args(args).output().unwrap()
}

#[test]
fn a_small_federation_is_simulated_and_printed() {
    let output = bench(&["--channels", "12", "--consumers", "10", "--json"]);
    let table = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{table}");
    let growth: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&growth["channels"], &growth["consumers"]), (&12.into(), &120.into()));
    for count in ["messages", "interests", "requests", "octets"] {
        assert!(growth["formed"][count].as_u64() > Some(0), "{count}: {growth}");
        assert!(growth["at_rest"][count].as_u64() > Some(0), "{count}: {growth}");
    }
    assert!(growth["events"]["pushes"].as_u64() > Some(0), "{growth}");
    assert!(table.contains("12 channels in a tree of 4 branches, 120 consumers"), "{table}");
}

#[test]
fn a_federation_that_no_member_remembers_is_refused() {
    let output = bench(&["--channels", "2000"]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && error.contains("at most 1024"), "{error}");
}
