//! Which client made a binding or context, where each client has a limit of them.
//!
//! Only what was made since the service started has an owner: the clients of a store's earlier
//! process are not known.

use crate::binding::ContextId;
use crate::store::{Mode, Store};
use crate::tree::{self, Failure, Progress};
use isorb::{Result, Upcall};
use isorb_access::{PeerLimit, Share, is_share_of, take_share};
use isorb_giop::NameComponent as Step;
use isorb_rt::sync::PiMutex;
use std::collections::HashMap;

/// What a client made.
#[derive(Debug, PartialEq, Eq, Hash)]
enum Owned {
    Context(ContextId),
    Binding(ContextId, Step),
}

/// The shares of clients. With a limit, changes run one after the other, under its lock: so a name
/// and its owner are of one moment.
pub struct Owners {
    limit: PeerLimit,
    shares: PiMutex<HashMap<Owned, Share>>,
}

impl Owners {
    /// At most so many bindings and contexts for each client; 0 for no limit.
    pub fn new(most: usize) -> Owners {
        let limit = PeerLimit::new("bindings and contexts", "--max-peer-bindings", most);
        Owners { limit, shares: PiMutex::default() }
    }

    /// Runs a change that binds `name` for the caller. A name that another client bound is the
    /// caller's afterwards; one of its own counts once.
    ///
    /// # Errors
    /// IMP_LIMIT: the caller has as many as it may; the change is not made.
    pub fn bind<T>(
        &self,
        cx: Upcall<'_>,
        store: &dyn Store,
        (start, name): (ContextId, &[Step]),
        mode: Mode,
        change: impl FnOnce() -> Result<Progress<T>, Failure>,
    ) -> Result<Result<Progress<T>, Failure>> {
        if self.limit.is_none() {
            return Ok(change());
        }
        let mut shares = self.shares.lock();
        // A name that leads nowhere, or elsewhere, makes nothing here.
        let Some(owned) = binding(store, start, name) else { return Ok(change()) };
        let is_own = mode == Mode::Replace && shares.get(&owned).is_some_and(|share| is_share_of(cx, share));
        let share = if is_own { None } else { Some(take_share(cx, &self.limit)?) };
        let changed = change();
        if let (Ok(Progress::Done(_)), Some(share)) = (&changed, share) {
            drop(shares.insert(owned, share));
        }
        Ok(changed)
    }

    /// As [`bind`](Self::bind), for a change that makes the context as well.
    ///
    /// # Errors
    /// As [`bind`](Self::bind).
    pub fn bind_new_context(
        &self,
        cx: Upcall<'_>,
        store: &dyn Store,
        start: ContextId,
        name: &[Step],
    ) -> Result<Result<Progress<ContextId>, Failure>> {
        let share = take_share(cx, &self.limit)?;
        let made =
            self.bind(cx, store, (start, name), Mode::New, || tree::bind_new_context(store, start, name))?;
        if let Ok(Progress::Done(context)) = &made {
            self.keep(Owned::Context(*context), share);
        }
        Ok(made)
    }

    /// Makes a context without a binding for the caller.
    ///
    /// # Errors
    /// As [`bind`](Self::bind).
    pub fn new_context<E>(
        &self,
        cx: Upcall<'_>,
        make: impl FnOnce() -> Result<ContextId, E>,
    ) -> Result<Result<ContextId, E>> {
        let share = take_share(cx, &self.limit)?;
        let made = make();
        if let Ok(context) = &made {
            self.keep(Owned::Context(*context), share);
        }
        Ok(made)
    }

    /// Runs a change that removes the binding of `name`.
    pub fn unbind(
        &self,
        store: &dyn Store,
        start: ContextId,
        name: &[Step],
    ) -> Result<Progress<()>, Failure> {
        if self.limit.is_none() {
            return tree::unbind(store, start, name);
        }
        let mut shares = self.shares.lock();
        let owned = binding(store, start, name);
        let removed = tree::unbind(store, start, name)?;
        if let Some(owned) = owned {
            drop(shares.remove(&owned));
        }
        Ok(removed)
    }

    /// Records that a context is gone.
    pub fn destroyed(&self, context: ContextId) {
        if !self.limit.is_none() {
            drop(self.shares.lock().remove(&Owned::Context(context)));
        }
    }

    fn keep(&self, owned: Owned, share: Share) {
        if !self.limit.is_none() {
            drop(self.shares.lock().insert(owned, share));
        }
    }
}

/// The binding that a name ends in; `None` if its path does not lead to a context of this service.
fn binding(store: &dyn Store, start: ContextId, name: &[Step]) -> Option<Owned> {
    let (last, before) = name.split_last()?;
    let context = match before {
        [] => start,
        _ => match tree::resolve_context(store, start, before) {
            Ok(Progress::Done(context)) => context,
            _ => return None,
        },
    };
    Some(Owned::Binding(context, last.clone()))
}
