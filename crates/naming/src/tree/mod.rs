//! Paths of names: from context to context through a store.
//!
//! It makes no calls. Where a path leaves this service it stops and returns how far it came
//! ([`Progress::Onward`]).

#[cfg(test)]
mod model;

use crate::binding::{Binding, BindingKind, ContextId, Target};
use crate::store::{Fault, Mode, Refusal, Store};
use isorb_giop::NameComponent;

/// The result of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress<T> {
    /// The operation is complete.
    Done(T),
    /// The path continues in another service's naming context.
    Onward {
        /// The reference to that context, as a CDR encapsulation.
        context: Box<[u8]>,
        /// The number of components that lead there.
        steps: usize,
    },
}

impl<T> Progress<T> {
    /// The same with another result.
    pub fn map<U>(self, with: impl FnOnce(T) -> U) -> Progress<U> {
        match self {
            Progress::Done(result) => Progress::Done(with(result)),
            Progress::Onward { context, steps } => Progress::Onward { context, steps },
        }
    }
}

/// `CosNaming::NamingContext::NotFoundReason`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NotFoundReason {
    /// A component is not bound.
    MissingNode,
    /// A component is bound to an object that is not a naming context.
    NotContext,
    /// The last component is bound to a naming context.
    NotObject,
}

/// Why an operation failed. `steps` is the number of valid components, so that the rest of the name
/// begins with the invalid one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Failure {
    /// `InvalidName`: a name without components.
    InvalidName,
    /// `NotFound`.
    NotFound {
        /// What is wrong with the component.
        why: NotFoundReason,
        /// The number of valid components.
        steps: usize,
    },
    /// `CannotProceed`: a binding leads to a context of this service that was destroyed.
    Dangling {
        /// The destroyed context.
        context: ContextId,
        /// The number of components that led to it.
        steps: usize,
    },
    /// `AlreadyBound`.
    AlreadyBound,
    /// The context that the operation was called on does not exist.
    NoContext,
    /// The store is full.
    Full,
    /// The store is broken.
    Failed(Fault),
}

/// The context of the last component of a name.
struct Parent<'n> {
    context: ContextId,
    /// The index of the last component.
    steps: usize,
    last: &'n NameComponent,
}

impl Parent<'_> {
    fn failure(&self, refusal: Refusal, other_kind: NotFoundReason) -> Failure {
        let steps = self.steps;
        match refusal {
            Refusal::Unbound => Failure::NotFound { why: NotFoundReason::MissingNode, steps },
            Refusal::OtherKind => Failure::NotFound { why: other_kind, steps },
            Refusal::AlreadyBound => Failure::AlreadyBound,
            Refusal::NoContext => no_context(self.context, steps),
            Refusal::Full => Failure::Full,
            // No operation on a name destroys a context.
            Refusal::NotEmpty => Failure::Failed(Fault::Corrupt),
            Refusal::Failed(fault) => Failure::Failed(fault),
        }
    }
}

/// Resolves a name.
///
/// # Errors
/// [`Failure`].
pub fn resolve(
    store: &dyn Store,
    start: ContextId,
    name: &[NameComponent],
) -> Result<Progress<Target>, Failure> {
    at_last_step(store, start, name, NotFoundReason::NotContext, |parent| {
        Ok(store.lookup(parent.context, parent.last)?.target)
    })
}

/// The context of this service that a name leads to; [`Progress::Onward`] for one elsewhere.
///
/// # Errors
/// [`Failure`]; a name of an object is NotFound.
pub fn resolve_context(
    store: &dyn Store,
    start: ContextId,
    name: &[NameComponent],
) -> Result<Progress<ContextId>, Failure> {
    at_last_step(store, start, name, NotFoundReason::NotContext, |parent| {
        let found = store.lookup(parent.context, parent.last)?;
        Ok((found.kind, found.target))
    })
    .and_then(|progress| match progress {
        Progress::Done((BindingKind::Context, Target::Local(context))) => Ok(Progress::Done(context)),
        Progress::Done((BindingKind::Context, Target::Reference(context))) => {
            Ok(Progress::Onward { context, steps: name.len() })
        }
        Progress::Done((BindingKind::Object, _)) => {
            Err(Failure::NotFound { why: NotFoundReason::NotContext, steps: name.len() - 1 })
        }
        Progress::Onward { context, steps } => Ok(Progress::Onward { context, steps }),
    })
}

/// Binds a name.
///
/// # Errors
/// [`Failure`]; with [`Mode::Replace`] a binding of the other kind is NotFound, as in the standard.
pub fn bind(
    store: &dyn Store,
    start: ContextId,
    name: &[NameComponent],
    binding: &Binding,
    mode: Mode,
) -> Result<Progress<()>, Failure> {
    let other_kind = match binding.kind {
        BindingKind::Object => NotFoundReason::NotObject,
        BindingKind::Context => NotFoundReason::NotContext,
    };
    at_last_step(store, start, name, other_kind, |parent| {
        store.bind(parent.context, parent.last, binding, mode)
    })
}

/// Creates a context and binds it.
///
/// # Errors
/// [`Failure`].
pub fn bind_new_context(
    store: &dyn Store,
    start: ContextId,
    name: &[NameComponent],
) -> Result<Progress<ContextId>, Failure> {
    at_last_step(store, start, name, NotFoundReason::NotContext, |parent| {
        store.create_bound(parent.context, parent.last)
    })
}

/// Removes a binding.
///
/// # Errors
/// [`Failure`].
pub fn unbind(store: &dyn Store, start: ContextId, name: &[NameComponent]) -> Result<Progress<()>, Failure> {
    at_last_step(store, start, name, NotFoundReason::NotContext, |parent| {
        store.unbind(parent.context, parent.last)
    })
}

fn at_last_step<T>(
    store: &dyn Store,
    start: ContextId,
    name: &[NameComponent],
    other_kind: NotFoundReason,
    run: impl FnOnce(&Parent<'_>) -> Result<T, Refusal>,
) -> Result<Progress<T>, Failure> {
    let Some((last, before)) = name.split_last() else { return Err(Failure::InvalidName) };
    let mut context = start;
    for (steps, step) in before.iter().enumerate() {
        let parent = Parent { context, steps, last: step };
        let found = store
            .lookup(context, step)
            .map_err(|refusal| parent.failure(refusal, NotFoundReason::NotContext))?;
        match found {
            Binding { kind: BindingKind::Object, .. } => {
                return Err(Failure::NotFound { why: NotFoundReason::NotContext, steps });
            }
            Binding { target: Target::Local(next), .. } => context = next,
            Binding { target: Target::Reference(reference), .. } => {
                return Ok(Progress::Onward { context: reference, steps: steps + 1 });
            }
        }
    }
    let parent = Parent { context, steps: before.len(), last };
    run(&parent).map(Progress::Done).map_err(|refusal| parent.failure(refusal, other_kind))
}

fn no_context(context: ContextId, steps: usize) -> Failure {
    if steps == 0 { Failure::NoContext } else { Failure::Dangling { context, steps } }
}
