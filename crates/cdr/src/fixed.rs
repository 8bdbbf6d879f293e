//! `fixed` and `long double`.

use crate::{Arg, Decode, Decoder, Encode, Encoder, ErrorKind, Idl, Item, Result, by_value};
use core::fmt;
use core::str::FromStr;
use isorb_scope::{Full, Scope};

/// IDL `fixed<DIGITS, SCALE>`: a decimal of at most 31 significant digits, `SCALE` of them after
/// the point.
// Packed, since a scope aligns to 8 octets and an i128 to 16.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(Rust, packed(8))]
pub struct Fixed<const DIGITS: u16, const SCALE: i16>(i128);

impl<const DIGITS: u16, const SCALE: i16> Fixed<DIGITS, SCALE> {
    const LIMIT: i128 = 10i128.pow(DIGITS as u32);

    /// From the number without its point: `Fixed::<5, 2>::from_unscaled(12345)` is 123.45. `None`
    /// for too many digits.
    pub const fn from_unscaled(unscaled: i128) -> Option<Self> {
        if unscaled > -Self::LIMIT && unscaled < Self::LIMIT { Some(Fixed(unscaled)) } else { None }
    }

    /// The number without its point.
    pub const fn unscaled(self) -> i128 {
        self.0
    }
}

impl<const DIGITS: u16, const SCALE: i16> fmt::Display for Fixed<DIGITS, SCALE> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let digits = self.0.unsigned_abs();
        match u32::try_from(SCALE) {
            Ok(0) | Err(_) => write!(f, "{sign}{}", digits * 10u128.pow(SCALE.min(0).unsigned_abs().into())),
            Ok(scale) => {
                let one = 10u128.pow(scale);
                write!(f, "{sign}{}.{:0width$}", digits / one, digits % one, width = scale as usize)
            }
        }
    }
}

impl<const DIGITS: u16, const SCALE: i16> FromStr for Fixed<DIGITS, SCALE> {
    type Err = ErrorKind;

    /// Reads `[-]digits[.digits][d]`; digits tail the scale must be zero.
    fn from_str(s: &str) -> Result<Self, ErrorKind> {
        let s = s.strip_suffix(['d', 'D']).unwrap_or(s);
        let (negative, s) = s.strip_prefix('-').map_or((false, s), |rest| (true, rest));
        let (whole, part) = s.split_once('.').unwrap_or((s, ""));
        if whole.is_empty() && part.is_empty()
            || !whole.bytes().chain(part.bytes()).all(|b| b.is_ascii_digit())
        {
            return Err(ErrorKind::Value);
        }
        let mut unscaled = 0i128;
        let scale = usize::try_from(SCALE).unwrap_or(0);
        let digits = whole.bytes().chain((0..scale).map(|i| part.as_bytes().get(i).copied().unwrap_or(b'0')));
        for digit in digits {
            let digit = i128::from(digit - b'0');
            unscaled = unscaled.checked_mul(10).and_then(|n| n.checked_add(digit)).ok_or(ErrorKind::Bound)?;
        }
        if part.bytes().skip(scale).any(|digit| digit != b'0') {
            return Err(ErrorKind::Bound);
        }
        Self::from_unscaled(if negative { -unscaled } else { unscaled }).ok_or(ErrorKind::Bound)
    }
}

/// Two digits an octet, most significant first, the last half octet the sign; one leading zero when
/// the number of digits is even (clause 9.3.2.8).
impl<'v, const DIGITS: u16, const SCALE: i16> Encode<'v> for Fixed<DIGITS, SCALE> {
    fn encode(self, e: &mut Encoder<'v>) {
        let octets = DIGITS as usize / 2 + 1;
        let mut out = [0u8; 16];
        let mut rest = self.0.unsigned_abs();
        let mut nibble = |low: bool| {
            if low {
                return 0;
            }
            let digit = (rest % 10) as u8;
            rest /= 10;
            digit
        };
        let sign = if self.0 < 0 { 0x0d } else { 0x0c };
        for (i, octet) in out[..octets].iter_mut().rev().enumerate() {
            let low = if i == 0 { sign } else { nibble(false) };
            *octet = nibble(false) << 4 | low;
        }
        e.raw(&out[..octets]);
    }
}

impl<'m, const DIGITS: u16, const SCALE: i16> Decode<'m> for Fixed<DIGITS, SCALE> {
    const MIN_WIRE: usize = DIGITS as usize / 2 + 1;
    fn decode(d: &mut Decoder<'m>) -> Result<Self> {
        let octets: &[u8] = d.take(Self::MIN_WIRE)?;
        let mut unscaled = 0i128;
        let last = octets.len() - 1;
        for (i, octet) in octets.iter().enumerate() {
            for digit in [octet >> 4, octet & 15].into_iter().take(if i == last { 1 } else { 2 }) {
                if digit > 9 {
                    return Err(d.error(ErrorKind::Value));
                }
                unscaled = unscaled * 10 + i128::from(digit);
            }
        }
        match octets[last] & 15 {
            0x0c => {}
            0x0d => unscaled = -unscaled,
            _ => return Err(d.error(ErrorKind::Value)),
        }
        Self::from_unscaled(unscaled).ok_or(d.error(ErrorKind::Bound))
    }
}

impl<'v, const DIGITS: u16, const SCALE: i16> Item<'v> for Fixed<DIGITS, SCALE> {}
impl<'v, const DIGITS: u16, const SCALE: i16> Arg<'v, Fixed<DIGITS, SCALE>> for Fixed<DIGITS, SCALE> {}
impl<const DIGITS: u16, const SCALE: i16> Idl for Fixed<DIGITS, SCALE> {
    type View<'a> = Self;
    fn from_view(view: Self) -> Self {
        view
    }
    fn view_in<'a>(&'a self, _: &'a Scope<'a>) -> Result<Self, Full> {
        Ok(*self)
    }
    fn views_in<'a>(items: &'a [Self], _: &'a Scope<'a>) -> Result<&'a [Self], Full> {
        Ok(items)
    }
}

/// IDL `long double`: IEEE 754 quadruple precision, as its 128 bits. Rust has no stable arithmetic
/// on it; conversion from `f64` is exact, conversion to `f64` rounds towards zero.
// Packed, since a scope aligns to 8 octets and a u128 to 16.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[repr(Rust, packed(8))]
pub struct LongDouble(pub u128);

impl From<f64> for LongDouble {
    fn from(value: f64) -> LongDouble {
        let bits = value.to_bits();
        let sign = u128::from(bits >> 63) << 127;
        let exponent = (bits >> 52) & 0x7ff;
        let fraction = bits & ((1 << 52) - 1);
        let (exponent, fraction) = match exponent {
            0 if fraction == 0 => (0, 0),
            0 => {
                // A subnormal double is a normal quadruple.
                let shift = fraction.leading_zeros() - 11;
                let normal = (fraction << shift) & ((1 << 52) - 1);
                (16383 - 1022 - u128::from(shift), normal)
            }
            0x7ff => (0x7fff, fraction),
            e => (u128::from(e) + 16383 - 1023, fraction),
        };
        LongDouble(sign | exponent << 112 | u128::from(fraction) << 60)
    }
}

impl From<LongDouble> for f64 {
    fn from(value: LongDouble) -> f64 {
        let sign = ((value.0 >> 127) as u64) << 63;
        let exponent = ((value.0 >> 112) & 0x7fff) as i64;
        let fraction = ((value.0 >> 60) & ((1 << 52) - 1)) as u64;
        let bits = match exponent {
            0x7fff if value.0 << 16 != 0 => 0x7ff << 52 | fraction | 1 << 51,
            0x7fff => 0x7ff << 52,
            e if e - 16383 + 1023 >= 0x7ff => 0x7ff << 52,
            e if e - 16383 + 1023 >= 1 => ((e - 16383 + 1023) as u64) << 52 | fraction,
            e if e - 16383 + 1023 >= -51 => (fraction | 1 << 52) >> (1 - (e - 16383 + 1023)),
            _ => 0,
        };
        f64::from_bits(sign | bits)
    }
}

impl<'v> Encode<'v> for LongDouble {
    fn encode(self, e: &mut Encoder<'v>) {
        e.align(8);
        e.raw(&self.0.to_ne_bytes());
    }
}
impl<'m> Decode<'m> for LongDouble {
    const MIN_WIRE: usize = 16;
    fn decode(d: &mut Decoder<'m>) -> Result<LongDouble> {
        d.align(8)?;
        let foreign = d.order().is_foreign();
        let mut bytes = [0; 16];
        bytes.copy_from_slice(d.take(16)?);
        if foreign {
            bytes.reverse();
        }
        Ok(LongDouble(u128::from_ne_bytes(bytes)))
    }
}
impl Item<'_> for LongDouble {}
by_value!(LongDouble);
