//! `kill -9` at any time loses no record that was acknowledged.
//!
//! The test starts itself as a child, which writes in a loop and prints what was acknowledged. The
//! parent kills it at a random time, opens the file, and compares.

use isorb_log_service::store::{Entry, FullAction, Time};
use isorb_log_service::{LogStore, Settings};
use isorb_testkit::{KilledAfter, TempFolder, acknowledged_before_kill};
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const FILE: &str = "ISORB_LOG_SERVICE_KILL_FILE";
const ROUNDS: u64 = 8;
/// Of a few records, so that old ones are lost all the time.
const SETTINGS: Settings = Settings { max_size: 20_000, full_action: FullAction::Wrap };

/// The text of a record, which says its number. Texts have many lengths.
fn text(id: u64) -> String {
    format!("{id} {}", "x".repeat((id * 37 % 500) as usize))
}

fn append(store: &LogStore, ids: std::ops::Range<u64>) {
    let texts: Vec<String> = ids.map(text).collect();
    let entry = |data| Entry { producer_id: "p", producer_name: "n", level: 1, data };
    let entries: Vec<Entry<'_>> = texts.iter().map(|text| entry(text)).collect();
    let appended = store.append(Time { seconds: 1, nanoseconds: 0 }, &entries).unwrap();
    assert_eq!(appended.written, entries.len());
}

fn next(store: &LogStore) -> u64 {
    store.read(0, 0, 0, &|_| false, &|_, _, _| ()).unwrap().next
}

#[test]
fn acknowledged_records_survive() {
    if let Ok(file) = std::env::var(FILE) {
        return write_for_ever(Path::new(&file));
    }
    let folder = TempFolder::new();
    let file = folder.file("log");
    let mut end = 1;
    for round in 0..ROUNDS {
        let acknowledged = run_and_kill(&file, round).unwrap_or(end);
        let store = LogStore::open(&file, SETTINGS).unwrap();
        // Of the request under way all records may be there, or none.
        end = next(&store);
        let more = end - acknowledged;
        assert!(more == 0 || more == 3, "round {round}: {acknowledged} were acknowledged, {end} are there");
        let check = |id: u64, _: Time, entry: &Entry<'_>| assert_eq!(entry.data, text(id));
        let read = store.read(0, usize::MAX, usize::MAX, &|_| true, &check).unwrap().records.len() as u64;
        let status = store.status().unwrap();
        assert_eq!(status.records, read);
        assert_eq!(read + status.lost, end - 1, "records that were lost are counted");
    }
    assert!(end > 1);
}

/// The number after the last record that was acknowledged before the child was killed.
fn run_and_kill(file: &Path, round: u64) -> Option<u64> {
    let delay = Duration::from_micros(15_000 * round + isorb_rt::random_u64() % 15_000);
    // From while it opens the file to after many records.
    let when =
        if round.is_multiple_of(2) { KilledAfter::Start(delay) } else { KilledAfter::Acknowledgement(delay) };
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["acknowledged_records_survive", "--exact", "--nocapture"]).env(FILE, file);
    acknowledged_before_kill(&mut command, when).last()?.parse().ok()
}

fn write_for_ever(file: &Path) {
    let store = LogStore::open(file, SETTINGS).unwrap();
    let mut output = std::io::stdout();
    // So that the first one begins a line.
    output.write_all(b"\n").unwrap();
    let mut id = next(&store);
    loop {
        append(&store, id..id + 3);
        id += 3;
        // One write call, so that a line is there as a whole or not at all.
        output.write_all(format!("ack {id}\n").as_bytes()).unwrap();
        output.flush().unwrap();
    }
}
