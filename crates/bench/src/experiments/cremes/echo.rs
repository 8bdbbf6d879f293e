//! The way back: a consumer returns the time stamp of what it got by a datagram of its own, beside the subject.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use isorb_netlab::Host;
use isorb_rt::sched::{SchedClass, Thread, ThreadSpec};
use isorb_rt::time::now_ns;

use crate::experiments::BenchError;
use crate::stats::Samples;

/// Octets at the beginning of a value: when it was made, and by which producer.
pub const STAMP: usize = 12;

/// Writes the stamp of producer `pair` into a value.
pub fn stamp(value: &mut [u8], pair: u32) {
    if let Some((head, _)) = value.split_first_chunk_mut::<STAMP>() {
        head[..8].copy_from_slice(&now_ns().to_ne_bytes());
        head[8..].copy_from_slice(&pair.to_ne_bytes());
    }
}

/// When a value was made, and by whom.
pub fn stamped(value: &[u8]) -> Option<(u64, u32)> {
    let (at, rest) = value.split_first_chunk::<8>()?;
    let (pair, _) = rest.split_first_chunk::<4>()?;
    Some((u64::from_ne_bytes(*at), u32::from_ne_bytes(*pair)))
}

/// A consumer's end.
#[derive(Clone, Debug)]
pub struct Echo(Arc<UdpSocket>);

impl Echo {
    /// Returns the stamp of a value.
    pub fn back(&self, value: &[u8]) {
        if let Some(stamp) = value.first_chunk::<STAMP>() {
            // One that is lost is missing in the count of samples.
            let _ = self.0.send(stamp);
        }
    }
}

/// What came back: round trips of the high producer, and of all low ones.
#[derive(Debug, Default)]
pub struct Trips {
    /// Of the high one.
    pub high: Samples,
    /// Of the low ones, together.
    pub low: Samples,
    /// Of the high one, in the order of their return: the first [`TRACED`].
    pub trace: Vec<u64>,
}

/// Round trips that are kept one by one.
pub const TRACED: usize = 400;

/// The producers' end: a thread above all others that notes when a stamp comes back.
pub struct Listener {
    thread: Thread<Trips>,
    stop: Arc<AtomicBool>,
}

impl Listener {
    /// Begins to listen at `left`; the consumers' end is at `right`.
    pub fn start(left: &Host, right: &Host, class: SchedClass) -> Result<(Listener, Echo), BenchError> {
        let address = left.address();
        let socket = left.run(move || UdpSocket::bind((address, 0)))??;
        let (to, from) = (socket.local_addr()?, right.address());
        let echo = right.run(move || UdpSocket::bind((from, 0)))??;
        echo.connect(to)?;
        socket.set_read_timeout(Some(Duration::from_millis(50)))?;
        let stop = Arc::new(AtomicBool::new(false));
        let (ends, trips) = (stop.clone(), Mutex::new(Trips::default()));
        let listen = move || {
            let mut trips = trips.into_inner().unwrap_or_default();
            let mut datagram = [0; 64];
            while !ends.load(Ordering::Acquire) {
                let Ok(octets) = socket.recv(&mut datagram) else { continue };
                let now = now_ns();
                let Some((at, pair)) = stamped(&datagram[..octets]) else { continue };
                let took = now.saturating_sub(at);
                let to = if pair == 0 { &mut trips.high } else { &mut trips.low };
                to.add(took);
                if pair == 0 && trips.trace.len() < TRACED {
                    trips.trace.push(took);
                }
            }
            trips
        };
        let thread = ThreadSpec::new("echo").class(class).spawn(listen).map_err(BenchError::Thread)?;
        Ok((Listener { thread, stop }, Echo(Arc::new(echo))))
    }

    /// Ends it; what it noted. Nothing if its thread panicked.
    pub fn end(self) -> Trips {
        self.stop.store(true, Ordering::Release);
        self.thread.join().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_is_read_as_it_was_written() {
        let mut value = [0; 64];
        let before = now_ns();
        stamp(&mut value, 7);
        let (at, pair) = stamped(&value).expect("there is one");
        assert!(at >= before && pair == 7);
        assert_eq!(stamped(&value[..STAMP - 1]), None);
        // Too short for a stamp: left as it is.
        let mut short = [3; STAMP - 1];
        stamp(&mut short, 7);
        assert_eq!(short, [3; STAMP - 1]);
    }
}
