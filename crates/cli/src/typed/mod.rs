//! Octets as values of an IDL type, for commands that show and write them.
//!
//! The octets are CDR in this machine's byte order, aligned from 0. For a structure of numbers this
//! is the memory of a C or Rust program. With `--encapsulated` they are an encapsulation, and the
//! first octet is the byte order.

mod from_idl;

pub use from_idl::{Called, Served, load_interface, load_operation};

use crate::commands::arguments::to_read;
use isorb_any::{Any, TypeCode};
use isorb_cdr::{Decoder, Encoder, ErrorKind, Order, Text};
use isorb_scope::Region;
use std::error::Error;
use std::path::{Path, PathBuf};

/// The longest JSON of a value, in octets.
const MAX_JSON: usize = 1 << 20;
/// A structure in memory is longer than its CDR by at most its alignment.
const MAX_PADDING: usize = 7;

/// Options that name a type.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct TypeArgs {
    /// IDL file with the type of the values, which are shown and read as JSON.
    #[arg(long, value_name = "FILE", requires = "type_name", value_parser = to_read())]
    idl: Option<PathBuf>,
    /// Name of the type in the IDL file (`Module::Type`).
    #[arg(long = "type", value_name = "NAME", requires = "idl")]
    type_name: Option<String>,
    /// Directory to search for `#include`; repeatable.
    #[arg(short = 'I', value_name = "DIR")]
    include: Vec<PathBuf>,
    /// Values are CDR encapsulations.
    #[arg(long, requires = "idl")]
    encapsulated: bool,
}

/// A type, and how its values are encoded.
#[derive(Clone, Debug)]
pub struct Typed {
    tc: TypeCode,
    /// The byte order of the octets, unless they are encapsulated.
    pub order: Order,
    encapsulated: bool,
}

impl TypeArgs {
    /// The type, if one was named.
    pub fn load(&self) -> Result<Option<Typed>, Box<dyn Error>> {
        let (Some(file), Some(name)) = (&self.idl, &self.type_name) else { return Ok(None) };
        let tc = from_idl::load(file, &self.include, name)?;
        Ok(Some(Typed { tc, order: Order::NATIVE, encapsulated: self.encapsulated }))
    }
}

impl Typed {
    /// A type of an IDL file. Its values are encapsulations, as payloads of events are.
    ///
    /// # Errors
    /// The file, or a type that it does not have.
    pub fn encapsulated(file: &Path, include: &[PathBuf], name: &str) -> Result<Typed, String> {
        let tc = from_idl::load(file, include, name)?;
        Ok(Typed { tc, order: Order::NATIVE, encapsulated: true })
    }

    /// The type of encapsulated values.
    pub fn payload_type(&self) -> &TypeCode {
        &self.tc
    }

    /// The type, unless its values are encapsulated.
    pub fn type_code(&self) -> Option<&TypeCode> {
        (!self.encapsulated).then_some(&self.tc)
    }

    /// The value as JSON.
    pub fn show(&self, octets: &[u8]) -> Result<String, String> {
        let any = (0..=MAX_PADDING.min(octets.len()))
            .find_map(|padding| self.read(&octets[..octets.len() - padding]).ok())
            .map_or_else(|| self.read(octets), Ok)
            .map_err(|error| format!("{} octets are no value of {}: {error}", octets.len(), self.tc))?;
        any.to_json(MAX_JSON).map_err(|error| error.to_string())
    }

    /// The octets of a value in JSON.
    pub fn parse(&self, json: &str) -> Result<Vec<u8>, String> {
        let any = Any::from_json(self.tc.clone(), json).map_err(|error| error.to_string())?;
        if !self.encapsulated {
            return Ok(any.value().to_vec());
        }
        let mut encoder = Encoder::new(Vec::new(), Text::DEFAULT);
        encoder.put(u8::from(Order::NATIVE == Order::Little));
        any.write_value(&mut encoder);
        encoder.flatten().map_err(|error| format!("the value cannot be encoded: {error}"))
    }

    fn read(&self, octets: &[u8]) -> isorb_cdr::Result<Any> {
        if !self.encapsulated {
            return Any::from_cdr(self.tc.clone(), octets, self.order, Text::DEFAULT);
        }
        // The order's octet counts for the alignment.
        let order = if octets.first().is_some_and(|flag| flag & 1 == 1) { Order::Little } else { Order::Big };
        let mut octets = octets.to_vec();
        let mut region = Region::new(4096);
        let scope = region.enter();
        let mut decoder = Decoder::new(&mut octets, order, Text::DEFAULT, &scope);
        decoder.get::<u8>()?;
        let any = Any::take(self.tc.clone(), &mut decoder)?;
        match decoder.remaining() {
            0 => Ok(any),
            _ => Err(decoder.error(ErrorKind::Length)),
        }
    }
}

/// Octets of hexadecimal digits. White space between them is ignored.
pub fn from_hex(text: &str) -> Result<Vec<u8>, String> {
    let digits: Vec<u8> = text.bytes().filter(|octet| !octet.is_ascii_whitespace()).collect();
    let digit = |octet: u8| {
        let value = char::from(octet).to_digit(16).map(|digit| digit as u8);
        value.ok_or_else(|| format!("'{}' is not a hexadecimal digit", char::from(octet)))
    };
    if digits.len() % 2 == 1 {
        return Err(format!("{} hexadecimal digits: two make an octet", digits.len()));
    }
    digits.chunks_exact(2).map(|pair| Ok(digit(pair[0])? << 4 | digit(pair[1])?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDL: &str = r"
        module Plant {
          enum Position { shut, half, open };
          typedef sequence<octet> Blob;
          struct Point { double x; long y; };
          union Measure switch (Position) { case shut: long none; case half: double part; default: string text; };
          struct Image {
            unsigned long plant; long long count; Position valve; boolean ok; char mark; string name; wstring wide;
            Point where; sequence<Point> track; short matrix[2][2]; Blob raw; Measure reading; float f;
          };
          struct Tree { string name; sequence<Tree> below; };
          interface Device {};
          struct Odd { Device thing; };
        };
    ";

    fn typed(name: &str, encapsulated: bool) -> Typed {
        let folder = isorb_testkit::TempFolder::new();
        let file = folder.file("plant.idl");
        std::fs::write(&file, IDL).unwrap();
        let tc = from_idl::load(&file, &[], &format!("Plant::{name}")).unwrap();
        Typed { tc, order: Order::NATIVE, encapsulated }
    }

    #[test]
    fn json_survives_writing_and_showing() {
        let image = r#"{"plant":7,"count":-5,"valve":"half","ok":true,"mark":"x","name":"boiler","wide":"ä",
            "where":{"x":1.5,"y":2},"track":[{"x":0.25,"y":-1}],"matrix":[[1,2],[3,4]],"raw":"00ff10",
            "reading":{"$case":"half","part":0.5},"f":2.5}"#;
        for encapsulated in [false, true] {
            let typed = typed("Image", encapsulated);
            let octets = typed.parse(image).unwrap();
            let shown: serde_json::Value = serde_json::from_str(&typed.show(&octets).unwrap()).unwrap();
            assert_eq!(shown, serde_json::from_str::<serde_json::Value>(image).unwrap());
            assert!(typed.show(&octets[..octets.len() / 2]).is_err());
            assert!(typed.show(&[]).is_err());
        }
        let tree = r#"{"name":"a","below":[{"name":"b","below":[]}]}"#;
        let typed = typed("Tree", false);
        assert_eq!(typed.show(&typed.parse(tree).unwrap()).unwrap(), tree);
    }

    #[test]
    fn a_structure_in_memory_is_read() {
        // double, long, four octets of padding.
        let mut octets = 1.5f64.to_ne_bytes().to_vec();
        octets.extend(2i32.to_ne_bytes());
        octets.extend([0; 4]);
        assert_eq!(typed("Point", false).show(&octets).unwrap(), r#"{"x":1.5,"y":2}"#);
    }

    #[test]
    fn errors_name_the_member() {
        let point = typed("Point", false);
        for (json, text) in [
            (r#"{"x":1}"#, "y"),
            (r#"{"x":1,"y":2,"z":3}"#, "z"),
            (r#"{"x":1,"y":3000000000}"#, "3000000000"),
            (r#"{"x":"1","y":2}"#, "double"),
            ("[1,2]", "Point"),
            ("{", "JSON"),
        ] {
            let error = point.parse(json).unwrap_err();
            assert!(error.contains(text), "{json}: {error}");
        }
        assert!(typed("Odd", false).parse(r#"{"thing":null}"#).unwrap_err().contains("thing"));
        assert_eq!(from_hex("0a Ff\n00").unwrap(), [10, 255, 0]);
        assert!(from_hex("0").is_err() && from_hex("0x").is_err());
    }
}
