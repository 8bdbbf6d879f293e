//! `DynUnion`.

use super::create::{self, Budget, label};
use super::{Content, DynAny, DynAnyError};
use crate::Kind;
use crate::construct::label_range;
use crate::copy::discriminator_bits;
use crate::graph::TcRef;
use alloc::boxed::Box;

impl DynAny {
    /// `get_discriminator`: a copy of the discriminator. The discriminator itself is the first
    /// component; when it changes, so does the active member.
    ///
    /// # Errors
    /// [`DynAnyError::TypeMismatch`] for other types.
    pub fn discriminator(&self) -> Result<DynAny, DynAnyError> {
        match &self.content {
            Content::Union { discriminator, .. } => Ok((**discriminator).clone()),
            _ => Err(DynAnyError::TypeMismatch),
        }
    }

    /// `set_discriminator`: the member stays if it is that of the new label, too; otherwise the new
    /// one has its default value. The current component is the member, or the discriminator if no
    /// member is active.
    ///
    /// # Errors
    /// [`DynAnyError::TypeMismatch`] for other types and a discriminator of another type;
    /// [`DynAnyError::TooLarge`] for the new member.
    pub fn set_discriminator(&mut self, value: &DynAny) -> Result<(), DynAnyError> {
        let Content::Union { discriminator, .. } = &mut self.content else {
            return Err(DynAnyError::TypeMismatch);
        };
        discriminator.assign(value)?;
        self.sync()?;
        self.position = Some(usize::from(self.active_case().is_some()));
        Ok(())
    }

    /// `set_to_default_member`: gives the discriminator a value that has no label, and makes it the
    /// current component.
    ///
    /// # Errors
    /// [`DynAnyError::TypeMismatch`] for other types, and a union without `default`.
    pub fn set_to_default_member(&mut self) -> Result<(), DynAnyError> {
        self.is(Kind::Union)?;
        if self.tc.borrow().strip().number() < 0 {
            return Err(DynAnyError::TypeMismatch);
        }
        self.set_free_label()
    }

    /// `set_to_no_active_member`: gives the discriminator a value that has no label, and makes it
    /// the current component.
    ///
    /// # Errors
    /// [`DynAnyError::TypeMismatch`] for other types, a union with `default`, and one
    /// where each value of the discriminator is a label.
    pub fn set_to_no_active_member(&mut self) -> Result<(), DynAnyError> {
        self.is(Kind::Union)?;
        if self.tc.borrow().strip().number() >= 0 {
            return Err(DynAnyError::TypeMismatch);
        }
        self.set_free_label()
    }

    /// `has_no_active_member`.
    ///
    /// # Errors
    /// [`DynAnyError::TypeMismatch`] for other types.
    pub fn has_no_active_member(&self) -> Result<bool, DynAnyError> {
        self.is(Kind::Union)?;
        Ok(self.active_case().is_none())
    }

    /// `member`: the active member, in place.
    ///
    /// # Errors
    /// [`DynAnyError::TypeMismatch`] for other types; [`DynAnyError::InvalidValue`] without an
    /// active member; [`DynAnyError::TooLarge`] for one that is made now.
    pub fn member(&mut self) -> Result<&mut DynAny, DynAnyError> {
        self.is(Kind::Union)?;
        self.sync()?;
        match &mut self.content {
            Content::Union { member: Some((_, member)), .. } => Ok(member),
            _ => Err(DynAnyError::InvalidValue),
        }
    }

    /// `member_name`: it may be empty.
    ///
    /// # Errors
    /// [`DynAnyError::TypeMismatch`] for other types; [`DynAnyError::InvalidValue`] without an
    /// active member.
    pub fn member_name(&self) -> Result<&str, DynAnyError> {
        self.is(Kind::Union)?;
        let case = self.active_case().ok_or(DynAnyError::InvalidValue)?;
        Ok(&self.tc.borrow().strip().members().get(case).ok_or(DynAnyError::InvalidValue)?.name)
    }

    /// `member_kind`: the kind of the active member's type, an alias included.
    ///
    /// # Errors
    /// As [`DynAny::member_name`].
    pub fn member_kind(&self) -> Result<Kind, DynAnyError> {
        self.is(Kind::Union)?;
        let case = self.active_case().and_then(|case| self.tc.borrow().strip().member_type(case));
        Ok(case.ok_or(DynAnyError::InvalidValue)?.kind())
    }

    /// The case of the discriminator's value.
    pub(super) fn active_case(&self) -> Option<usize> {
        let Content::Union { discriminator, .. } = &self.content else { return None };
        let Content::Basic(any) = &discriminator.content else { return None };
        let bits = any.reading(|d| discriminator_bits(any.type_code().borrow().strip(), d)).ok()?;
        self.tc.borrow().strip().node()?.case(bits)
    }

    /// Makes the member that the discriminator selects, unless it is there.
    pub(super) fn sync(&mut self) -> Result<(), DynAnyError> {
        if !matches!(self.content, Content::Union { .. }) {
            return Ok(());
        }
        let made = match (self.active_case(), self.active_member()?) {
            (None, _) => None,
            (Some(case), Some(Err(made))) => Some((case, Box::new(made))),
            _ => return Ok(()),
        };
        if let Content::Union { member, .. } = &mut self.content {
            *member = made;
        }
        Ok(())
    }

    /// The member that the discriminator selects: the one that is there, or a new one.
    pub(super) fn active_member(&self) -> Result<Option<Result<&DynAny, DynAny>>, DynAnyError> {
        let Content::Union { member, .. } = &self.content else { return Ok(None) };
        let Some(case) = self.active_case() else { return Ok(None) };
        let tc = self.tc.borrow().strip();
        if let Some((made_for, member)) = member
            && same_member(tc, *made_for, case)
        {
            return Ok(Some(Ok(member)));
        }
        let member_type = tc.member_type(case).ok_or(DynAnyError::InconsistentTypeCode)?;
        let made = create::default(&member_type.to_owned(), 1, &mut Budget::new())?;
        Ok(Some(Err(made)))
    }

    fn set_free_label(&mut self) -> Result<(), DynAnyError> {
        let tc = self.tc.borrow().strip();
        let bits = free_label(tc).ok_or(DynAnyError::TypeMismatch)?;
        let discriminator = tc.content().ok_or(DynAnyError::TypeMismatch)?.to_owned();
        self.set_discriminator(&label(&discriminator, bits))?;
        self.position = Some(0);
        Ok(())
    }
}

/// Whether two cases are labels of one member. A type code of a peer may have one name for members
/// of several types.
fn same_member(tc: TcRef<'_>, a: usize, b: usize) -> bool {
    let (Some(x), Some(y)) = (tc.members().get(a), tc.members().get(b)) else { return false };
    let same_type = || tc.follow(&x.link).to_owned().equal(&tc.follow(&y.link).to_owned());
    a == b || !x.name.is_empty() && x.name == y.name && same_type()
}

/// A value of the discriminator that is no label, as bits.
pub(super) fn free_label(tc: TcRef<'_>) -> Option<i64> {
    let (node, discriminator) = (tc.node()?, tc.content()?.strip());
    let kind = discriminator.kind();
    let (low, high) = label_range(discriminator)?;
    // UTF-8 has one octet for these only.
    let high = if kind == Kind::Char { high.min(127) } else { high };
    let label = |at: &u32| node.members[*at as usize].number;
    let is_label = |value: i128| node.by_label.binary_search_by_key(&(value as i64), label).is_ok();
    let is_character = |value: i128| kind != Kind::WChar || char::from_u32(value as u32).is_some();
    // Small numbers first; with `n` labels one of `n + 1` values is free.
    let candidates = (0..=high).chain((low..0).rev());
    candidates.filter(|value| is_character(*value)).find(|value| !is_label(*value)).map(|value| value as i64)
}
