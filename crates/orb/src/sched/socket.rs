//! Options of a connection's socket: the properties of its protocol, and the marks of its packets.

use super::policy::{PriorityBand, Protocol, ProtocolProperties};
use crate::{Result, SystemException};
use isorb_giop::Kind;
use isorb_rt::Errno;
use isorb_rt::net;
use isorb_rt::priority::NetworkPriority;
use isorb_transport::Listener;
use std::os::fd::BorrowedFd;

/// The settings that separate the connections to one address: calls share a connection only if all
/// of these are equal.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub(crate) struct Setup {
    /// The band of its priorities, which the client announces before the first request.
    pub band: Option<PriorityBand>,
    /// The reference that owns the connections; 0 if they are shared.
    pub private: u64,
    /// The socket options, by protocol.
    pub protocols: Box<[Protocol]>,
    /// The marks of its packets.
    pub marks: Option<NetworkPriority>,
}

/// Applies the settings to the socket of a connection by the protocol with this tag, which need not
/// be connected yet.
///
/// # Errors
/// NO_RESOURCES when the system refuses an option; the sentence names it.
pub(crate) fn prepare(fd: BorrowedFd<'_>, tag: u32, setup: &Setup) -> Result<()> {
    let Some(protocol) = setup.protocols.iter().find(|protocol| protocol.tag == tag) else { return Ok(()) };
    properties(fd, &protocol.properties)?;
    setup.marks.filter(|_| protocol.properties.network_priority()).map_or(Ok(()), |marks| mark(fd, marks))
}

/// Applies the settings to a listening socket, so that the answers to clients' handshakes have
/// them. Errors need no report: each accepted connection gets the settings, too, or is refused.
pub(crate) fn prepare_listener(listener: &dyn Listener, tag: u32, setup: &Setup) {
    let _ = listener.prepare(&|fd| prepare(fd, tag, setup).map_err(std::io::Error::other));
}

/// Sets the properties of a protocol. A size of 0 leaves the system's.
///
/// # Errors
/// As [`prepare`].
pub(crate) fn properties(fd: BorrowedFd<'_>, properties: &ProtocolProperties) -> Result<()> {
    if *properties == ProtocolProperties::Default {
        return Ok(());
    }
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

/// Marks the packets of a connection, for the network and for the queues of this machine.
///
/// # Errors
/// As [`prepare`].
pub(crate) fn mark(fd: BorrowedFd<'_>, marks: NetworkPriority) -> Result<()> {
    match net::set_dscp(fd, marks.dscp) {
        // Packets that stay on the host have no code point.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::policy::TcpProperties;
    use isorb_transport::{Tcp, Transport, Unix};
    use socket2::SockRef;

    #[test]
    fn a_socket_gets_the_settings_of_its_protocol() {
        let listener = Tcp.listen("127.0.0.1:0").unwrap();
        let connect = || Tcp.connect(listener.address(), None).unwrap();
        let wanted = TcpProperties {
            send_buffer_size: 50_000,
            recv_buffer_size: 60_000,
            keep_alive: true,
            no_delay: false,
            network_priority: true,
            ..TcpProperties::default()
        };
        let setup = |properties| Setup {
            protocols: [Protocol::with_tag(77), Protocol::iiop(properties)].into(),
            marks: Some(NetworkPriority { dscp: 46, queue: 6 }),
            ..Setup::default()
        };
        let stream = connect();
        prepare(stream.fd(), 0, &setup(wanted)).unwrap();
        let fd = stream.fd();
        let socket = SockRef::from(&fd);
        assert!(socket.send_buffer_size().unwrap() >= 50_000 && socket.recv_buffer_size().unwrap() >= 60_000);
        assert_eq!((socket.keepalive().unwrap(), socket.tcp_nodelay().unwrap()), (true, false));
        assert_eq!((socket.tos_v4().unwrap(), socket.priority().unwrap()), (46 << 2, 6));
        // Marks only if the protocol asks for them.
        let stream = connect();
        prepare(stream.fd(), 0, &setup(TcpProperties { network_priority: false, ..wanted })).unwrap();
        let fd = stream.fd();
        assert_eq!(SockRef::from(&fd).tos_v4().unwrap(), 0);
        // The properties of another protocol do not apply.
        let stream = connect();
        prepare(stream.fd(), 1, &setup(wanted)).unwrap();
        let fd = stream.fd();
        assert!(!SockRef::from(&fd).keepalive().unwrap());
    }

    #[test]
    fn clients_get_the_servers_protocol_policy() {
        use crate::poa::PoaPolicies;
        use crate::rt::{ClassSelectors, ThreadpoolLane, ThreadpoolOptions};
        use crate::sched::policy::PriorityModel::ServerDeclared;
        use crate::{Config, Orb};
        use std::net::TcpStream;
        let wanted = TcpProperties { keep_alive: true, network_priority: true, ..TcpProperties::default() };
        for lanes in [true, false] {
            let orb = Orb::with_config(Config::default()).unwrap();
            orb.set_network_priority_mapping(std::sync::Arc::new(ClassSelectors));
            let root = orb.root_poa().unwrap();
            let policies = PoaPolicies::new().priority_model(ServerDeclared, 32_767);
            let policies = policies.server_protocols([Protocol::iiop(wanted)]);
            let (policies, pool) = match lanes {
                true => {
                    let lanes = [ThreadpoolLane::new(0, 1), ThreadpoolLane::new(32_767, 1)];
                    let options = ThreadpoolOptions::default();
                    let pool = orb.rt().create_threadpool_with_lanes(&lanes, &options).unwrap();
                    (policies.threadpool(pool), Some(pool))
                }
                false => (policies, None),
            };
            root.create_poa("marked", None, policies).unwrap();
            let doors = match pool {
                Some(pool) => {
                    let status = orb.rt().threadpool_status(pool).unwrap();
                    status
                        .into_iter()
                        .map(|lane| (lane.address, if lane.lane_priority == 0 { 0 } else { 46 }))
                        .collect()
                }
                None => vec![(orb.endpoint_addresses().remove(0), 46)],
            };
            for ((host, port), dscp) in doors {
                let client = TcpStream::connect((host.as_str(), port)).unwrap();
                let me = client.local_addr().unwrap().to_string();
                let accepted = loop {
                    let all = orb.accepted().all();
                    match all.into_iter().find(|connection| connection.peer().contains(&me)) {
                        Some(connection) => break connection,
                        None => std::thread::yield_now(),
                    }
                };
                let fd = accepted.stream().fd();
                let socket = SockRef::from(&fd);
                assert_eq!(
                    (socket.keepalive().unwrap(), socket.tos_v4().unwrap()),
                    (true, dscp << 2),
                    "{port}"
                );
            }
            orb.shutdown(true).unwrap();
        }
    }

    #[test]
    fn what_leaves_no_host_has_no_code_point() {
        let listener = Unix::default().listen("").unwrap();
        let stream = Unix::default().connect(listener.address(), None).unwrap();
        mark(stream.fd(), NetworkPriority { dscp: 46, queue: 5 }).unwrap();
        let fd = stream.fd();
        assert_eq!(SockRef::from(&fd).priority().unwrap(), 5);
    }
}
