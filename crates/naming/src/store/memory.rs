//! A store that lasts as long as the process.

use super::{Capacity, Entries, Mode, Refusal, Store, new_stamp};
use crate::binding::{Binding, ContextId};
use isorb_giop::NameComponent;
use isorb_rt::sync::PiMutex;
use std::collections::BTreeMap;
use std::ops::Bound;

/// Keeps bindings in memory: for tests, and for systems in which servers bind anew at each start.
#[derive(Debug)]
pub struct MemoryStore {
    stamp: u64,
    capacity: Capacity,
    body: PiMutex<Body>,
}

#[derive(Debug, Default)]
struct Body {
    contexts: BTreeMap<ContextId, BTreeMap<NameComponent, Binding>>,
    bindings: u64,
    last: u64,
}

impl MemoryStore {
    /// A store with an empty root context.
    pub fn new() -> MemoryStore {
        MemoryStore::with_capacity(Capacity::default())
    }

    /// The same with limits.
    pub fn with_capacity(capacity: Capacity) -> MemoryStore {
        let mut body = Body::default();
        body.contexts.insert(ContextId::ROOT, BTreeMap::new());
        MemoryStore { stamp: new_stamp(), capacity, body: PiMutex::new(body) }
    }
}

impl Default for MemoryStore {
    fn default() -> MemoryStore {
        MemoryStore::new()
    }
}

impl Body {
    fn context(&mut self, context: ContextId) -> Result<&mut BTreeMap<NameComponent, Binding>, Refusal> {
        self.contexts.get_mut(&context).ok_or(Refusal::NoContext)
    }

    fn create(&mut self, capacity: &Capacity) -> Result<ContextId, Refusal> {
        if self.contexts.len() as u64 >= capacity.contexts {
            return Err(Refusal::Full);
        }
        self.last += 1;
        let id = ContextId(self.last);
        self.contexts.insert(id, BTreeMap::new());
        Ok(id)
    }
}

impl Store for MemoryStore {
    fn stamp(&self) -> u64 {
        self.stamp
    }

    fn contains(&self, context: ContextId) -> Result<bool, Refusal> {
        Ok(self.body.lock().contexts.contains_key(&context))
    }

    fn lookup(&self, context: ContextId, name: &NameComponent) -> Result<Binding, Refusal> {
        self.body.lock().context(context)?.get(name).cloned().ok_or(Refusal::Unbound)
    }

    fn bind(
        &self,
        context: ContextId,
        name: &NameComponent,
        binding: &Binding,
        mode: Mode,
    ) -> Result<(), Refusal> {
        let mut body = self.body.lock();
        let full = body.bindings >= self.capacity.bindings;
        let bindings = body.context(context)?;
        match (bindings.get_mut(name), mode) {
            (Some(_), Mode::New) => Err(Refusal::AlreadyBound),
            (Some(old), Mode::Replace) if old.kind != binding.kind => Err(Refusal::OtherKind),
            (Some(old), Mode::Replace) => {
                *old = binding.clone();
                Ok(())
            }
            (None, _) if full => Err(Refusal::Full),
            (None, _) => {
                bindings.insert(name.clone(), binding.clone());
                body.bindings += 1;
                Ok(())
            }
        }
    }

    fn unbind(&self, context: ContextId, name: &NameComponent) -> Result<(), Refusal> {
        let mut body = self.body.lock();
        body.context(context)?.remove(name).ok_or(Refusal::Unbound)?;
        body.bindings -= 1;
        Ok(())
    }

    fn create(&self) -> Result<ContextId, Refusal> {
        self.body.lock().create(&self.capacity)
    }

    fn create_bound(&self, context: ContextId, name: &NameComponent) -> Result<ContextId, Refusal> {
        let mut body = self.body.lock();
        if body.context(context)?.contains_key(name) {
            return Err(Refusal::AlreadyBound);
        }
        if body.bindings >= self.capacity.bindings {
            return Err(Refusal::Full);
        }
        let id = body.create(&self.capacity)?;
        body.context(context)?.insert(name.clone(), Binding::context(id));
        body.bindings += 1;
        Ok(id)
    }

    fn destroy(&self, context: ContextId) -> Result<(), Refusal> {
        let mut body = self.body.lock();
        if !body.context(context)?.is_empty() {
            return Err(Refusal::NotEmpty);
        }
        body.contexts.remove(&context);
        Ok(())
    }

    fn list(
        &self,
        context: ContextId,
        after: Option<&NameComponent>,
        limit: usize,
    ) -> Result<Entries, Refusal> {
        let mut body = self.body.lock();
        let bindings = body.context(context)?;
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        let range = bindings.range::<NameComponent, _>((start, Bound::Unbounded));
        Ok(range.take(limit).map(|(name, binding)| (name.clone(), binding.kind)).collect())
    }
}
