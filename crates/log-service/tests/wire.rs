//! The service as clients use it, over TCP between two ORBs: each operation of the standard.

mod common;

use common::{Served, numbers, record};
use isorb::{Completion, Kind, Reference};
use isorb_log_service::cos_lw_log::log_administrator::SetMaxSizeError;
use isorb_log_service::cos_lw_log::log_consumer::GetRecordIdFromTimeError;
use isorb_log_service::cos_lw_log::{
    AdministrativeState, FAILURE_ALARM, LogFullAction, LogProducerRef, LogRef, LogTime, OperationalState,
    STATISTIC_REPORT,
};
use isorb_log_service::store::FullAction;
use isorb_log_service::{Limits, LogStore, Settings};
use isorb_testkit::{TempFolder, wait_until};
use std::time::{SystemTime, UNIX_EPOCH};

#[test]
fn records_are_written_and_read() {
    let served = Served::memory(1 << 20, FullAction::Wrap);
    let log = served.far();
    let start = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i32;
    log.write_record(&record("radar", FAILURE_ALARM, "no echo ü")).unwrap();
    log.write_records(&[record("a", 26, "one"), record("b", 65_535, "")]).unwrap();
    let (mut current, mut how_many) = (0, 10);
    let records = log.retrieve_records(&mut current, &mut how_many).unwrap();
    assert_eq!((current, how_many), (4, 3));
    assert_eq!(records.iter().map(|record| record.id).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(records[0].info, record("radar", FAILURE_ALARM, "no echo ü"));
    assert_eq!(records[2].info, record("b", 65_535, ""));
    let time = records[0].time;
    assert!(time.seconds >= start && (0..1_000_000_000).contains(&time.nanoseconds), "{time:?}");
    assert_eq!(records[1].time, records[2].time, "one request has one time");
    // Where to go on, at the end of the log and beyond.
    let empty = log.retrieve_records(&mut current, &mut how_many).unwrap();
    assert_eq!((empty.len(), current, how_many), (0, 4, 0));
    (current, how_many) = (900, 5);
    assert!(log.retrieve_records(&mut current, &mut how_many).unwrap().is_empty());
    assert_eq!((current, how_many), (900, 0));
}

#[test]
fn an_oneway_is_written_too() {
    let served = Served::memory(1 << 20, FullAction::Wrap);
    let log = served.far();
    let producer: LogProducerRef = log.object().orb().resolve(&served.url()).unwrap();
    // As producers of the standard do it, without a wait.
    producer.write_record(&record("p", 1, "12345678")).unwrap();
    wait_until("the record is stored", || log.get_n_records().unwrap() == 1);
}

#[test]
fn pages_have_as_many_records_as_the_client_asks_for_and_the_service_gives() {
    let limits = Limits { records: 4, ..Limits::default() };
    let served = Served::start(LogStore::memory(Settings::default()).unwrap(), limits);
    let log = served.far();
    log.write_records(&vec![record("p", 1, "12345678"); 10]).unwrap();
    let page = |from, wanted| {
        let (mut current, mut how_many) = (from, wanted);
        let records = log.retrieve_records(&mut current, &mut how_many).unwrap();
        assert_eq!(records.len(), how_many as usize);
        (records.first().map(|record| record.id), how_many, current)
    };
    assert_eq!(page(0, 3), (Some(1), 3, 4));
    assert_eq!(page(4, u32::MAX), (Some(4), 4, 8));
    assert_eq!(page(8, 100), (Some(8), 3, 11));
    assert_eq!(page(5, 0), (None, 0, 5));
}

#[test]
fn filters_compare_levels_and_producers() {
    let served = Served::memory(1 << 20, FullAction::Wrap);
    let log = served.far();
    for (producer, name, level) in [("a", "x", 1), ("b", "x", 2), ("a", "y", 3), ("c", "z", 2)] {
        let mut record = record(producer, level, "12345678");
        record.producer_name = name.into();
        log.write_record(&record).unwrap();
    }
    let ids = |records: Vec<isorb_log_service::cos_lw_log::LogRecord>| {
        records.iter().map(|record| record.id).collect::<Vec<_>>()
    };
    let (mut current, mut how_many) = (0, 10);
    let found = log.retrieve_records_by_level(&mut current, &mut how_many, &[2, 3]).unwrap();
    assert_eq!((ids(found), current, how_many), (vec![2, 3, 4], 5, 3));
    (current, how_many) = (0, 1);
    let found = log.retrieve_records_by_producer_id(&mut current, &mut how_many, &["a", "c"]).unwrap();
    assert_eq!((ids(found), current, how_many), (vec![1], 3, 1), "the next one that is wanted");
    how_many = 10;
    let found = log.retrieve_records_by_producer_id(&mut current, &mut how_many, &["a", "c"]).unwrap();
    assert_eq!((ids(found), current, how_many), (vec![3, 4], 5, 2));
    (current, how_many) = (2, 10);
    let found = log.retrieve_records_by_producer_name(&mut current, &mut how_many, &["x"]).unwrap();
    assert_eq!((ids(found), current, how_many), (vec![2], 5, 1));
    // No value is wanted where the list is empty.
    (current, how_many) = (0, 10);
    let found = log.retrieve_records_by_level(&mut current, &mut how_many, &[]).unwrap();
    assert_eq!((ids(found), current, how_many), (vec![], 5, 0));
    let long = vec![7; Limits::default().values + 1];
    match log.retrieve_records_by_level(&mut current, &mut how_many, &long) {
        Err(GetRecordIdFromTimeError::System(exception)) => assert_eq!(exception.kind, Kind::ImpLimit),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_time_leads_to_a_record() {
    let served = Served::memory(1 << 20, FullAction::Wrap);
    let log = served.far();
    let id = |seconds, nanoseconds| log.get_record_id_from_time(LogTime { seconds, nanoseconds });
    assert_eq!(id(0, 0).unwrap(), 1, "the first one to come");
    log.write_records(&vec![record("p", 1, "12345678"); 3]).unwrap();
    assert_eq!(id(0, 0).unwrap(), 1);
    assert_eq!(id(i32::MAX, 0).unwrap(), 4);
    let (mut current, mut how_many) = (1, 1);
    let time = log.retrieve_records(&mut current, &mut how_many).unwrap()[0].time;
    assert_eq!(id(time.seconds, time.nanoseconds).unwrap(), 1);
    for nanoseconds in [-1, 1_000_000_000] {
        match id(0, nanoseconds) {
            Err(GetRecordIdFromTimeError::InvalidParam(wrong)) => {
                assert!(wrong.details.contains(&nanoseconds.to_string()), "{}", wrong.details);
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_full_log_wraps_or_halts() {
    let served = Served::memory(120, FullAction::Wrap);
    let log = served.far();
    log.write_records(&vec![record("p", 1, "12345678"); 5]).unwrap();
    assert_eq!(numbers(&log, 0), [3, 4, 5]);
    // Begins with the oldest one that is left.
    assert_eq!(numbers(&log, 1), [3, 4, 5]);
    assert!(!log.get_availability_status().unwrap().log_full, "new records have space");
    assert_eq!(served.service.numbers().status.unwrap().lost, 2);

    log.set_log_full_action(LogFullAction::Halt).unwrap();
    assert_eq!(log.get_log_full_action().unwrap(), LogFullAction::Halt);
    let full = log.write_record(&record("p", 1, "12345678")).unwrap_err();
    assert_eq!((full.kind, full.completed), (Kind::NoResources, Completion::No));
    let full = log.write_record(&record("p", 1, "12345678")).unwrap_err();
    assert_eq!(full.kind, Kind::NoResources);
    assert!(log.get_availability_status().unwrap().log_full);
    assert_eq!(numbers(&log, 0), [3, 4, 5]);
    assert_eq!(served.service.numbers().discarded, 2);

    // A greater size has space for some of them.
    log.set_max_size(200).unwrap();
    assert!(!log.get_availability_status().unwrap().log_full);
    let partly = log.write_records(&vec![record("p", 1, "12345678"); 3]).unwrap_err();
    assert_eq!((partly.kind, partly.completed), (Kind::NoResources, Completion::Yes));
    assert_eq!(numbers(&log, 0), [3, 4, 5, 6, 7]);
    assert_eq!(served.service.numbers().discarded, 3);
    assert_eq!(log.get_current_size().unwrap(), 200);
    match log.set_max_size(199) {
        Err(SetMaxSizeError::InvalidParam(wrong)) => assert!(wrong.details.contains("199"), "{wrong:?}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(log.get_max_size().unwrap(), 200);
}

#[test]
fn a_locked_log_is_off_duty() {
    let served = Served::memory(1 << 20, FullAction::Wrap);
    let log = served.far();
    log.write_record(&record("p", 1, "12345678")).unwrap();
    assert_eq!(log.get_administrative_state().unwrap(), AdministrativeState::Unlocked);
    log.set_administrative_state(AdministrativeState::Locked).unwrap();
    assert_eq!(log.get_administrative_state().unwrap(), AdministrativeState::Locked);
    assert_eq!(log.get_operational_state().unwrap(), OperationalState::Enabled);
    assert!(log.get_availability_status().unwrap().off_duty);
    let refused = log.write_record(&record("p", 1, "12345678")).unwrap_err();
    assert_eq!(refused.kind, Kind::BadInvOrder);
    assert_eq!(numbers(&log, 0), [1], "it is still read");
    log.set_administrative_state(AdministrativeState::Unlocked).unwrap();
    assert!(!log.get_availability_status().unwrap().off_duty);
    log.write_record(&record("p", 1, "12345678")).unwrap();
    assert_eq!(numbers(&log, 0), [1, 2]);
    assert_eq!(served.service.numbers().discarded, 1);
}

#[test]
fn records_beyond_the_limit_are_refused() {
    let limits = Limits { record: 100, ..Limits::default() };
    let served = Served::start(LogStore::memory(Settings::default()).unwrap(), limits);
    let log = served.far();
    log.write_record(&record("p", 1, &"x".repeat(98))).unwrap();
    let refused = log.write_record(&record("p", 1, &"x".repeat(99))).unwrap_err();
    assert_eq!(refused.kind, Kind::ImpLimit);
    // None of a request that has one.
    let records = [record("p", 1, "12345678"), record("p", 1, &"x".repeat(99))];
    assert_eq!(log.write_records(&records).unwrap_err().kind, Kind::ImpLimit);
    assert_eq!(numbers(&log, 0), [1]);
    assert_eq!(served.service.numbers().discarded, 3);
}

#[test]
fn a_large_log_comes_in_replies_of_bounded_size() {
    let served = Served::memory(64 << 20, FullAction::Wrap);
    let log = served.far();
    let text = "x".repeat(60_000);
    for _ in 0..10 {
        log.write_records(&vec![record("p", 1, &text); 4]).unwrap();
    }
    let (mut current, mut pages, mut read) = (0, 0, Vec::new());
    loop {
        let mut how_many = u32::MAX;
        let records = log.retrieve_records(&mut current, &mut how_many).unwrap();
        if records.is_empty() {
            break;
        }
        assert!(records.len() <= Limits::default().reply / 60_000);
        pages += 1;
        read.extend(records.iter().map(|record| record.id));
    }
    assert_eq!(read, (1..=40).collect::<Vec<_>>());
    assert!(pages > 1);
}

#[test]
fn clear_and_destroy() {
    let folder = TempFolder::new();
    let file = folder.file("log");
    let served = Served::start(LogStore::open(&file, Settings::default()).unwrap(), Limits::default());
    let (log, port) = (served.far(), served.port());
    log.write_records(&vec![record("p", 1, "12345678"); 3]).unwrap();
    log.clear_log().unwrap();
    assert_eq!((log.get_n_records().unwrap(), log.get_current_size().unwrap()), (0, 0));
    log.write_record(&record("p", STATISTIC_REPORT, "12345678")).unwrap();
    assert_eq!(numbers(&log, 0), [4], "the numbers go on");
    let orb = log.object().orb();
    let old: LogRef = orb.resolve(&served.service.object().to_string()).unwrap();
    log.destroy().unwrap();
    assert!(old.object().non_existent().unwrap());
    assert!(log.object().non_existent().unwrap());
    assert_eq!(log.get_n_records().unwrap_err().kind, Kind::ObjectNotExist);
    assert_eq!(served.service.numbers().status, None);
    drop(served);
    // The same file has a new log then, which references to the old one do not mean. A URL does.
    let store = LogStore::open(&file, Settings::default()).unwrap();
    let served = Served::at(store, Limits::default(), port);
    assert_eq!(old.get_n_records().unwrap_err().kind, Kind::ObjectNotExist);
    assert_eq!(log.get_n_records().unwrap(), 0);
    drop(served);
}

#[test]
fn references_settings_and_records_survive_a_restart() {
    let folder = TempFolder::new();
    let file = folder.file("log");
    let settings = Settings { max_size: 4000, full_action: FullAction::Halt };
    let served = Served::start(LogStore::open(&file, settings).unwrap(), Limits::default());
    let (log, port) = (served.far(), served.port());
    log.write_records(&vec![record("p", 1, "12345678"); 3]).unwrap();
    log.set_max_size(5000).unwrap();
    log.set_administrative_state(AdministrativeState::Locked).unwrap();
    drop(served);
    // The options of a later start are for new logs.
    let served = Served::at(LogStore::open(&file, Settings::default()).unwrap(), Limits::default(), port);
    assert_eq!(numbers(&log, 0), [1, 2, 3]);
    assert_eq!(log.get_max_size().unwrap(), 5000);
    assert_eq!(log.get_log_full_action().unwrap(), LogFullAction::Halt);
    assert_eq!(log.get_administrative_state().unwrap(), AdministrativeState::Locked);
    log.set_administrative_state(AdministrativeState::Unlocked).unwrap();
    log.write_record(&record("p", 1, "12345678")).unwrap();
    assert_eq!(numbers(&log, 4), [4]);
    drop(served);
}

#[test]
fn an_orb_has_one_log_service() {
    let served = Served::memory(1 << 20, FullAction::Wrap);
    let store = LogStore::memory(Settings::default()).unwrap();
    let refused = isorb_log_service::LogService::start(&served.orb, store, Limits::default()).unwrap_err();
    assert_eq!(refused.kind, Kind::BadInvOrder);
    let local: LogRef = served.orb.resolve("LogService").unwrap();
    assert_eq!(local.get_n_records().unwrap(), 0);
}
