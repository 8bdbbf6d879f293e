//! Files of the naming service that something has changed: each call has an answer.
#![no_main]

use isorb_giop::NameComponent;
use isorb_naming::binding::{Binding, BindingKind, ContextId, Target};
use isorb_naming::store::Mode;
use isorb_naming::{FileStore, Store};
use libfuzzer_sys::fuzz_target;
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

/// A file with some names.
fn honest() -> &'static [u8] {
    static FILE: OnceLock<Vec<u8>> = OnceLock::new();
    FILE.get_or_init(|| {
        let path = folder().join("honest");
        let store = FileStore::open(&path).expect("a new store");
        for number in 0..20 {
            let target = Target::Reference(vec![number; 200].into());
            let binding = Binding { kind: BindingKind::Object, target };
            store.bind(ContextId::ROOT, &name(number), &binding, Mode::New).expect("space");
        }
        drop(store);
        let octets = std::fs::read(&path).expect("the file");
        std::fs::remove_dir_all(folder()).expect("the folder is there");
        octets
    })
}

// Four octets each change one of the file: where and to what. The last ones cut it off.
fuzz_target!(|data: &[u8]| {
    // The library below the store panics at damaged files. The store catches that; what it does not
    // catch still ends the target.
    static QUIET: Once = Once::new();
    QUIET.call_once(|| std::panic::set_hook(Box::new(|_| {})));
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
    if let Some(binding) = Binding::from_octets(data) {
        assert_eq!(Binding::from_octets(&binding.to_octets()).as_ref(), Some(&binding));
        if let Target::Local(id) = binding.target {
            assert!(!id.to_string().is_empty() && Binding::context(id).target == binding.target);
        }
    }
    let path = folder().join("names");
    std::fs::write(&path, &octets).expect("space");
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
