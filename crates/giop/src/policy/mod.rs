//! Real-Time CORBA policies as values and as octets (RT-CORBA 1.2; CORBA 3.3 part 2,
//! clause 7.6.6.5 for the component that carries them).
//!
//! A policy is made without checks and [checked](RtPolicy::check) where it is used, as the standard
//! has it: a POA rejects it with InvalidPolicy, a client's override with INV_POLICY. A policy from
//! the wire is checked when it is read.

mod protocol;

pub use protocol::{
    Protocol, ProtocolProperties, SharedMemoryProperties, TcpProperties, UdpProperties, UnixProperties,
};

use crate::component::{Component, PolicyValue, TAG_POLICIES, TaggedComponent};
use crate::context::PriorityRange;
use crate::cursor::Cursor;
use crate::octets::encapsulated;
use alloc::vec::Vec;
use core::fmt;
use isorb_cdr::{ErrorKind, Result};

/// PRIORITY_MODEL_POLICY_TYPE.
pub const PRIORITY_MODEL: u32 = 40;
/// THREADPOOL_POLICY_TYPE.
pub const THREAD_POOL: u32 = 41;
/// SERVER_PROTOCOL_POLICY_TYPE.
pub const SERVER_PROTOCOL: u32 = 42;
/// CLIENT_PROTOCOL_POLICY_TYPE.
pub const CLIENT_PROTOCOL: u32 = 43;
/// PRIVATE_CONNECTION_POLICY_TYPE.
pub const PRIVATE_CONNECTION: u32 = 44;
/// PRIORITY_BANDED_CONNECTION_POLICY_TYPE.
pub const PRIORITY_BANDED_CONNECTION: u32 = 45;

/// The standard's name of a policy type; `None` when it is not known here.
pub fn type_name(policy_type: u32) -> Option<&'static str> {
    Some(match policy_type {
        PRIORITY_MODEL => "PriorityModelPolicy",
        THREAD_POOL => "ThreadpoolPolicy",
        SERVER_PROTOCOL => "ServerProtocolPolicy",
        CLIENT_PROTOCOL => "ClientProtocolPolicy",
        PRIVATE_CONNECTION => "PrivateConnectionPolicy",
        PRIORITY_BANDED_CONNECTION => "PriorityBandedConnectionPolicy",
        _ => return None,
    })
}

/// The side that decides the priority of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PriorityModel {
    /// The client; its priority travels with each request and comes back with the reply.
    ClientPropagated,
    /// The server.
    ServerDeclared,
}

/// The priority model policy: the model, and the server's priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PriorityModelPolicy {
    /// The deciding side.
    pub model: PriorityModel,
    /// In the server-declared model the priority of the object; else that of requests without a
    /// client's priority.
    pub server_priority: i16,
}

/// A Real-Time CORBA policy.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RtPolicy {
    /// The side that decides the priority of requests.
    PriorityModel(PriorityModelPolicy),
    /// The id of the thread pool that serves a POA.
    ThreadPool(u32),
    /// Protocols of a POA's objects, the preferred one first.
    ServerProtocol(Vec<Protocol>),
    /// Protocols that a client uses, the preferred one first.
    ClientProtocol(Vec<Protocol>),
    /// A connection for one object reference alone.
    PrivateConnection,
    /// One connection for each priority band.
    PriorityBands(Vec<PriorityRange>),
}

/// The reason why a policy is invalid everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PolicyError {
    /// A server priority below 0.
    NegativePriority,
    /// An empty list of bands.
    NoBands,
    /// A band that begins below 0.
    NegativeBand,
    /// A band that ends before it begins.
    EmptyBand,
    /// An empty list of protocols.
    NoProtocols,
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PolicyError::NegativePriority => "the server priority is below 0",
            PolicyError::NoBands => "the list of priority bands is empty",
            PolicyError::NegativeBand => "a priority band begins below 0",
            PolicyError::EmptyBand => "a priority band ends before it begins",
            PolicyError::NoProtocols => "the list of protocols is empty",
        })
    }
}

impl core::error::Error for PolicyError {}

impl RtPolicy {
    /// Its policy type, 40 to 45.
    pub const fn policy_type(&self) -> u32 {
        match self {
            RtPolicy::PriorityModel(_) => PRIORITY_MODEL,
            RtPolicy::ThreadPool(_) => THREAD_POOL,
            RtPolicy::ServerProtocol(_) => SERVER_PROTOCOL,
            RtPolicy::ClientProtocol(_) => CLIENT_PROTOCOL,
            RtPolicy::PrivateConnection => PRIVATE_CONNECTION,
            RtPolicy::PriorityBands(_) => PRIORITY_BANDED_CONNECTION,
        }
    }

    /// Whether references carry it to the client: the priority model, the client's protocols and
    /// the bands are carried.
    pub const fn is_client_exposed(&self) -> bool {
        matches!(self.policy_type(), PRIORITY_MODEL | CLIENT_PROTOCOL | PRIORITY_BANDED_CONNECTION)
    }

    /// Whether a client may override it; overriding another type is NO_PERMISSION.
    pub const fn is_client_override(&self) -> bool {
        matches!(self.policy_type(), CLIENT_PROTOCOL | PRIVATE_CONNECTION | PRIORITY_BANDED_CONNECTION)
    }

    /// Checks the policy by itself.
    ///
    /// # Errors
    /// [`PolicyError`].
    pub fn check(&self) -> Result<(), PolicyError> {
        match self {
            RtPolicy::PriorityModel(policy) if policy.server_priority < 0 => {
                Err(PolicyError::NegativePriority)
            }
            RtPolicy::ServerProtocol(protocols) | RtPolicy::ClientProtocol(protocols)
                if protocols.is_empty() =>
            {
                Err(PolicyError::NoProtocols)
            }
            RtPolicy::PriorityBands(bands) => check_bands(bands),
            _ => Ok(()),
        }
    }

    /// The policy as references carry it: an encapsulation.
    ///
    /// # Errors
    /// [`isorb_cdr::Error`] for a file name with a zero character in it.
    pub fn to_value(&self) -> Result<PolicyValue> {
        let value = encapsulated(|e| match self {
            RtPolicy::PriorityModel(policy) => {
                e.put(policy.model as u32);
                e.put(policy.server_priority);
            }
            RtPolicy::ThreadPool(id) => e.put(*id),
            RtPolicy::ServerProtocol(protocols) | RtPolicy::ClientProtocol(protocols) => {
                protocol::write(protocols, e);
            }
            RtPolicy::PrivateConnection => {}
            RtPolicy::PriorityBands(bands) => {
                e.count(bands.len());
                for band in bands {
                    e.put(band.low);
                    e.put(band.high);
                }
            }
        })?;
        Ok(PolicyValue { policy_type: self.policy_type(), value })
    }

    /// Reads a policy; `None` for one of another type.
    ///
    /// # Errors
    /// [`isorb_cdr::Error`] for malformed octets; [`ErrorKind::Value`] for a policy that is
    /// [invalid](RtPolicy::check).
    pub fn parse(policy: &PolicyValue) -> Result<Option<RtPolicy>> {
        if type_name(policy.policy_type).is_none() {
            return Ok(None);
        }
        let c = &mut Cursor::encapsulation(&policy.value)?;
        let read = match policy.policy_type {
            PRIORITY_MODEL => RtPolicy::PriorityModel(PriorityModelPolicy {
                model: match c.u32()? {
                    0 => PriorityModel::ClientPropagated,
                    1 => PriorityModel::ServerDeclared,
                    _ => return Err(c.error(ErrorKind::Value)),
                },
                server_priority: c.u16()?.cast_signed(),
            }),
            THREAD_POOL => RtPolicy::ThreadPool(c.u32()?),
            SERVER_PROTOCOL => RtPolicy::ServerProtocol(protocol::read(c)?),
            CLIENT_PROTOCOL => RtPolicy::ClientProtocol(protocol::read(c)?),
            PRIVATE_CONNECTION => RtPolicy::PrivateConnection,
            _ => {
                let n = c.count(4)?;
                let band = |c: &mut Cursor<'_>| {
                    Ok(PriorityRange { low: c.u16()?.cast_signed(), high: c.u16()?.cast_signed() })
                };
                RtPolicy::PriorityBands((0..n).map(|_| band(c)).collect::<Result<_>>()?)
            }
        };
        read.check().map_err(|_| c.error(ErrorKind::Value))?;
        Ok(Some(read))
    }
}

fn check_bands(bands: &[PriorityRange]) -> Result<(), PolicyError> {
    if bands.is_empty() {
        return Err(PolicyError::NoBands);
    }
    for band in bands {
        if band.low < 0 {
            return Err(PolicyError::NegativeBand);
        }
        if band.low > band.high {
            return Err(PolicyError::EmptyBand);
        }
    }
    Ok(())
}

/// The component with those of a server's policies that concern clients; `None` when none does.
///
/// # Errors
/// As [`RtPolicy::to_value`].
pub fn to_component(policies: &[RtPolicy]) -> Result<Option<TaggedComponent>> {
    let exposed = policies.iter().filter(|policy| policy.is_client_exposed());
    let values = exposed.map(RtPolicy::to_value).collect::<Result<Vec<_>>>()?;
    if values.is_empty() { Ok(None) } else { Component::Policies(values).to_tagged().map(Some) }
}

/// The Real-Time CORBA policies in a profile's components, without those of other types.
///
/// # Errors
/// [`isorb_cdr::Error`] for a component or a policy that is malformed.
pub fn from_components(components: &[TaggedComponent]) -> Result<Vec<RtPolicy>> {
    let mut policies = Vec::new();
    for component in components.iter().filter(|component| component.tag == TAG_POLICIES) {
        if let Component::Policies(values) = Component::parse(component)? {
            for value in &values {
                policies.extend(RtPolicy::parse(value)?);
            }
        }
    }
    Ok(policies)
}

#[cfg(test)]
mod tests;
