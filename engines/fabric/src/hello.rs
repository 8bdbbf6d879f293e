//! What the two sides tell each other while they connect.

use std::io;

const MAGIC: [u8; 8] = *b"isorbfab";
const VERSION: u32 = 1;
const LENGTH: usize = 32;

/// A receive segment, as the peer needs it to write there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hello {
    pub capacity: u32,
    pub key: u64,
    pub address: u64,
}

impl Hello {
    /// As octets, in network order.
    pub fn encode(self) -> [u8; LENGTH] {
        let mut text = [0; LENGTH];
        text[..8].copy_from_slice(&MAGIC);
        text[8..12].copy_from_slice(&VERSION.to_be_bytes());
        text[12..16].copy_from_slice(&self.capacity.to_be_bytes());
        text[16..24].copy_from_slice(&self.key.to_be_bytes());
        text[24..].copy_from_slice(&self.address.to_be_bytes());
        text
    }

    /// Reads a hello; its segment may have at most `most` octets, since this side keeps as many to
    /// send from. Devices may append zeros.
    ///
    /// # Errors
    /// `InvalidData`, with a sentence.
    pub fn decode(message: &[u8], most: usize) -> io::Result<Hello> {
        let wrong = |what: &str| Err(io::Error::new(io::ErrorKind::InvalidData, what));
        let Some((text, rest)) = message.split_first_chunk::<LENGTH>() else {
            return wrong("the peer's hello is too short for the fabric protocol");
        };
        if text[..8] != MAGIC || rest.iter().any(|octet| *octet != 0) {
            return wrong("the peer does not use the fabric protocol");
        }
        let number = |at: usize| u64::from_be_bytes(std::array::from_fn(|i| text[at + i]));
        let (version, capacity) = ((number(8) >> 32) as u32, number(8) as u32);
        if version != VERSION {
            return wrong("the peer uses another version of the fabric protocol");
        }
        if !capacity.is_power_of_two() || !(4096..=most).contains(&(capacity as usize)) {
            return wrong("the peer's segment is larger than this side accepts, or no segment");
        }
        Ok(Hello { capacity, key: number(16), address: number(24) })
    }
}

/// What one side tells the other from time to time, after the octets that it wrote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct News {
    /// How many octets it has written, modulo 2^32.
    pub head: u32,
    /// How many octets it has taken, modulo 2^32.
    pub credit: u32,
    /// Whether it writes more.
    pub end: End,
}

/// Whether a side writes more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum End {
    #[default]
    Open = 0,
    /// It writes no more.
    Closed = 1,
    /// Nor does the peer, and everything that the peer wrote has arrived.
    Acknowledged = 2,
}

impl News {
    pub const LENGTH: usize = 12;

    pub fn encode(self) -> [u8; News::LENGTH] {
        let mut text = [0; News::LENGTH];
        text[..4].copy_from_slice(&self.head.to_be_bytes());
        text[4..8].copy_from_slice(&self.credit.to_be_bytes());
        text[8..].copy_from_slice(&(self.end as u32).to_be_bytes());
        text
    }

    /// `None` for what is no news. Its numbers are checked where they are used.
    pub fn decode(text: &[u8]) -> Option<News> {
        let text: &[u8; News::LENGTH] = text.try_into().ok()?;
        let number = |at: usize| u32::from_be_bytes(std::array::from_fn(|i| text[at + i]));
        let end = match number(8) {
            0 => End::Open,
            1 => End::Closed,
            2 => End::Acknowledged,
            _ => return None,
        };
        Some(News { head: number(0), credit: number(4), end })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hello_survives_its_encoding_and_nothing_else_does() {
        let hello = Hello { capacity: 8192, key: u64::MAX - 3, address: 0x7fff_0000_1234 };
        let message = hello.encode();
        assert_eq!(Hello::decode(&message, 8192).unwrap(), hello);
        assert_eq!(Hello::decode(&[&message[..], &[0; 24]].concat(), 8192).unwrap(), hello);
        for cut in 0..message.len() {
            assert!(Hello::decode(&message[..cut], 8192).is_err(), "{cut}");
        }
        assert!(Hello::decode(&[&message[..], b"x"].concat(), 8192).is_err());
        assert!(Hello::decode(&message, 4096).is_err(), "too large");
        for at in 0..12 {
            let mut other = message;
            other[at] ^= 1;
            assert!(Hello::decode(&other, 8192).is_err(), "octet {at}");
        }
        for capacity in [0, 1, 2048, 5000, u32::MAX] {
            assert!(Hello::decode(&Hello { capacity, ..hello }.encode(), 1 << 30).is_err(), "{capacity}");
        }
    }

    #[test]
    fn news_has_one_length_and_three_ends() {
        let news = News { head: 1, credit: u32::MAX, end: End::Acknowledged };
        let text = news.encode();
        assert_eq!(News::decode(&text), Some(news));
        assert_eq!(News::decode(&text[..11]), None);
        assert_eq!(News::decode(&[&text[..], &[0]].concat()), None);
        for end in [3, 255] {
            let mut other = text;
            other[11] = end;
            assert_eq!(News::decode(&other), None);
        }
    }
}
