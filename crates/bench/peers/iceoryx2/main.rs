//! iceoryx2's request and response as a peer of the benchmark: `peer server`, `peer client NAME`.
//! Both ends poll.
//!
//! A void call carries one number each way, which is iceoryx2 at its fastest; an echo carries
//! octets, which each side writes once. With `--in-place` (`peer server --in-place`, `peer client
//! --in-place NAME`) neither side writes or reads them. It obeys the lines of the protocol in
//! crates/bench/src/protocol.rs.

use std::error::Error;
use std::hint::spin_loop;
use std::io::{self, BufRead, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use iceoryx2::port::client::Client;
use iceoryx2::port::server::Server;
use iceoryx2::prelude::*;

type Result<T> = std::result::Result<T, Box<dyn Error>>;
type Service<Payload> =
    iceoryx2::service::port_factory::request_response::PortFactory<ipc::Service, Payload, (), Payload, ()>;
type Calls<Payload> = Client<ipc::Service, Payload, (), Payload, ()>;

/// The longest echo.
const LONGEST: usize = 1 << 20;
/// A server that has not been called for so long sleeps between looks, so that it does not spin
/// while others have their turn.
const AWAKE: Duration = Duration::from_millis(5);
const NAP: Duration = Duration::from_micros(500);

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["server"] => serve(false),
        ["server", "--in-place"] => serve(true),
        ["client", name] => call(name, false),
        ["client", "--in-place", name] => call(name, true),
        _ => Err("expected: server, or client NAME, each with or without --in-place".into()),
    }
}

struct Services {
    void: Service<u64>,
    echo: Service<[u8]>,
    // Owns what the others use.
    _node: Node<ipc::Service>,
}

impl Services {
    fn open(name: &str) -> Result<Services> {
        let node = NodeBuilder::new().create::<ipc::Service>()?;
        let named = |kind: &str| ServiceName::new(&format!("{name}/{kind}"));
        let void = node.service_builder(&named("void")?).request_response::<u64, u64>();
        let echo = node.service_builder(&named("echo")?).request_response::<[u8], [u8]>();
        Ok(Services { void: void.open_or_create()?, echo: echo.open_or_create()?, _node: node })
    }
}

fn serve(in_place: bool) -> Result<()> {
    let name = format!("isorb-bench/{}", std::process::id());
    let services = Services::open(&name)?;
    let void: Server<_, u64, (), u64, ()> = services.void.server_builder().create()?;
    let echo: Server<_, [u8], (), [u8], ()> =
        services.echo.server_builder().initial_max_slice_len(LONGEST).create()?;
    let ended = Arc::new(AtomicBool::new(false));
    let end = ended.clone();
    std::thread::spawn(move || {
        // Whatever is said, only the end matters.
        let _ = io::stdin().lock().read_to_end(&mut Vec::new());
        end.store(true, Ordering::Relaxed);
    });
    println!("ready {name}");
    let mut called = Instant::now();
    let mut idle = 0u32;
    while !ended.load(Ordering::Relaxed) {
        if let Some(request) = void.receive()? {
            request.send_copy(*request)?;
            idle = 0;
        } else if let Some(request) = echo.receive()? {
            let payload = request.payload();
            let response = request.loan_slice_uninit(payload.len())?;
            if in_place {
                // SAFETY: shared memory holds zeros or octets of an earlier response, and every
                // value is an octet.
                unsafe { response.assume_init() }.send()?;
            } else {
                response.write_from_slice(payload).send()?;
            }
            idle = 0;
        } else {
            spin_loop();
            if idle == 0 {
                called = Instant::now();
            }
            idle = idle.wrapping_add(1).max(1);
            // The clock is read seldom enough to cost a call nothing.
            if idle % 1024 == 0 && called.elapsed() > AWAKE {
                std::thread::sleep(NAP);
            }
        }
    }
    Ok(())
}

fn call(name: &str, in_place: bool) -> Result<()> {
    let services = Services::open(name)?;
    let void: Calls<u64> = services.void.client_builder().create()?;
    let echo: Calls<[u8]> = services.echo.client_builder().initial_max_slice_len(LONGEST).create()?;
    one(&void)?;
    println!("ready");
    let octets = vec![1; LONGEST];
    let mut samples: Vec<u64> = Vec::new();
    for line in io::stdin().lock().lines() {
        let line = line?;
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let ["block", case, size, warm, calls] = words[..] else { return Err("no such order".into()) };
        let (size, warm, calls): (usize, usize, usize) = (size.parse()?, warm.parse()?, calls.parse()?);
        let octets = octets.get(..size).ok_or("too long")?;
        samples.clear();
        samples.resize(calls, 0);
        match case {
            "void" => block(warm, &mut samples, || one(&void))?,
            "octets" => block(warm, &mut samples, || there_and_back(&echo, octets, in_place))?,
            _ => return Err(format!("{case} is not measured").into()),
        }
        let mut output = io::stdout().lock();
        writeln!(output, "samples {}", samples.len())?;
        for sample in &samples {
            output.write_all(&sample.to_ne_bytes())?;
        }
        output.flush()?;
    }
    Ok(())
}

fn block(warm: usize, samples: &mut [u64], mut call: impl FnMut() -> Result<()>) -> Result<()> {
    for _ in 0..warm {
        call()?;
    }
    for sample in samples {
        let start = Instant::now();
        call()?;
        *sample = start.elapsed().as_nanos() as u64;
    }
    Ok(())
}

fn one(client: &Calls<u64>) -> Result<()> {
    let pending = client.send_copy(1)?;
    while pending.receive()?.is_none() {
        spin_loop();
    }
    Ok(())
}

fn there_and_back(client: &Calls<[u8]>, octets: &[u8], in_place: bool) -> Result<()> {
    let request = client.loan_slice_uninit(octets.len())?;
    let pending = if in_place {
        // SAFETY: as in `serve`.
        unsafe { request.assume_init() }.send()?
    } else {
        request.write_from_slice(octets).send()?
    };
    loop {
        if let Some(response) = pending.receive()? {
            return if response.payload().len() == octets.len() { Ok(()) } else { Err("cut short".into()) };
        }
        spin_loop();
    }
}
