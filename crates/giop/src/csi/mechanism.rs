//! TAG_CSI_SEC_MECH_LIST: how a client may protect its requests and authenticate itself (clause
//! 10.5.1).

use super::{bounded, bounded_count};
use crate::component::{TAG_CSI_SEC_MECH_LIST, TAG_NULL, TAG_TLS_SEC_TRANS, TaggedComponent};
use crate::cursor::Cursor;
use crate::octets::{encapsulated, put_name, put_octets};
use alloc::string::String;
use alloc::vec::Vec;
use isorb_cdr::{Encoder, Result};

/// The security mechanisms of an object, the preferred one first (`CompoundSecMechList`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecMechList {
    /// Whether the server keeps contexts between requests.
    pub stateful: bool,
    /// The mechanisms.
    pub mechanisms: Vec<CompoundSecMech>,
}

/// Layers of security that are used together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompoundSecMech {
    /// What clients must do, in any layer: [`options`](super::options).
    pub requires: u16,
    /// The transport layer.
    pub transport: TransportMech,
    /// The client authentication layer.
    pub authentication: AsContext,
    /// The security attribute layer.
    pub attributes: SasContext,
}

/// The protection by the transport.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransportMech {
    /// None (TAG_NULL_TAG).
    None,
    /// TLS (TAG_TLS_SEC_TRANS).
    Tls {
        /// Association options that the server supports.
        supports: u16,
        /// Association options that the server requires.
        requires: u16,
        /// Hosts and TCP ports.
        addresses: Vec<(String, u16)>,
    },
    /// Another one, such as SECIOP.
    Other(TaggedComponent),
}

/// Authentication of the client by a token (`AS_ContextSec`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AsContext {
    /// Association options that the server supports; 0 without this layer.
    pub supports: u16,
    /// Association options that the server requires.
    pub requires: u16,
    /// The object identifier of the mechanism, in DER.
    pub mechanism: Vec<u8>,
    /// The target for which clients authenticate, an exported name.
    pub target: Vec<u8>,
}

/// Identities and privileges that clients may send (`SAS_ContextSec`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SasContext {
    /// Association options that the server supports.
    pub supports: u16,
    /// Association options that the server requires.
    pub requires: u16,
    /// Authorities of privileges that the server takes: syntax and name.
    pub authorities: Vec<(u32, Vec<u8>)>,
    /// The object identifiers of the mechanisms of names, in DER.
    pub naming_mechanisms: Vec<Vec<u8>>,
    /// The types of identity tokens, as bits.
    pub identity_types: u32,
}

impl SecMechList {
    /// Reads the octets of the component.
    ///
    /// # Errors
    /// [`isorb_cdr::Error`] for malformed octets, and lists beyond [`MAX_LIST`](super::MAX_LIST).
    pub fn read(data: &[u8]) -> Result<SecMechList> {
        let c = &mut Cursor::encapsulation(data)?;
        let stateful = c.u8()? != 0;
        let count = bounded_count(c, 28)?;
        let mechanisms = (0..count).map(|_| CompoundSecMech::read(c)).collect::<Result<_>>()?;
        Ok(SecMechList { stateful, mechanisms })
    }

    /// The component.
    ///
    /// # Errors
    /// [`isorb_cdr::Error`] for a host with a zero octet.
    pub fn to_tagged(&self) -> Result<TaggedComponent> {
        let data = encapsulated(|e| {
            e.put(u8::from(self.stateful));
            e.count(self.mechanisms.len());
            self.mechanisms.iter().for_each(|mechanism| mechanism.write(e));
        })?;
        Ok(TaggedComponent { tag: TAG_CSI_SEC_MECH_LIST, data })
    }
}

impl CompoundSecMech {
    fn read(c: &mut Cursor<'_>) -> Result<CompoundSecMech> {
        let requires = c.u16()?;
        let transport = TransportMech::read(c.u32()?, bounded(c)?)?;
        let authentication = AsContext {
            supports: c.u16()?,
            requires: c.u16()?,
            mechanism: bounded(c)?.into(),
            target: bounded(c)?.into(),
        };
        let (supports, requires_attributes) = (c.u16()?, c.u16()?);
        let count = bounded_count(c, 8)?;
        let authorities = (0..count).map(|_| Ok((c.u32()?, bounded(c)?.into()))).collect::<Result<_>>()?;
        let count = bounded_count(c, 4)?;
        let naming_mechanisms = (0..count).map(|_| Ok(bounded(c)?.into())).collect::<Result<_>>()?;
        let attributes = SasContext {
            supports,
            requires: requires_attributes,
            authorities,
            naming_mechanisms,
            identity_types: c.u32()?,
        };
        Ok(CompoundSecMech { requires, transport, authentication, attributes })
    }

    fn write(&self, e: &mut Encoder<'_>) {
        e.put(self.requires);
        self.transport.write(e);
        let AsContext { supports, requires, mechanism, target } = &self.authentication;
        e.put(*supports);
        e.put(*requires);
        put_octets(e, mechanism);
        put_octets(e, target);
        let attributes = &self.attributes;
        e.put(attributes.supports);
        e.put(attributes.requires);
        e.count(attributes.authorities.len());
        for (syntax, name) in &attributes.authorities {
            e.put(*syntax);
            put_octets(e, name);
        }
        e.count(attributes.naming_mechanisms.len());
        attributes.naming_mechanisms.iter().for_each(|mechanism| put_octets(e, mechanism));
        e.put(attributes.identity_types);
    }
}

impl TransportMech {
    fn read(tag: u32, data: &[u8]) -> Result<TransportMech> {
        match tag {
            TAG_NULL => Ok(TransportMech::None),
            TAG_TLS_SEC_TRANS => {
                let c = &mut Cursor::encapsulation(data)?;
                let (supports, requires) = (c.u16()?, c.u16()?);
                let count = bounded_count(c, 6)?;
                let addresses = (0..count).map(|_| Ok((c.str()?.into(), c.u16()?))).collect::<Result<_>>()?;
                Ok(TransportMech::Tls { supports, requires, addresses })
            }
            _ => Ok(TransportMech::Other(TaggedComponent { tag, data: data.into() })),
        }
    }

    fn write(&self, e: &mut Encoder<'_>) {
        let (tag, data) = match self {
            TransportMech::None => (TAG_NULL, Ok(Vec::new())),
            TransportMech::Tls { supports, requires, addresses } => {
                let data = encapsulated(|e| {
                    e.put(*supports);
                    e.put(*requires);
                    e.count(addresses.len());
                    for (host, port) in addresses {
                        put_name(e, host);
                        e.put(*port);
                    }
                });
                (TAG_TLS_SEC_TRANS, data)
            }
            TransportMech::Other(other) => (other.tag, Ok(other.data.clone())),
        };
        match data {
            Ok(data) => {
                e.put(tag);
                put_octets(e, &data);
            }
            Err(error) => e.fail(error.kind),
        }
    }
}
