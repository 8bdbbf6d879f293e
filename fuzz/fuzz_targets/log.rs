//! Files of the log service that something has changed, and what clients ask of them: each call has
//! an answer.
//!
//! What the file would hold is opened in memory, because a file takes milliseconds. Each input of
//! which the hash ends in zeros is also opened as a file: it is refused, or has the same records.
#![no_main]

use isorb_log_service::store::{Entry, FullAction, Refusal, Time};
use isorb_log_service::{LogStore, Settings};
use libfuzzer_sys::fuzz_target;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Once, OnceLock};

/// One of so many inputs is also opened as a file.
const FILES: u64 = 1 << 12;

/// Small, so that it loses records.
const SETTINGS: Settings = Settings { max_size: 4096, full_action: FullAction::Wrap };

/// A folder in memory: the file is written anew at each start.
fn folder() -> PathBuf {
    let folder = Path::new("/dev/shm").join(format!("isorb-fuzz-log-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

fn entry(level: u16, data: &str) -> Entry<'_> {
    Entry { producer_id: "p1", producer_name: "radio", level, data }
}

/// A file with some records, and with a clock that was set back: its octets up to the last one that
/// is not zero, and its length.
fn honest() -> &'static (Vec<u8>, u64) {
    static FILE: OnceLock<(Vec<u8>, u64)> = OnceLock::new();
    FILE.get_or_init(|| {
        let path = folder().join("honest");
        let store = LogStore::open(&path, SETTINGS).expect("a new store");
        for number in 0..20 {
            let time = Time { seconds: i64::from(number % 13), nanoseconds: 0 };
            store.append(time, &[entry(number, "text")]).expect("space");
        }
        drop(store);
        let mut octets = std::fs::read(&path).expect("the file");
        std::fs::remove_dir_all(folder()).expect("the folder is there");
        let length = octets.len() as u64;
        octets.truncate(octets.iter().rposition(|octet| *octet != 0).map_or(0, |last| last + 1));
        (octets, length)
    })
}

/// Opens a file with these octets, and zeros behind them.
fn open_file(octets: &[u8], length: u64) -> Option<LogStore> {
    let path = folder().join("log");
    let file = std::fs::File::create(&path).expect("a file");
    file.write_all_at(octets, 0).expect("space");
    // Most of the file are zeros, which need not be written.
    file.set_len(length).expect("space");
    drop(file);
    let store = LogStore::open(&path, SETTINGS).ok();
    std::fs::remove_dir_all(folder()).expect("the folder is there");
    store
}

/// The numbers of all records.
fn records(store: &LogStore) -> Vec<u64> {
    let page = store.read(0, usize::MAX, usize::MAX, &|_| true, &|id, _, _| id);
    page.map(|page| page.records).unwrap_or_default()
}

/// What clients do: the first octets say with which numbers.
fn requests(store: &LogStore, data: &[u8]) {
    let octets = data.first_chunk::<8>().copied().unwrap_or_default();
    let number = u64::from_le_bytes(octets);
    let time = Time { seconds: number as i64, nanoseconds: (number % 1_000_000_000) as u32 };
    let read = |from: u64, wanted: &dyn Fn(&Entry<'_>) -> bool| {
        let page =
            store.read(from, usize::from(octets[1]), 64 * usize::from(octets[2]), wanted, &|id, _, _| id);
        if let Ok(page) = page {
            assert!(page.records.is_sorted() && page.records.iter().all(|id| *id >= from));
            assert!(page.records.last().is_none_or(|last| page.next > *last));
        }
    };
    if let Ok(first) = store.first_at(time) {
        read(first, &|_| true);
    }
    read(number, &|entry| entry.level.to_le_bytes().iter().any(|octet| data.contains(octet)));
    read(u64::from(octets[0]), &|entry| std::str::from_utf8(data).is_ok_and(|text| text == entry.data));
    let text = String::from_utf8_lossy(data);
    let before = store.status();
    match store.append(time, &[entry(u16::from(octets[3]), &text), entry(7, "second")]) {
        Ok(appended) => {
            assert!(appended.written <= 2);
            // The greatest size of a changed file may be below the current one.
            assert!(appended.written == 0 || appended.size <= appended.settings.max_size);
        }
        Err(Refusal::LargerThanLog { .. }) => {
            assert_eq!(store.status().ok(), before.ok(), "nothing is written");
        }
        Err(_) => {}
    }
    let _ = store.set_max_size(number);
    let action = if octets[4] & 1 == 0 { FullAction::Halt } else { FullAction::Wrap };
    let _ = (store.set_full_action(action), store.append(time, &[entry(1, "third")]));
    let _ = (store.set_locked(true), store.append(time, &[entry(1, "fourth")]), store.clear());
}

// The first octet says what is tried. In a file, four octets each change one: where and to what.
// The last ones cut it off.
fuzz_target!(|data: &[u8]| {
    // The library below the store panics at damaged files. The store catches that; what it does not
    // catch still ends the target.
    static QUIET: Once = Once::new();
    QUIET.call_once(|| std::panic::set_hook(Box::new(|_| {})));
    let Some((what, data)) = data.split_first() else { return };
    if let Some((time, entry)) = Entry::from_octets(data) {
        assert_eq!(entry.to_octets(time), data);
    }
    if what & 1 == 0 {
        return requests(&LogStore::memory(SETTINGS).expect("memory"), data);
    }
    let (honest, length) = honest();
    let (mut octets, mut length) = (honest.clone(), *length);
    let changes = data.chunks_exact(4);
    if let [low, high] = changes.remainder() {
        length = length.min(u64::from(u16::from_le_bytes([*low, *high])) * 64);
    }
    for change in changes {
        let at = usize::from(u16::from_le_bytes([change[0], change[1]])) | usize::from(change[2]) << 16;
        octets[at % honest.len()] = change[3];
    }
    let mut hasher = DefaultHasher::new();
    data.hash(&mut hasher);
    let as_file = hasher.finish().is_multiple_of(FILES).then(|| open_file(&octets, length));
    let in_memory = LogStore::from_octets(octets, length, SETTINGS).ok();
    if let Some(file) = as_file {
        // Where the copy fails, a file is open for reading, and octets are refused.
        if let Some(in_memory) = &in_memory {
            assert_eq!(file.as_ref().map(records), Some(records(in_memory)));
        }
        file.iter().for_each(|file| requests(file, data));
    }
    in_memory.iter().for_each(|store| requests(store, data));
});
