//! Where bindings are kept.
//!
//! A store knows single steps, no paths: every operation is about one context and is atomic. What
//! it acknowledged is there after the process was killed, if the store is one that lasts.

#[cfg(test)]
mod conformance;
mod error;
mod file;
mod memory;

pub use error::{Fault, OpenError, Refusal};
pub use file::FileStore;
pub use memory::MemoryStore;

use crate::binding::{Binding, BindingKind, ContextId};
use isorb_giop::NameComponent;

/// What [`Store::bind`] does where a name is bound already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Refuses.
    New,
    /// Replaces a binding of the same kind.
    Replace,
}

/// How much a store takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Contexts, the root included.
    pub contexts: u64,
    /// Bindings in all contexts together.
    pub bindings: u64,
}

impl Default for Capacity {
    /// A million of each.
    fn default() -> Capacity {
        Capacity { contexts: 1_000_000, bindings: 1_000_000 }
    }
}

/// A row of bindings in the order of their names: id, then kind, octet by octet.
pub type Entries = Vec<(NameComponent, BindingKind)>;

/// Keeps contexts and bindings. Operations are atomic, and acknowledged only when they will not be
/// lost.
///
/// # Errors
/// All operations: [`Refusal::NoContext`] when the context does not exist (any more),
/// [`Refusal::Failed`] when the store is broken.
///
/// # Real-time
/// Not for real-time lanes: a store allocates, takes locks, and waits for its disk.
pub trait Store: Send + Sync {
    /// A number that tells this store's contexts from those of other stores, and from those that it
    /// forgot.
    fn stamp(&self) -> u64;

    /// Whether a context exists.
    ///
    /// # Errors
    /// [`Refusal::Failed`].
    fn contains(&self, context: ContextId) -> Result<bool, Refusal>;

    /// What is bound to a name.
    ///
    /// # Errors
    /// [`Refusal::Unbound`].
    fn lookup(&self, context: ContextId, name: &NameComponent) -> Result<Binding, Refusal>;

    /// Binds.
    ///
    /// # Errors
    /// [`Refusal::AlreadyBound`] with [`Mode::New`], [`Refusal::OtherKind`] with [`Mode::Replace`],
    /// [`Refusal::Full`].
    fn bind(
        &self,
        context: ContextId,
        name: &NameComponent,
        binding: &Binding,
        mode: Mode,
    ) -> Result<(), Refusal>;

    /// Takes a binding away.
    ///
    /// # Errors
    /// [`Refusal::Unbound`].
    fn unbind(&self, context: ContextId, name: &NameComponent) -> Result<(), Refusal>;

    /// Makes a context that is bound nowhere.
    ///
    /// # Errors
    /// [`Refusal::Full`].
    fn create(&self) -> Result<ContextId, Refusal>;

    /// Makes a context and binds it, or neither.
    ///
    /// # Errors
    /// [`Refusal::AlreadyBound`], [`Refusal::Full`].
    fn create_bound(&self, context: ContextId, name: &NameComponent) -> Result<ContextId, Refusal>;

    /// Destroys a context that has no bindings. Bindings to it stay, as the standard has it.
    ///
    /// # Errors
    /// [`Refusal::NotEmpty`].
    fn destroy(&self, context: ContextId) -> Result<(), Refusal>;

    /// At most `limit` bindings, from the first name behind `after` on.
    ///
    /// # Errors
    /// As for all.
    fn list(
        &self,
        context: ContextId,
        after: Option<&NameComponent>,
        limit: usize,
    ) -> Result<Entries, Refusal>;
}

/// A number that no other store has, as far as chance can tell.
fn new_stamp() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    // The standard library takes its keys from the operating system.
    std::hash::RandomState::new().build_hasher().finish()
}
