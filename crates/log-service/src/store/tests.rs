//! The rules of a log, without an ORB.

use super::*;

fn store(max_size: u64, full_action: FullAction) -> LogStore {
    LogStore::memory(Settings { max_size, full_action }).unwrap()
}

fn at(seconds: i64) -> Time {
    Time { seconds, nanoseconds: 0 }
}

/// A record of 40 octets: 30, and ten of text.
fn entry(data: &str) -> Entry<'_> {
    assert_eq!(data.len(), 8);
    Entry { producer_id: "p", producer_name: "n", level: 4, data }
}

fn numbers(store: &LogStore, from: u64) -> Vec<u64> {
    store.read(from, usize::MAX, usize::MAX, &|_| true, &|id, _, _| id).unwrap().records
}

#[test]
fn a_log_that_wraps_loses_the_oldest_records_and_counts_them() {
    let store = store(120, FullAction::Wrap);
    for _ in 0..3 {
        let appended = store.append(at(1), &[entry("12345678")]).unwrap();
        assert_eq!((appended.written, appended.lost), (1, 0));
    }
    let full = store.status().unwrap();
    assert_eq!((full.size, full.records, full.lost), (120, 3, 0));
    let appended = store.append(at(1), &[entry("12345678"), entry("12345678")]).unwrap();
    assert_eq!((appended.written, appended.lost, appended.size), (2, 2, 120));
    assert_eq!(numbers(&store, 0), [3, 4, 5]);
    assert_eq!(store.status().unwrap().lost, 2);
    // A larger one takes the space of several.
    let large = Entry { data: "1234567890123456789012345678901234567890", ..entry("12345678") };
    assert_eq!(store.append(at(1), &[large]).unwrap().lost, 2);
    assert_eq!(numbers(&store, 0), [5, 6]);
}

#[test]
fn a_log_that_halts_writes_what_has_space_and_no_more() {
    let store = store(120, FullAction::Halt);
    let appended = store.append(at(1), &[entry("12345678"); 5]).unwrap();
    assert_eq!((appended.written, appended.lost, appended.size), (3, 0, 120));
    assert!(store.status().unwrap().full);
    assert_eq!(store.append(at(1), &[entry("12345678")]), Err(Refusal::Full { max_size: 120 }));
    assert_eq!(numbers(&store, 0), [1, 2, 3]);
    store.set_full_action(FullAction::Wrap).unwrap();
    assert_eq!(store.append(at(1), &[entry("12345678")]).unwrap().written, 1);
    assert_eq!(numbers(&store, 0), [2, 3, 4]);
    assert!(!store.status().unwrap().full);
    store.set_full_action(FullAction::Halt).unwrap();
    assert_eq!(store.append(at(1), &[entry("12345678")]).unwrap().written, 0);
    store.set_max_size(160).unwrap();
    assert!(!store.status().unwrap().full);
    assert_eq!(store.append(at(1), &[entry("12345678")]).unwrap().written, 1);
}

#[test]
fn a_record_that_is_larger_than_the_log_is_refused() {
    for action in [FullAction::Wrap, FullAction::Halt] {
        let store = store(39, action);
        let refused = store.append(at(1), &[entry("12345678")]);
        assert_eq!(refused, Err(Refusal::LargerThanLog { octets: 40, max_size: 39 }));
        assert_eq!(store.status().unwrap().records, 0);
    }
}

#[test]
fn the_greatest_size_is_at_least_the_current_one() {
    let store = store(400, FullAction::Wrap);
    assert_eq!(store.set_max_size(0), Err(Refusal::BelowCurrentSize { size: 0, current: 0 }));
    store.append(at(1), &[entry("12345678"); 2]).unwrap();
    assert_eq!(store.set_max_size(79), Err(Refusal::BelowCurrentSize { size: 79, current: 80 }));
    store.set_max_size(80).unwrap();
    store.append(at(1), &[entry("12345678")]).unwrap();
    assert_eq!(numbers(&store, 0), [2, 3]);
}

#[test]
fn a_locked_log_takes_no_records_and_gives_those_that_it_has() {
    let store = store(400, FullAction::Wrap);
    store.append(at(1), &[entry("12345678")]).unwrap();
    store.set_locked(true).unwrap();
    assert_eq!(store.append(at(1), &[entry("12345678")]), Err(Refusal::Locked));
    assert_eq!(numbers(&store, 0), [1]);
    store.set_locked(false).unwrap();
    store.append(at(1), &[entry("12345678")]).unwrap();
    assert_eq!(numbers(&store, 0), [1, 2]);
}

#[test]
fn pages_end_at_their_limits_and_go_on_where_they_ended() {
    let store = store(4000, FullAction::Wrap);
    store.append(at(1), &[entry("12345678"); 10]).unwrap();
    let page = |from, limit, octets| store.read(from, limit, octets, &|_| true, &|id, _, _| id).unwrap();
    assert_eq!(page(0, 3, 1000), Page { records: vec![1, 2, 3], next: 4 });
    assert_eq!(page(4, 100, 25), Page { records: vec![4, 5], next: 6 });
    assert_eq!(page(6, 100, 1), Page { records: vec![6], next: 7 }, "one record always fits");
    assert_eq!(page(9, 100, 1000), Page { records: vec![9, 10], next: 11 });
    assert_eq!(page(11, 100, 1000), Page { records: vec![], next: 11 });
    assert_eq!(page(50, 100, 1000), Page { records: vec![], next: 50 });
    assert_eq!(page(3, 0, 1000), Page { records: vec![], next: 3 });
    let odd = store.read(0, 2, 1000, &|_| false, &|id, _, _| id).unwrap();
    assert_eq!(odd, Page { records: vec![], next: 11 }, "nothing is wanted of all that there is");
}

#[test]
fn clear_goes_on_with_the_numbers_and_destroy_begins_anew() {
    let store = store(400, FullAction::Wrap);
    store.append(at(1), &[entry("12345678"); 3]).unwrap();
    store.clear().unwrap();
    let status = store.status().unwrap();
    assert_eq!((status.records, status.size), (0, 0));
    store.append(at(1), &[entry("12345678")]).unwrap();
    assert_eq!(numbers(&store, 0), [4]);
    let stamp = store.stamp().unwrap();
    store.set_locked(true).unwrap();
    store.destroy().unwrap();
    assert_ne!(store.stamp().unwrap(), stamp);
    store.append(at(1), &[entry("12345678")]).unwrap();
    assert_eq!(numbers(&store, 0), [1]);
}

#[test]
fn the_first_record_of_a_time_is_found_also_after_the_clock_was_set_back() {
    let store = store(400, FullAction::Wrap);
    assert_eq!(store.first_at(at(5)).unwrap(), 1, "the next one of an empty log");
    let times = [10, 10, 12, 20, 3, 4, 15, 30, 2, 30];
    for time in times {
        store.append(at(time), &[entry("12345678")]).unwrap();
    }
    let check = |lost: usize| {
        for time in 0..35 {
            // As the standard says it: the first one in the log.
            let found = times.iter().skip(lost).position(|own| *own >= time);
            let expected = found.map_or(times.len() + 1, |found| lost + found + 1);
            assert_eq!(store.first_at(at(time)).unwrap(), expected as u64, "at {time}, {lost} lost");
        }
    };
    check(0);
    // The earliest maximum is lost, and the records behind a set-back are found.
    for lost in 1..6 {
        store
            .database
            .write(|transaction| {
                let (mut records, mut set_backs) =
                    (transaction.open_table(RECORDS)?, transaction.open_table(SET_BACKS)?);
                lose_oldest(&mut records, &mut set_backs).map(drop)
            })
            .unwrap();
        check(lost);
    }
}
