//! One datagram: a head of 64 octets, little-endian, and a piece of a value.
//!
//! | at | octets | what |
//! |---|---|---|
//! | 0 | 4 | `iCRM` |
//! | 4 | 1 | version, 1 |
//! | 5 | 1 | kind: 0 fragment, 1 parity, 2 heartbeat, 3 choice of a path |
//! | 6 | 2 | zero |
//! | 8 | 4 | channel |
//! | 12 | 4 | epoch of the channel |
//! | 16 | 8 | token |
//! | 24 | 8 | push: consecutive numbers of this channel, from 1; of a choice, how many there were |
//! | 32 | 8 | sequence of the value at the writer |
//! | 40 | 8 | age of the value when the datagram was made, ns |
//! | 48 | 4 | bytes of the value |
//! | 52 | 4 | number of the fragment, or of the group of a parity; in a heartbeat the state of the area; in a choice the path |
//! | 56 | 4 | the writer's epoch |
//! | 60 | 4 | zero |

use core::fmt;

/// Octets before the piece.
pub const HEADER: usize = 64;

const MAGIC: [u8; 4] = *b"iCRM";
const VERSION: u8 = 1;

/// What a datagram carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Kind {
    /// A piece of a value.
    #[default]
    Fragment,
    /// The exclusive or of a group of pieces.
    Parity,
    /// Nothing: the value of `sequence` is still the latest, and the writer's node lives.
    Heartbeat,
    /// From the receiver to the sender, and nothing of a value: the path on which datagrams are to
    /// come.
    Choice,
}

/// A datagram, read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Datagram<'a> {
    /// What it carries.
    pub kind: Kind,
    /// The receiver's channel.
    pub channel: u32,
    /// Which agreement about the channel.
    pub epoch: u32,
    /// What proves that the sender was told it.
    pub token: u64,
    /// The push it belongs to; of a heartbeat, the last push there was.
    pub push: u64,
    /// The value's number at the writer.
    pub sequence: u64,
    /// How old the value was when the datagram was made.
    pub age_ns: u64,
    /// Bytes of the whole value.
    pub size: u32,
    /// Which fragment, or which group; what a heartbeat says about the area.
    pub index: u32,
    /// Which writer of the area wrote the value.
    pub writer: u32,
    /// The piece.
    pub payload: &'a [u8],
}

/// Octets that are no datagram of this protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Malformed;

impl<'a> Datagram<'a> {
    /// Reads a datagram. What its numbers mean for a channel is not looked at here.
    ///
    /// # Errors
    /// When it is too short, of another protocol or version, or has something where zero must be.
    ///
    /// # Real-time
    /// Neither allocates nor blocks.
    pub fn read(octets: &'a [u8]) -> Result<Datagram<'a>, Malformed> {
        let (head, payload) = octets.split_first_chunk::<HEADER>().ok_or(Malformed)?;
        if head[..4] != MAGIC || head[4] != VERSION || head[6..8] != [0; 2] || head[60..] != [0; 4] {
            return Err(Malformed);
        }
        let kind = match head[5] {
            0 => Kind::Fragment,
            1 => Kind::Parity,
            2 if payload.is_empty() => Kind::Heartbeat,
            3 if payload.is_empty() => Kind::Choice,
            _ => return Err(Malformed),
        };
        Ok(Datagram {
            kind,
            channel: u32::from_le_bytes(part(head, 8)),
            epoch: u32::from_le_bytes(part(head, 12)),
            token: u64::from_le_bytes(part(head, 16)),
            push: u64::from_le_bytes(part(head, 24)),
            sequence: u64::from_le_bytes(part(head, 32)),
            age_ns: u64::from_le_bytes(part(head, 40)),
            size: u32::from_le_bytes(part(head, 48)),
            index: u32::from_le_bytes(part(head, 52)),
            writer: u32::from_le_bytes(part(head, 56)),
            payload,
        })
    }

    /// Writes the head into the first [`HEADER`] octets. The payload is the caller's.
    pub fn write_head(&self, out: &mut [u8; HEADER]) {
        *out = [0; HEADER];
        out[..4].copy_from_slice(&MAGIC);
        out[4] = VERSION;
        out[5] = self.kind as u8;
        out[8..12].copy_from_slice(&self.channel.to_le_bytes());
        out[12..16].copy_from_slice(&self.epoch.to_le_bytes());
        out[16..24].copy_from_slice(&self.token.to_le_bytes());
        out[24..32].copy_from_slice(&self.push.to_le_bytes());
        out[32..40].copy_from_slice(&self.sequence.to_le_bytes());
        out[40..48].copy_from_slice(&self.age_ns.to_le_bytes());
        out[48..52].copy_from_slice(&self.size.to_le_bytes());
        out[52..56].copy_from_slice(&self.index.to_le_bytes());
        out[56..60].copy_from_slice(&self.writer.to_le_bytes());
    }
}

/// `N` octets at a place that lies within the head.
fn part<const N: usize>(head: &[u8; HEADER], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&head[at..at + N]);
    out
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no datagram of reflective memory")
    }
}

impl core::error::Error for Malformed {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(
            kind in 0u8..4, numbers in any::<[u64; 4]>(), small in any::<[u32; 5]>(), payload in any::<Vec<u8>>(),
        ) {
            let kind = [Kind::Fragment, Kind::Parity, Kind::Heartbeat, Kind::Choice][usize::from(kind)];
            let payload = if matches!(kind, Kind::Heartbeat | Kind::Choice) { &[][..] } else { &payload };
            let datagram = Datagram {
                kind, channel: small[0], epoch: small[1], token: numbers[0], push: numbers[1], sequence: numbers[2],
                age_ns: numbers[3], size: small[2], index: small[3], writer: small[4], payload,
            };
            let mut octets = vec![0xff; HEADER];
            datagram.write_head(octets.first_chunk_mut().unwrap());
            octets.extend_from_slice(payload);
            prop_assert_eq!(Datagram::read(&octets), Ok(datagram));
        }

        #[test]
        fn any_octets_are_read_or_refused(octets in any::<Vec<u8>>()) {
            let _ = Datagram::read(&octets);
        }
    }

    #[test]
    fn what_must_be_zero_is_looked_at() {
        let mut octets = [0; HEADER];
        Datagram {
            kind: Kind::Heartbeat,
            channel: 1,
            epoch: 1,
            token: 1,
            push: 1,
            sequence: 1,
            age_ns: 0,
            size: 0,
            index: 0,
            writer: 0,
            payload: &[],
        }
        .write_head(&mut octets);
        assert!(Datagram::read(&octets).is_ok());
        assert_eq!(Datagram::read(&octets[..HEADER - 1]), Err(Malformed));
        for at in [0, 3, 4, 6, 7, 60, 63] {
            let mut damaged = octets;
            damaged[at] ^= 0x80;
            assert_eq!(Datagram::read(&damaged), Err(Malformed), "octet {at}");
        }
        let mut long = octets.to_vec();
        long.push(0);
        assert_eq!(Datagram::read(&long), Err(Malformed), "a heartbeat with a payload");
    }
}
