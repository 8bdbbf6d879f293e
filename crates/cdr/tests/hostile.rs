//! Hostile octets: counts larger than the message, endless nesting, random octets.

use isorb_cdr::{
    Decode, Decoder, Encoder, ErrorKind, Fixed, LongDouble, MAX_DEPTH, Narrow, Order, Result, Text, Version,
    WChar, WStr, Wide,
};
use isorb_scope::Region;
use proptest::prelude::*;

fn kind<T: for<'m> Decode<'m>>(bytes: &[u8], region: usize) -> Result<(), ErrorKind> {
    let mut bytes = bytes.to_vec();
    let mut region = Region::new(region);
    let scope = region.enter();
    T::decode(&mut Decoder::new(&mut bytes, Order::Big, Text::DEFAULT, &scope)).map(drop).map_err(|e| e.kind)
}

macro_rules! seq_kind {
    ($t:ty, $bytes:expr, $region:expr) => {{
        let mut bytes = $bytes.to_vec();
        let mut region = Region::new($region);
        let scope = region.enter();
        let mut d = Decoder::new(&mut bytes, Order::Big, Text::DEFAULT, &scope);
        let read = <$t>::decode(&mut d).map(drop).map_err(|e| e.kind);
        read
    }};
}

#[test]
fn counts_are_checked_before_anything_is_reserved() {
    let huge = b"\xff\xff\xff\xff\0\0\0\0";
    // No region at all: an attempt to reserve would give Full.
    assert_eq!(seq_kind!(&[u8], huge, 0), Err(ErrorKind::Length));
    assert_eq!(seq_kind!(&[f64], huge, 0), Err(ErrorKind::Length));
    assert_eq!(seq_kind!(&[&str], huge, 0), Err(ErrorKind::Length));
    assert_eq!(seq_kind!(&[&[&str]], huge, 0), Err(ErrorKind::Length));
    assert_eq!(seq_kind!(&[[f64; 4]], huge, 0), Err(ErrorKind::Length));
    assert_eq!(seq_kind!(&str, huge, 0), Err(ErrorKind::Length));
    assert_eq!(seq_kind!(WStr<'_>, huge, 0), Err(ErrorKind::Length));
    // Types of no octets on the wire cannot be counted without end either.
    assert_eq!(seq_kind!(&[()], huge, 1 << 20), Err(ErrorKind::Length));
}

#[test]
fn a_full_scope_is_an_error() {
    // Eight empty strings: 32 octets on the wire, 128 in the scope.
    let mut bytes = vec![0, 0, 0, 8];
    bytes.extend([0; 32]);
    assert_eq!(seq_kind!(&[&str], bytes, 120), Err(ErrorKind::Full));
    assert_eq!(seq_kind!(&[&str], bytes, 128), Ok(()));
    assert_eq!(kind::<u32>(&[0; 3], 0), Err(ErrorKind::Truncated));
}

#[test]
fn nesting_ends() {
    // Encapsulations in encapsulations, as deep as 4 + 1 octets each allow.
    let mut e = Encoder::new(Vec::new(), Text::DEFAULT);
    fn nest(e: &mut Encoder<'_>, depth: usize) {
        if depth > 0 {
            e.encapsulation(|e| nest(e, depth - 1));
        }
    }
    nest(&mut e, 2 * usize::from(MAX_DEPTH));
    let mut bytes = e.flatten().unwrap();
    let mut region = Region::new(0);
    let scope = region.enter();
    let mut d = Decoder::new(&mut bytes, Order::NATIVE, Text::DEFAULT, &scope);
    let mut depth = 0;
    let error = loop {
        match d.encapsulation() {
            Ok(inner) => d = inner,
            Err(error) => break error,
        }
        depth += 1;
    };
    assert_eq!((depth, error.kind), (MAX_DEPTH, ErrorKind::Depth));

    fn recurse(d: &mut Decoder<'_>) -> Result<usize> {
        d.nested(|d| Ok(1 + recurse(d)?))
    }
    let mut bytes = [];
    let mut d = Decoder::new(&mut bytes, Order::NATIVE, Text::DEFAULT, &scope);
    assert_eq!(recurse(&mut d).unwrap_err().kind, ErrorKind::Depth);
    assert_eq!(d.nested(|_| Ok(1)), Ok(1), "an error gives the levels back");
}

#[test]
fn empty_encapsulations_are_refused() {
    let mut bytes = [0; 4];
    let mut region = Region::new(0);
    let scope = region.enter();
    let mut d = Decoder::new(&mut bytes, Order::Big, Text::DEFAULT, &scope);
    assert_eq!(d.encapsulation().unwrap_err().kind, ErrorKind::Length);
}

#[test]
fn bounds() {
    let mut bytes = [0; 4];
    let mut region = Region::new(0);
    let scope = region.enter();
    let d = Decoder::new(&mut bytes, Order::Big, Text::DEFAULT, &scope);
    assert!(d.check_bound(3, 3).is_ok());
    assert_eq!(d.check_bound(4, 3).unwrap_err().kind, ErrorKind::Bound);
    let mut e = Encoder::new(Vec::new(), Text::DEFAULT);
    e.check_bound(3, 3);
    assert_eq!(e.error(), None);
    e.check_bound(4, 3);
    e.check_bound(5, 3);
    assert_eq!(e.flatten().unwrap_err().kind, ErrorKind::Bound);
}

fn any_text() -> impl Strategy<Value = Text> {
    let version = prop_oneof![Just(Version::V1_0), Just(Version::V1_1), Just(Version::V1_2)];
    let narrow = prop_oneof![Just(Narrow::Latin1), Just(Narrow::Utf8)];
    let wide = prop_oneof![Just(Wide::None), Just(Wide::Utf16)];
    (version, narrow, wide).prop_map(|(version, narrow, wide)| Text { version, narrow, wide })
}

fn step(d: &mut Decoder<'_>, which: u8) -> Result<()> {
    match which % 18 {
        0 => d.read::<bool>().map(drop),
        1 => d.read::<u16>().map(drop),
        2 => d.read::<f32>().map(drop),
        3 => d.read::<i64>().map(drop),
        4 => d.read::<char>().map(drop),
        5 => d.read::<WChar>().map(drop),
        6 => d.read::<&str>().map(drop),
        7 => d.read::<WStr<'_>>().map(drop),
        8 => d.read::<&[u8]>().map(drop),
        9 => d.read::<&[i16]>().map(drop),
        10 => d.read::<&[f64]>().map(drop),
        11 => d.read::<&[&str]>().map(drop),
        12 => d.read::<&[&[(bool, u64)]]>().map(drop),
        13 => d.read::<Fixed<7, 3>>().map(drop),
        14 => d.read::<LongDouble>().map(drop),
        15 => d.read::<[[u16; 2]; 3]>().map(drop),
        16 => d.string_owned().and_then(|_| d.wstring_owned()).map(drop),
        _ => {
            let mut inner = d.encapsulation()?;
            step(&mut inner, which / 18)
        }
    }
}

proptest! {
    #[test]
    fn any_bytes(mut bytes: Vec<u8>, steps: Vec<u8>, little: bool, text in any_text()) {
        let mut region = Region::new(4096);
        let scope = region.enter();
        let length = bytes.len();
        let order = if little { Order::Little } else { Order::Big };
        let mut d = Decoder::new(&mut bytes, order, text, &scope);
        for which in steps {
            let _ = step(&mut d, which);
            prop_assert_eq!(d.position() + d.remaining(), length);
            prop_assert_eq!(d.rest().len(), d.remaining());
        }
    }

    /// Every written value is read again in this machine's byte order and, with every item
    /// reversed, in the other.
    #[test]
    fn round_trips(a: u8, s in "[^\0]{0,20}", b: i64, w: String, words: Vec<u32>, c: char, doubles: Vec<u64>) {
        let mut e = Encoder::new(Vec::new(), Text::DEFAULT);
        e.put(a);
        e.string(&s);
        e.put(b);
        e.wstring(&w);
        e.plain_seq(&words);
        e.wchar(c);
        e.plain_seq(&doubles);
        let mut bytes = e.flatten().unwrap();
        let mut region = Region::new(4096);
        let scope = region.enter();
        let mut d = Decoder::new(&mut bytes, Order::NATIVE, Text::DEFAULT, &scope);
        prop_assert_eq!(d.get(), Ok(a));
        prop_assert_eq!(d.string(), Ok(&s[..]));
        prop_assert_eq!(d.get(), Ok(b));
        prop_assert_eq!(d.wstring(), Ok(&w[..]));
        prop_assert_eq!(d.plain_seq(), Ok(&words[..]));
        prop_assert_eq!(d.wchar(), Ok(c));
        prop_assert_eq!(d.plain_seq(), Ok(&doubles[..]));
        prop_assert_eq!(d.remaining(), 0);
    }

    #[test]
    fn foreign_sequences_are_turned_once(words: Vec<u32>, unaligned: bool) {
        let other = if Order::NATIVE == Order::Little { Order::Big } else { Order::Little };
        let mut bytes = vec![0; usize::from(unaligned)];
        let swap = |v: u32| if other == Order::Big { v.to_be_bytes() } else { v.to_le_bytes() };
        bytes.extend(swap(words.len() as u32));
        words.iter().for_each(|word| bytes.extend(swap(*word)));
        let mut region = Region::new(4096);
        let scope = region.enter();
        let mut d = Decoder::new(&mut bytes[usize::from(unaligned)..], other, Text::DEFAULT, &scope);
        let read = d.plain_seq::<u32>().unwrap();
        prop_assert_eq!(read, &words[..]);
    }

    #[test]
    fn fixed_point_text(n in -99_999_i128..100_000) {
        let value = Fixed::<5, 2>::from_unscaled(n).unwrap();
        prop_assert_eq!(value.to_string().parse(), Ok(value));
    }

    #[test]
    fn doubles_survive_quadruples(bits: u64) {
        let value = f64::from_bits(bits);
        let back = f64::from(LongDouble::from(value));
        prop_assert!(back.to_bits() == bits || value.is_nan() && back.is_nan());
    }
}
