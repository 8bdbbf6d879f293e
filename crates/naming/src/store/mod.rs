//! Stores of bindings.
//!
//! A store knows components, not paths: every operation concerns one context and is atomic.
//! Acknowledged operations survive the process if the store is persistent.

#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
mod error;
mod file;
mod memory;

pub use error::{Fault, OpenError, Refusal};
pub use file::FileStore;
pub use memory::MemoryStore;

use crate::binding::{Binding, BindingKind, ContextId};
use isorb_giop::NameComponent;

/// What [`Store::bind`] does with a name that is bound already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Refuses the binding.
    New,
    /// Replaces the binding if it is of the same kind.
    Replace,
}

/// Limits of a store.
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

/// Bindings in the order of their names: id, then kind, octet by octet.
pub type Entries = Vec<(NameComponent, BindingKind)>;

/// Stores contexts and bindings. Operations are atomic, and acknowledged when they cannot be lost.
///
/// # Errors
/// All operations: [`Refusal::NoContext`] when the context does not exist (any more),
/// [`Refusal::Failed`] when the store is broken.
///
/// # Real-time
/// Not for real-time lanes: a store allocates, takes locks, and waits for its disk.
pub trait Store: Send + Sync {
    /// A number that distinguishes this store's contexts from those of other stores and of its own
    /// past.
    fn stamp(&self) -> u64;

    /// Whether a context exists.
    ///
    /// # Errors
    /// [`Refusal::Failed`].
    fn contains(&self, context: ContextId) -> Result<bool, Refusal>;

    /// The binding of a name.
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

    /// Removes a binding.
    ///
    /// # Errors
    /// [`Refusal::Unbound`].
    fn unbind(&self, context: ContextId, name: &NameComponent) -> Result<(), Refusal>;

    /// Creates a context without a binding.
    ///
    /// # Errors
    /// [`Refusal::Full`].
    fn create(&self) -> Result<ContextId, Refusal>;

    /// Creates a context and binds it, or does neither.
    ///
    /// # Errors
    /// [`Refusal::AlreadyBound`], [`Refusal::Full`].
    fn create_bound(&self, context: ContextId, name: &NameComponent) -> Result<ContextId, Refusal>;

    /// Destroys a context without bindings. Bindings to it stay, as the standard says.
    ///
    /// # Errors
    /// [`Refusal::NotEmpty`].
    fn destroy(&self, context: ContextId) -> Result<(), Refusal>;

    /// At most `limit` bindings, starting with the first name after `after`.
    ///
    /// # Errors
    /// As for all operations.
    fn list(
        &self,
        context: ContextId,
        after: Option<&NameComponent>,
        limit: usize,
    ) -> Result<Entries, Refusal>;
}

/// A number that no other store has, as far as chance can tell.
fn new_stamp() -> u64 {
    isorb_rt::random_u64()
}
