//! Accounts of the message blocks that connections hold, and the eviction of connections when few
//! blocks are left.
//!
//! A partly received message holds blocks until it is whole. A reply that its client does not read
//! holds them until the client reads it. Each connection's [`BufferAccount`] has how many octets it
//! holds, since when, and whether they move; other threads read it without the connection's locks.
//! Once three quarters of the pool are in use, the connection with the greatest load is evicted, so
//! that the others find blocks in the last quarter.

use super::idle::GRACE_NS;
use super::{Connection, LOG};
use crate::buffers::BLOCK_STAYS;
use crate::log::warn;
use isorb_rt::sync::PiMutex;
use isorb_rt::time::now_ns;
use isorb_scope::{Buffer, BufferPool};
use isorb_transport::Wait;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Milliseconds that a thread waits for a block.
const WAITS: u32 = 1000;

/// One direction of a connection.
#[derive(Debug, Default)]
pub(crate) struct Direction {
    /// When the oldest of the messages began, in nanoseconds; 0 when nothing is held.
    since: AtomicU64,
    /// When octets moved last.
    at: AtomicU64,
    /// Octets of these messages that have moved.
    moved: AtomicUsize,
    /// Octets of the blocks that are held.
    held: AtomicUsize,
}

impl Direction {
    /// Records the state at `now`: `moved` octets of the messages since `since`, `held` octets of
    /// blocks.
    pub fn note(&self, since: u64, now: u64, moved: usize, held: usize) {
        if self.since.load(Ordering::Relaxed) == 0 || self.moved.swap(moved, Ordering::Relaxed) != moved {
            self.at.store(now, Ordering::Relaxed);
        }
        self.held.store(held, Ordering::Relaxed);
        self.since.store(since.max(1), Ordering::Relaxed);
    }

    /// Records that nothing is held any more.
    pub fn clear(&self) {
        self.since.store(0, Ordering::Relaxed);
        self.held.store(0, Ordering::Relaxed);
        self.moved.store(0, Ordering::Relaxed);
    }

    #[inline]
    fn since(&self) -> Option<u64> {
        match self.since.load(Ordering::Relaxed) {
            0 => None,
            since => Some(since),
        }
    }

    /// Its load on the pool: whether it stalls, then octets times duration. `None` when it holds no
    /// more than any connection may keep.
    fn load(&self, now: u64) -> Option<(bool, u64)> {
        let since = self.since()?;
        let held = self.held.load(Ordering::Relaxed);
        if held <= BLOCK_STAYS {
            return None;
        }
        let still = now.saturating_sub(self.at.load(Ordering::Relaxed)) >= STILL_NS;
        let long = now.saturating_sub(since) >> 10;
        Some((still, long.saturating_mul(held as u64 >> 10)))
    }
}

/// A direction without progress for this long counts as stalled.
const STILL_NS: u64 = 100_000_000;

/// The blocks that one connection holds.
#[derive(Debug)]
pub(crate) struct BufferAccount {
    pub arriving: Direction,
    pub leaving: Direction,
    pool: Arc<BufferPool>,
    table: Arc<ConnectionTable>,
}

impl BufferAccount {
    pub fn new(table: &Arc<ConnectionTable>, pool: &Arc<BufferPool>) -> Arc<BufferAccount> {
        Arc::new(BufferAccount {
            arriving: Direction::default(),
            leaving: Direction::default(),
            pool: pool.clone(),
            table: table.clone(),
        })
    }

    /// A block of at least `bytes`; evicts connections when the pool runs low.
    ///
    /// # Real-time
    /// As [`BufferPool::take`]; when more than three quarters of the pool are out, one walk over
    /// the connections under a PI lock. A thread that may block waits up to a second for blocks
    /// that other threads are about to return.
    pub fn take(&self, bytes: usize, wait: Wait) -> Option<Buffer> {
        self.evict();
        let mut taken = self.pool.take(bytes);
        let mut left = if wait == Wait::Block && bytes <= self.pool.limit() { WAITS } else { 0 };
        while taken.is_none() && left > 0 {
            std::thread::sleep(Duration::from_millis(1));
            self.evict();
            taken = self.pool.take(bytes);
            left -= 1;
        }
        taken
    }

    /// Evicts connections when more than three quarters of the pool are in use.
    #[inline]
    pub fn evict(&self) {
        if self.pool.out() > self.pool.limit() / 4 * 3 {
            self.table.evict(&self.pool);
        }
    }

    /// When the connection is to be broken off unless it makes progress, in nanoseconds. A message
    /// must arrive within `message` of its beginning. A kept reply must move once in `send`.
    #[inline]
    pub fn abandoned_at(&self, message: Option<Duration>, send: Option<Duration>) -> Option<u64> {
        let arriving = self.arriving.since();
        let leaving = self.leaving.since();
        if arriving.is_none() && leaving.is_none() {
            return None;
        }
        let after = |at: u64, limit: Option<Duration>| {
            limit.map(|limit| at.saturating_add(u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX)))
        };
        let arriving = arriving.and_then(|since| after(since, message));
        let leaving = leaving.and_then(|_| after(self.leaving.at.load(Ordering::Relaxed), send));
        match (arriving, leaving) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Whether a message is partly received, or a reply is not read yet.
    pub fn is_busy(&self) -> bool {
        self.arriving.since().or(self.leaving.since()).is_some()
    }

    fn load(&self, now: u64) -> Option<(bool, u64)> {
        self.arriving.load(now).max(self.leaving.load(now))
    }

    fn held(&self) -> usize {
        self.arriving.held.load(Ordering::Relaxed) + self.leaving.held.load(Ordering::Relaxed)
    }
}

/// The connection that has been open for longest without a request, if for longer than the grace
/// period.
fn longest_silent(connections: &[Weak<Connection>]) -> Option<usize> {
    let now = now_ns();
    let silent = connections.iter().enumerate().filter_map(|(i, connection)| {
        let since = connection.upgrade()?.silent_since()?;
        (now.saturating_sub(since) >= GRACE_NS).then_some((since, i))
    });
    silent.min().map(|(_, i)| i)
}

/// The connections that an ORB has accepted.
#[derive(Debug, Default)]
pub(crate) struct ConnectionTable(PiMutex<Vec<Weak<Connection>>>);

impl ConnectionTable {
    /// Adds a connection, unless `limit` are open; removes ended ones. A full table evicts the
    /// connection that has been open for longest without a request, so that clients that only
    /// connect do not keep others out.
    pub fn admit(&self, connection: &Arc<Connection>, limit: usize) -> bool {
        let mut connections = self.0.lock();
        if connections.len() >= limit || connections.len() == connections.capacity() {
            connections.retain(|other| other.upgrade().is_some_and(|other| other.is_open()));
        }
        let mut evicted = None;
        if connections.len() >= limit {
            let silent = longest_silent(&connections).and_then(|i| Some((i, connections[i].upgrade()?)));
            let Some((i, silent)) = silent.filter(|(_, silent)| !silent.waits_to_be_read()) else {
                return false;
            };
            connections.swap_remove(i);
            evicted = Some(silent);
        }
        connections.push(Arc::downgrade(connection));
        drop(connections);
        if let Some(silent) = evicted {
            let peer = silent.peer();
            warn(
                LOG,
                format_args!("{peer}: evicted for a new connection; it sent no request (max_connections)"),
            );
            silent.break_off();
        }
        true
    }

    /// How many more connections may be open with a limit of `limit`. Not for the request path: it
    /// may walk over all connections.
    pub fn room(&self, limit: usize) -> usize {
        let mut connections = self.0.lock();
        if connections.len() >= limit {
            connections.retain(|other| other.upgrade().is_some_and(|other| other.is_open()));
        }
        limit.saturating_sub(connections.len())
    }

    /// The open connections.
    pub fn all(&self) -> Vec<Arc<Connection>> {
        self.0.lock().iter().filter_map(Weak::upgrade).collect()
    }

    /// Breaks off the connections with the greatest load, until a quarter of the pool will be free.
    #[cold]
    fn evict(&self, pool: &BufferPool) {
        let now = now_ns();
        let mut worst: Option<((bool, u64), Arc<Connection>)> = None;
        loop {
            let mut coming = 0;
            {
                let connections = self.0.lock();
                for connection in connections.iter().filter_map(Weak::upgrade) {
                    let account = connection.account();
                    if !connection.is_open() {
                        // Its blocks return already.
                        coming += account.held();
                    } else if let Some(load) = account.load(now)
                        && worst.as_ref().is_none_or(|(most, _)| load > *most)
                    {
                        worst = Some((load, connection));
                    }
                }
            }
            if pool.out().saturating_sub(coming) <= pool.limit() / 4 * 3 {
                return;
            }
            let Some((_, connection)) = worst.take() else { return };
            let peer = connection.peer();
            warn(
                LOG,
                format_args!(
                    "{peer}: evicted; message blocks run out (memory_limit) and its load is greatest"
                ),
            );
            connection.break_off();
            connection.discard();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stalled_connection_is_evicted_first_then_the_greatest_load() {
        let [still, long, large, small] = [(); 4].map(|()| Direction::default());
        let now = 2_000_000_000;
        still.note(now - STILL_NS, now - STILL_NS, 10, BLOCK_STAYS + 1);
        long.note(1, 1, 1, 1 << 20);
        long.note(1, now - 1, 2, 1 << 20);
        large.note(now / 2, now - 1, 1, 3 << 20);
        small.note(1, 1, 1, BLOCK_STAYS);
        let load = |way: &Direction| way.load(now);
        assert!(load(&still) > load(&large) && load(&large) > load(&long));
        assert_eq!(load(&small), None, "every connection may keep so much");
        large.clear();
        assert_eq!(load(&large), None);
    }

    #[test]
    fn a_message_has_until_its_limit_and_a_reply_as_long_as_it_moves() {
        let account = BufferAccount::new(&Arc::default(), &BufferPool::new(1 << 20, 0));
        let second = Some(Duration::from_secs(1));
        assert_eq!(account.abandoned_at(second, second), None);
        account.arriving.note(5, 5, 10, 20);
        account.arriving.note(5, 900, 11, 20);
        assert_eq!(account.abandoned_at(second, None), Some(1_000_000_005));
        assert_eq!(account.abandoned_at(None, second), None);
        account.leaving.note(7, 7, 0, 20);
        assert_eq!(account.abandoned_at(None, second), Some(1_000_000_007));
        account.leaving.note(7, 800, 1, 20);
        account.leaving.note(7, 900, 1, 20);
        assert_eq!(account.abandoned_at(None, second), Some(1_000_000_800));
    }
}
