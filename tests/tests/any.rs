//! `any` and `TypeCode` between two ORBs: as arguments, results, members and attributes, in each
//! form of concurrency, each version of GIOP, in fragments, and with another code set.

#[allow(missing_docs)]
mod generated {
    isorb::include_idl!("any");
}

use generated::anys::*;
use isorb::generated::{AnyValue, HandleCode, LongDouble};
use isorb::{
    AbstractBase, Any, Concurrency, Config, Fixed, Kind, Object, Orb, Reference, Result, TypeCode, Upcall,
    ValueBase, WString,
};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

struct Servant {
    name: &'static str,
    held: Mutex<Any>,
}

impl Servant {
    fn new(name: &'static str) -> Arc<Servant> {
        Arc::new(Servant { name, held: Mutex::default() })
    }

    fn hold(&self, any: &Any) {
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) = any.clone();
    }
}

fn rotate<T: Copy>(a: T, b: &mut T) -> (T, T) {
    (a, std::mem::replace(b, a))
}

fn no_such(what: &str) -> isorb::SystemException {
    isorb::SystemException::from(Kind::BadParam).detail(what.to_owned())
}

impl Named for Servant {
    fn name(&self, _: Upcall<'_>) -> Result<&str> {
        Ok(self.name)
    }
}

impl Keeper for Servant {
    fn rotate<'u>(&'u self, _: Upcall<'u>, _: u8, a: &'u Any, b: &mut &'u Any) -> Result<(&'u Any, &'u Any)> {
        Ok(rotate(a, b))
    }
    fn rotate_type<'u>(
        &'u self,
        _: Upcall<'u>,
        a: &'u TypeCode,
        b: &mut &'u TypeCode,
    ) -> Result<(&'u TypeCode, &'u TypeCode)> {
        Ok(rotate(a, b))
    }
    fn type_of<'u>(&'u self, _: Upcall<'u>, a: &'u Any) -> Result<&'u TypeCode> {
        Ok(a.type_code())
    }
    fn echo_all<'u>(&'u self, _: Upcall<'u>, a: &'u [&'u Any]) -> Result<&'u [&'u Any]> {
        Ok(a)
    }
    fn echo_parcel<'u>(&'u self, _: Upcall<'u>, a: ParcelView<'u>) -> Result<ParcelView<'u>> {
        Ok(a)
    }
    fn refuse(&self, _: Upcall<'_>, what: &Any) -> Result<(), keeper::RefuseError> {
        let type_ = what.type_code().clone();
        Err(Refused { why: what.to_string(), what: what.clone(), type_ }.into())
    }
    fn held<'u>(&'u self, cx: Upcall<'u>) -> Result<&'u Any> {
        cx.keep(self.held.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }
    fn set_held(&self, _: Upcall<'_>, value: &Any) -> Result<()> {
        self.hold(value);
        Ok(())
    }
    fn put(&self, _: Upcall<'_>, a: &Any) -> Result<()> {
        self.hold(a);
        Ok(())
    }
    fn show<'u>(&'u self, cx: Upcall<'u>, a: &'u Any) -> Result<&'u str> {
        cx.format(format_args!("{a}"))
    }
    fn radius(&self, _: Upcall<'_>, shape: &Any) -> Result<f64> {
        match shape.get::<Shape>() {
            Some(Shape::Radius(radius)) => Ok(radius),
            _ => Err(no_such("a radius")),
        }
    }
    fn ask<'u>(&'u self, cx: Upcall<'u>, other: &'u Any) -> Result<(&'u str, &'u Any)> {
        let keeper =
            cx.orb().extract::<Option<KeeperRef>>(other).flatten().ok_or_else(|| no_such("a keeper"))?;
        let name = cx.format(format_args!("{} says {}", self.name, keeper.name()?))?;
        let same = Any::of::<Option<Object>>(Some(keeper.object())).map_err(|_| no_such("an object"))?;
        Ok((name, cx.keep(same)?))
    }
    fn rotate_base<'u>(
        &'u self,
        _: Upcall<'u>,
        a: Option<&'u AbstractBase>,
        b: &mut Option<&'u AbstractBase>,
    ) -> Result<(Option<&'u AbstractBase>, Option<&'u AbstractBase>)> {
        Ok(rotate(a, b))
    }
    fn rotate_value<'u>(
        &'u self,
        _: Upcall<'u>,
        a: Option<&'u ValueBase>,
        b: &mut Option<&'u ValueBase>,
    ) -> Result<(Option<&'u ValueBase>, Option<&'u ValueBase>)> {
        Ok(rotate(a, b))
    }
    fn leak<'u>(&'u self, cx: Upcall<'u>) -> Result<Option<&'u ValueBase>> {
        cx.keep(sealed()).map(Some)
    }
}

/// Two ORBs, each with a keeper; the client's view of the server's.
struct Pair {
    client: Orb,
    server: Orb,
    near: KeeperRef,
    far: KeeperRef,
}

impl Pair {
    fn new(config: &Config) -> Pair {
        let [(server, theirs), (client, near)] = ["server", "client"].map(|name| {
            let orb = Orb::with_config(config.clone()).unwrap();
            let root = orb.root_poa().expect("an endpoint");
            root.manager().activate().expect("the manager is new");
            let keeper: KeeperRef = root.activate(Servant::new(name)).expect("an object");
            (orb, keeper)
        });
        let far = client.resolve(&theirs.object().to_string()).expect("a reference");
        Pair { client, server, near, far }
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        for orb in [&self.client, &self.server] {
            let _ = orb.shutdown(true);
        }
    }
}

/// Runs a test between ORBs of each configuration.
fn everywhere(test: impl Fn(&Pair, &Config)) {
    for concurrency in [Concurrency::Connection, Concurrency::Lane] {
        for giop in ["1.0", "1.1", "1.2"] {
            for fragment in [0, 64] {
                let config = Config {
                    concurrency,
                    giop: giop.into(),
                    fragment,
                    round_trip_timeout_ms: 20_000,
                    ..Config::default()
                };
                test(&Pair::new(&config), &config);
            }
        }
    }
}

fn any<T: AnyValue>(value: T) -> Any {
    Any::new(&value).expect("it can be sent")
}

/// A value that is not null.
fn sealed() -> ValueBase {
    Sealed::from("secret".to_owned()).into()
}

fn tree() -> Tree {
    let leaf = |name: &str| Tree { name: name.into(), children: vec![] };
    let branch = Tree { name: "branch".into(), children: vec![leaf("a"), leaf("b")] };
    Tree { name: "root".into(), children: vec![branch, leaf("c")] }
}

fn points() -> Vec<Point> {
    (0..40).map(|i| Point { x: i, y: f64::from(i) / 8.0 }).collect()
}

fn track() -> Track {
    Track { name: "Überflug".into(), shade: Colour::Blue, path: points() }
}

/// An `Any` of each kind of type that all versions can carry.
fn narrow() -> Vec<Any> {
    let metres = TypeCode::new_alias("IDL:Anys/Metres:1.0", "Metres", &TypeCode::DOUBLE).expect("an alias");
    vec![
        Any::null(),
        any(()),
        any(-7i8),
        any(7u8),
        any(-7i16),
        any(7u16),
        any(i32::MIN),
        any(u32::MAX),
        any(i64::MIN),
        any(u64::MAX),
        any(1.5f32),
        any(-0.0f64),
        any(true),
        any('x'),
        any(LongDouble::from(-2.5)),
        any(Fixed::<5, 2>::from_unscaled(-12345).expect("five digits")),
        any(String::new()),
        any("grün".to_owned()),
        any(vec![1u8, 2, 3]),
        any(vec![1.5f64, 2.5]),
        any(vec!["a".to_owned(), String::new()]),
        any(vec![vec![1i16], vec![]]),
        any([[1u64, 2], [3, 4]]),
        any(Colour::Green),
        any(Point { x: 1, y: 2.5 }),
        any(points()),
        any(track()),
        any(tree()),
        any(Shape::Radius(1.5)),
        any(Shape::Text("text".into())),
        any(Shape::Outline { label: Colour::Blue, value: points() }),
        any(vec![Shape::Radius(1.5), Shape::Text("text".into())]),
        Any::with_type(metres, 2.5f64).expect("a double"),
        any(Tree::type_code()),
        any(Shape::type_code()),
        any(TypeCode::VOID),
        any(None::<Object>),
        any(None::<KeeperRef>),
        any(any(any(track()))),
        any(vec![any(1u8), Any::null(), any(any(tree()))]),
        any(Refused { why: "inside".into(), what: any(1.5f64), type_: TypeCode::LONG }),
    ]
}

/// Values without a form in GIOP 1.0.
fn wide() -> Vec<Any> {
    vec![
        any(isorb::WChar('€')),
        any(WString("wide 世界 🦀".into())),
        any(Label { letter: 'ß', text: "weiß".into() }),
        any(vec![WString::default(), WString("x".into())]),
        any(any(Label::default())),
    ]
}

#[test]
fn every_kind_goes_there_and_back() {
    everywhere(|pair, config| {
        let mut all = narrow();
        if config.giop != "1.0" {
            all.extend(wide());
        }
        let mut last = Any::null();
        for (i, a) in all.iter().enumerate() {
            let mut b = last.clone();
            let (result, c) = pair.far.rotate(i as u8, a, &mut b).unwrap_or_else(|x| panic!("{a:?}: {x}"));
            assert_eq!((&result, &b, &c), (a, a, &last), "{config:?}");
            // Equal type codes may differ in names; these do not.
            assert_eq!(result.type_code().to_string(), a.type_code().to_string());
            assert_eq!(result.to_string(), a.to_string());
            last = result;
        }
        assert_eq!(pair.far.echo_all(&all).expect("all of them"), all);
        // The extracted value is equal, not only its octets in the `Any`.
        assert_eq!(pair.far.rotate(0, &any(track()), &mut last).expect("a track").0.get(), Some(track()));
        assert_eq!(last.get(), Some(track()));
        let shape = Shape::Outline { label: Colour::Blue, value: points() };
        assert_eq!(pair.far.rotate(1, &any(shape.clone()), &mut last).expect("a shape").0.get(), Some(shape));
    });
}

#[test]
fn wide_text_needs_more_than_giop_1_0() {
    for concurrency in [Concurrency::Connection, Concurrency::Lane] {
        let config = Config { concurrency, giop: "1.0".into(), ..Config::default() };
        let pair = Pair::new(&config);
        for value in wide() {
            let error = pair.far.rotate(0, &value, &mut Any::null()).expect_err("it cannot be sent");
            assert_eq!(error.kind, Kind::Marshal, "{value:?}: {error}");
        }
        assert_eq!(pair.far.name().as_deref(), Ok("server"), "the connection is none the worse");
    }
}

#[test]
fn text_in_an_any_is_transcoded() {
    for giop in ["1.1", "1.2"] {
        let config = Config { giop: giop.into(), char_code_set: "ISO-8859-1".into(), ..Config::default() };
        let pair = Pair::new(&config);
        for value in [any("grün".to_owned()), any(track()), any(any(vec!["ÿ".to_owned()]))] {
            let (back, _) = pair.far.rotate(3, &value, &mut Any::null()).expect("Latin 1 has it");
            assert_eq!(back, value);
        }
    }
}

#[test]
fn type_codes_go_there_and_back() {
    everywhere(|pair, _| {
        let all: Vec<TypeCode> = narrow().iter().chain(&wide()).map(|any| any.type_code().clone()).collect();
        let more = [KeeperRef::type_code(), Parcel::type_code(), Refused::type_code(), TypeCode::object()];
        let mut last = TypeCode::NULL;
        for a in all.iter().chain(&more) {
            let mut b = last.clone();
            let (result, c) = pair.far.rotate_type(a, &mut b).unwrap_or_else(|x| panic!("{a}: {x}"));
            assert!(result.equal(a) && b.equal(a) && c.equal(&last), "{result} for {a}");
            assert_eq!(result.to_string(), a.to_string());
            last = result;
        }
        for value in narrow() {
            assert!(pair.far.type_of(&value).expect("a type code").equal(value.type_code()), "{value:?}");
        }
    });
}

#[test]
fn members_exceptions_and_attributes() {
    everywhere(|pair, _| {
        let parcel = Parcel {
            odd: 1,
            first: any(track()),
            name: "parcel".into(),
            more: narrow(),
            two: [any(tree()), any(1u8)],
            type_: Tree::type_code(),
        };
        assert_eq!(pair.far.echo_parcel(&parcel).expect("a parcel"), parcel);
        // A parcel in a parcel.
        let outer = Parcel { first: any(parcel.clone()), ..parcel };
        assert_eq!(pair.far.echo_parcel(&outer).expect("a parcel"), outer);
        match pair.far.refuse(&any(Point { x: 1, y: 2.5 })) {
            Err(keeper::RefuseError::Refused(Refused { why, what, type_ })) => {
                assert_eq!(why, "struct Point {x: 1, y: 2.5}");
                assert_eq!(what.get(), Some(Point { x: 1, y: 2.5 }));
                assert!(type_.equal(&Point::type_code()));
            }
            other => panic!("{other:?}"),
        }
        pair.far.set_held(&any(tree())).expect("it is kept");
        assert_eq!(pair.far.held().expect("a tree").get(), Some(tree()));
        pair.far.put(&any(1.5f32)).expect("it is sent");
        // A oneway may still be under way when the next request is served.
        let put = (0..1000).any(|_| {
            let held = pair.far.held().expect("a value").get() == Some(1.5f32);
            if !held {
                std::thread::sleep(Duration::from_millis(1));
            }
            held
        });
        assert!(put);
        assert_eq!(pair.far.show(&any(Shape::Radius(1.5))).as_deref(), Ok("union Shape (red) {radius: 1.5}"));
        assert_eq!(pair.far.radius(&any(Shape::Radius(1.5))), Ok(1.5));
        let other = pair.far.radius(&any(Shape::Text("none".into())));
        assert_eq!(other.map_err(|error| error.kind), Err(Kind::BadParam));
    });
}

#[test]
fn references_in_an_any_can_be_called() {
    everywhere(|pair, config| {
        let Pair { client, near, far, .. } = pair;
        // The server takes the client's object out of the `Any` and calls it while the client
        // waits.
        let (message, same) = far.ask(&any(Some(near.clone()))).unwrap_or_else(|x| panic!("{config:?}: {x}"));
        assert_eq!(message, "server says client");
        let object = client.extract::<Option<Object>>(&same).flatten().expect("an object");
        assert_eq!(&object, near.object());
        // The type code says no more than Object.
        assert_eq!(client.extract::<Option<KeeperRef>>(&same), None);
        let narrowed: KeeperRef = object.narrow().expect("it answers").expect("it is a keeper");
        assert_eq!(narrowed.name().as_deref(), Ok("client"));
        // The server's own object, from inside a sequence inside an `Any`.
        let all = vec![None, Some(far.clone())];
        let (back, _) = far.rotate(1, &any(any(all.clone())), &mut Any::null()).expect("references");
        let inner = client.extract::<Any>(&back).expect("an any");
        let found = client.extract::<Vec<Option<KeeperRef>>>(&inner).expect("a sequence of keepers");
        assert_eq!(found, all);
        let keeper = found.into_iter().flatten().next().expect("the second is one");
        assert_eq!(keeper.name().as_deref(), Ok("server"));
        assert_eq!(far.ask(&any(Some(far.clone()))).expect("itself").0, "server says server");
        // In one process, too.
        assert_eq!(near.ask(&any(Some(far.clone()))).expect("a keeper").0, "client says server");
        let refused = far.ask(&any(None::<KeeperRef>)).expect_err("nil cannot be asked");
        assert_eq!(refused.kind, Kind::BadParam);
    });
}

#[test]
fn large_values() {
    everywhere(|pair, _| {
        let octets = any(vec![7u8; 300_000]);
        let (back, _) = pair.far.rotate(1, &octets, &mut Any::null()).expect("it is below the limit");
        assert_eq!(back, octets);
        let many = any((0..2_000).map(|i| any(i as i16)).collect::<Vec<_>>());
        assert_eq!(pair.far.rotate(1, &many, &mut Any::null()).expect("2,000 of them").0, many);
        let tracks = any(vec![track(); 100]);
        assert_eq!(pair.far.rotate(1, &tracks, &mut Any::null()).expect("100 tracks").0, tracks);
    });
}

#[test]
fn abstract_interfaces_travel_as_objects_and_unknown_values_do_not() {
    everywhere(|pair, _| {
        let far = &pair.far;
        let (server, client) = (far.clone(), pair.near.clone());
        let server = AbstractBase::from(NamedRef::from(server));
        let mut b = Some(AbstractBase::from(NamedRef::from(client)));
        let (result, c) = far.rotate_base(Some(&server), &mut b).expect("references");
        assert_eq!((&result, &b), (&Some(server.clone()), &Some(server)));
        let named: NamedRef =
            c.expect("the old b").object().narrow().expect("it answers").expect("it has a name");
        assert_eq!(named.name().as_deref(), Ok("client"));
        assert_eq!(far.rotate_base(None, &mut b).expect("null").0, None);
        assert_eq!(b, None);
        assert_eq!(far.rotate_value(None, &mut None), Ok((None, None)));
        // Neither side knows the type: refused by the server, and by the client after it ran.
        let refused = far.rotate_value(Some(&sealed()), &mut None).expect_err("its type is unknown");
        assert_eq!(refused.kind, Kind::Marshal, "{refused}");
        let refused = far.leak().expect_err("its type is unknown");
        assert_eq!(refused.kind, Kind::Marshal, "{refused}");
        assert_eq!(far.name().as_deref(), Ok("server"), "the connection is none the worse");
    });
}
