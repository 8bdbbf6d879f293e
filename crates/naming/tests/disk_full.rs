//! A disk that is full: names are resolved, also by a service that starts meanwhile, and bound
//! again when there is space.

use isorb_giop::NameComponent;
use isorb_naming::binding::{Binding, BindingKind, ContextId, Target};
use isorb_naming::store::{Fault, Mode, Refusal};
use isorb_naming::{FileStore, Store};
use isorb_testkit::{fill_disk, on_small_disk, retry};
use std::io::ErrorKind;
use std::path::Path;

#[test]
fn names_are_resolved_while_the_disk_is_full() {
    on_small_disk("names_are_resolved_while_the_disk_is_full", on_a_full_disk);
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

    let filling = fill_disk(disk);
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
