//! How the values of a type lie on the wire, as far as is needed to pass them.

use super::payload::Scalar;
use isorb_any::{Identity, Kind, Label, TypeCode, TypeCodeError};
use std::collections::BTreeMap;

/// The octets from a position to the end of a value that begins there, by the position modulo 8.
pub(super) type Sizes = [u32; 8];

pub(super) enum Shape {
    /// Only the position determines the size.
    Fixed(Sizes),
    /// A count of octets, and as many octets.
    Text,
    /// The same, with a count of one octet.
    WideChar,
    Sequence {
        element: u32,
    },
    /// An array of elements that are not fixed.
    Array {
        element: u32,
        length: u32,
    },
    /// A structure that is not fixed: a range of members.
    Struct {
        first: u32,
        last: u32,
    },
    /// A union: the shapes of its cases are a range of members.
    Union {
        choice: u32,
        first: u32,
        last: u32,
    },
    Reference,
    /// An enclosing type of the one being made.
    Open,
}

/// The cases of a union.
pub(super) struct Choice {
    pub discriminator: Scalar,
    /// Cases by label, in order.
    labels: Vec<(i128, usize)>,
    default: Option<usize>,
}

impl Choice {
    /// The case of a label: the first of those that share a member.
    pub fn case(&self, label: i128) -> Option<usize> {
        match self.labels.binary_search_by_key(&label, |(label, _)| *label) {
            Ok(at) => self.labels.get(at).map(|(_, case)| *case),
            Err(_) => self.default,
        }
    }
}

/// A type that has values which cannot be passed.
pub(super) struct UnskippableType(pub TypeCode);

#[derive(Default)]
pub(super) struct Layouts {
    shapes: Vec<Shape>,
    members: Vec<u32>,
    choices: Vec<Choice>,
    known: BTreeMap<Identity, u32>,
    /// The first of the members of a structure.
    tables: BTreeMap<Identity, usize>,
    unions: BTreeMap<Identity, u32>,
}

/// A member of which the shape was not needed so far.
const UNUSED: u32 = u32::MAX;

impl Layouts {
    pub fn shape(&self, shape: u32) -> &Shape {
        self.shapes.get(shape as usize).unwrap_or(&Shape::Open)
    }

    pub fn members(&self, first: u32, last: u32) -> &[u32] {
        self.members.get(first as usize..last as usize).unwrap_or_default()
    }

    pub fn choice(&self, choice: u32) -> Option<&Choice> {
        self.choices.get(choice as usize)
    }

    /// The sizes of a type that has fixed values.
    pub fn sizes(&self, shape: u32) -> Option<&Sizes> {
        match self.shape(shape) {
            Shape::Fixed(sizes) => Some(sizes),
            _ => None,
        }
    }

    /// The shape of a type. Each type is laid out once, so this ends for recursive ones.
    pub fn of(&mut self, tc: &TypeCode) -> Result<u32, UnskippableType> {
        let tc = tc.original();
        if let Some(known) = self.known.get(&tc.identity()) {
            return Ok(*known);
        }
        let shape = self.add(Shape::Open);
        self.known.insert(tc.identity(), shape);
        let made = self.make(&tc)?;
        if let Some(open) = self.shapes.get_mut(shape as usize) {
            *open = made;
        }
        Ok(shape)
    }

    fn add(&mut self, shape: Shape) -> u32 {
        self.shapes.push(shape);
        (self.shapes.len() - 1) as u32
    }

    fn make(&mut self, tc: &TypeCode) -> Result<Shape, UnskippableType> {
        let impassable = || UnskippableType(tc.clone());
        let wrong = |_: TypeCodeError| UnskippableType(tc.clone());
        if let Some(scalar) = scalar(tc) {
            let (align, size) = scalar.layout();
            return Ok(Shape::Fixed(sizes(|at| at.next_multiple_of(align.into()) + u64::from(size))));
        }
        Ok(match tc.kind() {
            Kind::Fixed => {
                let size = u64::from(tc.fixed_digits().map_err(wrong)? / 2 + 1);
                Shape::Fixed(sizes(|at| at + size))
            }
            Kind::String | Kind::WString => Shape::Text,
            Kind::WChar => Shape::WideChar,
            Kind::ObjRef => Shape::Reference,
            Kind::Sequence => Shape::Sequence { element: self.of(&tc.content_type().map_err(wrong)?)? },
            Kind::Array => {
                let element = self.of(&tc.content_type().map_err(wrong)?)?;
                let length = tc.length().map_err(wrong)?;
                match self.sizes(element) {
                    Some(of) => Shape::Fixed(sizes(|at| pass(of, at, length))),
                    None => Shape::Array { element, length },
                }
            }
            Kind::Struct => {
                let shapes = self.of_members(tc)?;
                let fixed: Option<Vec<Sizes>> = shapes.iter().map(|of| self.sizes(*of).copied()).collect();
                match fixed {
                    Some(each) => {
                        Shape::Fixed(sizes(|at| each.iter().fold(at, |at, sizes| pass(sizes, at, 1))))
                    }
                    None => {
                        let (first, last) = self.add_members(shapes);
                        Shape::Struct { first, last }
                    }
                }
            }
            Kind::Union => {
                let choice = self.add_choice(tc).ok_or_else(impassable)?;
                let shapes = self.of_members(tc)?;
                let (first, last) = self.add_members(shapes);
                Shape::Union { choice, first, last }
            }
            _ => return Err(impassable()),
        })
    }

    fn of_members(&mut self, tc: &TypeCode) -> Result<Vec<u32>, UnskippableType> {
        let wrong = |_: TypeCodeError| UnskippableType(tc.clone());
        let members = 0..tc.member_count().map_err(wrong)?;
        members.map(|index| self.of(&tc.member_type(index).map_err(wrong)?)).collect()
    }

    fn add_members(&mut self, shapes: Vec<u32>) -> (u32, u32) {
        let first = self.members.len();
        self.members.extend(shapes);
        (first as u32, self.members.len() as u32)
    }

    /// A range of the members of a structure. Only their types must be passable.
    pub fn range(
        &mut self,
        tc: &TypeCode,
        range: std::ops::Range<u32>,
    ) -> Result<(u32, u32), UnskippableType> {
        let wrong = |_: TypeCodeError| UnskippableType(tc.clone());
        let first = match self.tables.get(&tc.identity()) {
            Some(first) => *first,
            None => {
                let (first, count) = (self.members.len(), tc.member_count().map_err(wrong)? as usize);
                self.members.resize(first + count, UNUSED);
                self.tables.insert(tc.identity(), first);
                first
            }
        };
        for index in range.clone() {
            if self.members.get(first + index as usize) == Some(&UNUSED) {
                let shape = self.of(&tc.member_type(index).map_err(wrong)?)?;
                if let Some(member) = self.members.get_mut(first + index as usize) {
                    *member = shape;
                }
            }
        }
        Ok((first as u32 + range.start, first as u32 + range.end))
    }

    /// The cases of a union. `None` if its discriminator is no plain value.
    pub fn add_choice(&mut self, tc: &TypeCode) -> Option<u32> {
        if let Some(known) = self.unions.get(&tc.identity()) {
            return Some(*known);
        }
        let discriminator = scalar(&tc.discriminator_type().ok()?.original())?;
        let (mut labels, mut default, mut cases) = (Vec::new(), None, BTreeMap::new());
        for index in 0..tc.member_count().ok()? {
            let case = *cases.entry(tc.member_name(index).ok()?).or_insert(index as usize);
            match tc.member_label(index).ok()? {
                Label::Default => default = Some(case),
                Label::Value(label) => labels.push((label, case)),
            }
        }
        labels.sort_unstable();
        self.choices.push(Choice { discriminator, labels, default });
        let choice = (self.choices.len() - 1) as u32;
        self.unions.insert(tc.identity(), choice);
        Some(choice)
    }
}

/// The first case of a union with this name. A case has an entry for each of its labels.
pub(super) fn first_case(tc: &TypeCode, name: &str) -> Option<u32> {
    (0..tc.member_count().ok()?).find(|index| tc.member_name(*index) == Ok(name))
}

/// The kind of a plain value; `None` for other types.
pub(super) fn scalar(tc: &TypeCode) -> Option<Scalar> {
    Some(match tc.kind() {
        Kind::Boolean => Scalar::Boolean,
        Kind::Octet => Scalar::Octet,
        Kind::Char => Scalar::Char,
        Kind::Short => Scalar::Short,
        Kind::UShort => Scalar::UShort,
        Kind::Long => Scalar::Long,
        Kind::ULong => Scalar::ULong,
        Kind::LongLong => Scalar::LongLong,
        Kind::ULongLong => Scalar::ULongLong,
        Kind::Float => Scalar::Float,
        Kind::Double => Scalar::Double,
        Kind::LongDouble => Scalar::LongDouble,
        Kind::Enum => Scalar::Enum(tc.member_count().ok()?),
        _ => return None,
    })
}

/// The sizes of a value that begins `at` and ends at `end(at)`.
fn sizes(end: impl Fn(u64) -> u64) -> Sizes {
    let size = |at: usize| end(at as u64).saturating_sub(at as u64);
    std::array::from_fn(|at| u32::try_from(size(at)).unwrap_or(u32::MAX))
}

/// The position after `n` values that begin `at`.
///
/// The sizes repeat after eight values at the latest, so this takes at most 16 rounds.
pub(super) fn pass(sizes: &Sizes, at: u64, n: u32) -> u64 {
    let size = |at: u64| u64::from(sizes[(at % 8) as usize]);
    if n == 1 {
        return at.saturating_add(size(at));
    }
    let (mut at, mut passed) = (at, 0);
    let mut seen: [Option<(u32, u64)>; 8] = [None; 8];
    while passed < n {
        let slot = &mut seen[(at % 8) as usize];
        if let Some((since, from)) = *slot {
            let laps = (n - passed) / (passed - since);
            let lap = at - from;
            at = at.saturating_add(lap.saturating_mul(laps.into()));
            passed += laps * (passed - since);
            // What is left is less than a lap.
            for _ in passed..n {
                at = at.saturating_add(size(at));
            }
            return at;
        }
        *slot = Some((passed, at));
        at = at.saturating_add(size(at));
        passed += 1;
    }
    at
}
