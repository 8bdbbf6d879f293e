//! Two processes on two hosts that hand octets to and fro, over libfabric and, as the control, over
//! TCP.
//!
//! ```text
//! cargo run --release --example pingpong -- [OCTETS [PROVIDER]]       two network namespaces, made and removed
//! cargo run --release --example pingpong -- serve ADDRESS OCTETS [PROVIDER]
//! cargo run --release --example pingpong -- call ADDRESS OCTETS [PROVIDER]    for two real hosts
//! ```
//!
//! A server listens at the address over libfabric and at the next port over TCP. Prints the medians
//! of the rounds' medians and 99th percentiles; rounds of both transports take turns.

use isorb_fabric::Fabric;
use isorb_netlab::{Lab, LinkSpec, Sorting};
use isorb_rt::time::now_ns;
use isorb_transport::conformance::{receive, send_all};
use isorb_transport::{Stream, Tcp, Transport, Wait};
use std::io;
use std::process::{Command, Stdio};
use std::time::Duration;

const ROUNDS: usize = 9;
const CALLS: usize = 2000;
const PORT: u16 = 7711;

fn transports(provider: &str) -> [(&'static str, Box<dyn Transport>); 2] {
    [
        ("libfabric", Box::new(Fabric { provider: provider.into(), ..Fabric::default() })),
        ("tcp (control)", Box::new(Tcp)),
    ]
}

/// The address of the second transport: the next port.
fn address_of(address: &str, transport: usize) -> String {
    let (host, port) = address.rsplit_once(':').expect("host:port");
    format!("{host}:{}", port.parse::<u16>().expect("a port") + transport as u16)
}

fn serve(address: &str, octets: usize, provider: &str) -> io::Result<()> {
    std::thread::scope(|scope| {
        for (i, (_, transport)) in transports(provider).into_iter().enumerate() {
            let listener = transport.listen(&address_of(address, i))?;
            scope.spawn(move || -> io::Result<()> {
                loop {
                    let stream = listener.accept(Wait::Block)?;
                    while let Ok(message) = receive(&*stream, octets, octets) {
                        send_all(&*stream, &message)?;
                    }
                }
            });
        }
        println!("ready");
        Ok(())
    })
}

fn connect(transport: &dyn Transport, address: &str) -> io::Result<Box<dyn Stream>> {
    let mut last = None;
    for _ in 0..200 {
        match transport.connect(address, Some(Duration::from_secs(5))) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = Some(error),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Err(last.expect("it was tried"))
}

fn call(address: &str, octets: usize, provider: &str) -> io::Result<()> {
    let mut open = Vec::new();
    for (i, (name, transport)) in transports(provider).into_iter().enumerate() {
        open.push((name, connect(&*transport, &address_of(address, i))?, Vec::new()));
    }
    let message = vec![7; octets];
    for _ in 0..ROUNDS {
        for (_, stream, rounds) in &mut open {
            let mut times = Vec::with_capacity(CALLS);
            for _ in 0..CALLS {
                let start = now_ns();
                send_all(&**stream, &message)?;
                receive(&**stream, octets, octets)?;
                times.push(now_ns() - start);
            }
            times.sort_unstable();
            rounds.push((times[CALLS / 2], times[CALLS * 99 / 100]));
        }
    }
    for (name, _, rounds) in &mut open {
        let mut median_of = |part: fn(&(u64, u64)) -> u64| {
            rounds.sort_unstable_by_key(part);
            part(&rounds[ROUNDS / 2]) as f64 / 1000.0
        };
        let (median, p99) = (median_of(|round| round.0), median_of(|round| round.1));
        println!("{name:14} {octets:8} octets   to and fro: median {median:7.1} us   p99 {p99:7.1} us");
    }
    Ok(())
}

fn between_namespaces(octets: usize, provider: &str) -> io::Result<()> {
    let spec = LinkSpec { rate_kbit: 10_000_000, sorting: Sorting::one_queue() };
    let lab = Lab::build(&spec).map_err(|error| io::Error::other(error.to_string()))?;
    let address = format!("{}:{PORT}", lab.left().address());
    let program = std::env::current_exe()?;
    let run = |mut command: Command, what: &str| {
        command.args([what, &address, &octets.to_string(), provider]);
        command
    };
    let mut server = run(lab.left().command(&program), "serve").stdout(Stdio::null()).spawn()?;
    let status = run(lab.right().command(&program), "call").status();
    server.kill()?;
    server.wait()?;
    if status?.success() { Ok(()) } else { Err(io::Error::other("the calling process failed")) }
}

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let number = |octets: &str| {
        octets.parse().map_err(|_| io::Error::other(format!("{octets} is no number of octets")))
    };
    match arguments[..] {
        ["serve", address, octets] => serve(address, number(octets)?, "tcp"),
        ["serve", address, octets, provider] => serve(address, number(octets)?, provider),
        ["call", address, octets] => call(address, number(octets)?, "tcp"),
        ["call", address, octets, provider] => call(address, number(octets)?, provider),
        [] => between_namespaces(80, "tcp"),
        [octets] => between_namespaces(number(octets)?, "tcp"),
        [octets, provider] => between_namespaces(number(octets)?, provider),
        _ => Err(io::Error::other("see the first lines of examples/pingpong.rs")),
    }
}
