//! A disk that is full: records are read, also by a service that starts meanwhile, and written
//! again when there is space.

mod common;

use common::{Served, numbers, record};
use isorb::{Kind, SystemException};
use isorb_log_service::cos_lw_log::{LogRef, OperationalState};
use isorb_log_service::{Limits, LogStore, Settings};
use isorb_testkit::{fill_disk, on_small_disk, retry, wait_until};
use std::path::Path;

#[test]
fn records_are_read_while_the_disk_is_full() {
    on_small_disk("records_are_read_while_the_disk_is_full", on_a_full_disk);
}

fn write(log: &LogRef) -> Result<(), SystemException> {
    log.write_record(&record("p", 1, &"x".repeat(3000)))
}

fn on_a_full_disk(disk: &Path) {
    let file = disk.join("log");
    let served = Served::start(LogStore::open(&file, Settings::default()).unwrap(), Limits::default());
    let (log, port) = (served.far(), served.port());
    (0..10).for_each(|_| write(&log).unwrap());

    let filling = fill_disk(disk);
    // Pages that are free in the file take some.
    let refused = (0..500).find_map(|_| write(&log).err()).expect("the disk is full");
    assert_eq!(refused.kind, Kind::PersistStore, "{refused}");
    assert!(refused.to_string().contains("full"), "{refused}");
    let there = numbers(&log, 0).len() as u64;
    assert!(there >= 10);
    assert_eq!(numbers(&log, 0), (1..=there).collect::<Vec<_>>());
    assert_eq!(log.get_operational_state().unwrap(), OperationalState::Disabled);
    assert!(log.get_availability_status().unwrap().off_duty);

    drop(served);
    let served = Served::at(LogStore::open(&file, Settings::default()).unwrap(), Limits::default(), port);
    assert_eq!(numbers(&log, 0).len() as u64, there, "a service that starts does not know all records");
    assert_eq!(write(&log).unwrap_err().kind, Kind::PersistStore);

    filling.set_len(0).unwrap();
    // A client that only asks finds out.
    wait_until("the log is enabled", || log.get_operational_state().unwrap() == OperationalState::Enabled);
    retry("a record when there is space", || write(&log));
    assert!(!log.get_availability_status().unwrap().off_duty);
    let all = numbers(&log, 0);
    assert!(all.len() as u64 > there && all == (1..=all.len() as u64).collect::<Vec<_>>(), "{all:?}");
    drop(served);
}
