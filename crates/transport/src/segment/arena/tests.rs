//! Two ends that lend to each other, in one process.

use super::super::SegmentStream;
use super::super::handshake::Terms;
use super::super::medium::{ArenaWord, Field, PeerSegment};
use super::super::spin::Spin;
use super::*;
use crate::{Stream, Wait};
use isorb_rt::time::Deadline;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, socketpair,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::time::Duration;

type Far = SegmentStream<Terms>;

fn pair_with([near_arena, far_arena]: [usize; 2]) -> (Far, Far) {
    let (near, far) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    let terms = |arena_bytes| Terms { bytes: 4096, arena_bytes, users: Vec::new() };
    let near = SegmentStream::accepted(near, terms(near_arena), Spin::NEVER).unwrap();
    std::thread::scope(|scope| {
        let far = scope.spawn(|| {
            let deadline = Deadline::after(Duration::from_secs(60));
            SegmentStream::connect(far, terms(far_arena), Spin::NEVER, "far".into(), deadline).unwrap()
        });
        while !far.is_finished() {
            assert_eq!(near.recv(&mut [0], Wait::No).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        }
        (near, far.join().unwrap())
    })
}

fn pair() -> (Far, Far) {
    pair_with([1 << 20; 2])
}

fn filled(stream: &Far, octets: usize, seed: u8) -> Loan {
    let mut loan = stream.arena().unwrap().loan(octets).unwrap();
    for (i, octet) in loan.octets_mut().unwrap().iter_mut().enumerate() {
        *octet = (i as u8).wrapping_mul(31) ^ seed;
    }
    loan
}

fn send(stream: &Far, pieces: &[&[u8]]) -> io::Result<usize> {
    let pieces: Vec<_> = pieces.iter().map(|piece| IoSlice::new(piece)).collect();
    stream.send(&pieces, Wait::Block)
}

fn receive(stream: &Far, n: usize) -> Vec<u8> {
    let mut all = vec![0; n];
    let mut got = 0;
    while got < n {
        got += stream.recv(&mut all[got..], Wait::Block).unwrap();
    }
    all
}

/// Writes an entry into the peer's segment, and an octet in its place.
fn forge(stream: &Far, number: u32, stands: u32, at: u32, octets: u32) {
    let outward = stream.ring.get().unwrap().outward();
    for (field, value) in [(Field::Stands, stands), (Field::At, at), (Field::Octets, octets)] {
        outward.store_arena(ArenaWord::Entry(number % ENTRIES, field), value);
    }
    outward.store_arena(ArenaWord::Entry(number % ENTRIES, Field::Number), number);
    stream.send(&[IoSlice::new(b"x")], Wait::Block).unwrap();
}

#[test]
fn a_message_arrives_around_its_loan_in_blocks_of_every_size() {
    let (near, far) = pair();
    let loan = filled(&near, 70_000, 7);
    let mut expected = b"head".to_vec();
    expected.extend_from_slice(&loan);
    expected.extend_from_slice(&loan[5..5005]);
    expected.extend_from_slice(b"tail");
    for block in [1, 3, 4096, 70_001, 200_000] {
        let sent = send(&near, &[b"head", &loan, &loan[5..5005], b"tail"]).unwrap();
        assert_eq!(sent, expected.len());
        let mut all = Vec::new();
        while all.len() < expected.len() {
            let mut into = vec![0; block];
            let n = far.recv(&mut into, Wait::Block).unwrap();
            all.extend_from_slice(&into[..n]);
        }
        assert!(all == expected, "blocks of {block}");
        assert!(!loan.is_sent());
    }
    // The ring is empty again, and goes on as a ring.
    assert_eq!(send(&near, &[b"more"]).unwrap(), 4);
    assert_eq!(receive(&far, 4), b"more");
}

#[test]
fn a_loan_can_be_filled_again_when_the_peer_has_read_it() {
    let (near, far) = pair();
    let mut loan = filled(&near, 8192, 1);
    for seed in 0..100 {
        loan.octets_mut().unwrap().fill(seed);
        assert_eq!(send(&near, &[&loan]).unwrap(), 8192);
        assert!(loan.octets_mut().is_none(), "the peer has not read it");
        assert!(receive(&far, 8192) == [seed; 8192]);
    }
    assert_eq!(near.arena().unwrap().counts().in_use, 8192);
    drop(loan);
    assert_eq!(near.arena().unwrap().counts().in_use, 0);
}

#[test]
fn an_arena_is_committed_as_it_is_touched_and_says_when_it_is_full() {
    let (near, far) = pair();
    let arena = near.arena().unwrap();
    assert_eq!(arena.counts(), ArenaCounts { capacity: 1 << 20, ..ArenaCounts::default() });
    assert_eq!(
        arena.loan(0).unwrap_err(),
        LoanError::Full { octets: 0, capacity: 1 << 20, in_use: 0, parts: 0 }
    );
    let loans: Vec<_> = (0..4).map(|i| filled(&near, 256 << 10, i)).collect();
    let full = arena.loan(1).unwrap_err();
    assert_eq!(full, LoanError::Full { octets: 1, capacity: 1 << 20, in_use: 1 << 20, parts: 4 });
    let long = arena.loan((1 << 20) + 1).unwrap_err();
    assert_eq!(long, LoanError::TooLong { octets: (1 << 20) + 1, capacity: 1 << 20 });
    for sentence in [full.to_string(), long.to_string()] {
        assert!(sentence.contains("segment_arena_bytes") && sentence.contains("1048576"), "{sentence}");
    }
    assert_eq!(arena.counts().refused, 3);
    // A message keeps its octets after its loan is gone, until the peer has read it.
    for loan in loans {
        send(&near, &[&loan]).unwrap();
    }
    assert!(matches!(arena.loan(1), Err(LoanError::Full { .. })));
    for i in 0..4u8 {
        assert_eq!(receive(&far, 256 << 10)[0], i);
    }
    assert_eq!(arena.counts().in_use, 0);
    drop(arena.loan(1 << 20).unwrap());
    assert_eq!(arena.counts().committed, 1 << 20);
}

#[test]
fn without_a_free_entry_the_sender_waits_and_copies_nothing() {
    let (near, far) = pair();
    let loan = filled(&near, 8192, 3);
    for _ in 0..ENTRIES {
        assert_eq!(send(&near, &[&loan]).unwrap(), 8192);
    }
    near.set_send_timeout(Some(Duration::from_millis(20))).unwrap();
    for wait in [Wait::No, Wait::Block] {
        let error = near.send(&[IoSlice::new(&loan)], wait).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    }
    near.set_send_timeout(None).unwrap();
    std::thread::scope(|scope| {
        // Under test only the peer's signal ends the sender's sleep.
        let waiting = scope.spawn(|| send(&near, &[&loan, b"end"]));
        std::thread::sleep(Duration::from_millis(20));
        for _ in 0..ENTRIES {
            assert!(receive(&far, 8192) == *loan);
        }
        assert!(receive(&far, 8192) == *loan);
        assert_eq!(waiting.join().unwrap().unwrap(), 8195);
    });
    assert_eq!(receive(&far, 3), b"end");
}

#[test]
fn a_sender_that_waits_for_an_entry_is_woken_when_the_peer_is_gone() {
    for watched in [false, true] {
        let (near, far) = pair();
        if watched {
            near.watched();
        }
        let loan = filled(&near, 4096, 3);
        for _ in 0..ENTRIES {
            send(&near, &[&loan]).unwrap();
        }
        if watched {
            assert_eq!(
                near.send(&[IoSlice::new(&loan)], Wait::No).unwrap_err().kind(),
                io::ErrorKind::WouldBlock
            );
            drop(far);
            assert_eq!(
                near.send(&[IoSlice::new(&loan)], Wait::No).unwrap_err().kind(),
                io::ErrorKind::BrokenPipe
            );
            continue;
        }
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| send(&near, &[&loan]));
            std::thread::sleep(Duration::from_millis(20));
            drop(far);
            assert_eq!(waiting.join().unwrap().unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        });
    }
}

#[test]
fn both_sides_must_have_an_arena() {
    for arenas in [[0, 1 << 20], [1 << 20, 0], [0, 0]] {
        let (near, far) = pair_with(arenas);
        assert!(near.arena().is_none() && far.arena().is_none());
        assert_eq!(send(&near, &[b"ring"]).unwrap(), 4);
        assert_eq!(receive(&far, 4), b"ring");
        // A entry all the same ends the connection.
        forge(&near, 1, 4, 0, 64);
        assert_eq!(far.recv(&mut [0; 9], Wait::Block).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}

/// The first version of the handshake: it takes one entry, and sends one.
#[test]
fn a_peer_that_knows_no_arenas_has_the_ring_only() {
    let (near, far) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    std::thread::scope(|scope| {
        let near = scope.spawn(|| {
            let terms = Terms { bytes: 4096, arena_bytes: 1 << 20, users: Vec::new() };
            let deadline = Deadline::after(Duration::from_secs(60));
            SegmentStream::connect(near, terms, Spin::NEVER, "old".into(), deadline).unwrap()
        });
        let mut hello = [0; 17];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let got = rustix::net::recvmsg(
            &far,
            &mut [IoSliceMut::new(&mut hello)],
            &mut control,
            RecvFlags::CMSG_CLOEXEC,
        );
        assert_eq!((got.unwrap().bytes, &hello[..12]), (16, &b"isorbseg\x01\0\0\0"[..]));
        let theirs = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
            _ => None,
        });
        let theirs =
            super::super::memory::attach(theirs.unwrap(), 4096, 4096, Arc::new(far.try_clone().unwrap()));
        let (own, fd) = super::super::memory::create(4096).unwrap();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let fds = [fd.as_fd()];
        control.push(SendAncillaryMessage::ScmRights(&fds));
        rustix::net::sendmsg(&far, &[IoSlice::new(&hello[..16])], &mut control, SendFlags::empty()).unwrap();
        let near = near.join().unwrap();
        assert!(near.arena().is_none());
        let old = super::super::ring::Ring::new(Arc::new(own), theirs.unwrap());
        assert_eq!(send(&near, &[b"head", &[7; 1000]]).unwrap(), 1004);
        assert_eq!(old.take(&mut [0; 2000]).unwrap(), 1004);
        assert!(old.put_whole(b"back").unwrap());
        assert_eq!(receive(&near, 4), b"back");
    });
}

#[test]
fn entries_that_cannot_be_end_the_connection() {
    let most = 1 << 20;
    for (number, stands, at, octets) in [
        (1, 0, most, 1),
        (1, 0, 0, most + 1),
        (1, 0, most - 1, 2),
        (1, 0, u32::MAX, 1),
        (1, 0, 1, u32::MAX),
        (1, 0, u32::MAX, u32::MAX),
        (1, 0, 0, 0),
        (1, 4097, 0, 64),
        (1, u32::MAX, 0, 64),
    ] {
        for wait in [Wait::No, Wait::Block] {
            let (near, far) = pair();
            forge(&near, number, stands, at, octets);
            let error = far.recv(&mut [0; 100], wait).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{number} {stands} {at} {octets}");
        }
        let (near, far) = pair();
        forge(&near, number, stands, at, octets);
        for error in [far.lent_ahead().unwrap_err(), far.take_lent().unwrap_err()] {
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{number} {stands} {at} {octets}");
        }
    }
}

#[test]
fn an_entry_of_another_number_is_none() {
    for number in [0, 2, ENTRIES + 1, u32::MAX] {
        let (near, far) = pair();
        forge(&near, number, 0, 0, 64);
        assert_eq!(far.lent_ahead().unwrap(), None, "{number}");
        assert_eq!(receive(&far, 1), b"x", "{number}");
    }
}

#[test]
fn octets_that_were_never_written_are_zeros_and_a_changed_entry_has_no_effect() {
    let (near, far) = pair();
    forge(&near, 1, 0, (1 << 20) - 300, 300);
    let mut into = [9; 200];
    assert_eq!(far.recv(&mut into, Wait::Block).unwrap(), 200);
    assert_eq!(into, [0; 200]);
    // The receiver has checked its own copy.
    near.ring.get().unwrap().outward().store_arena(ArenaWord::Entry(1, Field::At), u32::MAX);
    near.ring.get().unwrap().outward().store_arena(ArenaWord::Entry(1, Field::Octets), u32::MAX);
    assert_eq!(far.recv(&mut into, Wait::Block).unwrap(), 100);
}

#[test]
fn released_numbers_that_cannot_be_free_nothing() {
    let (near, far) = pair();
    let loan = filled(&near, 8192, 3);
    send(&near, &[&loan]).unwrap();
    let outward = far.ring.get().unwrap().outward();
    for forged in [0, 2, 33, u32::MAX] {
        (0..ENTRIES).for_each(|slot| outward.store_arena(ArenaWord::Released(slot), forged));
        assert!(loan.is_sent(), "{forged}");
    }
    assert!(receive(&far, 8192) == *loan);
    assert!(!loan.is_sent());
    // Released once more: the next message that uses the entry has another number.
    for _ in 0..ENTRIES {
        send(&near, &[&loan]).unwrap();
    }
    outward.store_arena(ArenaWord::Released(1), 1);
    assert!(near.arena().unwrap().is_exhausted());
}

#[test]
fn a_loan_outlives_its_connection() {
    let (near, far) = pair();
    let mut loan = filled(&near, 8192, 3);
    let copy = loan.to_vec();
    send(&near, &[&loan]).unwrap();
    drop((near, far));
    assert!(*loan == copy);
    assert!(loan.octets_mut().is_none(), "the peer never released it");
    let mut second = loan.arena().loan(4096).unwrap();
    second.octets_mut().unwrap().fill(1);
}

#[test]
fn a_receiver_reads_while_the_sender_scribbles() {
    // A hostile sender keeps no order: it changes what the receiver reads, entries included.
    let (near, far) = pair();
    let stop = std::sync::atomic::AtomicBool::new(false);
    let mut ended = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut x = 0x9e37_79b9_7f4a_7c15_u64;
            while !stop.load(Relaxed) {
                x ^= x << 13;
                x ^= x >> 7;
                x ^= x << 17;
                let outward = near.ring.get().unwrap().outward();
                let value = if x & 64 == 0 { (x >> 32) as u32 } else { (x >> 32) as u32 % 5000 };
                let slot = (x >> 8) as u32 % ENTRIES;
                match x % 8 {
                    0 => outward.store_arena(ArenaWord::Entry(slot, Field::At), value),
                    1 => outward.store_arena(ArenaWord::Entry(slot, Field::Octets), value),
                    2 => outward.store_arena(ArenaWord::Entry(slot, Field::Stands), value),
                    3 => outward.store_arena(ArenaWord::Released(slot), value),
                    4 => outward.store_arena(ArenaWord::Entry(slot, Field::Number), value % 40),
                    _ => drop(near.send(&[IoSlice::new(&[1; 99])], Wait::No)),
                }
            }
        });
        let mut into = vec![0; 5000];
        let until = Deadline::after(Duration::from_secs(60));
        while ended < 50 && !until.is_past() {
            match far.recv(&mut into, Wait::No) {
                Ok(n) => assert!(n <= into.len()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => ended += 1,
            }
        }
        stop.store(true, Relaxed);
    });
    assert!(ended >= 50, "the hostile peer did nothing");
}

fn held(stream: &Far) -> usize {
    stream.arena().unwrap().counts().held
}

#[test]
fn a_part_is_read_where_it_lies_until_it_is_released() {
    let (near, far) = pair();
    let mut loan = filled(&near, 70_000, 7);
    for round in 0..3 * ENTRIES {
        assert_eq!(send(&near, &[b"head", &loan, b"tail"]).unwrap(), 70_008);
        assert_eq!(far.lent_ahead().unwrap(), None, "the head comes first");
        // There is room for more, and yet the part is not begun.
        let mut into = [0; 100];
        assert_eq!(far.recv(&mut into, Wait::Block).unwrap(), 4);
        assert_eq!(far.lent_ahead().unwrap(), Some(70_000));
        let part = far.take_lent().unwrap().unwrap();
        assert_eq!((part.octets(), far.lent_ahead().unwrap()), (70_000, None));
        assert_eq!(receive(&far, 4), b"tail");
        let mut copy = vec![0; 60_000];
        part.read(10_000, &mut copy);
        assert!(copy == loan[10_000..], "round {round}");
        assert!(loan.octets_mut().is_none() && held(&far) == 70_000);
        far.release_lent(&part);
        drop(part);
        assert!(loan.octets_mut().is_some() && held(&far) == 0);
    }
}

#[test]
fn a_part_that_was_begun_is_copied_to_its_end() {
    let (near, far) = pair();
    let loan = filled(&near, 9000, 7);
    send(&near, &[&loan]).unwrap();
    assert_eq!(receive(&far, 5000), loan[..5000]);
    assert_eq!(far.lent_ahead().unwrap(), None);
    assert!(far.take_lent().unwrap().is_none());
    assert_eq!(receive(&far, 4000), loan[5000..]);
    assert!(!loan.is_sent());
}

#[test]
fn parts_are_released_in_any_order_by_any_thread() {
    let (near, far) = pair();
    let loans: Vec<_> = (0..4).map(|i| filled(&near, 8192, i)).collect();
    let mut parts: Vec<_> = loans
        .iter()
        .map(|loan| {
            send(&near, &[loan]).unwrap();
            far.take_lent().unwrap().unwrap()
        })
        .collect();
    assert_eq!(held(&far), 4 * 8192);
    for i in [2, 0, 1, 0] {
        let part = parts.remove(i);
        std::thread::scope(|scope| scope.spawn(|| far.release_lent(&part)).join().unwrap());
    }
    assert!(loans.iter().all(|loan| !loan.is_sent()));
    assert_eq!(near.arena().unwrap().counts().in_use, 4 * 8192);
}

#[test]
fn a_sender_without_an_entry_is_woken_by_a_release() {
    let (near, far) = pair();
    let loan = filled(&near, 8192, 3);
    for last in 0..20 {
        let mut parts = Vec::new();
        for _ in 0..ENTRIES {
            send(&near, &[&loan]).unwrap();
            parts.push(far.take_lent().unwrap().unwrap());
        }
        std::thread::scope(|scope| {
            // Under test only the peer's signal ends the sender's sleep.
            let waiting = scope.spawn(|| send(&near, &[&loan, b"end"]));
            if last % 2 == 0 {
                std::thread::sleep(Duration::from_millis(5));
            }
            // The order of the ring is that of the entries.
            parts.iter().for_each(|part| far.release_lent(part));
            assert_eq!(waiting.join().unwrap().unwrap(), 8195);
        });
        far.release_lent(&far.take_lent().unwrap().unwrap());
        assert_eq!(receive(&far, 3), b"end");
    }
}

#[test]
fn a_held_part_outlives_the_peer_and_the_connection() {
    let (near, far) = pair();
    let loan = filled(&near, 8192, 3);
    send(&near, &[&loan]).unwrap();
    let part = far.take_lent().unwrap().unwrap();
    let copy = loan.to_vec();
    drop((loan, near));
    far.shutdown();
    far.release_lent(&part);
    drop(far);
    let mut into = vec![0; 8192];
    part.read(0, &mut into);
    assert!(into == copy);
}

#[test]
fn what_a_peer_writes_while_a_part_is_read_is_one_of_its_values() {
    use std::io::{Seek, SeekFrom, Write};
    let (near, far) = pair();
    let loan = filled(&near, 64 << 10, 0);
    send(&near, &[&loan]).unwrap();
    let part = far.take_lent().unwrap().unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    let (start, copy) = (loan.as_ptr().addr() as u64, loan.to_vec());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut memory = std::fs::OpenOptions::new().write(true).open("/proc/self/mem").unwrap();
            for value in (1..=2u8).cycle().take_while(|_| !stop.load(Relaxed)) {
                memory.seek(SeekFrom::Start(start)).unwrap();
                memory.write_all(&vec![value; 64 << 10]).unwrap();
            }
        });
        let mut into = vec![0; 64 << 10];
        let (mut seen, until) = ([false; 3], Deadline::after(Duration::from_secs(60)));
        while !(until.is_past() || seen[1] && seen[2]) {
            part.read(0, &mut into);
            for (octet, before) in into.iter().zip(&copy) {
                assert!(octet == before || (1..=2).contains(octet));
                if octet != before {
                    seen[usize::from(*octet)] = true;
                }
            }
        }
        stop.store(true, Relaxed);
        assert!(seen[1] && seen[2], "the peer wrote nothing");
    });
    let beyond = std::panic::catch_unwind(|| part.read((64 << 10) - 10, &mut [0; 11]));
    assert!(beyond.is_err());
}
