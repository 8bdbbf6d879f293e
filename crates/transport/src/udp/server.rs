//! The serving side: one socket, and a receive queue for each sender.

use super::proof::{self, AddressProof, Verdict};
use super::{DatagramCounts, ROOM, TimeOut, Udp, again, bound};
use crate::{LONGEST_DATAGRAM, Listener, Stream, StreamCapabilities, Wait};
use isorb_rt::net::{Interest, set_recv_buffer, wait_ready};
use isorb_rt::sync::PiMutex;
use isorb_rt::time::{Deadline, now_ns};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown};
use std::collections::{HashMap, VecDeque};
use std::io::{self, IoSlice};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// Most octets that wait for a stream to receive them: two of the longest datagrams.
const MAX_WAITING: usize = 2 * ROOM;
/// A sender without a datagram for so long may be replaced by another.
const REPLACEABLE_AFTER_NS: u64 = 1_000_000_000;
/// A sender without a datagram for so long is removed when another one sends, even if it waits for
/// a reply.
const FORGET_AFTER_NS: u64 = 60_000_000_000;

pub(super) fn listen(_: &Udp, at: SocketAddr) -> io::Result<(UdpSocket, u16)> {
    let socket = bound(at, at)?;
    // Room for bursts; the kernel may give less.
    let _ = set_recv_buffer(&socket, 1 << 20);
    let port = socket.local_addr()?.port();
    Ok((socket, port))
}

/// Receives for all senders and sorts by sender.
#[derive(Debug)]
pub(super) struct Demultiplexer {
    socket: Arc<UdpSocket>,
    address: String,
    whole: fn(&[u8]) -> bool,
    expects_reply: fn(&[u8]) -> bool,
    most: usize,
    amplification: u32,
    counts: Arc<DatagramCounts>,
    block: PiMutex<Box<[u8]>>,
    peers: Arc<Peers>,
    closed: AtomicBool,
}

type Peers = PiMutex<HashMap<SocketAddr, Arc<ReceiveQueue>>>;

/// Datagrams of one sender.
#[derive(Debug)]
struct ReceiveQueue {
    state: PiMutex<QueueState>,
    /// Readable exactly while the queue has octets or is closed.
    ready_fd: OwnedFd,
    /// When the last datagram arrived.
    used_at: AtomicU64,
    /// Replies that the sender waits for.
    pending_replies: AtomicU32,
    proof: AddressProof,
}

#[derive(Debug, Default)]
struct QueueState {
    /// Each datagram is a whole message, so no separator is needed.
    octets: VecDeque<u8>,
    closed: bool,
}

impl ReceiveQueue {
    fn new(amplification: u32) -> io::Result<ReceiveQueue> {
        let ready_fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(ReceiveQueue {
            state: PiMutex::default(),
            ready_fd,
            used_at: AtomicU64::new(now_ns()),
            pending_replies: AtomicU32::new(0),
            proof: AddressProof::new(amplification),
        })
    }

    /// A reply was sent to the sender.
    fn reply_sent(&self) {
        let less = |pending_replies: u32| pending_replies.checked_sub(1);
        let _ = self.pending_replies.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    /// Returns `false` when the queue is closed. Drops a datagram without room.
    fn put(&self, datagram: &[u8], expects_reply: bool, counts: &DatagramCounts) -> bool {
        self.used_at.store(now_ns(), Ordering::Relaxed);
        self.proof.received(datagram.len());
        let mut state = self.state.lock();
        if state.closed {
            return false;
        }
        if state.octets.len() + datagram.len() > MAX_WAITING {
            counts.drop_one();
            return true;
        }
        if state.octets.is_empty() {
            self.signal();
        }
        state.octets.extend(datagram);
        self.pending_replies.fetch_add(expects_reply.into(), Ordering::Relaxed);
        true
    }

    fn signal(&self) {
        // The counter never overflows.
        let _ = rustix::io::write(&self.ready_fd, &1u64.to_ne_bytes());
    }

    /// `None` when the queue is empty; 0 when it is closed.
    fn take(&self, into: &mut [u8]) -> Option<usize> {
        let mut state = self.state.lock();
        if state.closed {
            return Some(0);
        }
        if state.octets.is_empty() {
            return None;
        }
        let n = into.len().min(state.octets.len());
        let (first, second) = state.octets.as_slices();
        let of_first = n.min(first.len());
        into[..of_first].copy_from_slice(&first[..of_first]);
        into[of_first..n].copy_from_slice(&second[..n - of_first]);
        state.octets.drain(..n);
        if state.octets.is_empty() {
            let _ = rustix::io::read(&self.ready_fd, &mut [0u8; 8]);
        }
        Some(n)
    }

    fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        state.octets = VecDeque::new();
        self.signal();
    }
}

impl Demultiplexer {
    pub fn new(udp: &Udp, socket: UdpSocket, address: String) -> Demultiplexer {
        Demultiplexer {
            socket: Arc::new(socket),
            address,
            whole: udp.whole,
            expects_reply: udp.expects_reply,
            most: udp.peers.max(1),
            amplification: udp.amplification,
            counts: udp.counts.clone(),
            block: PiMutex::new(vec![0; ROOM].into()),
            peers: Arc::default(),
            closed: AtomicBool::new(false),
        }
    }

    /// Takes a datagram as the proof of its sender's address, and sends the replies that waited for
    /// it. Returns `false` if it is none.
    fn prove(&self, datagram: &[u8], from: SocketAddr) -> bool {
        let Some(cookie) = proof::answered(datagram) else { return false };
        let queue = self.peers.lock().get(&from).cloned();
        let Some(waited) = queue.and_then(|queue| queue.proof.prove(cookie)) else { return false };
        for reply in waited {
            // One that the kernel does not take now is lost, as any datagram may be.
            if send_now(&self.socket, from, &[IoSlice::new(&reply)]).is_err() {
                self.counts.drop_one();
            }
        }
        true
    }

    /// Adds a datagram to its sender's queue. Returns the stream of a new sender.
    fn dispatch(&self, datagram: &[u8], from: SocketAddr) -> io::Result<Option<PeerStream>> {
        if !(self.whole)(datagram) {
            if !self.prove(datagram, from) {
                self.counts.ignore();
            }
            return Ok(None);
        }
        let expects_reply = (self.expects_reply)(datagram);
        let mut peers = self.peers.lock();
        if let Some(queue) = peers.get(&from)
            && queue.put(datagram, expects_reply, &self.counts)
        {
            return Ok(None);
        }
        peers.remove(&from);
        let silent = |queue: &ReceiveQueue| now_ns().saturating_sub(queue.used_at.load(Ordering::Relaxed));
        peers.retain(|_, queue| {
            let stays = silent(queue) < FORGET_AFTER_NS;
            if !stays {
                queue.close();
            }
            stays
        });
        if peers.len() >= self.most {
            let replaceable =
                peers.iter().filter(|(_, queue)| queue.pending_replies.load(Ordering::Relaxed) == 0);
            let longest = replaceable.map(|(from, queue)| (silent(queue), *from)).max();
            match longest {
                Some((ns, other)) if ns >= REPLACEABLE_AFTER_NS => {
                    if let Some(queue) = peers.remove(&other) {
                        queue.close();
                    }
                }
                _ => {
                    self.counts.drop_one();
                    return Ok(None);
                }
            }
        }
        let queue = Arc::new(ReceiveQueue::new(self.amplification)?);
        queue.put(datagram, expects_reply, &self.counts);
        peers.insert(from, queue.clone());
        Ok(Some(PeerStream {
            socket: self.socket.clone(),
            peers: self.peers.clone(),
            queue,
            from,
            peer: format!("udp:{from}"),
            counts: self.counts.clone(),
            recv_timeout: TimeOut::none(),
            send_timeout: TimeOut::none(),
        }))
    }
}

impl Listener for Demultiplexer {
    /// Also receives datagrams of known senders: their streams receive only while a thread accepts.
    fn accept(&self, wait: Wait) -> io::Result<Box<dyn Stream>> {
        let deadline = if wait == Wait::No { Deadline::PAST } else { Deadline::NONE };
        let mut block = self.block.lock();
        loop {
            if self.closed.load(Ordering::Acquire) {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            match rustix::net::recvfrom(&*self.socket, &mut block[..], RecvFlags::DONTWAIT) {
                Ok((_, n, Some(from))) => {
                    let Ok(from) = SocketAddr::try_from(from) else { continue };
                    if let Some(stream) = self.dispatch(&block[..n.min(ROOM)], from)? {
                        return Ok(Box::new(stream));
                    }
                }
                Ok((..)) => {}
                Err(Errno::AGAIN) => {
                    if !wait_ready(&*self.socket, Interest::READ, deadline)? {
                        return Err(io::ErrorKind::WouldBlock.into());
                    }
                }
                // The error of an earlier send, which does not concern the receiver.
                Err(error) if again(error) || error == Errno::CONNREFUSED => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn address(&self) -> &str {
        &self.address
    }

    fn close(&self) {
        self.closed.store(true, Ordering::Release);
        // Wakes waiting threads, although the kernel reports that the socket is not connected.
        // Replies may still be sent.
        let _ = rustix::net::shutdown(&*self.socket, Shutdown::Read);
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Sends a datagram, without a wait.
fn send_now(socket: &UdpSocket, to: SocketAddr, pieces: &[IoSlice<'_>]) -> Result<usize, Errno> {
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    rustix::net::sendmsg_addr(socket, &to, pieces, &mut SendAncillaryBuffer::default(), flags)
}

/// Datagrams from one sender, and replies to it.
#[derive(Debug)]
struct PeerStream {
    socket: Arc<UdpSocket>,
    peers: Arc<Peers>,
    queue: Arc<ReceiveQueue>,
    from: SocketAddr,
    peer: String,
    counts: Arc<DatagramCounts>,
    recv_timeout: TimeOut,
    send_timeout: TimeOut,
}

impl PeerStream {
    /// Does what there is to do about a reply that is not sent now.
    #[cold]
    fn hold_back(&self, verdict: Verdict, total: usize) -> usize {
        // A sender that proves nothing must not keep its entry by waiting for replies.
        self.queue.reply_sent();
        match verdict {
            Verdict::Wait(Some(challenge)) => {
                // If it is lost, so is the reply; the next one challenges again.
                let _ = send_now(&self.socket, self.from, &[IoSlice::new(&challenge)]);
            }
            Verdict::Wait(None) | Verdict::Send => {}
            Verdict::Drop => self.counts.drop_one(),
        }
        total
    }
}

impl Stream for PeerStream {
    fn recv(&self, into: &mut [u8], wait: Wait) -> io::Result<usize> {
        let deadline = match wait {
            Wait::No => Deadline::PAST,
            Wait::Block => Deadline::after_opt(self.recv_timeout.get()),
        };
        loop {
            if let Some(n) = self.queue.take(into) {
                return Ok(n);
            }
            if wait == Wait::No || !wait_ready(&self.queue.ready_fd, Interest::READ, deadline)? {
                return Err(io::ErrorKind::WouldBlock.into());
            }
        }
    }

    fn send(&self, pieces: &[IoSlice<'_>], wait: Wait) -> io::Result<usize> {
        let deadline = match wait {
            Wait::No => Deadline::PAST,
            Wait::Block => Deadline::after_opt(self.send_timeout.get()),
        };
        let total = pieces.iter().map(|piece| piece.len()).sum();
        if total <= LONGEST_DATAGRAM {
            match self.queue.proof.decide(pieces, total) {
                Verdict::Send => {}
                verdict => return Ok(self.hold_back(verdict, total)),
            }
        }
        loop {
            match send_now(&self.socket, self.from, pieces) {
                Ok(n) => {
                    self.queue.reply_sent();
                    return Ok(n);
                }
                Err(Errno::AGAIN) if wait_ready(&*self.socket, Interest::WRITE, deadline)? => {}
                Err(error) if again(error) => {}
                Err(Errno::MSGSIZE) => return Err(Errno::MSGSIZE.into()),
                // An error of one sender, or of another that the kernel reports here: a lost
                // datagram.
                Err(_) => {
                    self.queue.reply_sent();
                    self.counts.drop_one();
                    return Ok(total);
                }
            }
        }
    }

    fn capabilities(&self) -> StreamCapabilities {
        StreamCapabilities { max_datagram: Some(LONGEST_DATAGRAM), ..StreamCapabilities::default() }
    }

    fn set_recv_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.recv_timeout.set(timeout);
        Ok(())
    }

    fn set_send_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.send_timeout.set(timeout);
        Ok(())
    }

    fn shutdown(&self) {
        self.queue.close();
    }

    fn peer(&self) -> &str {
        &self.peer
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.queue.ready_fd.as_fd()
    }
}

impl Drop for PeerStream {
    fn drop(&mut self) {
        let mut peers = self.peers.lock();
        if peers.get(&self.from).is_some_and(|queue| Arc::ptr_eq(queue, &self.queue)) {
            peers.remove(&self.from);
        }
    }
}
