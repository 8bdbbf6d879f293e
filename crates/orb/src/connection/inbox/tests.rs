//! Messages from streams that are cut at any octet.

use super::super::peer_account::{PeerAccount, PeerKey, PeerLimits};
use super::*;
use crate::policy::Timeout;
use isorb_rt::sched::ProcessAddressSpace;
use isorb_scope::BufferPool;
use std::cell::Cell;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Mutex;

/// Octets that come in pieces of given lengths, then the end. A piece of length 0 is not there yet.
#[derive(Debug)]
struct Pieces {
    octets: Vec<u8>,
    lengths: Vec<usize>,
    at: Mutex<(usize, usize)>,
    /// For each receive, the address at which the first octet of all would lie.
    bases: Mutex<Vec<usize>>,
    fd: OwnedFd,
}

impl Pieces {
    fn new(octets: Vec<u8>, lengths: Vec<usize>) -> Pieces {
        let fd = std::fs::File::open("/dev/null").unwrap().into();
        Pieces { octets, lengths, at: Mutex::default(), bases: Mutex::default(), fd }
    }
}

impl Stream for Pieces {
    fn recv(&self, into: &mut [u8], _: Wait) -> io::Result<usize> {
        let (at, piece) = &mut *self.at.lock().unwrap();
        let length = self.lengths[*piece % self.lengths.len()];
        if length == 0 {
            *piece += 1;
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let n = length.min(into.len()).min(self.octets.len() - *at);
        self.bases.lock().unwrap().push(into.as_ptr().addr().wrapping_sub(*at));
        into[..n].copy_from_slice(&self.octets[*at..*at + n]);
        (*at, *piece) = (*at + n, *piece + 1);
        Ok(n)
    }
    fn send(&self, _: &[io::IoSlice<'_>], _: Wait) -> io::Result<usize> {
        Err(io::ErrorKind::BrokenPipe.into())
    }
    fn set_recv_timeout(&self, _: Option<Duration>) -> io::Result<()> {
        Ok(())
    }
    fn set_send_timeout(&self, _: Option<Duration>) -> io::Result<()> {
        Ok(())
    }
    fn shutdown(&self) {}
    fn peer(&self) -> &str {
        "test"
    }
    fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A numbered message of `len` octets, each of them derived from the number.
fn message(number: usize, len: usize) -> Vec<u8> {
    let kind = [MessageKind::Request, MessageKind::Reply, MessageKind::LocateRequest][number % 3];
    let mut header = Header::new(Version::V1_2, kind);
    header.size = (len - HEADER) as u32;
    let mut message = header.write().to_vec();
    message.resize(len, number as u8);
    message
}

/// With any lengths of messages and of receives, the same messages arrive complete and in order.
fn inbox(pool: &Arc<BufferPool>, limit: usize) -> Inbox {
    Inbox::new(pool, limit, None, BufferAccount::new(&Arc::default(), pool, None))
}

#[test]
fn messages_are_put_together() {
    let seed = Cell::new(1u64);
    let random = |below: usize| {
        seed.set(seed.get().wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        (seed.get() >> 33) as usize % below
    };
    let limit = 1 << 20;
    for round in 0..30 {
        let long = [64, 1100, 5_000, 40_000, 300_000][round % 5];
        let messages: Vec<_> = (0..40).map(|n| message(n, HEADER + 4 + random(long))).collect();
        let most = [1, 11, 13, 5_000, 100_000][random(5)] + 1;
        let lengths = (0..97).map(|_| 1 + random(most)).collect();
        let stream = Pieces::new(messages.concat(), lengths);
        let pool = BufferPool::new(64 << 20, 1 << 20);
        let mut inbox = inbox(&pool, limit);
        let mut block = fresh_block(&pool);
        for (n, expected) in messages.iter().enumerate() {
            let wait = if random(2) == 0 { Wait::No } else { Wait::Block };
            let got = inbox.next(&stream, &pool, wait, Deadline::NONE, Timeout::NONE, &mut block);
            let arrived = got.unwrap_or_else(|error| panic!("round {round}, message {n}: {error:?}"));
            assert_eq!(arrived.len, expected.len());
            assert!(block.bytes()[..arrived.len] == expected[..], "round {round}, message {n}");
            if arrived.is_reply() {
                assert_eq!(arrived.reply_id(), u32::from_ne_bytes([n as u8; 4]));
            } else {
                assert_eq!(arrived.share(), PeerShare::Unclaimed);
            }
        }
        assert!(inbox.is_empty());
        let end = inbox.next(&stream, &pool, Wait::Block, Deadline::NONE, Timeout::NONE, &mut block);
        assert_eq!(end.unwrap_err(), ReadError::End);
    }
}

#[test]
fn what_is_too_long_or_no_message_is_refused() {
    let next = |octets: Vec<u8>| {
        let pool = BufferPool::new(1 << 20, 1 << 20);
        let mut inbox = inbox(&pool, 100);
        let mut block = fresh_block(&pool);
        let stream = Pieces::new(octets, vec![4096]);
        inbox
            .next(&stream, &pool, Wait::Block, Deadline::NONE, Timeout::NONE, &mut block)
            .map(|arrived| arrived.len)
    };
    assert_eq!(next(message(0, 100)), Ok(100));
    assert!(matches!(next(message(0, 101)), Err(ReadError::Protocol(ProtocolError::TooLarge { .. }))));
    assert!(matches!(next(b"GET / HTTP/1.1".to_vec()), Err(ReadError::Protocol(_))));
    assert_eq!(next(b"GIOP".to_vec()), Err(ReadError::Lost));
    assert_eq!(next(message(0, 40)[..39].to_vec()), Err(ReadError::Lost));
}

/// A peer that sends octets without a pause does not keep a thread that others wait for.
#[test]
fn a_thread_that_does_not_wait_leaves_a_long_message_in_between() {
    const LEN: usize = 5 << 20;
    for piece in [4096, 100_000, usize::MAX] {
        let stream = Pieces::new(message(1, LEN), vec![piece]);
        let pool = BufferPool::new(64 << 20, 1 << 20);
        let mut inbox = inbox(&pool, 16 << 20);
        let mut block = fresh_block(&pool);
        let (mut before, mut turns) = (0, 0);
        let arrived = loop {
            match inbox.next(&stream, &pool, Wait::No, Deadline::NONE, Timeout::NONE, &mut block) {
                Ok(arrived) => break arrived,
                Err(ReadError::TurnOver) => {
                    let received = stream.at.lock().unwrap().0;
                    // One receive may bring more than the rest of a turn.
                    let most = if piece == usize::MAX { LEN } else { TURN_OCTETS + piece };
                    assert!(received - before <= most, "{piece}: {received} octets, {before} before");
                    (before, turns) = (received, turns + 1);
                }
                Err(error) => panic!("{piece}: {error:?}"),
            }
        };
        assert_eq!(arrived.len, LEN);
        assert!(turns >= 4 || piece == usize::MAX, "{piece}: {turns} turns");
        assert!(block.bytes()[HEADER..arrived.len].iter().all(|octet| *octet == 1));
    }
    // A thread that waits for one connection has no others.
    let stream = Pieces::new(message(1, LEN), vec![4096]);
    let pool = BufferPool::new(64 << 20, 1 << 20);
    let mut block = fresh_block(&pool);
    let mut inbox = inbox(&pool, 16 << 20);
    let whole = inbox.next(&stream, &pool, Wait::Block, Deadline::NONE, Timeout::NONE, &mut block);
    assert_eq!(whole.map(|arrived| arrived.len), Ok(LEN));
}

/// A long message moves once, with the octets of its first receive, whatever the lengths of the
/// others. Memory is committed as it arrives.
#[test]
fn a_long_message_stays_where_it_is_while_it_grows() {
    const LEN: usize = 5 << 20;
    for piece in [10_000, 100_000, usize::MAX] {
        let stream = Pieces::new(message(1, LEN), vec![12, 0, piece, piece, 0]);
        let pool = BufferPool::with_address_space(64 << 20, 0, &ProcessAddressSpace);
        let mut inbox = inbox(&pool, 16 << 20);
        let mut block = fresh_block(&pool);
        let others = pool.out();
        let arrived = loop {
            match inbox.next(&stream, &pool, Wait::No, Deadline::NONE, Timeout::NONE, &mut block) {
                Ok(arrived) => break arrived,
                Err(ReadError::WouldBlock | ReadError::TurnOver) => {
                    let sent = stream.at.lock().unwrap().0;
                    let most = (2 * sent).max(COMMITTED_AT_ONCE) + (64 << 10);
                    let committed = pool.out() - others;
                    assert!(committed <= most, "{committed} octets for {sent} that have arrived");
                }
                Err(error) => panic!("{error:?}"),
            }
        };
        assert!(block.bytes()[HEADER..arrived.len].iter().all(|octet| *octet == 1));
        let bases = stream.bases.lock().unwrap();
        let there = block.bytes().as_ptr().addr();
        assert!(bases[1..].iter().all(|base| *base == there), "{there:x}, {bases:x?}");
        assert_eq!(arrived.len, LEN);
    }
}

/// After several messages in one receive, the next receive takes more.
#[test]
fn bursts_are_received_in_large_pieces() {
    let messages: Vec<_> = (0..300).map(|n| message(3 * n, 1064)).collect();
    let stream = Pieces::new(messages.concat(), vec![usize::MAX]);
    let pool = BufferPool::new(1 << 20, 1 << 20);
    let mut inbox = inbox(&pool, 1 << 20);
    let mut block = fresh_block(&pool);
    for expected in &messages {
        let arrived =
            inbox.next(&stream, &pool, Wait::Block, Deadline::NONE, Timeout::NONE, &mut block).unwrap();
        assert!(block.bytes()[..arrived.len] == expected[..]);
    }
    let receives = stream.at.lock().unwrap().1;
    assert!(receives <= 300 * 1064 / LARGE + 3, "{receives} receives");
}

/// A request of GIOP 1.2 with this id and `len` octets, in fragments of `piece` octets.
fn fragments(id: u32, len: usize, piece: usize) -> Vec<u8> {
    let mut left = len;
    let mut octets = Vec::new();
    while left > 0 {
        let kind = if octets.is_empty() { MessageKind::Request } else { MessageKind::Fragment };
        let here = left.min(piece);
        left -= here;
        let mut header = Header::new(Version::V1_2, kind);
        (header.size, header.more_fragments) = ((here - HEADER) as u32, left > 0);
        octets.extend(header.write());
        octets.extend(id.to_ne_bytes());
        octets.resize(octets.len() + here - HEADER - 4, 1);
    }
    octets
}

/// Wherever the stream is cut, requests beyond the client's octets are handed on with their head,
/// the others whole, and nothing counts any more at the end.
#[test]
fn requests_beyond_the_octets_of_their_client_are_refused_and_others_are_read() {
    const LIMIT: usize = 20_000;
    let octets: Vec<u8> = [
        message(0, 9_000),
        message(3, 30_000),
        message(6, 64),
        fragments(1, 16_000, 4_000),
        fragments(2, 120_000, 4_000),
        message(9, 1_000),
        long_fragment(4),
        message(12, 2_000),
    ]
    .concat();
    let expected: Vec<(bool, Option<usize>)> = vec![
        (false, Some(9_000)),
        (true, None),
        (false, Some(64)),
        // Each fragment but the first repeats 16 octets.
        (false, Some(16_000 - 3 * 16)),
        (true, None),
        (false, Some(1_000)),
        (true, Some(4_000)),
        (false, Some(2_000)),
    ];
    for piece in [1, 7, 100, 4_096, 5_000, 50_000, usize::MAX] {
        let pool = BufferPool::new(64 << 20, 1 << 20);
        let limits = PeerLimits { calls: usize::MAX, octets: LIMIT };
        let client = Arc::new(PeerAccount::new(PeerKey::User(1), limits).unwrap());
        let account = BufferAccount::new(&Arc::default(), &pool, Some(client.clone()));
        let mut inbox = Inbox::new(&pool, 1 << 20, None, account);
        let stream = Pieces::new(octets.clone(), vec![piece]);
        let mut block = fresh_block(&pool);
        for (n, (refused, len)) in expected.iter().enumerate() {
            let arrived = inbox
                .next(&stream, &pool, Wait::Block, Deadline::NONE, Timeout::NONE, &mut block)
                .unwrap_or_else(|error| panic!("pieces of {piece}, message {n}: {error:?}"));
            // One that fits the present block is refused when it is whole.
            let share = client.share(&arrived);
            assert_eq!(share.is_err(), *refused, "pieces of {piece}, message {n}");
            share.into_iter().for_each(|share| client.release(share));
            assert_eq!(arrived.header.kind, MessageKind::Request);
            assert!(!arrived.header.more_fragments);
            assert!(len.is_none_or(|len| arrived.len == len), "{n}: {}", arrived.len);
            assert!(client.octets() <= LIMIT + 2 * LARGE, "{} octets", client.octets());
        }
        let end = inbox.next(&stream, &pool, Wait::Block, Deadline::NONE, Timeout::NONE, &mut block);
        assert_eq!(end.unwrap_err(), ReadError::End, "pieces of {piece}");
        assert_eq!(client.octets(), 0, "pieces of {piece}");
    }
}

/// A request with a second fragment that is longer than all that its client may have.
fn long_fragment(id: u32) -> Vec<u8> {
    let mut octets = fragments(id, 8_000, 4_000)[..4_000].to_vec();
    let mut header = Header::new(Version::V1_2, MessageKind::Fragment);
    header.size = 40_000;
    octets.extend(header.write());
    octets.extend(id.to_ne_bytes());
    octets.resize(octets.len() + 40_000 - 4, 2);
    octets
}

#[test]
fn a_long_message_that_is_no_request_ends_the_connection_at_the_limit() {
    let pool = BufferPool::new(64 << 20, 1 << 20);
    let limits = PeerLimits { calls: usize::MAX, octets: 10_000 };
    let client = Arc::new(PeerAccount::new(PeerKey::User(1), limits).unwrap());
    let next = |message: Vec<u8>| {
        let account = BufferAccount::new(&Arc::default(), &pool, Some(client.clone()));
        let mut inbox = Inbox::new(&pool, 1 << 20, None, account);
        let stream = Pieces::new(message, vec![usize::MAX]);
        let mut block = fresh_block(&pool);
        inbox
            .next(&stream, &pool, Wait::Block, Deadline::NONE, Timeout::NONE, &mut block)
            .map(|arrived| arrived.len)
    };
    // A reply was asked for.
    assert_eq!(next(message(1, 30_000)), Ok(30_000));
    assert_eq!(next(message(2, 30_000)), Err(ReadError::OverLimit));
    assert_eq!(client.octets(), 0);
}
