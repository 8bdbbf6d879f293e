//! Misbehaving peers over real sockets, in both forms of concurrency: no other client is affected.

use isorb::{Concurrency, Config, Orb, Reference};
use isorb_tests::steady::PathRef;
use isorb_tests::{Parrot, serve, serve_with};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

const BOTH: [Concurrency; 2] = [Concurrency::Connection, Concurrency::Lane];

fn connect(server: &Orb) -> TcpStream {
    let (host, port) = server.endpoint_addresses().remove(0);
    let stream = TcpStream::connect((host, port)).unwrap();
    // Only for the end of a failing test: the awaited octets come at once.
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

/// The server's octets until it closes; a reset counts as the end.
fn until_closed(mut stream: TcpStream) -> Vec<u8> {
    let mut got = Vec::new();
    if let Err(error) = stream.read_to_end(&mut got) {
        assert_eq!(
            error.kind(),
            std::io::ErrorKind::ConnectionReset,
            "the server neither answered nor closed"
        );
    }
    got
}

fn key(path: &PathRef) -> Vec<u8> {
    path.object().ior().iiop_profiles().next().unwrap().unwrap().key
}

/// A GIOP 1.2 request without arguments, little endian.
fn request(key: &[u8], operation: &str, id: u32) -> Vec<u8> {
    let mut body = Vec::new();
    body.extend(id.to_le_bytes());
    body.extend([3, 0, 0, 0, 0, 0, 0, 0]);
    body.extend((key.len() as u32).to_le_bytes());
    body.extend(key);
    body.resize(body.len().next_multiple_of(4), 0);
    body.extend((operation.len() as u32 + 1).to_le_bytes());
    body.extend(operation.as_bytes());
    body.push(0);
    body.resize(body.len().next_multiple_of(4), 0);
    body.extend(0u32.to_le_bytes());
    let mut message = b"GIOP\x01\x02\x01\x00".to_vec();
    message.extend((body.len() as u32).to_le_bytes());
    message.extend(body);
    message
}

#[test]
fn what_is_no_giop_is_told_so_and_closed() {
    for concurrency in BOTH {
        let (server, _client, path) = serve(concurrency, false);
        let lines: [&[u8]; 5] = [
            b"GET / HTTP/1.1\r\n\r\n",
            b"GIOP\x09\x00\x00\x00\x00\x00\x00\x00",
            b"GIOP\x01\x02\x01\x63\x00\x00\x00\x00",
            b"GIOP\x01\x01\x01\x07\x04\x00\x00\x00abcd",
            // A request that ends inside its header.
            b"GIOP\x01\x02\x01\x00\x04\x00\x00\x00\x01\x00\x00\x00",
        ];
        for line in lines {
            let mut stream = connect(&server);
            stream.write_all(line).unwrap();
            let answer = until_closed(stream);
            assert!(
                answer.starts_with(b"GIOP") && answer[7] == 6,
                "{line:?} got {answer:?}, not a MessageError"
            );
            path.ping().unwrap();
        }
        server.shutdown(true).unwrap();
    }
}

#[test]
fn a_message_beyond_the_limit_costs_no_memory() {
    for concurrency in BOTH {
        let (server, _client, path) = serve(concurrency, false);
        let mut stream = connect(&server);
        stream.write_all(b"GIOP\x01\x02\x01\x00\xff\xff\xff\x7f").unwrap();
        until_closed(stream);
        path.ping().unwrap();
        server.shutdown(true).unwrap();
    }
}

#[test]
fn counts_that_lie_are_refused() {
    let (server, _client, path) = serve(Concurrency::Connection, false);
    for operation in
        ["echo_tracks", "echo_table", "echo_shape", "echo_octets", "text", "wide", "echo_picture"]
    {
        // The body is a count of four thousand million.
        let mut message = request(&key(&path), operation, 5);
        message.resize(message.len().next_multiple_of(8), 0);
        message.extend([0xff; 8]);
        let size = message.len() as u32 - 12;
        message[8..12].copy_from_slice(&size.to_le_bytes());
        let mut stream = connect(&server);
        stream.write_all(&message).unwrap();
        let mut reply = [0; 24];
        stream.read_exact(&mut reply).unwrap();
        assert_eq!((reply[7], reply[16]), (1, 2), "{operation}: a reply with a system exception");
        // The connection stays open.
        stream.write_all(&request(&key(&path), "ping", 6)).unwrap();
        let mut rest = vec![0; u32::from_le_bytes(reply[8..12].try_into().unwrap()) as usize - 12];
        stream.read_exact(&mut rest).unwrap();
        stream.read_exact(&mut reply).unwrap();
        assert_eq!((reply[12], reply[16]), (6, 0), "{operation}: the next call is served");
    }
    server.shutdown(true).unwrap();
}

#[test]
fn a_client_that_stalls_holds_a_connection_not_a_lane() {
    // `serve` creates a lane of one thread.
    let (server, _client, path) = serve(Concurrency::Lane, false);
    let message = request(&key(&path), "ping", 7);
    let mut stalled: Vec<TcpStream> = Vec::new();
    for cut in [1, 11, 12, 20, message.len() - 1] {
        let mut stream = connect(&server);
        stream.write_all(&message[..cut]).unwrap();
        stalled.push(stream);
        path.ping().unwrap();
    }
    // Later they continue, and get their replies.
    for (mut stream, cut) in stalled.into_iter().zip([1, 11, 12, 20, message.len() - 1]) {
        for byte in &message[cut..] {
            stream.write_all(&[*byte]).unwrap();
        }
        let mut reply = [0; 24];
        stream.read_exact(&mut reply).unwrap();
        assert_eq!((reply[7], reply[12], reply[16]), (1, 7, 0));
    }
    server.shutdown(true).unwrap();
}

#[test]
fn a_client_that_does_not_read_stops_only_itself() {
    for concurrency in BOTH {
        let (server, _client, path) = serve(concurrency, false);
        // A lane of one thread: 60 replies of 1 MiB are far more than the sockets' buffers.
        let mut message = request(&key(&path), "echo_octets", 8);
        message.resize(message.len().next_multiple_of(8), 0);
        message.extend((1u32 << 20).to_le_bytes());
        message.resize(message.len() + (1 << 20), 7);
        let size = message.len() as u32 - 12;
        message[8..12].copy_from_slice(&size.to_le_bytes());
        let mut greedy = connect(&server);
        let mut writer = greedy.try_clone().unwrap();
        std::thread::scope(|threads| {
            threads.spawn(move || {
                for _ in 0..60 {
                    writer.write_all(&message).unwrap();
                }
            });
            for _ in 0..20 {
                path.ping().unwrap();
            }
            // Finally it reads, and nothing was lost.
            let mut replies = 0;
            let mut header = [0; 12];
            while replies < 60 {
                greedy.read_exact(&mut header).unwrap();
                assert_eq!((&header[..4], header[7]), (&b"GIOP"[..], 1));
                let mut body = vec![0; u32::from_le_bytes(header[8..].try_into().unwrap()) as usize];
                greedy.read_exact(&mut body).unwrap();
                assert_eq!(body.len(), 12 + (1 << 20) + 4);
                replies += 1;
            }
        });
        server.shutdown(false).unwrap();
    }
}

/// A request with a sequence of this many octets.
fn large_request(key: &[u8], octets: usize) -> Vec<u8> {
    let mut message = request(key, "echo_octets", 8);
    message.resize(message.len().next_multiple_of(8), 0);
    message.extend((octets as u32).to_le_bytes());
    message.resize(message.len() + octets, 7);
    let size = message.len() as u32 - 12;
    message[8..12].copy_from_slice(&size.to_le_bytes());
    message
}

/// A server with few message blocks.
fn small(concurrency: Concurrency) -> Config {
    Config {
        concurrency,
        lane_threads: 1,
        message_limit: 4 << 20,
        memory_limit: 32 << 20,
        ..Config::default()
    }
}

#[test]
fn clients_that_stall_in_large_messages_leave_memory_to_others() {
    for concurrency in BOTH {
        let (server, _client, path) = serve_with(small(concurrency), false);
        let message = large_request(&key(&path), (4 << 20) - 1000);
        let fragment = {
            // The same in fragments: each is complete, the message is not.
            let mut head = message[..message.len() / 8 * 8].to_vec();
            head[6] |= 2;
            let size = head.len() as u32 - 12;
            head[8..12].copy_from_slice(&size.to_le_bytes());
            head
        };
        let payload = vec![5; 2 << 20];
        let mut stalled = Vec::new();
        for i in 0..20 {
            let mut stream = connect(&server);
            let all_but_the_end = if i % 2 == 0 { &message[..message.len() - 100] } else { &fragment[..] };
            // If the server has closed it already, this fails, which is allowed.
            if stream.write_all(all_but_the_end).is_ok() {
                stalled.push(stream);
            }
            path.ping().unwrap();
            assert_eq!(path.echo_octets(&payload).unwrap().len(), payload.len());
        }
        assert!(stalled.len() >= 4, "the first ones have room");
        drop(stalled);
        server.shutdown(false).unwrap();
    }
}

/// Bytes of this process that lie in memory.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() << 12
}

#[test]
fn announced_octets_that_do_not_come_take_no_memory() {
    const CONNECTIONS: usize = 120;
    const EACH: usize = 50 << 20;
    for concurrency in BOTH {
        let limit = Duration::from_secs(2);
        let config = Config {
            message_limit: 64 << 20,
            memory_limit: 64 << 20,
            message_timeout_ms: limit.as_millis() as u64,
            ..small(concurrency)
        };
        let (server, _client, path) = serve_with(config, false);
        let payload = vec![5; 2 << 20];
        assert_eq!(path.echo_octets(&payload).unwrap().len(), payload.len());
        let before = resident();
        // 6 GB in all, and 4 KiB of each, so that the block of the first receive does not suffice.
        let mut head = request(&key(&path), "echo_octets", 8);
        head.resize(4096, 7);
        head[8..12].copy_from_slice(&(EACH as u32).to_le_bytes());
        let announcing: Vec<TcpStream> = (0..CONNECTIONS)
            .map(|_| {
                let mut stream = connect(&server);
                stream.write_all(&head).unwrap();
                stream
            })
            .collect();
        assert_eq!(path.echo_octets(&payload).unwrap().len(), payload.len());
        // So much counts as used; a tenth of the limit for each would not fit. What lies in memory
        // includes threads, and the blocks of the other tests of this program.
        let counted = server.buffer_counts().in_use;
        assert!(counted <= (CONNECTIONS as u64 + 16) * (256 << 10), "{counted} octets are counted");
        let taken = resident().saturating_sub(before);
        assert!(taken < 400 << 20, "{taken} bytes for {CONNECTIONS} announcements");
        // They end when their message does not come in time. No other connection does.
        for stream in announcing {
            assert_eq!(until_closed(stream), b"");
        }
        assert_eq!(path.echo_octets(&payload).unwrap().len(), payload.len());
        server.shutdown(false).unwrap();
    }
}

#[test]
fn clients_that_do_not_read_leave_memory_to_others() {
    let (server, _client, path) = serve_with(small(Concurrency::Lane), false);
    let message = large_request(&key(&path), 3 << 20);
    let payload = vec![5; 2 << 20];
    let mut greedy = Vec::new();
    for _ in 0..20 {
        let mut stream = connect(&server);
        stream.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
        // Until the sockets accept no more: their buffers are no block of the server.
        while stream.write_all(&message).is_ok() {}
        greedy.push(stream);
        path.ping().unwrap();
        assert_eq!(path.echo_octets(&payload).unwrap().len(), payload.len());
    }
    server.shutdown(false).unwrap();
}

#[test]
fn a_message_that_has_begun_must_arrive_in_time() {
    for concurrency in BOTH {
        let limit = Duration::from_millis(300);
        let config = Config { message_timeout_ms: limit.as_millis() as u64, ..small(concurrency) };
        let (server, _client, path) = serve_with(config, false);
        let message = large_request(&key(&path), 1 << 20);
        for cut in [1, 11, 13, 5000, message.len() - 1] {
            let begun = Instant::now();
            let mut stream = connect(&server);
            stream.write_all(&message[..cut]).unwrap();
            let answer = until_closed(stream);
            assert!(answer.is_empty(), "{answer:?}");
            assert!(begun.elapsed() >= limit, "closed before its time");
            path.ping().unwrap();
        }
        // Sending in pieces does not avoid the limit.
        let mut stream = connect(&server);
        let mut pieces = message.chunks(64);
        let ended = loop {
            match stream.write_all(pieces.next().unwrap()) {
                Ok(()) => std::thread::sleep(Duration::from_millis(20)),
                Err(error) => break error.kind(),
            }
        };
        assert!(matches!(ended, std::io::ErrorKind::BrokenPipe | std::io::ErrorKind::ConnectionReset));
        // An idle connection stays open.
        let mut idle = connect(&server);
        let ping = request(&key(&path), "ping", 3);
        for _ in 0..2 {
            idle.write_all(&ping).unwrap();
            let mut reply = [0; 24];
            idle.read_exact(&mut reply).unwrap();
            assert_eq!((reply[7], reply[16]), (1, 0));
            std::thread::sleep(2 * limit);
        }
        server.shutdown(true).unwrap();
    }
}

#[test]
fn clients_beyond_the_limit_are_turned_away_in_order() {
    for concurrency in BOTH {
        // A client that is admitted against the rule would wait for ever.
        let config =
            Config { concurrency, max_connections: 3, first_request_timeout_ms: 0, ..Config::default() };
        let server = Orb::with_config(config).unwrap();
        let root = server.root_poa().unwrap();
        let near: PathRef = root.activate(Arc::new(Parrot::default())).unwrap();
        let background = server.clone();
        std::thread::spawn(move || background.run());
        let message = request(&key(&near), "ping", 1);
        let ping = |stream: &mut TcpStream| {
            stream.write_all(&message).unwrap();
            let mut reply = [0; 24];
            stream.read_exact(&mut reply).map(|()| reply[7])
        };
        let mut admitted: Vec<TcpStream> = (0..3).map(|_| connect(&server)).collect();
        for stream in &mut admitted {
            assert_eq!(ping(stream).unwrap(), 1);
            // One that has begun a request is in use. An idle one would be evicted for the next.
            stream.write_all(&message[..20]).unwrap();
        }
        let turned_away = until_closed(connect(&server));
        assert_eq!(turned_away.get(7), Some(&5), "CloseConnection");
        admitted.pop();
        // There is room as soon as the server has seen the end.
        let mut again = loop {
            let mut stream = connect(&server);
            if ping(&mut stream).is_ok_and(|kind| kind == 1) {
                break stream;
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        assert_eq!(ping(&mut again).unwrap(), 1);
        server.shutdown(false).unwrap();
    }
}

#[test]
fn requests_with_flipped_bits_do_no_harm() {
    for concurrency in BOTH {
        let (server, _client, path) = serve(concurrency, false);
        let good = request(&key(&path), "echo_picture", 9);
        let mut seed = 1u32;
        for _ in 0..400 {
            let mut message = good.clone();
            for _ in 0..3 {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let at = 12 + (seed >> 8) as usize % (message.len() - 12);
                message[at] ^= 1 << (seed & 7);
            }
            let mut stream = connect(&server);
            stream.write_all(&message).unwrap();
            // The input ends: in any case, the server replies or closes.
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            let answer = until_closed(stream);
            assert!(answer.is_empty() || answer.starts_with(b"GIOP"));
        }
        path.ping().unwrap();
        server.shutdown(true).unwrap();
    }
}
