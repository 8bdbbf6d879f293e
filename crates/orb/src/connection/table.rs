//! Accounts of the message blocks that connections hold, and the eviction of connections when few
//! blocks are left.
//!
//! A partly received message holds blocks until it is whole. A reply that its client does not read
//! holds them until the client reads it. Each connection's [`BufferAccount`] has how many octets it
//! holds, since when, and whether they move; other threads read it without the connection's locks.
//!
//! | pool | when | which connection is evicted |
//! |---|---|---|
//! | the ORB's | three quarters are in use | of the least urgent, the one with the greatest load; none that is more urgent than the one that needs blocks |
//! | a lane's own | no block is free | one of this lane that has stalled, else one that has held blocks for a second, by load |

use super::eviction::NextEvicted;
use super::peer_account::{PeerAccount, PeerKey, PeerLimits};
use super::{Connection, LOG};
use crate::buffers::{LANE_SMALL, LaneBlocks, MAX_RETAINED_BLOCK};
use crate::log::warn;
use isorb_rt::priority::Priority;
use isorb_rt::sync::PiMutex;
use isorb_rt::time::now_ns;
use isorb_scope::{Buffer, BufferPool};
use isorb_transport::{PeerIdentity, PeerProcess, Wait};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

/// Milliseconds that a thread waits for a block.
const WAITS: u32 = 1000;
/// Milliseconds that any thread waits for the blocks of an evicted connection: another thread may
/// be copying octets of it at this moment.
const EVICTED_WAITS: u32 = 10;

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
    /// Of the client, for which octets count.
    peer: Option<Arc<PeerAccount>>,
    /// Octets that count for it.
    counted: AtomicUsize,
}

/// The result of [`Direction::growing`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Growth {
    Grown,
    NoMemory,
    /// The client's messages hold as many octets as they may.
    OverLimit,
}

impl Direction {
    /// As [`note`](Self::note), where `counted` octets count for the client.
    pub fn note_counted(&self, since: u64, now: u64, moved: usize, held: usize, counted: usize) {
        self.note(since, now, moved, held);
        self.count(counted);
    }

    /// Records the state at `now`: `moved` octets of the messages since `since`, `held` octets of
    /// blocks.
    pub fn note(&self, since: u64, now: u64, moved: usize, held: usize) {
        if self.since.load(Ordering::Relaxed) == 0 || self.moved.swap(moved, Ordering::Relaxed) != moved {
            self.at.store(now, Ordering::Relaxed);
        }
        self.held.store(held, Ordering::Relaxed);
        self.since.store(since.max(1), Ordering::Relaxed);
    }

    fn count(&self, counted: usize) {
        if let Some(peer) = &self.peer {
            let before = self.counted.swap(counted, Ordering::Relaxed);
            peer.change_octets(before, counted);
        }
    }

    /// Runs `grow`, by which a block becomes `more` octets longer unless it returns false. The pool
    /// lends them before the next [`note`](Self::note), and the connection may be evicted in
    /// between. A `limited` message does not grow beyond the limit of its client.
    pub fn growing(&self, more: usize, limited: bool, grow: impl FnOnce() -> bool) -> Growth {
        if let Some(peer) = &self.peer {
            if !limited {
                peer.change_octets(0, more);
            } else if !peer.take_octets(more) {
                return Growth::OverLimit;
            }
        }
        self.held.fetch_add(more, Ordering::Relaxed);
        if grow() {
            self.counted.fetch_add(more, Ordering::Relaxed);
            return Growth::Grown;
        }
        self.held.fetch_sub(more, Ordering::Relaxed);
        if let Some(peer) = &self.peer {
            peer.release_octets(more);
        }
        Growth::NoMemory
    }

    /// Records that nothing is held any more.
    pub fn clear(&self) {
        self.since.store(0, Ordering::Relaxed);
        self.held.store(0, Ordering::Relaxed);
        self.count(0);
        self.moved.store(0, Ordering::Relaxed);
    }

    #[inline]
    fn since(&self) -> Option<u64> {
        match self.since.load(Ordering::Relaxed) {
            0 => None,
            since => Some(since),
        }
    }

    /// Its load on the pool. `None` when it holds no more octets than `allowed`.
    fn load(&self, now: u64, allowed: usize) -> Option<Load> {
        let since = self.since()?;
        let held = self.held.load(Ordering::Relaxed);
        if held <= allowed {
            return None;
        }
        let age = now.saturating_sub(since);
        let stalled = now.saturating_sub(self.at.load(Ordering::Relaxed)) >= STILL_NS;
        Some(Load { stalled, burden: (age >> 10).saturating_mul(held as u64 >> 10), old: age >= OLD_NS })
    }
}

/// The load of a connection on its pool, the greatest last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Load {
    stalled: bool,
    /// Octets times duration.
    burden: u64,
    /// Whether it holds blocks for a second or more.
    old: bool,
}

/// A direction without progress for this long counts as stalled.
const STILL_NS: u64 = 100_000_000;
/// A lane with all its blocks in use evicts a connection that makes progress after this time.
const OLD_NS: u64 = 1_000_000_000;

/// The blocks that one connection holds.
#[derive(Debug)]
pub(crate) struct BufferAccount {
    pub arriving: Direction,
    pub leaving: Direction,
    /// Of the ORB.
    pool: Arc<BufferPool>,
    /// Of the lane that serves the connection.
    lane: OnceLock<Arc<LaneBlocks>>,
    table: Arc<ConnectionTable>,
    /// The connection has ended: its thread stops waiting for blocks, and returns those that it
    /// holds, for which a more urgent lane may wait.
    ended: AtomicBool,
}

impl BufferAccount {
    /// The octets of arriving messages count for `peer`.
    pub fn new(
        table: &Arc<ConnectionTable>,
        pool: &Arc<BufferPool>,
        peer: Option<Arc<PeerAccount>>,
    ) -> Arc<BufferAccount> {
        Arc::new(BufferAccount {
            arriving: Direction { peer, ..Direction::default() },
            leaving: Direction::default(),
            pool: pool.clone(),
            lane: OnceLock::new(),
            table: table.clone(),
            ended: AtomicBool::new(false),
        })
    }

    /// Takes blocks from a lane's pool from now on. The first lane stays.
    pub fn use_lane(&self, blocks: &Arc<LaneBlocks>) {
        let _ = self.lane.set(blocks.clone());
    }

    /// Takes no more blocks, and stops waiting for one.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Release);
    }

    #[cfg(test)]
    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// The pool in use.
    #[inline]
    pub fn pool(&self) -> &Arc<BufferPool> {
        self.lane.get().map_or(&self.pool, |lane| &lane.pool)
    }

    /// The blocks of the lane that serves the connection.
    pub fn lane(&self) -> Option<&Arc<LaneBlocks>> {
        self.lane.get()
    }

    fn priority(&self) -> Option<Priority> {
        self.lane().map(|lane| lane.priority)
    }

    /// A block of at least `bytes`; evicts connections when the pool runs low.
    ///
    /// # Real-time
    /// As [`BufferPool::take`]. When more than three quarters of the ORB's pool are out, or no
    /// block of the lane is free, one walk over the connections under a PI lock, and up to 10 ms
    /// for the blocks of an evicted connection. With the ORB's pool, a thread that may block waits
    /// up to a second for blocks that other threads return.
    pub fn take(&self, bytes: usize, wait: Wait) -> Option<Buffer> {
        let pool = self.pool();
        if pool.is_reserved() {
            return pool.take(bytes).or_else(|| self.take_evicting(bytes));
        }
        self.obtain(bytes, wait, || pool.take(bytes))
    }

    /// A block of the ORB's pool with at least `first` octets, for a message of `bytes`: it
    /// [grows](Self::grow) in place. A block that the pool has retained may be longer, unless the
    /// pool runs low.
    ///
    /// # Real-time
    /// As [`BufferPool::take_growing`] and [`take`](Self::take).
    pub fn take_growing(&self, bytes: usize, first: usize, wait: Wait) -> Option<Buffer> {
        let pool = self.pool();
        // A retained block takes no memory that was free.
        if pool.out() <= pool.limit() / 2
            && let Some(mut block) = pool.take_retained(bytes)
            && block.grow(first)
        {
            return Some(block);
        }
        self.obtain(first, wait, || pool.take_growing(bytes, first))
    }

    /// Makes a block at least `bytes` long in place; false if there is no memory.
    ///
    /// # Real-time
    /// As [`Buffer::grow`] and [`take`](Self::take).
    pub fn grow(&self, block: &mut Buffer, bytes: usize, wait: Wait) -> bool {
        let more = bytes.saturating_sub(block.capacity());
        self.obtain(more, wait, || block.grow(bytes).then_some(())).is_some()
    }

    /// `bytes` octets of the ORB's pool by `take`; evicts connections when the pool runs low.
    fn obtain<T>(&self, bytes: usize, wait: Wait, mut take: impl FnMut() -> Option<T>) -> Option<T> {
        let pool = self.pool();
        self.evict();
        let mut taken = take();
        let mut left = if wait == Wait::Block && bytes <= pool.limit() { WAITS } else { 0 };
        if taken.is_none() && self.table.evict(self, bytes) {
            taken = take();
            left = left.max(EVICTED_WAITS);
        }
        while taken.is_none() && left > 0 && !self.ended.load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_millis(1));
            self.evict();
            taken = take();
            left -= 1;
        }
        taken
    }

    /// Evicts connections of the lane until a block is free.
    #[cold]
    fn take_evicting(&self, bytes: usize) -> Option<Buffer> {
        let pool = self.pool();
        if bytes > pool.largest() {
            return None;
        }
        while let Some(connection) = self.table.burden_of_lane(self) {
            if let Some(lane) = self.lane() {
                lane.evicted.fetch_add(1, Ordering::Relaxed);
                let (peer, name) = (connection.peer(), &lane.name);
                warn(LOG, format_args!("{peer}: evicted; all blocks of {name} are in use (messages)"));
            }
            connection.break_off();
            connection.discard();
            for _ in 0..EVICTED_WAITS {
                if let Some(block) = pool.take(bytes) {
                    return Some(block);
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        None
    }

    /// Evicts connections when more than three quarters of the ORB's pool are in use.
    #[inline]
    pub fn evict(&self) {
        let pool = self.pool();
        if !pool.is_reserved() && pool.out() > pool.limit() / 4 * 3 {
            self.table.evict(self, 0);
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

    /// Counts a request that was refused at a limit of its client.
    pub fn count_refusal(&self) {
        self.table.requests_refused.fetch_add(1, Ordering::Relaxed);
    }

    fn load(&self, now: u64, allowed: usize) -> Option<Load> {
        self.arriving.load(now, allowed).max(self.leaving.load(now, allowed))
    }

    fn held(&self) -> usize {
        self.arriving.held.load(Ordering::Relaxed) + self.leaving.held.load(Ordering::Relaxed)
    }
}

impl Drop for BufferAccount {
    fn drop(&mut self) {
        // A connection that ended within a message holds nothing for its client any more.
        self.arriving.count(0);
    }
}

pub(super) fn peer_key(connection: &Connection) -> PeerKey {
    PeerKey::of(connection.caller().identity())
}

/// How many connections there may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AdmissionLimits {
    pub all: usize,
    /// Of one peer.
    pub peer: usize,
}

impl AdmissionLimits {
    /// For connections with another limit.
    pub const NONE: AdmissionLimits = AdmissionLimits { all: usize::MAX, peer: usize::MAX };
}

/// Connections of the own user over local transports that are admitted above the limit, so that
/// an operator can look at a full server.
const FOR_ADMINISTRATORS: usize = 4;

/// A connection, and the account of its blocks. The account outlives the connection while the
/// blocks return to their pool, which takes a long one some 100 us.
#[derive(Debug)]
pub(super) struct Entry {
    connection: Weak<Connection>,
    account: Weak<BufferAccount>,
}

impl Entry {
    pub(super) fn of(connection: &Arc<Connection>) -> Entry {
        Entry { connection: Arc::downgrade(connection), account: Arc::downgrade(&connection.account) }
    }

    pub(super) fn upgrade(&self) -> Option<Arc<Connection>> {
        self.connection.upgrade()
    }

    pub(super) fn is_of(&self, connection: &Arc<Connection>) -> bool {
        std::ptr::eq(self.connection.as_ptr(), Arc::as_ptr(connection))
    }
}

/// The connections that an ORB has accepted.
#[derive(Debug, Default)]
pub(crate) struct ConnectionTable {
    connections: PiMutex<Vec<Entry>>,
    /// Used while `connections` is held.
    next_evicted: PiMutex<NextEvicted>,
    /// What the clients hold, if that is limited.
    peers: PiMutex<HashMap<PeerKey, Weak<PeerAccount>>>,
    pub accepted: AtomicU64,
    pub refused: AtomicU64,
    pub evicted: AtomicU64,
    /// Requests that were refused at a limit of their client.
    pub requests_refused: AtomicU64,
}

impl ConnectionTable {
    /// The account that the connections of this peer share. `None` without limits.
    ///
    /// # Real-time
    /// For a connection that is accepted: a PI lock, and an allocation for the first of a client.
    pub fn peer_account(&self, identity: &PeerIdentity, limits: PeerLimits) -> Option<Arc<PeerAccount>> {
        let key = PeerKey::of(identity);
        let mut peers = self.peers.lock();
        if let Some(account) = peers.get(&key).and_then(Weak::upgrade) {
            return Some(account);
        }
        let account = Arc::new(PeerAccount::new(key, limits)?);
        if peers.len() == peers.capacity() {
            peers.retain(|_, account| account.strong_count() > 0);
        }
        peers.insert(key, Arc::downgrade(&account));
        Some(account)
    }

    /// Requests that are outstanding, and octets of messages, of all clients with a limit.
    pub fn peer_counts(&self) -> (usize, usize) {
        let peers = self.peers.lock();
        let all = peers.values().filter_map(Weak::upgrade);
        all.fold((0, 0), |(calls, octets), peer| (calls + peer.calls(), octets + peer.octets()))
    }

    /// Adds a connection, unless too many are open; removes ended ones. At a limit an idle
    /// connection is evicted, whatever its client has sent before: the client gets CloseConnection
    /// and opens another one for its next call.
    pub fn admit(&self, connection: &Arc<Connection>, limits: AdmissionLimits) -> bool {
        let mut connections = self.connections.lock();
        let evicted = match self.make_room(&mut connections, connection, limits) {
            Ok(evicted) => evicted,
            Err(()) => {
                self.refused.fetch_add(1, Ordering::Relaxed);
                return false;
            }
        };
        connections.push(Entry::of(connection));
        self.accepted.fetch_add(1, Ordering::Relaxed);
        drop(connections);
        if let Some(evicted) = evicted {
            self.count_eviction(&evicted);
            evicted.close();
        }
        true
    }

    /// Takes out the connection to evict, if there must be one.
    fn make_room(
        &self,
        connections: &mut Vec<Entry>,
        newcomer: &Connection,
        limits: AdmissionLimits,
    ) -> Result<Option<Arc<Connection>>, ()> {
        let key = peer_key(newcomer);
        let mut next = self.next_evicted.lock();
        let limits_peer = limits.peer < limits.all && key != PeerKey::Unknown;
        let of = limits_peer.then_some(key);
        if (limits_peer || connections.len() >= limits.all)
            && let Some(evicted) = next.take(connections, of)
        {
            return Ok(Some(evicted));
        }
        if connections.len() >= limits.all || connections.len() == connections.capacity() {
            connections.retain(|other| other.upgrade().is_some_and(|other| other.is_open()));
        }
        let is_of_peer =
            |other: &Entry| other.upgrade().is_some_and(|other| other.is_open() && peer_key(&other) == key);
        let peer_is_full =
            limits_peer && connections.iter().filter(|other| is_of_peer(other)).count() >= limits.peer;
        if !peer_is_full && connections.len() < limits.all {
            return Ok(None);
        }
        // Where the peer is not full, the next newcomer's may be.
        let of = peer_is_full.then_some(key);
        if let Some(evicted) = next.find(connections, of, limits_peer == peer_is_full) {
            return Ok(Some(evicted));
        }
        let own = key == PeerKey::User(PeerProcess::this().user);
        let share = own && connections.len() < limits.all.saturating_add(FOR_ADMINISTRATORS);
        if share { Ok(None) } else { Err(()) }
    }

    /// Counts and logs a connection that gave way.
    pub fn count_eviction(&self, evicted: &Connection) {
        self.evicted.fetch_add(1, Ordering::Relaxed);
        let peer = evicted.peer();
        warn(
            LOG,
            format_args!(
                "{peer}: evicted for a new connection; it was idle (max_connections, max_peer_connections)"
            ),
        );
    }

    /// How many more connections may be open with a limit of `limit`. Not for the request path: it
    /// may walk over all connections.
    pub fn room(&self, limit: usize) -> usize {
        let mut connections = self.connections.lock();
        if connections.len() >= limit {
            connections.retain(|other| other.upgrade().is_some_and(|other| other.is_open()));
        }
        limit.saturating_sub(connections.len())
    }

    /// The open connections.
    pub fn all(&self) -> Vec<Arc<Connection>> {
        self.connections.lock().iter().filter_map(Entry::upgrade).collect()
    }

    /// Of the connections that use `needs`'s own pool, the one with the greatest load among those
    /// that may be evicted for it.
    fn burden_of_lane(&self, needs: &BufferAccount) -> Option<Arc<Connection>> {
        let now = now_ns();
        let connections = self.connections.lock();
        let all = connections.iter().filter_map(Entry::upgrade).filter(|connection| {
            let account = connection.account();
            connection.is_open() && !std::ptr::eq(account, needs) && Arc::ptr_eq(account.pool(), needs.pool())
        });
        let loads =
            all.filter_map(|connection| Some((connection.account().load(now, LANE_SMALL)?, connection)));
        let loads = loads.filter(|(load, _)| load.stalled || load.old);
        loads.max_by_key(|(load, _)| *load).map(|(_, connection)| connection)
    }

    /// Breaks off connections with blocks of the ORB, until a quarter of its pool will be free, and
    /// `bytes`: the least urgent first, of these the one with the greatest load. None that is more
    /// urgent than `needs`. Whether so much will be free.
    #[cold]
    fn evict(&self, needs: &BufferAccount, bytes: usize) -> bool {
        let now = now_ns();
        let pool = needs.pool();
        let most = (pool.limit() / 4 * 3).min(pool.limit().saturating_sub(bytes.next_power_of_two()));
        loop {
            let mut coming = 0;
            let mut worst: Option<(Eviction, Arc<Connection>)> = None;
            {
                let connections = self.connections.lock();
                for entry in connections.iter() {
                    let Some(account) = entry.account.upgrade() else { continue };
                    if !Arc::ptr_eq(account.pool(), pool) {
                        continue;
                    }
                    let Some(connection) = entry.upgrade().filter(|connection| connection.is_open()) else {
                        // Its blocks return already.
                        coming += account.held();
                        continue;
                    };
                    if account.priority() <= needs.priority()
                        && let Some(load) = account.load(now, MAX_RETAINED_BLOCK)
                    {
                        let order = (Reverse(account.priority()), load);
                        if worst.as_ref().is_none_or(|(most, _)| order > *most) {
                            worst = Some((order, connection));
                        }
                    }
                }
            }
            if pool.out().saturating_sub(coming) <= most {
                return true;
            }
            let Some((_, connection)) = worst else { return false };
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

/// The order of evictions, the first one last.
type Eviction = (Reverse<Option<Priority>>, Load);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stalled_connection_is_evicted_first_then_the_greatest_load() {
        let [still, long, large, small] = [(); 4].map(|()| Direction::default());
        let now = 2_000_000_000;
        still.note(now - STILL_NS, now - STILL_NS, 10, MAX_RETAINED_BLOCK + 1);
        long.note(1, 1, 1, 1 << 20);
        long.note(1, now - 1, 2, 1 << 20);
        large.note(now / 2, now - 1, 1, 3 << 20);
        small.note(1, 1, 1, MAX_RETAINED_BLOCK);
        let load = |direction: &Direction| direction.load(now, MAX_RETAINED_BLOCK);
        assert!(load(&still) > load(&large) && load(&large) > load(&long));
        assert_eq!(load(&small), None, "every connection may keep so much");
        large.clear();
        assert_eq!(load(&large), None);
    }

    #[test]
    fn blocks_that_return_after_the_end_of_their_connection_are_awaited() {
        let pool = BufferPool::new(4 << 20, 0);
        let block = pool.take(4 << 20).unwrap();
        let table: Arc<ConnectionTable> = Arc::default();
        let [ending, needs] = [(); 2].map(|()| BufferAccount::new(&table, &pool, None));
        ending.arriving.note(1, 1, 1, block.capacity());
        // No connection is left to be evicted.
        assert!(!table.evict(&needs, 1));
        table.connections.lock().push(Entry { connection: Weak::new(), account: Arc::downgrade(&ending) });
        assert!(table.evict(&needs, 1));
        drop(ending);
        assert!(!table.evict(&needs, 1));
        drop(block);
        assert!(table.evict(&needs, 1));
    }

    #[test]
    fn an_evicted_connection_stops_waiting_for_blocks() {
        let pool = BufferPool::new(4 << 20, 0);
        let table: Arc<ConnectionTable> = Arc::default();
        let [holder, evicted] = [(); 2].map(|()| BufferAccount::new(&table, &pool, None));
        let block = pool.take(4 << 20).unwrap();
        holder.arriving.note(1, 1, 1, block.capacity());
        evicted.end();
        let mut tries = 0;
        let taken = evicted.obtain(1 << 20, Wait::Block, || {
            tries += 1;
            pool.take(1 << 20)
        });
        assert!(taken.is_none());
        assert_eq!(tries, 1);
    }

    #[test]
    fn octets_that_a_block_grows_by_count_before_they_are_there() {
        let direction = Direction::default();
        direction.note(1, 1, 1, 100);
        let held = || direction.held.load(Ordering::Relaxed);
        assert_eq!(direction.growing(50, true, || held() != 150), Growth::NoMemory);
        assert_eq!(held(), 100);
        assert_eq!(direction.growing(50, true, || held() == 150), Growth::Grown);
        assert_eq!(held(), 150);
    }

    #[test]
    fn octets_that_arrive_count_for_their_client_until_the_account_ends() {
        let (table, pool) = (Arc::<ConnectionTable>::default(), BufferPool::new(1 << 20, 0));
        let process = Some(PeerProcess { user: 7, ..PeerProcess::this() });
        let identity = PeerIdentity { process, ..PeerIdentity::default() };
        let peer = || table.peer_account(&identity, PeerLimits { calls: usize::MAX, octets: 250 });
        let accounts = [(); 2].map(|()| BufferAccount::new(&table, &pool, peer()));
        let [a, b] = [0, 1].map(|i: usize| &accounts[i].arriving);
        a.note_counted(1, 1, 1, 4096, 100);
        assert_eq!(b.growing(150, true, || true), Growth::Grown);
        assert_eq!(a.growing(1, true, || true), Growth::OverLimit);
        assert_eq!(table.peer_counts(), (0, 250));
        // A reply of the client is not refused.
        assert_eq!(a.growing(1, false, || true), Growth::Grown);
        assert_eq!(a.growing(1, false, || false), Growth::NoMemory);
        assert_eq!(table.peer_counts(), (0, 251));
        b.note_counted(1, 2, 1, 4096, 20);
        assert_eq!(table.peer_counts(), (0, 121));
        a.clear();
        assert_eq!(table.peer_counts(), (0, 20));
        let other = peer();
        drop(accounts);
        assert_eq!(table.peer_counts(), (0, 0), "within a message");
        drop(other);
        assert!(table.peers.lock().values().all(|peer| peer.strong_count() == 0));
    }

    #[test]
    fn a_message_has_until_its_limit_and_a_reply_as_long_as_it_moves() {
        let account = BufferAccount::new(&Arc::default(), &BufferPool::new(1 << 20, 0), None);
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
