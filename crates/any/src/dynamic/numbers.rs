//! `DynEnum` and `DynFixed`.

use super::create::basic;
use super::{Content, DynAny, DynAnyError};
use crate::print::write_fixed;
use crate::{Event, Kind, Stopped, Visitor};
use alloc::string::{String, ToString};
use isorb_cdr::{Encoder, ErrorKind};

impl DynAny {
    /// `DynEnum::get_as_string`: the name of the enumerator.
    ///
    /// # Errors
    /// [`DynAnyError::TypeMismatch`] for other types.
    pub fn enumerator(&self) -> Result<&str, DynAnyError> {
        let ordinal = self.ordinal()? as usize;
        let member = self.tc.borrow().strip().members().get(ordinal).ok_or(DynAnyError::InvalidValue)?;
        Ok(&member.name)
    }

    /// `DynEnum::set_as_string`.
    ///
    /// # Errors
    /// [`DynAnyError::TypeMismatch`] for other types, [`DynAnyError::InvalidValue`] for an unknown
    /// name.
    pub fn set_enumerator(&mut self, name: &str) -> Result<(), DynAnyError> {
        self.is(Kind::Enum)?;
        let mut names = self.tc.borrow().strip().members().iter();
        let at = names.position(|member| &*member.name == name).ok_or(DynAnyError::InvalidValue)?;
        self.set_ordinal(at as u32)
    }

    /// `DynEnum::get_as_ulong`: the place of the enumerator.
    ///
    /// # Errors
    /// [`DynAnyError::TypeMismatch`] for other types.
    pub fn ordinal(&self) -> Result<u32, DynAnyError> {
        self.is(Kind::Enum)?;
        let Content::Basic(any) = &self.content else { return Err(DynAnyError::TypeMismatch) };
        Ok(any.reading(|d| d.get())?)
    }

    /// `DynEnum::set_as_ulong`.
    ///
    /// # Errors
    /// [`DynAnyError::TypeMismatch`] for other types, [`DynAnyError::InvalidValue`] for a place
    /// without enumerator.
    pub fn set_ordinal(&mut self, ordinal: u32) -> Result<(), DynAnyError> {
        self.is(Kind::Enum)?;
        if ordinal as usize >= self.tc.borrow().strip().members().len() {
            return Err(DynAnyError::InvalidValue);
        }
        self.content = Content::Basic(basic(&self.tc, |e| e.put(ordinal)));
        Ok(())
    }

    /// `DynFixed::get_value`: the number as text.
    ///
    /// # Errors
    /// [`DynAnyError::TypeMismatch`] for other types.
    pub fn fixed(&self) -> Result<String, DynAnyError> {
        struct Number(String);
        impl Visitor for Number {
            fn event(&mut self, event: Event<'_>) -> Result<(), Stopped> {
                let Event::Fixed(unscaled, scale) = event else { return Err(Stopped) };
                Ok(write_fixed(unscaled, scale, &mut self.0)?)
            }
        }
        let Content::Basic(any) = &self.content else { return Err(DynAnyError::TypeMismatch) };
        let mut number = Number(String::new());
        any.walk(&mut number).map_err(|_| DynAnyError::TypeMismatch)?;
        Ok(number.0)
    }

    /// `DynFixed::set_value`: sets the number from text such as `-1.50` or `12d`. False if digits
    /// after the point were cut off.
    ///
    /// # Errors
    /// [`DynAnyError::TypeMismatch`] for other types and for text that is no number;
    /// [`DynAnyError::InvalidValue`] for too many digits before the point.
    pub fn set_fixed(&mut self, text: &str) -> Result<bool, DynAnyError> {
        self.is(Kind::Fixed)?;
        let plain = self.tc.borrow().strip();
        let (digits, scale) = (plain.number() as usize, plain.node().map_or(0, |node| node.scale));
        let (unscaled, exact) = parse_fixed(text.trim(), digits, scale)?;
        self.content = Content::Basic(basic(&self.tc, |e| put_fixed(digits, unscaled, e)));
        Ok(exact)
    }

    pub(super) fn is(&self, kind: Kind) -> Result<(), DynAnyError> {
        if self.kind() == kind { Ok(()) } else { Err(DynAnyError::TypeMismatch) }
    }
}

/// The number without its point, and whether no digit was cut off.
fn parse_fixed(text: &str, digits: usize, scale: i16) -> Result<(i128, bool), DynAnyError> {
    let text = text.strip_suffix(['d', 'D']).unwrap_or(text);
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let all = || whole.bytes().chain(part.bytes());
    if whole.is_empty() && part.is_empty() || !all().all(|octet| octet.is_ascii_digit()) {
        return Err(DynAnyError::TypeMismatch);
    }
    // How many of the digits belong to the number; beyond the text they are zeros.
    let kept = (whole.len() as i64 + i64::from(scale)).max(0) as usize;
    let exact = all().skip(kept).all(|digit| digit == b'0');
    let mut unscaled = 0i128;
    for digit in all().map(|octet| octet - b'0').chain(core::iter::repeat(0)).take(kept) {
        unscaled = unscaled * 10 + i128::from(digit);
        if unscaled.to_string().len() > digits && unscaled != 0 {
            return Err(DynAnyError::InvalidValue);
        }
    }
    Ok((if negative { -unscaled } else { unscaled }, exact))
}

/// Writes a `fixed` (part 2, clause 9.3.2.8).
pub(super) fn put_fixed(digits: usize, unscaled: i128, e: &mut Encoder<'_>) {
    let mut rest = unscaled.unsigned_abs();
    let mut halves = [0u8; 32];
    let used = 2 * (digits / 2 + 1);
    let Some((sign, numbers)) = halves.get_mut(..used).and_then(<[u8]>::split_last_mut) else {
        return e.fail(ErrorKind::Bound);
    };
    *sign = if unscaled < 0 { 0x0d } else { 0x0c };
    for half in numbers.iter_mut().rev() {
        *half = (rest % 10) as u8;
        rest /= 10;
    }
    let (pairs, _) = halves[..used].as_chunks::<2>();
    pairs.iter().for_each(|[high, low]| e.put(high << 4 | low));
}
