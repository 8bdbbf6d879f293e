//! Random types, values of them, and expressions on them.

use isorb_any::{Label, TypeCode};
use proptest::prelude::*;

#[derive(Clone, Debug)]
pub enum Ty {
    Plain(u8),
    Text {
        wide: bool,
    },
    WideChar,
    Enum,
    Struct(Vec<Ty>),
    /// With an enumeration as discriminator, or a number; the last case is the default.
    Union {
        by_label: bool,
        cases: Vec<Ty>,
    },
    Sequence(Box<Ty>),
    Array(Box<Ty>, u32),
    Alias(Box<Ty>),
    Reference,
    Fixed,
}

const LABELS: [&str; 4] = ["label0", "label1", "label2", "label3"];

/// The plain types, with their sizes.
fn plain(kind: u8) -> (TypeCode, usize) {
    match kind {
        0 => (TypeCode::BOOLEAN, 1),
        1 => (TypeCode::OCTET, 1),
        2 => (TypeCode::CHAR, 1),
        3 => (TypeCode::SHORT, 2),
        4 => (TypeCode::USHORT, 2),
        5 => (TypeCode::LONG, 4),
        6 => (TypeCode::ULONG, 4),
        7 => (TypeCode::LONGLONG, 8),
        8 => (TypeCode::ULONGLONG, 8),
        9 => (TypeCode::FLOAT, 4),
        10 => (TypeCode::DOUBLE, 8),
        _ => (TypeCode::LONGDOUBLE, 16),
    }
}

impl Ty {
    pub fn type_code(&self) -> TypeCode {
        let labels = || TypeCode::new_enum("IDL:E:1.0", "E", &LABELS).unwrap();
        let names: Vec<String> = (0..16).map(|i| format!("m{i}")).collect();
        match self {
            Ty::Plain(kind) => plain(*kind).0,
            Ty::Text { wide: false } => TypeCode::STRING,
            Ty::Text { wide: true } => TypeCode::WSTRING,
            Ty::WideChar => TypeCode::WCHAR,
            Ty::Enum => labels(),
            Ty::Struct(members) => {
                let members: Vec<(&str, TypeCode)> =
                    names.iter().zip(members).map(|(name, ty)| (name.as_str(), ty.type_code())).collect();
                TypeCode::new_struct("IDL:S:1.0", "S", &members).unwrap()
            }
            Ty::Union { by_label, cases } => {
                let discriminator = if *by_label { labels() } else { TypeCode::SHORT };
                let last = cases.len() - 1;
                let cases: Vec<(Label, &str, TypeCode)> = cases
                    .iter()
                    .enumerate()
                    .map(|(i, ty)| {
                        let label = if i == last { Label::Default } else { Label::Value(i as i128) };
                        (label, names[i].as_str(), ty.type_code())
                    })
                    .collect();
                TypeCode::new_union("IDL:U:1.0", "U", &discriminator, &cases).unwrap()
            }
            Ty::Sequence(of) => TypeCode::sequence(&of.type_code(), 0).unwrap(),
            Ty::Array(of, length) => TypeCode::array(&of.type_code(), *length).unwrap(),
            Ty::Alias(of) => TypeCode::new_alias("IDL:A:1.0", "A", &of.type_code()).unwrap(),
            Ty::Reference => TypeCode::interface("IDL:I:1.0", "I").unwrap(),
            Ty::Fixed => TypeCode::fixed(5, 2).unwrap(),
        }
    }
}

pub fn types() -> impl Strategy<Value = Ty> {
    let leaf = prop_oneof![
        6 => (0..12u8).prop_map(Ty::Plain),
        2 => any::<bool>().prop_map(|wide| Ty::Text { wide }),
        1 => Just(Ty::WideChar),
        1 => Just(Ty::Enum),
        1 => Just(Ty::Reference),
        1 => Just(Ty::Fixed),
    ];
    leaf.prop_recursive(4, 24, 5, |inner| {
        prop_oneof![
            4 => prop::collection::vec(inner.clone(), 1..6).prop_map(Ty::Struct),
            2 => (any::<bool>(), prop::collection::vec(inner.clone(), 1..4))
                .prop_map(|(by_label, cases)| Ty::Union { by_label, cases }),
            2 => inner.clone().prop_map(|of| Ty::Sequence(Box::new(of))),
            1 => (inner.clone(), 1..4u32).prop_map(|(of, length)| Ty::Array(Box::new(of), length)),
            1 => inner.prop_map(|of| Ty::Alias(Box::new(of))),
        ]
    })
}

/// Numbers that depend on a seed alone.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// Writes CDR in either order, by code that shares nothing with the crates.
struct Out {
    octets: Vec<u8>,
    little: bool,
    chance: Chance,
}

impl Out {
    fn number(&mut self, size: usize, value: u128) {
        while !self.octets.len().is_multiple_of(size.min(8)) {
            self.octets.push(0xa5);
        }
        let octets = value.to_le_bytes();
        match self.little {
            true => self.octets.extend(&octets[..size]),
            false => self.octets.extend(octets[..size].iter().rev()),
        }
    }

    fn value(&mut self, ty: &Ty) {
        match ty {
            Ty::Plain(0) => {
                let truth = self.chance.below(2);
                self.number(1, truth.into());
            }
            Ty::Plain(2) => {
                let c = self.chance.below(3);
                self.number(1, u128::from(b'a') + u128::from(c));
            }
            Ty::Plain(kind) => {
                // Small numbers are often equal to others, large ones have all their bits.
                let small = self.chance.below(3) != 0;
                let float = |value: u64| f64::from(value as u32) / 2.0 - 1.0;
                let number = self.chance.below(5);
                let bits = match (kind, small) {
                    (9, true) => u128::from((float(number) as f32).to_bits()),
                    (10, true) => u128::from(float(number).to_bits()),
                    (11, true) => isorb_cdr::LongDouble::from(float(number)).0,
                    (_, true) => u128::from(number),
                    (_, false) => u128::from(self.chance.below(u64::MAX)) * 0x1_0000_0001_0000_0001,
                };
                self.number(plain(*kind).1, bits);
            }
            Ty::Text { wide } => {
                let length = self.chance.below(4);
                let text: String =
                    (0..length).map(|_| ['a', 'b', 'ü'][self.chance.below(3) as usize]).collect();
                if *wide {
                    let units: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
                    self.number(4, units.len() as u128);
                    self.octets.extend(units);
                } else {
                    self.number(4, text.len() as u128 + 1);
                    self.octets.extend(text.bytes().chain([0]));
                }
            }
            Ty::WideChar => self.octets.extend([2, 0x20, 0xac]),
            Ty::Enum => {
                let index = self.chance.below(4);
                self.number(4, index.into());
            }
            Ty::Struct(members) => members.iter().for_each(|member| self.value(member)),
            Ty::Union { by_label, cases } => {
                let label = self.chance.below(4);
                self.number(if *by_label { 4 } else { 2 }, label.into());
                let case = (label as usize).min(cases.len() - 1);
                self.value(&cases[case]);
            }
            Ty::Sequence(of) => {
                let length = self.chance.below(4);
                self.number(4, length.into());
                (0..length).for_each(|_| self.value(of));
            }
            Ty::Array(of, length) => (0..*length).for_each(|_| self.value(of)),
            Ty::Alias(of) => self.value(of),
            Ty::Reference => {
                self.number(4, 8);
                self.octets.extend(b"IDL:I:1\0");
                let profiles = self.chance.below(2);
                self.number(4, profiles.into());
                for _ in 0..profiles {
                    self.number(4, 0);
                    self.number(4, 3);
                    self.octets.extend([1, 2, 3]);
                }
            }
            Ty::Fixed => self.octets.extend([0x12, 0x34, 0x5c]),
        }
    }
}

pub fn payload(ty: &Ty, little: bool, seed: u64) -> Vec<u8> {
    let mut out = Out { octets: vec![little.into()], little, chance: Chance(seed | 1) };
    out.value(ty);
    out.octets
}

/// A path to a value that can be compared, or a length, and a literal to compare it with.
fn operand(ty: &Ty, chance: &mut Chance) -> Option<(String, String)> {
    let mut path = String::new();
    let mut at = ty;
    loop {
        let dot = if path.is_empty() { "" } else { "." };
        match at {
            Ty::Alias(of) => at = of,
            Ty::Struct(members) => {
                let index = chance.below(members.len() as u64) as usize;
                path.push_str(&format!("{dot}m{index}"));
                at = &members[index];
            }
            Ty::Union { by_label, cases } => {
                if chance.below(4) == 0 {
                    path.push_str(&format!("{dot}_d"));
                    let label = chance.below(4);
                    let label = if *by_label { format!("label{label}") } else { label.to_string() };
                    return Some((path, label));
                }
                let index = chance.below(cases.len() as u64) as usize;
                path.push_str(&format!("{dot}m{index}"));
                at = &cases[index];
            }
            Ty::Sequence(of) | Ty::Array(of, _) => {
                if path.is_empty() {
                    path.push_str("payload");
                }
                if chance.below(4) == 0 {
                    return Some((format!("len({path})"), chance.below(4).to_string()));
                }
                let length = if let Ty::Array(_, length) = at { *length } else { 4 };
                path.push_str(&format!("[{}]", chance.below(length.into())));
                at = of;
            }
            _ => break,
        }
    }
    if path.is_empty() {
        path.push_str("payload");
    }
    let number = chance.below(5);
    Some(match at {
        Ty::Plain(0) => (path, number.is_multiple_of(2).to_string()),
        Ty::Plain(2) => (path, ["'a'", "'b'", "'c'", "'a'", "'b'"][number as usize].to_owned()),
        Ty::Plain(1 | 3..=8) => match chance.below(6) {
            0 => (format!("({path} & 3)"), number.to_string()),
            1 => (format!("{path} * 2 - 1"), number.to_string()),
            2 => (format!("{path} / {number}"), "1".to_owned()),
            3 => (format!("-{path} << {number}"), "-2".to_owned()),
            4 => (path, format!("{number}.5")),
            _ => (path, number.to_string()),
        },
        Ty::Plain(_) => match chance.below(3) {
            0 => (format!("{path} + 1"), number.to_string()),
            _ => (path, format!("{}.5", number / 2)),
        },
        Ty::Text { .. } => match chance.below(3) {
            0 => (format!("len({path})"), number.to_string()),
            1 => (format!("starts_with({path}, \"a\")"), "true".to_owned()),
            _ => (path, ["\"\"", "\"a\"", "\"ab\"", "\"ü\"", "\"b\""][number as usize].to_owned()),
        },
        Ty::Enum => (path, format!("label{}", number % 4)),
        _ => return None,
    })
}

/// An expression over a few operands.
pub fn expression(ty: &Ty, seed: u64) -> Option<String> {
    let chance = &mut Chance(seed | 1);
    let mut whole = String::new();
    for at in 0..=chance.below(4) {
        let (left, right) = (0..20).find_map(|_| operand(ty, chance))?;
        let boolean = matches!(right.as_str(), "true" | "false");
        let relations = ["==", "!=", "<", "<=", ">", ">="];
        let relation = relations[chance.below(if boolean { 2 } else { 6 }) as usize];
        let mut term = format!("{left} {relation} {right}");
        if boolean && chance.below(3) == 0 {
            term = left;
        }
        if chance.below(4) == 0 {
            term = format!("!({term})");
        }
        match at {
            0 => whole = term,
            _ if chance.below(3) == 0 => {
                whole = format!("({whole}) {} {term}", ["&&", "||"][at as usize % 2])
            }
            _ => whole = format!("{whole} {} {term}", ["&&", "||"][chance.below(2) as usize]),
        }
    }
    Some(whole)
}
