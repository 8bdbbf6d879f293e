//! Which idle connection gives way to a newcomer at a full server.
//!
//! One walk over all connections finds the order of several, so that a storm of newcomers does not
//! make a walk for each.

use super::peer_account::PeerKey;
use super::table::{Entry, peer_key};
use super::{Connection, Idleness};
use isorb_rt::time::now_ns;
use std::cmp::Reverse;
use std::sync::{Arc, Weak};

/// Connections that a walk remembers for the next newcomers.
const REMEMBERED: usize = 15;
/// For how long it does, in nanoseconds: what the walk saw changes.
const FRESH_NS: u64 = 1_000_000;

/// The connections that are evicted next: of those that were idle for long, one of the peer with
/// the most connections, and of these the one that its client has not used for longest. One with
/// octets to be read is not idle.
#[derive(Debug, Default)]
pub(super) struct NextEvicted {
    /// The peer that they belong to; `None` for any peers.
    of: Option<PeerKey>,
    until_ns: u64,
    /// The next one last, and since when it was idle.
    remembered: Vec<(Weak<Connection>, u64)>,
}

impl NextEvicted {
    /// Takes one out that the latest walk remembers, if it is idle still. `of` is the peer that it
    /// has to belong to.
    pub fn take(&mut self, connections: &mut Vec<Entry>, of: Option<PeerKey>) -> Option<Arc<Connection>> {
        if self.remembered.is_empty() || self.of != of {
            return None;
        }
        let now = now_ns();
        if now >= self.until_ns {
            self.remembered.clear();
        }
        while let Some((connection, since)) = self.remembered.pop() {
            if let Some(connection) = connection.upgrade()
                && connection.is_open()
                && is_quiet(&connection, now, since)
                && let Some(place) = connections.iter().position(|entry| entry.is_of(&connection))
            {
                connections.swap_remove(place);
                return Some(connection);
            }
        }
        None
    }

    /// Walks over all connections, and takes the first one out; `of` is the peer that it has to
    /// belong to. With `remember`, the next ones are remembered.
    pub fn find(
        &mut self,
        connections: &mut Vec<Entry>,
        of: Option<PeerKey>,
        remember: bool,
    ) -> Option<Arc<Connection>> {
        self.remembered.clear();
        let now = now_ns();
        let idle = idle_connections(connections, of, now);
        let first = idle.iter().position(|one| is_quiet(&one.connection, now, one.since))?;
        let evicted = &idle[first];
        connections.retain(|entry| !entry.is_of(&evicted.connection));
        if remember {
            // As many as can go while their peer has the most connections, if each newcomer is of
            // the one with the most after it.
            let others = idle.iter().filter(|one| one.peer != evicted.peer);
            let most = others.map(|one| one.share).max().unwrap_or(0);
            let may_go = (evicted.share.saturating_sub(most) / 2).min(REMEMBERED);
            let is_next = |one: &&Candidate| one.idleness == evicted.idleness && one.peer == evicted.peer;
            let next = idle[first + 1..].iter().filter(is_next).take(may_go);
            (self.of, self.until_ns) = (of, now.saturating_add(FRESH_NS));
            self.remembered.extend(next.map(|one| (Arc::downgrade(&one.connection), one.since)));
            self.remembered.reverse();
        }
        Some(evicted.connection.clone())
    }
}

/// Looks at its octets, and again at its use: another thread may have read them, and serves them
/// now.
fn is_quiet(connection: &Connection, now: u64, since: u64) -> bool {
    let is_idle = || connection.idleness(now).is_some_and(|(_, idle_since)| idle_since == since);
    is_idle() && !connection.waits_to_be_read() && is_idle()
}

/// The idle ones, of one peer or of all, in the order in which they are evicted.
fn idle_connections(connections: &[Entry], of: Option<PeerKey>, now: u64) -> Vec<Candidate> {
    let mut open: Vec<Candidate> = connections
        .iter()
        .enumerate()
        .filter_map(|(place, entry)| Some(Candidate::of(place, entry.upgrade()?, now)))
        .collect();
    open.sort_unstable_by_key(|one| one.peer);
    for of_one_peer in open.chunk_by_mut(|one, next| one.peer == next.peer) {
        let share = of_one_peer.len();
        of_one_peer.iter_mut().for_each(|one| one.share = share);
    }
    open.retain(|one| one.idleness.is_some() && of.is_none_or(|of| of == one.peer));
    open.sort_unstable_by_key(Candidate::order);
    open
}

/// An open connection that may be evicted if it is idle.
struct Candidate {
    place: usize,
    connection: Arc<Connection>,
    peer: PeerKey,
    /// Connections of the same peer.
    share: usize,
    idleness: Option<Idleness>,
    since: u64,
}

impl Candidate {
    fn of(place: usize, connection: Arc<Connection>, now: u64) -> Candidate {
        let idle = connection.idleness(now);
        let (idleness, since) = (idle.map(|(idleness, _)| idleness), idle.map_or(0, |(_, since)| since));
        Candidate { place, peer: peer_key(&connection), connection, share: 0, idleness, since }
    }

    /// The least is evicted first.
    fn order(&self) -> (Option<Idleness>, Reverse<usize>, u64, usize) {
        (self.idleness, Reverse(self.share), self.since, self.place)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::{ConnectionTable, Side};
    use super::*;
    use crate::Config;
    use isorb_rt::time::{Deadline, sleep_until};
    use isorb_scope::BufferPool;
    use isorb_testkit::wait_until;
    use isorb_transport::{Tcp, Transport, Wait};
    use std::io::Write;
    use std::net::{SocketAddr, TcpStream};

    /// Connections from the oldest to the youngest, with their clients.
    fn connections<const N: usize>() -> [(Arc<Connection>, TcpStream); N] {
        connections_from(|_| [127, 0, 0, 1])
    }

    fn connections_from<const N: usize>(
        from: impl Fn(usize) -> [u8; 4],
    ) -> [(Arc<Connection>, TcpStream); N] {
        let listener = Tcp.listen("127.0.0.1:0").unwrap();
        let (table, pool) = (Arc::<ConnectionTable>::default(), BufferPool::new(1 << 20, 0));
        std::array::from_fn(|number| {
            let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
            socket.bind(&SocketAddr::from((from(number), 0)).into()).unwrap();
            socket.connect(&listener.address().parse::<SocketAddr>().unwrap().into()).unwrap();
            let client = TcpStream::from(socket);
            let stream = listener.accept(Wait::Block).unwrap();
            let limits = Config::default().limits();
            let connection = Connection::new(stream, Side::Acceptor, limits, pool.clone(), &table);
            // The next one is younger.
            sleep_until(Deadline::at_ns(now_ns() + 1));
            (Arc::new(connection), client)
        })
    }

    /// The walk of which tests is as fresh as they like.
    fn remembering(entries: &mut Vec<Entry>) -> (NextEvicted, Arc<Connection>) {
        let mut next = NextEvicted::default();
        let evicted = next.find(entries, None, true).unwrap();
        next.until_ns = u64::MAX;
        (next, evicted)
    }

    #[test]
    fn what_was_used_since_the_walk_stays() {
        let [a, b, mut c, d, e, f, g, h, i, j] = connections();
        let all = [&a, &b, &c, &d, &e, &f, &g, &h, &i, &j];
        let mut entries: Vec<Entry> = all.map(|(one, _)| Entry::of(one)).into();
        let (mut next, first) = remembering(&mut entries);
        assert!(Arc::ptr_eq(&first, &a.0));
        b.0.mark_used();
        c.1.write_all(b"G").unwrap();
        wait_until("the octet has arrived", || c.0.waits_to_be_read());
        d.0.break_off();
        assert!(next.take(&mut entries, Some(PeerKey::Unknown)).is_none(), "of another peer");
        let second = next.take(&mut entries, None).unwrap();
        assert!(Arc::ptr_eq(&second, &e.0));
        let left: Vec<bool> =
            [&a, &b, &c, &d, &e].map(|(one, _)| entries.iter().any(|entry| entry.is_of(one))).into();
        assert_eq!(left, [false, true, true, true, false]);
    }

    #[test]
    fn a_walk_is_remembered_for_a_moment_and_for_some() {
        let all: [_; 2 * REMEMBERED + 2] = connections();
        let mut entries: Vec<Entry> = all.iter().map(|(one, _)| Entry::of(one)).collect();
        let (mut next, _) = remembering(&mut entries);
        let more: Vec<_> = std::iter::from_fn(|| next.take(&mut entries, None)).collect();
        assert!(more.iter().zip(&all[1..]).all(|(evicted, (one, _))| Arc::ptr_eq(evicted, one)));
        assert_eq!((more.len(), entries.len()), (REMEMBERED, REMEMBERED + 1));
        next.find(&mut entries, None, true).unwrap();
        assert!(next.until_ns <= now_ns() + FRESH_NS);
        next.until_ns = now_ns();
        assert!(next.take(&mut entries, None).is_none());
        next.find(&mut entries, None, false).unwrap();
        next.until_ns = u64::MAX;
        assert!(next.take(&mut entries, None).is_none(), "it was not to be remembered");
    }

    #[test]
    fn the_only_connection_of_a_peer_stays_while_another_has_more() {
        let all: [_; 8] = connections_from(|number| [127, 0, 0, if number == 0 { 2 } else { 1 }]);
        let mut entries: Vec<Entry> = all.iter().map(|(one, _)| Entry::of(one)).collect();
        let (mut next, first) = remembering(&mut entries);
        assert!(Arc::ptr_eq(&first, &all[1].0));
        // With three newcomers of the other peer, both have as many.
        let more: Vec<_> = std::iter::from_fn(|| next.take(&mut entries, None)).collect();
        assert!(more.iter().zip(&all[2..]).all(|(evicted, (one, _))| Arc::ptr_eq(evicted, one)));
        assert_eq!(more.len(), 3);
    }
}
