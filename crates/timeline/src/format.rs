//! The trace file.
//!
//! ```text
//! "isorbtrc" version:u8 name:text lost:n
//! parties:n  { role:u8 id:n name:text }
//! tracks:n   { thread:text overwritten:n records:n { what:u8 level:u8 at:z who:n a:n b:n } }
//! ```
//!
//! `n` is a number of seven bits an octet, the lowest first, the highest bit set where another octet follows. `at` is the difference from
//! the record before, as `n` with the sign in the lowest bit. A text is its length in octets and UTF-8. A record takes about 12 octets.

use crate::recording::{Party, Recording, Role};
use isorb_event::trace::{Record, Track, What};
use std::fmt;

const MAGIC: &[u8; 8] = b"isorbtrc";

/// The version that [`encode`] writes and [`decode`] reads.
pub const VERSION: u8 = 2;

/// Octets are not a trace file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unreadable {
    /// It begins like something else.
    NotATrace,
    /// It was written by another version.
    Version(u8),
    /// It ends in the midst of something.
    Truncated,
    /// What stands at this octet cannot be.
    Malformed(usize),
    /// Something follows its end, at this octet.
    Trailing(usize),
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unreadable::NotATrace => f.write_str("this is not a trace file"),
            Unreadable::Version(version) => {
                write!(f, "the trace file has version {version}; version {VERSION} is known")
            }
            Unreadable::Truncated => f.write_str("the trace file is cut off"),
            Unreadable::Malformed(at) => write!(f, "the trace file is damaged at octet {at}"),
            Unreadable::Trailing(at) => write!(f, "the trace file goes on after its end, at octet {at}"),
        }
    }
}

impl std::error::Error for Unreadable {}

/// The file of a recording.
pub fn encode(recording: &Recording) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.push(VERSION);
    text(&mut out, &recording.name);
    number(&mut out, recording.lost);
    number(&mut out, recording.parties.len() as u64);
    for party in &recording.parties {
        out.push(party.role as u8);
        number(&mut out, party.id.into());
        text(&mut out, &party.name);
    }
    number(&mut out, recording.tracks.len() as u64);
    for track in &recording.tracks {
        text(&mut out, &track.thread);
        number(&mut out, track.overwritten);
        number(&mut out, track.records.len() as u64);
        let mut before = 0_u64;
        for r in &track.records {
            out.extend([r.what as u8, r.level]);
            let step = r.at.wrapping_sub(before) as i64;
            number(&mut out, (step << 1 ^ step >> 63) as u64);
            before = r.at;
            number(&mut out, r.who.into());
            number(&mut out, r.a);
            number(&mut out, r.b);
        }
    }
    out
}

/// The recording of a file.
///
/// # Errors
/// [`Unreadable`]. Whatever the octets are, memory in proportion to them is taken and no more.
pub fn decode(file: &[u8]) -> Result<Recording, Unreadable> {
    let mut r = Reader { octets: file, at: 0 };
    if r.take(MAGIC.len()).ok() != Some(MAGIC) {
        return Err(Unreadable::NotATrace);
    }
    match r.octet()? {
        VERSION => {}
        version => return Err(Unreadable::Version(version)),
    }
    let name = r.text()?;
    let lost = r.number()?;
    let parties = r.list(3, Reader::party)?;
    let tracks = r.list(3, Reader::track)?;
    if r.at != file.len() {
        return Err(Unreadable::Trailing(r.at));
    }
    Ok(Recording { name, lost, parties, tracks })
}

fn number(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
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
    /// Blames what was read last.
    fn malformed(&self) -> Unreadable {
        Unreadable::Malformed(self.at.saturating_sub(1))
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Unreadable> {
        let end = self.at.checked_add(length).ok_or(Unreadable::Truncated)?;
        let taken = self.octets.get(self.at..end).ok_or(Unreadable::Truncated)?;
        self.at = end;
        Ok(taken)
    }

    fn octet(&mut self) -> Result<u8, Unreadable> {
        let octet = *self.octets.get(self.at).ok_or(Unreadable::Truncated)?;
        self.at += 1;
        Ok(octet)
    }

    fn number(&mut self) -> Result<u64, Unreadable> {
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

    fn text(&mut self) -> Result<String, Unreadable> {
        let length = usize::try_from(self.number()?).map_err(|_| Unreadable::Truncated)?;
        let octets = self.take(length)?;
        String::from_utf8(octets.to_vec()).map_err(|_| self.malformed())
    }

    /// A counted list of what takes `least` octets or more each: a count that the file cannot hold is refused before memory is taken for it.
    fn list<T>(
        &mut self,
        least: usize,
        mut one: impl FnMut(&mut Self) -> Result<T, Unreadable>,
    ) -> Result<Vec<T>, Unreadable> {
        let count = usize::try_from(self.number()?).map_err(|_| Unreadable::Truncated)?;
        if count > (self.octets.len() - self.at) / least {
            return Err(Unreadable::Truncated);
        }
        (0..count).map(|_| one(self)).collect()
    }

    fn id(&mut self) -> Result<u32, Unreadable> {
        u32::try_from(self.number()?).map_err(|_| self.malformed())
    }

    fn party(&mut self) -> Result<Party, Unreadable> {
        let role = match self.octet()? {
            0 => Role::Supplier,
            1 => Role::Consumer,
            _ => return Err(self.malformed()),
        };
        Ok(Party { role, id: self.id()?, name: self.text()? })
    }

    fn track(&mut self) -> Result<Track, Unreadable> {
        let thread = self.text()?;
        let overwritten = self.number()?;
        let mut before = 0_u64;
        let records = self.list(6, |r| {
            let what = What::from_code(r.octet()?).ok_or_else(|| r.malformed())?;
            let level = r.octet()?;
            let step = r.number()?;
            before = before.wrapping_add(step >> 1 ^ (step & 1).wrapping_neg());
            Ok(Record { at: before, what, level, who: r.id()?, a: r.number()?, b: r.number()? })
        })?;
        Ok(Track { thread, overwritten, records })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn records() -> impl Strategy<Value = Vec<Record>> {
        let record = (any::<u64>(), 1..=10_u8, any::<u8>(), any::<u32>(), any::<u64>(), any::<u64>())
            .prop_map(|(at, what, level, who, a, b)| Record {
                at,
                what: What::from_code(what).expect("there are ten"),
                level,
                who,
                a,
                b,
            });
        proptest::collection::vec(record, 0..20)
    }

    fn text_of() -> impl Strategy<Value = String> {
        proptest::collection::vec(any::<char>(), 0..12).prop_map(String::from_iter)
    }

    fn recordings() -> impl Strategy<Value = Recording> {
        let party = (0..2u8, any::<u32>(), text_of()).prop_map(|(role, id, name)| Party {
            role: if role == 0 { Role::Supplier } else { Role::Consumer },
            id,
            name,
        });
        let track = (text_of(), any::<u64>(), records()).prop_map(|(thread, overwritten, records)| Track {
            thread,
            overwritten,
            records,
        });
        use proptest::collection::vec;
        (text_of(), any::<u64>(), vec(party, 0..5), vec(track, 0..4))
            .prop_map(|(name, lost, parties, tracks)| Recording { name, lost, parties, tracks })
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(recording in recordings()) {
            prop_assert_eq!(decode(&encode(&recording)), Ok(recording));
        }

        #[test]
        fn every_shorter_file_is_refused_and_every_longer_one(recording in recordings(), cut in any::<u16>()) {
            let mut file = encode(&recording);
            let cut = usize::from(cut) % file.len();
            prop_assert!(decode(&file[..cut]).is_err());
            let end = file.len();
            file.push(0);
            prop_assert_eq!(decode(&file), Err(Unreadable::Trailing(end)));
        }

        #[test]
        fn any_octets_are_read_or_refused(head in any::<bool>(), octets in proptest::collection::vec(any::<u8>(), 0..400)) {
            let mut file = if head { [&MAGIC[..], &[VERSION]].concat() } else { Vec::new() };
            file.extend(octets);
            if let Ok(recording) = decode(&file) {
                // And can be drawn.
                let timeline = crate::Timeline::of("any", &[recording]);
                prop_assert!(timeline.page().contains("</html>") && serde_json::from_str::<serde_json::Value>(&timeline.perfetto()).is_ok());
            }
        }

        #[test]
        fn any_damage_is_read_or_refused_and_drawn(recording in recordings(), place in any::<u16>(), value in any::<u8>()) {
            let mut file = encode(&recording);
            let place = usize::from(place) % file.len();
            file[place] = value;
            if let Ok(recording) = decode(&file) {
                let timeline = crate::Timeline::of("any", &[recording]);
                prop_assert!(timeline.page().contains("</html>"));
                prop_assert!(serde_json::from_str::<serde_json::Value>(&timeline.perfetto()).is_ok());
            }
        }
    }

    #[test]
    fn the_layout_is_this() {
        let recording = Recording {
            name: "c".into(),
            lost: 300,
            parties: vec![Party { role: Role::Consumer, id: 7, name: "é".into() }],
            tracks: vec![Track {
                thread: "t".into(),
                overwritten: 1,
                records: vec![Record { at: 100, what: What::End, level: 3, who: 7, a: 5, b: 0 }],
            }],
        };
        let expected = [
            &b"isorbtrc\x02\x01c\xAC\x02"[..],
            b"\x01\x01\x07\x02\xC3\xA9",
            b"\x01\x01t\x01\x01\x04\x03\xC8\x01\x07\x05\x00",
        ];
        assert_eq!(encode(&recording), expected.concat());
    }

    #[test]
    fn others_are_refused_by_name() {
        assert_eq!(decode(b"GIOP\x01\x02\x00\x00\x00"), Err(Unreadable::NotATrace));
        assert_eq!(decode(b"isorbtrc\x03"), Err(Unreadable::Version(3)));
        assert_eq!(decode(b"isorbtrc\x01"), Err(Unreadable::Version(1)));
        assert_eq!(decode(b"isorbtrc"), Err(Unreadable::Truncated));
        // A count of 2^63 parties in a file of twenty octets.
        let huge = b"isorbtrc\x02\x00\x00\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x7F";
        assert_eq!(decode(huge), Err(Unreadable::Truncated));
    }
}
