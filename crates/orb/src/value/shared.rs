//! The handle of a value, and how graphs of values are dropped.

use isorb_cdr::ValueObject;
use std::cell::Cell;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// An object that has a state of type `S`: its own, or that of a base.
pub trait Part<S>: ValueObject {
    /// That state.
    fn part(&self) -> &S;
}

/// An owner of a value; what a generated valuetype consists of.
///
/// Dropping the last owner drops the values that it links to in a loop, not by recursion: a list
/// of a million values needs no stack.
///
/// # Real-time
/// The loop keeps a list on the heap and is as long as what is freed.
pub struct Shared<O: ?Sized + ValueObject + 'static>
where
    Arc<O>: Release,
{
    /// `None` only while it is dropped.
    object: Option<Arc<O>>,
}

/// An owner that gives the object up.
pub trait Release {
    /// The object without its type.
    fn object(self) -> Arc<dyn ValueObject>;
}

impl Release for Arc<dyn ValueObject> {
    fn object(self) -> Arc<dyn ValueObject> {
        self
    }
}

impl<S: 'static> Release for Arc<dyn Part<S>> {
    fn object(self) -> Arc<dyn ValueObject> {
        self
    }
}

impl<O: ?Sized + ValueObject + 'static> Shared<O>
where
    Arc<O>: Release,
{
    /// Owns an object.
    pub fn new(object: Arc<O>) -> Self {
        Shared { object: Some(object) }
    }

    /// Another owner of the object.
    ///
    /// # Panics
    /// Never: the object is there until `drop`.
    pub fn arc(&self) -> Arc<O> {
        match &self.object {
            Some(object) => object.clone(),
            None => unreachable!("only `drop` takes the object"),
        }
    }

    /// Another owner of the object, without its type.
    pub fn object(&self) -> Arc<dyn ValueObject> {
        self.arc().object()
    }
}

impl<S: 'static> Shared<dyn Part<S>> {
    /// The object as one with a state of type `S`, if it has one.
    pub fn from_object(object: Arc<dyn ValueObject>) -> Option<Self> {
        let mut part: Option<Arc<dyn Part<S>>> = None;
        object.cast(&mut part);
        part.map(Shared::new)
    }
}

impl<O: ?Sized + ValueObject + 'static> Deref for Shared<O>
where
    Arc<O>: Release,
{
    type Target = O;
    fn deref(&self) -> &O {
        match &self.object {
            Some(object) => object,
            None => unreachable!("only `drop` takes the object"),
        }
    }
}

impl<O: ?Sized + ValueObject + 'static> Clone for Shared<O>
where
    Arc<O>: Release,
{
    fn clone(&self) -> Self {
        Shared { object: self.object.clone() }
    }
}

impl<O: ?Sized + ValueObject + 'static> Drop for Shared<O>
where
    Arc<O>: Release,
{
    fn drop(&mut self) {
        if let Some(object) = self.object.take() {
            release(object.object());
        }
    }
}

/// The state, and of a derived type its part of it.
impl<S: fmt::Debug + 'static> fmt::Debug for Shared<dyn Part<S>> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.part().fmt(f)
    }
}

/// The same value, or values of one type with equal parts.
impl<S: PartialEq + 'static> PartialEq for Shared<dyn Part<S>> {
    fn eq(&self, other: &Self) -> bool {
        same_value(&**self, &**other) || (self.ids() == other.ids() && self.part() == other.part())
    }
}

/// Whether both are one object.
pub fn same_value(a: &(impl ValueObject + ?Sized), b: &(impl ValueObject + ?Sized)) -> bool {
    core::ptr::addr_eq(a, b)
}

thread_local! {
    /// Objects that wait for a drop that is under way on this thread.
    static RELEASED: Cell<Option<Vec<Arc<dyn ValueObject>>>> = const { Cell::new(None) };
}

/// Drops an owner. Within a drop it only takes note of it, so that a chain of values ends in the
/// loop of the first.
fn release(object: Arc<dyn ValueObject>) {
    let mut object = Some(object);
    let outermost = RELEASED.try_with(|released| match released.take() {
        Some(mut list) => {
            list.extend(object.take());
            released.set(Some(list));
            false
        }
        None => {
            released.set(Some(Vec::new()));
            true
        }
    });
    // A thread that ends has no list any more.
    drop(object);
    while let Ok(true) = outermost {
        let next = RELEASED.try_with(|released| {
            let mut list = released.take()?;
            let next = list.pop()?;
            released.set(Some(list));
            Some(next)
        });
        if !matches!(next, Ok(Some(_))) {
            break;
        }
    }
}
