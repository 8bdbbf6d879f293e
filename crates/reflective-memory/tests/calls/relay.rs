//! A relay between callers and a node's server, which breaks the connection at a chosen byte of a
//! chosen push, or withholds messages.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const LOOK: Duration = Duration::from_millis(2);
/// The errors of a read with a time-out; also after its process was stopped and continued.
const NOTHING_YET: [ErrorKind; 3] = [ErrorKind::WouldBlock, ErrorKind::TimedOut, ErrorKind::Interrupted];

/// The place at which the connection breaks, once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cut {
    /// After this many bytes of the next push.
    Push(usize),
    /// After this many bytes of the next answer, to a push or to a heartbeat.
    Answer(usize),
}

#[derive(Default)]
struct Control {
    end: AtomicBool,
    /// Whether it breaks by a reset.
    armed: Mutex<Option<(Cut, bool)>>,
    cuts: AtomicU64,
    /// The length of the message if it was shorter than the requested cut.
    too_short: AtomicU64,
    held: AtomicBool,
    /// Pushes that arrived while the relay withheld messages.
    held_pushes: AtomicU64,
    server: Option<SocketAddr>,
}

/// Threads end with the relay.
pub struct Relay {
    pub address: SocketAddr,
    /// The address of its server: at a host of this process's own, where no other test takes the
    /// port.
    pub server: SocketAddr,
    control: Arc<Control>,
}

impl Relay {
    pub fn start() -> Relay {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let process = std::process::id();
        let own = [127, 1 + (process % 250) as u8, (process / 250 % 250) as u8, 1];
        let server = SocketAddr::from((own, address.port()));
        let control = Arc::new(Control { server: Some(server), ..Control::default() });
        let shared = control.clone();
        std::thread::spawn(move || {
            while !shared.end.load(Ordering::Relaxed) {
                match listener.accept() {
                    Ok((client, _)) => shared.clone().carry(client),
                    Err(_) => std::thread::sleep(LOOK),
                }
            }
        });
        Relay { address, server, control }
    }

    pub fn arm(&self, cut: Cut, reset: bool) {
        self.control.too_short.store(0, Ordering::Relaxed);
        *self.control.armed.lock().unwrap() = Some((cut, reset));
    }

    pub fn cuts(&self) -> u64 {
        self.control.cuts.load(Ordering::Relaxed)
    }

    /// Bytes of the message that the armed cut lies behind; 0 where it lies in it, or has not come.
    pub fn too_short(&self) -> u64 {
        self.control.too_short.load(Ordering::Relaxed)
    }

    /// Withholds messages to the server until this is undone, even if their callers time out.
    pub fn hold(&self, held: bool) {
        if held {
            self.control.held_pushes.store(0, Ordering::Relaxed);
        }
        self.control.held.store(held, Ordering::Release);
    }

    /// The pushes that it withholds.
    pub fn held_pushes(&self) -> u64 {
        self.control.held_pushes.load(Ordering::Relaxed)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.control.end.store(true, Ordering::Relaxed);
    }
}

impl Control {
    fn carry(self: Arc<Self>, client: TcpStream) {
        let Ok(server) = TcpStream::connect(self.server.unwrap()) else { return };
        for stream in [&client, &server] {
            stream.set_nodelay(true).unwrap();
            // Also of the listener's connections, which are as non-blocking as it is.
            stream.set_nonblocking(false).unwrap();
            stream.set_read_timeout(Some(LOOK)).unwrap();
        }
        let back = (server.try_clone().unwrap(), client.try_clone().unwrap());
        let control = self.clone();
        std::thread::spawn(move || control.one_way(client, server, true));
        std::thread::spawn(move || self.one_way(back.0, back.1, false));
    }

    fn one_way(&self, mut from: TcpStream, mut to: TcpStream, there: bool) {
        let (mut input, mut octets, mut whole) = ([0; 4096], VecDeque::new(), VecDeque::new());
        let mut ended = false;
        while !self.end.load(Ordering::Relaxed) {
            match from.read(&mut input) {
                Ok(0) => ended = true,
                Ok(n) => octets.extend(&input[..n]),
                Err(error) if NOTHING_YET.contains(&error.kind()) => {}
                Err(_) => ended = true,
            }
            let held = there && self.held.load(Ordering::Acquire);
            while let Some(message) = message(&mut octets) {
                self.held_pushes.fetch_add(u64::from(held && is_push(&message)), Ordering::Relaxed);
                whole.push_back(message);
            }
            if held {
                // The caller closed it after a time-out: the end is read again and again.
                std::thread::sleep(LOOK);
                continue;
            }
            for message in whole.drain(..) {
                if let Some((at, reset)) = self.cut_in(&message, there) {
                    let _ = to.write_all(&message[..at]);
                    return self.cut(&from, &to, reset);
                }
                if to.write_all(&message).is_err() {
                    ended = true;
                }
            }
            if ended {
                break;
            }
        }
        for stream in [&from, &to] {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn cut_in(&self, message: &[u8], there: bool) -> Option<(usize, bool)> {
        let mut armed = self.armed.lock().unwrap();
        let (at, reset) = match *armed {
            Some((Cut::Push(at), reset)) if there && is_push(message) => (at, reset),
            Some((Cut::Answer(at), reset)) if !there => (at, reset),
            _ => return None,
        };
        *armed = None;
        if at >= message.len() {
            self.too_short.store(message.len() as u64, Ordering::Relaxed);
            return None;
        }
        Some((at, reset))
    }

    fn cut(&self, from: &TcpStream, to: &TcpStream, reset: bool) {
        for stream in [from, to] {
            if reset {
                rustix::net::sockopt::set_socket_linger(stream, Some(Duration::ZERO)).unwrap();
            }
            let _ = stream.shutdown(Shutdown::Both);
        }
        self.cuts.fetch_add(1, Ordering::Relaxed);
    }
}

fn is_push(message: &[u8]) -> bool {
    message.windows(4).any(|word| word == b"push")
}

/// The first message of the received octets, if it is complete.
fn message(octets: &mut VecDeque<u8>) -> Option<Vec<u8>> {
    const HEAD: usize = 12;
    if octets.len() < HEAD {
        return None;
    }
    let head: Vec<u8> = octets.iter().take(HEAD).copied().collect();
    let size = <[u8; 4]>::try_from(&head[8..]).unwrap();
    // The lowest bit of the flags is the byte order.
    let size = if head[6] & 1 == 1 { u32::from_le_bytes(size) } else { u32::from_be_bytes(size) } as usize;
    (octets.len() >= HEAD + size).then(|| octets.drain(..HEAD + size).collect())
}
