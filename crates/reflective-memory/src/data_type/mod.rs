//! The types of areas: repository id, hash and definition, and how two of them differ.
//!
//! Values of a typed area are in CDR from their first octet on, in the byte order that the area
//! names. A process that attaches gives the hash of its own type. Another one is refused, and the
//! error names the first difference between the two definitions.

mod definition;
mod plain;
mod size;

pub use size::largest_value;

use crate::Error;
use crate::error::CallerError;
use crate::idl::{Area, DataType, RAW_OCTETS, ReaderQoS, WriterQoS, WrongType};
use definition::definition;
use isorb_any::{AnyValue, TypeCode};
use std::fmt;

/// Octets of the longest repository id and of the longest definition that an area keeps.
pub(crate) const LONGEST_ID: usize = 500;
const LONGEST_DEFINITION: usize = 4000;

/// Separates the parts of a type in messages between library and server.
const SEPARATOR: char = '\0';

impl DataType {
    /// The type of `T`, in this machine's byte order.
    pub fn of<T: AnyValue>() -> DataType {
        DataType::of_type_code(&T::type_code())
    }

    /// The type with this type code, in this machine's byte order. Aliases count as the types that
    /// they name, and a type without a repository id has its IDL form as one: `double`.
    pub fn of_type_code(type_code: &TypeCode) -> DataType {
        let type_code = type_code.original();
        let id = type_code.id().map_or_else(|_| type_code.to_string(), str::to_owned);
        DataType::described(id, definition(&type_code))
    }

    /// The type with this id and definition, in this machine's byte order. Processes agree on a
    /// type where both texts are equal.
    pub fn described(id: impl Into<String>, definition: impl Into<String>) -> DataType {
        let (id, mut definition) = (id.into(), definition.into());
        let hash = hash(&id, &definition);
        let cut = (0..=LONGEST_DEFINITION).rev().find(|at| definition.is_char_boundary(*at));
        if definition.len() > LONGEST_DEFINITION {
            definition.truncate(cut.unwrap_or(0));
        }
        DataType { id, hash, little_endian: cfg!(target_endian = "little"), definition }
    }

    /// Has the area no type, so that its values are octets?
    pub fn is_octets(&self) -> bool {
        self.hash == 0
    }

    /// What distinguishes the type of an area from the one that this process expects.
    pub fn difference(&self, expected: &DataType) -> String {
        match (self.is_octets(), expected.is_octets()) {
            (true, true) => "both are octets without a type".into(),
            (true, false) => format!("its values are octets without a type, and {expected} was expected"),
            (false, true) => format!(
                "its values are {self}, and octets were expected; name the type, or ask for the octets of any type"
            ),
            (false, false) if self.id != expected.id => {
                format!("its values are {self}, and {expected} was expected")
            }
            (false, false) => {
                let (there, here) = definition::first_difference(&self.definition, &expected.definition);
                format!(
                    "{self} has `{there}` there and `{here}` here: the two were compiled from different definitions"
                )
            }
        }
    }

    /// As one text, for messages that have only texts.
    pub(crate) fn to_text(&self) -> String {
        if self.is_octets() {
            return String::new();
        }
        let DataType { id, hash, little_endian, definition } = self;
        let order = if *little_endian { "le" } else { "be" };
        [id, order, &format!("{hash:x}"), definition].join(&SEPARATOR.to_string())
    }

    /// None for a text that [`to_text`](Self::to_text) does not give.
    pub(crate) fn from_text(text: &str) -> Option<DataType> {
        if text.is_empty() {
            return Some(DataType::default());
        }
        let mut parts = text.splitn(4, SEPARATOR);
        let (id, order) = (parts.next()?.to_owned(), parts.next()?);
        let hash = u64::from_str_radix(parts.next()?, 16).ok()?;
        let little_endian = match order {
            "le" => true,
            "be" => false,
            _ => return None,
        };
        Some(DataType { id, hash, little_endian, definition: parts.next()?.into() })
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_octets() { "octets" } else { &self.id })
    }
}

impl Area {
    /// Refuses a process that expects values of the type with this hash.
    pub(crate) fn check_type(&self, expected: u64) -> Result<(), Error> {
        if expected == RAW_OCTETS || expected == self.data.hash {
            return Ok(());
        }
        let reason = match expected {
            0 => self.data.difference(&DataType::default()),
            other => format!("its values are {}, and another type was expected (hash {other:x})", self.data),
        };
        Err(Error::WrongType(WrongType { name: self.name.clone(), has: self.data.clone(), reason }))
    }

    /// Refuses a type that no message can carry.
    pub(crate) fn check_data(&self) -> Result<(), Error> {
        let DataType { id, hash, definition, .. } = &self.data;
        if id.len() > LONGEST_ID {
            return Err(Error::wrong_size("the type's repository id", id.len(), LONGEST_ID));
        }
        if definition.len() > LONGEST_DEFINITION {
            return Err(Error::wrong_size("the type's definition", definition.len(), LONGEST_DEFINITION));
        }
        let has_zero = id.contains(SEPARATOR) || definition.contains(SEPARATOR);
        match has_zero || *hash == RAW_OCTETS || (*hash == 0) != id.is_empty() {
            true => Err(CallerError::DataType.into()),
            false => Ok(()),
        }
    }
}

impl WriterQoS {
    /// Writes values of `T`. Without it, the area must be one without a type.
    pub fn of<T: AnyValue>(self) -> WriterQoS {
        WriterQoS { type_hash: DataType::of::<T>().hash, ..self }
    }

    /// Writes octets, whatever type the area has.
    pub fn any_type(self) -> WriterQoS {
        WriterQoS { type_hash: RAW_OCTETS, ..self }
    }
}

impl ReaderQoS {
    /// Reads values of `T`. Without it, the area must be one without a type.
    pub fn of<T: AnyValue>(self) -> ReaderQoS {
        ReaderQoS { type_hash: DataType::of::<T>().hash, ..self }
    }

    /// Reads octets, whatever type the area has.
    pub fn any_type(self) -> ReaderQoS {
        ReaderQoS { type_hash: RAW_OCTETS, ..self }
    }
}

/// FNV-1a, 64 bits. A hash that has another meaning is replaced by one that has none.
fn hash(id: &str, definition: &str) -> u64 {
    let octets = id.bytes().chain(*b"\n").chain(definition.bytes());
    let hash = octets.fold(0xcbf2_9ce4_8422_2325, |hash: u64, octet| {
        (hash ^ u64::from(octet)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    if matches!(hash, 0 | RAW_OCTETS) { 1 } else { hash }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(member: &str, of: TypeCode) -> DataType {
        let code =
            TypeCode::new_struct("IDL:Plant/Point:1.0", "Point", &[("x", TypeCode::LONG), (member, of)]);
        DataType::of_type_code(&code.unwrap())
    }

    #[test]
    fn a_type_is_its_id_and_definition() {
        let double = point("y", TypeCode::DOUBLE);
        assert_eq!(double.definition, "struct Point { long x; double y; }");
        assert_eq!(double, point("y", TypeCode::DOUBLE));
        let alias = TypeCode::new_alias("IDL:Plant/P:1.0", "P", &TypeCode::DOUBLE).unwrap();
        assert_eq!(double, point("y", alias), "an alias is what it names");
        for (other, part) in [
            (point("y", TypeCode::FLOAT), "`double y` there and `float y` here"),
            (point("z", TypeCode::DOUBLE), "`double y` there and `double z` here"),
            (DataType::of::<f64>(), "and double was expected"),
            (DataType::default(), "octets were expected"),
        ] {
            assert_ne!(double.hash, other.hash);
            let difference = double.difference(&other);
            assert!(difference.contains(part), "{difference}");
        }
        // What another program computes.
        assert_eq!(hash("a", "b"), 0xe5beb1190415e670);
    }

    #[test]
    fn a_type_survives_its_text() {
        for data in [DataType::default(), point("y", TypeCode::DOUBLE), DataType::of::<Vec<u16>>()] {
            assert_eq!(DataType::from_text(&data.to_text()), Some(data));
        }
        for text in ["x", "x\0le", "x\0le\0zz\0d", "x\0me\x001\0d", "\0\0\0"] {
            assert_eq!(DataType::from_text(text), None, "{text:?}");
        }
        let long = DataType::described("IDL:Long:1.0", "é".repeat(4000));
        assert_eq!((long.definition.len(), long.hash), (4000, hash("IDL:Long:1.0", &"é".repeat(4000))));
    }
}
