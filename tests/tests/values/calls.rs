//! Values as arguments and results, in exceptions and in `Any`s, between two ORBs.

use crate::graphs::node;
use crate::idl::golden::{Base, BaseState, Derived, DerivedState, Node, StringBox};
use crate::idl::values::*;
use isorb::interceptor::OrbInitInfo;
use isorb::{Any, Config, Kind, Link, Object, Orb, Reference, Result, Upcall, Value, ValueBase};
use std::collections::HashSet;
use std::mem::replace;
use std::sync::Arc;

struct Server;

impl Echo for Server {
    fn node<'u>(
        &'u self,
        _: Upcall<'u>,
        a: Option<&'u Node>,
        b: &mut Option<&'u Node>,
    ) -> Result<(Option<&'u Node>, Option<&'u Node>)> {
        Ok((a, replace(b, a)))
    }
    fn base<'u>(&'u self, _: Upcall<'u>, a: Option<&'u Base>) -> Result<Option<&'u Base>, echo::BaseError> {
        match a {
            Some(base) if base.a < 0 => Err(Refused { why: Some(base.clone()) }.into()),
            a => Ok(a),
        }
    }
    fn any_value<'u>(&'u self, _: Upcall<'u>, a: Option<&'u ValueBase>) -> Result<Option<&'u ValueBase>> {
        Ok(a)
    }
    fn nodes<'u>(&'u self, _: Upcall<'u>, a: &'u [Option<&'u Node>]) -> Result<&'u [Option<&'u Node>]> {
        Ok(a)
    }
    fn echo_shape<'u>(&'u self, _: Upcall<'u>, a: Option<&'u Shape>) -> Result<Option<&'u Shape>> {
        Ok(a)
    }
    fn echo_parent<'u>(&'u self, _: Upcall<'u>, a: Option<&'u Parent>) -> Result<Option<&'u Parent>> {
        Ok(a)
    }
    fn text<'u>(
        &'u self,
        _: Upcall<'u>,
        a: Option<&'u StringBox>,
        b: &mut Option<&'u StringBox>,
    ) -> Result<(Option<&'u StringBox>, Option<&'u StringBox>)> {
        Ok((a, replace(b, a)))
    }
    fn echo_pair<'u>(&'u self, _: Upcall<'u>, a: PairView<'u>) -> Result<PairView<'u>> {
        Ok(a)
    }
    fn same(&self, _: Upcall<'_>, a: Option<&Node>, b: Option<&Node>) -> Result<bool> {
        Ok(a.zip(b).is_some_and(|(a, b)| a.is_same(b)))
    }
    fn inside<'u>(&'u self, _: Upcall<'u>, a: &'u Any) -> Result<&'u Any> {
        Ok(a)
    }
    fn length(&self, _: Upcall<'_>, head: Option<&Node>) -> Result<u32> {
        let mut seen = HashSet::new();
        let mut todo: Vec<Node> = head.into_iter().cloned().collect();
        while let Some(node) = todo.pop() {
            if seen.insert(node.id) {
                todo.extend(node.left.get().into_iter().chain(node.right.get()));
            }
        }
        Ok(seen.len() as u32)
    }
}

fn types(info: &mut OrbInitInfo) -> Result<()> {
    for known in [Base::value_type(), Node::value_type(), StringBox::value_type()] {
        info.add_value_type(known);
    }
    Ok(())
}

fn orb(config: &Config) -> Orb {
    Orb::builder().config(config.clone()).register(types).build().expect("an ORB")
}

/// Calls `test` with a reference to a server in another ORB, and the ORBs.
fn pair(config: &Config, test: impl FnOnce(&EchoRef)) {
    let (server, client) = (orb(config), orb(config));
    let root = server.root_poa().expect("a POA");
    root.manager().activate().expect("it is new");
    let near: EchoRef = root.activate(Arc::new(Server)).expect("an object");
    let far: Object = client.resolve(&near.to_string()).expect("a reference");
    test(&EchoRef::from_object(far));
    client.shutdown(true).expect("it ends");
    server.shutdown(true).expect("it ends");
}

#[test]
fn arguments_and_results() {
    pair(&Config::default(), |echo| {
        let shared = node(3, Link::NULL, Link::NULL);
        let mut b = Some(node(2, Link::from(&shared), Link::NULL));
        let a = node(1, Link::from(&shared), Link::from(&shared));
        let (result, c) = echo.node(Some(&a), &mut b).expect("a call");
        let (result, c, b) = (result.expect("a"), c.expect("b"), b.expect("a"));
        assert_eq!((result.id, c.id, b.id), (1, 2, 1));
        // One value is one value, in all results.
        assert_eq!(result.left, result.right);
        assert_eq!(c.left, result.left);
        assert!(b.is_same(&result));
        assert_eq!(echo.node(None, &mut None).expect("a call"), (None, None));
        assert!(echo.same(Some(&a), Some(&a)).expect("a call"));
        assert!(!echo.same(Some(&a), Some(&shared)).expect("a call"));

        let nodes = [Some(&a), None, Some(&shared), Some(&a)];
        let got = echo.nodes(&nodes).expect("a call");
        assert!(got[0].as_ref().zip(got[3].as_ref()).is_some_and(|(a, b)| a.is_same(b)));
        assert_eq!(got[0].as_ref().and_then(|node| node.left.get()), got[2]);
        assert!(got[1].is_none());

        let (a, mut b) = (StringBox::from("a".to_owned()), Some(StringBox::from("b".to_owned())));
        let (result, c) = echo.text(Some(&a), &mut b).expect("a call");
        let texts = [&result, &c, &b].map(|text| text.as_deref().cloned());
        assert_eq!(texts.each_ref().map(|text| text.as_deref()), [Some("a"), Some("b"), Some("a")]);
    });
}

#[test]
fn types_that_are_registered() {
    pair(&Config::default(), |echo| {
        let derived = Derived::from(DerivedState { base: BaseState { a: 4 }, b: "four".into() });
        let value = ValueBase::from(derived.clone());
        let got = echo.any_value(Some(&value)).expect("a call").expect("a value");
        assert_eq!(got.cast::<Derived>().map(|derived| derived.b.clone()).as_deref(), Some("four"));
        let whole = crate::idl::values::Pair { first: Some(derived.into()), second: Some(value) };
        let got = echo.echo_pair(&whole).expect("a call");
        assert_eq!(got.first, got.second.and_then(|value| value.cast()));
        // A type that is not registered.
        let value = ValueBase::from(Empty::from(EmptyState {}));
        let error = echo.any_value(Some(&value)).expect_err("it is unknown");
        assert_eq!((error.kind, error.minor & 0xfff), (Kind::Marshal, 1));
    });
}

#[test]
fn anys() {
    pair(&Config::default(), |echo| {
        let shared = node(3, Link::NULL, Link::NULL);
        let a = node(1, Link::from(&shared), Link::from(&shared));
        let any = echo.inside(&Any::new(&Some(a)).expect("it can be sent")).expect("a call");
        let got = any.get::<Option<Node>>().flatten().expect("a node");
        assert_eq!((got.id, got.left == got.right), (1, true));
    });
}

#[test]
fn exceptions() {
    pair(&Config::default(), |echo| {
        let derived = Derived::from(DerivedState { base: BaseState { a: -4 }, b: "four".into() });
        match echo.base(Some(&derived.into())) {
            Err(echo::BaseError::Refused(Refused { why: Some(why) })) => {
                assert_eq!(why.cast::<Derived>().map(|derived| derived.b.clone()).as_deref(), Some("four"));
            }
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn graphs() {
    for fragment in [0, 256] {
        pair(&Config { fragment, ..Config::default() }, |echo| {
            let back = Link::unset();
            let ring = (2..=100).fold(back.clone(), |next, id| node(id, next, Link::NULL).into());
            let first = node(1, ring, Link::NULL);
            back.set(&first);
            assert_eq!(echo.length(Some(&first)), Ok(100));
            let (got, _) = echo.node(Some(&first), &mut None).expect("a call");
            let got = got.expect("a node");
            let mut at = got.clone();
            for _ in 0..100 {
                at = at.left.get().expect("a ring");
            }
            assert!(at.is_same(&got));
        });
    }
}

#[test]
fn limits() {
    let config = Config { value_depth: 20, values_per_message: 50, ..Config::default() };
    pair(&config, |echo| {
        let list = |n| (0..n).fold(Link::NULL, |next, id| node(id, next, Link::NULL).into()).get();
        assert_eq!(echo.length(list(20).as_ref()), Ok(20));
        let error = echo.length(list(21).as_ref()).expect_err("too deep");
        assert_eq!(error.kind, Kind::ImpLimit);
        assert!(error.to_string().contains("value_depth"), "{error}");
        let nodes: Vec<Node> = (0..51).map(|id| node(id, Link::NULL, Link::NULL)).collect();
        let nodes: Vec<Option<&Node>> = nodes.iter().map(Some).collect();
        assert_eq!(echo.nodes(&nodes[..50]).map(|nodes| nodes.len()), Ok(50));
        let error = echo.nodes(&nodes).expect_err("too many");
        assert!(error.to_string().contains("values_per_message"), "{error}");
    });
}
