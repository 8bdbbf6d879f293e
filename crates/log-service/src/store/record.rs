//! A record in its stored form.

/// Since 1970-01-01 00:00 UTC. The standard's form has 32 bits of seconds, which end in 2038.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time {
    /// Seconds; negative before 1970.
    pub seconds: i64,
    /// Below 1,000,000,000.
    pub nanoseconds: u32,
}

/// What a producer writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The producer's identification.
    pub producer_id: &'a str,
    /// The producer's name, for people.
    pub producer_name: &'a str,
    /// What the record is about.
    pub level: u16,
    /// The text.
    pub data: &'a str,
}

impl<'a> Entry<'a> {
    /// Octets of its texts.
    #[must_use]
    pub fn text(&self) -> usize {
        self.producer_id.len() + self.producer_name.len() + self.data.len()
    }

    /// The stored form of a record: the time, the level, the lengths of the first two texts, the
    /// texts.
    #[must_use]
    pub fn to_octets(&self, time: Time) -> Vec<u8> {
        let mut octets = Vec::with_capacity(HEAD + self.text());
        octets.extend(time.seconds.to_le_bytes());
        octets.extend(time.nanoseconds.to_le_bytes());
        octets.extend(self.level.to_le_bytes());
        // The service's limit on a record is far below 4 GiB.
        octets.extend((self.producer_id.len() as u32).to_le_bytes());
        octets.extend((self.producer_name.len() as u32).to_le_bytes());
        octets.extend(self.producer_id.as_bytes());
        octets.extend(self.producer_name.as_bytes());
        octets.extend(self.data.as_bytes());
        octets
    }

    /// The record of octets that [`to_octets`](Self::to_octets) made; `None` for others.
    #[must_use]
    pub fn from_octets(octets: &'a [u8]) -> Option<(Time, Entry<'a>)> {
        let (seconds, rest) = octets.split_first_chunk()?;
        let (nanoseconds, rest) = rest.split_first_chunk()?;
        let (level, rest) = rest.split_first_chunk()?;
        let (id, rest) = rest.split_first_chunk()?;
        let (name, rest) = rest.split_first_chunk()?;
        let (id, rest) = rest.split_at_checked(u32::from_le_bytes(*id) as usize)?;
        let (name, data) = rest.split_at_checked(u32::from_le_bytes(*name) as usize)?;
        let time =
            Time { seconds: i64::from_le_bytes(*seconds), nanoseconds: u32::from_le_bytes(*nanoseconds) };
        if time.nanoseconds >= 1_000_000_000 {
            return None;
        }
        let text = |octets| std::str::from_utf8(octets).ok();
        let entry = Entry {
            producer_id: text(id)?,
            producer_name: text(name)?,
            level: u16::from_le_bytes(*level),
            data: text(data)?,
        };
        Some((time, entry))
    }
}

/// Octets before the texts.
const HEAD: usize = 22;

/// Octets that a stored value counts for in the size of the log: itself and its number.
pub(super) fn size_of(octets: &[u8]) -> u64 {
    octets.len() as u64 + 8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn octets_give_the_record_back_and_damaged_ones_give_none() {
        let time = Time { seconds: -3, nanoseconds: 999_999_999 };
        let entry = Entry { producer_id: "ü1", producer_name: "", level: 65_535, data: "text" };
        let octets = entry.to_octets(time);
        assert_eq!(octets.len(), HEAD + entry.text());
        assert_eq!(Entry::from_octets(&octets), Some((time, entry)));
        for length in 0..octets.len() - entry.data.len() {
            assert_eq!(Entry::from_octets(&octets[..length]), None, "{length} octets");
        }
        let mut late = octets.clone();
        late[8..12].copy_from_slice(&1_000_000_000u32.to_le_bytes());
        assert_eq!(Entry::from_octets(&late), None, "a second has fewer nanoseconds");
        let mut torn = octets;
        torn[HEAD] = 0xff;
        assert_eq!(Entry::from_octets(&torn), None, "no UTF-8");
    }
}
