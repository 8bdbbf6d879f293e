//! Other programs that want the processor as well.

use std::collections::VecDeque;
use std::hint::black_box;
use std::io;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use isorb_rt::sched::{Cpus, SchedClass, Thread, ThreadSpec};
use isorb_rt::time::{Deadline, NS_PER_S, now_ns, sleep_until};

use super::processes::calibrate_work;
use crate::experiments::{BenchError, Context};
use crate::load::work;

/// Threads that keep the processor which contenders share busy, until this is dropped.
pub struct BackgroundLoad {
    end: Arc<AtomicBool>,
    threads: Vec<Thread<()>>,
}

/// Real-time threads of low priority run so often, and compute for [`REAL_TIME_MS`] each time: six
/// of them want six tenths of the processor.
const REAL_TIME_HZ: u64 = 100;
const REAL_TIME_MS: f64 = 1.0;
/// Their native priority.
const REAL_TIME: u8 = 2;
/// Octets of a packet that is sent to the host itself, and of a block of memory.
const PACKET: usize = 1400;
const BLOCK: usize = 256 << 10;

impl BackgroundLoad {
    /// So many threads of the ordinary class that compute.
    pub fn start(cx: &Context<'_>, threads: u32) -> Result<BackgroundLoad, BenchError> {
        let mut load = BackgroundLoad { end: Arc::new(AtomicBool::new(false)), threads: Vec::new() };
        (0..threads).try_for_each(|_| load.ordinary(cx, || work(100)))?;
        Ok(load)
    }

    /// Adds so many real-time threads of low priority, where real-time scheduling is to be had.
    pub fn real_time(mut self, cx: &Context<'_>, threads: u32) -> Result<BackgroundLoad, BenchError> {
        if cx.fifo.is_none() || threads == 0 {
            return Ok(self);
        }
        let units = (REAL_TIME_MS * calibrate_work(cx)?).round() as i32;
        for i in 0..u64::from(threads) {
            let period = NS_PER_S / REAL_TIME_HZ;
            let mut at = now_ns() + period + i * period / u64::from(threads);
            self.add(cx, SchedClass::Fifo(REAL_TIME), move || {
                sleep_until(Deadline::at_ns(at));
                work(units);
                at = (at + period).max(now_ns());
            })?;
        }
        Ok(self)
    }

    /// All loads at once: threads that compute, some of them real-time ones, one that takes and
    /// returns memory, and one that sends packets to this host.
    pub fn all(cx: &Context<'_>) -> Result<BackgroundLoad, BenchError> {
        let mut load = BackgroundLoad::start(cx, 4)?.real_time(cx, 6)?;
        let mut blocks: VecDeque<Vec<u8>> = VecDeque::new();
        load.ordinary(cx, move || {
            blocks.push_back(black_box(vec![1; BLOCK]));
            blocks.drain(..blocks.len().saturating_sub(64));
        })?;
        let (socket, packet) = (packets()?, [0; PACKET]);
        load.ordinary(cx, move || {
            // A packet that is lost was load all the same.
            let _ = socket.send(&packet);
        })?;
        Ok(load)
    }

    fn ordinary(&mut self, cx: &Context<'_>, turn: impl FnMut() + Send + 'static) -> Result<(), BenchError> {
        self.add(cx, SchedClass::Other, turn)
    }

    fn add(
        &mut self,
        cx: &Context<'_>,
        class: SchedClass,
        mut turn: impl FnMut() + Send + 'static,
    ) -> Result<(), BenchError> {
        let end = self.end.clone();
        let spec = ThreadSpec::new("background").class(class).cpus(Cpus::one(cx.cpu()));
        let thread = spec.spawn(move || {
            while !end.load(Ordering::Relaxed) {
                turn();
            }
        });
        self.threads.push(thread?);
        Ok(())
    }
}

/// A socket that sends to itself.
fn packets() -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.connect(socket.local_addr()?)?;
    Ok(socket)
}

impl Drop for BackgroundLoad {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // There is nothing in it that could panic.
            let _ = thread.join();
        }
    }
}
