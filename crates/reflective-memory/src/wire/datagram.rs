//! One datagram: a header of 72 octets, little-endian, and a piece of a value.
//!
//! | at | octets | field |
//! |---|---|---|
//! | 0 | 4 | `iCRM` |
//! | 4 | 1 | version, 3 |
//! | 5 | 1 | kind: 0 fragment, 1 parity, 2 heartbeat, 3 choice of a path, 4 probe, 5 answer, 6 credit |
//! | 6 | 2 | zero |
//! | 8 | 4 | channel |
//! | 12 | 4 | epoch of the channel |
//! | 16 | 8 | token |
//! | 24 | 8 | push: consecutive numbers of this channel, from 1; in a choice or credit its number; in an answer the time at which the probe was sent |
//! | 32 | 8 | sequence of the value at the writer; in an answer the time at which the probe arrived; in a heartbeat the octets that were sent, and in a credit those that may be, in frames |
//! | 40 | 8 | time of writing, ns on the clock of the writer's node; in a heartbeat the number of the last credit |
//! | 48 | 4 | octets of the value |
//! | 52 | 4 | number of the fragment, or of a parity's group; in a heartbeat the state of the area; in a choice the path |
//! | 56 | 4 | the writer's epoch |
//! | 60 | 4 | values that were not sent because a later value overtook them, modulo 2^32 |
//! | 64 | 8 | time of sending, ns on the sender's clock |

use core::fmt;

/// Octets before the piece.
pub const HEADER: usize = 72;

const MAGIC: [u8; 4] = *b"iCRM";
const VERSION: u8 = 3;

/// The kinds of datagrams.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Kind {
    /// A piece of a value.
    #[default]
    Fragment,
    /// The exclusive or of a group of pieces.
    Parity,
    /// A heartbeat: the value of `push` is still the latest, and the writer's node is alive.
    Heartbeat,
    /// From the receiver to the sender: the path that datagrams must take.
    Choice,
    /// From the receiver to the sender, which answers at once: for the offset of their clocks.
    Probe,
    /// The answer to a probe, from the sender to the receiver.
    Answer,
    /// From the receiver to the sender: the octets that it may send.
    Credit,
}

impl Kind {
    const ALL: [Kind; 7] = [
        Kind::Fragment,
        Kind::Parity,
        Kind::Heartbeat,
        Kind::Choice,
        Kind::Probe,
        Kind::Answer,
        Kind::Credit,
    ];

    fn has_payload(self) -> bool {
        matches!(self, Kind::Fragment | Kind::Parity)
    }
}

/// A datagram that was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Datagram<'a> {
    /// Its kind.
    pub kind: Kind,
    /// The receiver's channel.
    pub channel: u32,
    /// The epoch of the channel.
    pub epoch: u32,
    /// The secret of the channel.
    pub token: u64,
    /// The push it belongs to; in a heartbeat the last push.
    pub push: u64,
    /// The value's number at the writer; in a heartbeat the octets that were sent, in a credit
    /// those that may be.
    pub sequence: u64,
    /// The time of writing, on the clock of the writer's node; in a heartbeat the number of the
    /// last credit.
    pub written_ns: u64,
    /// Octets of the whole value.
    pub size: u32,
    /// The number of the fragment or group; in a heartbeat the state of the area.
    pub index: u32,
    /// The writer that wrote the value.
    pub writer: u32,
    /// Values of the area that were never sent, because a later one overtook them.
    pub skipped: u32,
    /// The time of sending, on the sender's clock.
    pub sent_ns: u64,
    /// The piece.
    pub payload: &'a [u8],
}

/// The octets are no datagram of this protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Malformed;

impl<'a> Datagram<'a> {
    /// Reads a datagram. The caller checks its numbers against the channel.
    ///
    /// # Errors
    /// It is too short, of another protocol or version, or not zero where zero must be.
    ///
    /// # Real-time
    /// Neither allocates nor blocks.
    pub fn read(octets: &'a [u8]) -> Result<Datagram<'a>, Malformed> {
        let (head, payload) = octets.split_first_chunk::<HEADER>().ok_or(Malformed)?;
        if head[..4] != MAGIC || head[4] != VERSION || head[6..8] != [0; 2] {
            return Err(Malformed);
        }
        let kind = *Kind::ALL.get(usize::from(head[5])).ok_or(Malformed)?;
        if !kind.has_payload() && !payload.is_empty() {
            return Err(Malformed);
        }
        Ok(Datagram {
            kind,
            channel: u32::from_le_bytes(part(head, 8)),
            epoch: u32::from_le_bytes(part(head, 12)),
            token: u64::from_le_bytes(part(head, 16)),
            push: u64::from_le_bytes(part(head, 24)),
            sequence: u64::from_le_bytes(part(head, 32)),
            written_ns: u64::from_le_bytes(part(head, 40)),
            size: u32::from_le_bytes(part(head, 48)),
            index: u32::from_le_bytes(part(head, 52)),
            writer: u32::from_le_bytes(part(head, 56)),
            skipped: u32::from_le_bytes(part(head, 60)),
            sent_ns: u64::from_le_bytes(part(head, 64)),
            payload,
        })
    }

    /// Writes the header into the first [`HEADER`] octets. The caller adds the payload.
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
        out[40..48].copy_from_slice(&self.written_ns.to_le_bytes());
        out[48..52].copy_from_slice(&self.size.to_le_bytes());
        out[52..56].copy_from_slice(&self.index.to_le_bytes());
        out[56..60].copy_from_slice(&self.writer.to_le_bytes());
        out[60..64].copy_from_slice(&self.skipped.to_le_bytes());
        out[64..72].copy_from_slice(&self.sent_ns.to_le_bytes());
    }
}

/// `N` octets of the header.
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
        fn a_datagram_is_read_as_it_was_written(
            kind in 0..7usize, numbers in any::<[u64; 5]>(), small in any::<[u32; 6]>(), payload in any::<Vec<u8>>(),
        ) {
            let kind = Kind::ALL[kind];
            let payload = if kind.has_payload() { &payload[..] } else { &[] };
            let datagram = Datagram {
                kind, channel: small[0], epoch: small[1], token: numbers[0], push: numbers[1], sequence: numbers[2],
                written_ns: numbers[3], size: small[2], index: small[3], writer: small[4], skipped: small[5],
                sent_ns: numbers[4], payload,
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
    fn a_damaged_header_is_refused() {
        let mut octets = [0; HEADER];
        Datagram { kind: Kind::Heartbeat, channel: 1, ..Datagram::default() }.write_head(&mut octets);
        assert!(Datagram::read(&octets).is_ok());
        assert_eq!(Datagram::read(&octets[..HEADER - 1]), Err(Malformed));
        for at in [0, 3, 4, 5, 6, 7] {
            let mut damaged = octets;
            damaged[at] ^= 0x80;
            assert_eq!(Datagram::read(&damaged), Err(Malformed), "octet {at}");
        }
        let mut long = octets.to_vec();
        long.push(0);
        assert_eq!(Datagram::read(&long), Err(Malformed), "a heartbeat with a payload");
    }
}
