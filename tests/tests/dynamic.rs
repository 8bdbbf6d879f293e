//! Calls by name and type at run time, to servants of generated code.

use isorb::{
    Any, DynamicInterface, DynamicOperation, DynamicReply, DynamicRequest, DynamicServant, Kind, Mode,
    Object, Orb, Reference as _,
};
use isorb::{Concurrency, TypeCode};
use isorb_tests::everyday::*;
use isorb_tests::{serve, steady};
use std::sync::Arc;

struct Echo;

impl Radar for Echo {
    fn best<'u>(&'u self, _: isorb::Upcall<'u>) -> isorb::Result<TrackView<'u>> {
        Ok(TrackView { name: "best", speed: 7 })
    }
    fn all<'u>(&'u self, _: isorb::Upcall<'u>) -> isorb::Result<&'u [TrackView<'u>]> {
        Ok(&[])
    }
    fn draw<'u>(&'u self, _: isorb::Upcall<'u>) -> isorb::Result<PictureView<'u>> {
        Err(Kind::NoImplement.into())
    }
    fn paint(&self, _: isorb::Upcall<'_>, seen: &[TrackView<'_>]) -> isorb::Result<i32> {
        Ok(seen.iter().map(|track| track.speed).sum())
    }
    fn long_text<'u>(&'u self, cx: isorb::Upcall<'u>, octets: u32) -> isorb::Result<&'u str> {
        cx.str(&"x".repeat(octets as usize))
    }
    fn slow<'u>(
        &'u self,
        cx: isorb::Upcall<'u>,
        _: u32,
        text: &mut &'u str,
    ) -> Result<(&'u str, i32), radar::SlowError> {
        if text.is_empty() {
            return Err(Refused { why: "empty".into() }.into());
        }
        let old = std::mem::replace(text, cx.format(format_args!("{text}!"))?);
        Ok((old, old.len() as i32))
    }
    fn wait_ms(&self, _: isorb::Upcall<'_>, ms: u32) -> isorb::Result<u32> {
        Ok(ms)
    }
    fn notify(&self, _: isorb::Upcall<'_>, _: Option<&ListenerRef>) -> isorb::Result<()> {
        Ok(())
    }
}

fn radar() -> (Orb, Orb, Object) {
    let server = Orb::with_config(isorb::Config::default()).unwrap();
    let client = Orb::with_config(isorb::Config::default()).unwrap();
    let near: RadarRef = server.root_poa().unwrap().activate(Arc::new(Echo)).unwrap();
    server.root_poa().unwrap().manager().activate().unwrap();
    let far = client.string_to_object(&near.object().to_string()).unwrap();
    (server, client, far)
}

fn any(type_code: &TypeCode, json: &str) -> Any {
    Any::from_json(type_code.clone(), json).unwrap()
}

fn track() -> TypeCode {
    let members = [("name", TypeCode::string(0)), ("speed", TypeCode::LONG)];
    TypeCode::new_struct("IDL:Everyday/Track:1.0", "Track", &members).unwrap()
}

fn refused() -> TypeCode {
    TypeCode::new_exception("IDL:Everyday/Refused:1.0", "Refused", &[("why", TypeCode::string(0))]).unwrap()
}

fn slow() -> DynamicOperation {
    let text = TypeCode::string(0);
    DynamicOperation::new("slow")
        .unwrap()
        .parameter("ms", Mode::In, TypeCode::ULONG)
        .parameter("text", Mode::InOut, text.clone())
        .parameter("count", Mode::Out, TypeCode::LONG)
        .result(text)
}

#[test]
fn values_of_all_directions_travel() {
    let (server, _client, radar) = radar();
    let best = DynamicOperation::new("best").unwrap().result(track());
    let DynamicReply::Results(results) = DynamicRequest::new(&radar, &best).invoke().unwrap() else {
        panic!("an exception");
    };
    assert_eq!(results[0].to_json(1000).unwrap(), r#"{"name":"best","speed":7}"#);

    let list = TypeCode::sequence(&track(), 0).unwrap();
    let paint = DynamicOperation::new("paint").unwrap().parameter("seen", Mode::In, list.clone());
    let paint = paint.result(TypeCode::LONG);
    let seen = any(&list, r#"[{"name":"a","speed":3},{"name":"bb","speed":4}]"#);
    let reply = DynamicRequest::new(&radar, &paint).argument(seen).unwrap().invoke().unwrap();
    assert_eq!(reply, DynamicReply::Results(vec![Any::new(&7i32).unwrap()]));

    let slow = slow();
    let request = DynamicRequest::new(&radar, &slow).argument(Any::new(&0u32).unwrap()).unwrap();
    let text = any(&TypeCode::string(0), "\"text\"");
    let DynamicReply::Results(results) = request.argument(text).unwrap().invoke().unwrap() else {
        panic!("an exception");
    };
    let shown: Vec<String> = results.iter().map(|value| value.to_json(100).unwrap()).collect();
    assert_eq!(shown, ["\"text\"", "\"text!\"", "4"]);
    let names: Vec<&str> = slow.results().map(|(name, _)| name).collect();
    assert_eq!(names, ["", "text", "count"]);
    server.shutdown(true).unwrap();
}

#[test]
fn user_exceptions_are_values_if_they_are_listed() {
    let (server, _client, radar) = radar();
    let raise = |operation: &DynamicOperation| {
        let request = DynamicRequest::new(&radar, operation).argument(Any::new(&0u32).unwrap()).unwrap();
        request.argument(any(&TypeCode::string(0), "\"\"")).unwrap().invoke()
    };
    let DynamicReply::Exception(exception) = raise(&slow().raises(&refused()).unwrap()).unwrap() else {
        panic!("results");
    };
    assert_eq!(exception.type_code().id().unwrap(), "IDL:Everyday/Refused:1.0");
    assert_eq!(exception.to_json(100).unwrap(), r#"{"why":"empty"}"#);
    assert_eq!(raise(&slow()).unwrap_err().kind, Kind::Unknown);
    assert_eq!(slow().raises(&track()).unwrap_err().kind, Kind::BadTypecode);
    server.shutdown(true).unwrap();
}

#[test]
fn wrong_arguments_are_named_before_anything_is_sent() {
    let (server, _client, radar) = radar();
    let slow = slow();
    let request = || DynamicRequest::new(&radar, &slow);
    let detail = |exception: isorb::SystemException| {
        assert_eq!(exception.kind, Kind::BadParam);
        exception.detail.unwrap().into_string()
    };
    let wrong = detail(request().argument(Any::new(&0i32).unwrap()).unwrap_err());
    assert!(wrong.contains("ms") && wrong.contains("long"), "{wrong}");
    let missing = detail(request().argument(Any::new(&0u32).unwrap()).unwrap().invoke().unwrap_err());
    assert!(missing.contains("text") && missing.contains("missing"), "{missing}");
    let best = DynamicOperation::new("best").unwrap();
    let more = detail(DynamicRequest::new(&radar, &best).argument(Any::new(&0i32).unwrap()).unwrap_err());
    assert!(more.contains("one more"), "{more}");
    assert_eq!(DynamicOperation::new("").unwrap_err().kind, Kind::BadParam);
    // What the servant returns is no value of the type that the caller believes.
    let wrong = DynamicOperation::new("best").unwrap().result(TypeCode::BOOLEAN);
    assert_eq!(DynamicRequest::new(&radar, &wrong).invoke().unwrap_err().kind, Kind::Marshal);
    let unknown = DynamicOperation::new("nonsense").unwrap();
    assert_eq!(DynamicRequest::new(&radar, &unknown).invoke().unwrap_err().kind, Kind::BadOperation);
    server.shutdown(true).unwrap();
}

#[test]
fn oneways_and_calls_inside_the_process() {
    let (server, _client, path) = serve(Concurrency::Connection, true);
    let list = TypeCode::sequence(&steady_track(), 0);
    let list = list.unwrap();
    let feed = DynamicOperation::new("feed").unwrap().parameter("a", Mode::In, list.clone()).oneway();
    let one = any(&list, r#"[{"name":"a","state":"run","last":{"value":1.5,"at":7}}]"#);
    let request = DynamicRequest::new(path.object(), &feed).argument(one).unwrap();
    assert_eq!(request.invoke(), Ok(DynamicReply::Results(Vec::new())));
    isorb_testkit::wait_until("the oneway", || steady::PathRef::fed(&path) == Ok(1));
    server.shutdown(true).unwrap();
}

/// `Track` of `steady.idl`.
fn steady_track() -> TypeCode {
    <steady::Track as isorb::generated::AnyValue>::type_code()
}

/// Serves the part of `Radar` that it knows.
struct Script;

impl DynamicServant for Script {
    fn invoke(
        &self,
        _: isorb::Upcall<'_>,
        operation: &DynamicOperation,
        arguments: Vec<Any>,
    ) -> isorb::Result<DynamicReply> {
        Ok(match operation.name() {
            "best" => DynamicReply::Results(vec![any(&track(), r#"{"name":"script","speed":9}"#)]),
            // Other types than the operation's.
            "paint" => DynamicReply::Results(vec![Any::new(&1u8).unwrap()]),
            "wait_ms" => DynamicReply::Exception(any(&operation_refused(), r#"{"why":"not listed"}"#)),
            "slow" if arguments[1].get::<String>().as_deref() == Some("") => {
                DynamicReply::Exception(any(&operation.exceptions()[0], r#"{"why":"script"}"#))
            }
            "slow" => {
                let text = arguments[1].clone();
                DynamicReply::Results(vec![text.clone(), text, Any::new(&4i32).unwrap()])
            }
            _ => return Err(Kind::NoPermission.into()),
        })
    }
}

fn operation_refused() -> TypeCode {
    slow().raises(&refused()).unwrap().exceptions()[0].clone()
}

#[test]
fn a_servant_of_run_time_types_serves_generated_stubs() {
    let (server, client, _) = radar();
    let list = TypeCode::sequence(&track(), 0).unwrap();
    let operation = |name: &str| DynamicOperation::new(name).unwrap();
    let operations = vec![
        operation("best").result(track()),
        operation("paint").parameter("seen", Mode::In, list).result(TypeCode::LONG),
        operation("wait_ms").parameter("ms", Mode::In, TypeCode::ULONG).result(TypeCode::ULONG),
        operation("long_text").parameter("octets", Mode::In, TypeCode::ULONG).result(TypeCode::string(0)),
        slow().raises(&refused()).unwrap(),
    ];
    let twice = vec![operation("a"), operation("a")];
    assert_eq!(DynamicInterface::new("IDL:Twice:1.0", &[], twice).unwrap_err().kind, Kind::BadParam);
    let interface = Arc::new(DynamicInterface::new("IDL:Everyday/Radar:1.0", &[], operations).unwrap());
    assert_eq!(interface.operation("best").unwrap().name(), "best");
    assert!(interface.operation("worst").is_none());
    let poa = server.root_poa().unwrap();
    let id = poa.activate_object(interface.servant(Arc::new(Script))).unwrap();
    let near = poa.id_to_reference(&id).unwrap();
    // A typed reference: `_is_a` is answered, too.
    let radar: RadarRef = client.resolve(&near.to_string()).unwrap();
    assert_eq!(radar.best().unwrap(), Track { name: "script".into(), speed: 9 });
    let mut text = "text".to_owned();
    assert_eq!(radar.slow(0, &mut text).unwrap(), ("text".to_owned(), 4));
    let mut empty = String::new();
    let raised = radar.slow(0, &mut empty).unwrap_err();
    assert_eq!(raised, radar::SlowError::Refused(Refused { why: "script".into() }));
    for exception in [radar.paint(&[Track::default()]).unwrap_err(), radar.wait_ms(1).unwrap_err()] {
        assert_eq!((exception.kind, exception.completed), (Kind::BadTypecode, isorb::Completion::Yes));
    }
    assert_eq!(radar.long_text(1).unwrap_err().kind, Kind::NoPermission);
    assert_eq!(radar.all().unwrap_err().kind, Kind::BadOperation);
    server.shutdown(true).unwrap();
}
