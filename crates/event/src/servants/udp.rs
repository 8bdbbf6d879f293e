//! Links of a federation by datagrams: to one neighbour, or to a multicast group.
//!
//! A datagram has a header of eight octets (with the number of levels and the level) and a CDR
//! body: the sender, and an event or a control message part as `IsorbEvent` defines it. Datagrams
//! may be lost, doubled or reordered. A missing event is requested again, at most once a tick for
//! each source; control messages are repeated with each tick.
//!
//! With a key ([`Security::Key`]) a counter and a proof follow the body. A datagram without them,
//! with a wrong proof, or with a counter that was received before is counted and ignored.

use super::codec::{
    read_event, read_interest, read_position, read_request, write_event, write_interest, write_position,
    write_request,
};
use super::isorb_link::isorb_event as idl;
use crate::dispatch::ThreadSetup;
use crate::federation::{
    ControlMessage, Federation, ForwardError, ForwardedEvent, Interest, LevelMarks, LinkDown, LinkId,
    MemberKey, PROOF, Security, Transport,
};
use crate::filter::Filter;
use crate::servants::replay::ReplayGuard;
use isorb::transport::{Interface, Multicast};
use isorb_cdr::{Decode, Decoder, Encode, Encoder, Order, Text};
use isorb_rt::net;
use isorb_rt::priority::{NetworkPriority, Priority};
use isorb_rt::sched::ThreadSpec;
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
const VERSION: u8 = 4;
const HEADER: usize = 8;
/// In the octet of the kind: a counter and a proof follow the body.
const PROVEN: u8 = 0x80;
/// The largest datagram of IPv4, in octets.
const MAX_DATAGRAM: usize = 65_507;
/// How often the receiving thread checks whether it should end.
const STOP_CHECK: Duration = Duration::from_millis(100);

/// What a datagram carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum DatagramKind {
    Event = 1,
    Interest = 2,
    Request = 3,
    Position = 4,
}

impl DatagramKind {
    fn of(octet: u8) -> Option<DatagramKind> {
        use DatagramKind::{Event, Interest, Position, Request};
        [Event, Interest, Request, Position].into_iter().find(|kind| *kind as u8 == octet & !PROVEN)
    }
}

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
    /// Marks datagrams by their level ([`LevelMarks`]).
    pub marked: bool,
}

impl UdpOptions {
    /// Addresses of a link to one neighbour.
    pub fn to_neighbour(listen: SocketAddr, to: SocketAddr) -> UdpOptions {
        UdpOptions { listen, to, interface: Ipv4Addr::UNSPECIFIED, hops: 1, marked: false }
    }

    /// Addresses of a link to all members of a group, on the network of the interface with this
    /// address.
    pub fn to_group(group: Ipv4Addr, port: u16, interface: Ipv4Addr) -> UdpOptions {
        UdpOptions {
            listen: (Ipv4Addr::UNSPECIFIED, port).into(),
            to: (group, port).into(),
            interface,
            hops: 1,
            marked: false,
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
    /// The errors of the socket, the group and the threads; `PermissionDenied` for addresses beyond
    /// this host, unless the member's [`Security`] allows them.
    pub fn start(federation: &Federation, options: UdpOptions) -> io::Result<UdpGateway> {
        let named = |name: String, _, body: Box<dyn FnMut() + Send>| {
            ThreadSpec::inheriting(name).spawn_supervised(body).map(drop).map_err(io::Error::other)
        };
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
        spawn: impl Fn(String, Priority, Box<dyn FnMut() + Send>) -> io::Result<()>,
    ) -> io::Result<UdpGateway> {
        if matches!(federation.security(), Security::Loopback) && !is_local(&options) {
            let why = format!(
                "{} is beyond this host, and the members have no key: give all the same one (--key-file), or \
                 --insecure in a network of trusted machines",
                options.to
            );
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        let socket = open(&options)?;
        let address = socket.local_addr()?;
        let begins = federation.levels().begins().to_vec();
        let (top, others) =
            begins.split_last().map_or((Priority::MIN, &[][..]), |(top, others)| (*top, others));
        let receiver = Arc::new(UdpReceiver::new(federation, &options, socket, others.len()));
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

    /// Datagrams from another address than the neighbour's, from a channel with another number of
    /// levels, or without the key. They are ignored.
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
    key: Option<MemberKey>,
    /// The marks of levels; `None` leaves datagrams unmarked.
    marks: Option<LevelMarks>,
    buffer: PiMutex<SendBuffer>,
}

/// The memory for a datagram, and the number of the last one.
struct SendBuffer {
    octets: Vec<u8>,
    sent: u64,
    /// The level by which the socket marks now.
    marked: Option<u8>,
}

impl Sender {
    /// Sends a datagram. The buffer is reused.
    fn send<'v>(&self, kind: DatagramKind, level: u8, body: impl Encode<'v>) -> Result<(), ForwardError> {
        let mut buffer = self.buffer.lock();
        let mut octets = std::mem::take(&mut buffer.octets);
        octets.clear();
        let mut e = Encoder::new(octets, Text::DEFAULT);
        let proven = if self.key.is_some() { PROVEN } else { 0 };
        e.raw(&MAGIC);
        let order = u8::from(cfg!(target_endian = "little"));
        e.raw(&[VERSION, kind as u8 | proven, order | self.levels << 1, level]);
        e.put(self.id);
        body.encode(&mut e);
        let mut datagram = e.flatten().map_err(|_| ForwardError::TooLarge)?;
        if let Some(key) = &self.key {
            buffer.sent += 1;
            datagram.extend_from_slice(&buffer.sent.to_be_bytes());
            let proof = key.prove(&datagram);
            datagram.extend_from_slice(&proof);
        }
        if let Some(marks) = self.marks.as_ref().filter(|_| buffer.marked != Some(level)) {
            let NetworkPriority { dscp, queue } = marks.of(level);
            // A datagram without its mark still arrives, later. The queue priority is set after the
            // code point, which sets it too.
            let set = net::set_dscp(&*self.socket, dscp)
                .and_then(|()| net::set_priority(&*self.socket, queue.into()));
            buffer.marked = set.is_ok().then_some(level);
        }
        let sent = match datagram.len() {
            0..=MAX_DATAGRAM => self.socket.send_to(&datagram, self.to).map_err(|_| ForwardError::Down),
            _ => Err(ForwardError::TooLarge),
        };
        buffer.octets = datagram;
        sent.map(drop)
    }

    /// Sends an interest; one that is too large for a datagram as 'everything', which includes it.
    fn send_interest(&self, level: u8, interest: &Interest) -> Result<(), ForwardError> {
        match self.send(DatagramKind::Interest, level, &write_interest(interest)) {
            Err(ForwardError::TooLarge) => {
                let Interest { origin, incarnation, version, hops, .. } = *interest;
                let filters = Arc::from([Filter::Everything]);
                let all = Interest { origin, incarnation, version, hops, filters };
                self.send(DatagramKind::Interest, level, &write_interest(&all))
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
            requests
                .iter()
                .try_for_each(|one| sent(self.send(DatagramKind::Request, *level, &write_request(one))))?;
            positions
                .iter()
                .try_for_each(|one| sent(self.send(DatagramKind::Position, *level, &write_position(one))))
        })
    }

    fn forward(&self, event: &ForwardedEvent<'_>) -> Result<(), ForwardError> {
        self.send(DatagramKind::Event, event.level, write_event(event))
    }

    fn address(&self) -> String {
        format!("udp {}", self.to)
    }
}

impl UdpReceiver {
    /// Joins the federation, with a thread for each of the levels below the most urgent.
    fn new(federation: &Federation, options: &UdpOptions, socket: UdpSocket, levels: usize) -> UdpReceiver {
        let socket = Arc::new(socket);
        let sender = Sender {
            id: federation.id(),
            levels: federation.levels().begins().len() as u8,
            socket: socket.clone(),
            to: options.to,
            marks: options.marked.then(|| LevelMarks::new(federation.levels())),
            key: match federation.security() {
                Security::Key(key) => Some(key.clone()),
                Security::Loopback | Security::Insecure => None,
            },
            buffer: PiMutex::new(SendBuffer {
                octets: Vec::with_capacity(MAX_DATAGRAM),
                sent: federation.first_number(),
                marked: None,
            }),
        };
        UdpReceiver {
            federation: federation.clone(),
            link: federation.join(Arc::new(sender)),
            socket,
            only: Some(options.to).filter(|to| !to.ip().is_multicast()),
            rejected: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            levels: (0..levels).map(|_| Parker::new()).collect(),
        }
    }

    /// Receives datagrams of all levels.
    fn receive(&self) {
        let mut room = vec![0; MAX_DATAGRAM];
        let mut region = Region::new(MAX_DATAGRAM);
        let mut guard = ReplayGuard::default();
        while !self.stop.load(Acquire) {
            // A time-out, or the error of an earlier datagram (its port is closed).
            let Ok((length, from)) = self.socket.recv_from(&mut room) else {
                continue;
            };
            let is_local =
                !matches!(self.federation.security(), Security::Loopback) || from.ip().is_loopback();
            if self.only.is_some_and(|only| only != from) || !is_local {
                self.rejected.fetch_add(1, Relaxed);
                continue;
            }
            // Other datagrams are dropped silently: any host may send here.
            let level = match self.decode_datagram(&mut room[..length], &mut region, &mut guard) {
                Ok(level) => level,
                Err(Ignored::Unknown) => continue,
                Err(Ignored::Levels) => {
                    self.rejected.fetch_add(1, Relaxed);
                    continue;
                }
                Err(Ignored::Unauthenticated) => {
                    self.rejected.fetch_add(1, Relaxed);
                    let federation = &self.federation;
                    federation
                        .count_unauthenticated(format_args!("a datagram from {from} has no valid proof"));
                    continue;
                }
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

    /// Checks the proof of a datagram. Returns the body and, with a key, the counter.
    fn authenticate<'d>(&self, datagram: &'d mut [u8]) -> Result<(&'d mut [u8], Option<u64>), Ignored> {
        let proven = datagram[5] & PROVEN != 0;
        let Security::Key(key) = self.federation.security() else {
            return if proven { Err(Ignored::Unauthenticated) } else { Ok((&mut datagram[HEADER..], None)) };
        };
        let Some(end) = datagram.len().checked_sub(PROOF).filter(|end| proven && *end >= HEADER + 8) else {
            return Err(Ignored::Unauthenticated);
        };
        let (message, proof) = datagram.split_at_mut(end);
        if !key.verifies(message, proof) {
            return Err(Ignored::Unauthenticated);
        }
        let (rest, counter) = message.split_at_mut(end - 8);
        let counter = counter.iter().fold(0, |number, octet| number << 8 | u64::from(*octet));
        Ok((&mut rest[HEADER..], Some(counter)))
    }

    /// Handles a datagram. Returns the level that has something to process.
    fn decode_datagram(
        &self,
        datagram: &mut [u8],
        region: &mut Region,
        guard: &mut ReplayGuard,
    ) -> Result<u8, Ignored> {
        let federation = &self.federation;
        if datagram.len() < HEADER || datagram[..4] != MAGIC || datagram[4] != VERSION {
            return Err(Ignored::Unknown);
        }
        let kind = DatagramKind::of(datagram[5]).ok_or(Ignored::Unknown)?;
        let order = if datagram[6] & 1 == 1 { Order::Little } else { Order::Big };
        let (levels, level) = (datagram[6] >> 1, datagram[7]);
        let (body, counter) = self.authenticate(datagram)?;
        let scope = region.enter();
        let mut d = Decoder::new(body, order, Text::DEFAULT, &scope);
        // A group loops back this member's own datagrams.
        let sender: u64 = d.get()?;
        if sender == federation.id() {
            return Err(Ignored::Unknown);
        }
        if counter.is_some_and(|counter| !guard.accept(sender, counter, isorb_rt::time::now_ns())) {
            return Err(Ignored::Unauthenticated);
        }
        if usize::from(levels) != federation.levels().begins().len() {
            return Err(Ignored::Levels);
        }
        let mut message = ControlMessage { sender, level, ..ControlMessage::default() };
        match kind {
            DatagramKind::Event => {
                let event = read_event(&idl::EventView::decode(&mut d)?, level);
                federation.accept_event(self.link, &ForwardedEvent { sender, ..event });
                return Ok(level);
            }
            DatagramKind::Interest => {
                let interest = read_interest(&idl::InterestView::decode(&mut d)?);
                message.interests.push(interest.map_err(|_| Ignored::Unknown)?);
            }
            DatagramKind::Request => {
                message.requests.push(read_request(&idl::StreamRequestView::decode(&mut d)?));
            }
            DatagramKind::Position => {
                message.positions.push(read_position(&idl::StreamPositionView::decode(&mut d)?));
            }
        }
        federation.accept_message(self.link, &message);
        Ok(level)
    }
}

/// Handles datagrams as a gateway does that a neighbour sends them to, on the calling thread. For
/// the fuzz target: the threads of a gateway would hide which one failed.
#[doc(hidden)]
#[expect(missing_debug_implementations, reason = "for the fuzz target")]
pub struct DatagramFeed {
    federation: Federation,
    receiver: UdpReceiver,
    region: Region,
}

impl DatagramFeed {
    /// Adds a link to the federation.
    ///
    /// # Errors
    /// Those of a socket on this host.
    pub fn new(federation: &Federation) -> io::Result<DatagramFeed> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        let options = UdpOptions::to_neighbour(socket.local_addr()?, socket.local_addr()?);
        let receiver = UdpReceiver::new(federation, &options, socket, 0);
        Ok(DatagramFeed { federation: federation.clone(), receiver, region: Region::new(MAX_DATAGRAM) })
    }

    /// Handles datagrams of a neighbour. Returns how many were taken.
    pub fn receive(&mut self, datagrams: impl Iterator<Item = Vec<u8>>) -> usize {
        let mut guard = ReplayGuard::default();
        let mut taken = 0;
        for mut datagram in datagrams {
            if let Ok(level) = self.receiver.decode_datagram(&mut datagram, &mut self.region, &mut guard) {
                self.federation.process(level);
                taken += 1;
            }
        }
        taken
    }
}

impl Drop for DatagramFeed {
    fn drop(&mut self) {
        self.federation.leave(self.receiver.link);
    }
}

/// Why a datagram was ignored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ignored {
    /// It is malformed, or this member's own.
    Unknown,
    /// Its channel has another number of levels.
    Levels,
    /// It has no proof, a wrong one, or was received before.
    Unauthenticated,
}

impl From<isorb_cdr::Error> for Ignored {
    fn from(_: isorb_cdr::Error) -> Ignored {
        Ignored::Unknown
    }
}

/// Returns true if no datagram of the link leaves this host.
fn is_local(options: &UdpOptions) -> bool {
    match options.to.ip().is_multicast() {
        true => options.interface.is_loopback(),
        false => options.to.ip().is_loopback(),
    }
}
