//! Links of a federation by datagrams: to one neighbour, or to a multicast group.
//!
//! A datagram has a header of eight octets (with the number of levels and the level) and a CDR
//! body: the sender, and an event or a control message part as `IsorbEvent` defines it. Datagrams
//! may be lost, doubled or reordered. A missing event is requested again, at most once a tick for
//! each source; control messages are repeated with each tick. Nothing is authenticated: use it only
//! in trusted networks.

use super::codec::{
    read_event, read_interest, read_position, read_request, write_event, write_interest, write_position,
    write_request,
};
use super::isorb_link::isorb_event as idl;
use crate::dispatch::ThreadSetup;
use crate::federation::{
    ControlMessage, Federation, ForwardError, ForwardedEvent, Interest, LinkDown, LinkId, Transport,
};
use crate::filter::Filter;
use isorb::transport::{Interface, Multicast};
use isorb_cdr::{Decode, Decoder, Encode, Encoder, Order, Text};
use isorb_rt::priority::Priority;
use isorb_rt::sync::{Parker, PiMutex};
use isorb_rt::time::Deadline;
use isorb_scope::Region;
use socket2::{Domain, Protocol, Socket, Type};
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

const MAGIC: [u8; 4] = *b"isEv";
const VERSION: u8 = 3;
const EVENT: u8 = 1;
const INTEREST: u8 = 2;
const PULL: u8 = 3;
const HEAD: u8 = 4;
const HEADER: usize = 8;
/// The largest datagram of IPv4, in octets.
const MAX_DATAGRAM: usize = 65_507;
/// How often the receiving thread checks whether it should end.
const STOP_CHECK: Duration = Duration::from_millis(100);

/// The addresses of a link by datagrams.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UdpOptions {
    /// The address to listen at. For a group: its port with the unspecified address.
    pub listen: SocketAddr,
    /// The neighbour's address, or the group's.
    pub to: SocketAddr,
    /// For a group: the address of the interface to use.
    pub interface: Ipv4Addr,
    /// For a group: the number of routers that a datagram may pass.
    pub hops: u32,
}

impl UdpOptions {
    /// Addresses of a link to one neighbour.
    pub fn to_neighbour(listen: SocketAddr, to: SocketAddr) -> UdpOptions {
        UdpOptions { listen, to, interface: Ipv4Addr::UNSPECIFIED, hops: 1 }
    }

    /// Addresses of a link to all members of a group, on the network of the interface with this
    /// address.
    pub fn to_group(group: Ipv4Addr, port: u16, interface: Ipv4Addr) -> UdpOptions {
        UdpOptions {
            listen: (Ipv4Addr::UNSPECIFIED, port).into(),
            to: (group, port).into(),
            interface,
            hops: 1,
        }
    }
}

/// A link by datagrams. Dropping it leaves the federation and ends its threads.
pub struct UdpGateway {
    receiver: Arc<UdpReceiver>,
    address: SocketAddr,
}

/// The receiving side of a gateway.
struct UdpReceiver {
    federation: Federation,
    link: LinkId,
    socket: Arc<UdpSocket>,
    /// The neighbour's address. `None` for a group: any member may send.
    only: Option<SocketAddr>,
    rejected: AtomicU64,
    stop: AtomicBool,
    /// Wakes the threads of all levels but the most urgent.
    levels: Box<[Parker]>,
}

impl UdpGateway {
    /// Opens the socket, joins the federation and starts the threads: one receives and serves the
    /// most urgent level, one serves each other level. They have the scheduling class of the
    /// caller.
    ///
    /// # Errors
    /// The errors of the socket, the group and the threads.
    pub fn start(federation: &Federation, options: UdpOptions) -> io::Result<UdpGateway> {
        let named = |name: String, _, body| std::thread::Builder::new().name(name).spawn(body).map(drop);
        UdpGateway::start_on(federation, options, named)
    }

    /// As [`start`](Self::start), with a setup for the threads. Each has the priority at which its
    /// level begins. So a sender that floods the socket with less urgent events takes from the most
    /// urgent level only the time of receiving.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_with_threads(
        federation: &Federation,
        options: UdpOptions,
        setup: &ThreadSetup,
    ) -> io::Result<UdpGateway> {
        let threads =
            |name, priority, body| setup.spawn(name, priority, body).map(drop).map_err(io::Error::other);
        UdpGateway::start_on(federation, options, threads)
    }

    fn start_on(
        federation: &Federation,
        options: UdpOptions,
        spawn: impl Fn(String, Priority, Box<dyn FnOnce() + Send>) -> io::Result<()>,
    ) -> io::Result<UdpGateway> {
        let socket = open(&options)?;
        let address = socket.local_addr()?;
        let socket = Arc::new(socket);
        let sender = Sender {
            id: federation.id(),
            levels: federation.levels().begins().len() as u8,
            socket: socket.clone(),
            to: options.to,
            buffer: PiMutex::new(Vec::with_capacity(MAX_DATAGRAM)),
        };
        let begins = federation.levels().begins().to_vec();
        let (top, others) =
            begins.split_last().map_or((Priority::MIN, &[][..]), |(top, others)| (*top, others));
        let receiver = Arc::new(UdpReceiver {
            federation: federation.clone(),
            link: federation.join(Arc::new(sender)),
            socket,
            only: Some(options.to).filter(|to| !to.ip().is_multicast()),
            rejected: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            levels: others.iter().map(|_| Parker::new()).collect(),
        });
        // If a thread does not start, dropping this ends the others.
        let gateway = UdpGateway { receiver: receiver.clone(), address };
        for (level, begin) in others.iter().enumerate() {
            let receiver = receiver.clone();
            spawn(format!("event-udp-{level}"), *begin, Box::new(move || receiver.serve(level)))?;
        }
        spawn("event-udp".into(), top, Box::new(move || receiver.receive()))?;
        Ok(gateway)
    }

    /// The link's number.
    pub fn link(&self) -> LinkId {
        self.receiver.link
    }

    /// Datagrams from another address than the neighbour's, or from a channel with another number
    /// of levels. They are ignored.
    pub fn rejected(&self) -> u64 {
        self.receiver.rejected.load(Relaxed)
    }

    /// The address at which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for UdpGateway {
    fn drop(&mut self) {
        self.receiver.stop.store(true, Release);
        self.receiver.levels.iter().for_each(Parker::unpark);
        self.receiver.federation.leave(self.receiver.link);
    }
}

impl fmt::Debug for UdpGateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UdpGateway")
            .field("address", &self.address)
            .field("link", &self.receiver.link)
            .finish()
    }
}

fn open(options: &UdpOptions) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(options.listen), Type::DGRAM, Some(Protocol::UDP))?;
    let group = Some(options.to.ip()).filter(IpAddr::is_multicast);
    if group.is_some() {
        // Several channels of one machine may join the group.
        socket.set_reuse_address(true)?;
    }
    socket.bind(&options.listen.into())?;
    if let Some(group) = group {
        let interface = match options.interface {
            Ipv4Addr::UNSPECIFIED => Interface::Routed,
            address => Interface::Address(address),
        };
        let multicast = Multicast { interface, hops: options.hops, loopback: true };
        multicast.join(&socket, group)?;
        multicast.prepare_to_send(&socket, group)?;
    }
    socket.set_read_timeout(Some(STOP_CHECK))?;
    Ok(socket.into())
}

struct Sender {
    id: u64,
    levels: u8,
    socket: Arc<UdpSocket>,
    to: SocketAddr,
    buffer: PiMutex<Vec<u8>>,
}

impl Sender {
    /// Sends a datagram. The buffer is reused.
    fn send<'v>(&self, kind: u8, level: u8, body: impl Encode<'v>) -> Result<(), ForwardError> {
        let mut held = self.buffer.lock();
        let mut buffer = std::mem::take(&mut *held);
        buffer.clear();
        let mut e = Encoder::new(buffer, Text::DEFAULT);
        e.raw(&MAGIC);
        e.raw(&[VERSION, kind, u8::from(cfg!(target_endian = "little")) | self.levels << 1, level]);
        e.put(self.id);
        body.encode(&mut e);
        let datagram = e.flatten().map_err(|_| ForwardError::TooLarge)?;
        let sent = match datagram.len() {
            0..=MAX_DATAGRAM => self.socket.send_to(&datagram, self.to).map_err(|_| ForwardError::Down),
            _ => Err(ForwardError::TooLarge),
        };
        *held = datagram;
        sent.map(drop)
    }

    /// Sends an interest; one that is too large for a datagram as 'everything', which includes it.
    fn send_interest(&self, level: u8, interest: &Interest) -> Result<(), ForwardError> {
        match self.send(INTEREST, level, &write_interest(interest)) {
            Err(ForwardError::TooLarge) => {
                let Interest { origin, version, hops, .. } = *interest;
                let all = Interest { origin, version, hops, filters: vec![Filter::Everything] };
                self.send(INTEREST, level, &write_interest(&all))
            }
            sent => sent,
        }
    }
}

impl Transport for Sender {
    fn announce(&self, messages: &[ControlMessage]) -> Result<(), LinkDown> {
        // One datagram for each part. There are no replies, so sent means delivered. Requests and
        // positions name each channel once and always fit.
        let sent = |result| if result == Err(ForwardError::Down) { Err(LinkDown) } else { Ok(()) };
        messages.iter().try_for_each(|message| {
            let ControlMessage { level, interests, requests, positions, .. } = message;
            interests.iter().try_for_each(|one| sent(self.send_interest(*level, one)))?;
            requests.iter().try_for_each(|one| sent(self.send(PULL, *level, &write_request(one))))?;
            positions.iter().try_for_each(|one| sent(self.send(HEAD, *level, &write_position(one))))
        })
    }

    fn forward(&self, event: &ForwardedEvent<'_>) -> Result<(), ForwardError> {
        self.send(EVENT, event.level, write_event(event))
    }
}

impl UdpReceiver {
    /// Receives datagrams of all levels.
    fn receive(&self) {
        let mut room = vec![0; MAX_DATAGRAM];
        let mut region = Region::new(MAX_DATAGRAM);
        while !self.stop.load(Acquire) {
            // A time-out, or the error of an earlier datagram (its port is closed).
            let Ok((length, from)) = self.socket.recv_from(&mut room) else {
                continue;
            };
            if self.only.is_some_and(|only| only != from) {
                self.rejected.fetch_add(1, Relaxed);
                continue;
            }
            // Unknown datagrams are dropped silently: any host may send here.
            let Some(level) = self.decode_datagram(&mut room[..length], &mut region) else {
                continue;
            };
            match self.levels.get(level as usize) {
                Some(thread) => thread.unpark(),
                None => self.federation.process(level),
            }
        }
    }

    /// Serves a level.
    fn serve(&self, level: usize) {
        while !self.stop.load(Acquire) {
            self.levels[level].park_until(Deadline::NONE);
            self.federation.process(level as u8);
        }
    }

    /// Handles a datagram. Returns the level that has something to process.
    fn decode_datagram(&self, datagram: &mut [u8], region: &mut Region) -> Option<u8> {
        let federation = &self.federation;
        let (header, body) = datagram.split_at_mut_checked(HEADER)?;
        if header[..4] != MAGIC || header[4] != VERSION {
            return None;
        }
        let order = if header[6] & 1 == 1 { Order::Little } else { Order::Big };
        let (levels, level) = (header[6] >> 1, header[7]);
        let scope = region.enter();
        let mut d = Decoder::new(body, order, Text::DEFAULT, &scope);
        // A group loops back this member's own datagrams.
        let sender: u64 = d.get().ok()?;
        if sender == federation.id() {
            return None;
        }
        if usize::from(levels) != federation.levels().begins().len() {
            self.rejected.fetch_add(1, Relaxed);
            return None;
        }
        let mut message = ControlMessage { sender, level, ..ControlMessage::default() };
        match header[5] {
            EVENT => {
                let event = read_event(&idl::EventView::decode(&mut d).ok()?, level);
                federation.accept_event(self.link, &ForwardedEvent { sender, ..event });
                return Some(level);
            }
            INTEREST => {
                message.interests.push(read_interest(&idl::InterestView::decode(&mut d).ok()?).ok()?);
            }
            PULL => message.requests.push(read_request(&idl::StreamRequestView::decode(&mut d).ok()?)),
            HEAD => message.positions.push(read_position(&idl::StreamPositionView::decode(&mut d).ok()?)),
            _ => return None,
        }
        federation.accept_message(self.link, &message);
        Some(level)
    }
}
