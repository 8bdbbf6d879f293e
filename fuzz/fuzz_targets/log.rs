//! Files of the log service that something has changed, and what clients ask of them: each call has
//! an answer.
#![no_main]

use isorb_log_service::store::{Entry, FullAction, Refusal, Time};
use isorb_log_service::{LogStore, Settings};
use libfuzzer_sys::fuzz_target;
use std::path::{Path, PathBuf};
use std::sync::{Once, OnceLock};

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

/// A file with some records, and with a clock that was set back.
fn honest() -> &'static [u8] {
    static FILE: OnceLock<Vec<u8>> = OnceLock::new();
    FILE.get_or_init(|| {
        let path = folder().join("honest");
        let store = LogStore::open(&path, SETTINGS).expect("a new store");
        for number in 0..20 {
            let time = Time { seconds: i64::from(number % 13), nanoseconds: 0 };
            store.append(time, &[entry(number, "text")]).expect("space");
        }
        drop(store);
        let octets = std::fs::read(&path).expect("the file");
        std::fs::remove_dir_all(folder()).expect("the folder is there");
        octets
    })
}

/// What clients do: the first octets say with which numbers.
fn requests(store: &LogStore, data: &[u8]) {
    let octets = data.first_chunk::<8>().copied().unwrap_or_default();
    let number = u64::from_le_bytes(octets);
    let time = Time { seconds: number as i64, nanoseconds: (number % 1_000_000_000) as u32 };
    let read = |from: u64, wanted: &dyn Fn(&Entry<'_>) -> bool| {
        let page = store.read(from, usize::from(octets[1]), 64 * usize::from(octets[2]), wanted, &|id, _, _| id);
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
    let mut octets = honest().to_vec();
    let used = octets.iter().rposition(|octet| *octet != 0).map_or(octets.len(), |last| last + 1);
    let changes = data.chunks_exact(4);
    if let [low, high] = changes.remainder() {
        octets.truncate(usize::from(u16::from_le_bytes([*low, *high])) * 64);
    }
    for change in changes {
        let at = usize::from(u16::from_le_bytes([change[0], change[1]])) | usize::from(change[2]) << 16;
        if let Some(octet) = octets.get_mut(at % used) {
            *octet = change[3];
        }
    }
    let path = folder().join("log");
    std::fs::write(&path, &octets).expect("space");
    if let Ok(store) = LogStore::open(&path, SETTINGS) {
        requests(&store, data);
    }
    std::fs::remove_dir_all(folder()).expect("the folder is there");
});
