//! Messages in fragments, in both directions, over each stream transport: a recorder between the
//! ORB and the transport counts the sent fragments.

use isorb::transport::{
    Capabilities, Listener, Locality, Segments, Stream, StreamCapabilities, Tcp, Transport, Unix, Wait,
};
use isorb::{Config, Orb, Reference, TransportConfig};
use isorb_tests::Parrot;
use isorb_tests::steady::PathRef;
use isorb_tls::Tls;
use isorb_tls::testing::Authority;
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The messages of all streams that announce fragments, and the fragments.
#[derive(Default, Debug)]
struct Observed {
    begun: AtomicU32,
    fragments: AtomicU32,
}

/// A transport that records its streams.
#[derive(Debug)]
struct Tap(Arc<dyn Transport>, Arc<Observed>);

#[derive(Debug)]
struct TappedListener(Box<dyn Listener>, Arc<Observed>);

#[derive(Debug)]
struct TappedStream(Box<dyn Stream>, Arc<Observed>, Mutex<Along>);

fn tapped(stream: Box<dyn Stream>, seen: &Arc<Observed>) -> Box<dyn Stream> {
    Box::new(TappedStream(stream, seen.clone(), Mutex::default()))
}

/// The position in the messages that a stream sends.
#[derive(Default, Debug)]
struct Along {
    header: Vec<u8>,
    body: usize,
}

const HEADER: usize = 12;
/// The offsets of flags and type in a message of GIOP 1.2; the flags for little-endian numbers and
/// for following fragments.
const FLAGS: usize = 6;
const TYPE: usize = 7;
const LITTLE: u8 = 1;
const MORE: u8 = 2;
const FRAGMENT: u8 = 7;

impl Along {
    fn read(&mut self, mut octets: &[u8], seen: &Observed) {
        while !octets.is_empty() {
            let n = octets.len().min(if self.body > 0 { self.body } else { HEADER - self.header.len() });
            let (now, later) = octets.split_at(n);
            octets = later;
            if self.body > 0 {
                self.body -= n;
                continue;
            }
            self.header.extend_from_slice(now);
            if self.header.len() == HEADER {
                let header = std::mem::take(&mut self.header);
                assert!(header.starts_with(b"GIOP"), "{header:?}");
                let size: [u8; 4] = header[8..].try_into().unwrap();
                let little = header[FLAGS] & LITTLE != 0;
                self.body = if little { u32::from_le_bytes(size) } else { u32::from_be_bytes(size) } as usize;
                seen.fragments.fetch_add(u32::from(header[TYPE] == FRAGMENT), Ordering::Relaxed);
                let begins = header[TYPE] != FRAGMENT && header[FLAGS] & MORE != 0;
                seen.begun.fetch_add(u32::from(begins), Ordering::Relaxed);
            }
        }
    }
}

impl Transport for Tap {
    fn name(&self) -> &'static str {
        "tap"
    }
    fn profile_tag(&self) -> u32 {
        0x7461_7000
    }
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }
    fn locality(&self, address: &str) -> Option<Locality> {
        self.0.locality(address)
    }
    fn connect(&self, address: &str, timeout: Option<Duration>) -> io::Result<Box<dyn Stream>> {
        Ok(tapped(self.0.connect(address, timeout)?, &self.1))
    }
    fn listen(&self, address: &str) -> io::Result<Box<dyn Listener>> {
        Ok(Box::new(TappedListener(self.0.listen(address)?, self.1.clone())))
    }
}

impl Listener for TappedListener {
    fn accept(&self, wait: Wait) -> io::Result<Box<dyn Stream>> {
        Ok(tapped(self.0.accept(wait)?, &self.1))
    }
    fn address(&self) -> &str {
        self.0.address()
    }
    fn close(&self) {
        self.0.close();
    }
    fn fd(&self) -> BorrowedFd<'_> {
        self.0.fd()
    }
}

impl Stream for TappedStream {
    fn recv(&self, into: &mut [u8], wait: Wait) -> io::Result<usize> {
        self.0.recv(into, wait)
    }
    fn capabilities(&self) -> StreamCapabilities {
        self.0.capabilities()
    }
    fn send(&self, pieces: &[IoSlice<'_>], wait: Wait) -> io::Result<usize> {
        let sent = self.0.send(pieces, wait)?;
        let mut left = sent;
        let mut along = self.2.lock().unwrap();
        for piece in pieces {
            let n = piece.len().min(left);
            along.read(&piece[..n], &self.1);
            left -= n;
        }
        Ok(sent)
    }
    fn set_recv_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.0.set_recv_timeout(timeout)
    }
    fn set_send_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.0.set_send_timeout(timeout)
    }
    fn shutdown(&self) {
        self.0.shutdown();
    }
    fn peer(&self) -> &str {
        self.0.peer()
    }
    fn watched(&self) {
        self.0.watched();
    }
    fn fd(&self) -> BorrowedFd<'_> {
        self.0.fd()
    }
}

/// Octets of a large argument, and of its fragments.
const LARGE: usize = 3 << 20;
const PIECES: [usize; 2] = [1024, 100_000];

fn orb(
    transport: &Arc<dyn Transport>,
    seen: &Arc<Observed>,
    endpoint: Option<String>,
    fragment: usize,
) -> Orb {
    let tap = Arc::new(Tap(transport.clone(), seen.clone()));
    let protocols = TransportConfig { protocols: vec!["tap".into()], ..TransportConfig::default() };
    let endpoints = endpoint.into_iter().collect();
    let config = Config { endpoints, fragment, transport: protocols, lane_threads: 1, ..Config::default() };
    Orb::builder()
        .config(config)
        .register(|info| info.add_transport(tap).map_err(|error| panic!("{error}")))
        .build()
        .unwrap()
}

/// Large and small messages, whole and in fragments of several sizes, one after the other and from
/// several threads.
fn fragments_cross(transport: impl Transport + 'static, address: &str) {
    let transport: Arc<dyn Transport> = Arc::new(transport);
    for form in ["connection", "lane"] {
        for fragment in [0].into_iter().chain(PIECES) {
            let (sent, served) = <(Arc<Observed>, Arc<Observed>)>::default();
            let server = orb(&transport, &served, Some(format!("giop:tap:{address};{form}")), fragment);
            let near: PathRef = server.root_poa().unwrap().activate(Arc::new(Parrot::default())).unwrap();
            let background = server.clone();
            let running = std::thread::spawn(move || background.run());
            let client = orb(&transport, &sent, None, fragment);
            let far: PathRef = client.resolve(&near.object().to_string()).unwrap();
            for n in [0, 1, 1000, 1100, 2048, 99_990, LARGE] {
                let octets: Vec<u8> = (0..n).map(|i| ((i * 7) >> 3) as u8).collect();
                assert!(far.echo_octets(&octets).unwrap() == octets, "{form}, {fragment}, {n} octets");
            }
            std::thread::scope(|threads| {
                for i in 0..4u8 {
                    let far = &far;
                    threads.spawn(move || {
                        let octets = vec![i; 150_000];
                        for _ in 0..10 {
                            far.ping().unwrap();
                            assert!(far.echo_octets(&octets).unwrap() == octets);
                        }
                    });
                }
            });
            for (side, seen) in [("client", sent), ("server", served)] {
                let (begun, fragments) =
                    (seen.begun.load(Ordering::Relaxed), seen.fragments.load(Ordering::Relaxed));
                let what =
                    format!("{form}, {fragment}: the {side} sent {begun} messages in {fragments} fragments");
                match LARGE.checked_div(fragment) {
                    None => assert_eq!((begun, fragments), (0, 0), "{what}"),
                    // The large one, and those of the threads.
                    Some(pieces) => assert!(begun > 40 && fragments as usize >= pieces, "{what}"),
                }
            }
            client.shutdown(true).unwrap();
            server.shutdown(true).unwrap();
            running.join().unwrap();
        }
    }
}

#[test]
fn over_tcp() {
    fragments_cross(Tcp, "127.0.0.1:0");
}

#[test]
fn over_tcp_v6() {
    if Tcp.listen("[::1]:0").is_err() {
        return println!("skipped: no IPv6 on this machine");
    }
    fragments_cross(Tcp, "[::1]:0");
}

#[test]
fn over_unix_sockets() {
    fragments_cross(Unix::default(), "");
}

#[test]
fn over_segments() {
    fragments_cross(Segments::default(), "");
}

#[test]
fn over_tls() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("fragments-{}", std::process::id()));
    let plant = Authority::at(&folder).unwrap().member("plant").unwrap();
    fragments_cross(Tls::new(plant).unwrap(), "127.0.0.1:0");
}
