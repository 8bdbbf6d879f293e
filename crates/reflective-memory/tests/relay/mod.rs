//! One direction of a path of datagrams between nodes: loses, repeats and reorders as configured,
//! for each reader's node separately, and counts the fragments of each push.
#![allow(dead_code, reason = "each test program uses its part")]

use isorb_netlab::{Impairment, Plan};
use isorb_reflective_memory::wire::{Datagram, Kind};
use isorb_rt::atomic_enum;
use isorb_rt::sync::AtomicEnum;
use isorb_rt::time::now_ns;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The state of the path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// All datagrams pass, in order.
    Good,
    /// As planned.
    Bad,
    /// None goes through.
    Cut,
}

atomic_enum!(Direction: Good, Bad, Cut);

/// Whether a datagram is lost.
pub type Drops = fn(&Datagram<'_>) -> bool;

/// The end of the path at a reader's node.
pub struct Out {
    /// That node takes it for the writer's.
    pub socket: UdpSocket,
    pub to: SocketAddr,
    pub plan: Plan,
    /// Datagrams that are lost in addition to the plan.
    pub drops: Drops,
}

/// A push: the number, in the epoch of its channel, of which one is opened after the other.
type Push = (u32, u64);

/// Its fragments at both ends of the path.
#[derive(Clone, Default, Debug)]
pub struct PushOutcome {
    pub fragments: usize,
    /// The data fragments that arrived at the other end.
    pub delivered: BTreeSet<u32>,
}

impl PushOutcome {
    pub fn is_whole(&self) -> bool {
        self.fragments > 0 && self.delivered.len() == self.fragments
    }
}

type Log = Arc<Mutex<BTreeMap<Push, PushOutcome>>>;

pub struct Relay {
    logs: Vec<Log>,
    direction: Arc<AtomicEnum<Direction>>,
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Relay {
    /// Forwards the datagrams that arrive at `front` to all.
    pub fn start(front: UdpSocket, outs: Vec<Out>) -> Relay {
        front.set_read_timeout(Some(Duration::from_micros(500))).unwrap();
        let logs: Vec<Log> = outs.iter().map(|_| Log::default()).collect();
        let (direction, stop) = (Arc::new(AtomicEnum::new()), Arc::new(AtomicBool::new(false)));
        let (log, set, end) = (logs.clone(), direction.clone(), stop.clone());
        let thread = std::thread::spawn(move || {
            let mut outs: Vec<_> = outs.into_iter().map(|out| (Impairment::new(out.plan), out)).collect();
            let mut input = [0; 2000];
            while !end.load(Ordering::Relaxed) {
                let came = front.recv_from(&mut input).ok().map(|(len, _)| &input[..len]);
                let direction = set.load(Ordering::Relaxed);
                for ((impairment, out), log) in outs.iter_mut().zip(&log) {
                    if let Some(octets) = came {
                        let datagram = Datagram::read(octets).unwrap();
                        begin(&datagram, log);
                        match direction {
                            Direction::Good => out.send(octets, log),
                            Direction::Bad if !(out.drops)(&datagram) => {
                                impairment.push(now_ns(), octets.to_vec());
                            }
                            _ => {}
                        }
                    }
                    while let Some(packet) = impairment.pop(now_ns()) {
                        out.send(&packet, log);
                    }
                }
            }
        });
        Relay { logs, direction, stop, thread: Some(thread) }
    }

    pub fn set(&self, direction: Direction) {
        self.direction.store(direction, Ordering::Relaxed);
    }

    /// Pushes to a node after push `after` of each channel: all, and those that were forwarded
    /// completely.
    pub fn pushes(&self, out: usize, after: u64) -> (u64, u64) {
        let log = self.logs[out].lock().unwrap();
        let (mut newest, mut whole) = (BTreeMap::new(), 0);
        for (&(epoch, push), fate) in log.iter().filter(|((_, push), _)| *push > after) {
            newest.insert(epoch, push - after);
            whole += u64::from(fate.is_whole());
        }
        (newest.values().sum(), whole)
    }
}

fn begin(datagram: &Datagram<'_>, log: &Log) {
    if matches!(datagram.kind, Kind::Fragment | Kind::Parity) {
        log.lock().unwrap().entry((datagram.epoch, datagram.push)).or_default();
    }
}

impl Out {
    fn send(&self, octets: &[u8], log: &Log) {
        let datagram = Datagram::read(octets).unwrap();
        if datagram.kind == Kind::Fragment {
            let mut log = log.lock().unwrap();
            let fate = log.entry((datagram.epoch, datagram.push)).or_default();
            fate.fragments =
                (datagram.size as usize).div_ceil(isorb_reflective_memory::wire::ETHERNET_FRAGMENT);
            fate.delivered.insert(datagram.index);
        }
        let _ = self.socket.send_to(octets, self.to);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().unwrap().join();
    }
}

/// No datagram is lost in addition to the plan.
pub fn none(_: &Datagram<'_>) -> bool {
    false
}
