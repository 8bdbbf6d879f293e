//! One connection: it reads one head, writes one answer, and ends.

use crate::Probes;
use crate::board::SampleBoard;
use crate::request::{self, MAX_HEAD, Refusal, Request, Resource};
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

const PAGE: &str = include_str!("page/page.html");
/// The parts of the page's script, in the order in which they run.
const SCRIPTS: [&str; 5] = [
    isorb_page::SPARK,
    include_str!("page/format.js"),
    include_str!("page/columns.js"),
    include_str!("page/services.js"),
    include_str!("page/page.js"),
];
const STYLE: &str = include_str!("page/page.css");

/// The page fetches nothing from elsewhere, has no inline scripts, and stays out of frames.
const HEADERS: &str = "Connection: close\r\n\
    Cache-Control: no-store\r\n\
    Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n\
    Cross-Origin-Resource-Policy: same-origin\r\n\
    Referrer-Policy: no-referrer\r\n\
    X-Content-Type-Options: nosniff\r\n";

/// The state that all connections share.
pub(crate) struct Shared {
    pub board: SampleBoard,
    pub hosts: Vec<String>,
    pub interval: Duration,
    /// How long a client may take to send its head, and to read an answer.
    pub timeout: Duration,
    pub connections: AtomicUsize,
    /// The most connections among them that stay open for events.
    pub streams: AtomicUsize,
    pub max_streams: usize,
    pub unheard: PendingConnections,
    /// Without them there is the page.
    pub probes: Option<Probes>,
}

/// Connections without a complete request, the oldest first. The oldest is evicted at the limit, so
/// that slow clients keep no others out.
#[derive(Default)]
pub(crate) struct PendingConnections(Mutex<VecDeque<(u64, TcpStream)>>);

impl PendingConnections {
    fn list(&self) -> MutexGuard<'_, VecDeque<(u64, TcpStream)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn add(&self, number: u64, stream: &TcpStream) {
        if let Ok(stream) = stream.try_clone() {
            self.list().push_back((number, stream));
        }
    }

    fn remove(&self, number: u64) {
        self.list().retain(|(other, _)| *other != number);
    }

    /// Ends the oldest one; false if there is none.
    pub fn end_oldest(&self) -> bool {
        let oldest = self.list().pop_front();
        oldest.is_some_and(|(_, stream)| stream.shutdown(Shutdown::Both).is_ok())
    }
}

/// One of a bounded number of connections or streams; released when dropped.
pub(crate) struct Permit<'c>(&'c AtomicUsize);

impl<'c> Permit<'c> {
    pub fn take(used: &'c AtomicUsize, limit: usize) -> Option<Permit<'c>> {
        let more = |n: usize| (n < limit).then_some(n + 1);
        used.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).ok().map(|_| Permit(used))
    }

    /// Released later by another owner, which takes it with [`adopt`](Self::adopt).
    pub fn keep(self) {
        std::mem::forget(self);
    }

    pub fn adopt(used: &'c AtomicUsize) -> Permit<'c> {
        Permit(used)
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Serves one client to the end. An error of its socket affects no other client.
pub(crate) fn serve(mut stream: TcpStream, number: u64, shared: &Shared) {
    let deadline = Instant::now() + shared.timeout;
    let _ = stream.set_nodelay(true);
    let head = read_head(&mut stream, deadline);
    shared.unheard.remove(number);
    let requested = match head {
        Ok(Some(head)) => request::parse(&head, &shared.hosts),
        Ok(None) => return,
        Err(refusal) => Err(refusal),
    };
    let deadline = Instant::now() + shared.timeout;
    let done = match requested {
        Ok(request) => answer(&mut stream, request, shared, deadline),
        Err(refusal) => refuse(&mut stream, refusal, deadline),
    };
    if done.is_ok() {
        part(&mut stream, shared.timeout.min(Duration::from_millis(200)));
    }
}

/// Refuses a client because there are too many. Does not block.
pub(crate) fn turn_away(stream: &mut TcpStream) {
    if stream.set_nonblocking(true).is_ok() {
        let _ = stream.write(&refusal(Refusal::Busy));
    }
}

/// The head, with its empty line; `None` if the client has closed or sent nothing.
fn read_head(stream: &mut TcpStream, deadline: Instant) -> Result<Option<Vec<u8>>, Refusal> {
    let mut head = Vec::with_capacity(1024);
    let mut piece = [0; 1024];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Refusal::TooSlow);
        }
        if stream.set_read_timeout(Some(left)).is_err() {
            return Ok(None);
        }
        match stream.read(&mut piece) {
            Ok(0) => return Ok(None),
            Ok(read) => head.extend_from_slice(&piece[..read]),
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => continue,
            Err(_) => return Ok(None),
        }
        match request::end_of_head(&head) {
            Some(end) if end <= MAX_HEAD => {
                head.truncate(end);
                return Ok(Some(head));
            }
            None if head.len() < MAX_HEAD => {}
            _ => return Err(Refusal::TooLarge),
        }
    }
}

fn answer(
    stream: &mut TcpStream,
    request: Request,
    shared: &Shared,
    deadline: Instant,
) -> std::io::Result<()> {
    let body = |stream: &mut TcpStream, kind: &str, body: &str| {
        let mut text = String::with_capacity(HEADERS.len() + body.len() + 128);
        let _ = write!(
            text,
            "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n{HEADERS}\r\n",
            body.len()
        );
        if !request.head_only {
            text.push_str(body);
        }
        write_by(stream, text.as_bytes(), deadline)
    };
    let probe = |stream: &mut TcpStream, good: bool| match good {
        true => body(stream, "text/plain; charset=utf-8", "ok\n"),
        false => refuse(stream, Refusal::NotReady, deadline),
    };
    if let Some(probes) = &shared.probes {
        return match request.resource {
            Resource::Metrics => body(
                stream,
                "application/openmetrics-text; version=1.0.0; charset=utf-8",
                &(probes.metrics)(),
            ),
            Resource::Health => probe(stream, (probes.live)()),
            Resource::Ready => probe(stream, (probes.ready)()),
            _ => refuse(stream, Refusal::NotFound, deadline),
        };
    }
    match request.resource {
        Resource::Metrics | Resource::Health | Resource::Ready => refuse(stream, Refusal::NotFound, deadline),
        Resource::Page => body(stream, "text/html; charset=utf-8", PAGE),
        Resource::Script => body(stream, "text/javascript; charset=utf-8", &SCRIPTS.concat()),
        Resource::Style => body(
            stream,
            "text/css; charset=utf-8",
            &[isorb_page::STYLE, isorb_page::SPARK_STYLE, STYLE].concat(),
        ),
        Resource::State => {
            let news = shared.board.subscribe(shared.interval).next(shared.timeout);
            let deadline = Instant::now() + shared.timeout;
            match news {
                Some(text) => write_state(stream, &text, request.head_only, deadline),
                None => refuse(stream, Refusal::NoNews, deadline),
            }
        }
        Resource::Events => match Permit::take(&shared.streams, shared.max_streams) {
            Some(_place) => events(stream, request, shared),
            None => refuse(stream, Refusal::Busy, deadline),
        },
    }
}

fn write_state(
    stream: &mut TcpStream,
    text: &str,
    head_only: bool,
    deadline: Instant,
) -> std::io::Result<()> {
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n{HEADERS}\r\n",
        text.len()
    );
    write_by(stream, head.as_bytes(), deadline)?;
    if head_only { Ok(()) } else { write_by(stream, text.as_bytes(), deadline) }
}

/// Sends the numbers as they arrive, until the client closes or does not read them in time.
fn events(stream: &mut TcpStream, request: Request, shared: &Shared) -> std::io::Result<()> {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n{HEADERS}\r\nretry: 2000\n\n");
    let head = match request.head_only {
        true => &head[..head.len() - "retry: 2000\n\n".len()],
        false => &head,
    };
    write_by(stream, head.as_bytes(), Instant::now() + shared.timeout)?;
    if request.head_only {
        return Ok(());
    }
    let mut reader = shared.board.subscribe(shared.interval);
    while !shared.board.is_stopped() {
        // A source that hangs has no new numbers; a comment line checks whether the client is still
        // connected.
        let text = match reader.next(shared.interval + shared.timeout) {
            Some(news) => format!("data: {news}\n\n"),
            None => ":\n\n".to_owned(),
        };
        write_by(stream, text.as_bytes(), Instant::now() + shared.timeout)?;
    }
    Ok(())
}

fn refusal(refusal: Refusal) -> Vec<u8> {
    let (status, sentence) = refusal.answer();
    let allow = if refusal == Refusal::Method { "Allow: GET, HEAD\r\n" } else { "" };
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n{allow}{HEADERS}\r\n{sentence}\n",
        sentence.len() + 1
    )
    .into_bytes()
}

fn refuse(stream: &mut TcpStream, why: Refusal, deadline: Instant) -> std::io::Result<()> {
    write_by(stream, &refusal(why), deadline)
}

/// Writes all octets before the deadline, however small the pieces are that the client reads.
fn write_by(stream: &mut TcpStream, mut octets: &[u8], deadline: Instant) -> std::io::Result<()> {
    while !octets.is_empty() {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        stream.set_write_timeout(Some(left))?;
        match stream.write(octets) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(written) => octets = &octets[written..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Ends the connection so that the client gets the answer. Closing a socket with unread octets
/// resets the connection, and the answer is lost. So a bounded number of octets is read for a short
/// time.
fn part(stream: &mut TcpStream, timeout: Duration) {
    let until = Instant::now() + timeout;
    if stream.shutdown(Shutdown::Write).is_err() {
        return;
    }
    let mut piece = [0; 4096];
    for _ in 0..16 {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || stream.set_read_timeout(Some(left)).is_err() {
            return;
        }
        if !stream.read(&mut piece).is_ok_and(|read| read > 0) {
            return;
        }
    }
}
