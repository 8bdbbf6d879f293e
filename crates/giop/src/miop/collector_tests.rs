extern crate std;
use super::*;
use proptest::prelude::*;

const LIMITS: Limits = Limits { messages: 3, octets: 100, packets: 20, age_ns: 1000 };

fn packet<'a>(id: &'a [u8], number: u32, count: u32, data: &'a [u8]) -> Packet<'a> {
    Packet { number, count, last: number + 1 == count, id, data }
}

/// A packet of a sender that does not know the number of packets.
fn open<'a>(id: &'a [u8], number: u32, last: bool, data: &'a [u8]) -> Packet<'a> {
    Packet { number, count: 0, last, id, data }
}

#[test]
fn in_order_and_out_of_it() {
    let mut c = Collector::new(LIMITS);
    assert_eq!(c.take(1, &packet(b"a", 0, 1, b"alone"), 0), Taken::Whole(b"alone"));
    assert_eq!(c.take(1, &packet(b"b", 0, 2, b"in "), 0), Taken::Stored);
    assert_eq!(c.take(1, &packet(b"b", 1, 2, b"order"), 0), Taken::Whole(b"in order"));
    assert_eq!(c.take(1, &packet(b"c", 2, 3, b"of it"), 0), Taken::Stored);
    assert_eq!(c.take(1, &packet(b"c", 0, 3, b"o"), 0), Taken::Stored);
    // The same id from another sender is another message.
    assert_eq!(c.take(2, &packet(b"c", 1, 3, b"??"), 0), Taken::Stored);
    assert_eq!(c.take(1, &packet(b"c", 1, 3, b"ut "), 0), Taken::Whole(b"out of it"));
    assert_eq!(c.take(1, &open(b"d", 1, false, b"n"), 0), Taken::Stored);
    assert_eq!(c.take(1, &open(b"d", 2, true, b"d"), 0), Taken::Stored);
    assert_eq!(c.take(1, &open(b"d", 0, false, b"e"), 0), Taken::Whole(b"end"));
    assert_eq!((c.under_way(), c.counts()), (1, LostCounts::default()));
}

#[test]
fn what_comes_twice_is_ignored() {
    let mut c = Collector::new(LIMITS);
    assert_eq!(c.take(1, &packet(b"a", 0, 1, b"x"), 0), Taken::Whole(b"x"));
    assert_eq!(c.take(1, &packet(b"a", 0, 1, b"x"), 0), Taken::Duplicate);
    assert_eq!(c.take(1, &packet(b"b", 0, 2, b"x"), 0), Taken::Stored);
    assert_eq!(c.take(1, &packet(b"b", 0, 2, b"x"), 0), Taken::Duplicate);
    assert_eq!(c.take(1, &packet(b"b", 1, 2, b"y"), 0), Taken::Whole(b"xy"));
    assert_eq!(c.take(1, &packet(b"b", 0, 2, b"x"), 0), Taken::Duplicate);
    assert_eq!((c.counts().duplicates, c.under_way()), (3, 0));
    // Meaningless ids give no protection, and exclude nothing.
    for id in [&b""[..], &[0; 12]] {
        assert_eq!(c.take(1, &packet(id, 0, 1, b"x"), 0), Taken::Whole(b"x"));
        assert_eq!(c.take(1, &packet(id, 0, 1, b"x"), 0), Taken::Whole(b"x"));
    }
    // After a while an id may name another message.
    assert_eq!(c.take(1, &packet(b"a", 0, 1, b"x"), 4001), Taken::Whole(b"x"));
}

#[test]
fn contradictions_end_a_message_for_good() {
    let lost = Taken::Abandoned(Lost::Conflict);
    let pairs = [
        // Another piece, another number of packets, an end before or elsewhere than the known one.
        (packet(b"i", 0, 3, b"x"), packet(b"i", 0, 3, b"y")),
        (packet(b"i", 0, 3, b"x"), packet(b"i", 0, 3, b"xx")),
        (packet(b"i", 0, 3, b"x"), packet(b"i", 1, 4, b"y")),
        (packet(b"i", 0, 3, b"x"), open(b"i", 3, false, b"y")),
        (packet(b"i", 0, 3, b"x"), open(b"i", 1, true, b"y")),
        (open(b"i", 4, false, b"x"), open(b"i", 1, true, b"y")),
        (open(b"i", 4, true, b"x"), open(b"i", 5, false, b"y")),
        (open(b"i", 1, false, b"x"), packet(b"i", 0, 1, b"y")),
    ];
    for (one, other) in pairs {
        let mut c = Collector::new(LIMITS);
        assert_eq!(c.take(1, &one, 0), Taken::Stored);
        assert_eq!(c.take(1, &other, 0), lost, "{one:?} {other:?}");
        assert_eq!((c.counts().conflicts, c.under_way()), (1, 0));
        // Later packets begin no new message.
        assert_eq!(c.take(1, &packet(b"i", 1, 3, b"z"), 0), Taken::Duplicate);
        assert_eq!(c.under_way(), 0);
    }
}

#[test]
fn what_is_too_long_or_late_or_too_much_is_given_up() {
    let mut c = Collector::new(LIMITS);
    let long = [7; 101];
    let too_long = Taken::Abandoned(Lost::TooLong);
    assert_eq!(c.take(1, &packet(b"a", 0, 1, &long), 0), too_long);
    assert_eq!(c.take(1, &packet(b"b", 0, 21, b"x"), 0), too_long);
    assert_eq!(c.take(1, &open(b"c", 20, false, b"x"), 0), too_long);
    assert_eq!(c.take(1, &packet(b"d", 0, 2, &long[..60]), 0), Taken::Stored);
    assert_eq!(c.take(1, &packet(b"d", 1, 2, &long[..41]), 0), too_long);
    assert_eq!((c.counts().too_long, c.under_way()), (4, 0));
    // Late.
    assert_eq!(c.take(1, &packet(b"e", 0, 2, b"x"), 0), Taken::Stored);
    assert_eq!(c.take(1, &packet(b"e", 1, 2, b"y"), 1001), Taken::Duplicate);
    assert_eq!((c.counts().late, c.under_way()), (1, 0));
    // Too many: the sender with the most messages loses the one that was silent for longest.
    for (sender, id, at) in [(1, b"1", 2000), (2, b"2", 2001), (2, b"3", 2002), (1, b"4", 2003)] {
        assert_eq!(c.take(sender, &packet(id, 0, 2, b"x"), at), Taken::Stored);
    }
    assert_eq!((c.counts().displaced, c.under_way()), (1, 3));
    assert_eq!(c.take(2, &packet(b"2", 1, 2, b"y"), 2004), Taken::Duplicate, "displaced");
    for (sender, id) in [(1, b"1"), (2, b"3"), (1, b"4")] {
        assert_eq!(c.take(sender, &packet(id, 1, 2, b"y"), 2004), Taken::Whole(b"xy"));
    }
}

#[test]
fn an_honest_sender_gets_through_while_another_begins_message_after_message() {
    let mut c = Collector::new(LIMITS);
    let (mut forged, mut now) = (0u32, 0);
    let mut flood = |c: &mut Collector<u32>, now: &mut u64| {
        for _ in 0..100 {
            forged += 1;
            *now += 1;
            c.take(9, &packet(&forged.to_be_bytes(), 0, 2, b"never whole"), *now);
            assert!(c.under_way() <= LIMITS.messages);
        }
        forged
    };
    for message in 0..50u32 {
        let id = [b"honest".as_slice(), &message.to_be_bytes()].concat();
        flood(&mut c, &mut now);
        assert_eq!(c.take(1, &packet(&id, 0, 3, b"all "), now), Taken::Stored);
        flood(&mut c, &mut now);
        assert_eq!(c.take(1, &packet(&id, 1, 3, b"the "), now), Taken::Stored);
        flood(&mut c, &mut now);
        assert_eq!(c.take(1, &packet(&id, 2, 3, b"same"), now), Taken::Whole(b"all the same"));
    }
    let forged = u64::from(flood(&mut c, &mut now));
    assert_eq!((forged, c.counts().late), (15_100, 0));
    // All of the flood except the incomplete ones, and nothing of the honest sender.
    assert_eq!(c.counts().displaced, forged - c.under_way() as u64);
}

/// A message and its cuts.
fn message() -> impl Strategy<Value = (Vec<u8>, usize)> {
    (proptest::collection::vec(0u8.., 1..60), 1usize..12)
}

proptest! {
    /// Packets of several messages are lost, duplicated and reordered. Every delivered message is
    /// one of the originals, is delivered at most once, and is delivered if all its packets arrived
    /// in time.
    #[test]
    fn nothing_is_invented_and_nothing_whole_is_lost(
        messages in proptest::collection::vec(message(), 1..4),
        counted: bool,
        order in proptest::collection::vec((0usize..4, 0usize..60), 0..200),
    ) {
        let limits = Limits { messages: 4, octets: 60, packets: 60, age_ns: 1000 };
        let mut c = Collector::new(limits);
        let ids: Vec<[u8; 1]> = (1..=messages.len() as u8).map(|i| [i]).collect();
        let mut given = vec![0; messages.len()];
        let mut came = vec![std::collections::BTreeSet::new(); messages.len()];
        for (which, number) in order {
            let which = which % messages.len();
            let (message, cut) = &messages[which];
            let all: Vec<&[u8]> = message.chunks(*cut).collect();
            let number = number % all.len();
            let last = number + 1 == all.len();
            let count = if counted { all.len() as u32 } else { 0 };
            let packet = Packet { number: number as u32, count, last, id: &ids[which], data: all[number] };
            came[which].insert(number);
            match c.take(0, &packet, 0) {
                Taken::Whole(whole) => {
                    prop_assert_eq!(whole, &message[..]);
                    prop_assert_eq!(came[which].len(), all.len());
                    given[which] += 1;
                }
                Taken::Abandoned(why) => prop_assert!(false, "{:?}", why),
                Taken::Stored | Taken::Duplicate => {}
            }
            prop_assert!(given[which] == usize::from(came[which].len() == all.len()));
        }
    }

    /// For any packets, a delivered message consists of the pieces of one id, one for each number
    /// from 0 on.
    #[test]
    fn any_packets(
        packets in proptest::collection::vec((0u8..3, 0u32..6, 0u32..6, any::<bool>(), 0u8..3, 1usize..40, 0u64..900), 0..200),
    ) {
        let mut c = Collector::new(LIMITS);
        let mut now = 0;
        for (id, number, count, last, octet, length, pause) in packets {
            now += pause;
            let data = vec![octet; length];
            let last = last && (count == 0 || number + 1 == count);
            let id = [id];
            let packet = Packet { number, count, last, id: &id, data: &data };
            if let Taken::Whole(whole) = c.take(0, &packet, now) {
                prop_assert!(whole.len() <= LIMITS.octets && whole.windows(length).any(|piece| piece == data));
            }
            prop_assert!(c.under_way() <= LIMITS.messages);
        }
    }
}
