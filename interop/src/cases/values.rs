//! Groups of values.

use super::text::views;
use crate::check::{Check, Run};
use crate::generated::interop::*;
use crate::types::{mixed, point, tree, view};
use crate::{echo, expect};
use isorb::{Fixed, LongDouble};

pub(super) fn scalars(run: &Run<'_>) -> Check {
    let o: ScalarsRef = run.group()?;
    o.nothing()?;
    echo!(o.echo_boolean copied, [false, true]);
    echo!(o.echo_char copied, ['\0', 'A', '~']);
    if !run.options.utf8 {
        echo!(o.echo_char copied, ['\u{e9}', 'a']);
    }
    echo!(o.echo_octet copied, [0, 1, 0x7f, 0x80, 0xff]);
    echo!(o.echo_short copied, [0, 1, -1, i16::MIN, i16::MAX, 0x0102]);
    echo!(o.echo_ushort copied, [0, 1, u16::MAX, 0x0102]);
    echo!(o.echo_long copied, [0, 1, -1, i32::MIN, i32::MAX, 0x0102_0304]);
    echo!(o.echo_ulong copied, [0, 1, u32::MAX, 0x0102_0304]);
    echo!(o.echo_longlong copied, [0, 1, -1, i64::MIN, i64::MAX, 0x0102_0304_0506_0708]);
    echo!(o.echo_ulonglong copied, [0, 1, u64::MAX, 0x0102_0304_0506_0708]);
    Ok(())
}

const FLOATS: [f32; 9] = [
    0.0,
    -0.0,
    1.5,
    -f32::MIN_POSITIVE,
    f32::MAX,
    f32::INFINITY,
    f32::NEG_INFINITY,
    f32::from_bits(1),
    f32::NAN,
];
const DOUBLES: [f64; 9] = [
    0.0,
    -0.0,
    1.5,
    -f64::MIN_POSITIVE,
    f64::MAX,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::from_bits(1),
    f64::NAN,
];

pub(super) fn floats(run: &Run<'_>) -> Check {
    let o: FloatingPointRef = run.group()?;
    echo!(o.echo_float copied by f32::to_bits, FLOATS);
    echo!(o.echo_double copied by f64::to_bits, DOUBLES);
    Ok(())
}

pub(super) fn long_doubles(run: &Run<'_>) -> Check {
    let o: LongDoublesRef = run.group()?;
    if run.suite()?.peer()? == "omniorb" {
        return x87(&o);
    }
    // A value of an x87 register: 64 bits of precision, so that no peer rounds.
    let third = LongDouble(0x3ffd_5555_5555_5555_5556_u128 << 48);
    let exact = [0.0, -0.0, 1.5, -2.25, 1.0 / 3.0, f64::MAX].map(LongDouble::from);
    echo!(o.echo_longdouble copied, exact);
    echo!(o.echo_longdouble copied, [third, LongDouble::from(1.0)]);
    Ok(())
}

/// omniORB on x86 writes the memory of a `long double`, ten octets of the x87 format and six of
/// padding, and keeps those ten.
fn x87(o: &LongDoublesRef) -> Check {
    let kept = |v: LongDouble| v.0 << 48;
    let exponents = [0x3fff_u128, 0xbfff, 0x3ffd, 0x7ffe];
    let values = exponents.map(|e| LongDouble(e << 64 | 0xaaaa_aaaa_aaaa_aaab));
    echo!(o.echo_longdouble copied by kept, values);
    echo!(o.echo_longdouble copied by kept, [LongDouble(0), LongDouble(0x8000 << 64)]);
    Ok(())
}

pub(super) fn enums(run: &Run<'_>) -> Check {
    let o: EnumsRef = run.group()?;
    let all = [Colour::Red, Colour::Green, Colour::Blue];
    echo!(o.echo_colour copied, all);
    echo!(o.echo_paint copied, all);
    echo!(o.echo_colours, [vec![], vec![Colour::Blue, Colour::Red, Colour::Green]]);
    Ok(())
}

fn padded(seed: u8) -> Padded {
    Padded {
        a: seed + 1,
        b: f64::from(seed) * 1.25,
        c: seed % 2 == 1,
        d: -i16::from(seed) - 300,
        e: 0xee,
        f: -0x0102_0304_0506_0708 - i64::from(seed),
        g: char::from(b'g' + seed),
        h: 0x0102_0304 + i32::from(seed),
    }
}

fn text(label: i32, value: &str) -> OverLong {
    OverLong::Text { label, value: value.to_owned() }
}

fn raw(label: i32, value: u8) -> OverLong {
    OverLong::Raw { label, value }
}

pub(super) fn structs(run: &Run<'_>) -> Check {
    let o: StructsRef = run.group()?;
    echo!(o.echo_point copied, [point(0, 0), point(i32::MIN, i32::MAX), point(0x0102_0304, -1)]);
    echo!(o.echo_padded copied, [padded(0), padded(1), padded(2)]);
    let (empty, full, odd) =
        (mixed("", Colour::Red, 0), mixed("some name", Colour::Blue, 77), mixed("odd", Colour::Green, 1));
    echo!(o.echo_mixed, [empty.clone(), full.clone(), odd.clone()]);
    let nested =
        |first: &Mixed, seed| Nested { first: first.clone(), second: padded(seed), third: full.clone() };
    echo!(o.echo_nested, [nested(&empty, 1), nested(&odd, 2)]);
    let holder = |choice, flag| Holder { before: 1, choice, flag, after: -2 };
    let holders = [
        holder(text(2, "two"), OverBoolean::No(-9)),
        holder(raw(0, 5), OverBoolean::Yes("y".into())),
        holder(OverLong::Real(0.5), OverBoolean::No(1)),
    ];
    echo!(o.echo_holder, holders);
    let arrays = |seed: i32| WithArrays {
        lead: seed as u8,
        five: [0, 1, 2, 3, 4].map(|i| seed * 10 + i),
        three: [0, 1, 2].map(|i| (seed + i).to_string()),
        table: [[0, 1, 2], [3, 4, 5]].map(|row| row.map(|i| seed as i16 - i)),
    };
    echo!(o.echo_with_arrays, [arrays(1), arrays(2)]);
    Ok(())
}

fn yes(text: &str) -> OverBoolean {
    OverBoolean::Yes(text.to_owned())
}

pub(super) fn unions(run: &Run<'_>) -> Check {
    let o: UnionsRef = run.group()?;
    echo!(o.echo_over_long, [text(1, "one"), text(2, ""), OverLong::Real(-0.25), raw(0, 255)]);
    let gb = |label, value: &str| OverEnum::Gb { label, value: value.to_owned() };
    echo!(o.echo_over_enum, [OverEnum::R(-5), gb(Colour::Green, "green"), gb(Colour::Blue, "blue")]);
    let open = [OverEnumOpen::R(point(3, 4)), OverEnumOpen::Unlisted(Colour::Green)];
    echo!(o.echo_over_enum_open copied, open);
    echo!(o.echo_over_boolean, [yes("yes"), OverBoolean::No(-1), yes("")]);
    echo!(o.echo_over_boolean_open copied, [OverBooleanOpen::Yes(2.5), OverBooleanOpen::Unlisted(false)]);
    let others = |label, value: &[i32]| OverChar::Others { label, value: value.to_vec() };
    let chars = [OverChar::A(-1), OverChar::Z(Colour::Blue), others('\0', &[1, 2, 3]), others('\0', &[])];
    echo!(o.echo_over_char, chars);
    let shorts = [
        OverShort::Seven(mixed("seven", Colour::Green, 7)),
        OverShort::Eight(text(1, "eight")),
        OverShort::Unlisted(0),
    ];
    echo!(o.echo_over_short, shorts);
    let rest = OverULongLong::Rest { label: 0, value: true };
    echo!(o.echo_over_ulonglong copied, [OverULongLong::Small(200), OverULongLong::Big(-3), rest]);
    Ok(())
}

pub(super) fn union_labels(run: &Run<'_>) -> Check {
    let o: UnionsRef = run.group()?;
    echo!(o.echo_over_long, [raw(i32::MIN, 1), raw(3, 2), raw(i32::MAX, 3)]);
    let others = |label, value: &[i32]| OverChar::Others { label, value: value.to_vec() };
    echo!(o.echo_over_char, [others('b', &[1, 2, 3]), others(' ', &[])]);
    let rest = OverULongLong::Rest { label: 0x0102_0304_0506_0708, value: true };
    echo!(o.echo_over_ulonglong copied, [rest]);
    echo!(o.echo_over_short, [OverShort::Unlisted(-9)]);
    Ok(())
}

pub(super) fn sequences(run: &Run<'_>) -> Check {
    let o: SequencesRef = run.group()?;
    let many: Vec<u8> = (0..300).map(|i| i as u8).collect();
    echo!(o.echo_octets, [vec![], vec![0x80], many]);
    echo!(o.echo_booleans, [vec![], vec![true, false, true]]);
    echo!(o.echo_chars, [vec![], vec!['a', 'b', '\0']]);
    echo!(o.echo_shorts, [vec![], vec![-1, 0x0102, i16::MIN]]);
    echo!(o.echo_longs, [vec![], vec![0x0102_0304], vec![1, -1, i32::MIN]]);
    echo!(o.echo_ulonglongs, [vec![], vec![0, i64::MAX as u64, 0x0102_0304_0506_0708]]);
    let float_bits = |v: &Vec<f32>| v.iter().map(|f| f.to_bits()).collect::<Vec<_>>();
    let double_bits = |v: &Vec<f64>| v.iter().map(|f| f.to_bits()).collect::<Vec<_>>();
    echo!(o.echo_floats by float_bits, [vec![], FLOATS.to_vec()]);
    echo!(o.echo_doubles by double_bits, [vec![], DOUBLES.to_vec()]);
    let strings = |list: &[&str]| list.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
    echo!(o.echo_strings, [strings(&[]), strings(&[""]), strings(&["one", "", "café", "the end"])]);
    echo!(o.echo_points, [vec![], vec![point(1, 2), point(-3, -4)]]);
    let three = vec![mixed("a", Colour::Red, 1), mixed("", Colour::Blue, 2), mixed("ccc", Colour::Green, 3)];
    echo!(o.echo_mixeds, [vec![], three]);
    echo!(o.echo_over_longs, [vec![], vec![raw(0, 6), OverLong::Real(1.0), text(1, "t"), raw(0, 8)]]);
    echo!(o.echo_longs_list, [vec![], vec![vec![], vec![1], vec![2, 3, 4]]]);
    echo!(o.echo_four_longs, [vec![], vec![1, 2, 3, 4]]);
    echo!(o.echo_three_short_strings via |a| &views(a), [strings(&[]), strings(&["12345678", "", "x"])]);
    Ok(())
}

pub(super) fn arrays(run: &Run<'_>) -> Check {
    let o: ArraysRef = run.group()?;
    echo!(o.echo_five_longs copied, [0, 1, 2].map(|s| [0, 1, 2, 3, 4].map(|i| s * 0x0102_0304 - i)));
    echo!(o.echo_grid copied, [0, 1, 2].map(|s| [[0, 1, 2], [3, 4, 5]].map(|row| row.map(|i| s * 100 - i))));
    let cube = |s: f64| {
        [[[0.0, 1.0], [2.0, 3.0]], [[4.0, 5.0], [6.0, 7.0]]]
            .map(|plane| plane.map(|row| row.map(|i| s + i / 8.0)))
    };
    echo!(o.echo_cube copied, [cube(0.0), cube(1.0), cube(2.0)]);
    echo!(o.echo_eight_octets copied, [250, 251, 252].map(|s: u8| [0, 1, 2, 3, 4, 5, 6, 7].map(|i| s.wrapping_add(i))));
    echo!(o.echo_three_strings via |a| a.each_ref().map(String::as_str), [0, 1, 2].map(|s| [0, 1, 2].map(|i| "q".repeat(s + i))));
    echo!(o.echo_two_points copied, [0, 1, 2].map(|s| [point(s, 0), point(s, 1)]));
    echo!(o.echo_two_mixeds via |a| a.each_ref().map(view), [0, 1, 2].map(|s| [0, 1].map(|i| mixed("m", Colour::Green, s + i))));
    echo!(o.echo_two_longs via |a| a.each_ref().map(Vec::as_slice), [0, 1, 2].map(|s| [vec![s], vec![1, s, 3]]));
    Ok(())
}

/// The value of a valid literal.
fn f<const D: u16, const S: i16>(text: &str) -> Fixed<D, S> {
    text.parse().unwrap_or_default()
}

fn invoice(net: &str, rate: &str) -> Invoice {
    Invoice { lead: 1, net: f(net), rate: f(rate), count: -7 }
}

pub(super) fn fixeds(run: &Run<'_>) -> Check {
    let o: FixedsRef = run.group()?;
    expect!(f::<9, 2>("1234567.89").unscaled() == 123_456_789);
    echo!(o.echo_money copied, ["9999999.99", "-9999999.99", "1234567.89"].map(f));
    let huge = "9999999999999999999999999999999";
    echo!(o.echo_huge copied, [f(huge), f(&format!("-{huge}"))]);
    echo!(o.echo_fraction copied, ["0.9999", "-0.1234"].map(f));
    echo!(o.echo_even_digits copied, ["12345.6", "-99999.9"].map(f));
    echo!(o.echo_invoice copied, [invoice("1234567.89", "0.1925"), invoice("-7654321.01", "-0.2575")]);
    echo!(o.echo_moneys, [vec![], ["1111111.25", "-9999999.99"].map(f).to_vec()]);
    Ok(())
}

pub(super) fn fixed_zeros(run: &Run<'_>) -> Check {
    let o: FixedsRef = run.group()?;
    echo!(o.echo_money copied, ["0", "1", "-1", "0.05", "-0.01"].map(f));
    echo!(o.echo_huge copied, ["0", "1", "-1"].map(f));
    echo!(o.echo_fraction copied, ["0", "-0.0001"].map(f));
    echo!(o.echo_even_digits copied, ["0", "-0.1"].map(f));
    echo!(o.echo_invoice copied, [invoice("12.50", "0.1900"), invoice("-0.01", "0")]);
    Ok(())
}

pub(super) fn recursive(run: &Run<'_>) -> Check {
    let o: RecursiveRef = run.group()?;
    echo!(o.echo_tree, [tree(1, 0), tree(2, 1), tree(4, 3), tree(20, 1)]);
    let leaf = Expression::Value;
    let branch = |label, value| Expression::Operands { label, value };
    let product = branch('*', vec![leaf(2), leaf(-3)]);
    let sum = branch('+', vec![leaf(1), product, branch('+', vec![])]);
    echo!(o.echo_expression, [leaf(5), sum]);
    expect!(o.depth(&tree(1, 0))? == 1);
    expect!(o.depth(&tree(20, 1))? == 20);
    Ok(())
}

pub(super) fn typedefs(run: &Run<'_>) -> Check {
    let o: TypedefsRef = run.group()?;
    echo!(o.echo_height copied, [0, -1, i32::MAX]);
    echo!(o.echo_profile, [vec![], vec![1, 2, 3]]);
    echo!(o.echo_triple via |a| a.each_ref().map(Vec::as_slice), [0, 1, 2].map(|s| [vec![s], vec![], vec![1, s, 3]]));
    echo!(o.echo_alias2, [mixed("alias", Colour::Red, 3), mixed("", Colour::Blue, 4)]);
    Ok(())
}
