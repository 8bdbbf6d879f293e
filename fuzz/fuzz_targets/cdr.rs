//! Reads values of types chosen by the input from octets of the input.
#![no_main]

use isorb_cdr::{Decoder, Fixed, LongDouble, Narrow, Order, Result, Text, Version, WChar, WStr, Wide};
use isorb_scope::Region;
use libfuzzer_sys::fuzz_target;

// The first octet chooses byte order, version, code sets and whether there are fragment boundaries.
// The second chooses how many of the next ones choose types, and the distance of the boundaries.
fuzz_target!(|data: &[u8]| {
    let [how, count, rest @ ..] = data else { return };
    let (steps, octets) = rest.split_at(rest.len().min(usize::from(*count)));
    let mut octets = octets.to_vec();
    let length = octets.len();
    let mut region = Region::new(1 << 16);
    let scope = region.enter();
    let version = [Version::V1_0, Version::V1_1, Version::V1_2][usize::from(how >> 4) % 3];
    let narrow = if how & 2 == 0 { Narrow::Utf8 } else { Narrow::Latin1 };
    let wide = if how & 4 == 0 { Wide::Utf16 } else { Wide::None };
    let text = Text { version, narrow, wide };
    let mut at = 0;
    let boundaries: Vec<[u8; 4]> = steps
        .iter()
        .map(|gap| {
            at += u32::from(*gap);
            at.to_ne_bytes()
        })
        .collect();
    let unfragmented = how & 8 == 0;
    let mut d = Decoder::new(&mut octets, Order::from_flag(*how), text, &scope);
    if !unfragmented {
        d = d.with_fragment_boundaries(&boundaries);
    }
    d = d.with_context(&()).read_as(text, None);
    for which in steps {
        let before = d.remaining();
        let _ = read(&mut d, *which);
        assert!(d.remaining() <= before);
        assert!(!unfragmented || d.position() + d.remaining() == length);
    }
});

fn read(d: &mut Decoder<'_>, which: u8) -> Result<()> {
    match which % 24 {
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
        14 => d.read::<Fixed<31, 0>>().map(|value| drop(value.to_string())),
        15 => d.read::<LongDouble>().map(|value| _ = f64::from(value)),
        16 => d.read::<[[u16; 2]; 3]>().map(drop),
        17 => d.string_owned().map(drop),
        18 => d.wstring_owned().map(drop),
        // Code sets may be negotiated, and a length has a bound.
        19 => {
            d.set_text(Text { wide: Wide::Utf16, narrow: Narrow::Latin1, ..d.text() });
            d.set_context(&());
            Ok(())
        }
        20 => d.count(1).and_then(|count| d.check_bound(count, 8)),
        21 => d.read::<&[u64]>().map(drop),
        22 => {
            drop(format!("{d:?}"));
            d.scope().alloc(0_u8).map(drop).map_err(Into::into)
        }
        _ => {
            let mut inner = d.encapsulation()?;
            while inner.remaining() > 0 {
                read(&mut inner, which / 24)?;
            }
            Ok(())
        }
    }
}
