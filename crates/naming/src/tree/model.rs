//! The tree against an oracle: random operations on both stores and on a model that knows only sets
//! of paths.

use super::{Failure, NotFoundReason, Progress, bind, bind_new_context, resolve, unbind};
use crate::binding::{Binding, BindingKind, ContextId, Target};
use crate::store::{FileStore, MemoryStore, Mode, Refusal, Store};
use isorb_giop::NameComponent;
use isorb_testkit::TempFolder;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Bindings as a list of (context, step, binding), looked through from the start each time.
#[derive(Default)]
struct Oracle {
    alive: Vec<u64>,
    made: u64,
    bound: BTreeMap<(u64, NameComponent), Binding>,
}

type Outcome = Result<Progress<Option<Target>>, Failure>;

impl Oracle {
    fn new() -> Oracle {
        Oracle { alive: vec![0], ..Oracle::default() }
    }

    /// The context that holds the last step, or why there is none; by recursion on the name.
    fn holder(&self, context: u64, name: &[NameComponent], depth: usize) -> Result<u64, Outcome> {
        if !self.alive.contains(&context) {
            return Err(Err(match depth {
                0 => Failure::NoContext,
                _ => Failure::Dangling { context: ContextId(context), steps: depth },
            }));
        }
        if name.len() == 1 {
            return Ok(context);
        }
        let fail = |why| Err(Err(Failure::NotFound { why, steps: depth }));
        match self.bound.get(&(context, name[0].clone())) {
            None => fail(NotFoundReason::MissingNode),
            Some(binding) if binding.kind == BindingKind::Object => fail(NotFoundReason::NotContext),
            Some(Binding { target: Target::Local(next), .. }) => self.holder(next.0, &name[1..], depth + 1),
            Some(Binding { target: Target::Reference(reference), .. }) => {
                Err(Ok(Progress::Onward { context: reference.clone(), steps: depth + 1 }))
            }
        }
    }

    fn run(&mut self, start: u64, name: &[NameComponent], act: &Act) -> Outcome {
        let Some(last) = name.last() else { return Err(Failure::InvalidName) };
        let holder = match self.holder(start, name, 0) {
            Ok(holder) => holder,
            Err(outcome) => return outcome,
        };
        let steps = name.len() - 1;
        let key = (holder, last.clone());
        let old = self.bound.get(&key).cloned();
        let missing = Failure::NotFound { why: NotFoundReason::MissingNode, steps };
        match act {
            Act::Resolve => old.ok_or(missing).map(|old| Progress::Done(Some(old.target))),
            Act::Unbind => {
                self.bound.remove(&key).ok_or(missing)?;
                Ok(Progress::Done(None))
            }
            Act::Bind(_, Mode::New) | Act::NewContext if old.is_some() => Err(Failure::AlreadyBound),
            Act::Bind(new, _) if old.as_ref().is_some_and(|old| old.kind != new.kind) => {
                let why = if new.kind == BindingKind::Object {
                    NotFoundReason::NotObject
                } else {
                    NotFoundReason::NotContext
                };
                Err(Failure::NotFound { why, steps })
            }
            Act::Bind(new, _) => {
                self.bound.insert(key, new.clone());
                Ok(Progress::Done(None))
            }
            Act::NewContext => {
                self.made += 1;
                self.alive.push(self.made);
                let new = ContextId(self.made);
                self.bound.insert(key, Binding::context(new));
                Ok(Progress::Done(Some(Target::Local(new))))
            }
            Act::Destroy | Act::List(_) => unreachable!(),
        }
    }

    fn destroy(&mut self, context: u64) -> Result<(), Refusal> {
        if !self.alive.contains(&context) {
            return Err(Refusal::NoContext);
        }
        if self.bound.keys().any(|(holder, _)| *holder == context) {
            return Err(Refusal::NotEmpty);
        }
        self.alive.retain(|alive| *alive != context);
        Ok(())
    }

    fn list(&self, context: u64) -> Result<Vec<(NameComponent, BindingKind)>, Refusal> {
        if !self.alive.contains(&context) {
            return Err(Refusal::NoContext);
        }
        let mine = self.bound.iter().filter(|((holder, _), _)| *holder == context);
        Ok(mine.map(|((_, step), binding)| (step.clone(), binding.kind)).collect())
    }
}

#[derive(Clone, Debug)]
enum Act {
    Resolve,
    Unbind,
    Bind(Binding, Mode),
    NewContext,
    Destroy,
    List(usize),
}

fn run(store: &dyn Store, start: u64, name: &[NameComponent], act: &Act) -> Outcome {
    fn map<T>(progress: Progress<T>, value: impl FnOnce(T) -> Option<Target>) -> Progress<Option<Target>> {
        match progress {
            Progress::Done(done) => Progress::Done(value(done)),
            Progress::Onward { context, steps } => Progress::Onward { context, steps },
        }
    }
    let start = ContextId(start);
    match act {
        Act::Resolve => resolve(store, start, name).map(|progress| map(progress, Some)),
        Act::Unbind => unbind(store, start, name).map(|progress| map(progress, |()| None)),
        Act::Bind(new, mode) => bind(store, start, name, new, *mode).map(|progress| map(progress, |()| None)),
        Act::NewContext => {
            bind_new_context(store, start, name).map(|progress| map(progress, |id| Some(Target::Local(id))))
        }
        Act::Destroy | Act::List(_) => unreachable!(),
    }
}

fn list_all(
    store: &dyn Store,
    context: u64,
    by: usize,
) -> Result<Vec<(NameComponent, BindingKind)>, Refusal> {
    let mut all: Vec<(NameComponent, BindingKind)> = Vec::new();
    loop {
        let next = store.list(ContextId(context), all.last().map(|(name, _)| name), by)?;
        if next.is_empty() {
            return Ok(all);
        }
        all.extend(next);
    }
}

fn acts() -> impl Strategy<Value = Act> {
    let target = prop_oneof![
        3 => (0u64..6).prop_map(|id| Target::Local(ContextId(id))),
        1 => (0u8..3).prop_map(|octet| Target::Reference([octet].into())),
    ];
    let kind = prop_oneof![1 => Just(BindingKind::Object), 2 => Just(BindingKind::Context)];
    let mode = prop_oneof![Just(Mode::New), Just(Mode::Replace)];
    let binding = (kind, target).prop_map(|(kind, target)| Binding { kind, target });
    prop_oneof![
        3 => Just(Act::Resolve),
        2 => Just(Act::Unbind),
        4 => (binding, mode).prop_map(|(binding, mode)| Act::Bind(binding, mode)),
        3 => Just(Act::NewContext),
        2 => Just(Act::Destroy),
        1 => (1usize..4).prop_map(Act::List),
    ]
}

fn names() -> impl Strategy<Value = Vec<NameComponent>> {
    let step = ("[ab]", "k?").prop_map(|(id, kind)| NameComponent::new(id, kind));
    proptest::collection::vec(step, 0..5)
}

fn check(store: &dyn Store, script: &[(u64, Vec<NameComponent>, Act)]) -> Result<(), TestCaseError> {
    let mut oracle = Oracle::new();
    for (start, name, act) in script {
        match act {
            Act::Destroy => {
                prop_assert_eq!(store.destroy(ContextId(*start)), oracle.destroy(*start));
            }
            Act::List(by) => prop_assert_eq!(list_all(store, *start, *by), oracle.list(*start)),
            act => prop_assert_eq!(run(store, *start, name, act), oracle.run(*start, name, act)),
        }
    }
    for context in 0..10 {
        prop_assert_eq!(list_all(store, context, 100), oracle.list(context));
    }
    Ok(())
}

proptest! {
    #[test]
    fn memory(script in proptest::collection::vec((0u64..5, names(), acts()), 0..60)) {
        check(&MemoryStore::new(), &script)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn file(script in proptest::collection::vec((0u64..5, names(), acts()), 0..40)) {
        let folder = TempFolder::new();
        check(&FileStore::open(folder.file("store")).unwrap(), &script)?;
    }
}
