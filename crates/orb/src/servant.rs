//! Servants: the implementations of objects.

use crate::{Interface, Reference, Result, Upcall};
use isorb_cdr::{Decoder, Encoder};
use std::any::Any;
use std::sync::Arc;

/// The kind of a skeleton's reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The results.
    Results,
    /// The repository id and members of a user exception.
    Exception,
}

/// 'A servant of type `S` can implement the object of this reference': generated as `impl<S: Probe>
/// Serves<S> for ProbeRef`.
pub trait Serves<S>: Reference {
    /// Reads the arguments of an operation, calls the servant, writes its results.
    ///
    /// # Errors
    /// The system exception of the servant, or of reading the arguments.
    fn dispatch<'u>(
        servant: &'u S,
        operation: u16,
        cx: Upcall<'u>,
        arguments: &mut Decoder<'u>,
        results: &mut Encoder<'u>,
    ) -> Result<Outcome>;
}

pub(crate) type Dispatch = for<'u> fn(
    &'u (dyn Any + Send + Sync),
    u16,
    Upcall<'u>,
    &mut Decoder<'u>,
    &mut Encoder<'u>,
) -> Result<Outcome>;

/// A servant with its interface as a value: one shared pointer, one function, one description. Two
/// are equal when they are the same object in memory.
#[derive(Clone)]
pub struct Servant {
    object: Arc<dyn Any + Send + Sync>,
    dispatch: Dispatch,
    interface: &'static Interface,
}

impl Servant {
    /// `servant` with the interface of `R`.
    pub fn new<R: Serves<S>, S: Any + Send + Sync>(servant: Arc<S>) -> Servant {
        Servant {
            object: servant,
            interface: R::INTERFACE,
            dispatch: |object, operation, cx, arguments, results| match object.downcast_ref::<S>() {
                Some(servant) => R::dispatch(servant, operation, cx, arguments, results),
                None => Err(isorb_giop::Kind::BadOperation.into()),
            },
        }
    }

    /// A servant with a skeleton that is no generated code.
    pub(crate) fn from_parts(
        object: Arc<dyn Any + Send + Sync>,
        dispatch: Dispatch,
        interface: &'static Interface,
    ) -> Servant {
        Servant { object, dispatch, interface }
    }

    /// The interface of its activation.
    pub fn interface(&self) -> &'static Interface {
        self.interface
    }

    /// The servant itself, if it is an `S`.
    pub fn downcast<S: Any + Send + Sync>(&self) -> Option<Arc<S>> {
        self.object.clone().downcast().ok()
    }

    /// A number that distinguishes living servants: the address in memory.
    pub fn identity(&self) -> usize {
        Arc::as_ptr(&self.object).cast::<()>().addr()
    }

    /// Calls the skeleton.
    ///
    /// # Errors
    /// As [`Serves::dispatch`].
    #[inline]
    pub fn dispatch<'u>(
        &'u self,
        operation: u16,
        cx: Upcall<'u>,
        arguments: &mut Decoder<'u>,
        results: &mut Encoder<'u>,
    ) -> Result<Outcome> {
        (self.dispatch)(&*self.object, operation, cx, arguments, results)
    }
}

impl PartialEq for Servant {
    fn eq(&self, other: &Servant) -> bool {
        self.identity() == other.identity()
    }
}

impl Eq for Servant {}

impl std::fmt::Debug for Servant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Servant({} at {:#x})", self.interface.id, self.identity())
    }
}

/// The argument of [`Poa::activate`](crate::Poa::activate): a shared servant that can implement an
/// `R`.
pub trait IntoServant<R> {
    /// The servant as a value.
    fn into_servant(self) -> Servant;
}

impl<S: Any + Send + Sync, R: Serves<S>> IntoServant<R> for Arc<S> {
    fn into_servant(self) -> Servant {
        Servant::new::<R, S>(self)
    }
}
