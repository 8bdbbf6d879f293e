//! `miop:` addresses: a group, its multicast address, and the object for two-way requests.

use super::corbaloc::{Reader, write_host};
use super::{Address, Corbaloc, UrlError, UrlErrorKind};
use crate::TaggedProfile;
use crate::component::TaggedComponent;
use crate::header::minor_version;
use crate::miop::{Group, TAG_GROUP_IIOP, UipmcProfile};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec;
use core::fmt;
use core::net::IpAddr;
use isorb_cdr::Version;

/// `[1.0@]1.0-domain-number[-reference version]/address:port[;iiop:host:port/key]`, as part 2,
/// clause 11 has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupAddress {
    /// The written version, else 1.0.
    pub version: Version,
    /// The object group.
    pub group: Group,
    /// Address of the IP multicast group.
    pub address: IpAddr,
    /// UDP port.
    pub port: u16,
    /// An IIOP object for two-way requests to the group.
    pub answering: Option<Box<Corbaloc>>,
}

impl GroupAddress {
    /// The profile; `None` for a group that cannot be written.
    pub(super) fn profile(&self) -> Option<TaggedProfile> {
        let mut components = vec![self.group.to_tagged().ok()?];
        let answering = self.answering.as_ref().and_then(|answering| answering.to_ior());
        if let Some(first) = answering.and_then(|ior| ior.profiles.into_iter().next()) {
            components.push(TaggedComponent { tag: TAG_GROUP_IIOP, data: first.data });
        }
        let address = alloc::format!("{}", self.address);
        UipmcProfile { version: self.version, address, port: self.port, components }.to_tagged().ok()
    }
}

impl Reader<'_> {
    /// The text behind `miop:`.
    pub(super) fn miop(&mut self) -> Result<GroupAddress, UrlError> {
        let version = self.version(Version::V1_0)?;
        let group = self.group()?;
        let at = self.at;
        let (host, port) = self.host_and_port()?;
        let address = host.parse::<IpAddr>().ok().filter(IpAddr::is_multicast);
        let (Some(address), Some(port)) = (address, port) else {
            return Err(UrlError::at(UrlErrorKind::Multicast, self.url, at));
        };
        let answering = if self.eat(';') { Some(Box::new(self.answering()?)) } else { None };
        if !matches!(self.rest().chars().next(), None | Some(',' | '/')) {
            return Err(self.error(UrlErrorKind::Host));
        }
        Ok(GroupAddress { version, group, address, port, answering })
    }

    /// `1.0-domain-number[-reference version]/`.
    fn group(&mut self) -> Result<Group, UrlError> {
        let start = self.at;
        let text = self.until(&['/', ',', ';']);
        let group = group(text).filter(|_| self.eat('/'));
        group.ok_or_else(|| UrlError::at(UrlErrorKind::Group, self.url, start))
    }

    /// The rest: an IIOP address and a key.
    fn answering(&mut self) -> Result<Corbaloc, UrlError> {
        let start = self.at;
        let answering = Corbaloc::parse(self.url, start)?;
        match *answering.addresses {
            [Address::Iiop { .. }] if !answering.key.is_empty() => {
                self.at = self.url.len();
                Ok(answering)
            }
            _ => Err(UrlError::at(UrlErrorKind::Answering, self.url, start)),
        }
    }
}

fn group(text: &str) -> Option<Group> {
    let mut parts = text.split('-');
    let mut part = || parts.next().filter(|part| !part.is_empty());
    part().filter(|version| *version == "1.0")?;
    let domain: String = part()?.into();
    if !domain.chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | '_' | ':')) {
        return None;
    }
    let id = number(part()?)?;
    let ref_version = match parts.next() {
        Some(version) => u32::try_from(number(version)?).ok()?,
        None => 0,
    };
    parts.next().is_none().then_some(Group { domain, id, ref_version })
}

/// Digits only: `parse` would accept a sign.
fn number(digits: &str) -> Option<u64> {
    digits.bytes().all(|octet| octet.is_ascii_digit()).then(|| digits.parse().ok())?
}

/// Without `miop:`.
impl fmt::Display for GroupAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Group { domain, id, ref_version } = &self.group;
        write!(f, "1.{}@1.0-{domain}-{id}", minor_version(self.version))?;
        if *ref_version != 0 {
            write!(f, "-{ref_version}")?;
        }
        f.write_str("/")?;
        write_host(f, &alloc::format!("{}", self.address), self.port)?;
        match &self.answering {
            Some(answering) => write!(f, ";{answering}"),
            None => Ok(()),
        }
    }
}
