//! The two halves over a network that loses, repeats, reorders and forges, in virtual time and from
//! a seed.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::net::SocketAddr;

const PEER: SocketAddr = SocketAddr::V4(std::net::SocketAddrV4::new(std::net::Ipv4Addr::LOCALHOST, 7));
const STRANGER: SocketAddr = SocketAddr::V4(std::net::SocketAddrV4::new(std::net::Ipv4Addr::LOCALHOST, 8));

/// Keeps what a memory area would show.
#[derive(Default)]
struct Shown {
    draft: Vec<u8>,
    values: Vec<(u64, u64, Vec<u8>)>,
}

impl Sink for Shown {
    fn put(&mut self, offset: usize, piece: &[u8]) {
        if self.draft.len() < offset + piece.len() {
            self.draft.resize(offset + piece.len(), 0xee);
        }
        self.draft[offset..offset + piece.len()].copy_from_slice(piece);
    }

    fn publish(&mut self, len: usize, written_ns: u64, sequence: u64, _: u32) {
        self.draft.resize(self.draft.len().max(len), 0xee);
        self.values.push((sequence, written_ns, self.draft[..len].to_vec()));
    }
}

/// What may happen to a datagram, chosen by a number.
#[derive(Clone, Debug)]
struct Faults {
    lose: u8,
    repeat: u8,
    delay: u8,
    choices: Vec<(u8, u8, u8, u8)>,
}

impl Faults {
    /// Datagrams in the order in which they arrive.
    fn carry(&self, sent: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
        let mut arriving = BTreeMap::new();
        for (i, octets) in sent.into_iter().enumerate() {
            let (lose, repeat, delay, by) = self.choices[i % self.choices.len()];
            if lose < self.lose {
                continue;
            }
            let late = if delay < self.delay { usize::from(by) % 40 } else { 0 };
            if repeat < self.repeat {
                arriving.insert((i + usize::from(by) % 25, i, 1), octets.clone());
            }
            arriving.insert((i + late, i, 0), octets);
        }
        arriving.into_values().collect()
    }
}

fn faults() -> impl Strategy<Value = Faults> {
    let choices = prop::collection::vec(any::<(u8, u8, u8, u8)>(), 1..400);
    (0u8..120, 0u8..80, 0u8..80, choices).prop_map(|(lose, repeat, delay, choices)| Faults {
        lose,
        repeat,
        delay,
        choices,
    })
}

fn channel(fragment: usize, parity: usize) -> Channel {
    Channel { id: 3, epoch: 9, token: 0xfeed, size: 400, fragment, parity }
}

fn value(sequence: u64, len: usize) -> Vec<u8> {
    (0..len).map(|i| (sequence as usize * 31 + i * 7) as u8).collect()
}

/// All datagrams of values of these lengths, numbered from 1.
fn send(channel: Channel, lengths: &[usize]) -> Vec<Vec<u8>> {
    let mut sender = Sender::new(channel).unwrap();
    let mut all = Vec::new();
    let mut out = vec![0; sender.max_datagram()];
    for (i, len) in lengths.iter().enumerate() {
        let sequence = i as u64 + 1;
        sender
            .begin(|memory| {
                memory[..*len].copy_from_slice(&value(sequence, *len));
                Ok::<_, ()>(Loaded { len: *len, sequence, writer: 1, written_ns: sequence * 100 })
            })
            .unwrap();
        let before = all.len();
        while let Some(n) = sender.next(sequence * 100 + 50, &mut out) {
            all.push(out[..n].to_vec());
        }
        assert_eq!(all.len() - before, channel.datagrams(*len));
    }
    assert_eq!(sender.superseded(), 0);
    all
}

fn lengths() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(0usize..=400, 1..30)
}

proptest! {
    #[test]
    fn nothing_torn_or_invented_is_shown_and_every_push_is_counted(
        fragment in 1usize..90, parity in 0usize..6, lengths in lengths(), faults in faults(),
    ) {
        let channel = channel(fragment, parity);
        let arrived = faults.carry(send(channel, &lengths));
        let mut receiver = Receiver::new(channel, PEER).unwrap();
        let mut shown = Shown::default();
        for octets in &arrived {
            receiver.receive(PEER, octets, 1_000_000, &mut shown);
        }
        let mut last = 0;
        for (sequence, written_ns, bytes) in &shown.values {
            prop_assert!(*sequence > last, "in order, once each");
            last = *sequence;
            prop_assert_eq!(bytes, &value(*sequence, lengths[*sequence as usize - 1]));
            prop_assert_eq!(*written_ns, sequence * 100);
        }
        let c = *receiver.counters();
        let (newest, complete) = receiver.newest();
        prop_assert_eq!(c.complete + c.incomplete + c.lost + u64::from(!complete), newest);
        prop_assert_eq!(c.complete, shown.values.len() as u64);
        prop_assert_eq!((c.forged, c.malformed, c.other_epoch), (0, 0, 0));
    }

    #[test]
    fn on_a_good_network_everything_arrives(fragment in 1usize..90, parity in 0usize..6, lengths in lengths()) {
        let channel = channel(fragment, parity);
        let mut receiver = Receiver::new(channel, PEER).unwrap();
        let mut shown = Shown::default();
        for octets in send(channel, &lengths) {
            receiver.receive(PEER, &octets, 1_000_000, &mut shown);
        }
        prop_assert_eq!(shown.values.len(), lengths.len());
        let expected = Counters { complete: lengths.len() as u64, ..Counters::default() };
        prop_assert_eq!(*receiver.counters(), Counters { recovered: 0, ..expected });
    }

    #[test]
    fn parity_heals_one_loss_a_group(
        fragment in 1usize..90, parity in 1usize..6, len in 0usize..=400, losses in any::<[u8; 8]>(),
    ) {
        let channel = channel(fragment, parity);
        let sent = send(channel, &[len]);
        let (fragments, groups) = (channel.fragments(len), channel.groups(len));
        prop_assert_eq!(sent.len(), fragments + groups);
        let lost: Vec<usize> = (0..groups)
            .map(|g| {
                let members = (fragments - g * parity).min(parity);
                g * (parity + 1) + usize::from(losses[g % 8]) % (members + 1)
            })
            .collect();
        let mut receiver = Receiver::new(channel, PEER).unwrap();
        let mut shown = Shown::default();
        for (_, octets) in sent.iter().enumerate().filter(|(i, _)| !lost.contains(i)) {
            receiver.receive(PEER, octets, 1_000_000, &mut shown);
        }
        prop_assert_eq!(shown.values.len(), 1);
        prop_assert_eq!(&shown.values[0].2, &value(1, len));
    }

    #[test]
    fn damaged_datagrams_are_survived(
        fragment in 1usize..90, parity in 0usize..4, lengths in lengths(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 1u8..), 1..200),
    ) {
        // One octet anywhere is changed, or the end is cut off. UDP's checksum keeps such datagrams
        // from us; should one come through, the receiver stays within its memory and goes on.
        let channel = channel(fragment, parity);
        let sent = send(channel, &lengths);
        let mut receiver = Receiver::new(channel, PEER).unwrap();
        let mut shown = Shown::default();
        for (which, at, how) in damage {
            let mut octets = which.get(&sent).clone();
            let at = at.index(octets.len());
            octets[at] ^= how;
            receiver.receive(PEER, &octets, 1_000_000, &mut shown);
            octets.truncate(at);
            receiver.receive(PEER, &octets, 1_000_000, &mut shown);
        }
        for (_, _, bytes) in &shown.values {
            prop_assert!(bytes.len() <= channel.size);
        }
        // A good value with a later number than any before is shown still, unless damage made the
        // last number there is.
        if receiver.newest().0 < u64::MAX - 1 {
            let mut sender = Sender::new(channel).unwrap();
            let mut out = vec![0; sender.max_datagram()];
            let before = shown.values.len();
            while sender.pushes() < receiver.newest().0.min(1 << 12) + 1 {
                sender.begin(|memory| { memory[0] = 9; Ok::<_, ()>(Loaded { len: 1, ..Loaded::default() }) }).unwrap();
            }
            if sender.pushes() > receiver.newest().0 {
                while let Some(n) = sender.next(0, &mut out) {
                    receiver.receive(PEER, &out[..n], 1_000_000, &mut shown);
                }
                prop_assert_eq!(shown.values.len(), before + 1);
                prop_assert_eq!(&shown.values[before].2[..], &[9]);
            }
        }
    }
}

#[test]
fn strangers_and_old_agreements_change_nothing() {
    let channel = channel(100, 0);
    let sent = send(channel, &[350, 350]);
    let mut receiver = Receiver::new(channel, PEER).unwrap();
    let mut shown = Shown::default();
    assert_eq!(receiver.receive(STRANGER, &sent[0], 1, &mut shown), Outcome::Ignored(Ignored::Forged));
    let old = send(Channel { epoch: 8, ..channel }, &[350]);
    assert_eq!(receiver.receive(PEER, &old[0], 1, &mut shown), Outcome::Ignored(Ignored::OtherEpoch));
    let guess = send(Channel { token: 1, ..channel }, &[350]);
    assert_eq!(receiver.receive(PEER, &guess[0], 1, &mut shown), Outcome::Ignored(Ignored::Forged));
    assert_eq!((receiver.arrived_ns(), receiver.newest().0), (None, 0));
    for octets in &sent {
        receiver.receive(PEER, octets, 2, &mut shown);
    }
    // All of it again: a replay from the peer's own address.
    for octets in &sent[..4] {
        assert_eq!(receiver.receive(PEER, octets, 3, &mut shown), Outcome::Ignored(Ignored::Late));
    }
    for octets in &sent[4..] {
        assert_eq!(receiver.receive(PEER, octets, 3, &mut shown), Outcome::Ignored(Ignored::Repeated));
    }
    assert_eq!(shown.values.len(), 2);
    assert_eq!(
        (receiver.arrived_ns(), receiver.counters().forged, receiver.counters().other_epoch),
        (Some(2), 2, 1)
    );
}

#[test]
fn a_push_must_agree_with_itself() {
    let channel = channel(100, 0);
    let long = send(channel, &[350]);
    let short = send(channel, &[250]);
    let mut receiver = Receiver::new(channel, PEER).unwrap();
    let mut shown = Shown::default();
    receiver.receive(PEER, &long[0], 1, &mut shown);
    assert_eq!(receiver.receive(PEER, &short[1], 1, &mut shown), Outcome::Ignored(Ignored::Malformed));
    let huge = send(Channel { size: 4000, ..channel }, &[4000]);
    assert_eq!(receiver.receive(PEER, &huge[0], 1, &mut shown), Outcome::Ignored(Ignored::Malformed));
    for octets in &long[1..] {
        receiver.receive(PEER, octets, 1, &mut shown);
    }
    assert_eq!(shown.values[0].2, value(1, 350));
}

#[test]
fn heartbeats_count_what_was_lost_at_the_end() {
    let channel = channel(100, 0);
    let mut sender = Sender::new(channel).unwrap();
    let mut out = vec![0; sender.max_datagram()];
    let mut receiver = Receiver::new(channel, PEER).unwrap();
    let mut shown = Shown::default();
    for _ in 0..3 {
        sender.begin(|_| Ok::<_, ()>(Loaded { len: 150, ..Loaded::default() })).unwrap();
    }
    assert_eq!((sender.pushes(), sender.superseded()), (3, 2));
    let n = sender.next(5, &mut out).unwrap();
    assert_eq!(receiver.receive(PEER, &out[..n], 5, &mut shown), Outcome::Part);
    while sender.next(5, &mut out).is_some() {}
    sender.begin(|_| Ok::<_, ()>(Loaded { len: 150, ..Loaded::default() })).unwrap();
    let n = sender.heartbeat(0, (0, 0), 6, &mut out).unwrap();
    assert_eq!(receiver.receive(PEER, &out[..n], 6, &mut shown), Outcome::Alive);
    let c = receiver.counters();
    assert_eq!((c.lost, c.incomplete, c.complete), (3, 1, 0));
    assert_eq!(receiver.arrived_ns(), Some(6));
    assert_eq!(sender.begin(|_| Err::<Loaded, _>(7)), Err(7));
    assert!(!sender.is_busy());
}

#[test]
fn sizes_are_checked_before_memory_is_taken() {
    let good = channel(100, 0);
    for bad in [
        Channel { size: 0, ..good },
        Channel { size: usize::MAX, ..good },
        Channel { fragment: 0, ..good },
        Channel { fragment: MAX_FRAGMENT + 1, ..good },
        Channel { parity: 256, ..good },
    ] {
        assert!(Sender::new(bad).is_err() && Receiver::new(bad, PEER).is_err());
    }
    // Ethernet: 1500 bytes of IP and 38 around it.
    let one = Channel { fragment: ETHERNET_FRAGMENT, size: 10_000, ..good };
    assert_eq!(one.wire_bytes(1), 1 + HEADER + 8 + 20 + 38);
    const { assert!(ETHERNET_FRAGMENT + HEADER + 8 + 40 <= 1500) };
}
