//! The servant of all iterators, and the lists that iterators and contexts return.

use super::{Shared, ids, problem};
use crate::binding::{BindingKind, ContextId};
use crate::cos_naming::{BindingIterator, BindingListView, BindingType, BindingView, NameComponentView};
use crate::store::{Entries, Refusal};
use isorb::{Kind, Result, SystemException, Upcall};
use isorb_giop::NameComponent;
use std::sync::Arc;

/// Octets of the upcall's scope that a list leaves free.
const SPARE: usize = 2048;

/// The servant of all iterators.
pub struct Iterating {
    pub shared: Arc<Shared>,
}

impl Iterating {
    fn next<'u>(&self, cx: Upcall<'u>, how_many: usize) -> Result<BindingListView<'u>> {
        let gone = || SystemException::from(Kind::ObjectNotExist);
        let number = ids::iterator(cx.object_id()).ok_or_else(gone)?;
        let limit = how_many.min(self.shared.batch(cx));
        // Locked while the store reads, so that two calls never return the same bindings.
        let mut iterators = self.shared.iterators.lock();
        let position = iterators.at(isorb_rt::time::now_ns(), number).ok_or_else(gone)?;
        let entries = match self.shared.store.list(position.context, position.after.as_ref(), limit) {
            // The context was destroyed, so it has no more bindings.
            Err(Refusal::NoContext) => Entries::new(),
            other => other.map_err(problem::system)?,
        };
        if let Some((name, _)) = entries.last() {
            position.after = Some(name.clone());
        }
        drop(iterators);
        views(cx, entries)
    }
}

impl BindingIterator for Iterating {
    fn next_one<'u>(&'u self, cx: Upcall<'u>) -> Result<(bool, BindingView<'u>)> {
        Ok(match self.next(cx, 1)?.first() {
            Some(binding) => (true, *binding),
            None => (false, BindingView { binding_name: &[], binding_type: BindingType::Nobject }),
        })
    }

    fn next_n<'u>(&'u self, cx: Upcall<'u>, how_many: u32) -> Result<(bool, BindingListView<'u>)> {
        if how_many == 0 {
            return Err(SystemException::from(Kind::BadParam).detail("next_n of 0 bindings never ends"));
        }
        let list = self.next(cx, how_many as usize)?;
        Ok((!list.is_empty(), list))
    }

    fn destroy(&self, cx: Upcall<'_>) -> Result<()> {
        match ids::iterator(cx.object_id()).is_some_and(|number| self.shared.iterators.lock().close(number)) {
            true => Ok(()),
            false => Err(Kind::ObjectNotExist.into()),
        }
    }
}

impl Shared {
    /// The greatest number of bindings in a reply of this upcall.
    pub fn batch(&self, cx: Upcall<'_>) -> usize {
        let each = size_of::<BindingView<'_>>() + size_of::<NameComponentView<'_>>();
        self.limits.batch.min(cx.scope().left().saturating_sub(SPARE) / each).max(1)
    }

    /// The first bindings of a context, and whether there are more.
    ///
    /// # Errors
    /// The store's refusal.
    pub fn first(&self, context: ContextId, limit: usize) -> Result<(Entries, bool)> {
        let mut entries = self.store.list(context, None, limit + 1).map_err(problem::system)?;
        let more = entries.len() > limit;
        entries.truncate(limit);
        Ok((entries, more))
    }
}

/// Bindings in the upcall's scope.
///
/// # Errors
/// NO_MEMORY when they do not fit.
pub fn views<'u>(cx: Upcall<'u>, entries: Entries) -> Result<BindingListView<'u>> {
    let entries: &'u Entries = cx.keep(entries)?;
    let name = |i: usize| -> Result<_> {
        let NameComponent { id, kind } = &entries[i].0;
        Ok(NameComponentView { id, kind })
    };
    let names: &'u [NameComponentView<'u>] = cx.scope().fill(entries.len(), name)?;
    let binding = |i: usize| -> Result<_> {
        let binding_type = match entries[i].1 {
            BindingKind::Object => BindingType::Nobject,
            BindingKind::Context => BindingType::Ncontext,
        };
        Ok(BindingView { binding_name: &names[i..=i], binding_type })
    };
    Ok(cx.scope().fill(entries.len(), binding)?)
}
