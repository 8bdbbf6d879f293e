//! One direction of the way of datagrams between nodes: loses, repeats and reorders as it is told,
//! for each reader's node apart, and knows what became of each push.
#![allow(dead_code, reason = "each test program uses its part")]

use isorb_netlab::{Impairment, Plan};
use isorb_reflective_memory::wire::{Datagram, Kind};
use isorb_rt::time::now_ns;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What becomes of datagrams.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Direction {
    /// All go through, as they come.
    Good,
    /// As planned.
    Bad,
    /// None goes through.
    Cut,
}

/// Does it vanish?
pub type Drops = fn(&Datagram<'_>) -> bool;

/// The end of the way at a reader's node.
pub struct Out {
    /// What that node takes for the writer's.
    pub socket: UdpSocket,
    pub to: SocketAddr,
    pub plan: Plan,
    /// What vanishes beside the plan.
    pub drops: Drops,
}

/// A push: the number, in the epoch of its channel, of which one is opened after the other.
type Push = (u32, u64);

/// What became of it on the way.
#[derive(Clone, Default, Debug)]
pub struct PushOutcome {
    pub fragments: usize,
    /// What came out at the other end, parity not counted.
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
    way: Arc<AtomicU8>,
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Relay {
    /// What comes to `front` goes on to all.
    pub fn start(front: UdpSocket, outs: Vec<Out>) -> Relay {
        front.set_read_timeout(Some(Duration::from_micros(500))).unwrap();
        let logs: Vec<Log> = outs.iter().map(|_| Log::default()).collect();
        let (way, stop) = (Arc::new(AtomicU8::new(Direction::Good as u8)), Arc::new(AtomicBool::new(false)));
        let (log, told, end) = (logs.clone(), way.clone(), stop.clone());
        let thread = std::thread::spawn(move || {
            let mut outs: Vec<_> = outs.into_iter().map(|out| (Impairment::new(out.plan), out)).collect();
            let mut input = [0; 2000];
            while !end.load(Ordering::Relaxed) {
                let came = front.recv_from(&mut input).ok().map(|(len, _)| &input[..len]);
                let way = told.load(Ordering::Relaxed);
                for ((impairment, out), log) in outs.iter_mut().zip(&log) {
                    if let Some(octets) = came {
                        let datagram = Datagram::read(octets).unwrap();
                        begin(&datagram, log);
                        match way {
                            way if way == Direction::Good as u8 => out.send(octets, log),
                            way if way == Direction::Bad as u8 && !(out.drops)(&datagram) => {
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
        Relay { logs, way, stop, thread: Some(thread) }
    }

    pub fn set(&self, way: Direction) {
        self.way.store(way as u8, Ordering::Relaxed);
    }

    /// Pushes on the way to a node after push `after` of each channel: all, and those that came out
    /// whole.
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

/// Nothing vanishes beside the plan.
pub fn none(_: &Datagram<'_>) -> bool {
    false
}
