//! Files of the naming service that something has changed: each call has an answer.
#![no_main]

use isorb_giop::NameComponent;
use isorb_naming::binding::{Binding, BindingKind, ContextId, Target};
use isorb_naming::store::Mode;
use isorb_naming::{FileStore, Store};
use libfuzzer_sys::fuzz_target;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Once, OnceLock};

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
    let path = folder().join("names");
    // Most of the file are zeros, which need not be written.
    let file = std::fs::File::create(&path).expect("a file");
    file.write_all_at(&octets, 0).expect("space");
    file.set_len(length).expect("space");
    drop(file);
    if let Ok(store) = FileStore::open(&path) {
        for (name, _) in store.list(ContextId::ROOT, None, usize::MAX).unwrap_or_default() {
            let _ = store.lookup(ContextId::ROOT, &name);
        }
        let binding = Binding { kind: BindingKind::Object, target: Target::Reference([7; 8].into()) };
        let _ = store.bind(ContextId::ROOT, &name(3), &binding, Mode::Replace);
        let _ = store.unbind(ContextId::ROOT, &name(4));
    }
    std::fs::remove_dir_all(folder()).expect("the folder is there");
});
