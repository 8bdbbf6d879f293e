//! The control: the bytes of the GIOP messages over a plain blocking connection, without an ORB:
//! TCP, a unix socket, or rustls.
//!
//! One thread a side, `read_exact` and `write_all` on buffers that are there already: what the
//! kernel takes for the traffic, and so the least that any ORB over TCP can take.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use super::tls;
use crate::cases::Case;
use crate::protocol::{Client, exit_at_end_of_input, obey, ready};

/// The largest message that either side has a buffer for.
const LARGEST: usize = (1 << 20) + 4096;

/// What the client says before a block, so that the server knows the lengths, as five numbers of
/// four octets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Plan {
    request: u32,
    reply: u32,
    calls: u32,
    // The two-way calls that end a burst.
    end_request: u32,
    end_reply: u32,
}

impl Plan {
    const BYTES: usize = 20;

    fn new(case: Case, calls: usize) -> Plan {
        let (end_request, end_reply) = Case::fed_bytes();
        let all = [case.request_bytes(), case.reply_bytes(), calls, end_request, end_reply];
        Plan::of(all.map(|n| u32::try_from(n).unwrap_or(u32::MAX)))
    }

    fn of([request, reply, calls, end_request, end_reply]: [u32; 5]) -> Plan {
        Plan { request, reply, calls, end_request, end_reply }
    }

    fn to_bytes(self) -> Vec<u8> {
        let Plan { request, reply, calls, end_request, end_reply } = self;
        [request, reply, calls, end_request, end_reply]
            .iter()
            .flat_map(|number| number.to_le_bytes())
            .collect()
    }

    fn from_bytes(bytes: [u8; Plan::BYTES]) -> io::Result<Plan> {
        let (chunks, _) = bytes.as_chunks::<4>();
        let plan = Plan::of(std::array::from_fn(|i| u32::from_le_bytes(chunks[i])));
        let longest = plan.request.max(plan.reply).max(plan.end_request).max(plan.end_reply);
        if longest as usize > LARGEST { Err(ErrorKind::InvalidData.into()) } else { Ok(plan) }
    }
}

/// Serves one connection over TCP at an address of `host`, a unix socket, or TLS with the
/// certificates of a folder.
pub fn serve(host: &str, unix: bool, tls: Option<&Path>) -> io::Result<()> {
    exit_at_end_of_input();
    if unix {
        let path = std::env::temp_dir().join(format!("isorb-bench-raw-{}", std::process::id()));
        // Of a process of the same number that was killed.
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path)?;
        ready(path.display())?;
        let (stream, _) = listener.accept()?;
        std::fs::remove_file(&path)?;
        return until_the_end(stream);
    }
    let listener = TcpListener::bind((host, 0))?;
    ready(listener.local_addr()?)?;
    let (stream, _) = listener.accept()?;
    stream.set_nodelay(true)?;
    match tls {
        Some(folder) => until_the_end(tls::accepted(folder, stream)?),
        None => until_the_end(stream),
    }
}

fn until_the_end(stream: impl Read + Write) -> io::Result<()> {
    match answer(stream) {
        Err(e) if e.kind() == ErrorKind::UnexpectedEof => {}
        other => return other,
    }
    // The client has gone; the process stays until it is told to end, as the other servers do.
    loop {
        std::thread::park();
    }
}

fn answer(mut stream: impl Read + Write) -> io::Result<()> {
    let mut buffer = vec![1; LARGEST];
    loop {
        let mut plan = [0; Plan::BYTES];
        stream.read_exact(&mut plan)?;
        let plan = Plan::from_bytes(plan)?;
        for _ in 0..plan.calls {
            stream.read_exact(&mut buffer[..plan.request as usize])?;
            if plan.reply > 0 {
                stream.write_all(&buffer[..plan.reply as usize])?;
            }
        }
        if plan.reply == 0 {
            stream.read_exact(&mut buffer[..plan.end_request as usize])?;
            stream.write_all(&buffer[..plan.end_reply as usize])?;
        }
    }
}

/// Calls the server at `address` as the harness orders.
pub fn call(unix: bool, tls: Option<&Path>, address: &str) -> io::Result<()> {
    if unix {
        return obey(&mut Caller::new(UnixStream::connect(address)?));
    }
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    match tls {
        Some(folder) => obey(&mut Caller::new(tls::connected(folder, stream)?)),
        None => obey(&mut Caller::new(stream)),
    }
}

struct Caller<S> {
    stream: S,
    plan: Option<Plan>,
    buffer: Vec<u8>,
}

impl<S: Read + Write> Caller<S> {
    fn new(stream: S) -> Caller<S> {
        Caller { stream, plan: None, buffer: vec![1; LARGEST] }
    }

    #[inline]
    fn exchange(&mut self, request: u32, reply: u32) -> io::Result<()> {
        self.stream.write_all(&self.buffer[..request as usize])?;
        if reply > 0 {
            self.stream.read_exact(&mut self.buffer[..reply as usize])?;
        }
        Ok(())
    }

    fn plan(&self) -> io::Result<Plan> {
        self.plan.ok_or(ErrorKind::InvalidInput.into())
    }
}

impl<S: Read + Write> Client for Caller<S> {
    type Error = io::Error;

    fn prepare(&mut self, case: Case, calls: usize) -> io::Result<()> {
        let plan = Plan::new(case, calls);
        self.plan = Some(plan);
        self.stream.write_all(&plan.to_bytes())
    }

    fn call(&mut self) -> io::Result<()> {
        let plan = self.plan()?;
        self.exchange(plan.request, plan.reply)
    }

    fn arrived(&mut self) -> io::Result<()> {
        let plan = self.plan()?;
        self.exchange(plan.end_request, plan.end_reply)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::Kind;

    fn pair() -> (Caller<TcpStream>, std::thread::JoinHandle<io::Result<()>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let server = std::thread::spawn(move || answer(listener.accept().unwrap().0));
        (Caller::new(stream), server)
    }

    #[test]
    fn every_case_runs_on_one_connection() {
        let (mut caller, server) = pair();
        for case in Case::all() {
            caller.prepare(case, 3).unwrap();
            for _ in 0..3 {
                caller.call().unwrap();
            }
            if case.kind == Kind::Oneway {
                caller.arrived().unwrap();
            }
        }
        drop(caller);
        assert_eq!(server.join().unwrap().unwrap_err().kind(), ErrorKind::UnexpectedEof);
    }

    #[test]
    fn a_plan_beyond_the_buffers_is_refused() {
        let mut plan = Plan::new(Case { kind: Kind::Void, size: 0 }, 1);
        assert_eq!(Plan::from_bytes(plan.to_bytes().try_into().unwrap()).unwrap(), plan);
        plan.reply = u32::MAX;
        assert_eq!(
            Plan::from_bytes(plan.to_bytes().try_into().unwrap()).unwrap_err().kind(),
            ErrorKind::InvalidData
        );
    }
}
