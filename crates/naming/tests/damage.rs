//! A file that is not a store, or a damaged one, gives an error and never a panic.

use isorb_giop::NameComponent;
use isorb_naming::binding::{Binding, BindingKind, ContextId, Target};
use isorb_naming::store::{Mode, OpenError};
use isorb_naming::{FileStore, Store};
use isorb_store::redb::{self, Database, TableDefinition};
use isorb_testkit::TempFolder;
use proptest::prelude::*;
use std::path::Path;

/// Octets of the header of a redb file.
const HEADER: usize = 320;

fn good(file: &Path) {
    let store = FileStore::open(file).unwrap();
    for i in 0..60 {
        let context = store.create_bound(ContextId::ROOT, &NameComponent::new(format!("c{i}"), "")).unwrap();
        let target = Target::Reference(vec![i; 200].into());
        let binding = Binding { kind: BindingKind::Object, target };
        store.bind(context, &NameComponent::new("x", "k"), &binding, Mode::New).unwrap();
    }
}

#[test]
fn files_of_others() {
    let folder = TempFolder::new();
    let open = |content: &[u8]| {
        let file = folder.file("other");
        std::fs::write(&file, content).unwrap();
        let error = FileStore::open(&file).unwrap_err();
        assert_eq!(std::fs::read(&file).unwrap(), content, "the file was changed");
        error
    };
    assert_eq!(open(b"#!/bin/sh\necho this is a script\n"), OpenError::NotADatabase);
    assert_eq!(open(&[0; 100_000]), OpenError::NotADatabase);
    assert_eq!(open(b"redb"), OpenError::NotADatabase);

    let file = folder.file("foreign");
    let database = Database::create(&file).unwrap();
    let transaction = database.begin_write().unwrap();
    transaction.open_table(TableDefinition::<u32, u32>::new("theirs")).unwrap().insert(1, 2).unwrap();
    transaction.commit().unwrap();
    drop(database);
    assert_eq!(FileStore::open(&file).unwrap_err(), OpenError::Foreign);

    // A store of a later version.
    let file = folder.file("later");
    good(&file);
    let database = Database::create(&file).unwrap();
    let transaction = database.begin_write().unwrap();
    let meta = TableDefinition::<&str, u64>::new("isorb-naming");
    transaction.open_table(meta).unwrap().insert("format", 7).unwrap();
    transaction.commit().unwrap();
    drop(database);
    assert_eq!(FileStore::open(&file).unwrap_err(), OpenError::Version(7));

    assert_eq!(
        FileStore::open(folder.file("none/names")).unwrap_err(),
        OpenError::Io(std::io::ErrorKind::NotFound)
    );
    assert!(matches!(FileStore::open(folder.file("")).unwrap_err(), OpenError::Io(_)));
    let file = folder.file("used");
    let _first = FileStore::open(&file).unwrap();
    assert_eq!(FileStore::open(&file).unwrap_err(), OpenError::InUse);
}

#[test]
fn nonsense_in_the_tables() {
    let folder = TempFolder::new();
    let spoil = |spoil: fn(&redb::WriteTransaction)| {
        let file = folder.file("spoilt");
        let _ = std::fs::remove_file(&file);
        good(&file);
        let database = Database::create(&file).unwrap();
        let transaction = database.begin_write().unwrap();
        spoil(&transaction);
        transaction.commit().unwrap();
        drop(database);
        FileStore::open(&file).unwrap_err()
    };
    assert_eq!(
        spoil(|transaction| {
            let table = TableDefinition::<(u64, &str, &str), &[u8]>::new("bindings");
            transaction.open_table(table).unwrap().insert((0, "a", "b"), &[9u8, 9][..]).unwrap();
        }),
        OpenError::Corrupt
    );
    assert_eq!(
        spoil(|transaction| {
            let table = TableDefinition::<(u64, &str, &str), &[u8]>::new("bindings");
            transaction.open_table(table).unwrap().insert((999, "a", "b"), &[0u8][..]).unwrap();
        }),
        OpenError::Corrupt
    );
    assert_eq!(
        spoil(|transaction| {
            let table = TableDefinition::<u64, ()>::new("contexts");
            transaction.open_table(table).unwrap().remove(0).unwrap();
        }),
        OpenError::Corrupt
    );
    assert_eq!(
        spoil(|transaction| {
            let table = TableDefinition::<&str, u64>::new("isorb-naming");
            transaction.open_table(table).unwrap().remove("stamp").unwrap();
        }),
        OpenError::Corrupt
    );
    assert_eq!(
        spoil(|transaction| {
            transaction.delete_table(TableDefinition::<u64, ()>::new("contexts")).unwrap();
            transaction.open_table(TableDefinition::<&str, &str>::new("contexts")).unwrap();
        }),
        OpenError::Corrupt
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// With any octets overwritten or cut off there is an error, or a store that works.
    #[test]
    fn damaged_files(
        places in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        header in proptest::collection::vec((0usize..HEADER, any::<u8>()), 0..3),
        cut in proptest::option::of(any::<prop::sample::Index>()),
    ) {
        thread_local! {
            static GOOD: Vec<u8> = {
                let folder = TempFolder::new();
                let file = folder.file("names");
                good(&file);
                std::fs::read(&file).unwrap()
            };
        }
        let mut octets = GOOD.with(Vec::clone);
        for (place, octet) in places {
            let place = place.index(octets.len());
            octets[place] = octet;
        }
        for (place, octet) in header {
            octets[place] = octet;
        }
        if let Some(cut) = cut {
            octets.truncate(cut.index(octets.len()).max(1));
        }
        let folder = TempFolder::new();
        let file = folder.file("damaged");
        std::fs::write(&file, octets).unwrap();
        if let Ok(store) = FileStore::open(&file) {
            for (name, _) in store.list(ContextId::ROOT, None, 1_000).unwrap() {
                let _ = store.lookup(ContextId::ROOT, &name);
            }
            for i in 0..20 {
                store.create_bound(ContextId::ROOT, &NameComponent::new(format!("new{i}"), "")).unwrap();
            }
        }
    }
}
