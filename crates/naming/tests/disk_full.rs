//! A disk that is full: names are resolved, also by a service that starts meanwhile, and bound
//! again when there is space.
//!
//! The disk is a small tmpfs in a mount namespace of a child, which runs this test again.

use isorb_giop::NameComponent;
use isorb_naming::binding::{Binding, BindingKind, ContextId, Target};
use isorb_naming::store::{Fault, Mode, Refusal};
use isorb_naming::{FileStore, Store};
use isorb_testkit::{TempFolder, retry};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

const DISK: &str = "ISORB_NAMING_DISK";

#[test]
fn names_are_resolved_while_the_disk_is_full() {
    if let Some(disk) = std::env::var_os(DISK) {
        return on_a_full_disk(&PathBuf::from(disk));
    }
    let folder = TempFolder::new();
    let status = Command::new("unshare")
        .args(["--mount", "--map-root-user", "sh", "-c"])
        .arg("mount -t tmpfs -o size=6m none \"$0\" || exit 77; exec \"$@\"")
        .arg(folder.path())
        .arg(std::env::current_exe().unwrap())
        .args(["names_are_resolved_while_the_disk_is_full", "--exact", "--nocapture"])
        .env(DISK, folder.path())
        .status();
    match status.as_ref().map(|status| status.code()) {
        Ok(Some(0)) => {}
        Ok(Some(1 | 77)) | Err(_) if !allowed() => {
            eprintln!("skipped: no mount namespace can be made here");
        }
        _ => panic!("{status:?}"),
    }
}

/// Whether a mount namespace with a tmpfs can be made.
fn allowed() -> bool {
    let command = "mount -t tmpfs none /mnt";
    let status = Command::new("unshare").args(["--mount", "--map-root-user", "sh", "-c", command]).status();
    status.is_ok_and(|status| status.success())
}

fn bind(store: &FileStore, number: u16) -> Result<(), Refusal> {
    let target = Target::Reference(vec![7; 3000].into());
    let binding = Binding { kind: BindingKind::Object, target };
    store.bind(ContextId::ROOT, &name(number), &binding, Mode::New)
}

fn name(number: u16) -> NameComponent {
    NameComponent::new(format!("n{number}"), "")
}

fn on_a_full_disk(disk: &Path) {
    let resolved =
        |store: &FileStore, count| (0..count).all(|n| store.lookup(ContextId::ROOT, &name(n)).is_ok());
    let full = Refusal::Failed(Fault::Io(ErrorKind::StorageFull));
    let file = disk.join("names");
    let store = FileStore::open(&file).unwrap();
    (0..10).for_each(|number| bind(&store, number).unwrap());

    let mut filling = std::fs::File::create(disk.join("filler")).unwrap();
    while filling.write(&[0; 4096]).is_ok() {}
    // Pages that are free in the file take some.
    let bound = (10..500).find(|number| bind(&store, *number).is_err()).expect("the disk is full");
    assert_eq!(bind(&store, bound), Err(full));
    assert!(resolved(&store, bound), "names are lost while the disk is full");

    // A service that runs needs no space for a copy.
    let filled = filling.metadata().unwrap().len();
    filling.set_len(filled - (256 << 10)).unwrap();
    retry("a binding with little space", || bind(&store, bound));
    let bound = (bound + 1..500).find(|number| bind(&store, *number).is_err()).expect("the disk is full");

    drop(store);
    let store = FileStore::open(&file).unwrap();
    assert!(resolved(&store, bound), "a service that starts does not know all names");
    assert_eq!(bind(&store, bound), Err(full));

    filling.set_len(0).unwrap();
    retry("a binding when there is space", || bind(&store, bound));
    drop(store);
    assert!(resolved(&FileStore::open(&file).unwrap(), bound + 1));
}
