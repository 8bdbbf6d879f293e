//! `DynSequence` and `DynArray`.

use super::create::{self, Budget};
use super::{Content, DynAny, DynAnyError, MAX_COMPONENTS};
use crate::{Any, Kind, TypeCode};
use alloc::vec::Vec;

impl DynAny {
    /// `DynSequence::set_length`: cuts elements off, or adds default ones. Without a current
    /// component the first new element becomes it; a current component that is cut off leaves none.
    ///
    /// # Errors
    /// [`DynAnyError::TypeMismatch`] unless it is a sequence; [`DynAnyError::InvalidValue`] beyond
    /// its bound; [`DynAnyError::TooLarge`].
    pub fn set_length(&mut self, length: usize) -> Result<(), DynAnyError> {
        self.is(Kind::Sequence)?;
        self.fits(length)?;
        let element = self.element_type()?;
        let Content::List(parts) = &mut self.content else { return Err(DynAnyError::TypeMismatch) };
        let before = parts.len();
        let mut budget = Budget::new();
        let added: Result<Vec<_>, _> =
            (before..length).map(|_| create::default(&element, 1, &mut budget)).collect();
        let added = added?;
        parts.truncate(length);
        parts.extend(added);
        self.position = match self.position {
            None if length > before => Some(before),
            Some(position) if position >= length => None,
            position => position,
        };
        Ok(())
    }

    /// `get_elements` of a sequence or array.
    ///
    /// # Errors
    /// [`DynAnyError::TypeMismatch`] for other types; those of [`DynAny::to_any`].
    pub fn elements(&self) -> Result<Vec<Any>, DynAnyError> {
        self.element_type()?;
        self.components().iter().map(DynAny::to_any).collect()
    }

    /// `set_elements` of a sequence or array.
    ///
    /// # Errors
    /// [`DynAnyError::TypeMismatch`] for other types and an element of another type;
    /// [`DynAnyError::InvalidValue`] for more elements than the bound, or another number than the
    /// length of the array. The value is then unchanged.
    pub fn set_elements(&mut self, elements: &[Any]) -> Result<(), DynAnyError> {
        let element = self.element_type()?;
        self.fits(elements.len())?;
        let parts: Result<Vec<_>, _> = elements.iter().map(|any| component(&element, any)).collect();
        self.content = Content::List(parts?);
        self.position = self.first();
        Ok(())
    }

    /// `set_elements_as_dyn_any`; [`DynAny::components`] is the way back.
    ///
    /// # Errors
    /// As [`DynAny::set_elements`].
    pub fn set_elements_as_dyn_any(&mut self, elements: &[DynAny]) -> Result<(), DynAnyError> {
        let elements: Result<Vec<Any>, _> = elements.iter().map(DynAny::to_any).collect();
        self.set_elements(&elements?)
    }

    fn element_type(&self) -> Result<TypeCode, DynAnyError> {
        if !matches!(self.kind(), Kind::Sequence | Kind::Array) {
            return Err(DynAnyError::TypeMismatch);
        }
        let element = self.tc.borrow().strip().content().ok_or(DynAnyError::InconsistentTypeCode)?;
        Ok(element.to_owned())
    }

    fn fits(&self, count: usize) -> Result<(), DynAnyError> {
        let number = self.tc.borrow().strip().number() as usize;
        let fits = match self.kind() {
            Kind::Array => count == number,
            _ => number == 0 || count <= number,
        };
        match fits {
            _ if count > MAX_COMPONENTS => Err(DynAnyError::TooLarge),
            true => Ok(()),
            false => Err(DynAnyError::InvalidValue),
        }
    }
}

/// A component of type `tc` from a value.
pub(super) fn component(tc: &TypeCode, any: &Any) -> Result<DynAny, DynAnyError> {
    if !super::fits(any.type_code(), tc) {
        return Err(DynAnyError::TypeMismatch);
    }
    any.reading(|d| create::read(tc, d, 1, &mut Budget::new()))
}
