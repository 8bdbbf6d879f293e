//! Octets as values of an IDL type, for commands that show and write them.
//!
//! The octets are CDR in this machine's byte order from alignment 0 on: what a C or Rust program has in memory for a structure of numbers,
//! and what `isorb_cdr` writes for any other type. With `--encapsulated` they are an encapsulation, whose first octet says the order.

mod from_idl;
mod from_json;

use isorb_any::{Any, TypeCode};
use isorb_cdr::{Order, Text};
use std::error::Error;
use std::path::PathBuf;

/// A value is shown up to so many octets of text.
const LONGEST: usize = 1 << 20;
/// A structure in memory may be longer than its CDR by as much as its alignment.
const PADDING: usize = 7;

/// Which type.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct TypeArgs {
    /// The IDL file that has the type of the values.
    #[arg(long, value_name = "FILE", requires = "type_name")]
    idl: Option<PathBuf>,
    /// The type's name in it (`Module::Type`).
    #[arg(long = "type", value_name = "NAME", requires = "idl")]
    type_name: Option<String>,
    /// A directory in which `#include` looks; repeatable.
    #[arg(short = 'I', value_name = "DIR")]
    include: Vec<PathBuf>,
    /// The octets are an encapsulation.
    #[arg(long, requires = "idl")]
    encapsulated: bool,
}

/// A type, and how its values lie in octets.
#[derive(Clone, Debug)]
pub struct Typed {
    tc: TypeCode,
    encapsulated: bool,
}

impl TypeArgs {
    /// The type, if one was named.
    pub fn load(&self) -> Result<Option<Typed>, Box<dyn Error>> {
        let (Some(file), Some(name)) = (&self.idl, &self.type_name) else { return Ok(None) };
        let tc = from_idl::load(file, &self.include, name)?;
        Ok(Some(Typed { tc, encapsulated: self.encapsulated }))
    }
}

impl Typed {
    /// The value as JSON.
    pub fn show(&self, octets: &[u8]) -> Result<String, String> {
        let (order, octets) = match self.encapsulated {
            false => (NATIVE, octets),
            true => match octets.split_first() {
                // The flag has a place in the alignment.
                Some((flag, _)) => (if flag & 1 == 1 { Order::Little } else { Order::Big }, octets),
                None => return Err(format!("no octets are no encapsulation of {}", self.tc)),
            },
        };
        let read = |octets: &[u8]| match self.encapsulated {
            false => Any::from_cdr(self.tc.clone(), octets, order, Text::DEFAULT),
            true => from_json::after_flag(&self.tc, octets, order),
        };
        let any = (0..=PADDING.min(octets.len()))
            .find_map(|padding| read(&octets[..octets.len() - padding]).ok())
            .map_or_else(|| read(octets), Ok)
            .map_err(|error| format!("{} octets are no value of {}: {error}", octets.len(), self.tc))?;
        any.to_json(LONGEST).map_err(|error| error.to_string())
    }

    /// The octets of a value in JSON.
    pub fn parse(&self, json: &str) -> Result<Vec<u8>, String> {
        let value = serde_json::from_str(json).map_err(|error| format!("the value is no JSON: {error}"))?;
        from_json::encode(&self.tc, &value, self.encapsulated)
    }
}

const NATIVE: Order = if cfg!(target_endian = "little") { Order::Little } else { Order::Big };

/// Octets of hexadecimal digits, between which there may be white space.
pub fn from_hex(text: &str) -> Result<Vec<u8>, String> {
    let digits: Vec<u8> = text.bytes().filter(|octet| !octet.is_ascii_whitespace()).collect();
    let digit = |octet: u8| {
        let value = char::from(octet).to_digit(16).map(|digit| digit as u8);
        value.ok_or_else(|| format!("'{}' is no hexadecimal digit", char::from(octet)))
    };
    if digits.len() % 2 == 1 {
        return Err(format!("{} hexadecimal digits are no whole octets", digits.len()));
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
        static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let file = std::env::temp_dir().join(format!("isorb-typed-{}-{number}.idl", std::process::id()));
        std::fs::write(&file, IDL).unwrap();
        let tc = from_idl::load(&file, &[], &format!("Plant::{name}")).unwrap();
        std::fs::remove_file(&file).unwrap();
        Typed { tc, encapsulated }
    }

    #[test]
    fn what_is_written_as_json_is_shown_so() {
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
    fn a_structure_as_it_lies_in_memory_is_read() {
        // double, long, four octets of padding.
        let mut octets = 1.5f64.to_ne_bytes().to_vec();
        octets.extend(2i32.to_ne_bytes());
        octets.extend([0; 4]);
        assert_eq!(typed("Point", false).show(&octets).unwrap(), r#"{"x":1.5,"y":2}"#);
    }

    #[test]
    fn what_does_not_fit_is_named() {
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
