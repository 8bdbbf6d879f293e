//! `isorb memory watch` of several areas, and last values over a reboot.

mod common;

use common::{Service, run, unread};
use isorb_testkit::{Process, TempFolder, retry};

fn memory(args: &[&str]) -> (bool, String, String) {
    let (code, output, error) = run(&[&["memory"], args].concat());
    (code == Some(0), output, error)
}

fn writes(socket: &str, area: &str, value: &str) -> Process {
    let writer =
        unread(&["memory", "--socket", socket, "write", area, value, "--create", "64", "--period", "20"]);
    dumps(socket, area, value);
    writer
}

fn dumps(socket: &str, area: &str, value: &str) {
    retry(area, || match memory(&["--socket", socket, "dump", area, "--raw"]) {
        (true, output, _) if output == value => Ok(()),
        (_, output, error) => Err(output + &error),
    });
}

#[test]
fn areas_are_watched_by_pattern_and_by_the_life_of_their_writers() {
    let folder = TempFolder::new();
    let socket = folder.text("socket");
    let _server = Service::start(&["memory-server", "--name", "a", "--socket", &socket]);
    let first = writes(&socket, "plant/1", "one");
    let _second = writes(&socket, "plant/2", "two");
    let _other = writes(&socket, "store/1", "other");
    let (good, output, error) = memory(&["--socket", &socket, "watch", "plant/*", "--count", "6"]);
    let lines = |output: &str, area: &str| output.lines().filter(|line| line.starts_with(area)).count();
    assert!(good && lines(&output, "plant/1") >= 2 && lines(&output, "plant/2") >= 2, "{output}{error}");
    assert_eq!(lines(&output, "store/"), 0, "{output}");

    let strongest =
        || memory(&["--socket", &socket, "watch", "plant/1", "--fallback", "plant/2", "--count", "2"]);
    let (good, output, error) = strongest();
    assert!(
        good && output.contains("-- plant/1 is shown") && lines(&output, "plant/1") == 2,
        "{output}{error}"
    );
    drop(first);
    retry("the writer of plant/2 is the strongest that lives", || match strongest() {
        (true, output, _) if lines(&output, "plant/2") == 2 && !output.contains("plant/1") => Ok(()),
        (_, output, error) => Err(output + &error),
    });
    let (good, _, error) = memory(&["--socket", &socket, "watch", "p*", "--fallback", "plant/2"]);
    assert!(!good && error.contains("is a pattern"), "{error}");
}

/// The head of a file of redb: 64 octets of the file, and 128 of each of the last two commits.
const HEAD: usize = 64 + 2 * 128;

#[test]
fn the_holder_keeps_last_values_over_a_reboot() {
    let folder = TempFolder::new();
    let (socket, store) = (folder.text("socket"), folder.text("values.redb"));
    let boot = || {
        let server = Service::start(&["memory-server", "--name", "a", "--socket", &socket]);
        let options = ["memory-holder", "--socket", &socket, "--store", &store, "--persist", "plant/*"];
        (Service::start(&options), server)
    };
    let machine = boot();
    assert_eq!(machine.0.url, "0", "there is no area yet");
    let head = std::fs::read(&store).unwrap()[..HEAD].to_vec();
    for (area, value) in [("plant/1", "one"), ("other", "two")] {
        let (good, _, error) = memory(&["--socket", &socket, "write", area, value, "--create", "64"]);
        assert!(good, "{error}");
    }
    // It is stored within half a second; the machine stops when it is. The head of the file, which
    // says where the last commit is, is written behind all else of it.
    retry("the value is stored", || {
        let octets = std::fs::read(&store).unwrap_or_default();
        let is_there = octets.windows(7).any(|octets| octets == b"plant/1");
        if is_there && octets.get(..HEAD) != Some(&head[..]) { Ok(()) } else { Err("not yet".to_owned()) }
    });
    drop(machine);
    let machine = boot();
    assert_eq!(machine.0.url, "1", "the area is there before the holder is ready");
    dumps(&socket, "plant/1", "one");
    let (good, _, error) = memory(&["--socket", &socket, "dump", "other", "--timeout", "0"]);
    assert!(!good && error.contains("other"), "{error}");
}
