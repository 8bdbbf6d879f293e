//! `DynValueCommon` and `DynValueBox`.

use super::sequence::component;
use super::{Content, DynAny, DynAnyError, State};
use crate::{Any, Kind};
use alloc::vec;

impl DynAny {
    /// `is_null` of a value or box.
    ///
    /// # Errors
    /// [`DynAnyError::TypeMismatch`] for other types.
    pub fn is_null(&self) -> Result<bool, DynAnyError> {
        self.is_value()?;
        Ok(matches!(self.content, Content::Value(None)))
    }

    /// `set_to_null`.
    ///
    /// # Errors
    /// [`DynAnyError::TypeMismatch`] for other types.
    pub fn set_to_null(&mut self) -> Result<(), DynAnyError> {
        self.is_value()?;
        self.content = Content::Value(None);
        self.position = None;
        Ok(())
    }

    /// `set_to_value`: a null value becomes one with default members; others stay as they are.
    ///
    /// # Errors
    /// [`DynAnyError::TypeMismatch`] for other types; [`DynAnyError::InconsistentTypeCode`] for an
    /// abstract valuetype and one with custom marshalling; [`DynAnyError::TooLarge`].
    pub fn set_to_value(&mut self) -> Result<(), DynAnyError> {
        if self.is_null()? {
            self.content = Content::Value(Some(State::new(self.tc.borrow().strip())?));
            self.position = self.first();
        }
        Ok(())
    }

    /// `get_boxed_value`. [`DynAny::components`] has it as a `DynAny`.
    ///
    /// # Errors
    /// [`DynAnyError::TypeMismatch`] for other types; [`DynAnyError::InvalidValue`] for null.
    pub fn boxed_value(&self) -> Result<Any, DynAnyError> {
        self.is(Kind::ValueBox)?;
        self.components().first().ok_or(DynAnyError::InvalidValue)?.to_any()
    }

    /// `set_boxed_value`: the box is then not null.
    ///
    /// # Errors
    /// [`DynAnyError::TypeMismatch`] for other types, and a value of another type.
    pub fn set_boxed_value(&mut self, value: &Any) -> Result<(), DynAnyError> {
        self.is(Kind::ValueBox)?;
        let tc = self.tc.borrow().strip();
        let boxed = tc.content().ok_or(DynAnyError::InconsistentTypeCode)?.to_owned();
        let part = component(&boxed, value)?;
        self.content = Content::Value(Some(State { parts: vec![part], ..State::new(tc)? }));
        self.position = self.first();
        Ok(())
    }

    fn is_value(&self) -> Result<(), DynAnyError> {
        match self.kind() {
            Kind::Value | Kind::ValueBox | Kind::Event => Ok(()),
            _ => Err(DynAnyError::TypeMismatch),
        }
    }
}
