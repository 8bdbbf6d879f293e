//! The store of the naming service: a key for each context and each binding, and one for the
//! counts.
//!
//! A change compares what it was decided on, and is decided anew where that has changed meanwhile.
//! Each binding and context carries a number of the call that made it, so that a call which was
//! repeated for lack of an answer knows its own work.

use crate::cluster::Cluster;
use etcd_client::{Compare, CompareOp, GetOptions, GetResponse, KeyValue, Txn, TxnOp};
use isorb_giop::NameComponent;
use isorb_naming::Store;
use isorb_naming::binding::{Binding, ContextId, Target};
use isorb_naming::store::{Capacity, Entries, Fault, Mode, Refusal};
use isorb_rt::random_u64;
use std::sync::Arc;

/// Bindings that several naming services share.
#[derive(Debug)]
pub struct EtcdNames {
    cluster: Arc<Cluster>,
    capacity: Capacity,
    stamp: u64,
}

/// The counts of a store.
#[derive(Clone, Copy)]
struct Counts {
    stamp: u64,
    /// The number of the newest context.
    last: u64,
    contexts: u64,
    bindings: u64,
}

/// The counts, and the revision at which they were read.
struct Counted(Counts, i64);

/// A binding that is stored.
struct Stored {
    binding: Binding,
    /// The number of the call that made it.
    call: u64,
    revision: i64,
}

/// What a change is decided on.
struct View {
    counted: Counted,
    /// The revision of the context, if it exists.
    context: Option<i64>,
    bound: Option<Stored>,
}

impl Counts {
    fn encode(self) -> Vec<u8> {
        [self.stamp, self.last, self.contexts, self.bindings].map(u64::to_be_bytes).concat()
    }

    fn decode(octets: &[u8]) -> Option<Counts> {
        let octets: &[u8; 32] = octets.try_into().ok()?;
        let number = |i: usize| u64::from_be_bytes(std::array::from_fn(|octet| octets[8 * i + octet]));
        Some(Counts { stamp: number(0), last: number(1), contexts: number(2), bindings: number(3) })
    }
}

fn stored(entry: &KeyValue) -> Result<Stored, Refusal> {
    let corrupt = Refusal::Failed(Fault::Corrupt);
    let (call, octets) = entry.value().split_first_chunk().ok_or(corrupt)?;
    let binding = Binding::from_octets(octets).ok_or(corrupt)?;
    Ok(Stored { binding, call: u64::from_be_bytes(*call), revision: entry.mod_revision() })
}

fn first(read: &[GetResponse], at: usize) -> Option<&KeyValue> {
    read.get(at).and_then(|read| read.kvs().first())
}

/// A name as octets that sort as names do: a zero in the id is escaped, since one ends it.
fn name_key(name: &NameComponent) -> Vec<u8> {
    let mut key = Vec::with_capacity(name.id.len() + name.kind.len() + 2);
    for octet in name.id.bytes() {
        key.push(octet);
        if octet == 0 {
            key.push(0xff);
        }
    }
    key.extend([0, 1]);
    key.extend(name.kind.bytes());
    key
}

fn name_of(key: &[u8]) -> Option<NameComponent> {
    let mut id = Vec::new();
    let mut rest = key;
    loop {
        rest = match rest {
            [0, 1, kind @ ..] => {
                let kind = String::from_utf8(kind.to_vec()).ok()?;
                return Some(NameComponent::new(String::from_utf8(id).ok()?, kind));
            }
            [0, 0xff, more @ ..] => {
                id.push(0);
                more
            }
            [0, ..] | [] => return None,
            [octet, more @ ..] => {
                id.push(*octet);
                more
            }
        };
    }
}

fn is_at(key: &[u8], revision: i64) -> Compare {
    Compare::mod_revision(key, CompareOp::Equal, revision)
}

impl EtcdNames {
    /// The bindings in this cluster, with an empty root context if there are none yet.
    ///
    /// # Errors
    /// [`Refusal::Failed`].
    pub fn open(cluster: Arc<Cluster>, capacity: Capacity) -> Result<EtcdNames, Refusal> {
        let mut names = EtcdNames { cluster, capacity, stamp: 0 };
        let counts = Counts { stamp: random_u64(), last: ContextId::ROOT.0, contexts: 1, bindings: 0 };
        let make = Txn::new().when([is_at(&names.counts_key(), 0)]).and_then([
            TxnOp::put(names.counts_key(), counts.encode(), None),
            TxnOp::put(names.context_key(ContextId::ROOT), counts.stamp.to_be_bytes(), None),
        ]);
        names.cluster.txn(make).map_err(Refusal::Failed)?;
        let read = names.read([TxnOp::get(names.counts_key(), None)])?;
        names.stamp = names.counted(&read)?.0.stamp;
        Ok(names)
    }

    fn counts_key(&self) -> Vec<u8> {
        self.cluster.key(&[b"names", b"counts"])
    }

    fn context_key(&self, context: ContextId) -> Vec<u8> {
        self.cluster.key(&[b"names", b"context", &context.0.to_be_bytes()])
    }

    /// What the keys of all bindings of a context begin with.
    fn prefix(&self, context: ContextId) -> Vec<u8> {
        self.cluster.key(&[b"names", b"binding", &context.0.to_be_bytes(), b""])
    }

    fn binding_key(&self, context: ContextId, name: &NameComponent) -> Vec<u8> {
        [self.prefix(context), name_key(name)].concat()
    }

    fn read(&self, reads: impl Into<Vec<TxnOp>>) -> Result<Vec<GetResponse>, Refusal> {
        self.cluster.read(reads).map_err(Refusal::Failed)
    }

    fn counted(&self, read: &[GetResponse]) -> Result<Counted, Refusal> {
        let entry = first(read, 0).ok_or(Refusal::Failed(Fault::Corrupt))?;
        let counts = Counts::decode(entry.value()).ok_or(Refusal::Failed(Fault::Corrupt))?;
        Ok(Counted(counts, entry.mod_revision()))
    }

    fn view(&self, context: ContextId, name: &NameComponent) -> Result<View, Refusal> {
        let keys = [self.counts_key(), self.context_key(context), self.binding_key(context, name)];
        let read = self.read(keys.map(|key| TxnOp::get(key, None)))?;
        let bound = first(&read, 2).map(stored).transpose()?;
        Ok(View {
            counted: self.counted(&read)?,
            context: first(&read, 1).map(KeyValue::mod_revision),
            bound,
        })
    }

    /// Carries out a change where nothing that it compares has changed. Returns whether it was, and
    /// whether an earlier attempt may have been.
    fn change(&self, compares: Vec<Compare>, changes: Vec<TxnOp>) -> Result<(bool, bool), Refusal> {
        let txn = Txn::new().when(compares).and_then(changes);
        let answer = self.cluster.txn(txn).map_err(Refusal::Failed)?;
        Ok((answer.succeeded, answer.repeated))
    }

    /// New counts, instead of those that were read.
    fn count(&self, counted: &Counted, counts: Counts) -> (Compare, TxnOp) {
        let key = self.counts_key();
        (is_at(&key, counted.1), TxnOp::put(key, counts.encode(), None))
    }
}

/// What a binding is stored as.
fn value(call: u64, binding: &Binding) -> Vec<u8> {
    [&call.to_be_bytes()[..], &binding.to_octets()].concat()
}

impl Store for EtcdNames {
    fn stamp(&self) -> u64 {
        self.stamp
    }

    fn contains(&self, context: ContextId) -> Result<bool, Refusal> {
        Ok(first(&self.read([TxnOp::get(self.context_key(context), None)])?, 0).is_some())
    }

    fn lookup(&self, context: ContextId, name: &NameComponent) -> Result<Binding, Refusal> {
        let view = self.view(context, name)?;
        view.context.ok_or(Refusal::NoContext)?;
        view.bound.map(|bound| bound.binding).ok_or(Refusal::Unbound)
    }

    fn bind(
        &self,
        context: ContextId,
        name: &NameComponent,
        binding: &Binding,
        mode: Mode,
    ) -> Result<(), Refusal> {
        let call = random_u64();
        let key = self.binding_key(context, name);
        loop {
            let View { counted, context: exists, bound } = self.view(context, name)?;
            let exists = exists.ok_or(Refusal::NoContext)?;
            let mut compares = vec![is_at(&self.context_key(context), exists)];
            let mut changes = vec![TxnOp::put(key.clone(), value(call, binding), None)];
            match bound {
                Some(old) if old.call == call => return Ok(()),
                Some(_) if mode == Mode::New => return Err(Refusal::AlreadyBound),
                Some(old) if old.binding.kind != binding.kind => return Err(Refusal::OtherKind),
                Some(old) => compares.push(is_at(&key, old.revision)),
                None if counted.0.bindings >= self.capacity.bindings => return Err(Refusal::Full),
                None => {
                    let counts = Counts { bindings: counted.0.bindings + 1, ..counted.0 };
                    let (unchanged, count) = self.count(&counted, counts);
                    compares.extend([is_at(&key, 0), unchanged]);
                    changes.push(count);
                }
            }
            if self.change(compares, changes)?.0 {
                return Ok(());
            }
        }
    }

    fn unbind(&self, context: ContextId, name: &NameComponent) -> Result<(), Refusal> {
        let key = self.binding_key(context, name);
        let mut perhaps_done = false;
        loop {
            let View { counted, context: exists, bound } = self.view(context, name)?;
            exists.ok_or(Refusal::NoContext)?;
            let Some(bound) = bound else {
                return if perhaps_done { Ok(()) } else { Err(Refusal::Unbound) };
            };
            let counts = Counts { bindings: counted.0.bindings.saturating_sub(1), ..counted.0 };
            let (unchanged, count) = self.count(&counted, counts);
            let compares = vec![is_at(&key, bound.revision), unchanged];
            let (done, repeated) = self.change(compares, vec![TxnOp::delete(key.clone(), None), count])?;
            if done {
                return Ok(());
            }
            perhaps_done |= repeated;
        }
    }

    fn create(&self) -> Result<ContextId, Refusal> {
        let call = random_u64();
        let mut perhaps = Vec::new();
        loop {
            let mut keys = vec![self.counts_key()];
            keys.extend(perhaps.iter().map(|id| self.context_key(*id)));
            let read = self.read(keys.into_iter().map(|key| TxnOp::get(key, None)).collect::<Vec<_>>())?;
            for (at, id) in perhaps.iter().enumerate() {
                if first(&read, at + 1).is_some_and(|entry| entry.value() == call.to_be_bytes()) {
                    return Ok(*id);
                }
            }
            let counted = self.counted(&read)?;
            if counted.0.contexts >= self.capacity.contexts {
                return Err(Refusal::Full);
            }
            let id = ContextId(counted.0.last + 1);
            let counts = Counts { last: id.0, contexts: counted.0.contexts + 1, ..counted.0 };
            let (unchanged, count) = self.count(&counted, counts);
            let context = TxnOp::put(self.context_key(id), call.to_be_bytes(), None);
            let (done, repeated) = self.change(vec![unchanged], vec![context, count])?;
            if done {
                return Ok(id);
            }
            perhaps.extend(repeated.then_some(id));
        }
    }

    fn create_bound(&self, context: ContextId, name: &NameComponent) -> Result<ContextId, Refusal> {
        let call = random_u64();
        let key = self.binding_key(context, name);
        loop {
            let View { counted, context: exists, bound } = self.view(context, name)?;
            let exists = exists.ok_or(Refusal::NoContext)?;
            if let Some(bound) = bound {
                return match bound.binding.target {
                    Target::Local(id) if bound.call == call => Ok(id),
                    _ => Err(Refusal::AlreadyBound),
                };
            }
            let Counts { last, contexts, bindings, .. } = counted.0;
            if contexts >= self.capacity.contexts || bindings >= self.capacity.bindings {
                return Err(Refusal::Full);
            }
            let id = ContextId(last + 1);
            let counts = Counts { last: id.0, contexts: contexts + 1, bindings: bindings + 1, ..counted.0 };
            let (unchanged, count) = self.count(&counted, counts);
            let compares = vec![unchanged, is_at(&self.context_key(context), exists), is_at(&key, 0)];
            let changes = vec![
                TxnOp::put(self.context_key(id), call.to_be_bytes(), None),
                TxnOp::put(key.clone(), value(call, &Binding::context(id)), None),
                count,
            ];
            if self.change(compares, changes)?.0 {
                return Ok(id);
            }
        }
    }

    fn destroy(&self, context: ContextId) -> Result<(), Refusal> {
        let key = self.context_key(context);
        let any = GetOptions::new().with_prefix().with_limit(1);
        let mut perhaps_done = false;
        loop {
            let read = self.read([
                TxnOp::get(self.counts_key(), None),
                TxnOp::get(key.clone(), None),
                TxnOp::get(self.prefix(context), Some(any.clone())),
            ])?;
            let counted = self.counted(&read)?;
            let Some(entry) = first(&read, 1) else {
                return if perhaps_done { Ok(()) } else { Err(Refusal::NoContext) };
            };
            if first(&read, 2).is_some() {
                return Err(Refusal::NotEmpty);
            }
            let counts = Counts { contexts: counted.0.contexts.saturating_sub(1), ..counted.0 };
            // A binding that came meanwhile has changed the counts.
            let (unchanged, count) = self.count(&counted, counts);
            let compares = vec![unchanged, is_at(&key, entry.mod_revision())];
            let (done, repeated) = self.change(compares, vec![TxnOp::delete(key.clone(), None), count])?;
            if done {
                return Ok(());
            }
            perhaps_done |= repeated;
        }
    }

    fn list(
        &self,
        context: ContextId,
        after: Option<&NameComponent>,
        limit: usize,
    ) -> Result<Entries, Refusal> {
        let prefix = self.prefix(context);
        // The first key behind the prefix, which ends in a slash.
        let mut end = prefix.clone();
        end.pop();
        end.push(b'/' + 1);
        let start =
            after.map_or(prefix.clone(), |name| [&self.binding_key(context, name)[..], &[0]].concat());
        // etcd takes 0 for no limit.
        let range = GetOptions::new().with_range(end).with_limit(limit.clamp(1, 1 << 20) as i64);
        let read =
            self.read([TxnOp::get(self.context_key(context), None), TxnOp::get(start, Some(range))])?;
        first(&read, 0).ok_or(Refusal::NoContext)?;
        let entries = read[1].kvs().iter().take(limit).map(|entry| {
            let name = name_of(&entry.key()[prefix.len()..]).ok_or(Refusal::Failed(Fault::Corrupt))?;
            Ok((name, stored(entry)?.binding.kind))
        });
        entries.collect()
    }
}
