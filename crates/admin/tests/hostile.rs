//! Hostile clients are refused, and other clients are not affected.

use isorb_admin::{Admin, Options, Source};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

struct Count(u64);

impl Source for Count {
    fn sample(&mut self) -> String {
        self.0 += 1;
        format!("{{\"kind\":\"test\",\"number\":{}}}", self.0)
    }
}

/// More than a loaded machine needs.
const LONG: Duration = Duration::from_secs(60);

fn admin(options: Options) -> Admin {
    Admin::start("127.0.0.1:0".parse().unwrap(), options, Count(0)).unwrap()
}

fn connect(admin: &Admin) -> TcpStream {
    let stream = TcpStream::connect(admin.address()).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream
}

/// All that comes until the connection ends, in whatever way it does.
fn rest(stream: &mut TcpStream) -> String {
    let mut all = Vec::new();
    let mut piece = [0; 4096];
    while let Ok(read) = stream.read(&mut piece) {
        if read == 0 {
            break;
        }
        all.extend_from_slice(&piece[..read]);
    }
    String::from_utf8(all).unwrap()
}

/// Reads until `what` has come.
fn until(stream: &mut TcpStream, what: &str) -> String {
    let mut text = String::new();
    let mut piece = [0; 4096];
    while !text.contains(what) {
        let read = stream.read(&mut piece).unwrap();
        assert!(read > 0, "the end, before {what:?}: {text}");
        text.push_str(std::str::from_utf8(&piece[..read]).unwrap());
    }
    text
}

fn request(admin: &Admin, head: &str) -> String {
    let mut stream = connect(admin);
    stream.write_all(head.as_bytes()).unwrap();
    rest(&mut stream)
}

fn get(admin: &Admin, path: &str) -> String {
    request(admin, &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"))
}

fn is_well(admin: &Admin) {
    // A permit that was just released may still count.
    let start = Instant::now();
    loop {
        let answer = get(admin, "/state");
        if answer.starts_with("HTTP/1.1 200") {
            return assert!(answer.contains("\"kind\":\"test\""), "{answer}");
        }
        assert!(start.elapsed() < LONG, "{answer}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn what_is_there_is_answered() {
    let admin = admin(Options::default());
    for (path, kind) in [("/", "text/html"), ("/page.js", "text/javascript"), ("/page.css", "text/css")] {
        let answer = get(&admin, path);
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains(kind), "{answer}");
        assert!(answer.contains("Content-Security-Policy: default-src 'none'"), "{answer}");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{head}");
        let only = request(&admin, &format!("HEAD {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        assert_eq!(only.strip_suffix("\r\n\r\n"), Some(head));
    }
    // The page fetches nothing from elsewhere.
    let all = ["/", "/page.js", "/page.css"].map(|path| get(&admin, path)).concat();
    assert!(!all.contains("https://") && !all.replace("http://www.w3.org/2000/svg", "").contains("http://"));
    assert!(get(&admin, "/state").contains("application/json"));
    is_well(&admin);
}

#[test]
fn events_come_and_end_with_the_page() {
    let admin = admin(Options { interval: Duration::from_millis(5), ..Options::default() });
    let mut stream = connect(&admin);
    stream.write_all(b"GET /events HTTP/1.1\r\nHost: [::1]:1\r\n\r\n").unwrap();
    let text = until(&mut stream, "\"number\":3}\n\n");
    assert!(text.contains("text/event-stream") && text.contains("data: {\"kind\":\"test\""), "{text}");
    drop(admin);
    rest(&mut stream);
}

#[test]
fn names_of_others_and_changes_are_refused() {
    let admin = admin(Options { hosts: vec!["panel".into()], ..Options::default() });
    let with = |host: &str| request(&admin, &format!("GET /state HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    for good in ["localhost:1", "127.0.0.1", "PANEL:80"] {
        assert!(with(good).starts_with("HTTP/1.1 200"), "{good}");
    }
    let answer = with("rebound.example");
    assert!(answer.starts_with("HTTP/1.1 421") && !answer.contains("number"), "{answer}");
    for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
        let answer = request(&admin, &format!("{method} /state HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        assert!(answer.starts_with("HTTP/1.1 405") && answer.contains("Allow: GET, HEAD\r\n"), "{answer}");
    }
    assert!(request(&admin, "GET /state HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 400"));
    is_well(&admin);
}

#[test]
fn huge_heads_and_noise_are_refused() {
    let admin = admin(Options::default());
    let huge = format!("GET / HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "x".repeat(20_000));
    assert!(request(&admin, &huge).starts_with("HTTP/1.1 431"));
    let many = format!("GET / HTTP/1.1\r\nHost: localhost\r\n{}\r\n", "X: y\r\n".repeat(500));
    assert!(request(&admin, &many).starts_with("HTTP/1.1 431"));
    let endless = "x".repeat(9_000);
    assert!(request(&admin, &endless).starts_with("HTTP/1.1 431"));
    assert!(request(&admin, "\0\u{1}\u{2}\r\n\r\n").starts_with("HTTP/1.1 400"));
    let body = "GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello";
    assert!(request(&admin, body).starts_with("HTTP/1.1 413"));
    // Half a request, and gone.
    let mut half = connect(&admin);
    half.write_all(b"GET /sta").unwrap();
    half.shutdown(Shutdown::Write).unwrap();
    assert_eq!(rest(&mut half), "");
    is_well(&admin);
}

#[test]
fn slow_clients_lose_their_places() {
    let timeout = Duration::from_millis(300);
    let admin = admin(Options { connections: 2, streams: 1, timeout, ..Options::default() });
    // Two that say nothing, and two places.
    let mut silent = [connect(&admin), connect(&admin)];
    for silent in &mut silent {
        assert!(rest(silent).starts_with("HTTP/1.1 408"));
    }
    // A client that sends an octet now and then gets no more time by that.
    let mut dribble = connect(&admin);
    let start = Instant::now();
    while dribble.write_all(b"x").is_ok() {
        assert!(start.elapsed() < LONG, "it may go on for ever");
        std::thread::sleep(Duration::from_millis(30));
    }
    is_well(&admin);
}

#[test]
fn too_many_are_turned_away() {
    let admin =
        admin(Options { connections: 4, streams: 2, timeout: Duration::from_secs(2), ..Options::default() });
    let watch = || {
        let mut stream = connect(&admin);
        stream.write_all(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        stream
    };
    let mut watchers = [watch(), watch()];
    for watcher in &mut watchers {
        until(watcher, "data: ");
    }
    assert!(rest(&mut watch()).starts_with("HTTP/1.1 503"), "there are two streams");
    is_well(&admin);
    // At most two connections are left; of more silent clients the oldest are closed.
    let mut held = [(); 6].map(|()| connect(&admin));
    let answers = held.each_mut().map(rest);
    let waited = answers.iter().filter(|answer| answer.starts_with("HTTP/1.1 408")).count();
    assert!(waited <= 2, "{answers:?}");
    is_well(&admin);
    // A viewer that leaves frees its connection.
    let [first, second] = watchers;
    drop(first);
    let start = Instant::now();
    loop {
        let mut stream = watch();
        let mut piece = [0; 32];
        let read = stream.read(&mut piece).unwrap_or(0);
        if piece[..read].starts_with(b"HTTP/1.1 200") {
            break;
        }
        assert!(start.elapsed() < LONG, "the place is not given back");
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(second);
}

/// A source with so many numbers that they fill any socket's buffers.
struct Much;

impl Source for Much {
    fn sample(&mut self) -> String {
        format!("\"{}\"", "x".repeat(1 << 20))
    }
}

#[test]
fn a_viewer_that_does_not_read_is_dropped() {
    let options = Options {
        interval: Duration::from_millis(5),
        timeout: Duration::from_millis(300),
        streams: 1,
        ..Options::default()
    };
    let admin = Admin::start("127.0.0.1:0".parse().unwrap(), options, Much).unwrap();
    let watch = || {
        let mut stream = connect(&admin);
        stream.write_all(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        stream
    };
    let mut deaf = watch();
    until(&mut deaf, "data: ");
    let start = Instant::now();
    // The place is free when the deaf one has been dropped.
    loop {
        let mut stream = watch();
        let mut piece = [0; 12];
        stream.read_exact(&mut piece).unwrap();
        if &piece == b"HTTP/1.1 200" {
            break;
        }
        assert!(start.elapsed() < LONG, "it is not dropped");
        std::thread::sleep(Duration::from_millis(20));
    }
}
