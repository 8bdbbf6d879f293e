//! Addresses and a key (clause 7.6.10.1).

use super::escape::{self, Escaped};
use super::{UrlError, UrlErrorKind};
use crate::header::minor_version;
#[cfg(feature = "diop")]
use crate::profile::TAG_TAO_DIOP;
#[cfg(feature = "uiop")]
use crate::{AddressProfile, profile::TAG_TAO_UIOP};
use crate::{IiopProfile, Ior};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use isorb_cdr::Version;

/// TCP port of an address without one.
pub const DEFAULT_PORT: u16 = 2809;

/// Object key of `corbaname:` and `rir:` URLs without one.
pub const NAME_SERVICE: &str = "NameService";

/// One address.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Address {
    /// `rir:`: the initial reference of that name in this process. Always alone.
    Rir,
    /// `iiop:`, or nothing before the colon.
    Iiop {
        /// The first GIOP version to use, 1.0 if none is written.
        version: Version,
        /// Host name or address, without brackets.
        host: String,
        /// TCP port.
        port: u16,
    },
    /// `diop:`: UDP, as TAO writes it.
    #[cfg(feature = "diop")]
    Diop {
        /// The first GIOP version to use, 1.2 if none is written, as in TAO.
        version: Version,
        /// Host name or address, without brackets.
        host: String,
        /// UDP port.
        port: u16,
    },
    /// `miop:`: an object group behind an IP multicast group. It has no object key.
    #[cfg(feature = "miop")]
    Miop(super::GroupAddress),
    /// Any other protocol, such as `uiop:`, unchanged.
    Other {
        /// Name of the protocol.
        protocol: String,
        /// The text up to the next comma or the key.
        address: String,
    },
}

/// Addresses, any of which a client may use, and an object key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Corbaloc {
    /// The addresses, at least one.
    pub addresses: Vec<Address>,
    /// The object key; for `rir:` the name of the initial reference.
    pub key: Vec<u8>,
}

impl Corbaloc {
    /// A reference with the IIOP addresses, and those of `uiop:` (unix sockets, as TAO writes
    /// them), `diop:` (UDP) and `miop:` (groups) if their features are on. `None` when there is no
    /// address.
    pub fn to_ior(&self) -> Option<Ior> {
        let profiles = self.addresses.iter().filter_map(|address| match address {
            Address::Iiop { version, host, port } => {
                let (version, host, port) = (*version, host.clone(), *port);
                let profile =
                    IiopProfile { version, host, port, key: self.key.clone(), components: Vec::new() };
                profile.to_tagged().ok()
            }
            #[cfg(feature = "diop")]
            Address::Diop { version, host, port } => {
                let (version, host, port) = (*version, host.clone(), *port);
                let profile =
                    IiopProfile { version, host, port, key: self.key.clone(), components: Vec::new() };
                let tagged = profile.to_tagged().ok()?;
                Some(crate::TaggedProfile { tag: TAG_TAO_DIOP, ..tagged })
            }
            #[cfg(feature = "miop")]
            Address::Miop(group) => group.profile(),
            #[cfg(feature = "uiop")]
            Address::Other { protocol, address } if protocol == "uiop" => {
                let (version, path) = match address.split_once('@') {
                    Some(("1.0", path)) => (Version::V1_0, path),
                    Some(("1.1", path)) => (Version::V1_1, path),
                    Some(("1.2", path)) => (Version::V1_2, path),
                    _ => (Version::V1_0, &**address),
                };
                let (address, key) = (path.into(), self.key.clone());
                let components = Vec::new();
                AddressProfile { tag: TAG_TAO_UIOP, version, address, key, components }.to_tagged().ok()
            }
            _ => None,
        });
        let profiles: Vec<_> = profiles.collect();
        (!profiles.is_empty()).then(|| Ior { type_id: String::new(), profiles })
    }

    /// Whether the last address is complete by itself, so that no key follows.
    fn ends_without_key(&self) -> bool {
        #[cfg(feature = "miop")]
        return self.key.is_empty() && matches!(self.addresses.last(), Some(Address::Miop(_)));
        #[cfg(not(feature = "miop"))]
        false
    }

    /// Reads the text behind the scheme, from byte `at` of `url` on.
    pub(super) fn parse(url: &str, at: usize) -> Result<Corbaloc, UrlError> {
        let mut reader = Reader { url, at };
        let mut addresses = Vec::new();
        loop {
            let start = reader.at;
            addresses.push(reader.address()?);
            if addresses.len() > 1 && addresses.contains(&Address::Rir) {
                return Err(UrlError::at(UrlErrorKind::Rir, url, start));
            }
            if !reader.eat(',') {
                break;
            }
        }
        // The end of the last address: a slash, or a bar for unix sockets, because their paths have
        // slashes.
        if !reader.rest().is_empty() {
            reader.at += 1;
        }
        let mut key = escape::octets(url, reader.at, reader.rest())?;
        if key.is_empty() && addresses == [Address::Rir] {
            key = NAME_SERVICE.into();
        }
        Ok(Corbaloc { addresses, key })
    }
}

pub(super) struct Reader<'a> {
    pub url: &'a str,
    pub at: usize,
}

impl<'a> Reader<'a> {
    pub fn rest(&self) -> &'a str {
        &self.url[self.at..]
    }

    pub fn eat(&mut self, c: char) -> bool {
        let found = self.rest().starts_with(c);
        self.at += if found { c.len_utf8() } else { 0 };
        found
    }

    pub fn until(&mut self, ends: &[char]) -> &'a str {
        let rest = self.rest();
        let part = &rest[..rest.find(ends).unwrap_or(rest.len())];
        self.at += part.len();
        part
    }

    pub fn error(&self, kind: UrlErrorKind) -> UrlError {
        UrlError::at(kind, self.url, self.at)
    }

    fn address(&mut self) -> Result<Address, UrlError> {
        if self.rest().is_empty() {
            return Err(self.error(UrlErrorKind::NoAddress));
        }
        let start = self.at;
        let protocol = self.until(&[':', ',', '/']);
        if !self.eat(':') {
            return Err(UrlError::at(UrlErrorKind::Protocol, self.url, start));
        }
        if protocol.eq_ignore_ascii_case("rir") {
            return match self.rest().chars().next() {
                None | Some('/') => Ok(Address::Rir),
                _ => Err(self.error(UrlErrorKind::Rir)),
            };
        }
        if protocol.is_empty() || protocol.eq_ignore_ascii_case("iiop") {
            let (version, host, port) = self.iiop(Version::V1_0)?;
            return Ok(Address::Iiop { version, host, port });
        }
        #[cfg(feature = "diop")]
        if protocol.eq_ignore_ascii_case("diop") {
            let (version, host, port) = self.iiop(Version::V1_2)?;
            return Ok(Address::Diop { version, host, port });
        }
        #[cfg(feature = "miop")]
        if protocol.eq_ignore_ascii_case("miop") {
            return self.miop().map(Address::Miop);
        }
        let ends: &[char] = if protocol.eq_ignore_ascii_case("uiop") { &[',', '|'] } else { &[',', '/'] };
        let address = self.until(ends).into();
        Ok(Address::Other { protocol: protocol.to_ascii_lowercase(), address })
    }

    /// `[version@]host[:port]`.
    fn iiop(&mut self, default: Version) -> Result<(Version, String, u16), UrlError> {
        let version = self.version(default)?;
        let (host, port) = self.host_and_port()?;
        if !matches!(self.rest().chars().next(), None | Some(',' | '/')) {
            return Err(self.error(UrlErrorKind::Host));
        }
        Ok((version, host, port.unwrap_or(DEFAULT_PORT)))
    }

    /// `[version@]`.
    pub fn version(&mut self, default: Version) -> Result<Version, UrlError> {
        let start = self.at;
        let mut version = default;
        let written = self.until(&['@', ',', '/']);
        if self.eat('@') {
            version = match written {
                "1.0" => Version::V1_0,
                "1.1" => Version::V1_1,
                "1.2" => Version::V1_2,
                _ => return Err(UrlError::at(UrlErrorKind::Version, self.url, start)),
            };
        } else {
            self.at = start;
        }
        Ok(version)
    }

    /// `host[:port]`, up to a character that may follow an address.
    pub fn host_and_port(&mut self) -> Result<(String, Option<u16>), UrlError> {
        let host_at = self.at;
        let host = if self.eat('[') {
            let host = self.until(&[']', ',', '/']);
            if !self.eat(']') {
                return Err(self.error(UrlErrorKind::Bracket));
            }
            host
        } else {
            self.until(&[':', ',', '/', ';'])
        };
        let good = |c: char| c.is_alphanumeric() || matches!(c, '-' | '.' | '_' | ':' | '%');
        if host.is_empty() || !host.chars().all(good) {
            return Err(UrlError::at(UrlErrorKind::Host, self.url, host_at));
        }
        let port_at = self.at;
        let port = if self.eat(':') {
            // `parse` accepts a sign, a port does not.
            let digits = self.until(&[',', '/', ';']);
            let digits = Some(digits).filter(|d| d.bytes().all(|b| b.is_ascii_digit()));
            match digits.and_then(|d| d.parse().ok()) {
                Some(0) | None => return Err(UrlError::at(UrlErrorKind::Port, self.url, port_at + 1)),
                port => port,
            }
        } else {
            None
        };
        Ok((host.into(), port))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Rir => f.write_str("rir:"),
            Address::Iiop { version, host, port } => {
                write!(f, ":1.{}@", minor_version(*version))?;
                write_host(f, host, *port)
            }
            #[cfg(feature = "diop")]
            Address::Diop { version, host, port } => {
                write!(f, "diop:1.{}@", minor_version(*version))?;
                write_host(f, host, *port)
            }
            #[cfg(feature = "miop")]
            Address::Miop(group) => write!(f, "miop:{group}"),
            Address::Other { protocol, address } => write!(f, "{protocol}:{address}"),
        }
    }
}

/// `host:port`, an IPv6 address in brackets.
pub(super) fn write_host(f: &mut fmt::Formatter<'_>, host: &str, port: u16) -> fmt::Result {
    if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
}

/// Without a scheme.
impl fmt::Display for Corbaloc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, address) in self.addresses.iter().enumerate() {
            write!(f, "{}{address}", if i > 0 { "," } else { "" })?;
        }
        if self.ends_without_key() {
            return Ok(());
        }
        let bar =
            matches!(self.addresses.last(), Some(Address::Other { protocol, .. }) if protocol == "uiop");
        write!(f, "{}{}", if bar { '|' } else { '/' }, Escaped(&self.key))
    }
}
