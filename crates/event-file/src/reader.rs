//! Reads a recording, over damage.

use crate::format::{HEADER, MAGIC, MARKER, MAX_BODY, PREFIX, Record, VERSION, parse};
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::path::Path;

/// Octets that are read at a time.
const CHUNK: usize = 1 << 18;

/// Why a file is no recording.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// The file does not begin as a recording does.
    NotARecording,
    /// The file has another version.
    Version(u32),
    /// The header of the file is damaged, or cut off.
    Header,
    /// The file cannot be read.
    Io(io::Error),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::NotARecording => f.write_str("this is no recording of events"),
            OpenError::Version(version) => {
                write!(f, "the recording has version {version}; this program reads version {VERSION}")
            }
            OpenError::Header => f.write_str("the header of the recording is damaged or cut off"),
            OpenError::Io(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for OpenError {}

impl From<io::Error> for OpenError {
    fn from(error: io::Error) -> OpenError {
        OpenError::Io(error)
    }
}

/// What a reader had to skip.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Damage {
    /// Octets that belong to no whole record.
    pub octets: u64,
    /// How many pieces of such octets there are.
    pub pieces: u64,
    /// Where the first piece begins in the file.
    pub first: u64,
    /// The file ends within a record.
    pub is_cut_off: bool,
}

impl Damage {
    /// Returns true if every octet was read.
    pub fn is_none(&self) -> bool {
        self.octets == 0
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Damage { octets, pieces, first, is_cut_off } = self;
        match (octets, is_cut_off) {
            (0, _) => f.write_str("the recording is whole"),
            (_, true) if *pieces == 1 => write!(
                f,
                "the recording is cut off: its last {octets} octets, from octet {first} on, are no whole event"
            ),
            _ => write!(
                f,
                "the recording is damaged in {pieces} places, the first at octet {first}: {octets} octets are skipped"
            ),
        }
    }
}

/// Reads the records of a recording, one after the other. It skips what is damaged: behind it, it
/// looks for the begin of the next record with a right checksum.
pub struct Reader<R = File> {
    input: R,
    started_ns: u64,
    buffer: Vec<u8>,
    /// Where the next record begins in `buffer`.
    at: usize,
    /// The place of `buffer` in the file.
    position: u64,
    ended: bool,
    in_damage: bool,
    damage: Damage,
}

impl Reader {
    /// Opens a file.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(path: impl AsRef<Path>) -> Result<Reader, OpenError> {
        Reader::new(File::open(path)?)
    }
}

impl<R: Read> Reader<R> {
    /// Reads a recording from its begin.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn new(input: R) -> Result<Reader<R>, OpenError> {
        let mut reader = Reader {
            input,
            started_ns: 0,
            buffer: Vec::new(),
            at: 0,
            position: 0,
            ended: false,
            in_damage: false,
            damage: Damage::default(),
        };
        let is_whole = reader.fill(HEADER)?;
        if !reader.buffer.starts_with(MAGIC) {
            return Err(OpenError::NotARecording);
        }
        if !is_whole {
            return Err(OpenError::Header);
        }
        let word = |at: usize| reader.buffer[at..at + 4].try_into().map_or(0, u32::from_le_bytes);
        if word(8) != VERSION {
            return Err(OpenError::Version(word(8)));
        }
        if crc32fast::hash(&reader.buffer[..20]) != word(20) {
            return Err(OpenError::Header);
        }
        reader.started_ns = u64::from(word(16)) << 32 | u64::from(word(12));
        reader.at = HEADER;
        Ok(reader)
    }

    /// When the recording started, in nanoseconds since 1970.
    pub fn started_ns(&self) -> u64 {
        self.started_ns
    }

    /// What was skipped so far.
    pub fn damage(&self) -> Damage {
        self.damage
    }

    /// The next whole record; `None` at the end.
    ///
    /// # Errors
    /// The input cannot be read. Damage is no error.
    #[allow(clippy::should_implement_trait, reason = "the record borrows from the reader")]
    pub fn next(&mut self) -> io::Result<Option<Record<'_>>> {
        let Some(body) = self.next_body()? else { return Ok(None) };
        Ok(parse(&self.buffer[body]))
    }

    /// The place in the buffer of the next body that [`parse`] knows.
    fn next_body(&mut self) -> io::Result<Option<Range<usize>>> {
        loop {
            if !self.fill(1)? {
                return Ok(None);
            }
            if let Some(body) = self.whole_record()? {
                self.at = body.end;
                // A record of a later version, with a kind that is not known here, is skipped.
                if parse(&self.buffer[body.clone()]).is_some() {
                    self.in_damage = false;
                    return Ok(Some(body));
                }
                continue;
            }
            self.skip_to_marker();
        }
    }

    /// The body of the record that begins here, if it is whole.
    fn whole_record(&mut self) -> io::Result<Option<Range<usize>>> {
        if !self.fill(PREFIX)? || !self.buffer[self.at..].starts_with(MARKER) {
            return Ok(None);
        }
        let word = |buffer: &[u8], at: usize| buffer[at..at + 4].try_into().map_or(0, u32::from_le_bytes);
        let length = word(&self.buffer, self.at + 4) as usize;
        let crc = word(&self.buffer, self.at + 8);
        // No more is allocated than the file has.
        if length > MAX_BODY || !self.fill(PREFIX + length)? {
            return Ok(None);
        }
        let body = self.at + PREFIX..self.at + PREFIX + length;
        Ok((crc32fast::hash(&self.buffer[body.clone()]) == crc).then_some(body))
    }

    /// Skips at least one octet, up to the next marker or the end of the buffer.
    fn skip_to_marker(&mut self) {
        let rest = &self.buffer[self.at..];
        let next = (1..rest.len()).find(|at| {
            let candidate = &rest[*at..];
            candidate.starts_with(MARKER) || MARKER.starts_with(candidate)
        });
        let skipped = next.unwrap_or(rest.len());
        if !self.in_damage {
            self.in_damage = true;
            self.damage.pieces += 1;
            if self.damage.pieces == 1 {
                self.damage.first = self.position + self.at as u64;
            }
        }
        self.damage.octets += skipped as u64;
        self.at += skipped;
        self.damage.is_cut_off |= self.ended && self.at == self.buffer.len();
    }

    /// Reads until `wanted` octets from `at` on are in the buffer. Returns false if the input has
    /// not as many.
    fn fill(&mut self, wanted: usize) -> io::Result<bool> {
        while self.buffer.len() - self.at < wanted {
            if self.ended {
                return Ok(false);
            }
            if self.at > CHUNK {
                self.buffer.drain(..self.at);
                self.position += self.at as u64;
                self.at = 0;
            }
            let read = self.input.by_ref().take(CHUNK as u64).read_to_end(&mut self.buffer)?;
            self.ended = read == 0;
        }
        Ok(true)
    }
}

impl<R> fmt::Debug for Reader<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("damage", &self.damage).finish_non_exhaustive()
    }
}
