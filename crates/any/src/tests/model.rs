//! An independent writer: types and values as plain data, written in either byte order by code that
//! shares nothing with the crate.

use crate::{Kind, Label, TypeCode, modifier};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use isorb_cdr::Order;

#[derive(Clone, Debug)]
pub enum Ty {
    Simple(Kind),
    Text {
        wide: bool,
        bound: u32,
    },
    Fixed {
        digits: u16,
        scale: i16,
    },
    Reference,
    Struct(Vec<Ty>),
    Except(Vec<Ty>),
    Enum(u32),
    /// Discriminator, cases; the last is the default where it says so.
    Union(Box<Ty>, Vec<Ty>, bool),
    Sequence(Box<Ty>, u32),
    Array(Box<Ty>, u32),
    Alias(Box<Ty>),
    /// A value type; its values here are null.
    Value(Vec<Ty>),
    Boxed(Box<Ty>),
}

const ID: &str = "IDL:T:1.0";

impl Ty {
    pub fn type_code(&self) -> TypeCode {
        let named = |types: &[Ty]| -> Vec<(String, TypeCode)> {
            types.iter().enumerate().map(|(i, ty)| (format!("m{i}"), ty.type_code())).collect()
        };
        let members = |owned: &[(String, TypeCode)]| -> Vec<(&'static str, TypeCode)> {
            owned.iter().map(|(name, tc)| (&*Box::leak(name.clone().into_boxed_str()), tc.clone())).collect()
        };
        match self {
            Ty::Simple(kind) => TypeCode(crate::typecode::Repr::Simple(*kind)),
            Ty::Text { wide: false, bound } => TypeCode::string(*bound),
            Ty::Text { wide: true, bound } => TypeCode::wstring(*bound),
            Ty::Fixed { digits, scale } => TypeCode::fixed(*digits, *scale).unwrap(),
            Ty::Reference => TypeCode::interface(ID, "T").unwrap(),
            Ty::Struct(types) => TypeCode::new_struct(ID, "T", &members(&named(types))).unwrap(),
            Ty::Except(types) => TypeCode::new_exception(ID, "T", &members(&named(types))).unwrap(),
            Ty::Enum(n) => {
                let names: Vec<&str> =
                    (0..*n).map(|i| &*Box::leak(format!("e{i}").into_boxed_str())).collect();
                TypeCode::new_enum(ID, "T", &names).unwrap()
            }
            Ty::Union(discriminator, types, default) => {
                let owned = named(types);
                let cases: Vec<(Label, &str, TypeCode)> = owned
                    .iter()
                    .enumerate()
                    .map(|(i, (name, tc))| {
                        let last = *default && i + 1 == owned.len();
                        let label = if last { Label::Default } else { Label::Value(i as i128) };
                        (label, name.as_str(), tc.clone())
                    })
                    .collect();
                TypeCode::new_union(ID, "T", &discriminator.type_code(), &cases).unwrap()
            }
            Ty::Sequence(element, bound) => TypeCode::sequence(&element.type_code(), *bound).unwrap(),
            Ty::Array(element, length) => TypeCode::array(&element.type_code(), *length).unwrap(),
            Ty::Alias(of) => TypeCode::new_alias(ID, "T", &of.type_code()).unwrap(),
            Ty::Value(types) => {
                let members: Vec<_> =
                    members(&named(types)).into_iter().map(|(name, tc)| (name, tc, 1)).collect();
                TypeCode::new_value(ID, "T", modifier::CUSTOM, None, &members, false).unwrap()
            }
            Ty::Boxed(of) => TypeCode::new_value_box(ID, "T", &of.type_code()).unwrap(),
        }
    }
}

/// Writes CDR in either order.
pub struct Out {
    pub bytes: Vec<u8>,
    order: Order,
    origin: usize,
    seed: u64,
}

impl Out {
    pub fn new(order: Order, prefix: usize, seed: u64) -> Out {
        Out { bytes: alloc::vec![0; prefix], order, origin: 0, seed: seed | 1 }
    }

    /// A number that depends on the seed alone.
    fn chance(&mut self, below: u64) -> u64 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        self.seed % below
    }

    fn align(&mut self, to: usize) {
        while !(self.bytes.len() - self.origin).is_multiple_of(to) {
            self.bytes.push(0);
        }
    }

    pub fn number(&mut self, width: usize, value: u128) {
        self.align(width.min(8));
        let little = value.to_le_bytes();
        if self.order == Order::Little {
            self.bytes.extend(&little[..width]);
        } else {
            self.bytes.extend(little[..width].iter().rev());
        }
    }

    pub fn string(&mut self, s: &str) {
        self.number(4, s.len() as u128 + 1);
        self.bytes.extend(s.as_bytes());
        self.bytes.push(0);
    }

    pub fn encapsulation(&mut self, write: impl FnOnce(&mut Out)) {
        self.number(4, 0);
        let start = self.bytes.len();
        let outer = core::mem::replace(&mut self.origin, start);
        self.bytes.push(if self.order == Order::Little { 1 } else { 0 });
        write(self);
        self.origin = outer;
        let n = (self.bytes.len() - start) as u32;
        let count = if self.order == Order::Little { n.to_le_bytes() } else { n.to_be_bytes() };
        self.bytes[start - 4..start].copy_from_slice(&count);
    }

    pub fn type_code(&mut self, ty: &Ty) {
        let members = |o: &mut Out, types: &[Ty], value: bool| {
            o.number(4, types.len() as u128);
            for (i, ty) in types.iter().enumerate() {
                o.string(&format!("m{i}"));
                o.type_code(ty);
                if value {
                    o.number(2, 1);
                }
            }
        };
        match ty {
            Ty::Simple(kind) => {
                self.number(4, *kind as u128);
                if matches!(kind, Kind::String | Kind::WString) {
                    self.number(4, 0);
                }
            }
            Ty::Text { wide, bound } => {
                self.number(4, if *wide { 27 } else { 18 });
                self.number(4, (*bound).into());
            }
            Ty::Fixed { digits, scale } => {
                self.number(4, 28);
                self.number(2, (*digits).into());
                self.number(2, *scale as u128);
            }
            _ => {
                let kind = match ty {
                    Ty::Reference => 14,
                    Ty::Struct(_) => 15,
                    Ty::Union(..) => 16,
                    Ty::Enum(_) => 17,
                    Ty::Sequence(..) => 19,
                    Ty::Array(..) => 20,
                    Ty::Alias(_) => 21,
                    Ty::Except(_) => 22,
                    Ty::Value(_) => 29,
                    _ => 30,
                };
                self.number(4, kind);
                self.encapsulation(|o| {
                    if !matches!(ty, Ty::Sequence(..) | Ty::Array(..)) {
                        o.string(ID);
                        o.string("T");
                    }
                    match ty {
                        Ty::Struct(types) | Ty::Except(types) => members(o, types, false),
                        Ty::Enum(n) => {
                            o.number(4, (*n).into());
                            (0..*n).for_each(|i| o.string(&format!("e{i}")));
                        }
                        Ty::Union(discriminator, types, default) => {
                            o.type_code(discriminator);
                            o.number(4, if *default { types.len() as u128 - 1 } else { u128::MAX });
                            o.number(4, types.len() as u128);
                            for (i, ty) in types.iter().enumerate() {
                                let is_default = *default && i + 1 == types.len();
                                o.discriminator(discriminator, if is_default { 0 } else { i as u64 });
                                o.string(&format!("m{i}"));
                                o.type_code(ty);
                            }
                        }
                        Ty::Sequence(element, n) | Ty::Array(element, n) => {
                            o.type_code(element);
                            o.number(4, (*n).into());
                        }
                        Ty::Alias(of) | Ty::Boxed(of) => o.type_code(of),
                        Ty::Value(types) => {
                            o.number(2, 1);
                            o.number(4, 0);
                            members(o, types, true);
                        }
                        _ => {}
                    }
                });
            }
        }
    }

    fn discriminator(&mut self, ty: &Ty, value: u64) {
        match ty {
            Ty::Alias(of) => self.discriminator(of, value),
            Ty::Simple(Kind::Short | Kind::UShort) => self.number(2, value.into()),
            Ty::Simple(Kind::Boolean | Kind::Char) => self.number(1, value.into()),
            Ty::Simple(Kind::LongLong | Kind::ULongLong) => self.number(8, value.into()),
            _ => self.number(4, value.into()),
        }
    }

    fn wide(&mut self, s: &str) {
        s.encode_utf16().for_each(|unit| self.bytes.extend(unit.to_be_bytes()));
    }

    pub fn value(&mut self, ty: &Ty) {
        match ty {
            Ty::Simple(kind) => self.simple(*kind),
            Ty::Text { wide, bound } => {
                let n = if *bound == 0 { 9 } else { *bound };
                let n = self.chance(u64::from(n) + 1);
                let s: String = (0..n).map(|_| if self.chance(3) == 0 { '\u{fc}' } else { 'x' }).collect();
                if *wide {
                    self.number(4, 2 * n as u128);
                    self.wide(&s);
                } else {
                    self.string(&s);
                }
            }
            Ty::Fixed { digits, .. } => {
                let digits = *digits as usize;
                let halves = (digits / 2 + 1) * 2 - 1;
                let mut all: Vec<u8> = (0..halves).map(|_| self.chance(10) as u8).collect();
                if digits.is_multiple_of(2) {
                    all[0] = 0;
                }
                all.push(0x0c + self.chance(2) as u8);
                self.bytes.extend(all.chunks(2).map(|pair| pair[0] << 4 | pair[1]));
            }
            Ty::Reference => {
                self.string(ID);
                let n = self.chance(3);
                self.number(4, n.into());
                for _ in 0..n {
                    self.number(4, 0);
                    self.number(4, 3);
                    self.bytes.extend([0, 1, 2]);
                }
            }
            Ty::Struct(types) => types.iter().for_each(|ty| self.value(ty)),
            Ty::Except(types) => {
                self.string(ID);
                types.iter().for_each(|ty| self.value(ty));
            }
            Ty::Enum(n) => {
                let value = self.chance((*n).into());
                self.number(4, value.into());
            }
            Ty::Union(discriminator, types, default) => {
                // Sometimes a value without a case, where the discriminator has one.
                let base = match &**discriminator {
                    Ty::Alias(of) => of,
                    other => other,
                };
                let spare = match base {
                    Ty::Simple(Kind::Boolean) => 0,
                    Ty::Enum(n) => u64::from(*n) - types.len() as u64,
                    _ => 1,
                };
                let explicit = types.len() as u64 - u64::from(*default);
                let some = (explicit + spare + u64::from(*default)).max(1);
                let limit = match base {
                    Ty::Simple(Kind::Boolean) => 2,
                    Ty::Enum(n) => u64::from(*n),
                    _ => u64::MAX,
                };
                let value = self.chance(some.min(limit));
                self.discriminator(discriminator, value);
                if value < explicit {
                    self.value(&types[value as usize]);
                } else if *default {
                    self.value(&types[types.len() - 1]);
                }
            }
            Ty::Sequence(element, bound) => {
                let n = self.chance(if *bound == 0 { 5 } else { u64::from(*bound) + 1 });
                self.number(4, n.into());
                (0..n).for_each(|_| self.value(element));
            }
            Ty::Array(element, n) => (0..*n).for_each(|_| self.value(element)),
            Ty::Alias(of) => self.value(of),
            Ty::Value(_) | Ty::Boxed(_) => self.number(4, 0),
        }
    }

    fn simple(&mut self, kind: Kind) {
        let bits = u128::from(self.chance(u64::MAX)) * 0x1_0000_0001_0000_0001;
        match kind {
            Kind::Null | Kind::Void => {}
            Kind::Boolean => self.number(1, bits & 1),
            Kind::Char => self.number(1, bits & 0x7f),
            Kind::Octet => self.number(1, bits & 0xff),
            Kind::Short | Kind::UShort => self.number(2, bits),
            Kind::Long | Kind::ULong | Kind::Float => self.number(4, bits),
            Kind::LongLong | Kind::ULongLong | Kind::Double => self.number(8, bits),
            Kind::LongDouble => self.number(16, bits),
            Kind::WChar => {
                let astral = bits & 1 == 0;
                self.bytes.push(if astral { 4 } else { 2 });
                self.wide(if astral { "\u{1f600}" } else { "\u{20ac}" });
            }
            Kind::String => self.value(&Ty::Text { wide: false, bound: 0 }),
            Kind::WString => self.value(&Ty::Text { wide: true, bound: 0 }),
            Kind::Principal => {
                self.number(4, 2);
                self.bytes.extend([7, 8]);
            }
            Kind::Any => {
                let ty = Ty::Array(Box::new(Ty::Simple(Kind::Double)), 2);
                self.type_code(&ty);
                self.value(&ty);
            }
            Kind::TypeCode => self.type_code(&Ty::Sequence(Box::new(Ty::Fixed { digits: 4, scale: 2 }), 0)),
            other => panic!("{other:?} is not simple"),
        }
    }
}
