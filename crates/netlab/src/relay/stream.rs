//! A bad path for streams: bytes stay in order and complete, but they are delayed, arrive in
//! pieces, stall, and the connection may break.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use isorb_rt::time::{Deadline, sleep_until};

use crate::{Impairment, Plan};

/// The longest wait of a relay's thread before it checks whether it must end.
const LOOK: Duration = Duration::from_millis(10);

/// The planned effects on each connection.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct StreamPlan {
    /// Delay and jitter of each piece; loss, duplication and reordering do not happen to a stream's
    /// bytes.
    pub pieces: Plan,
    /// The most bytes of a piece; 0 for pieces as they arrive.
    pub piece: usize,
    /// The connection breaks after this many bytes in either direction; `None` is never.
    pub cut_after: Option<u64>,
}

/// Relays connections to one server.
#[derive(Debug)]
pub struct StreamRelay {
    address: SocketAddr,
    control: Arc<Control>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Control {
    end: AtomicBool,
    stalled: AtomicBool,
}

impl StreamRelay {
    /// Starts a relay in front of `server`.
    ///
    /// # Errors
    /// The errors of sockets and threads.
    pub fn start(server: SocketAddr, plan: StreamPlan) -> io::Result<StreamRelay> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let control = Arc::new(Control::default());
        let shared = control.clone();
        let thread = std::thread::Builder::new()
            .name("netlab-relay".to_owned())
            .spawn(move || accept(&listener, server, plan, &shared))?;
        Ok(StreamRelay { address, control, thread: Some(thread) })
    }

    /// The address that clients connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Withholds all bytes (`true`) or releases them: a peer that is connected and silent.
    pub fn stall(&self, stalled: bool) {
        self.control.stalled.store(stalled, Ordering::Relaxed);
    }
}

impl Drop for StreamRelay {
    fn drop(&mut self) {
        self.control.end.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic of the relay has been printed.
            let _ = thread.join();
        }
    }
}

fn accept(listener: &TcpListener, server: SocketAddr, plan: StreamPlan, control: &Control) {
    std::thread::scope(|scope| {
        while !control.end.load(Ordering::Relaxed) {
            match listener.accept() {
                Ok((client, _)) => {
                    // If the server cannot be reached, the client's connection ends at once.
                    let Ok(server) = TcpStream::connect(server) else { continue };
                    let (Ok(client_again), Ok(server_again)) = (client.try_clone(), server.try_clone())
                    else {
                        continue;
                    };
                    scope.spawn(move || carry(client, server, plan, control));
                    scope.spawn(move || carry(server_again, client_again, plan, control));
                }
                Err(_) => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    });
}

/// Forwards bytes in one direction until one side ends, the plan breaks the connection, or the
/// relay ends; both connections are closed then.
fn carry(mut from: TcpStream, mut to: TcpStream, plan: StreamPlan, control: &Control) {
    let keep_order = Plan { loss: 0.0, duplicate: 0.0, reorder: 0.0, ..plan.pieces };
    let mut way: Impairment<Vec<u8>> = Impairment::new(keep_order);
    let mut left = plan.cut_after.unwrap_or(u64::MAX);
    let mut buffer = vec![0; if plan.piece == 0 { 64 * 1024 } else { plan.piece }];
    let set_up = from.set_nonblocking(false).and_then(|()| from.set_read_timeout(Some(LOOK)));
    let _ = to.set_nodelay(true);
    let mut ended = set_up.is_err();
    while !ended && left > 0 && !control.end.load(Ordering::Relaxed) {
        if control.stalled.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
            continue;
        }
        match from.read(&mut buffer) {
            Ok(0) => ended = true,
            Ok(n) => way.push(isorb_rt::time::now_ns(), buffer[..n].to_vec()),
            Err(e)
                if matches!(
                    e.kind(),
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                ) => {}
            Err(_) => ended = true,
        }
        // One piece at a time: later octets wait in the sockets, as on a long line with a window of
        // one piece.
        while let Some(at) = way.next_at() {
            sleep_until(Deadline::at_ns(at));
            let Some(piece) = way.pop(at) else { break };
            let n = usize::try_from(left).unwrap_or(usize::MAX).min(piece.len());
            left -= n as u64;
            if to.write_all(&piece[..n]).is_err() {
                ended = true;
                break;
            }
        }
    }
    // An error means that the socket is closed already.
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(20);

    fn echo_server() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut buffer = [0; 1000];
            while let Ok(n) = stream.read(&mut buffer) {
                if n == 0 || stream.write_all(&buffer[..n]).is_err() {
                    return;
                }
            }
        });
        address
    }

    fn connect(relay: &StreamRelay) -> TcpStream {
        let stream = TcpStream::connect(relay.address()).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream
    }

    #[test]
    fn bytes_arrive_complete_and_in_order_whatever_the_pieces() {
        let pieces = Plan { seed: 3, jitter_ns: 100_000, loss: 1.0, reorder: 1.0, ..Plan::default() };
        let relay =
            StreamRelay::start(echo_server(), StreamPlan { pieces, piece: 7, cut_after: None }).unwrap();
        let mut stream = connect(&relay);
        let sent: Vec<u8> = (0..500u32).map(|i| i as u8).collect();
        stream.write_all(&sent).unwrap();
        let mut received = vec![0; sent.len()];
        stream.read_exact(&mut received).unwrap();
        assert_eq!(received, sent);
    }

    #[test]
    fn a_connection_breaks_where_the_plan_says() {
        let plan = StreamPlan { cut_after: Some(10), ..StreamPlan::default() };
        let relay = StreamRelay::start(echo_server(), plan).unwrap();
        let mut stream = connect(&relay);
        stream.write_all(&[1; 30]).unwrap();
        let mut received = Vec::new();
        // Whether it ends with a reset or in an orderly way depends on what was under way.
        let _ = stream.read_to_end(&mut received);
        assert!(received.len() <= 10, "{}", received.len());
    }

    #[test]
    fn a_stalled_way_goes_on_later() {
        let relay = StreamRelay::start(echo_server(), StreamPlan::default()).unwrap();
        let mut stream = connect(&relay);
        stream.write_all(b"a").unwrap();
        stream.read_exact(&mut [0]).unwrap();
        relay.stall(true);
        // A thread in a read when the stall begins still forwards those octets.
        std::thread::sleep(5 * LOOK);
        stream.write_all(b"b").unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        assert!(stream.read(&mut [0]).is_err());
        relay.stall(false);
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        let mut answer = [0];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"b");
    }
}
