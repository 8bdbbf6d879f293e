//! Interoperable object references (clause 7.6.2).

use crate::cursor::{Cursor, terminated};
use crate::octets::{encapsulated, put_name, put_octets};
use crate::profile::{IiopProfile, TAG_INTERNET_IOP, TaggedProfile};
use crate::url::{UrlError, UrlErrorKind};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;
use isorb_cdr::{Decoder, Encoder, Result};

/// A reference: the known type of the object, and its addresses.
///
/// # Real-time
/// References are on the heap; reading one allocates, bounded by four times its octets.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Ior {
    /// Repository id of the object's interface; empty when it is not known.
    pub type_id: String,
    /// The object's addresses; a client may use any that it understands.
    pub profiles: Vec<TaggedProfile>,
}

impl Ior {
    /// The nil reference.
    pub const NIL: Ior = Ior { type_id: String::new(), profiles: Vec::new() };

    /// A reference with one IIOP profile.
    ///
    /// # Errors
    /// As [`IiopProfile::to_tagged`].
    pub fn iiop(type_id: impl Into<String>, profile: &IiopProfile) -> Result<Ior> {
        Ok(Ior { type_id: type_id.into(), profiles: alloc::vec![profile.to_tagged()?] })
    }

    /// Whether the reference is nil: no profile (clause 7.6.2 also asks for no type id, but some
    /// ORBs send one).
    pub fn is_nil(&self) -> bool {
        self.profiles.is_empty()
    }

    /// The IIOP profiles in order.
    pub fn iiop_profiles(&self) -> impl Iterator<Item = Result<IiopProfile>> {
        self.profiles.iter().filter(|p| p.tag == TAG_INTERNET_IOP).map(|p| IiopProfile::parse(&p.data))
    }

    /// Reads a reference from a message.
    ///
    /// # Errors
    /// [`isorb_cdr::Error`] for malformed octets.
    pub fn decode(d: &mut Decoder<'_>) -> Result<Ior> {
        fn octets<'m>(d: &mut Decoder<'m>) -> Result<&'m [u8]> {
            let n = d.count(1)?;
            Ok(d.take(n)?)
        }
        let type_id = terminated(octets(d)?).map_err(|kind| d.error(kind))?.into();
        let n = d.count(8)?;
        let profiles = (0..n)
            .map(|_| Ok(TaggedProfile { tag: d.get()?, data: octets(d)?.into() }))
            .collect::<Result<_>>()?;
        Ok(Ior { type_id, profiles })
    }

    /// Writes the reference into a message.
    pub fn encode(&self, e: &mut Encoder<'_>) {
        put_name(e, &self.type_id);
        e.count(self.profiles.len());
        for profile in &self.profiles {
            e.put(profile.tag);
            put_octets(e, &profile.data);
        }
    }

    /// Reads a reference from an encapsulation, as a stringified one is.
    ///
    /// # Errors
    /// [`isorb_cdr::Error`] for malformed octets.
    pub fn from_encapsulation(bytes: &[u8]) -> Result<Ior> {
        Ior::read(&mut Cursor::encapsulation(bytes)?)
    }

    /// The reference as an encapsulation.
    ///
    /// # Errors
    /// [`isorb_cdr::Error`] for a type id with a zero character in it.
    pub fn to_encapsulation(&self) -> Result<Vec<u8>> {
        encapsulated(|e| self.encode(e))
    }

    fn read(c: &mut Cursor<'_>) -> Result<Ior> {
        let type_id = c.str()?.into();
        let n = c.count(8)?;
        let profiles = (0..n)
            .map(|_| Ok(TaggedProfile { tag: c.u32()?, data: c.octets()?.into() }))
            .collect::<Result<_>>()?;
        Ok(Ior { type_id, profiles })
    }
}

/// `IOR:` and hexadecimal digits (clause 7.6.9).
impl fmt::Display for Ior {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("IOR:")?;
        let bytes = self.to_encapsulation().map_err(|_| fmt::Error)?;
        bytes.iter().try_for_each(|octet| write!(f, "{octet:02x}"))
    }
}

impl FromStr for Ior {
    type Err = UrlError;

    /// Reads `IOR:` (in any case) and hexadecimal digits, with whitespace around.
    fn from_str(text: &str) -> Result<Ior, UrlError> {
        let trimmed = text.trim_ascii();
        let indent = text.len() - text.trim_ascii_start().len();
        let scheme = trimmed.get(..4).filter(|scheme| scheme.eq_ignore_ascii_case("IOR:"));
        if scheme.is_none() {
            return Err(UrlError::at(UrlErrorKind::Scheme, text, indent));
        }
        let start = indent + 4;
        let digits = &trimmed.as_bytes()[4..];
        if let Some(bad) = digits.iter().position(|digit| !digit.is_ascii_hexdigit()) {
            return Err(UrlError::at(UrlErrorKind::HexDigit, text, start + bad));
        }
        if !digits.len().is_multiple_of(2) {
            return Err(UrlError::at(UrlErrorKind::OddDigits, text, start + digits.len()));
        }
        let bytes: Vec<u8> =
            digits.chunks_exact(2).map(|pair| nibble(pair[0]) << 4 | nibble(pair[1])).collect();
        Ior::from_encapsulation(&bytes).map_err(|error| {
            UrlError::at(UrlErrorKind::Reference(error), text, start + 2 * error.at as usize)
        })
    }
}

/// The value of a hexadecimal digit, 0 for anything else.
pub(crate) fn nibble(digit: u8) -> u8 {
    char::from(digit).to_digit(16).map_or(0, |value| value as u8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::component::{Component, TaggedComponent};
    use alloc::string::ToString;
    use alloc::vec;
    use isorb_cdr::{Order, Text, Version};
    use isorb_scope::Region;
    use proptest::prelude::*;

    /// Clauses 7.6.2 and 9.7.2 by hand, big endian: type id "IDL:T:1.0" (10 octets, padded to 20),
    /// one profile with tag 0 of 44 octets: byte order, version 1.2, host "lab", port 2809, key "k"
    /// and padding, one component, ORB type.
    const BIG: &str = "IOR:000000000000000a49444c3a543a312e3000000000000001000000000000002c0001020000000004\
                       6c616200_0af90000_00000001_6b000000_00000001_00000000_00000008_00000000_49534f00";

    fn hand() -> String {
        BIG.replace('_', "")
    }

    #[test]
    fn golden() {
        let ior: Ior = hand().parse().unwrap();
        assert_eq!(ior.type_id, "IDL:T:1.0");
        let profile = ior.iiop_profiles().next().unwrap().unwrap();
        assert_eq!(
            profile,
            IiopProfile {
                version: Version::V1_2,
                host: "lab".into(),
                port: 2809,
                key: b"k".into(),
                components: vec![TaggedComponent { tag: 0, data: b"\0\0\0\0ISO\0".into() }],
            }
        );
        assert_eq!(Component::parse(&profile.components[0]), Ok(Component::OrbType(0x4953_4f00)));
        assert_eq!(ior.to_string().parse(), Ok(ior.clone()));
        let shouted = alloc::format!("  \n{}\r\n", hand().to_uppercase());
        assert_eq!(shouted.parse(), Ok(ior));
    }

    #[test]
    fn nil() {
        assert!(Ior::NIL.is_nil());
        // An empty string with its terminator, no profiles.
        assert_eq!("IOR:01000000010000000000000000000000".parse(), Ok(Ior::NIL));
        assert_eq!(Ior::NIL.to_string().parse(), Ok(Ior::NIL));
    }

    #[test]
    fn errors_say_where() {
        let error = |text: &str| text.parse::<Ior>().unwrap_err();
        assert_eq!((error("IOX:00").kind, error("IOX:00").column), (UrlErrorKind::Scheme, 1));
        assert_eq!((error(" IOR:0g").kind, error(" IOR:0g").column), (UrlErrorKind::HexDigit, 7));
        assert_eq!(error("IOR:000").kind, UrlErrorKind::OddDigits);
        assert!(matches!(error("IOR:").kind, UrlErrorKind::Reference(_)));
        assert!(matches!(error(&hand()[..40]).kind, UrlErrorKind::Reference(_)));
    }

    #[test]
    fn in_messages_of_either_order() {
        let ior: Ior = hand().parse().unwrap();
        let mut e = Encoder::new(Vec::new(), Text::DEFAULT);
        e.put(1u8);
        ior.encode(&mut e);
        e.put(7u16);
        let mut bytes = e.flatten().unwrap();
        let mut region = Region::new(0);
        let scope = region.enter();
        let mut d = Decoder::new(&mut bytes, Order::NATIVE, Text::DEFAULT, &scope);
        assert_eq!(d.get(), Ok(1u8));
        assert_eq!(Ior::decode(&mut d), Ok(ior));
        assert_eq!(d.get(), Ok(7u16));
        let mut short = [0, 0, 0, 1, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff];
        let mut d = Decoder::new(&mut short, Order::Big, Text::DEFAULT, &scope);
        assert!(Ior::decode(&mut d).is_err());
    }

    #[test]
    fn addresses() {
        let other =
            |host: &str, port| Component::AlternateAddress { host: host.into(), port }.to_tagged().unwrap();
        let profile = IiopProfile {
            version: Version::V1_2,
            host: "a".into(),
            port: 1,
            key: vec![],
            components: vec![other("a", 1), other("b", 2), TaggedComponent { tag: 3, data: vec![] }],
        };
        let all: Vec<_> = profile.addresses().collect();
        assert_eq!(all, [("a".into(), 1), ("b".into(), 2)]);
        let old = IiopProfile { version: Version::V1_0, ..profile };
        assert!(IiopProfile::parse(&old.to_tagged().unwrap().data).unwrap().components.is_empty());
    }

    proptest! {
        #[test]
        fn any_bytes(bytes: Vec<u8>) {
            if let Ok(ior) = Ior::from_encapsulation(&bytes) {
                prop_assert_eq!(ior.to_string().parse(), Ok(ior));
            }
            let _ = IiopProfile::parse(&bytes);
            let _ = crate::profile::multiple_components(&bytes);
        }

        #[test]
        fn damaged(at in 4usize..200, digit in "[0-9a-f]") {
            let mut text = hand();
            if at < text.len() { text.replace_range(at..=at, &digit); }
            if let Ok(ior) = text.parse::<Ior>() {
                ior.iiop_profiles().flatten().for_each(|p| { let _ = p.addresses().count(); });
            }
        }

        #[test]
        fn any_text(text: String) {
            let _ = text.parse::<Ior>();
            let _ = alloc::format!("IOR:{text}").parse::<Ior>();
        }

        #[test]
        fn round_trip(host in "[a-z0-9.:-]{0,30}", port: u16, key: Vec<u8>, minor in 0usize..3, data: Vec<u8>) {
            let version = [Version::V1_0, Version::V1_1, Version::V1_2][minor];
            let components = if minor == 0 { vec![] } else { vec![TaggedComponent { tag: 77, data }] };
            let profile = IiopProfile { version, host, port, key, components };
            let ior = Ior::iiop("IDL:X:1.0", &profile).unwrap();
            let again: Ior = ior.to_string().parse().unwrap();
            prop_assert_eq!(again.iiop_profiles().next().unwrap().unwrap(), profile);
        }
    }
}
