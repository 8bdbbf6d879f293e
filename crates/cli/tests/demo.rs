//! `isorb demo` as a newcomer runs it.

use std::path::Path;
use std::process::{Command, Output};

fn demo(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_isorb")).arg("demo").args(arguments).output().unwrap()
}

/// The number before a word of the demo's line about the link.
fn counted(line: &str, word: &str) -> u64 {
    let words: Vec<&str> = line.split([' ', ',']).collect();
    let place = words.iter().position(|w| *w == word).unwrap_or_else(|| panic!("no {word} in {line:?}"));
    words[..place].iter().rev().find_map(|word| word.parse().ok()).unwrap()
}

#[test]
fn the_mission_computer_flies_and_leaves_its_timeline() {
    let name = format!("demo-{}", std::process::id());
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let output = demo(&["--seconds", "3", "--real-time", "off", "--out", folder.to_str().unwrap()]);
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    assert!(printed.contains("refused: video cannot be admitted"), "{printed}");
    // What the one end sent, the other got, but for what was under way when the counts were taken.
    let link: Vec<&str> = printed.lines().filter(|line| line.contains("over the link:")).collect();
    let [mission, pod] = link[..] else { panic!("two ends: {printed}") };
    assert!(counted(mission, "received") > 0 && counted(pod, "received") > 0, "{printed}");
    assert!(counted(mission, "received") <= counted(pod, "sent"), "{printed}");
    // The pod's 30 Hz of health stay at home: only the radar's 15 Hz cross.
    let calls = |name: &str| -> u64 {
        // The list of those admitted comes first, the table later.
        let line = printed.lines().rfind(|line| line.starts_with(&format!("  {name} ")));
        line.unwrap()[name.len() + 2..].split_whitespace().next().unwrap().parse().unwrap()
    };
    assert!(counted(pod, "sent") <= calls("radar"), "{printed}");
    for name in ["inertial", "navigation", "targeting", "display", "recorder", "pod health"] {
        assert!(calls(name) > 0, "{name}: {printed}");
    }
    let page = std::fs::read_to_string(folder.join("timeline.html")).unwrap();
    assert!(page.contains("recorder") && page.contains("targeting"));
    assert!(page.contains("\"GPS silent\"") && page.contains("\"video\",\"video cannot be admitted"));
    let trace = std::fs::read(folder.join("perfetto.json")).unwrap();
    let trace: serde_json::Value = serde_json::from_slice(&trace).unwrap();
    assert!(trace["traceEvents"].as_array().unwrap().iter().any(|event| event["name"] == "radar: push"));
    // And the traces can be drawn again.
    let files = ["mission.trace", "pod.trace"].map(|file| folder.join(file));
    let again = Command::new(env!("CARGO_BIN_EXE_isorb")).arg("timeline").args(&files).output().unwrap();
    assert!(again.status.success() && folder.join("mission.html").exists(), "{again:?}");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn the_calls_are_measured_by_either_spelling() {
    for arguments in [&["calls", "--calls", "20"][..], &["--calls", "20"]] {
        let output = demo(arguments);
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
        assert!(
            printed.contains("found it by corbaname:rir:#lab/t1") && printed.contains("echo(4096 octets)"),
            "{printed}"
        );
    }
}
