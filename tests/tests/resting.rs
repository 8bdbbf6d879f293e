//! What a server holds for connections that have called and rest in a lane. This program has an
//! allocator that counts what is held.

use isorb::{Concurrency, Config, Reference};
use isorb_tests::serve_with;
use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Octets that this process holds.
static HELD: AtomicUsize = AtomicUsize::new(0);
/// One test at a time: the count is the process'.
static COUNTER: Mutex<()> = Mutex::new(());
const CONNECTIONS: usize = 200;
/// What a connection may hold.
const MOST: usize = 2048;

struct Counting;

// SAFETY: the system's allocator does all the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A request of GIOP 1.2 without arguments, for an operation of every object.
fn request(key: &[u8]) -> Vec<u8> {
    let mut body = b"\x01\0\0\0\x03\0\0\0\0\0\0\0".to_vec();
    body.extend((key.len() as u32).to_le_bytes());
    body.extend(key);
    body.resize(body.len().next_multiple_of(4), 0);
    body.extend(*b"\x0e\0\0\0_non_existent\0\0\0");
    body.extend(0u32.to_le_bytes());
    [b"GIOP\x01\x02\x01\x00".as_slice(), &(body.len() as u32).to_le_bytes(), &body].concat()
}

/// A connection that has made a call, its request in one piece or in two.
fn called(address: &(String, u16), request: &[u8], pieces: usize) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    for piece in request.chunks(request.len().div_ceil(pieces)) {
        stream.write_all(piece).unwrap();
        if pieces > 1 {
            // Lets the lane's thread receive the first piece alone.
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
    let mut header = [0; 12];
    stream.read_exact(&mut header).unwrap();
    assert!(header.starts_with(b"GIOP"));
    let length = u32::from_le_bytes([header[8], header[9], header[10], header[11]]);
    stream.read_exact(&mut vec![0; length as usize]).unwrap();
    stream
}

fn held_by_each(bidirectional: bool, pieces: usize) -> usize {
    let _one = COUNTER.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let config = Config {
        concurrency: Concurrency::Lane,
        lane_threads: 1,
        max_connections: 10 * CONNECTIONS,
        bidirectional,
        ..Config::default()
    };
    let (server, client, path) = serve_with(config, false);
    let address = server.endpoint_addresses().remove(0);
    let key = path.object().ior().iiop_profiles().next().unwrap().unwrap().key;
    let request = request(&key);
    let mut streams = Vec::with_capacity(2 * CONNECTIONS);
    // Tables grow with the first ones.
    streams.extend((0..CONNECTIONS).map(|_| called(&address, &request, pieces)));
    let before = HELD.load(Ordering::Relaxed);
    streams.extend((0..CONNECTIONS).map(|_| called(&address, &request, pieces)));
    let held = HELD.load(Ordering::Relaxed).saturating_sub(before) / CONNECTIONS;
    drop(streams);
    client.shutdown(true).unwrap();
    server.shutdown(true).unwrap();
    held
}

#[test]
fn a_connection_that_rests_in_a_lane_holds_little() {
    let held = held_by_each(false, 1);
    assert!((500..=MOST).contains(&held), "{held}");
}

#[test]
fn a_message_in_pieces_leaves_no_block_behind() {
    let held = held_by_each(false, 2);
    assert!((500..=MOST).contains(&held), "{held}");
}

/// The control: a connection over which the server may call back has slots for these calls.
#[test]
fn connections_for_call_backs_hold_more() {
    let held = held_by_each(true, 1);
    assert!(held > MOST, "{held}");
}
