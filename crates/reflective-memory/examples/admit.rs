//! What admission alone costs: `cargo run --release -p isorb-reflective-memory --example admit
//! [channels]`.
//!
//! Equal channels as a plant has them, and channels of mixed periods, at the writer's and at the
//! reader's end. No network, no thread.

use isorb_reflective_memory::admission::{ChannelRequest, NodeAdmission, NodeConfig, Sender};
use isorb_reflective_memory::wire::Channel;
use std::time::{Duration, Instant};

fn main() {
    let channels = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(1_000);
    let ms = 1_000_000;
    let equal = |_: u64| ChannelRequest { period_ns: 1_000 * ms, deadline_ns: 900 * ms };
    let mixed = |n: u64| {
        let period_ns = (1_000 + n * 7_919 % 9_000) * ms;
        ChannelRequest { period_ns, deadline_ns: period_ns / 10 * 9 }
    };
    println!("{:>8} {:>6} {:>12} {:>12}", "wishes", "nth", "push", "receive");
    run("equal", channels, equal);
    run("mixed", channels, mixed);
}

/// The slowest of each hundred admissions at either end.
fn run(title: &str, channels: u64, request: impl Fn(u64) -> ChannelRequest) {
    let config = NodeConfig { link_bits_per_s: 100_000_000_000, ..NodeConfig::default() };
    let from = Sender { node: "near", link_bits_per_s: config.link_bits_per_s };
    let (mut near, mut far) = (NodeAdmission::new(&config), NodeAdmission::new(&config));
    let mut slowest = [Duration::ZERO; 2];
    for n in 1..=channels {
        let channel = Channel { id: 0, epoch: 1, token: 1, size: 64, fragment: 1384, parity: 0 };
        let at = Instant::now();
        let push = near.admit_push("area", &channel, request(n));
        slowest[0] = slowest[0].max(at.elapsed());
        let at = Instant::now();
        let receive = far.admit_receive("area", &channel, request(n), from);
        slowest[1] = slowest[1].max(at.elapsed());
        if let Some(refused) = push.err().or(receive.err()) {
            println!("{title:>8} {n:>6} refused: {refused}");
            return;
        }
        if n % 100 == 0 {
            println!("{title:>8} {n:>6} {:>12.1?} {:>12.1?}", slowest[0], slowest[1]);
            slowest = [Duration::ZERO; 2];
        }
    }
}
