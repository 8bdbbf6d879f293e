//! A process that sends more than a link carries.

use std::io;
use std::net::UdpSocket;
use std::time::Duration;

use clap::Args;
use isorb_netlab::Host;
use isorb_rt::time::{Deadline, now_ns, sleep_until};

use super::processes::in_host;
use crate::experiments::Context;
use crate::process::{Peer, PeerError, Scheduling, Side};
use crate::protocol::{exit_at_end_of_input, ready};

/// How long it may take to start.
const TIMEOUT: Duration = Duration::from_secs(20);
/// As large as fits a packet.
const PAYLOAD: usize = 1400;
/// Sockets that it sends from: the kernel lets none have more than its buffer, some 90 packets,
/// under way.
const SOCKETS: usize = 12;

/// Arguments of the flood.
#[derive(Args, Debug)]
pub struct FloodArgs {
    /// Where it sends to; no socket has to listen
    address: String,
    /// Kilobits a second
    #[arg(long)]
    kbit: u64,
}

/// Sends until standard input ends.
pub fn flood(args: &FloodArgs) -> io::Result<()> {
    let sockets: Vec<UdpSocket> =
        (0..SOCKETS).map(|_| UdpSocket::bind("0.0.0.0:0")).collect::<io::Result<_>>()?;
    exit_at_end_of_input();
    ready("")?;
    // A burst each millisecond.
    let burst = (args.kbit as usize / 8).div_ceil(PAYLOAD).max(1);
    let packet = [0; PAYLOAD];
    let mut at = now_ns();
    let mut turns = sockets.iter().cycle();
    loop {
        for socket in turns.by_ref().take(burst) {
            // A later send reports that no socket listens, which is no error here.
            let _ = socket.send_to(&packet, &args.address);
        }
        at = (at + 1_000_000).max(now_ns());
        sleep_until(Deadline::at_ns(at));
    }
}

/// Starts a flood from `from` to `to`, away from the processor that contenders share if there is
/// another. It ends when what is returned is dropped.
pub fn start(cx: &Context<'_>, from: &Host, to: &Host, kbit: u32) -> Result<Peer, PeerError> {
    let place = Scheduling { cpu: cx.machine.cpus.get(1).copied(), fifo: None };
    let (address, kbit) = (format!("{}:9", to.address()), format!("--kbit={kbit}"));
    let program = cx.launcher.peer(&["flood", &address, &kbit]);
    let program = in_host(Some(from.namespace()), program);
    let mut peer = Peer::start(cx.launcher, "flood", Side::Client, place, &program)?;
    peer.expect("ready", TIMEOUT)?;
    Ok(peer)
}
