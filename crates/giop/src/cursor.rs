//! Reads small pieces of borrowed CDR: service contexts, profiles, components.

use isorb_cdr::{Error, ErrorKind, Order, Result};

/// A position in borrowed CDR. Unlike a [`Decoder`](isorb_cdr::Decoder) it needs no scope and
/// changes no octet; so it reads only integers and octets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Offset of the first byte from the origin of alignment.
    base: usize,
    order: Order,
}

impl<'a> Cursor<'a> {
    /// At `base` bytes from the origin of alignment.
    pub fn at_offset(bytes: &'a [u8], base: usize, order: Order) -> Cursor<'a> {
        Cursor { bytes, at: 0, base, order }
    }

    /// In an encapsulation, after its byte-order octet.
    pub fn encapsulation(bytes: &'a [u8]) -> Result<Cursor<'a>> {
        let Some(flag) = bytes.first() else { return Err(Error::new(ErrorKind::Length, 0)) };
        Ok(Cursor { bytes, at: 1, base: 0, order: Order::from_flag(*flag) })
    }

    /// Bytes read.
    pub fn position(&self) -> usize {
        self.at
    }

    /// Bytes left.
    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    #[cold]
    pub fn error(&self, kind: ErrorKind) -> Error {
        Error::new(kind, self.at)
    }

    #[inline]
    pub fn take(&mut self, n: usize) -> Result<&'a [u8]> {
        match self.bytes[self.at..].get(..n) {
            Some(taken) => {
                self.at += n;
                Ok(taken)
            }
            None => Err(self.error(ErrorKind::Truncated)),
        }
    }

    #[inline]
    fn fixed<const N: usize>(&mut self) -> Result<[u8; N]> {
        let gap = (self.base + self.at).wrapping_neg() & (N - 1);
        match self.bytes[self.at..].get(gap..).and_then(<[u8]>::first_chunk::<N>) {
            Some(taken) => {
                self.at += gap + N;
                Ok(*taken)
            }
            None => Err(self.error(ErrorKind::Truncated)),
        }
    }

    pub fn u8(&mut self) -> Result<u8> {
        let [octet] = self.fixed()?;
        Ok(octet)
    }

    #[inline]
    pub fn u16(&mut self) -> Result<u16> {
        let bytes = self.fixed()?;
        Ok(if self.order == Order::Little { u16::from_le_bytes(bytes) } else { u16::from_be_bytes(bytes) })
    }

    #[inline]
    pub fn u32(&mut self) -> Result<u32> {
        let bytes = self.fixed()?;
        Ok(if self.order == Order::Little { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) })
    }

    pub fn u64(&mut self) -> Result<u64> {
        let bytes = self.fixed()?;
        Ok(if self.order == Order::Little { u64::from_le_bytes(bytes) } else { u64::from_be_bytes(bytes) })
    }

    /// A count of elements of at least `min_wire` octets.
    #[inline]
    pub fn count(&mut self, min_wire: usize) -> Result<usize> {
        let n = self.u32()? as usize;
        if n > self.remaining() / min_wire.max(1) {
            return Err(self.error(ErrorKind::Length));
        }
        Ok(n)
    }

    /// A sequence of octets.
    #[inline]
    pub fn octets(&mut self) -> Result<&'a [u8]> {
        let n = self.count(1)?;
        self.take(n)
    }

    /// A string of ASCII or UTF-8: names, hosts, repository ids.
    pub fn str(&mut self) -> Result<&'a str> {
        let octets = self.octets()?;
        terminated(octets).map_err(|kind| self.error(kind))
    }
}

/// The text in the octets of a CDR string.
#[inline]
pub(crate) fn terminated(octets: &[u8]) -> Result<&str, ErrorKind> {
    core::str::from_utf8(unterminated(octets)?).map_err(|_| ErrorKind::Text)
}

/// The octets of a CDR string without their terminator, which is the only zero.
#[inline]
pub(crate) fn unterminated(octets: &[u8]) -> Result<&[u8], ErrorKind> {
    // Some peers send an empty string without its terminator.
    let Some((last, text)) = octets.split_last() else { return Ok(&[]) };
    if *last != 0 || crate::octets::has_zero(text) {
        return Err(ErrorKind::Terminator);
    }
    Ok(text)
}
