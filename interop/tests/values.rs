//! Values with omniORB and JacORB, in both directions (`omniorb/values` and `jacorb/values`, see
//! `interop/cpp/values.cc` and `interop/java/src/interop/Values.java`).
//!
//! Where a peer is not built (`interop/setup.sh omniorb jacorb`), its tests say so.

use isorb::generated::*;
use isorb::{AbstractBase, Config, Link, Orb, Reference, Value, ValueBase};
use isorb_interop::generated::interop_values::*;
use std::collections::HashSet;
use std::io::{BufRead, BufReader};
use std::mem::replace;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

fn program(peer: &str) -> Option<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let build = std::env::var_os("ISORB_INTEROP_BUILD").map_or(here.join(".build"), PathBuf::from);
    let program = build.join(peer).join("values");
    if !program.exists() {
        println!("SKIPPED: {peer} is not built; run interop/setup.sh {peer}");
        return None;
    }
    Some(program)
}

fn orb() -> Orb {
    Orb::builder()
        .config(Config::default())
        .register(|info| {
            for known in
                [Node::value_type(), Text::value_type(), Money::value_type(), NamedValue::value_type()]
            {
                info.add_value_type(known);
            }
            Ok(())
        })
        .build()
        .expect("an ORB")
}

struct Server;

type Both<'u, T> = isorb::Result<(Option<&'u T>, Option<&'u T>)>;

fn echo<'u, T>(a: Option<&'u T>, b: &mut Option<&'u T>) -> Both<'u, T> {
    Ok((a, replace(b, a)))
}

impl Boxes for Server {
    fn echo_text<'u>(
        &'u self,
        _: Upcall<'u>,
        a: Option<&'u Text>,
        b: &mut Option<&'u Text>,
    ) -> Both<'u, Text> {
        echo(a, b)
    }
    fn echo_number<'u>(
        &'u self,
        _: Upcall<'u>,
        a: Option<&'u Number>,
        b: &mut Option<&'u Number>,
    ) -> Both<'u, Number> {
        echo(a, b)
    }
    fn echo_blob<'u>(
        &'u self,
        _: Upcall<'u>,
        a: Option<&'u Blob>,
        b: &mut Option<&'u Blob>,
    ) -> Both<'u, Blob> {
        echo(a, b)
    }
}

impl Values for Server {
    fn echo_money<'u>(
        &'u self,
        _: Upcall<'u>,
        a: Option<&'u Money>,
        b: &mut Option<&'u Money>,
    ) -> Both<'u, Money> {
        echo(a, b)
    }
    fn echo_node<'u>(
        &'u self,
        _: Upcall<'u>,
        a: Option<&'u Node>,
        b: &mut Option<&'u Node>,
    ) -> Both<'u, Node> {
        echo(a, b)
    }
    fn echo_shape<'u>(
        &'u self,
        _: Upcall<'u>,
        a: Option<&'u Shape>,
        b: &mut Option<&'u Shape>,
    ) -> Both<'u, Shape> {
        echo(a, b)
    }
    fn echo_base<'u>(
        &'u self,
        _: Upcall<'u>,
        a: Option<&'u ValueBase>,
        b: &mut Option<&'u ValueBase>,
    ) -> Both<'u, ValueBase> {
        echo(a, b)
    }
    fn same(&self, _: Upcall<'_>, a: Option<&Node>, b: Option<&Node>) -> isorb::Result<bool> {
        Ok(a.zip(b).is_some_and(|(a, b)| a.is_same(b)))
    }
    fn length(&self, _: Upcall<'_>, head: Option<&Node>) -> isorb::Result<u32> {
        Ok(length_of(head))
    }
    fn priced<'u>(&'u self, cx: Upcall<'u>, _: bool) -> isorb::Result<Option<&'u Money>> {
        cx.keep(Money::from(priced("EUR", 199, "tea"))).map(Some)
    }
}

struct Title(&'static str);

impl Named for Title {
    fn title<'u>(&'u self, _: Upcall<'u>) -> isorb::Result<&'u str> {
        Ok(self.0)
    }
}

impl NamedObject for Title {}

struct Gives(NamedRef);

impl Abstracts for Gives {
    fn give<'u>(&'u self, cx: Upcall<'u>, by_value: bool) -> isorb::Result<Option<&'u NamedRef>> {
        if !by_value {
            return Ok(Some(&self.0));
        }
        let value = NamedValue::from(NamedValueState { member: "value".into() });
        cx.keep(AbstractBase::of_value(cx.orb(), &value).into_reference()).map(Some)
    }
    fn title_of<'u>(&'u self, cx: Upcall<'u>, it: Option<&'u NamedRef>) -> isorb::Result<&'u str> {
        let Some(it) = it else { return Ok("nil") };
        match AbstractBase::from(it.clone()).value() {
            Some(value) => {
                let value: NamedValue = value.cast().ok_or(isorb::Kind::BadParam)?;
                cx.str(&value.member)
            }
            None => cx.str(&it.title()?),
        }
    }
}

/// An abstract interface is an object or a value, in both directions.
#[test]
fn values_travel_behind_abstract_interfaces() {
    let (server, client, strange) = (orb(), orb(), Orb::with_config(Config::default()).expect("an ORB"));
    let root = server.root_poa().expect("a POA");
    root.manager().activate().expect("it is new");
    let object: NamedObjectRef = root.activate(Arc::new(Title("object"))).expect("an object");
    let gives: AbstractsRef = root.activate(Arc::new(Gives(object.into()))).expect("an object");
    let far: AbstractsRef = client.resolve(&gives.to_string()).expect("a reference");

    let object = far.give(false).expect("a call").expect("not nil");
    assert!(AbstractBase::from(object.clone()).value().is_none());
    assert_eq!(object.title().as_deref(), Ok("object"));
    assert_eq!(far.title_of(Some(&object)).as_deref(), Ok("object"));
    let given = far.give(true).expect("a call").expect("not nil");
    let value: NamedValue =
        AbstractBase::from(given.clone()).value().and_then(|it| it.cast()).expect("a value");
    assert_eq!(value.member, "value");
    assert_eq!(far.title_of(Some(&given)).as_deref(), Ok("value"));
    assert_eq!(far.title_of(None::<&NamedRef>).as_deref(), Ok("nil"));
    // It is no object: it is not called, not equal to another, and not sent as one.
    let refused = given.title().expect_err("a value has no target");
    assert_eq!(refused.kind, isorb::Kind::NoImplement, "{refused}");
    let again = AbstractBase::of_value(&client, &value);
    assert_ne!(AbstractBase::from(given.clone()), again);
    assert!(isorb::Any::new(&Some(given.object().clone())).is_err());
    // A receiver without the type.
    let unknowing: AbstractsRef = strange.resolve(&gives.to_string()).expect("a reference");
    assert_eq!(unknowing.give(true).expect_err("not registered").kind, isorb::Kind::Marshal);
    for orb in [strange, client, server] {
        orb.shutdown(true).expect("it ends");
    }
}

fn money(currency: &str, cents: i64) -> MoneyState {
    MoneyState { currency: currency.into(), cents }
}

fn priced(currency: &str, cents: i64, item: &str) -> Priced {
    PricedState { base: money(currency, cents), item: item.into() }.into()
}

fn length_of(head: Option<&Node>) -> u32 {
    let mut seen = HashSet::new();
    let mut at = head.cloned();
    while let Some(node) = at.filter(|node| seen.insert(node.value)) {
        at = node.next.get();
    }
    seen.len() as u32
}

#[test]
fn omniorb_calls_isorb() {
    calls_isorb("omniorb", &["ok boxed_values", "ok values", "ok truncated"]);
}

#[test]
fn jacorb_calls_isorb() {
    calls_isorb("jacorb", &["ok boxed_values", "ok values"]);
}

fn calls_isorb(peer: &str, cases: &[&str]) {
    let Some(program) = program(peer) else { return };
    let orb = orb();
    let root = orb.root_poa().expect("a POA");
    root.manager().activate().expect("it is new");
    let boxes: BoxesRef = root.activate(Arc::new(Server)).expect("an object");
    let values: ValuesRef = root.activate(Arc::new(Server)).expect("an object");
    let output = Command::new(program).args(["client", &boxes.to_string(), &values.to_string()]).output();
    let output = output.expect("it starts");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(said.lines().collect::<Vec<_>>(), cases);
    orb.shutdown(true).expect("it ends");
}

/// A peer's server; it ends with its standard input.
struct Peer(Child);

impl Drop for Peer {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

#[test]
fn isorb_calls_omniorb() {
    isorb_calls("omniorb", &["server", "-ORBendPoint", "giop:tcp:127.0.0.1:"]);
}

#[test]
fn isorb_calls_jacorb() {
    isorb_calls("jacorb", &["server"]);
}

fn isorb_calls(peer: &str, arguments: &[&str]) {
    let Some(program) = program(peer) else { return };
    let is_jacorb = peer == "jacorb";
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut peer = Peer(command.spawn().expect("it starts"));
    let mut lines = BufReader::new(peer.0.stdout.take().expect("it is piped")).lines();
    let ready = lines.next().expect("a line").expect("text");
    let references: Vec<&str> = ready.split(' ').skip(1).collect();
    let orb = orb();
    let boxes: BoxesRef = orb.resolve(references[0]).expect("a reference");
    let values: ValuesRef = orb.resolve(references[1]).expect("a reference");
    if !is_jacorb {
        boxed_values(&boxes);
    }
    derived_values(&values, is_jacorb);
    graphs(&values, is_jacorb);
    orb.shutdown(true).expect("it ends");
}

fn boxed_values(boxes: &BoxesRef) {
    let (a, mut b) = (Text::from("a".to_owned()), Some(Text::from("b".to_owned())));
    let (result, c) = boxes.echo_text(Some(&a), &mut b).expect("a call");
    assert_eq!(result, Some(a));
    assert_eq!(c, Some(Text::from("b".to_owned())));
    assert!(b.zip(result).is_some_and(|(b, result)| b.is_same(&result)));
    assert_eq!(boxes.echo_number(None, &mut Some(Number::from(7))), Ok((None, Some(Number::from(7)))));
    let blob = Blob::from((0..5000).map(|i| (i % 251) as u8).collect::<Vec<_>>());
    let (result, _) = boxes.echo_blob(Some(&blob), &mut None).expect("a call");
    assert_eq!(result, Some(blob));
}

fn derived_values(values: &ValuesRef, is_jacorb: bool) {
    let a = Money::from(money("EUR", 250));
    let mut b = Some(Money::from(priced("USD", -1, "cup")));
    let (result, c) = values.echo_money(Some(&a), &mut b).expect("a call");
    assert_eq!(result, Some(a));
    let c: Priced = c.and_then(|c| c.cast()).expect("a Priced");
    assert_eq!((&*c.currency, c.cents, &*c.item), ("USD", -1, "cup"));
    let tea: Priced = values.priced(true).expect("a call").and_then(|tea| tea.cast()).expect("a Priced");
    assert_eq!((&*tea.currency, tea.cents, &*tea.item), ("EUR", 199, "tea"));

    if is_jacorb {
        return;
    }
    let square = Shape::from(Square::from(SquareState { side: 3.0 }));
    let (result, _) = values.echo_shape(Some(&square), &mut None).expect("a call");
    assert_eq!(result.and_then(|shape| shape.cast::<Square>()).map(|square| square.side), Some(3.0));
}

fn graphs(values: &ValuesRef, is_jacorb: bool) {
    let back = Link::unset();
    let second = Node::from(NodeState { value: 2, next: back.clone() });
    let leaf = Leaf::from(LeafState {
        base: NodeState { value: 3, next: Link::from(&second) },
        label: "leaf".into(),
    });
    let ring = Node::from(NodeState { value: 1, next: Node::from(leaf.clone()).into() });
    back.set(&ring);
    assert_eq!(values.length(Some(&ring)), Ok(3));
    assert_eq!(values.same(Some(&ring), Some(&ring)), Ok(true));
    assert_eq!(values.same(Some(&ring), Some(&second)), Ok(false));
    let (got, _) = values.echo_node(Some(&ring), &mut None).expect("a call");
    let got = got.expect("a node");
    assert_eq!(length_of(Some(&got)), 3);
    assert!(got.next.get().and_then(|node| node.cast::<Leaf>()).is_some_and(|leaf| leaf.label == "leaf"));
    if is_jacorb {
        return;
    }
    let (base, mut text) = (ValueBase::from(leaf), Some(ValueBase::from(Text::from("t".to_owned()))));
    let (result, c) = values.echo_base(Some(&base), &mut text).expect("a call");
    assert!(result.is_some_and(|value| value.cast::<Leaf>().is_some()));
    assert!(c.is_some_and(|value| value.cast::<Text>().is_some_and(|text| *text == "t")));
}
