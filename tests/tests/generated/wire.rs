//! Values of generated types to bytes and back.

use isorb::generated::{
    Any, CdrErrorKind, Decode, Decoder, Encode, Encoder, Fixed, Idl, LongDouble, Plain as _,
};
use isorb_cdr::{Order, Text, Version};
use isorb_scope::Region;
use isorb_tests::corpus::from_types::types::*;
use std::fmt::Debug;

fn bytes<'v>(value: impl Encode<'v>) -> Vec<u8> {
    let mut e = Encoder::new(Vec::new(), Text::DEFAULT);
    value.encode(&mut e);
    e.flatten().expect("it can be sent")
}

fn refused<'v>(value: impl Encode<'v>) -> CdrErrorKind {
    let mut e = Encoder::new(Vec::new(), Text::DEFAULT);
    value.encode(&mut e);
    e.flatten().expect_err("it cannot be sent").kind
}

/// Reads a `T` from `bytes`, which must be all of it.
fn read<T: Idl>(bytes: &[u8], order: Order) -> Result<T, CdrErrorKind> {
    // As in a message: at an 8-aligned address.
    let mut region = Region::new(1 << 16);
    let scope = region.enter();
    let bytes = scope.aligned_copy(bytes).expect("it fits");
    let mut d = Decoder::new(bytes, order, Text::DEFAULT, &scope);
    let view = T::View::decode(&mut d).map_err(|error| error.kind)?;
    assert_eq!(d.remaining(), 0);
    Ok(T::from_view(view))
}

/// Owned to bytes to view to bytes to owned.
macro_rules! goes_round {
    ($value:expr) => {{
        let value = $value;
        goes_round(value, bytes(value));
    }};
}

fn goes_round<T: Idl + PartialEq + Debug>(value: &T, sent: Vec<u8>) {
    assert_eq!(read::<T>(&sent, Order::NATIVE).as_ref(), Ok(value));
    let mut copy = sent.clone();
    let mut region = Region::new(1 << 16);
    let scope = region.enter();
    let mut d = Decoder::new(&mut copy, Order::NATIVE, Text::DEFAULT, &scope);
    let view = T::View::decode(&mut d).expect("it was read before");
    let mut e = Encoder::new(Vec::new(), Text::DEFAULT);
    view.encode(&mut e);
    assert_eq!(e.flatten().expect("it can be sent"), sent, "the view is sent as the owned value is");
    let mut region = Region::new(1 << 16);
    let scope = region.enter();
    let view = value.view_in(&scope).expect("it fits");
    assert_eq!(bytes(view), sent, "the view of the owned value is sent as this is");
    // No part of it is read as the whole.
    for n in 0..sent.len() {
        let mut part = sent[..n].to_vec();
        let mut region = Region::new(1 << 16);
        let scope = region.enter();
        let mut d = Decoder::new(&mut part, Order::NATIVE, Text::DEFAULT, &scope);
        assert!(T::View::decode(&mut d).is_err(), "{n} of {} octets", sent.len());
    }
}

fn wide() -> Wide {
    let texts = |all: &[&str]| all.iter().map(|s| (*s).to_owned()).collect::<Vec<String>>();
    Wide {
        w: '€',
        s: "wide €".to_owned(),
        b: "12345678".to_owned(),
        many: texts(&["", "x"]),
        more: vec![texts(&["a"]), vec![]],
        cs: vec!['ü', 'z'],
        grid: [['a', 'b'], ['c', 'd']],
        pair: ["left".to_owned(), "right".to_owned()],
        first: ["one".to_owned()],
        second: ['1'],
    }
}

fn bounded() -> Bounded {
    Bounded {
        s: "12345678".to_owned(),
        t: vec!["a".to_owned(), "b".to_owned(), "c".to_owned()],
        l: vec![1, 2, 3, 4],
        m: vec![vec!["x".to_owned()], vec![]],
    }
}

fn tree(depth: u32) -> Node {
    let children = (0..depth).map(tree).collect();
    Node { name: format!("node {depth}"), children }
}

#[test]
fn every_kind_of_type_goes_round() {
    goes_round!(&Numbers { o: 1, s: -2, us: 3, l: -4, ul: 5, ll: -6, ull: 7, f: 0.5, d: -0.25 });
    goes_round!(&Flags {
        b: true,
        c: 'x',
        w: 'ß',
        ld: LongDouble::from(1.5),
        money: Fixed::from_unscaled(-12345).expect("five digits"),
    });
    goes_round!(&wide());
    goes_round!(&bounded());
    goes_round!(&tree(4));
    let right = Right { ls: vec![], n: 7 };
    let left = Left { rights: vec![right.clone(), right], p: Paint::BlueGreen };
    goes_round!(&Right { ls: vec![left.clone()], n: 8 });
    goes_round!(&Anys {
        a: Any::from(7i32),
        many: vec![Any::from(1u8), Any::from(true)],
        two: [Any::from(1.5f64), Any::null()],
        o: None,
        os: vec![None, None],
        oo: [None, None],
    });
    goes_round!(&Full {
        why: "for a test".to_owned(),
        e: Everything {
            n: Numbers::default(),
            p: vec![Plain { value: 1.0, at: 2 }],
            w: wide(),
            b: bounded(),
            g: Grid {
                g: [[[1, 2, 3, 4]; 3]; 2],
                b: [true, false],
                s: Default::default(),
                p: [Plain::default(); 3],
                w: [wide(), wide()],
                big: [0.5; 100],
            },
            t: tree(2),
            l: left,
            a: Anys {
                a: Any::null(),
                many: vec![],
                two: [Any::null(), Any::null()],
                o: None,
                os: vec![],
                oo: [None, None],
            },
            d: vec![std::array::from_fn(|i| std::array::from_fn(|j| vec![i as f64, j as f64]))],
            c: vec![Colour::Red, Colour::BlueGreen],
        },
        u: ByLong::A(1),
        o: None,
        a: Any::null(),
    });
}

#[test]
fn unions_keep_their_discriminator() {
    goes_round!(&ByLong::A(-1));
    goes_round!(&ByLong::B { label: 3, value: "three".to_owned() });
    goes_round!(&ByLong::C { label: 9, value: 9 });
    goes_round!(&ByLong::D { label: i32::MIN, value: tree(1) });
    goes_round!(&ByEnum::B("text".to_owned()));
    goes_round!(&ByEnum::Unlisted(Colour::Green));
    goes_round!(&ByBool::T(0.5));
    goes_round!(&ByBool::Unlisted(false));
    goes_round!(&ByBoth::F(bounded()));
    goes_round!(&ByChar::B { label: '\'', value: 5 });
    goes_round!(&ByWChar::X("wide".to_owned()));
    goes_round!(&ByWChar::Y { label: 'y', value: '€' });
    goes_round!(&ByUShort::B { label: 3, value: "12345678".to_owned() });
    goes_round!(&ByLongLong::More { label: 1, value: vec![ByLongLong::A(3)] });
    goes_round!(&ByULongLong::A(1));
}

#[test]
fn a_discriminator_must_fit_its_variant() {
    assert_eq!(refused(&ByLong::B { label: 5, value: String::new() }), CdrErrorKind::Value);
    assert_eq!(refused(&ByLong::D { label: 2, value: tree(0) }), CdrErrorKind::Value);
    assert_eq!(refused(ByBool::Unlisted(true)), CdrErrorKind::Value);
    assert_eq!(refused(&ByEnum::Unlisted(Colour::Red)), CdrErrorKind::Value);
}

#[test]
fn an_unknown_enumerator_is_refused() {
    assert_eq!(read::<Colour>(&2u32.to_ne_bytes(), Order::NATIVE), Ok(Colour::BlueGreen));
    assert_eq!(read::<Colour>(&3u32.to_ne_bytes(), Order::NATIVE), Err(CdrErrorKind::Value));
}

#[test]
fn bounds_hold_on_both_sides() {
    let long = Bounded { s: "123456789".to_owned(), ..bounded() };
    assert_eq!(refused(&long), CdrErrorKind::Bound);
    assert_eq!(refused(&Bounded { l: vec![0; 5], ..bounded() }), CdrErrorKind::Bound);
    assert_eq!(refused(&Bounded { t: vec!["123456789".to_owned()], ..bounded() }), CdrErrorKind::Bound);
    assert_eq!(refused(&Bounded { m: vec![vec![]; 3], ..bounded() }), CdrErrorKind::Bound);
    assert_eq!(refused(&Wide { b: "123456789".to_owned(), ..wide() }), CdrErrorKind::Bound);
    assert_eq!(refused(&Wide { cs: vec!['x'; 8], ..wide() }), CdrErrorKind::Bound);
    // What a peer sends that knows no bounds: the string of nine characters first.
    let mut e = Encoder::new(Vec::new(), Text::DEFAULT);
    e.string("123456789");
    for _ in 0..3 {
        e.count(0);
    }
    let sent = e.flatten().expect("it can be sent");
    assert_eq!(read::<Bounded>(&sent, Order::NATIVE), Err(CdrErrorKind::Bound));
}

#[test]
fn wide_text_is_wide_wherever_it_stands() {
    // Where no wide text may travel, every type that contains some is refused.
    let narrow = Text { version: Version::V1_0, ..Text::DEFAULT };
    let value = wide();
    let mut e = Encoder::new(Vec::new(), narrow);
    (&value).encode(&mut e);
    assert_eq!(e.flatten().map_err(|error| error.kind), Err(CdrErrorKind::NoWideCodeSet));
    // In GIOP 1.2 a wide string has two octets a character and no terminator, a narrow one has one
    // and one more.
    let sent = bytes(&ByWChar::X("ab".to_owned()));
    // wchar: length octet, then UTF-16; padding to the length of the string.
    assert_eq!(sent, [&[2, 0, b'x', 0][..], &4u32.to_ne_bytes(), &[0, b'a', 0, b'b']].concat());
}

#[test]
fn structures_lie_as_the_standard_says() {
    // CORBA 3.3 part 2, clause 9.3.1: natural alignment, here in both byte orders. double, then
    // string.
    let big = [
        0x3f, 0xf0, 0, 0, 0, 0, 0, 0, // 1.0
        0, 0, 0, 0, 0, 0, 0, 9, // 9
    ];
    assert_eq!(read::<Plain>(&big, Order::Big), Ok(Plain { value: 1.0, at: 9 }));
    let mut little = big;
    little[..8].reverse();
    little[8..].reverse();
    assert_eq!(read::<Plain>(&little, Order::Little), Ok(Plain { value: 1.0, at: 9 }));
    let seq: Vec<u8> = [&[0, 0, 0, 2, 0, 0, 0, 0][..], &big, &big].concat();
    assert_eq!(read::<Plains>(&seq, Order::Big), Ok(vec![Plain { value: 1.0, at: 9 }; 2]));
    // An octet, three octets of padding, a long.
    assert_eq!(read::<Padded>(&[7, 0, 0, 0, 0, 0, 1, 2], Order::Big), Ok(Padded { a: 7, b: 258 }));
    // A union: discriminator 3, then the string "hi" with its count and terminator.
    let union = [0, 0, 0, 3, 0, 0, 0, 3, b'h', b'i', 0];
    assert_eq!(read::<ByLong>(&union, Order::Big), Ok(ByLong::B { label: 3, value: "hi".to_owned() }));
    // A recursive structure: a name, a count of one, a name, a count of none.
    let node = [0, 0, 0, 2, b'a', 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, b'b', 0, 0, 0, 0, 0, 0, 0];
    let leaf = Node { name: "b".to_owned(), children: vec![] };
    assert_eq!(read::<Node>(&node, Order::Big), Ok(Node { name: "a".to_owned(), children: vec![leaf] }));
    // fixed<5,2> has three octets: five digits and the sign (clause 9.3.2.8).
    let flags = [&[1, b'c', 2, 0, b'w', 0, 0, 0][..], &[0; 16], &[0x12, 0x34, 0x5c]].concat();
    let expected =
        Flags { b: true, c: 'c', w: 'w', ld: LongDouble(0), money: Fixed::from_unscaled(12345).unwrap() };
    assert_eq!(read::<Flags>(&flags, Order::Big), Ok(expected));
}

#[test]
fn a_plain_sequence_is_read_where_it_lies() {
    let sent = bytes(&[Plain { value: 1.0, at: 2 }, Plain { value: 3.0, at: 4 }][..]);
    let mut region = Region::new(4096);
    let scope = region.enter();
    let sent = scope.aligned_copy(&sent).expect("it fits");
    let used = scope.used();
    let mut d = Decoder::new(sent, Order::NATIVE, Text::DEFAULT, &scope);
    let items: &[Plain] = Decode::decode(&mut d).expect("it was sent");
    assert_eq!(items[1], Plain { value: 3.0, at: 4 });
    assert_eq!(scope.used(), used, "nothing was copied");
    let mut swapped = items[0];
    swapped.swap();
    assert_eq!(swapped.at, 2u64.swap_bytes());
}

#[test]
fn counts_and_depth_are_bounded() {
    // A count of four thousand million nodes, and nothing after it.
    let mut huge = bytes("name");
    huge.resize(huge.len().next_multiple_of(4), 0);
    huge.extend_from_slice(&u32::MAX.to_ne_bytes());
    assert_eq!(read::<Node>(&huge, Order::NATIVE), Err(CdrErrorKind::Length));
    let deep = (0..200).fold(tree(0), |inner, _| Node { name: String::new(), children: vec![inner] });
    assert_eq!(read::<Node>(&bytes(&deep), Order::NATIVE), Err(CdrErrorKind::Depth));
}

#[test]
fn constants_have_their_values() {
    assert_eq!(
        (K_OCTET, K_SHORT, K_U_SHORT, K_LONG, K_U_LONG),
        (255, i16::MIN, u16::MAX, i32::MIN, u32::MAX)
    );
    assert_eq!((K_LONG_LONG, K_U_LONG_LONG), (i64::MIN, u64::MAX));
    assert_eq!((K_FLOAT, K_DOUBLE, K_MINUS), (0.1f32, 1e300, -2.5));
    assert_eq!((K_TRUE, K_CHAR, K_W_CHAR), (true, '\'', '€'));
    assert_eq!((K_STRING, K_W_STRING), ("a \"quoted\" \\ line\n", "wide"));
    assert_eq!((K_FIXED.to_string(), K_NEGATIVE.to_string()), ("123.45".to_owned(), "-0.5".to_owned()));
    assert_eq!(K_LONG_DOUBLE, LongDouble::from(-1.5));
    assert_eq!((K_COLOUR, K_PAINT), (Colour::Green, Paint::BlueGreen));
}

#[test]
fn exceptions_say_what_they_are() {
    let fixed = Fixed_ { code: 7, c: Colour::Red };
    assert_eq!(fixed.to_string(), "types::Fixed_ (code: 7)");
    assert_eq!(Fixed_::ID, "IDL:types/Fixed_:1.0");
    assert_eq!(Empty {}.to_string(), "types::Empty");
}

#[test]
fn structures_travel_in_an_any() {
    let any = Any::new(&tree(2)).expect("it has a type code");
    assert_eq!(any.type_code().id().ok(), Some("IDL:types/Node:1.0"));
    assert_eq!(any.get::<Node>(), Some(tree(2)));
    assert_eq!(any.get::<Padded>(), None);
    goes_round!(&any);
    // Left and Right contain each other.
    let left = Left { rights: vec![Right { ls: vec![], n: 7 }], p: Paint::Green };
    let any = Any::new(&left).expect("it has a type code");
    assert_eq!(any.get::<Left>(), Some(left));
    goes_round!(&any);
    let any = Any::new(&wide()).expect("it has a type code");
    assert_eq!(any.get::<Wide>(), Some(wide()));
    // The members keep the names of their types.
    let content = any.type_code().member_type(2).expect("it has ten members");
    assert_eq!(content.name().ok(), Some("WShort"));
    let any = Any::new(&Colour::Green).expect("it has a type code");
    assert_eq!(any.get::<Colour>(), Some(Colour::Green));
    let any = Any::new(&Fixed_ { code: 1, c: Colour::Red }).expect("it has a type code");
    assert_eq!(any.get::<Fixed_>(), Some(Fixed_ { code: 1, c: Colour::Red }));
    // A refused discriminator, text or bound is refused here, too.
    assert!(Any::new(&Bounded { l: vec![0; 5], ..bounded() }).is_err());
}
