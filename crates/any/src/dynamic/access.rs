//! `insert_…` and `get_…`: values of Rust types in the place of a component.

use super::{DynAny, DynAnyError};
use crate::{Any, AnyValue, Kind, TypeCode};
use core::any::Any as Context;

impl DynAny {
    /// `insert_…`: replaces the value; or that of the current component, if the whole is no `T`.
    ///
    /// # Errors
    /// [`DynAnyError::TypeMismatch`] for a value of another type, and for a current component that
    /// has components of its own and is no `T`; [`DynAnyError::InvalidValue`] if there is no
    /// current component, and for text longer than its bound.
    pub fn insert<T: AnyValue>(&mut self, value: &T) -> Result<(), DynAnyError> {
        let any = Any::new(value).map_err(|_| DynAnyError::InvalidValue)?;
        self.insert_value(&any)
    }

    /// As [`insert`](Self::insert), for a value of a type that is known at run time: the
    /// value itself, not an `any` that holds it.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub fn insert_value(&mut self, any: &Any) -> Result<(), DynAnyError> {
        let target = self.target(any)?;
        match target.set(any) {
            Err(DynAnyError::Octets(_)) => Err(DynAnyError::InvalidValue),
            set => set,
        }
    }

    /// `insert_dyn_any`: replaces the value of an `any`.
    ///
    /// # Errors
    /// As [`insert`](Self::insert), and those of [`to_any`](Self::to_any).
    pub fn insert_dyn_any(&mut self, value: &DynAny) -> Result<(), DynAnyError> {
        self.insert(&value.to_any()?)
    }

    /// `get_…`: the value, or that of the current component if the whole is no `T`.
    ///
    /// # Errors
    /// [`DynAnyError::TypeMismatch`], [`DynAnyError::InvalidValue`] as for [`insert`](Self::insert).
    pub fn get<T: AnyValue>(&mut self) -> Result<T, DynAnyError> {
        self.get_with(None)
    }

    /// As [`get`](Self::get); references belong to the ORB that `context` names, as with
    /// [`Any::get_with`].
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn get_with<T: AnyValue>(&mut self, context: Option<&dyn Context>) -> Result<T, DynAnyError> {
        let wanted = T::type_code();
        let source = if fits(&self.tc, &wanted) {
            self
        } else {
            let current = self.current_component()?.ok_or(DynAnyError::InvalidValue)?;
            if fits(&current.tc, &wanted) { current } else { return Err(DynAnyError::TypeMismatch) }
        };
        let any = source.to_any()?;
        let bounded = !any.holds(&wanted);
        let any = if bounded { any.retyped(wanted) } else { any };
        any.get_with(context).ok_or(DynAnyError::TypeMismatch)
    }

    /// `get_dyn_any`: the components of the value in an `any`.
    ///
    /// # Errors
    /// As [`get`](Self::get) and [`from_any`](Self::from_any).
    pub fn get_dyn_any(&mut self) -> Result<DynAny, DynAnyError> {
        DynAny::from_any(&self.get::<Any>()?)
    }

    /// This value, or its current component, as a place for `any`.
    fn target(&mut self, any: &Any) -> Result<&mut DynAny, DynAnyError> {
        if fits(any.type_code(), &self.tc) {
            return Ok(self);
        }
        let current = self.current_component()?.ok_or(DynAnyError::InvalidValue)?;
        if fits(any.type_code(), &current.tc) { Ok(current) } else { Err(DynAnyError::TypeMismatch) }
    }
}

/// Whether values of `own` can be values of `wanted`: as [`Any::holds`], and texts and sequences
/// with other bounds.
pub(super) fn fits(own: &TypeCode, wanted: &TypeCode) -> bool {
    let (a, b) = (own.borrow().strip(), wanted.borrow().strip());
    match (a.kind(), b.kind()) {
        (Kind::String, Kind::String) | (Kind::WString, Kind::WString) => true,
        (Kind::Sequence, Kind::Sequence) => match (a.content(), b.content()) {
            (Some(a), Some(b)) => a.to_owned().equivalent(&b.to_owned()),
            _ => false,
        },
        (Kind::ObjRef, Kind::ObjRef) if b.id() == crate::construct::OBJECT_ID || b.id().is_empty() => true,
        _ => own.equivalent(wanted),
    }
}
