//! `DynStruct`, and the members of `DynValue`.

use super::sequence::component;
use super::{Content, DynAny, DynAnyError, State};
use crate::value_types::levels;
use crate::{Any, Kind, TypeCode};
use alloc::string::{String, ToString};
use alloc::vec::Vec;

impl DynAny {
    /// `current_member_name` of a structure, exception or value: it may be empty.
    ///
    /// # Errors
    /// [`DynAnyError::TypeMismatch`] for other types, and those without members;
    /// [`DynAnyError::InvalidValue`] without a current component.
    pub fn current_member_name(&self) -> Result<&str, DynAnyError> {
        let position = self.current_member()?;
        let bases = self.levels()?;
        let member = bases.iter().flat_map(|tc| tc.members()).nth(position);
        Ok(&member.ok_or(DynAnyError::InvalidValue)?.name)
    }

    /// `current_member_kind`: the kind of the current member's type, an alias included.
    ///
    /// # Errors
    /// As [`DynAny::current_member_name`].
    pub fn current_member_kind(&self) -> Result<Kind, DynAnyError> {
        let position = self.current_member()?;
        Ok(self.components().get(position).ok_or(DynAnyError::InvalidValue)?.tc.kind())
    }

    /// `get_members` of a structure, exception or value: names and values.
    ///
    /// # Errors
    /// [`DynAnyError::TypeMismatch`] for other types; [`DynAnyError::InvalidValue`] for a null
    /// value; those of [`DynAny::to_any`].
    pub fn members(&self) -> Result<Vec<(String, Any)>, DynAnyError> {
        let types = self.member_types()?;
        if matches!(self.content, Content::Value(None) | Content::Again(_)) {
            return Err(DynAnyError::InvalidValue);
        }
        let parts = types.into_iter().zip(self.components());
        parts.map(|((name, _), part)| Ok((name, part.to_any()?))).collect()
    }

    /// `set_members` of a structure, exception or value, which is then not null. Names may be
    /// empty.
    ///
    /// # Errors
    /// [`DynAnyError::TypeMismatch`] for other types, another name or a value of another type;
    /// [`DynAnyError::InvalidValue`] for another number of members. The value is then unchanged.
    pub fn set_members(&mut self, members: &[(&str, Any)]) -> Result<(), DynAnyError> {
        let types = self.member_types()?;
        if types.len() != members.len() {
            return Err(DynAnyError::InvalidValue);
        }
        let made = types.iter().zip(members).map(|((known, tc), (name, value))| {
            if !name.is_empty() && !known.is_empty() && known != name {
                return Err(DynAnyError::TypeMismatch);
            }
            component(tc, value)
        });
        let made: Vec<DynAny> = made.collect::<Result<_, _>>()?;
        match &mut self.content {
            Content::List(parts) => *parts = made,
            Content::Value(Some(state)) => state.parts = made,
            content => {
                let state = State::new(self.tc.borrow().strip())?;
                *content = Content::Value(Some(State { parts: made, ..state }));
            }
        }
        self.position = self.first();
        Ok(())
    }

    fn current_member(&self) -> Result<usize, DynAnyError> {
        self.levels()?;
        if self.is_empty_type() {
            return Err(DynAnyError::TypeMismatch);
        }
        self.position().ok_or(DynAnyError::InvalidValue)
    }

    /// The types that the members belong to: one, or those of a value's bases before it.
    fn levels(&self) -> Result<Vec<crate::graph::TcRef<'_>>, DynAnyError> {
        let tc = self.tc.borrow().strip();
        match tc.kind() {
            Kind::Struct | Kind::Except => Ok([tc].into()),
            Kind::Value | Kind::Event => Ok(levels(tc)),
            _ => Err(DynAnyError::TypeMismatch),
        }
    }

    fn member_types(&self) -> Result<Vec<(String, TypeCode)>, DynAnyError> {
        let bases = self.levels()?;
        let members = bases.iter().flat_map(|tc| {
            tc.members().iter().map(|member| (member.name.to_string(), tc.follow(&member.link).to_owned()))
        });
        Ok(members.collect())
    }
}
