//! An event as the payload of a zenoh sample. Type and source are in the key expression.
//!
//! ```text
//!  0  version (1)   1  three octets, 0      4  ttl             8  creation time (100 ns)
//! 16  incarnation of the sending gateway   24  number of the event, of this type and source
//! 32  padding of TAO's layout              36  octets of the payload    40  payload, then any
//! ```
//!
//! All numbers are little-endian.

use isorb_event::{Data, Event, Header};

pub(crate) const HEADER: usize = 40;
const VERSION: u8 = 1;

/// Which gateway sent an event, and its number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Sequence {
    pub incarnation: u64,
    pub number: u64,
}

/// Writes an event, as it is at the far end of one hop.
pub(crate) fn encode(event: &Event<'_>, sequence: Sequence, to: &mut Vec<u8>) {
    let Event { header, data, .. } = event;
    to.clear();
    to.extend_from_slice(&[VERSION, 0, 0, 0]);
    to.extend_from_slice(&header.ttl.saturating_sub(1).to_le_bytes());
    to.extend_from_slice(&header.creation_time.to_le_bytes());
    to.extend_from_slice(&sequence.incarnation.to_le_bytes());
    to.extend_from_slice(&sequence.number.to_le_bytes());
    to.extend_from_slice(&data.pad1.to_le_bytes());
    // Checked against `Settings::payload` before.
    to.extend_from_slice(&(data.octets.len() as u32).to_le_bytes());
    to.extend_from_slice(data.octets);
    to.extend_from_slice(data.any);
}

/// Reads an event; `None` if these are not the octets of one, or it has more than `most` octets of
/// data.
pub(crate) fn decode(
    octets: &[u8],
    (event_type, source): (i32, i32),
    most: usize,
) -> Option<(Event<'_>, Sequence)> {
    let (head, data) = octets.split_first_chunk::<HEADER>()?;
    let u32_at = |at: usize| head[at..].first_chunk().map(|some| u32::from_le_bytes(*some));
    let u64_at = |at: usize| head[at..].first_chunk().map(|some| u64::from_le_bytes(*some));
    if head[..4] != [VERSION, 0, 0, 0] || data.len() > most {
        return None;
    }
    let length = usize::try_from(u32_at(36)?).ok()?;
    let (octets, any) = data.split_at_checked(length)?;
    let ttl = u32_at(4)?.cast_signed();
    let sequence = Sequence { incarnation: u64_at(16)?, number: u64_at(24)? };
    // Types below these belong to the channel: time-outs, shutdown, the parts of filters.
    let is_user = !(0..isorb_event::designator::USER).contains(&event_type);
    if ttl < 0 || sequence.number == 0 || sequence.incarnation == 0 || !is_user {
        return None;
    }
    let header = Header { event_type, source, ttl, creation_time: u64_at(8)? };
    let data = Data { pad1: u32_at(32)?.cast_signed(), octets, any };
    Some((Event { header, data, ..Event::default() }, sequence))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: (i32, i32) = (20, 7);

    fn message() -> Vec<u8> {
        let header = Header { event_type: 20, source: 7, ttl: 3, creation_time: 99 };
        let data = Data { pad1: -4, octets: b"position", any: b"any" };
        let mut octets = vec![1, 2, 3];
        let event = Event { header, data, ..Event::default() };
        encode(&event, Sequence { incarnation: 5, number: 6 }, &mut octets);
        octets
    }

    #[test]
    fn an_event_arrives_with_one_hop_less() {
        let octets = message();
        let (event, sequence) = decode(&octets, KEY, 11).unwrap();
        assert_eq!(event.header, Header { event_type: 20, source: 7, ttl: 2, creation_time: 99 });
        assert_eq!(event.data, Data { pad1: -4, octets: b"position", any: b"any" });
        assert_eq!(sequence, Sequence { incarnation: 5, number: 6 });
        assert!(decode(&octets, KEY, 10).is_none(), "more data than the receiver takes");
    }

    #[test]
    fn other_octets_are_no_event() {
        let octets = message();
        for length in 0..HEADER + 8 {
            assert!(decode(&octets[..length], KEY, 100).is_none(), "cut to {length}");
        }
        // Version, flags, ttl, incarnation, number, and length of the payload.
        for (at, octet) in [(0, 2), (1, 1), (3, 9), (7, 0x80), (16, 0), (24, 0), (36, 12), (39, 0xff)] {
            let mut bad = octets.clone();
            bad[at] = octet;
            assert!(decode(&bad, KEY, 100).is_none(), "octet {at} is {octet}");
        }
        for reserved in 0..isorb_event::designator::USER {
            assert!(decode(&octets, (reserved, 7), 100).is_none(), "type {reserved}");
        }
        // Whatever comes, it does not panic.
        let mut seed = 1_u64;
        for length in 0..2_000 {
            let noise: Vec<u8> = (0..length % 97)
                .map(|_| {
                    seed =
                        seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    (seed >> 33) as u8
                })
                .collect();
            let _ = decode(&noise, KEY, 100);
        }
    }
}
