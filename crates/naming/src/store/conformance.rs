//! The conformance suite of stores, for stores outside of this crate too (feature `conformance`).

use super::{Capacity, Mode, Refusal, Store};
use crate::binding::{Binding, BindingKind, ContextId, Target};
use isorb_giop::NameComponent;
use std::sync::atomic::{AtomicUsize, Ordering};

const ROOT: ContextId = ContextId::ROOT;

fn name(text: &str) -> NameComponent {
    let (id, kind) = text.split_once('.').unwrap_or((text, ""));
    NameComponent::new(id, kind)
}

fn object(octets: &[u8]) -> Binding {
    Binding { kind: BindingKind::Object, target: Target::Reference(octets.into()) }
}

fn bindings(store: &dyn Store) {
    let (a, one, two) = (name("a"), object(b"one"), object(b"two"));
    assert_eq!(store.lookup(ROOT, &a), Err(Refusal::Unbound));
    assert_eq!(store.unbind(ROOT, &a), Err(Refusal::Unbound));
    assert_eq!(store.bind(ROOT, &a, &one, Mode::New), Ok(()));
    assert_eq!(store.bind(ROOT, &a, &two, Mode::New), Err(Refusal::AlreadyBound));
    assert_eq!(store.lookup(ROOT, &a), Ok(one));
    assert_eq!(store.bind(ROOT, &a, &two, Mode::Replace), Ok(()));
    assert_eq!(store.lookup(ROOT, &a), Ok(two));
    let context = Binding { kind: BindingKind::Context, target: Target::Reference(b"far".as_slice().into()) };
    assert_eq!(store.bind(ROOT, &a, &context, Mode::Replace), Err(Refusal::OtherKind));
    assert_eq!(store.bind(ROOT, &name("f"), &context, Mode::Replace), Ok(()));
    assert_eq!(store.lookup(ROOT, &name("f")), Ok(context));
    assert_eq!(store.unbind(ROOT, &a), Ok(()));
    assert_eq!(store.lookup(ROOT, &a), Err(Refusal::Unbound));
}

fn names_are_pairs(store: &dyn Store) {
    let names = ["a", "a.b", ".b", "ab", ".", "A", "ü.世", "a\u{0}.x", "a\u{0}x"].map(name);
    for (i, name) in names.iter().enumerate() {
        assert_eq!(store.bind(ROOT, name, &object(&[i as u8]), Mode::New), Ok(()), "{name:?}");
    }
    for (i, name) in names.iter().enumerate() {
        assert_eq!(store.lookup(ROOT, name), Ok(object(&[i as u8])), "{name:?}");
    }
    let mut sorted = names.to_vec();
    sorted.sort();
    let listed = store.list(ROOT, None, 100).unwrap();
    assert_eq!(listed.into_iter().map(|(name, _)| name).collect::<Vec<_>>(), sorted);
}

fn contexts(store: &dyn Store) {
    let loose = store.create().unwrap();
    let bound = store.create_bound(ROOT, &name("c")).unwrap();
    assert!(loose != bound && loose != ROOT && bound != ROOT);
    assert_eq!(store.lookup(ROOT, &name("c")), Ok(Binding::context(bound)));
    assert_eq!(store.create_bound(ROOT, &name("c")), Err(Refusal::AlreadyBound));
    // Contexts have separate names.
    store.bind(loose, &name("x"), &object(b"1"), Mode::New).unwrap();
    assert_eq!(store.lookup(bound, &name("x")), Err(Refusal::Unbound));
    assert_eq!(store.list(bound, None, 10), Ok(vec![]));
    assert_eq!(store.destroy(loose), Err(Refusal::NotEmpty));
    store.unbind(loose, &name("x")).unwrap();
    assert_eq!(store.destroy(loose), Ok(()));
    assert_eq!(store.contains(loose), Ok(false));
    assert_eq!(store.contains(bound), Ok(true));
    // A binding to a destroyed context stays.
    assert_eq!(store.destroy(bound), Ok(()));
    assert_eq!(store.lookup(ROOT, &name("c")), Ok(Binding::context(bound)));
    // Numbers are not reused.
    let next = store.create().unwrap();
    assert!(next > bound && next > loose);
}

fn what_does_not_exist(store: &dyn Store) {
    let (none, a) = (ContextId(77), name("a"));
    assert_eq!(store.contains(none), Ok(false));
    assert_eq!(store.lookup(none, &a), Err(Refusal::NoContext));
    assert_eq!(store.bind(none, &a, &object(b""), Mode::New), Err(Refusal::NoContext));
    assert_eq!(store.bind(none, &a, &object(b""), Mode::Replace), Err(Refusal::NoContext));
    assert_eq!(store.unbind(none, &a), Err(Refusal::NoContext));
    assert_eq!(store.create_bound(none, &a), Err(Refusal::NoContext));
    assert_eq!(store.destroy(none), Err(Refusal::NoContext));
    // The number of the next context.
    assert_eq!(store.create_bound(ContextId(1), &a), Err(Refusal::NoContext));
    assert_eq!(store.list(none, None, 1), Err(Refusal::NoContext));
}

fn lists_go_on(store: &dyn Store) {
    let other = store.create().unwrap();
    for i in 0..25 {
        store.bind(ROOT, &name(&format!("n{i:02}")), &object(b""), Mode::New).unwrap();
        store.bind(other, &name(&format!("o{i:02}")), &object(b""), Mode::New).unwrap();
    }
    for context in [ROOT, other] {
        let mut seen: Vec<NameComponent> = Vec::new();
        loop {
            let next = store.list(context, seen.last(), 4).unwrap();
            assert!(next.len() <= 4);
            if next.is_empty() {
                break;
            }
            seen.extend(next.into_iter().map(|(name, _)| name));
        }
        assert_eq!(seen.len(), 25);
        assert!(seen.is_sorted());
    }
    assert_eq!(store.list(ROOT, None, 0), Ok(vec![]));
    // A listing continues after a name that was unbound meanwhile.
    store.unbind(ROOT, &name("n03")).unwrap();
    assert_eq!(store.list(ROOT, Some(&name("n03")), 1).unwrap()[0].0, name("n04"));
}

fn limits(store: &dyn Store) {
    // Of 3 contexts and 2 bindings: `FEW`.
    let a = store.create_bound(ROOT, &name("a")).unwrap();
    store.create().unwrap();
    assert_eq!(store.create(), Err(Refusal::Full));
    assert_eq!(store.create_bound(ROOT, &name("b")), Err(Refusal::Full));
    assert_eq!(store.create_bound(ROOT, &name("a")), Err(Refusal::AlreadyBound));
    assert_eq!(store.lookup(ROOT, &name("b")), Err(Refusal::Unbound));
    store.bind(a, &name("x"), &object(b""), Mode::New).unwrap();
    assert_eq!(store.bind(a, &name("y"), &object(b""), Mode::New), Err(Refusal::Full));
    assert_eq!(store.bind(a, &name("x"), &object(b"1"), Mode::Replace), Ok(()));
    store.unbind(a, &name("x")).unwrap();
    assert_eq!(store.bind(ROOT, &name("y"), &object(b""), Mode::Replace), Ok(()));
}

/// Of several threads that bind the same names, exactly one wins each.
fn threads(store: &dyn Store) {
    let wins = AtomicUsize::new(0);
    std::thread::scope(|threads| {
        for thread in 0..4u8 {
            let wins = &wins;
            threads.spawn(move || {
                for i in 0..10 {
                    match store.bind(ROOT, &name(&format!("t{i}")), &object(&[thread]), Mode::New) {
                        Ok(()) => _ = wins.fetch_add(1, Ordering::Relaxed),
                        Err(refusal) => assert_eq!(refusal, Refusal::AlreadyBound),
                    }
                }
            });
        }
    });
    assert_eq!(wins.into_inner(), 10);
}

/// A rule: its name, its test, and the limits of the fresh store that it takes.
pub type Rule = (&'static str, fn(&dyn Store), Capacity);

const FEW: Capacity = Capacity { contexts: 3, bindings: 2 };
const MANY: Capacity = Capacity { contexts: 1_000_000, bindings: 1_000_000 };

macro_rules! conformance {
    ($($test:ident: $capacity:expr;)*) => {
        /// All rules.
        pub const RULES: &[Rule] = &[$((stringify!($test), $test, $capacity)),*];

        #[cfg(test)]
        mod stores {
            use super::{FEW, MANY};
            use crate::store::{FileStore, MemoryStore};

            $(#[test]
            fn $test() {
                super::$test(&MemoryStore::with_capacity($capacity));
                let folder = isorb_testkit::TempFolder::new();
                let store = FileStore::open_with_capacity(folder.file("store"), $capacity);
                super::$test(&store.unwrap());
            })*
        }
    };
}

conformance! {
    bindings: MANY;
    names_are_pairs: MANY;
    contexts: MANY;
    what_does_not_exist: MANY;
    lists_go_on: MANY;
    limits: FEW;
    threads: MANY;
}
