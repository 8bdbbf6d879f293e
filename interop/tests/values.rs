//! Values with omniORB and JacORB, in both directions (`omniorb/values` and `jacorb/values`, see
//! `interop/cpp/values.cc` and `interop/java/src/interop/Values.java`).
//!
//! Where a peer is not built (`interop/setup.sh omniorb jacorb`), its tests say so.

use isorb::generated::*;
use isorb::{AbstractBase, Config, Orb, Reference, Value};
use isorb_interop::check::Stop;
use isorb_interop::generated::interop_values::*;
use isorb_interop::values::{Cases, orb, run, serve};
use std::io::{BufRead, BufReader};
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
    let (server, client) = (orb().expect("an ORB"), orb().expect("an ORB"));
    let strange = Orb::with_config(Config::default()).expect("an ORB");
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
    let orb = orb().expect("an ORB");
    let (boxes, values) = serve(&orb).expect("objects");
    let output = Command::new(program).args(["client", &boxes.to_string(), &values.to_string()]).output();
    let output = output.expect("it starts");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let passed: Vec<&str> = said.lines().filter(|line| !line.starts_with("done ")).collect();
    assert_eq!(passed, cases);
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
    let orb = orb().expect("an ORB");
    let boxes: BoxesRef = orb.resolve(references[0]).expect("a reference");
    let values: ValuesRef = orb.resolve(references[1]).expect("a reference");
    for (name, result) in run(&Cases { boxes, values, is_jacorb }) {
        match result {
            Ok(()) => {}
            Err(Stop::Skip(_)) => assert!(is_jacorb),
            Err(Stop::Fail(reason)) => panic!("{name}: {reason}"),
        }
    }
    orb.shutdown(true).expect("it ends");
}
