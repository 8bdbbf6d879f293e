//! Every type against octets derived by hand from CORBA 3.3 part 2, clause 9.3, in both byte
//! orders.

use isorb_cdr::{
    Decode, Decoder, Encode, Encoder, Error, ErrorKind, Fixed, LEND_FROM, LongDouble, Narrow, Order, Text,
    Version, WChar, WStr, Wide,
};
use isorb_scope::Region;
use std::fmt::Debug;

const LATIN: Text = Text { version: Version::V1_2, narrow: Narrow::Latin1, wide: Wide::Utf16 };
const GIOP_1_1: Text = Text { version: Version::V1_1, narrow: Narrow::Latin1, wide: Wide::Utf16 };

/// Decodes bytes that begin at offset 0, and passes the value to `check`; no octet may be left.
fn decode<T: for<'m> Decode<'m>>(bytes: &[u8], order: Order, text: Text) -> Result<T, Error> {
    // Vectors of u64 are at 8-aligned addresses, as messages are.
    let mut words = vec![0u64; bytes.len().div_ceil(8)];
    let memory = zerocopy::IntoBytes::as_mut_bytes(&mut words[..]);
    memory[..bytes.len()].copy_from_slice(bytes);
    let mut region = Region::new(1024);
    let scope = region.enter();
    let mut d = Decoder::new(&mut memory[..bytes.len()], order, text, &scope);
    let value = T::decode(&mut d)?;
    assert_eq!(d.remaining(), 0, "bytes are left");
    Ok(value)
}

fn encode(text: Text, write: impl FnOnce(&mut Encoder<'_>)) -> Result<Vec<u8>, Error> {
    let mut e = Encoder::new(Vec::new(), text);
    write(&mut e);
    e.flatten()
}

/// One value after one octet, so that padding shows: the octet 0xee, zero padding, the value.
#[track_caller]
fn aligned<T>(value: T, alignment: usize, big: &[u8])
where
    T: for<'m> Decode<'m> + for<'v> Encode<'v> + PartialEq + Debug,
{
    let mut padded = vec![0xee];
    padded.resize(alignment, 0);
    let little = [&padded[..], &big.iter().rev().copied().collect::<Vec<_>>()].concat();
    let big = [&padded[..], big].concat();
    for (order, bytes) in [(Order::Big, big), (Order::Little, little)] {
        let mut words = bytes.clone();
        let mut region = Region::new(64);
        let scope = region.enter();
        let mut d = Decoder::new(&mut words, order, Text::DEFAULT, &scope);
        assert_eq!(d.get(), Ok(0xeeu8));
        assert_eq!(T::decode(&mut d).as_ref(), Ok(&value), "{order:?}");
        assert_eq!(d.remaining(), 0);
        if order == Order::NATIVE {
            let written = encode(Text::DEFAULT, |e| {
                e.put(0xeeu8);
                value.encode(e);
            });
            assert_eq!(written.unwrap(), bytes);
        }
    }
}

/// Clause 9.3.1.1, table 9.1: alignment of each primitive type.
#[test]
fn primitives() {
    aligned(0x12u8, 1, &[0x12]);
    aligned(-2i8, 1, &[0xfe]);
    aligned(true, 1, &[1]);
    aligned('A', 1, &[0x41]);
    aligned(0x1234u16, 2, &[0x12, 0x34]);
    aligned(-2i16, 2, &[0xff, 0xfe]);
    aligned(0x1234_5678u32, 4, &[0x12, 0x34, 0x56, 0x78]);
    aligned(-2i32, 4, &[0xff, 0xff, 0xff, 0xfe]);
    aligned(0x0102_0304_0506_0708u64, 8, &[1, 2, 3, 4, 5, 6, 7, 8]);
    aligned(-2i64, 8, &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe]);
    // IEEE 754: 1.0 is 0x3f800000 and 0x3ff0000000000000, -0.15625 is 0xbe200000.
    aligned(1.0f32, 4, &[0x3f, 0x80, 0, 0]);
    aligned(-0.15625f32, 4, &[0xbe, 0x20, 0, 0]);
    aligned(1.0f64, 8, &[0x3f, 0xf0, 0, 0, 0, 0, 0, 0]);
    // A long double has the alignment of a double and sixteen octets: 1.0 has the exponent 16383.
    aligned(LongDouble::from(1.0), 8, &[0x3f, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    aligned(LongDouble::from(-2.5), 8, &[0xc0, 0, 0x40, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn a_boolean_is_0_or_1() {
    for octet in 2..=255 {
        assert_eq!(decode::<bool>(&[octet], Order::Big, LATIN).unwrap_err().kind, ErrorKind::Value);
    }
}

#[test]
fn long_doubles_and_doubles() {
    for value in [
        0.0,
        -0.0,
        1.5,
        f64::MAX,
        f64::MIN_POSITIVE,
        f64::from_bits(1),
        f64::from_bits(0x000f_ffff_ffff_ffff),
        f64::INFINITY,
        f64::NEG_INFINITY,
    ] {
        assert_eq!(f64::from(LongDouble::from(value)).to_bits(), value.to_bits(), "{value:e}");
    }
    assert!(f64::from(LongDouble::from(f64::NAN)).is_nan());
    // Outside the range of a double: the largest exponent, and the smallest.
    assert_eq!(f64::from(LongDouble(0x7ffe << 112)), f64::INFINITY);
    assert_eq!(f64::from(LongDouble(0x8001 << 112)), -0.0);
    assert!(f64::from(LongDouble(0x7fff << 112 | 1)).is_nan());
}

fn strings(text: Text, order: Order, bytes: &[u8]) -> Result<String, ErrorKind> {
    let mut bytes = bytes.to_vec();
    let mut region = Region::new(256);
    let scope = region.enter();
    let mut d = Decoder::new(&mut bytes, order, text, &scope);
    let value = d.string().map(String::from).map_err(|e| e.kind)?;
    assert_eq!(d.remaining(), 0);
    Ok(value)
}

/// Clause 9.3.2.7: the count includes the terminating zero octet.
#[test]
fn narrow_strings() {
    let utf8 = Text::DEFAULT;
    assert_eq!(strings(utf8, Order::Big, b"\0\0\0\x03hi\0").as_deref(), Ok("hi"));
    assert_eq!(strings(utf8, Order::Little, b"\x03\0\0\0hi\0").as_deref(), Ok("hi"));
    assert_eq!(strings(utf8, Order::Big, b"\0\0\0\x01\0").as_deref(), Ok(""));
    assert_eq!(
        strings(utf8, Order::Big, b"\0\0\0\0").as_deref(),
        Ok(""),
        "some peers leave the terminator away"
    );
    assert_eq!(strings(utf8, Order::Big, b"\0\0\0\x03\xc3\xbc\0").as_deref(), Ok("\u{fc}"));
    assert_eq!(strings(LATIN, Order::Big, b"\0\0\0\x03\xfc\xe9\0").as_deref(), Ok("\u{fc}\u{e9}"));
    assert_eq!(strings(utf8, Order::Big, b"\0\0\0\x02\xfc\0"), Err(ErrorKind::Text));
    assert_eq!(strings(utf8, Order::Big, b"\0\0\0\x02hi"), Err(ErrorKind::Terminator));
    assert_eq!(strings(utf8, Order::Big, b"\0\0\0\x04h\0i\0"), Err(ErrorKind::Terminator));
    assert_eq!(strings(utf8, Order::Big, b"\0\0\0\x04hi\0"), Err(ErrorKind::Length));

    assert_eq!(encode(utf8, |e| e.string("\u{fc}")).unwrap()[4..], *b"\xc3\xbc\0");
    assert_eq!(encode(LATIN, |e| e.string("\u{fc}")).unwrap()[4..], *b"\xfc\0");
    for (text, s) in [(LATIN, "\u{20ac}"), (LATIN, "a\0"), (LATIN, "\u{fc}\0"), (utf8, "a\0b")] {
        assert_eq!(encode(text, |e| e.string(s)).unwrap_err().kind, ErrorKind::Text, "{s:?}");
    }
}

#[test]
fn narrow_characters() {
    assert_eq!(decode::<char>(&[0xe9], Order::Big, LATIN), Ok('\u{e9}'));
    assert_eq!(decode::<char>(&[0xe9], Order::Big, Text::DEFAULT).unwrap_err().kind, ErrorKind::Text);
    assert_eq!(encode(LATIN, |e| e.char('\u{e9}')).unwrap(), [0xe9]);
    assert_eq!(encode(Text::DEFAULT, |e| e.char('\u{e9}')).unwrap_err().kind, ErrorKind::Text);
    assert_eq!(encode(LATIN, |e| e.char('\u{20ac}')).unwrap_err().kind, ErrorKind::Text);
}

fn wide(text: Text, order: Order, bytes: &[u8]) -> Result<String, ErrorKind> {
    let mut bytes = bytes.to_vec();
    let mut region = Region::new(256);
    let scope = region.enter();
    let mut d = Decoder::new(&mut bytes.clone(), order, text, &scope).wstring_owned().map_err(|e| e.kind);
    let mut other = Decoder::new(&mut bytes, order, text, &scope);
    let value = WStr::decode(&mut other).map(|s| s.0.to_owned()).map_err(|e| e.kind);
    if value.is_ok() {
        assert_eq!(other.remaining(), 0);
    }
    if d.is_err() && value.is_err() {
        // The first of several errors may differ.
        d = value.clone();
    }
    assert_eq!(d, value, "into the heap as into the scope");
    value
}

/// Clause 9.3.2.7: in 1.2 a count of octets, no terminator, big endian unless a byte order mark
/// says otherwise (9.3.1.6); in 1.1 a count of characters with the terminator, in the byte order of
/// the message.
#[test]
fn wide_strings() {
    let v12 = Text::DEFAULT;
    assert_eq!(wide(v12, Order::Big, b"\0\0\0\x04\0h\0i").as_deref(), Ok("hi"));
    assert_eq!(wide(v12, Order::Little, b"\x04\0\0\0\0h\0i").as_deref(), Ok("hi"), "big endian all the same");
    assert_eq!(wide(v12, Order::Big, b"\0\0\0\x04\xff\xfeh\0").as_deref(), Ok("h"));
    assert_eq!(wide(v12, Order::Big, b"\0\0\0\x04\xfe\xff\0h").as_deref(), Ok("h"));
    assert_eq!(wide(v12, Order::Big, b"\0\0\0\0").as_deref(), Ok(""));
    // U+1F600 is the pair d83d de00.
    assert_eq!(wide(v12, Order::Big, b"\0\0\0\x04\xd8\x3d\xde\0").as_deref(), Ok("\u{1f600}"));
    assert_eq!(wide(v12, Order::Big, b"\0\0\0\x02\xd8\x3d"), Err(ErrorKind::Text));
    assert_eq!(wide(v12, Order::Big, b"\0\0\0\x03\0h\0"), Err(ErrorKind::Text));
    assert_eq!(wide(v12, Order::Big, b"\0\0\0\x05\0h\0i"), Err(ErrorKind::Length));

    assert_eq!(wide(GIOP_1_1, Order::Big, b"\0\0\0\x02\0h\0\0").as_deref(), Ok("h"));
    assert_eq!(wide(GIOP_1_1, Order::Little, b"\x02\0\0\0h\0\0\0").as_deref(), Ok("h"));
    assert_eq!(wide(GIOP_1_1, Order::Big, b"\0\0\0\x02\0h\0i"), Err(ErrorKind::Terminator));
    assert_eq!(wide(GIOP_1_1, Order::Big, b"\0\0\0\0"), Err(ErrorKind::Terminator));

    for none in [Text::fallback(Version::V1_2), Text { version: Version::V1_0, ..Text::DEFAULT }] {
        assert_eq!(wide(none, Order::Big, b"\0\0\0\0"), Err(ErrorKind::NoWideCodeSet));
        assert_eq!(encode(none, |e| e.wstring("")).unwrap_err().kind, ErrorKind::NoWideCodeSet);
        assert_eq!(encode(none, |e| e.wchar('a')).unwrap_err().kind, ErrorKind::NoWideCodeSet);
    }
    assert_eq!(encode(v12, |e| e.wstring("h\u{1f600}")).unwrap()[4..], *b"\0h\xd8\x3d\xde\0");
}

/// Clause 9.3.1.6: in 1.2 an octet with the number of octets; in 1.1 two octets, aligned.
#[test]
fn wide_characters() {
    let v12 = Text::DEFAULT;
    assert_eq!(decode(b"\x02\0h", Order::Little, v12), Ok(WChar('h')));
    assert_eq!(decode(b"\x04\xff\xfeh\0", Order::Big, v12), Ok(WChar('h')));
    assert_eq!(decode(b"\x04\xd8\x3d\xde\0", Order::Big, v12), Ok(WChar('\u{1f600}')));
    assert_eq!(decode(b"\0h", Order::Big, GIOP_1_1), Ok(WChar('h')));
    assert_eq!(decode(b"h\0", Order::Little, GIOP_1_1), Ok(WChar('h')));
    for bad in [&b"\0"[..], b"\x01h", b"\x03\0h\0", b"\x04\0h\0i", b"\x02\xd8\x3d"] {
        assert_eq!(decode::<WChar>(bad, Order::Big, v12).unwrap_err().kind, ErrorKind::Text, "{bad:?}");
    }
    assert_eq!(decode::<WChar>(b"\x02\0", Order::Big, v12).unwrap_err().kind, ErrorKind::Truncated);
    assert_eq!(encode(v12, |e| e.wchar('h')).unwrap(), b"\x02\0h");
    assert_eq!(encode(GIOP_1_1, |e| e.wchar('\u{1f600}')).unwrap_err().kind, ErrorKind::Text);
}

/// Text that begins with a unit that looks like a byte order mark keeps its first character.
#[test]
fn marks_are_text_too() {
    for s in ["\u{feff}", "\u{feff}a", "\u{fffe}a", "a\u{feff}"] {
        let bytes = encode(Text::DEFAULT, |e| e.wstring(s)).unwrap();
        assert_eq!(wide(Text::DEFAULT, Order::NATIVE, &bytes).as_deref(), Ok(s), "{s:?}");
    }
    for c in ['\u{feff}', '\u{fffe}'] {
        let bytes = encode(Text::DEFAULT, |e| e.wchar(c)).unwrap();
        assert_eq!(decode(&bytes, Order::NATIVE, Text::DEFAULT), Ok(WChar(c)));
    }
}

/// Clause 9.3.2.8: digits two an octet, a leading zero when their number is even, the sign c or d
/// last.
#[test]
fn fixed_point() {
    type Odd = Fixed<5, 2>;
    type Even = Fixed<4, 2>;
    let odd = |n| Odd::from_unscaled(n).unwrap();
    let even = |n| Even::from_unscaled(n).unwrap();
    for (value, bytes) in [(odd(12345), [0x12, 0x34, 0x5c]), (odd(-7), [0, 0, 0x7d]), (odd(0), [0, 0, 0x0c])]
    {
        assert_eq!(encode(LATIN, |e| value.encode(e)).unwrap(), bytes);
        assert_eq!(decode(&bytes, Order::Big, LATIN), Ok(value));
        assert_eq!(decode(&bytes, Order::Little, LATIN), Ok(value), "octets have no byte order");
    }
    assert_eq!(encode(LATIN, |e| even(1234).encode(e)).unwrap(), [0x01, 0x23, 0x4c]);
    assert_eq!(decode(&[0x01, 0x23, 0x4d], Order::Big, LATIN), Ok(even(-1234)));
    assert_eq!(decode::<Even>(&[0x11, 0x23, 0x4c], Order::Big, LATIN).unwrap_err().kind, ErrorKind::Bound);
    assert_eq!(decode::<Odd>(&[0x1a, 0x34, 0x5c], Order::Big, LATIN).unwrap_err().kind, ErrorKind::Value);
    assert_eq!(decode::<Odd>(&[0x12, 0x34, 0x51], Order::Big, LATIN).unwrap_err().kind, ErrorKind::Value);
    assert_eq!(decode::<Odd>(&[0x12, 0x34], Order::Big, LATIN).unwrap_err().kind, ErrorKind::Truncated);

    assert_eq!(odd(-7).to_string(), "-0.07");
    assert_eq!("-0.07d".parse(), Ok(odd(-7)));
    assert_eq!("123.45".parse(), Ok(odd(12345)));
    assert_eq!(".5".parse(), Ok(odd(50)));
    assert_eq!("1.230".parse(), Ok(odd(123)));
    assert_eq!("1.234".parse::<Odd>(), Err(ErrorKind::Bound));
    assert_eq!("1000".parse::<Odd>(), Err(ErrorKind::Bound));
    for bad in ["", ".", "-", "1e3", "+1", "--1"] {
        assert_eq!(bad.parse::<Odd>(), Err(ErrorKind::Value), "{bad:?}");
    }
    // Only the last digit exceeds the range of the integer.
    assert_eq!("170141183460469231731687303715884105729".parse::<Fixed<31, 0>>(), Err(ErrorKind::Bound));
    let largest = Fixed::<31, 0>::from_unscaled(10i128.pow(31) - 1).unwrap();
    let bytes = encode(LATIN, |e| largest.encode(e)).unwrap();
    assert_eq!((bytes.len(), bytes[15], decode(&bytes, Order::Big, LATIN)), (16, 0x9c, Ok(largest)));
}

/// Clauses 9.3.2.4 and 9.3.2.5: arrays have no count; a count is padded before its elements, unless
/// there are none.
#[test]
fn arrays_and_sequences() {
    assert_eq!(decode([0, 1, 0, 2].as_slice(), Order::Big, LATIN), Ok([1u16, 2]));
    assert_eq!(encode(LATIN, |e| [true, false].encode(e)).unwrap(), [1, 0]);
    let doubles = b"\0\0\0\x01\0\0\0\0\x3f\xf0\0\0\0\0\0\0";
    for order in [Order::Big, Order::Little] {
        let mut bytes = doubles.to_vec();
        if order == Order::Little {
            bytes[..4].reverse();
            bytes[8..].reverse();
        }
        let mut region = Region::new(256);
        let scope = region.enter();
        let mut d = Decoder::new(&mut bytes, order, LATIN, &scope);
        assert_eq!(d.plain_seq::<f64>(), Ok(&[1.0][..]));
        assert_eq!(d.remaining(), 0);
    }
    let written = encode(LATIN, |e| [1.0f64][..].encode(e)).unwrap();
    assert_eq!((written.len(), &written[4..8]), (16, &[0; 4][..]));
    assert_eq!(encode(LATIN, |e| ([] as [f64; 0])[..].encode(e)).unwrap(), [0; 4], "no padding for nothing");
    // A sequence of strings: each begins at a multiple of 4.
    let mut bytes = b"\0\0\0\x02\0\0\0\x02a\0\0\0\0\0\0\x03bc\0".to_vec();
    let mut region = Region::new(256);
    let scope = region.enter();
    let mut d = Decoder::new(&mut bytes, Order::Big, LATIN, &scope);
    assert_eq!(d.read::<&[&str]>(), Ok(&["a", "bc"][..]));
}

/// Clause 9.3.3: an encapsulation has a byte order of its own, and alignment counts from its first
/// octet.
#[test]
fn encapsulations() {
    // At offset 1: padding, the count 12 at 4, then little endian: order, padding, a long at 4 of
    // the encapsulation, an octet, padding. The outside is big endian.
    let mut bytes = b"\x01\0\0\0\0\0\0\x0c\x01\0\0\0\x02\0\0\0\x03\0\x04\0\0\0\0\x06".to_vec();
    let mut region = Region::new(256);
    let scope = region.enter();
    let mut d = Decoder::new(&mut bytes, Order::Big, LATIN, &scope);
    assert_eq!(d.get(), Ok(1u8));
    let mut inner = d.encapsulation().unwrap();
    assert_eq!((inner.order(), inner.get()), (Order::Little, Ok(2u32)));
    assert_eq!((inner.get(), inner.get(), inner.remaining()), (Ok(3u8), Ok(4u16), 0));
    assert_eq!((d.get(), d.remaining()), (Ok(6u32), 0));

    // Written and read again, with a double at offset 8 of an encapsulation at offset 12 of the
    // message, inside an encapsulation at 8. The value is aligned on the wire but not in memory, so
    // it must be moved.
    let values = [1.5f64, -2.5];
    let written = encode(LATIN, |e| {
        e.put(7u32);
        e.encapsulation(|e| {
            e.put(8u8);
            e.encapsulation(|e| {
                e.plain_seq(&[1.5, -2.5]);
                e.string("end");
            });
            e.put(9u16);
        });
        e.put(10u64);
    });
    let mut bytes = written.unwrap();
    let mut d = Decoder::new(&mut bytes, Order::NATIVE, LATIN, &scope);
    assert_eq!(d.get(), Ok(7u32));
    let mut outer = d.encapsulation().unwrap();
    assert_eq!(outer.get(), Ok(8u8));
    let mut inner = outer.encapsulation().unwrap();
    assert_eq!(inner.plain_seq::<f64>(), Ok(&values[..]));
    assert_eq!((inner.string(), inner.remaining()), (Ok("end"), 0));
    assert_eq!((outer.get(), outer.remaining()), (Ok(9u16), 0));
    assert_eq!((d.get(), d.remaining()), (Ok(10u64), 0));
}

/// Lent slices lie between pieces of the buffer; the data behind them is aligned as if they had
/// been copied.
#[test]
fn lent_slices() {
    let large: Vec<u8> = (0..LEND_FROM + 3).map(|i| i as u8).collect();
    let mut e = Encoder::new(Vec::new(), LATIN);
    for _ in 0..6 {
        e.put(1u8);
        e.plain_seq(&large);
        e.put(2u32);
    }
    let position = e.position();
    let message = e.finish().unwrap();
    assert!(message.contiguous().is_none());
    let pieces: Vec<&[u8]> = message.pieces().collect();
    assert!(pieces.len() <= isorb_cdr::Message::MAX_PIECES);
    assert_eq!(
        pieces.iter().filter(|piece| piece.as_ptr() == large.as_ptr()).count(),
        4,
        "the rest is copied"
    );
    let mut bytes = pieces.concat();
    assert_eq!((bytes.len(), message.len()), (position, position));
    let mut region = Region::new(64);
    let scope = region.enter();
    let mut d = Decoder::new(&mut bytes, Order::NATIVE, LATIN, &scope);
    for _ in 0..6 {
        assert_eq!(d.get(), Ok(1u8));
        assert_eq!(d.plain_seq::<u8>(), Ok(&large[..]));
        assert_eq!(d.get(), Ok(2u32));
    }
}

#[test]
fn writing_has_a_limit() {
    let mut e = Encoder::new(Vec::new(), LATIN);
    e.set_limit(16);
    e.put(1u64);
    e.string("four bytes too many");
    e.put(2u64);
    assert_eq!(e.error().unwrap().kind, ErrorKind::TooLarge);
    assert!(e.position() <= 24);
    e.truncate(8);
    e.put(3u64);
    assert_eq!(e.flatten().unwrap().len(), 16);
}
