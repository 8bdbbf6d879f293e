//! Each operation on the disk fails in turn: no acknowledged record is lost, reads go on, and
//! writes resume.

use crate::backend::faults;
use crate::{Database, Fault, OpenError, Schema, copy_table, redb};
use isorb_testkit::{TempFolder, retry};
use redb::{ReadTransaction, TableDefinition, WriteTransaction};
use std::os::unix::fs::PermissionsExt;

pub const NUMBERS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("numbers");

pub struct Numbers;

impl Schema for Numbers {
    fn create(&self, transaction: &WriteTransaction) -> Result<(), redb::Error> {
        transaction.open_table(NUMBERS)?;
        Ok(())
    }

    fn verify(&self, transaction: &ReadTransaction) -> Result<(), OpenError> {
        transaction.open_table(NUMBERS).map(drop).map_err(|_| OpenError::Foreign)
    }

    fn copy(&self, from: &ReadTransaction, into: &WriteTransaction) -> Result<(), redb::Error> {
        copy_table(from, into, NUMBERS)
    }
}

pub fn insert(database: &Database<Numbers>, number: u64) -> Result<(), Fault> {
    database.write(|transaction| {
        transaction.open_table(NUMBERS)?.insert(number, &[number as u8; 3000][..])?;
        Ok(())
    })
}

fn contains(database: &Database<Numbers>, number: u64) -> Result<bool, Fault> {
    database.read(|transaction| Ok(transaction.open_table(NUMBERS)?.get(number)?.is_some()))
}

/// Inserts from `first` on while operations fail as injected. All acknowledged numbers are there,
/// all the time and after the database is opened anew.
fn survive(until: u32, stays: bool, reads: bool) -> bool {
    let folder = TempFolder::new();
    let path = folder.file("numbers");
    let database = Database::open(&path, Numbers).unwrap();
    (0..3).for_each(|number| insert(&database, number).unwrap());
    let mut acknowledged: Vec<u64> = (0..3).collect();
    faults::inject(until, stays, reads);
    for number in 3..7 {
        match insert(&database, number) {
            Ok(()) => acknowledged.push(number),
            Err(fault) => assert_ne!(fault, Fault::Corrupt, "operation {until}"),
        }
        if !reads {
            assert!(acknowledged.iter().all(|number| contains(&database, *number).unwrap()));
        }
    }
    let failed = faults::clear();
    retry("a write after the fault", || insert(&database, 30));
    acknowledged.push(30);
    assert_eq!(database.suspended(), None);
    assert!(acknowledged.iter().all(|number| contains(&database, *number).unwrap()));
    drop(database);
    let database = Database::open(&path, Numbers).unwrap();
    assert!(acknowledged.iter().all(|number| contains(&database, *number).unwrap()));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "a draft was left");
    failed
}

#[test]
fn each_operation_fails_in_turn() {
    // Each write for a moment; some writes and some of all operations for a while.
    for (stays, reads, step) in [(false, false, 1), (true, false, 3), (false, true, 3), (true, true, 3)] {
        let mut operation = 1;
        while survive(operation, stays, reads) {
            operation += step;
        }
        assert!(operation > 30, "{operation} operations were made to fail");
    }
}

#[test]
fn a_full_disk_at_the_start() {
    let folder = TempFolder::new();
    let path = folder.file("numbers");
    insert(&Database::open(&path, Numbers).unwrap(), 1).unwrap();
    faults::inject(1, true, false);
    let database = Database::open(&path, Numbers).unwrap();
    assert!(contains(&database, 1).unwrap());
    assert_eq!(insert(&database, 2), Err(Fault::Io(std::io::ErrorKind::StorageFull)));
    assert_eq!(Database::open(&path, Numbers).unwrap_err(), OpenError::InUse);
    faults::clear();
    retry("a write after the fault", || insert(&database, 2));
    assert!(contains(&database, 1).unwrap() && contains(&database, 2).unwrap());
}

/// As a child does that a thread has forked, until it runs its program.
#[test]
fn a_lock_that_is_held_for_a_moment_is_waited_for() {
    let folder = TempFolder::new();
    let path = folder.file("numbers");
    insert(&Database::open(&path, Numbers).unwrap(), 1).unwrap();
    // On a busy machine the other thread may be late.
    let opened = (0..50).any(|_| {
        let held = std::fs::File::open(&path).unwrap();
        held.lock().unwrap();
        let holder = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(10));
            drop(held);
        });
        let opened = Database::open(&path, Numbers).is_ok();
        holder.join().unwrap();
        opened
    });
    assert!(opened);
}

#[test]
fn a_fault_without_a_kind_says_what_the_system_says() {
    for number in [5, 37] {
        let fault = Fault::from(std::io::Error::from_raw_os_error(number));
        assert_eq!(fault, Fault::Os(number));
        let said = std::io::Error::from_raw_os_error(number).to_string();
        assert!(fault.to_string().ends_with(&said) && !said.contains("uncategorized"), "{fault}");
        assert_eq!(OpenError::from(fault), OpenError::Os(number));
        assert_eq!(OpenError::from(fault).to_string(), said);
    }
    let full = Fault::from(std::io::Error::from_raw_os_error(28));
    assert_eq!(full, Fault::Io(std::io::ErrorKind::StorageFull));
}

#[test]
fn files_are_private_and_drafts_go() {
    let folder = TempFolder::new();
    let path = folder.file("numbers");
    // A draft of a process that was killed, and the file of another program.
    std::fs::write(folder.file("numbers.new-1"), "half").unwrap();
    std::fs::write(folder.file("numbers.news"), "good").unwrap();
    let database = Database::open(&path, Numbers).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!folder.file("numbers.new-1").exists());
    assert!(folder.file("numbers.news").exists());
    drop(database);
    // A group that the operator lets read keeps its right.
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
    drop(Database::open(&path, Numbers).unwrap());
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
}

/// The library writes when a database is dropped, and asserts there what a damaged header does not
/// keep.
#[test]
fn no_octet_of_a_header_panics_when_the_file_is_closed() {
    let folder = TempFolder::new();
    let good = folder.file("good");
    let database = Database::open(&good, Numbers).unwrap();
    (0..20).for_each(|number| insert(&database, number).unwrap());
    drop(database);
    let octets = std::fs::read(&good).unwrap();
    let path = folder.file("damaged");
    for place in 9..320 {
        for octet in [octets[place] ^ 1, 0xaa] {
            let mut damaged = octets.clone();
            damaged[place] = octet;
            std::fs::write(&path, damaged).unwrap();
            drop(Database::open(&path, Numbers));
        }
    }
}

#[test]
fn what_a_file_holds_is_opened_in_memory() {
    let folder = TempFolder::new();
    let path = folder.file("numbers");
    let database = Database::open(&path, Numbers).unwrap();
    (0..5).for_each(|number| insert(&database, number).unwrap());
    drop(database);
    let mut octets = std::fs::read(&path).unwrap();
    let length = octets.len() as u64;
    // The zeros at the end need not be given.
    octets.truncate(octets.iter().rposition(|octet| *octet != 0).unwrap() + 1);
    let database = Database::from_octets(octets.clone(), length, Numbers).unwrap();
    assert!((0..5).all(|number| contains(&database, number).unwrap()));
    assert!(!contains(&database, 5).unwrap());
    // It is a copy.
    insert(&database, 5).unwrap();
    assert!(contains(&database, 5).unwrap() && database.suspended().is_none());
    assert!(!contains(&Database::open(&path, Numbers).unwrap(), 5).unwrap());

    // As the file is refused, so are its octets.
    for length in [1, 400, 8192, length / 2] {
        let cut = std::fs::File::create(&path).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&cut, &octets, 0).unwrap();
        cut.set_len(length).unwrap();
        let refused = Database::open(&path, Numbers).unwrap_err();
        assert_eq!(Database::from_octets(octets.clone(), length, Numbers).unwrap_err(), refused, "{length}");
    }
    let mut damaged = octets.clone();
    damaged[64..].fill(7);
    assert_eq!(Database::from_octets(damaged, length, Numbers).unwrap_err(), OpenError::Corrupt);
    // Nothing at all becomes a new database, as an empty file does.
    let database = Database::from_octets(octets, 0, Numbers).unwrap();
    assert!(!contains(&database, 1).unwrap());
}

#[test]
fn a_database_in_memory_needs_no_file() {
    let database = Database::in_memory(Numbers).unwrap();
    (0..500).for_each(|number| insert(&database, number).unwrap());
    assert!((0..500).all(|number| contains(&database, number).unwrap()));
    let refused = database.write(|transaction| {
        transaction.open_table(NUMBERS)?.insert(500, &[0_u8; 3][..])?;
        Err::<(), _>(Fault::Corrupt)
    });
    assert_eq!((refused, contains(&database, 500).unwrap()), (Err(Fault::Corrupt), false));
}
