//! The service as clients use it, over TCP between two ORBs.

mod common;

use common::{Served, name, object};
use isorb::{Kind, Reference};
use isorb_naming::cos_naming::naming_context::{BindError, DestroyError, NotFoundReason, RebindError};
use isorb_naming::cos_naming::naming_context_ext::{ResolveStrError, ToNameError, ToStringError, ToUrlError};
use isorb_naming::cos_naming::{BindingType, Name, NameComponent, NamingContextExtRef, NamingContextRef};
use isorb_naming::{FileStore, Limits, MemoryStore};
use isorb_testkit::TempFolder;
use std::sync::Arc;
use std::time::Duration;

fn not_found<T: std::fmt::Debug>(result: Result<T, RebindError>) -> (NotFoundReason, Name) {
    match result {
        Err(RebindError::NotFound(exception)) => (exception.why, exception.rest_of_name),
        other => panic!("not NotFound: {other:?}"),
    }
}

fn bind_not_found(result: Result<(), BindError>) -> (NotFoundReason, Name) {
    match result {
        Err(BindError::NotFound(exception)) => (exception.why, exception.rest_of_name),
        other => panic!("not NotFound: {other:?}"),
    }
}

#[test]
fn objects_by_name() {
    let served = Served::memory();
    let root = served.far();
    let orb = root.object().orb().clone();
    let (one, two) = (object(&orb, 1), object(&orb, 2));
    root.bind(&name("t1.probe"), &one).unwrap();
    assert_eq!(root.resolve(&name("t1.probe")).unwrap().unwrap().ior(), one.ior());
    assert!(matches!(root.bind(&name("t1.probe"), &two), Err(BindError::AlreadyBound(_))));
    root.rebind(&name("t1.probe"), &two).unwrap();
    assert_eq!(root.resolve(&name("t1.probe")).unwrap().unwrap().ior(), two.ior());
    assert_eq!(not_found(root.resolve(&name("t1"))), (NotFoundReason::MissingNode, name("t1")));
    root.unbind(&name("t1.probe")).unwrap();
    assert_eq!(not_found(root.unbind(&name("t1.probe"))), (NotFoundReason::MissingNode, name("t1.probe")));
    // Nil may be bound, except as a context.
    root.bind(&name("nil"), None::<&isorb::Object>).unwrap();
    assert_eq!(root.resolve(&name("nil")).unwrap(), None);
    match root.bind_context(&name("nowhere"), None::<&NamingContextRef>) {
        Err(BindError::System(exception)) => assert_eq!(exception.kind, Kind::BadParam),
        other => panic!("{other:?}"),
    }
}

#[test]
fn contexts_and_their_exceptions() {
    let served = Served::memory();
    let root = served.far();
    let orb = root.object().orb().clone();
    let one = object(&orb, 1);
    let a = root.bind_new_context(&name("a")).unwrap().unwrap();
    root.bind_new_context(&name("a/b")).unwrap();
    assert!(matches!(root.bind_new_context(&name("a/b")), Err(BindError::AlreadyBound(_))));
    root.bind(&name("a/b/c"), &one).unwrap();
    assert_eq!(a.resolve(&name("b/c")).unwrap().unwrap().ior(), one.ior());

    // The first component of the rest is the wrong one.
    let at = |text: &str| not_found(root.resolve(&name(text)));
    assert_eq!(at("a/x/y/z"), (NotFoundReason::MissingNode, name("x/y/z")));
    assert_eq!(at("a/b/c/d"), (NotFoundReason::NotContext, name("c/d")));
    assert_eq!(bind_not_found(root.bind(&name("x/y"), &one)), (NotFoundReason::MissingNode, name("x/y")));
    // Rebinding keeps the kind of a binding.
    assert_eq!(not_found(root.rebind(&name("a/b"), &one)), (NotFoundReason::NotObject, name("b")));
    assert_eq!(not_found(root.rebind_context(&name("a/b/c"), &a)), (NotFoundReason::NotContext, name("c")));
    // A context that is bound with `bind` is an object: no path continues through it.
    root.bind(&name("leaf"), &a).unwrap();
    assert_eq!(not_found(root.resolve(&name("leaf/b"))), (NotFoundReason::NotContext, name("leaf/b")));
    root.bind_context(&name("link"), &a).unwrap();
    assert_eq!(root.resolve(&name("link/b/c")).unwrap().unwrap().ior(), one.ior());
    let other = root.new_context().unwrap().unwrap();
    root.rebind_context(&name("link"), &other).unwrap();
    assert_eq!(not_found(root.resolve(&name("link/b"))), (NotFoundReason::MissingNode, name("b")));

    assert!(matches!(root.resolve(&Name::new()), Err(RebindError::InvalidName(_))));
    assert!(matches!(root.bind(&Name::new(), &one), Err(BindError::InvalidName(_))));
    let long = vec![NameComponent { id: "x".repeat(1025), kind: String::new() }];
    assert!(matches!(root.resolve(&long), Err(RebindError::InvalidName(_))));
}

#[test]
fn destroyed_contexts() {
    let served = Served::memory();
    let root = served.far();
    let a = root.bind_new_context(&name("a")).unwrap().unwrap();
    a.bind(&name("x"), &object(root.object().orb(), 1)).unwrap();
    assert!(matches!(a.destroy(), Err(DestroyError::NotEmpty(_))));
    a.unbind(&name("x")).unwrap();
    assert!(!a.object().non_existent().unwrap());
    a.destroy().unwrap();
    assert!(a.object().non_existent().unwrap());
    match a.resolve(&name("x")) {
        Err(RebindError::System(exception)) => assert_eq!(exception.kind, Kind::ObjectNotExist),
        other => panic!("{other:?}"),
    }
    // The binding stays without an object.
    assert_eq!(root.resolve(&name("a")).unwrap().unwrap().ior(), a.object().ior());
    match root.resolve(&name("a/x/y")) {
        Err(RebindError::CannotProceed(exception)) => {
            assert_eq!(exception.cxt.unwrap().object().ior(), a.object().ior());
            assert_eq!(exception.rest_of_name, name("x/y"));
        }
        other => panic!("{other:?}"),
    }
    match root.destroy() {
        Err(DestroyError::System(exception)) => assert_eq!(exception.kind, Kind::NoPermission),
        other => panic!("{other:?}"),
    }
}

#[test]
fn lists_and_iterators() {
    let limits = Limits { batch: 10, iterators: 2, ..Limits::default() };
    let served = Served::start(Arc::new(MemoryStore::new()), limits, 0);
    let root = served.far();
    for i in 0..35 {
        root.bind(&name(&format!("n{i:02}.k")), &object(root.object().orb(), i)).unwrap();
    }
    root.bind_new_context(&name("z")).unwrap();

    // More than a reply may have.
    let (first, iterator) = root.list(1_000).unwrap();
    assert_eq!(first.len(), 10);
    assert_eq!((&first[3].binding_name, first[3].binding_type), (&name("n03.k"), BindingType::Nobject));
    let iterator = iterator.unwrap();
    let (more, one) = iterator.next_one().unwrap();
    assert!(more);
    assert_eq!(one.binding_name, name("n10.k"));
    let mut rest = Vec::new();
    loop {
        let (more, next) = iterator.next_n(8).unwrap();
        assert_eq!(more, !next.is_empty());
        assert!(next.len() <= 8);
        if !more {
            break;
        }
        rest.extend(next);
    }
    assert_eq!(rest.len(), 25);
    assert_eq!((&rest[24].binding_name, rest[24].binding_type), (&name("z"), BindingType::Ncontext));
    assert!(!iterator.next_one().unwrap().0);
    assert_eq!(iterator.next_n(0).unwrap_err().kind, Kind::BadParam);
    iterator.destroy().unwrap();
    assert_eq!(iterator.next_one().unwrap_err().kind, Kind::ObjectNotExist);

    // Zero at first: all bindings from the iterator. There is no iterator if nothing is left.
    let (none, iterator) = root.list(0).unwrap();
    assert!(none.is_empty());
    assert_eq!(iterator.unwrap().next_n(3).unwrap().1.len(), 3);
    let (none, iterator) = root.bind_new_context(&name("empty")).unwrap().unwrap().list(0).unwrap();
    assert!(none.is_empty() && iterator.is_none());

    // The least recently used one is removed.
    let [a, b, c] = [(); 3].map(|()| root.list(1).unwrap().1.unwrap());
    assert!(a.object().non_existent().unwrap());
    assert!(b.next_one().unwrap().0 && c.next_one().unwrap().0);
}

#[test]
fn idle_iterators_are_forgotten() {
    let limits = Limits { iterator_idle: Duration::ZERO, ..Limits::default() };
    let served = Served::start(Arc::new(MemoryStore::new()), limits, 0);
    let root = served.far();
    root.bind_new_context(&name("a")).unwrap();
    let iterator = root.list(0).unwrap().1.unwrap();
    assert_eq!(iterator.next_one().unwrap_err().kind, Kind::ObjectNotExist);
}

#[test]
fn names_as_text() {
    let served = Served::memory();
    let root = served.far();
    let one = object(root.object().orb(), 1);
    root.bind_new_context(&name("lab")).unwrap();
    root.bind(&name(r"lab/grün\.1.probe"), &one).unwrap();
    assert_eq!(root.to_string(&name(r"lab/grün\.1.probe")).unwrap(), r"lab/grün\.1.probe");
    assert_eq!(root.to_name("a/b.c").unwrap(), name("a/b.c"));
    assert_eq!(root.resolve_str(r"lab/grün\.1.probe").unwrap().unwrap().ior(), one.ior());
    assert!(matches!(root.to_name("a//b"), Err(ToNameError::InvalidName(_))));
    assert!(matches!(root.to_string(&Name::new()), Err(ToStringError::InvalidName(_))));
    assert!(matches!(root.resolve_str(""), Err(ResolveStrError::InvalidName(_))));
    assert!(matches!(root.resolve_str("lab/none"), Err(ResolveStrError::NotFound(_))));
    assert!(matches!(root.to_url("", "a"), Err(ToUrlError::InvalidAddress(_))));
    assert!(matches!(root.to_url(":h", "a.b.c"), Err(ToUrlError::InvalidName(_))));
    let url = root.to_url(&format!(":127.0.0.1:{}", served.port), r"lab/grün\.1.probe").unwrap();
    let found = common::client().string_to_object(&url).unwrap();
    assert_eq!(found.ior(), one.ior());
}

#[test]
fn names_go_on_elsewhere() {
    let follow = Limits { follow: true, ..Limits::default() };
    let [here, there] = [(); 2].map(|()| Served::start(Arc::new(MemoryStore::new()), follow.clone(), 0));
    let (near, far) = (here.far(), there.far());
    let one = object(near.object().orb(), 1);
    near.bind_context(&name("far"), &far).unwrap();
    near.bind_new_context(&name("far/a")).unwrap();
    near.bind(&name("far/a/x"), &one).unwrap();
    assert_eq!(far.resolve(&name("a/x")).unwrap().unwrap().ior(), one.ior());
    assert_eq!(near.resolve(&name("far/a/x")).unwrap().unwrap().ior(), one.ior());
    assert_eq!(near.resolve_str("far/a/x").unwrap().unwrap().ior(), one.ior());
    near.rebind(&name("far/a/x"), &object(near.object().orb(), 2)).unwrap();
    assert!(matches!(near.bind(&name("far/a/x"), &one), Err(BindError::AlreadyBound(_))));
    // The rest of the name comes from the service that found the fault.
    assert_eq!(not_found(near.resolve(&name("far/a/y"))), (NotFoundReason::MissingNode, name("y")));
    assert_eq!(not_found(near.resolve(&name("far/a/x/y"))), (NotFoundReason::NotContext, name("x/y")));
    near.unbind(&name("far/a/x")).unwrap();
    assert_eq!(not_found(far.resolve(&name("a/x"))), (NotFoundReason::MissingNode, name("x")));
    // A cycle of services: each hop uses one component.
    far.bind_context(&name("back"), &near).unwrap();
    assert_eq!(near.resolve(&name("far/back/far/a")).unwrap(), far.resolve(&name("a")).unwrap());

    drop(there);
    match near.resolve(&name("far/a/x")) {
        Err(RebindError::CannotProceed(exception)) => {
            assert_eq!(exception.cxt.unwrap().object().ior(), far.object().ior());
            assert_eq!(exception.rest_of_name, name("a/x"));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn contexts_elsewhere_are_not_called_unless_that_is_allowed() {
    let (here, there) = (Served::memory(), Served::memory());
    let (near, far) = (here.far(), there.far());
    near.bind_context(&name("far"), &far).unwrap();
    far.bind(&name("x"), &object(near.object().orb(), 1)).unwrap();
    match near.resolve(&name("far/x")) {
        Err(RebindError::CannotProceed(exception)) => {
            assert_eq!(exception.rest_of_name, name("x"));
            let context = exception.cxt.unwrap();
            assert!(
                context.resolve(&exception.rest_of_name).unwrap().is_some(),
                "the client goes on by itself"
            );
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(near.unbind(&name("far/x")), Err(RebindError::CannotProceed(_))));
    assert!(far.resolve(&name("x")).is_ok());
}

#[test]
fn references_hold_over_restarts() {
    let folder = TempFolder::new();
    let store = || Arc::new(FileStore::open(folder.file("names")).unwrap());
    let client = common::client();
    // The stringified reference, as in a file.
    let (port, a) = {
        let served = Served::start(store(), Limits::default(), 0);
        let root: NamingContextExtRef = client.resolve(&served.url()).unwrap();
        let a = root.bind_new_context(&name("a")).unwrap().unwrap();
        a.bind(&name("x"), &object(&client, 1)).unwrap();
        (served.port, a.object().to_string())
    };
    let by_reference = || common::client().resolve::<NamingContextRef>(&a).unwrap();
    // At another address, contexts are found under it.
    {
        let served = Served::start(store(), Limits::default(), 0);
        let root = served.far();
        let moved: NamingContextRef = root.resolve(&name("a")).unwrap().unwrap().unchecked_narrow();
        assert!(moved.resolve(&name("x")).unwrap().is_some());
    }
    let served = Served::start(store(), Limits::default(), port);
    assert_eq!(by_reference().resolve(&name("x")).unwrap().unwrap().ior(), object(&client, 1).ior());
    // A reference to a context of one store does not find a context of another.
    drop(served);
    let served = Served::start(Arc::new(MemoryStore::new()), Limits::default(), port);
    served.far().bind_new_context(&name("b")).unwrap();
    let gone = common::client().resolve::<NamingContextRef>(&a).unwrap_err();
    assert_eq!(gone.kind, Kind::ObjectNotExist);
}

#[test]
fn the_same_object_in_the_orb_itself() {
    let served = Served::memory();
    let root = served.service.root();
    root.bind_new_context(&name("a")).unwrap();
    assert_eq!(served.far().list(10).unwrap().0.len(), 1);
    let naming = isorb_naming::Naming::initial(&served.orb).unwrap();
    naming.bind("b/c/d", &object(&served.orb, 1)).unwrap();
    let found: isorb::Object = naming.resolve("b/c/d").unwrap();
    assert_eq!(found.ior(), object(&served.orb, 1).ior());
    let again =
        isorb_naming::NamingService::start(&served.orb, Arc::new(MemoryStore::new()), Limits::default());
    assert_eq!(again.unwrap_err().kind, Kind::BadInvOrder);
}
