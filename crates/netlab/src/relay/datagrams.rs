//! A relay of datagrams that impairs them.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use isorb_rt::time::now_ns;

use crate::{Impairment, Plan};

/// The longest sleep of the relay before it checks for datagrams: the resolution of the plan's
/// times.
const LOOK: Duration = Duration::from_micros(100);
/// The longest datagram.
const LONGEST: usize = 65_536;

/// Relays datagrams between any number of clients and one server, with a plan for each direction.
///
/// The server sees each client under an address of the relay's, as behind a translating router;
/// answers go back to the client.
#[derive(Debug)]
pub struct DatagramRelay {
    address: SocketAddr,
    end: Arc<AtomicBool>,
    dropped: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl DatagramRelay {
    /// Starts a relay in front of `server`.
    ///
    /// # Errors
    /// The errors of sockets and threads.
    pub fn start(server: SocketAddr, there: Plan, back: Plan) -> io::Result<DatagramRelay> {
        let front = bind()?;
        let address = front.local_addr()?;
        let (end, dropped) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let mut forwarder = Forwarder {
            front,
            server,
            clients: Vec::new(),
            there: Impairment::new(there),
            back: Impairment::new(back),
            buffer: vec![0; LONGEST],
        };
        let (stop, count) = (end.clone(), dropped.clone());
        let thread = std::thread::Builder::new().name("netlab-relay".to_owned()).spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                forwarder.step();
                count.store(forwarder.there.dropped() + forwarder.back.dropped(), Ordering::Relaxed);
            }
        })?;
        Ok(DatagramRelay { address, end, dropped, thread: Some(thread) })
    }

    /// The address that clients send to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Datagrams that were lost, in both directions together.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

impl Drop for DatagramRelay {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic of the relay has been printed.
            let _ = thread.join();
        }
    }
}

struct Forwarder {
    front: UdpSocket,
    server: SocketAddr,
    // Each with its socket; the server knows the client by the address of the socket.
    clients: Vec<(SocketAddr, UdpSocket)>,
    // With the index of the client.
    there: Impairment<(usize, Vec<u8>)>,
    back: Impairment<(usize, Vec<u8>)>,
    buffer: Vec<u8>,
}

impl Forwarder {
    /// Receives new datagrams, forwards those that are due, and sleeps if there were none.
    fn step(&mut self) {
        let now = now_ns();
        let mut idle = true;
        while let Ok((n, from)) = self.front.recv_from(&mut self.buffer) {
            idle = false;
            if let Some(client) = self.client(from) {
                self.there.push(now, (client, self.buffer[..n].to_vec()));
            }
        }
        for (i, (_, socket)) in self.clients.iter().enumerate() {
            while let Ok(n) = socket.recv(&mut self.buffer) {
                idle = false;
                self.back.push(now, (i, self.buffer[..n].to_vec()));
            }
        }
        // A datagram that the system refuses is lost as well.
        while let Some((i, packet)) = self.there.pop(now_ns()) {
            let _ = self.clients[i].1.send(&packet);
            idle = false;
        }
        while let Some((i, packet)) = self.back.pop(now_ns()) {
            let _ = self.front.send_to(&packet, self.clients[i].0);
            idle = false;
        }
        if idle {
            self.rest();
        }
    }

    /// Until the next datagram is due, or for the resolution.
    fn rest(&self) {
        let due = [self.there.next_at(), self.back.next_at()].into_iter().flatten().min();
        let left = due.map_or(LOOK, |at| Duration::from_nanos(at.saturating_sub(now_ns())));
        std::thread::sleep(left.min(LOOK));
    }

    fn client(&mut self, from: SocketAddr) -> Option<usize> {
        if let Some(i) = self.clients.iter().position(|(client, _)| *client == from) {
            return Some(i);
        }
        let socket = bind().ok()?;
        socket.connect(self.server).ok()?;
        self.clients.push((from, socket));
        Some(self.clients.len() - 1)
    }
}

fn bind() -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.set_nonblocking(true)?;
    match socket.local_addr()? {
        SocketAddr::V4(_) => Ok(socket),
        SocketAddr::V6(_) => Err(ErrorKind::AddrNotAvailable.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(20);

    fn echo_server() -> SocketAddr {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        std::thread::spawn(move || {
            let mut buffer = [0; 2000];
            while let Ok((n, from)) = socket.recv_from(&mut buffer) {
                if n == 0 {
                    return;
                }
                socket.send_to(&buffer[..n], from).unwrap();
            }
        });
        address
    }

    #[test]
    fn a_good_way_loses_nothing_of_two_clients() {
        let server = echo_server();
        let relay = DatagramRelay::start(server, Plan::default(), Plan::default()).unwrap();
        let clients = [0, 1].map(|_| UdpSocket::bind("127.0.0.1:0").unwrap());
        for i in 0..50u8 {
            for (mark, client) in clients.iter().enumerate() {
                client.set_read_timeout(Some(TIMEOUT)).unwrap();
                client.send_to(&[i, mark as u8], relay.address()).unwrap();
                let mut answer = [0; 10];
                let (n, from) = client.recv_from(&mut answer).unwrap();
                assert_eq!((&answer[..n], from), (&[i, mark as u8][..], relay.address()));
            }
        }
        assert_eq!(relay.dropped(), 0);
        clients[0].send_to(&[], server).unwrap();
    }

    #[test]
    fn what_vanishes_is_counted() {
        let server = echo_server();
        let relay =
            DatagramRelay::start(server, Plan { loss: 1.0, ..Plan::default() }, Plan::default()).unwrap();
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        client.send_to(&[1], relay.address()).unwrap();
        let until = std::time::Instant::now() + TIMEOUT;
        while relay.dropped() == 0 && std::time::Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(relay.dropped(), 1);
        client.set_nonblocking(true).unwrap();
        assert_eq!(client.recv_from(&mut [0; 4]).unwrap_err().kind(), ErrorKind::WouldBlock);
        client.send_to(&[], server).unwrap();
    }

    #[test]
    fn a_delay_is_waited_for() {
        let server = echo_server();
        let delay = Duration::from_millis(20);
        let plan = Plan { delay_ns: delay.as_nanos() as u64, ..Plan::default() };
        let relay = DatagramRelay::start(server, plan, plan).unwrap();
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        client.set_read_timeout(Some(TIMEOUT)).unwrap();
        let start = now_ns();
        client.send_to(&[1], relay.address()).unwrap();
        client.recv_from(&mut [0; 4]).unwrap();
        assert!(now_ns() - start >= 2 * plan.delay_ns);
        client.send_to(&[], server).unwrap();
    }
}
