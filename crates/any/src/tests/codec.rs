//! `IOP::Codec`: versions, byte orders, code sets, and each exception.

use super::random::ty;
use crate::{Any, Codec, CodecError, Encoding, TypeCode, UnknownEncoding};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use isorb_cdr::{Narrow, WString, Wide};
use proptest::prelude::*;

fn codec(minor: u8) -> Codec {
    Codec::new(Encoding { minor, ..Encoding::CDR_1_2 }).unwrap()
}

fn text(text: &str) -> Any {
    Any::new(&text.to_string()).unwrap()
}

#[test]
fn other_encodings_are_unknown() {
    for (format, major, minor) in [(1, 1, 2), (-1, 1, 2), (0, 1, 3), (0, 2, 0), (0, 0, 9)] {
        let encoding = Encoding { format, major, minor };
        assert_eq!(Codec::new(encoding), Err(UnknownEncoding(encoding)));
    }
    let wrong = UnknownEncoding(Encoding { format: 7, major: 1, minor: 2 }).to_string();
    assert!(wrong.contains("format 7") && wrong.contains("UnknownEncoding"), "{wrong}");
}

/// The octets of an `unsigned long long` and a `string`, written by hand from part 2, clause 9.3.
#[test]
fn the_octets_are_an_encapsulation() {
    let little = [1, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0];
    let big = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7];
    for octets in [little, big] {
        let any = codec(2).decode_value(&octets, &TypeCode::ULONGLONG).unwrap();
        assert_eq!(any.get::<u64>(), Some(7));
    }
    let native = if cfg!(target_endian = "little") { little } else { big };
    assert_eq!(codec(2).encode_value(&Any::from(7u64)).unwrap(), native);
    // Kind 18 with its bound 0, then five octets of text; `ü` is one octet in ISO 8859-1.
    let any = [0, 0, 0, 0, 0, 0, 0, 18, 0, 0, 0, 0, 0, 0, 0, 5, b'f', 0xfc, b'n', b'f', 0];
    assert_eq!(codec(0).decode(&any).unwrap().get::<String>().as_deref(), Some("fünf"));
}

#[test]
fn text_has_the_code_sets_of_the_codec() {
    let value = text("fünf");
    let latin = codec(2).encode_value(&value).unwrap();
    let utf8 = codec(2).with_code_sets(Narrow::Utf8, Wide::Utf16);
    assert_eq!(utf8.encode_value(&value).unwrap().len(), latin.len() + 1);
    assert_eq!(codec(2).decode_value(&latin, &TypeCode::STRING).as_ref(), Ok(&value));
    assert!(matches!(utf8.decode_value(&latin, &TypeCode::STRING), Err(CodecError::TypeMismatch(_))));
    let outside = codec(2).encode(&text("\u{20ac}"));
    assert!(matches!(outside, Err(CodecError::InvalidTypeForEncoding(_))), "{outside:?}");
}

#[test]
fn version_1_0_has_no_wide_text() {
    let wide = Any::new(&WString("w".into())).unwrap();
    let refused = codec(0).with_code_sets(Narrow::Utf8, Wide::Utf16).encode(&wide);
    assert!(matches!(refused, Err(CodecError::InvalidTypeForEncoding(_))), "{refused:?}");
    for minor in [1, 2] {
        let octets = codec(minor).encode(&wide).unwrap();
        assert_eq!(codec(minor).decode(&octets).as_ref(), Ok(&wide), "1.{minor}");
    }
    assert_ne!(codec(1).encode(&wide), codec(2).encode(&wide), "a length in units, and one in octets");
}

#[test]
fn wrong_octets_are_refused() {
    let octets = codec(2).encode(&text("abc")).unwrap();
    for wrong in [&[][..], &[2], &octets[..1], &octets[..octets.len() - 1], &[0xff; 9]] {
        let error = codec(2).decode(wrong).unwrap_err();
        assert!(matches!(error, CodecError::FormatMismatch(_)), "{wrong:?}: {error}");
    }
    let longer = [&octets[..], &[0]].concat();
    assert!(matches!(codec(2).decode(&longer), Err(CodecError::FormatMismatch(_))));
    let value = codec(2).encode_value(&text("abc")).unwrap();
    let tc = TypeCode::string(2);
    assert!(matches!(codec(2).decode_value(&value, &tc), Err(CodecError::TypeMismatch(_))), "its bound");
    assert!(matches!(codec(2).decode_value(&value, &TypeCode::SHORT), Err(CodecError::TypeMismatch(_))));
    assert!(matches!(codec(2).decode_value(&[], &TypeCode::VOID), Err(CodecError::FormatMismatch(_))));
    // An unknown type code.
    assert!(matches!(codec(2).decode(&[0, 0, 0, 0, 0, 0, 0, 99]), Err(CodecError::FormatMismatch(_))));
}

proptest! {
    #[test]
    fn any_value_survives(ty in ty()) {
        let any = crate::DynAny::from_type(&ty.type_code()).unwrap().to_any().unwrap();
        for minor in [1, 2] {
            let codec = codec(minor);
            prop_assert_eq!(codec.decode(&codec.encode(&any).unwrap()), Ok(any.clone()));
            let octets = codec.encode_value(&any).unwrap();
            prop_assert_eq!(codec.decode_value(&octets, any.type_code()), Ok(any.clone()));
        }
    }

    #[test]
    fn random_octets_never_panic(octets in proptest::collection::vec(any::<u8>(), 0..100)) {
        let octets: Vec<u8> = [&[1u8][..], &octets].concat();
        let _ = (codec(0).decode(&octets), codec(1).decode(&octets), codec(2).decode(&octets));
    }
}
