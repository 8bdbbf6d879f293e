//! Counts and times of requests by lane and by operation, for programs that ask for them
//! (`request_statistics`).
//!
//! Two tables of fixed size. A lane or operation takes a row with its first request and keeps it;
//! when the table is full, its requests are counted together with those of all others that came
//! too late.

use crate::Interface;
use crate::sched::thread;
use isorb_rt::histogram::{AtomicHistogram, Histogram};
use isorb_rt::priority::Priority;
use isorb_rt::time::now_ns;
use std::collections::BTreeMap;
use std::hint::cold_path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Rows for lanes.
const LANES: usize = 64;
/// Rows that are tried for a key before its requests are counted with those of others.
const PROBES: usize = 16;

/// Counts of requests, and the time that they took from their dispatch to their reply: the object's
/// look-up, the servant, and writing the reply; not the network and the waits in a lane's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RequestCounts {
    /// Requests that ended in results.
    pub results: u64,
    /// Requests that ended in an exception of their interface.
    pub user_exceptions: u64,
    /// Requests that ended in an exception of CORBA, refused ones included.
    pub system_exceptions: u64,
    /// Requests that did not reach a servant: denied by the guard, without an object, or above a
    /// limit of their lane or client.
    pub refused: u64,
    /// The sum of the times in nanoseconds. Requests above a limit of a lane or client have none.
    pub time_ns: u64,
    /// The times.
    pub times: Histogram,
}

/// Requests of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LaneRequests {
    /// The thread pool (`RTCORBA::ThreadpoolId`) and the lane's CORBA priority; 0 and `None` for
    /// threads outside of pools. `None` for all lanes that found no row.
    pub lane: Option<(u32, Option<Priority>)>,
    /// The counts.
    pub counts: RequestCounts,
}

/// Requests of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OperationRequests {
    /// The interface's repository id and the operation's name on the wire. `None` for all
    /// operations that found no row, and for those that every object has, such as `_is_a`.
    pub operation: Option<(&'static str, &'static str)>,
    /// The counts.
    pub counts: RequestCounts,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Results,
    UserException,
    SystemException,
    /// By a system exception, without a servant.
    Refused,
}

/// The number of an operation of an interface.
pub(crate) type OperationIndex = (&'static Interface, u16);

/// The tables of an ORB.
#[derive(Debug)]
pub(crate) struct RequestStatistics {
    lanes: Table<(u32, Option<Priority>)>,
    operations: Table<OperationIndex>,
}

impl RequestStatistics {
    /// Tables with rows for this many operations; `None` for 0.
    pub fn new(operations: usize) -> Option<Box<RequestStatistics>> {
        let table = || RequestStatistics { lanes: Table::new(LANES), operations: Table::new(operations) };
        (operations > 0).then(|| Box::new(table()))
    }

    /// Counts a request that this thread began to serve at `began_ns`.
    ///
    /// # Real-time
    /// At most ten atomic operations, 32 comparisons, and a read of the clock. No lock, no
    /// allocation.
    #[inline(never)]
    pub fn record(&self, operation: Option<OperationIndex>, ended: Ended, began_ns: u64) {
        let time = now_ns().saturating_sub(began_ns);
        self.lane().record(ended, Some(time));
        self.operation(operation).record(ended, Some(time));
    }

    /// Counts a request that a limit of this thread's lane, or of the client, refused.
    ///
    /// # Real-time
    /// As [`RequestStatistics::record`].
    #[cold]
    pub fn refuse(&self) {
        self.lane().record(Ended::Refused, None);
    }

    fn lane(&self) -> &Counters {
        // Lanes have numbers from 1, and a key is not 0.
        let lane = thread::lane();
        self.lanes.row(lane + 1, || match lane {
            0 => (0, None),
            _ => (thread::pool_id(), thread::priority()),
        })
    }

    fn operation(&self, operation: Option<OperationIndex>) -> &Counters {
        let Some((interface, index)) = operation else { return &self.operations.others };
        // Addresses of a process have 48 bits, so no two operations have the same key.
        let address = std::ptr::from_ref(interface).addr() as u64;
        self.operations.row(address << 16 | u64::from(index), || (interface, index))
    }

    /// The counts of the lanes, then of the others if there are any.
    pub fn lanes(&self) -> Vec<LaneRequests> {
        let all = self.lanes.read(|lane| *lane);
        all.into_iter().map(|(lane, counts)| LaneRequests { lane, counts }).collect()
    }

    /// The counts of the operations by name, then of the others if there are any.
    pub fn operations(&self) -> Vec<OperationRequests> {
        let name = |(interface, index): &OperationIndex| {
            let names = interface.operations.names();
            (interface.id, names.get(usize::from(*index)).copied().unwrap_or_default())
        };
        let all = self.operations.read(name);
        all.into_iter().map(|(operation, counts)| OperationRequests { operation, counts }).collect()
    }
}

/// Rows by a number other than 0.
#[derive(Debug)]
struct Table<N> {
    rows: Box<[Row<N>]>,
    others: Counters,
}

#[derive(Debug)]
struct Row<N> {
    /// 0 while the row is free.
    key: AtomicU64,
    /// Set by the thread that took the row.
    name: OnceLock<N>,
    counters: Counters,
}

impl<N> Table<N> {
    fn new(rows: usize) -> Table<N> {
        let row = |_| Row { key: AtomicU64::new(0), name: OnceLock::new(), counters: Counters::default() };
        Table { rows: (0..rows).map(row).collect(), others: Counters::default() }
    }

    #[inline]
    fn row(&self, key: u64, name: impl FnOnce() -> N) -> &Counters {
        let len = self.rows.len();
        // Fibonacci hashing: its high half is spread best.
        let first = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize;
        for i in 0..PROBES.min(len) {
            let row = &self.rows[(first + i) % len];
            let known = row.key.load(Relaxed);
            if known == key {
                return &row.counters;
            }
            if known == 0 {
                cold_path();
                match row.key.compare_exchange(0, key, Relaxed, Relaxed) {
                    Ok(_) => {
                        // No other thread sets it, so this does not wait.
                        let _ = row.name.set(name());
                        return &row.counters;
                    }
                    Err(other) if other == key => return &row.counters,
                    Err(_) => {}
                }
            }
        }
        &self.others
    }

    /// The rows by the name that `show` makes, those with the same name added up; then the others,
    /// if there are any.
    fn read<K: Ord>(&self, show: impl Fn(&N) -> K) -> Vec<(Option<K>, RequestCounts)> {
        let mut by_name = BTreeMap::<K, RequestCounts>::new();
        for row in &self.rows {
            let Some(name) = row.name.get() else { continue };
            let counts = row.counters.read();
            by_name.entry(show(name)).and_modify(|sum| sum.add(&counts)).or_insert(counts);
        }
        let others = self.others.read();
        let others = (others.requests() > 0).then_some((None, others));
        by_name.into_iter().map(|(name, counts)| (Some(name), counts)).chain(others).collect()
    }
}

#[derive(Debug, Default)]
struct Counters {
    results: AtomicU64,
    user_exceptions: AtomicU64,
    system_exceptions: AtomicU64,
    refused: AtomicU64,
    time_ns: AtomicU64,
    times: AtomicHistogram,
}

impl Counters {
    #[inline]
    fn record(&self, ended: Ended, time: Option<u64>) {
        let count = match ended {
            Ended::Results => &self.results,
            Ended::UserException => &self.user_exceptions,
            Ended::SystemException => &self.system_exceptions,
            Ended::Refused => {
                self.refused.fetch_add(1, Relaxed);
                &self.system_exceptions
            }
        };
        count.fetch_add(1, Relaxed);
        if let Some(time) = time {
            self.time_ns.fetch_add(time, Relaxed);
            self.times.count(time);
        }
    }

    fn read(&self) -> RequestCounts {
        RequestCounts {
            results: self.results.load(Relaxed),
            user_exceptions: self.user_exceptions.load(Relaxed),
            system_exceptions: self.system_exceptions.load(Relaxed),
            refused: self.refused.load(Relaxed),
            time_ns: self.time_ns.load(Relaxed),
            times: self.times.read(),
        }
    }
}

impl RequestCounts {
    /// All requests.
    pub fn requests(&self) -> u64 {
        self.results + self.user_exceptions + self.system_exceptions
    }

    fn add(&mut self, more: &RequestCounts) {
        self.results += more.results;
        self.user_exceptions += more.user_exceptions;
        self.system_exceptions += more.system_exceptions;
        self.refused += more.refused;
        self.time_ns += more.time_ns;
        for (sum, n) in self.times.0.iter_mut().zip(more.times.0) {
            *sum += n;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_keep_their_rows_and_what_finds_none_is_counted_together() {
        let table = Table::new(3);
        for round in 0..2 {
            for key in 1..=8 {
                table.row(key, || key % 2).record(Ended::Results, Some(1000 * key));
            }
            let read = table.read(|name| *name);
            let sum: u64 = read.iter().map(|(_, counts)| counts.results).sum();
            assert_eq!(sum, 8 * (round + 1));
            assert_eq!(table.others.read().results, 5 * (round + 1), "three have rows");
            assert_eq!(read.last().map(|(name, _)| *name), Some(None), "the others come last");
        }
        let read = table.read(|_| 0);
        assert_eq!((read[0].0, read[0].1.results, read.len()), (Some(0), 6, 2), "same names are one");
        assert_eq!(read[0].1.times.count(), 6);
    }

    #[test]
    fn threads_that_meet_at_a_row_share_it() {
        for _ in 0..50 {
            let table = Table::new(64);
            std::thread::scope(|threads| {
                for _ in 0..4 {
                    threads.spawn(|| {
                        for key in 1..=16 {
                            table.row(key, || key).record(Ended::Refused, None);
                        }
                    });
                }
            });
            let read = table.read(|name| *name);
            assert_eq!(read.len(), 16);
            for (_, counts) in read {
                assert_eq!((counts.refused, counts.requests(), counts.times.count()), (4, 4, 0));
            }
        }
    }
}
