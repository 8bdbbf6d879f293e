//! Memory segments of another host: a transport of isorb over libfabric.
//!
//! It is the transport `segment` with another medium. Each side owns a segment in which it
//! receives; the peer writes there by RDMA, and says by a short message how far it has written and
//! read. With InfiniBand, RoCE or iWARP the network card writes, and no system call is on the path
//! of the octets. libfabric's provider `tcp` does the same over sockets: it works everywhere,
//! between virtual machines too, and is slower than TCP itself.
//!
//! ```text
//!   stream       of isorb-transport: waits, time-outs, back-pressure
//!   remote       the peer's segment, for the ring          PeerSegment, Join
//!   connection   what goes to the peer, and when
//!   hello        what the two sides tell each other
//!   device       one thread for the events of all connections
//!   ffi          libfabric                                     the only unsafe code
//! ```
//!
//! It is for a network in which everybody may be trusted: libfabric neither encrypts nor
//! authenticates. A peer that breaks the protocol loses its connection.
//!
//! ```no_run
//! use isorb_fabric::Fabric;
//! use isorb_transport::Transport;
//!
//! let listener = Fabric::default().listen("10.0.0.1:0")?;
//! println!("{}", listener.address());
//! # Ok::<(), std::io::Error>(())
//! ```
#![deny(unsafe_code)]

mod connection;
mod device;
#[allow(unsafe_code)]
mod ffi;
mod hello;
#[cfg(test)]
mod hostile_tests;
mod listener;
mod remote;

use device::DeviceHandle;
use ffi::Info;
use isorb_rt::net::{Interest, wait_ready};
use isorb_rt::sync::PiMutex;
use isorb_rt::time::Deadline;
use isorb_transport::segment::SegmentStream;
use isorb_transport::{Capabilities, Listener, Spin, Stream, Transport, Wait};
use listener::FabricListener;
use remote::Joining;
use std::io;
use std::net::ToSocketAddrs;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Profile tag of GIOP over libfabric ("ISO\x03").
pub const TAG_FABRIC: u32 = 0x4953_4f03;

/// Memory segments of other hosts. Addresses are those of TCP: `host:port`, `[v6]:port`.
#[derive(Clone, Debug)]
pub struct Fabric {
    /// libfabric's provider: `tcp` for sockets, `verbs` for RDMA hardware. `fi_info -t FI_EP_MSG`
    /// lists what a machine has.
    pub provider: String,
    /// Octets of a connection's receive segment, rounded up to a power of two from 4 KiB to 1 GiB.
    /// A peer's segment may be as long, or up to 1 MiB.
    pub bytes: usize,
    /// How long a waiting thread, and the device's, spins before it sleeps.
    pub spin: Spin,
}

impl Default for Fabric {
    /// The provider `tcp`; 64 KiB; as long as a wake-up costs.
    fn default() -> Fabric {
        Fabric { provider: "tcp".into(), bytes: 64 << 10, spin: Spin::default() }
    }
}

/// How long the device's thread spins where the limit is left to the machine.
const DEVICE_SPIN: Duration = Duration::from_micros(20);

/// The open devices of the process, by what they were opened with.
static DEVICES: PiMutex<Vec<(String, Weak<DeviceHandle>)>> = PiMutex::new(Vec::new());

impl Fabric {
    fn segment(&self) -> usize {
        self.bytes.clamp(4 << 10, 1 << 30).next_power_of_two()
    }

    fn most(&self) -> usize {
        self.segment().max(1 << 20)
    }

    /// The device of `info`, opened if it is not open yet.
    fn device(&self, info: &Info) -> io::Result<Arc<DeviceHandle>> {
        // The child of a fork has the parent's memory but not its threads.
        let process = std::process::id();
        let name = format!("{process} {} {:?} {}", self.provider, self.spin, info.device_name());
        let mut devices = DEVICES.lock();
        devices.retain(|(_, device)| device.strong_count() > 0);
        if let Some(open) = devices.iter().find(|(n, _)| *n == name).and_then(|(_, device)| device.upgrade())
        {
            return Ok(open);
        }
        let spin = if self.spin.spins() { self.spin.limit.unwrap_or(DEVICE_SPIN) } else { Duration::ZERO };
        let opened = DeviceHandle::open(info, spin)?;
        devices.push((name, Arc::downgrade(&opened)));
        Ok(opened)
    }

    fn stream(&self, joining: Joining, socket: OwnedFd, peer: String) -> SegmentStream<Joining> {
        SegmentStream::new(Arc::new(socket), joining, self.spin, peer)
    }

    fn connect_to(
        &self,
        host: &str,
        port: &str,
        peer: String,
        deadline: Deadline,
    ) -> io::Result<Box<dyn Stream>> {
        let info = Info::find(&self.provider, host, port, false)?;
        let device = self.device(&info)?;
        let (connection, socket) =
            device.open_connection(&info, self.segment(), self.most(), None, |endpoint, hello| {
                endpoint.connect(&info, hello)
            })?;
        let stream = self.stream(Joining(connection), socket, peer);
        if !wait_ready(stream.fd(), Interest::READ, deadline)? {
            return Err(io::ErrorKind::TimedOut.into());
        }
        // Joins the segments; there is no room for an octet.
        match stream.recv(&mut [], Wait::No) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
            _ => {}
        }
        match stream.send(&[], Wait::No) {
            Err(error) if error.kind() == io::ErrorKind::NotConnected => {
                Err(io::ErrorKind::ConnectionReset.into())
            }
            _ => Ok(Box::new(stream)),
        }
    }
}

/// Host and port of an address.
fn host_and_port(address: &str) -> io::Result<(&str, &str)> {
    let (host, port) = address.rsplit_once(':').ok_or_else(|| {
        let sentence = format!("{address}: a fabric address is host:port or [v6]:port");
        io::Error::new(io::ErrorKind::InvalidInput, sentence)
    })?;
    Ok((host.trim_start_matches('[').trim_end_matches(']'), port))
}

impl Transport for Fabric {
    fn name(&self) -> &'static str {
        "fabric"
    }

    fn profile_tag(&self) -> u32 {
        TAG_FABRIC
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            reliable: true,
            pollable: true,
            crosses_hosts: true,
            notices_death: true,
            multicast: false,
        }
    }

    fn connect(&self, address: &str, timeout: Option<Duration>) -> io::Result<Box<dyn Stream>> {
        host_and_port(address)?;
        let deadline = Deadline::after_opt(timeout);
        let mut last = io::ErrorKind::AddrNotAvailable.into();
        for resolved in address.to_socket_addrs()? {
            let (host, port) = (resolved.ip().to_string(), resolved.port().to_string());
            match self.connect_to(&host, &port, format!("fabric:{address}"), deadline) {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn listen(&self, address: &str) -> io::Result<Box<dyn Listener>> {
        let (host, port) = host_and_port(address)?;
        let info = Info::find(&self.provider, host, port, true)?;
        let device = self.device(&info)?;
        Ok(Box::new(FabricListener::open(self.clone(), device, &info, address)?))
    }
}
