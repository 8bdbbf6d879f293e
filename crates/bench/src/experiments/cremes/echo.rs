//! The return path: a consumer sends the time stamp of each value back by a datagram of its own,
//! outside of the subject.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use isorb_rt::sched::{Thread, ThreadSpec};
use isorb_rt::time::now_ns;

use super::site::Site;
use crate::experiments::BenchError;
use crate::stats::Samples;

/// Octets at the beginning of a value: when it was made, by which producer, and in which pass.
pub const STAMP: usize = 12;

/// The contents of a stamp.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamp {
    pub at_ns: u64,
    pub pair: u16,
    pub pass: u16,
}

/// Writes the stamp of producer `pair` into a value.
pub fn stamp(value: &mut [u8], pair: u16, pass: u16) {
    if let Some((head, _)) = value.split_first_chunk_mut::<STAMP>() {
        head[..8].copy_from_slice(&now_ns().to_ne_bytes());
        head[8..10].copy_from_slice(&pair.to_ne_bytes());
        head[10..].copy_from_slice(&pass.to_ne_bytes());
    }
}

/// The time and the producer of a value.
pub fn stamped(value: &[u8]) -> Option<Stamp> {
    let (at, rest) = value.split_first_chunk()?;
    let (pair, rest) = rest.split_first_chunk()?;
    let (pass, _) = rest.split_first_chunk()?;
    Some(Stamp {
        at_ns: u64::from_ne_bytes(*at),
        pair: u16::from_ne_bytes(*pair),
        pass: u16::from_ne_bytes(*pass),
    })
}

/// A consumer's end.
#[derive(Clone, Debug)]
pub struct Echo {
    socket: Arc<UdpSocket>,
    to: SocketAddr,
}

impl Echo {
    /// Returns the stamp of a value.
    pub fn back(&self, value: &[u8]) {
        if let Some(stamp) = value.first_chunk::<STAMP>() {
            // A lost stamp is missing in the number of samples.
            let _ = self.socket.send(stamp);
        }
    }

    /// The address for stamps, for consumers in another process.
    pub fn to(&self) -> SocketAddr {
        self.to
    }
}

/// The returned stamps of a pass: round trips of the high producer, and of all low ones.
#[derive(Debug, Default)]
pub struct Trips {
    /// Of the high producer.
    pub high: Samples,
    /// Of the low producers together.
    pub low: Samples,
    /// The first [`TRACED`] of the high producer, in the order of their return.
    pub trace: Vec<u64>,
    /// The first stamp of the high producer has returned.
    begun: bool,
}

/// The number of round trips that are kept one by one.
pub const TRACED: usize = 400;

impl Trips {
    /// Empty results for this number of passes.
    pub fn of(passes: usize) -> Vec<Trips> {
        (0..passes).map(|_| Trips::default()).collect()
    }

    /// Records a round trip of the high producer. The first is not measured: the processors are
    /// still busy with starting producers, and some subjects connect at their first call.
    fn note_high(&mut self, took_ns: u64) {
        if !std::mem::replace(&mut self.begun, true) {
            return;
        }
        self.high.add(took_ns);
        if self.trace.len() < TRACED {
            self.trace.push(took_ns);
        }
    }

    /// Adds the results of another turn.
    pub fn join(&mut self, more: &Trips) {
        self.high.join(&more.high);
        self.low.join(&more.low);
        let room = TRACED - self.trace.len();
        self.trace.extend(more.trace.iter().take(room));
    }
}

/// The producers' end: a thread above all others that records the return of each stamp.
pub struct Listener {
    thread: Thread<Vec<Trips>>,
    stop: Arc<AtomicBool>,
}

impl Listener {
    /// Begins to receive the stamps of `passes` passes at the producers' node; returns the
    /// consumers' end, at theirs.
    pub fn start(site: &Site<'_>, passes: usize) -> Result<(Listener, Echo), BenchError> {
        let (here, there) = (site.lab.left().address(), site.lab.right().address());
        let socket = site.left(|| Ok(UdpSocket::bind((here, 0))?))?;
        let address = socket.local_addr()?;
        let echo = site.right(|| Ok(UdpSocket::bind((there, 0))?))?;
        echo.connect(address)?;
        socket.set_read_timeout(Some(Duration::from_millis(20)))?;
        let stop = Arc::new(AtomicBool::new(false));
        let (ends, trips) = (stop.clone(), Mutex::new(Trips::of(passes)));
        let listen = move || {
            let mut all = trips.into_inner().unwrap_or_default();
            let mut datagram = [0; 64];
            while !ends.load(Ordering::Acquire) {
                let Ok(octets) = socket.recv(&mut datagram) else { continue };
                let now = now_ns();
                let Some(stamp) = stamped(&datagram[..octets]) else { continue };
                let Some(trips) = all.get_mut(usize::from(stamp.pass)) else { continue };
                let took = now.saturating_sub(stamp.at_ns);
                match stamp.pair {
                    0 => trips.note_high(took),
                    _ => trips.low.add(took),
                }
            }
            all
        };
        let spec = ThreadSpec::new("echo").class(site.class(2));
        let thread = site.left(|| spec.spawn(listen).map_err(BenchError::Thread))?;
        Ok((Listener { thread, stop }, Echo { socket: Arc::new(echo), to: address }))
    }

    /// Ends the thread and returns its results; none if it panicked.
    pub fn end(self) -> Vec<Trips> {
        self.stop.store(true, Ordering::Release);
        self.thread.join().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_value_is_not_measured() {
        let mut trips = Trips::default();
        [900, 10, 20].into_iter().for_each(|took| trips.note_high(took));
        assert_eq!((trips.high.summary().n, trips.high.summary().max_ns), (2, 20));
        assert_eq!(trips.trace, [10, 20]);
    }

    #[test]
    fn a_stamp_is_read_as_it_was_written() {
        let mut value = [0; 64];
        let before = now_ns();
        stamp(&mut value, 7, 1);
        let read = stamped(&value).expect("there is one");
        assert!(read.at_ns >= before);
        assert_eq!((read.pair, read.pass), (7, 1));
        assert_eq!(stamped(&value[..STAMP - 1]), None);
        // Too short for a stamp: left as it is.
        let mut short = [3; STAMP - 1];
        stamp(&mut short, 7, 1);
        assert_eq!(short, [3; STAMP - 1]);
    }
}
