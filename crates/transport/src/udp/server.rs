//! The side that serves: one socket, and a box for each sender.

use super::{DatagramCounts, ROOM, TimeOut, Udp, again, bound};
use crate::{LONGEST_DATAGRAM, Listener, Stream, StreamCapabilities, Wait};
use isorb_rt::net::{Interest, set_recv_buffer, wait_ready};
use isorb_rt::sync::PiMutex;
use isorb_rt::time::{Deadline, now_ns};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown};
use std::collections::{HashMap, VecDeque};
use std::io::{self, IoSlice};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// Octets that wait for a stream to receive them, at most: two of the longest datagrams.
const BOX: usize = 2 * ROOM;
/// A sender gives way to another after this long without a datagram.
const SILENT_NS: u64 = 1_000_000_000;
/// A sender that was silent for so long is forgotten when another comes, whether it waits for an answer or not.
const FORGET_NS: u64 = 60_000_000_000;

pub(super) fn listen(_: &Udp, at: SocketAddr) -> io::Result<(UdpSocket, u16)> {
    let socket = bound(at, at)?;
    // Room for bursts; the kernel may give less.
    let _ = set_recv_buffer(&socket, 1 << 20);
    let port = socket.local_addr()?.port();
    Ok((socket, port))
}

/// Receives for all senders.
#[derive(Debug)]
pub(super) struct Sorter {
    socket: Arc<UdpSocket>,
    address: String,
    whole: fn(&[u8]) -> bool,
    asks: fn(&[u8]) -> bool,
    most: usize,
    counts: Arc<DatagramCounts>,
    block: PiMutex<Box<[u8]>>,
    known: Arc<Known>,
    closed: AtomicBool,
}

type Known = PiMutex<HashMap<SocketAddr, Arc<Letterbox>>>;

/// What came from one sender.
#[derive(Debug)]
struct Letterbox {
    inside: PiMutex<Inside>,
    /// Readable exactly while something is inside, or the box is closed.
    bell: OwnedFd,
    /// When a datagram came last.
    used_at: AtomicU64,
    /// Answers that the sender waits for.
    owed: AtomicU32,
}

#[derive(Debug, Default)]
struct Inside {
    /// Each datagram is a whole message, so that no mark is needed between them.
    octets: VecDeque<u8>,
    closed: bool,
}

impl Letterbox {
    fn new() -> io::Result<Letterbox> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Letterbox {
            inside: PiMutex::default(),
            bell,
            used_at: AtomicU64::new(now_ns()),
            owed: AtomicU32::new(0),
        })
    }

    /// Something was sent to the sender, which waits for one answer less.
    fn answered(&self) {
        let less = |owed: u32| owed.checked_sub(1);
        let _ = self.owed.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    /// `false` when the box is closed; a datagram for which it has no room is dropped.
    fn put(&self, datagram: &[u8], asks: bool, counts: &DatagramCounts) -> bool {
        self.used_at.store(now_ns(), Ordering::Relaxed);
        let mut inside = self.inside.lock();
        if inside.closed {
            return false;
        }
        if inside.octets.len() + datagram.len() > BOX {
            counts.drop_one();
            return true;
        }
        if inside.octets.is_empty() {
            self.ring();
        }
        inside.octets.extend(datagram);
        self.owed.fetch_add(asks.into(), Ordering::Relaxed);
        true
    }

    fn ring(&self) {
        // It holds a number that never gets near its end.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }

    /// `None` when there is nothing; 0 when it is closed.
    fn take(&self, into: &mut [u8]) -> Option<usize> {
        let mut inside = self.inside.lock();
        if inside.closed {
            return Some(0);
        }
        if inside.octets.is_empty() {
            return None;
        }
        let n = into.len().min(inside.octets.len());
        let (first, second) = inside.octets.as_slices();
        let of_first = n.min(first.len());
        into[..of_first].copy_from_slice(&first[..of_first]);
        into[of_first..n].copy_from_slice(&second[..n - of_first]);
        inside.octets.drain(..n);
        if inside.octets.is_empty() {
            let _ = rustix::io::read(&self.bell, &mut [0u8; 8]);
        }
        Some(n)
    }

    fn close(&self) {
        let mut inside = self.inside.lock();
        inside.closed = true;
        inside.octets = VecDeque::new();
        self.ring();
    }
}

impl Sorter {
    pub fn new(udp: &Udp, socket: UdpSocket, address: String) -> Sorter {
        Sorter {
            socket: Arc::new(socket),
            address,
            whole: udp.whole,
            asks: udp.asks,
            most: udp.peers.max(1),
            counts: udp.counts.clone(),
            block: PiMutex::new(vec![0; ROOM].into()),
            known: Arc::default(),
            closed: AtomicBool::new(false),
        }
    }

    /// Puts a datagram into its sender's box; the stream of a sender that is new.
    fn sort(&self, datagram: &[u8], from: SocketAddr) -> io::Result<Option<FromOne>> {
        if !(self.whole)(datagram) {
            self.counts.ignore();
            return Ok(None);
        }
        let asks = (self.asks)(datagram);
        let mut known = self.known.lock();
        if let Some(letters) = known.get(&from)
            && letters.put(datagram, asks, &self.counts)
        {
            return Ok(None);
        }
        known.remove(&from);
        let silent = |letters: &Letterbox| now_ns().saturating_sub(letters.used_at.load(Ordering::Relaxed));
        known.retain(|_, letters| {
            let stays = silent(letters) < FORGET_NS;
            if !stays {
                letters.close();
            }
            stays
        });
        if known.len() >= self.most {
            let owed_nothing = known.iter().filter(|(_, letters)| letters.owed.load(Ordering::Relaxed) == 0);
            let longest = owed_nothing.map(|(from, letters)| (silent(letters), *from)).max();
            match longest {
                Some((ns, other)) if ns >= SILENT_NS => {
                    if let Some(letters) = known.remove(&other) {
                        letters.close();
                    }
                }
                _ => {
                    self.counts.drop_one();
                    return Ok(None);
                }
            }
        }
        let letters = Arc::new(Letterbox::new()?);
        letters.put(datagram, asks, &self.counts);
        known.insert(from, letters.clone());
        Ok(Some(FromOne {
            socket: self.socket.clone(),
            known: self.known.clone(),
            letters,
            from,
            peer: format!("udp:{from}"),
            counts: self.counts.clone(),
            recv_timeout: TimeOut::none(),
            send_timeout: TimeOut::none(),
        }))
    }
}

impl Listener for Sorter {
    /// Also takes in what comes from known senders: as long as nobody accepts, no stream receives anything.
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
                    if let Some(stream) = self.sort(&block[..n.min(ROOM)], from)? {
                        return Ok(Box::new(stream));
                    }
                }
                Ok((..)) => {}
                Err(Errno::AGAIN) => {
                    if !wait_ready(&*self.socket, Interest::READ, deadline)? {
                        return Err(io::ErrorKind::WouldBlock.into());
                    }
                }
                // What became of something that was sent: no affair of who receives.
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
        // Wakes who waits, though the kernel says that there is no connection. What is being answered may still be sent.
        let _ = rustix::net::shutdown(&*self.socket, Shutdown::Read);
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// What one sender says, and the way back.
#[derive(Debug)]
struct FromOne {
    socket: Arc<UdpSocket>,
    known: Arc<Known>,
    letters: Arc<Letterbox>,
    from: SocketAddr,
    peer: String,
    counts: Arc<DatagramCounts>,
    recv_timeout: TimeOut,
    send_timeout: TimeOut,
}

impl Stream for FromOne {
    fn recv(&self, into: &mut [u8], wait: Wait) -> io::Result<usize> {
        let deadline = match wait {
            Wait::No => Deadline::PAST,
            Wait::Block => Deadline::after_opt(self.recv_timeout.get()),
        };
        loop {
            if let Some(n) = self.letters.take(into) {
                return Ok(n);
            }
            if wait == Wait::No || !wait_ready(&self.letters.bell, Interest::READ, deadline)? {
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
        loop {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            let sent = rustix::net::sendmsg_addr(
                &*self.socket,
                &self.from,
                pieces,
                &mut rustix::net::SendAncillaryBuffer::default(),
                flags,
            );
            match sent {
                Ok(n) => {
                    self.letters.answered();
                    return Ok(n);
                }
                Err(Errno::AGAIN) if wait_ready(&*self.socket, Interest::WRITE, deadline)? => {}
                Err(error) if again(error) => {}
                Err(Errno::MSGSIZE) => return Err(Errno::MSGSIZE.into()),
                // One sender's trouble, or another's of which the kernel tells here: a lost datagram.
                Err(_) => {
                    self.letters.answered();
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
        self.letters.close();
    }

    fn peer(&self) -> &str {
        &self.peer
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.letters.bell.as_fd()
    }
}

impl Drop for FromOne {
    fn drop(&mut self) {
        let mut known = self.known.lock();
        if known.get(&self.from).is_some_and(|letters| Arc::ptr_eq(letters, &self.letters)) {
            known.remove(&self.from);
        }
    }
}
