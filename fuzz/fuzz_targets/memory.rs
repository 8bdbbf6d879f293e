//! A receiver of reflective memory with datagrams described by the input: raw octets, and octets
//! behind a header that passes the first checks.
#![no_main]

use isorb_reflective_memory::wire::{Channel, Datagram, HEADER, Kind, Receiver, Sink};
use libfuzzer_sys::fuzz_target;
use std::net::SocketAddr;

const SIZE: usize = 4_000;
const KINDS: [Kind; 6] =
    [Kind::Fragment, Kind::Parity, Kind::Heartbeat, Kind::Choice, Kind::Probe, Kind::Answer];

struct Area(Vec<u8>);

impl Sink for Area {
    fn put(&mut self, offset: usize, piece: &[u8]) {
        self.0[offset..offset + piece.len()].copy_from_slice(piece);
    }

    fn publish(&mut self, len: usize, _: u64, _: u64, _: u32) {
        assert!(len <= SIZE);
    }
}

// Two octets choose the channel; then datagrams follow, each with its length, kind, push, size and
// index before it.
fuzz_target!(|data: &[u8]| {
    let [fragment, parity, rest @ ..] = data else { return };
    let channel = Channel {
        id: 1,
        epoch: 1,
        token: 7,
        size: SIZE,
        fragment: usize::from(*fragment) * 16 + 1,
        parity: usize::from(*parity),
    };
    let peer = SocketAddr::from(([127, 0, 0, 1], 9));
    let mut receiver = Receiver::new(channel, peer).unwrap();
    let mut area = Area(vec![0; SIZE]);
    let (mut rest, mut joined) = (rest, false);
    while let [len, kind, push, size, more_size, index, tail @ ..] = rest {
        let (payload, after) = tail.split_at(tail.len().min(usize::from(*len)));
        rest = after;
        receiver.receive(peer, payload, 5, &mut area);
        let mut octets = vec![0; HEADER];
        Datagram {
            kind: KINDS[usize::from(*kind) % KINDS.len()],
            channel: 1,
            epoch: 1,
            token: 7,
            push: u64::from(*push),
            sequence: u64::from(*push),
            size: u32::from(*size) * 16 + u32::from(*more_size % 16),
            index: u32::from(*index),
            writer: 1,
            ..Datagram::default()
        }
        .write_head(octets.first_chunk_mut().unwrap());
        // Repeated to lengths that fragments have.
        octets.extend(payload.iter().cycle().take(payload.len() * usize::from(kind / 4 % 32)));
        // Now and then the receiver joins a group again, and forgets earlier datagrams.
        if *kind >= 250 {
            receiver.rejoin();
            joined = true;
        }
        receiver.receive(peer, &octets, 5, &mut area);
        let counters = receiver.counters();
        let (newest, complete) = receiver.newest();
        let sum = counters.complete + counters.incomplete + counters.lost + u64::from(!complete);
        assert!(sum == newest || joined, "{sum} pushes of {newest}");
    }
});
