//! Files of the naming service that something has changed: each call has an answer.
//!
//! What the file would hold is opened in memory, because a file takes milliseconds. Each input of
//! which the hash ends in zeros is also opened as a file: it is refused, or has the same names.
#![no_main]

use isorb_giop::NameComponent;
use isorb_naming::binding::{Binding, BindingKind, ContextId, Target};
use isorb_naming::store::Mode;
use isorb_naming::{FileStore, Store};
use libfuzzer_sys::fuzz_target;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Once, OnceLock};

/// One of so many inputs is also opened as a file.
const FILES: u64 = 1 << 12;

/// A folder in memory: the file is written anew at each start.
fn folder() -> PathBuf {
    let folder = Path::new("/dev/shm").join(format!("isorb-fuzz-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

fn name(number: u8) -> NameComponent {
    NameComponent::new(format!("n{number}"), "k")
}

/// A file with some names: its octets up to the last one that is not zero, and its length.
fn honest() -> &'static (Vec<u8>, u64) {
    static FILE: OnceLock<(Vec<u8>, u64)> = OnceLock::new();
    FILE.get_or_init(|| {
        let path = folder().join("honest");
        let store = FileStore::open(&path).expect("a new store");
        for number in 0..20 {
            let target = Target::Reference(vec![number; 200].into());
            let binding = Binding { kind: BindingKind::Object, target };
            store.bind(ContextId::ROOT, &name(number), &binding, Mode::New).expect("space");
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
fn open_file(octets: &[u8], length: u64) -> Option<FileStore> {
    let path = folder().join("names");
    let file = std::fs::File::create(&path).expect("a file");
    file.write_all_at(octets, 0).expect("space");
    // Most of the file are zeros, which need not be written.
    file.set_len(length).expect("space");
    drop(file);
    let store = FileStore::open(&path).ok();
    std::fs::remove_dir_all(folder()).expect("the folder is there");
    store
}

/// The names, and what clients do with them.
fn requests(store: &FileStore) -> Vec<NameComponent> {
    let entries = store.list(ContextId::ROOT, None, usize::MAX).unwrap_or_default();
    for (name, _) in &entries {
        let _ = store.lookup(ContextId::ROOT, name);
    }
    let binding = Binding { kind: BindingKind::Object, target: Target::Reference([7; 8].into()) };
    let _ = store.bind(ContextId::ROOT, &name(3), &binding, Mode::Replace);
    let _ = store.unbind(ContextId::ROOT, &name(4));
    entries.into_iter().map(|(name, _)| name).collect()
}

// Four octets each change one of the file: where and to what. The last ones cut it off.
fuzz_target!(|data: &[u8]| {
    // The library below the store panics at damaged files. The store catches that; what it does not
    // catch still ends the target.
    static QUIET: Once = Once::new();
    QUIET.call_once(|| std::panic::set_hook(Box::new(|_| {})));
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
    let in_memory = FileStore::from_octets(octets, length).ok();
    let names = in_memory.as_ref().map(requests);
    // Where the copy fails, a file is open for reading, and octets are refused.
    if let (Some(file), Some(names)) = (as_file, names) {
        assert_eq!(file.as_ref().map(requests), Some(names));
    }
});
