//! Protocols and their properties (RT-CORBA 1.2, protocol configuration).
//!
//! The standard defines the properties of TCP, unix sockets, shared memory and UDP as interfaces.
//! On the wire a protocol is its profile tag, the properties of the ORB protocol (GIOP has none),
//! then those of the transport in the order of their attributes. Marking packets concerns one side
//! only and does not travel; no property of UDP does.

use crate::cursor::Cursor;
use crate::octets::put_name;
use crate::profile::{TAG_INTERNET_IOP, TAG_TAO_DIOP, TAG_TAO_SCIOP, TAG_TAO_SHMIOP, TAG_TAO_UIOP};
use alloc::string::String;
use alloc::vec::Vec;
use isorb_cdr::{Encoder, ErrorKind, Result};

/// A protocol: the tag of its profiles, and the properties of its transport.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Protocol {
    /// The tag of the profiles with its addresses ([`crate::profile`]).
    pub tag: u32,
    /// The properties of its transport.
    pub properties: ProtocolProperties,
}

/// Properties of a transport. Sizes of 0 leave the choice to the system.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum ProtocolProperties {
    /// None, for the transport's defaults.
    #[default]
    Default,
    /// TCP.
    Tcp(TcpProperties),
    /// Unix sockets.
    Unix(UnixProperties),
    /// Shared memory.
    SharedMemory(SharedMemoryProperties),
    /// UDP.
    Udp(UdpProperties),
}

/// `RTCORBA::TCPProtocolProperties`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TcpProperties {
    /// Size of the socket's send buffer in bytes (`SO_SNDBUF`).
    pub send_buffer_size: u32,
    /// Size of the socket's receive buffer in bytes (`SO_RCVBUF`).
    pub recv_buffer_size: u32,
    /// Probes an idle peer from time to time (`SO_KEEPALIVE`).
    pub keep_alive: bool,
    /// Reaches hosts of the attached networks only (`SO_DONTROUTE`).
    pub dont_route: bool,
    /// Sends small segments at once (`TCP_NODELAY`).
    pub no_delay: bool,
    /// Marks the packets according to the CORBA priority.
    pub network_priority: bool,
}

impl Default for TcpProperties {
    /// Sizes left to the system, small segments sent at once, nothing else.
    fn default() -> TcpProperties {
        TcpProperties {
            send_buffer_size: 0,
            recv_buffer_size: 0,
            keep_alive: false,
            dont_route: false,
            no_delay: true,
            network_priority: false,
        }
    }
}

/// `RTCORBA::UnixDomainProtocolProperties`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct UnixProperties {
    /// Size of the socket's send buffer in bytes.
    pub send_buffer_size: u32,
    /// Size of the socket's receive buffer in bytes.
    pub recv_buffer_size: u32,
}

/// `RTCORBA::SharedMemoryProtocolProperties`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct SharedMemoryProperties {
    /// Size of the send buffer in bytes.
    pub send_buffer_size: u32,
    /// Size of the receive buffer in bytes.
    pub recv_buffer_size: u32,
    /// As TCP's; for shared memory with a socket beside it.
    pub keep_alive: bool,
    /// As TCP's.
    pub dont_route: bool,
    /// As TCP's.
    pub no_delay: bool,
    /// Preallocated memory in bytes.
    pub preallocate_buffer_size: u32,
    /// The mapped file; empty for anonymous memory.
    pub mmap_filename: String,
    /// Lock of the mapped file; empty for none.
    pub mmap_lockname: String,
}

/// `RTCORBA::UserDatagramProtocolProperties`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct UdpProperties {
    /// Size of the socket's send buffer in bytes.
    pub send_buffer_size: u32,
    /// Size of the socket's receive buffer in bytes.
    pub recv_buffer_size: u32,
    /// Marks the packets according to the CORBA priority.
    pub network_priority: bool,
}

impl Protocol {
    /// IIOP, with the properties of its connections.
    pub const fn iiop(properties: TcpProperties) -> Protocol {
        Protocol { tag: TAG_INTERNET_IOP, properties: ProtocolProperties::Tcp(properties) }
    }

    /// Unix sockets.
    pub const fn unix(properties: UnixProperties) -> Protocol {
        Protocol { tag: TAG_TAO_UIOP, properties: ProtocolProperties::Unix(properties) }
    }

    /// UDP.
    pub const fn udp(properties: UdpProperties) -> Protocol {
        Protocol { tag: TAG_TAO_DIOP, properties: ProtocolProperties::Udp(properties) }
    }

    /// A protocol with the defaults of its transport.
    pub const fn with_tag(tag: u32) -> Protocol {
        Protocol { tag, properties: ProtocolProperties::Default }
    }
}

impl ProtocolProperties {
    /// Sizes of the send and receive buffers in bytes, 0 for the system's choice.
    pub const fn buffer_sizes(&self) -> (u32, u32) {
        match self {
            ProtocolProperties::Default => (0, 0),
            ProtocolProperties::Tcp(p) => (p.send_buffer_size, p.recv_buffer_size),
            ProtocolProperties::Unix(p) => (p.send_buffer_size, p.recv_buffer_size),
            ProtocolProperties::SharedMemory(p) => (p.send_buffer_size, p.recv_buffer_size),
            ProtocolProperties::Udp(p) => (p.send_buffer_size, p.recv_buffer_size),
        }
    }

    /// Whether packets are marked according to the CORBA priority.
    pub const fn network_priority(&self) -> bool {
        match self {
            ProtocolProperties::Tcp(p) => p.network_priority,
            ProtocolProperties::Udp(p) => p.network_priority,
            _ => false,
        }
    }
}

/// Writes a `ProtocolList`. A transport without attributes has nothing behind its tag.
pub(super) fn write(protocols: &[Protocol], e: &mut Encoder<'_>) {
    e.count(protocols.len());
    for protocol in protocols {
        e.put(protocol.tag);
        // The layout follows from the tag alone, because a reader knows nothing else.
        match protocol.tag {
            TAG_INTERNET_IOP | TAG_TAO_SCIOP => {
                let p = match protocol.properties {
                    ProtocolProperties::Tcp(p) => p,
                    _ => TcpProperties::default(),
                };
                e.put(p.send_buffer_size);
                e.put(p.recv_buffer_size);
                e.raw(&[u8::from(p.keep_alive), u8::from(p.dont_route), u8::from(p.no_delay)]);
            }
            TAG_TAO_UIOP => {
                let (send, recv) = protocol.properties.buffer_sizes();
                e.put(send);
                e.put(recv);
            }
            TAG_TAO_SHMIOP => {
                let default = SharedMemoryProperties::default();
                let p = match &protocol.properties {
                    ProtocolProperties::SharedMemory(p) => p,
                    _ => &default,
                };
                e.put(p.send_buffer_size);
                e.put(p.recv_buffer_size);
                e.raw(&[u8::from(p.keep_alive), u8::from(p.dont_route), u8::from(p.no_delay)]);
                e.put(p.preallocate_buffer_size);
                put_name(e, &p.mmap_filename);
                put_name(e, &p.mmap_lockname);
            }
            _ => {}
        }
    }
}

/// Reads a `ProtocolList`.
pub(super) fn read(c: &mut Cursor<'_>) -> Result<Vec<Protocol>> {
    let n = c.count(4)?;
    (0..n).map(|_| read_one(c)).collect()
}

fn read_one(c: &mut Cursor<'_>) -> Result<Protocol> {
    let tag = c.u32()?;
    let properties = match tag {
        // TAO's SCTP has the attributes of TCP; nothing here uses them.
        TAG_INTERNET_IOP | TAG_TAO_SCIOP => ProtocolProperties::Tcp(TcpProperties {
            send_buffer_size: c.u32()?,
            recv_buffer_size: c.u32()?,
            keep_alive: flag(c)?,
            dont_route: flag(c)?,
            no_delay: flag(c)?,
            network_priority: false,
        }),
        TAG_TAO_UIOP => ProtocolProperties::Unix(UnixProperties {
            send_buffer_size: c.u32()?,
            recv_buffer_size: c.u32()?,
        }),
        TAG_TAO_SHMIOP => ProtocolProperties::SharedMemory(SharedMemoryProperties {
            send_buffer_size: c.u32()?,
            recv_buffer_size: c.u32()?,
            keep_alive: flag(c)?,
            dont_route: flag(c)?,
            no_delay: flag(c)?,
            preallocate_buffer_size: c.u32()?,
            mmap_filename: c.str()?.into(),
            mmap_lockname: c.str()?.into(),
        }),
        _ => ProtocolProperties::Default,
    };
    Ok(Protocol { tag, properties })
}

fn flag(c: &mut Cursor<'_>) -> Result<bool> {
    match c.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(c.error(ErrorKind::Value)),
    }
}
