//! What a connection's socket is told: the properties of its protocol, and the marks of its packets.

use super::plan::Setup;
use super::policy::ProtocolProperties;
use crate::{Result, SystemException};
use isorb_giop::Kind;
use isorb_rt::Errno;
use isorb_rt::net;
use isorb_rt::priority::NetworkPriority;
use isorb_transport::Stream;

/// Tells a new connection by the protocol with this tag what its setup says.
///
/// # Errors
/// NO_RESOURCES when the system refuses something; the sentence says what.
pub(crate) fn prepare(stream: &dyn Stream, tag: u32, setup: &Setup) -> Result<()> {
    let Some(protocol) = setup.protocols.iter().find(|protocol| protocol.tag == tag) else { return Ok(()) };
    properties(stream, &protocol.properties)?;
    setup.marks.filter(|_| protocol.properties.network_priority()).map_or(Ok(()), |marks| mark(stream, marks))
}

/// Sets the properties of a protocol. Sizes of 0 stay the system's.
///
/// # Errors
/// As [`prepare`].
pub(crate) fn properties(stream: &dyn Stream, properties: &ProtocolProperties) -> Result<()> {
    if *properties == ProtocolProperties::Default {
        return Ok(());
    }
    let fd = stream.fd();
    let (send, recv) = properties.buffer_sizes();
    if send > 0 {
        net::set_send_buffer(fd, send as usize).map_err(refused("the size of the send buffer"))?;
    }
    if recv > 0 {
        net::set_recv_buffer(fd, recv as usize).map_err(refused("the size of the receive buffer"))?;
    }
    if let ProtocolProperties::Tcp(tcp) = properties {
        net::set_nodelay(fd, tcp.no_delay).map_err(refused("TCP_NODELAY"))?;
        net::set_keepalive(fd, tcp.keep_alive).map_err(refused("SO_KEEPALIVE"))?;
        net::set_dontroute(fd, tcp.dont_route).map_err(refused("SO_DONTROUTE"))?;
    }
    Ok(())
}

/// Marks the packets of a connection, for the network and for this machine's queues.
///
/// # Errors
/// As [`prepare`].
pub(crate) fn mark(stream: &dyn Stream, marks: NetworkPriority) -> Result<()> {
    let fd = stream.fd();
    match net::set_dscp(fd, marks.dscp) {
        // What leaves no host has no code point.
        Ok(()) | Err(Errno::OPNOTSUPP) => {}
        Err(error) => return Err(refused("the code point of its packets")(error)),
    }
    // After the code point, which sets it too.
    net::set_priority(fd, marks.queue.into()).map_err(refused("the queue priority of its packets"))
}

fn refused(what: &'static str) -> impl Fn(Errno) -> SystemException {
    move |error| {
        SystemException::from(Kind::NoResources)
            .detail(format!("the system does not let a connection have {what} as its policies say: {error}"))
    }
}
