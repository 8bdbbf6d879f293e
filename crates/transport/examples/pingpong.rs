//! Two processes that hand 80 octets, or as many as wanted, to and fro over each transport.
//!
//! ```text
//! cargo run --release -p isorb-transport --example pingpong -- [CORES] [OCTETS]
//! ```
//!
//! With one core both sleep and wake each other, with two they spin where the transport does.
//! Prints the median of the medians of interleaved rounds.

use isorb_rt::sched::{Cpus, set_current_cpus};
use isorb_rt::time::now_ns;
use isorb_transport::conformance::{receive, send_all};
use isorb_transport::{Segments, Stream, Tcp, Transport, Unix, Wait};
use std::process::{Child, Command, Stdio};

const ROUNDS: usize = 9;

fn subjects() -> Vec<(&'static str, Box<dyn Transport>, &'static str)> {
    vec![
        ("segment", Box::new(Segments::default()), ""),
        ("unix", Box::new(Unix::default()), ""),
        ("tcp", Box::new(Tcp), "127.0.0.1:0"),
    ]
}

/// Pins this process to a processor.
fn pin(processor: usize) {
    set_current_cpus(&Cpus::one(processor)).expect("a processor of this machine");
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, side, address, octets, processor] = &arguments[..]
        && let Some(name) = side.strip_prefix("peer-")
    {
        pin(processor.parse().unwrap());
        let (_, transport, _) = subjects().into_iter().find(|subject| subject.0 == name).unwrap();
        let stream = transport.connect(address, None).unwrap();
        let octets = octets.parse().unwrap();
        send_all(&*stream, b"!").unwrap();
        while let Ok(message) = receive(&*stream, octets, octets) {
            send_all(&*stream, &message).unwrap();
        }
        return;
    }
    let cores = arguments.get(1).map_or(1, |n| n.parse().unwrap());
    let octets = arguments.get(2).map_or(80, |n| n.parse().unwrap());
    pin(0);
    let mut open: Vec<(&str, Box<dyn Stream>, Child)> = Vec::new();
    for (name, transport, address) in subjects() {
        let listener = transport.listen(address).unwrap();
        let peer = Command::new(std::env::current_exe().unwrap())
            .args([
                &format!("peer-{name}"),
                listener.address(),
                &octets.to_string(),
                &(cores - 1).to_string(),
            ])
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let stream = listener.accept(Wait::Block).unwrap();
        receive(&*stream, 1, 1).unwrap();
        open.push((name, stream, peer));
    }
    let message = vec![7; octets];
    let calls = if octets > 4096 { 2_000 } else { 20_000 };
    let mut medians = vec![Vec::new(); open.len()];
    for _ in 0..ROUNDS {
        for ((_, stream, _), medians) in open.iter().zip(&mut medians) {
            let mut times: Vec<u64> = (0..calls)
                .map(|_| {
                    let begin = now_ns();
                    send_all(&**stream, &message).unwrap();
                    receive(&**stream, octets, octets).unwrap();
                    now_ns() - begin
                })
                .collect();
            times.sort_unstable();
            medians.push(times[times.len() / 2]);
        }
    }
    for ((name, stream, mut peer), mut medians) in open.into_iter().zip(medians) {
        medians.sort_unstable();
        println!(
            "{name:<8} {octets} octets, {cores} core(s): p50 {:.2} us",
            medians[ROUNDS / 2] as f64 / 1e3
        );
        drop(stream);
        let _ = peer.wait();
    }
}
