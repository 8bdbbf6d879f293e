//! The trace file.
//!
//! ```text
//! "isorbtrc" version:u8 name:text lost:n
//! participants:n { role:u8 id:n name:text deadline:n }
//! tracks:n { thread:text overwritten:n records:n { kind:u8 level:u8 at:z id:n a:n b:n } }
//! phases:n { from:n to:n caption:text }
//! refused:n { name:text why:text }
//! member:n clocks:n { member:n at:n offset:z bound:n }
//! ```
//!
//! A deadline is given plus 1; 0 is none. Version 2 has neither deadlines nor what follows the
//! tracks. Version 3 has no last line; a channel without a federation is still written so, for
//! programs that read no later version.
//!
//! `n` is a number of seven bits an octet, the lowest first; the highest bit is set if another
//! octet follows. `z` is a number with a sign, as `n` with the sign in the lowest bit; the time of
//! a record is its difference from the record before. A text is its length in octets, then UTF-8. A
//! record takes about 12 octets.

use crate::record::{Record, RecordKind, Track};
use crate::recording::{NeighbourClock, Participant, Phase, Recording, Refusal, Role};
use std::fmt;

const MAGIC: &[u8; 8] = b"isorbtrc";

/// The latest version that [`encode`] writes. [`decode`] reads it and those from 2 on.
pub const VERSION: u8 = 4;

/// The version without a federation.
const ALONE: u8 = 3;

/// The version without deadlines, phases and refusals.
const FIRST: u8 = 2;

/// Why octets are not a trace file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DecodeError {
    /// They do not begin as a trace file does.
    NotATrace,
    /// The file has another version.
    Version(u8),
    /// The file is cut off.
    Truncated,
    /// The value at this octet is invalid.
    Malformed(usize),
    /// Octets follow the end, which is at this octet.
    Trailing(usize),
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DecodeError::NotATrace => f.write_str("this is not a trace file"),
            DecodeError::Version(version) => {
                write!(
                    f,
                    "the trace file has version {version}; this program reads versions {FIRST} to {VERSION}"
                )
            }
            DecodeError::Truncated => f.write_str("the trace file is cut off"),
            DecodeError::Malformed(at) => write!(f, "the trace file is damaged at octet {at}"),
            DecodeError::Trailing(at) => {
                write!(f, "the trace file ends at octet {at}, but more octets follow")
            }
        }
    }
}

impl std::error::Error for DecodeError {}

/// Writes a recording as a trace file.
pub fn encode(recording: &Recording) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    let is_federated = recording.member != 0 || !recording.clocks.is_empty();
    out.push(if is_federated { VERSION } else { ALONE });
    text(&mut out, &recording.name);
    number(&mut out, recording.lost);
    number(&mut out, recording.participants.len() as u64);
    for participant in &recording.participants {
        out.push(participant.role as u8);
        number(&mut out, participant.id.into());
        text(&mut out, &participant.name);
        // The longest deadline, of 584 years, is written as none.
        number(&mut out, participant.deadline.map_or(0, |deadline| deadline.wrapping_add(1)));
    }
    number(&mut out, recording.tracks.len() as u64);
    for track in &recording.tracks {
        text(&mut out, &track.thread);
        number(&mut out, track.overwritten);
        number(&mut out, track.records.len() as u64);
        let mut before = 0_u64;
        for r in &track.records {
            out.extend([r.kind as u8, r.level]);
            signed(&mut out, r.at.wrapping_sub(before) as i64);
            before = r.at;
            number(&mut out, r.id.into());
            number(&mut out, r.a);
            number(&mut out, r.b);
        }
    }
    number(&mut out, recording.phases.len() as u64);
    for phase in &recording.phases {
        number(&mut out, phase.from);
        number(&mut out, phase.to);
        text(&mut out, &phase.caption);
    }
    number(&mut out, recording.refused.len() as u64);
    for refused in &recording.refused {
        text(&mut out, &refused.name);
        text(&mut out, &refused.why);
    }
    if is_federated {
        number(&mut out, recording.member);
        number(&mut out, recording.clocks.len() as u64);
        for clock in &recording.clocks {
            number(&mut out, clock.member);
            number(&mut out, clock.at);
            signed(&mut out, clock.offset);
            number(&mut out, clock.bound);
        }
    }
    out
}

/// Reads a trace file.
///
/// # Errors
/// [`DecodeError`]. Memory is allocated in proportion to the octets at most, whatever they contain.
pub fn decode(file: &[u8]) -> Result<Recording, DecodeError> {
    let mut r = Reader { octets: file, at: 0 };
    if r.take(MAGIC.len()).ok() != Some(MAGIC) {
        return Err(DecodeError::NotATrace);
    }
    let version = match r.octet()? {
        version @ FIRST..=VERSION => version,
        version => return Err(DecodeError::Version(version)),
    };
    let (is_new, is_federated) = (version > FIRST, version > ALONE);
    let name = r.text()?;
    let lost = r.number()?;
    let participants = r.list(3, |r| r.participant(is_new))?;
    let tracks = r.list(3, Reader::track)?;
    let phases = if is_new { r.list(3, Reader::phase)? } else { Vec::new() };
    let refused = if is_new { r.list(2, Reader::refusal)? } else { Vec::new() };
    let member = if is_federated { r.number()? } else { 0 };
    let clocks = if is_federated { r.list(4, Reader::clock)? } else { Vec::new() };
    if r.at != file.len() {
        return Err(DecodeError::Trailing(r.at));
    }
    Ok(Recording { name, lost, participants, tracks, phases, refused, member, clocks })
}

fn number(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn signed(out: &mut Vec<u8>, value: i64) {
    number(out, (value << 1 ^ value >> 63) as u64);
}

fn text(out: &mut Vec<u8>, text: &str) {
    number(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

struct Reader<'a> {
    octets: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// Reports the octet that was read last.
    fn malformed(&self) -> DecodeError {
        DecodeError::Malformed(self.at.saturating_sub(1))
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], DecodeError> {
        let end = self.at.checked_add(length).ok_or(DecodeError::Truncated)?;
        let taken = self.octets.get(self.at..end).ok_or(DecodeError::Truncated)?;
        self.at = end;
        Ok(taken)
    }

    fn octet(&mut self) -> Result<u8, DecodeError> {
        let octet = *self.octets.get(self.at).ok_or(DecodeError::Truncated)?;
        self.at += 1;
        Ok(octet)
    }

    fn number(&mut self) -> Result<u64, DecodeError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let octet = self.octet()?;
            if shift == 63 && octet > 1 {
                break;
            }
            value |= u64::from(octet & 0x7F) << shift;
            if octet < 0x80 {
                return Ok(value);
            }
        }
        Err(self.malformed())
    }

    fn signed(&mut self) -> Result<i64, DecodeError> {
        let value = self.number()?;
        Ok((value >> 1 ^ (value & 1).wrapping_neg()) as i64)
    }

    fn text(&mut self) -> Result<String, DecodeError> {
        let length = usize::try_from(self.number()?).map_err(|_| DecodeError::Truncated)?;
        let octets = self.take(length)?;
        String::from_utf8(octets.to_vec()).map_err(|_| self.malformed())
    }

    /// Reads a counted list of items of at least `least` octets each. A count that exceeds the file
    /// is an error before memory is allocated for it.
    fn list<T>(
        &mut self,
        least: usize,
        mut one: impl FnMut(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<Vec<T>, DecodeError> {
        let count = usize::try_from(self.number()?).map_err(|_| DecodeError::Truncated)?;
        if count > (self.octets.len() - self.at) / least {
            return Err(DecodeError::Truncated);
        }
        (0..count).map(|_| one(self)).collect()
    }

    fn id(&mut self) -> Result<u32, DecodeError> {
        u32::try_from(self.number()?).map_err(|_| self.malformed())
    }

    fn participant(&mut self, has_deadline: bool) -> Result<Participant, DecodeError> {
        let role = match self.octet()? {
            0 => Role::Supplier,
            1 => Role::Consumer,
            _ => return Err(self.malformed()),
        };
        let (id, name) = (self.id()?, self.text()?);
        let deadline = if has_deadline { self.number()?.checked_sub(1) } else { None };
        Ok(Participant { role, id, name, deadline })
    }

    fn phase(&mut self) -> Result<Phase, DecodeError> {
        Ok(Phase { from: self.number()?, to: self.number()?, caption: self.text()? })
    }

    fn refusal(&mut self) -> Result<Refusal, DecodeError> {
        Ok(Refusal { name: self.text()?, why: self.text()? })
    }

    fn clock(&mut self) -> Result<NeighbourClock, DecodeError> {
        let (member, at) = (self.number()?, self.number()?);
        Ok(NeighbourClock { member, at, offset: self.signed()?, bound: self.number()? })
    }

    fn track(&mut self) -> Result<Track, DecodeError> {
        let thread = self.text()?;
        let overwritten = self.number()?;
        let mut before = 0_u64;
        let records = self.list(6, |r| {
            let kind = RecordKind::from_code(r.octet()?).ok_or_else(|| r.malformed())?;
            let level = r.octet()?;
            before = before.wrapping_add(r.signed()? as u64);
            Ok(Record { at: before, kind, level, id: r.id()?, a: r.number()?, b: r.number()? })
        })?;
        Ok(Track { thread, overwritten, records })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn records() -> impl Strategy<Value = Vec<Record>> {
        let record = (any::<u64>(), 1..=10_u8, any::<u8>(), any::<u32>(), any::<u64>(), any::<u64>())
            .prop_map(|(at, kind, level, id, a, b)| Record {
                at,
                kind: RecordKind::from_code(kind).expect("there are ten"),
                level,
                id,
                a,
                b,
            });
        proptest::collection::vec(record, 0..20)
    }

    fn text_of() -> impl Strategy<Value = String> {
        proptest::collection::vec(any::<char>(), 0..12).prop_map(String::from_iter)
    }

    fn recordings() -> impl Strategy<Value = Recording> {
        let deadline = proptest::option::of(0..u64::MAX);
        let participant =
            (0..2u8, any::<u32>(), text_of(), deadline).prop_map(|(role, id, name, deadline)| Participant {
                role: if role == 0 { Role::Supplier } else { Role::Consumer },
                id,
                name,
                deadline,
            });
        let phase = (any::<u64>(), any::<u64>(), text_of()).prop_map(|(from, to, caption)| Phase {
            from,
            to,
            caption,
        });
        let refusal = (text_of(), text_of()).prop_map(|(name, why)| Refusal { name, why });
        let track = (text_of(), any::<u64>(), records()).prop_map(|(thread, overwritten, records)| Track {
            thread,
            overwritten,
            records,
        });
        use proptest::collection::vec;
        let clock = (any::<u64>(), any::<u64>(), any::<i64>(), any::<u64>())
            .prop_map(|(member, at, offset, bound)| NeighbourClock { member, at, offset, bound });
        let rest = (vec(phase, 0..3), vec(refusal, 0..3), 0..3_u64, vec(clock, 0..3));
        (text_of(), any::<u64>(), vec(participant, 0..5), vec(track, 0..4), rest).prop_map(
            |(name, lost, participants, tracks, (phases, refused, member, clocks))| Recording {
                name,
                lost,
                participants,
                tracks,
                phases,
                refused,
                member,
                clocks,
            },
        )
    }

    proptest! {
        #[test]
        fn decode_reads_what_encode_wrote(recording in recordings()) {
            prop_assert_eq!(decode(&encode(&recording)), Ok(recording));
        }

        #[test]
        fn shorter_and_longer_files_are_errors(recording in recordings(), cut in any::<u16>()) {
            let mut file = encode(&recording);
            let cut = usize::from(cut) % file.len();
            prop_assert!(decode(&file[..cut]).is_err());
            let end = file.len();
            file.push(0);
            prop_assert_eq!(decode(&file), Err(DecodeError::Trailing(end)));
        }
    }

    #[test]
    fn layout() {
        let recording = Recording {
            name: "c".into(),
            lost: 300,
            participants: vec![Participant {
                role: Role::Consumer,
                id: 7,
                name: "é".into(),
                deadline: Some(300),
            }],
            tracks: vec![Track {
                thread: "t".into(),
                overwritten: 1,
                records: vec![Record { at: 100, kind: RecordKind::End, level: 3, id: 7, a: 5, b: 0 }],
            }],
            phases: vec![Phase { from: 1, to: 130, caption: "quiet".into() }],
            refused: vec![Refusal { name: "v".into(), why: "late".into() }],
            ..Recording::default()
        };
        let expected = [
            &b"isorbtrc\x03\x01c\xAC\x02"[..],
            b"\x01\x01\x07\x02\xC3\xA9\xAD\x02",
            b"\x01\x01t\x01\x01\x04\x03\xC8\x01\x07\x05\x00",
            b"\x01\x01\x82\x01\x05quiet",
            b"\x01\x01v\x04late",
        ];
        assert_eq!(encode(&recording), expected.concat());
        let clocks = vec![NeighbourClock { member: 2, at: 1, offset: -3, bound: 300 }];
        let federated = Recording { member: 9, clocks, ..recording.clone() };
        let mut with = expected.concat();
        with[8] = 4;
        with.extend(b"\x09\x01\x02\x01\x05\xAC\x02");
        assert_eq!(encode(&federated), with);
        // The same of the version before.
        let before = [
            &b"isorbtrc\x02\x01c\xAC\x02"[..],
            b"\x01\x01\x07\x02\xC3\xA9",
            b"\x01\x01t\x01\x01\x04\x03\xC8\x01\x07\x05\x00",
        ];
        let mut older = recording;
        older.participants[0].deadline = None;
        (older.phases, older.refused) = (Vec::new(), Vec::new());
        assert_eq!(decode(&before.concat()), Ok(older));
    }

    #[test]
    fn other_files_and_versions_are_errors() {
        assert_eq!(decode(b"GIOP\x01\x02\x00\x00\x00"), Err(DecodeError::NotATrace));
        assert_eq!(decode(b"isorbtrc\x05"), Err(DecodeError::Version(5)));
        assert_eq!(decode(b"isorbtrc\x01"), Err(DecodeError::Version(1)));
        assert_eq!(decode(b"isorbtrc"), Err(DecodeError::Truncated));
        // A count of 2^63 participants in a file of twenty octets.
        let huge = b"isorbtrc\x02\x00\x00\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x7F";
        assert_eq!(decode(huge), Err(DecodeError::Truncated));
    }
}
