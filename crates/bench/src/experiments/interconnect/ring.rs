//! Values between two processors over the ring of the segment transport, and how many octets go
//! over it in a second. The control is the transport over unix sockets.

use std::io::{self, ErrorKind, IoSlice};
use std::time::Duration;

use isorb::transport::{Segments, Spin, Stream, Transport, Unix, Wait};
use isorb_rt::sched::{Cpus, set_current_cpus};
use isorb_rt::time::now_ns;

use super::super::{BenchError, Context};
use crate::blocks::Series;
use crate::figure::Measured;

pub const RING: &str = "ring";
pub const AGAIN: &str = "ring-again";
pub const CONTROL: &str = "unix-control";
/// Figures: one way from processor to processor, and octets a second.
pub const BETWEEN: &str = "between";
pub const BANDWIDTH: &str = "bandwidth";
/// A char, an int, a double.
const VALUES: [usize; 3] = [1, 4, 8];
const PIECES: [usize; 4] = [64, 1 << 10, 8 << 10, 64 << 10];
/// Round trips of a block.
const BLOCK: usize = 1_000;
/// Octets that are streamed for a figure.
const STREAMED: usize = 64 << 20;
const QUICK_STREAMED: usize = 4 << 20;
const TIMEOUT: Duration = Duration::from_secs(20);

/// Both ends of a connection.
type Ends = (Box<dyn Stream>, Box<dyn Stream>);

/// Measures, where there are two processors.
pub fn measure(cx: &mut Context<'_>, out: &mut Measured) -> Result<(), BenchError> {
    if cx.machine.cpus.len() < 2 {
        out.note("Between two processors: left out, this process may use one processor only.");
        return Ok(());
    }
    let rounds = if cx.is_smoke() { 1 } else { cx.pick(10, 100) };
    // A sleep would take longer than what is measured.
    let segments =
        || Segments { spin: Spin::up_to(Duration::from_millis(1)), bytes: 1 << 20, ..Segments::default() };
    for size in VALUES {
        cx.progress(format!("interconnect: {size} octets between two processors"));
        let mut subjects = [
            (RING, connect(&segments())?, Series::<()>::default()),
            (AGAIN, connect(&segments())?, Series::default()),
            (CONTROL, connect(&Unix::default())?, Series::default()),
        ];
        for _ in 0..rounds {
            for (_, ends, series) in &mut subjects {
                series.add(round_trips(cx, ends, size)?);
            }
        }
        for (subject, _, series) in subjects {
            out.row(BETWEEN, subject, size as f64, series.values());
        }
    }
    let octets = if cx.is_smoke() { 1 << 20 } else { cx.pick(QUICK_STREAMED, STREAMED) };
    for size in PIECES {
        cx.progress(format!("interconnect: pieces of {size} octets"));
        for (subject, mut ends) in [(RING, connect(&segments())?), (CONTROL, connect(&Unix::default())?)] {
            let ns = stream(cx, &mut ends, size, octets)?;
            let megabytes = octets as f64 * 1_000.0 / ns.max(1) as f64;
            out.row(BANDWIDTH, subject, size as f64, vec![("megabytes_per_s", megabytes.round())]);
        }
    }
    Ok(())
}

fn connect(transport: &dyn Transport) -> io::Result<Ends> {
    let listener = transport.listen("")?;
    std::thread::scope(|scope| {
        let opening = scope.spawn(|| transport.connect(listener.address(), Some(TIMEOUT)));
        let far = listener.accept(Wait::Block)?;
        // The accepting side takes part in the handshake.
        while !opening.is_finished() {
            match far.recv(&mut [0], Wait::No) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::yield_now(),
                Ok(_) => return Err(ErrorKind::InvalidData.into()),
                Err(error) => return Err(error),
            }
        }
        let near = opening.join().map_err(|_| io::Error::from(ErrorKind::Other))??;
        near.set_recv_timeout(Some(TIMEOUT))?;
        far.set_recv_timeout(Some(TIMEOUT))?;
        Ok((near, far))
    })
}

/// Runs `near` on the first processor and `far` on the second, in the ordinary class: two threads
/// that spin at a real-time priority would meet the kernel's throttling.
fn on_two<R: Send>(
    cx: &Context<'_>,
    near: impl FnOnce() -> io::Result<R> + Send,
    far: impl FnOnce() -> io::Result<()> + Send,
) -> Result<R, BenchError> {
    let [one, other] = [0, 1].map(|n| Cpus::one(cx.machine.cpus[n]));
    let pinned = |cpus: Cpus| set_current_cpus(&cpus).map_err(io::Error::other);
    std::thread::scope(|scope| {
        let far = scope.spawn(move || pinned(other).and_then(|()| far()));
        let near = scope.spawn(move || pinned(one).and_then(|()| near()));
        let panicked = |_| io::Error::other("a thread that measures panicked");
        let result = near.join().map_err(panicked)?;
        far.join().map_err(panicked)??;
        Ok(result?)
    })
}

/// Half of each round trip, in nanoseconds.
fn round_trips(cx: &Context<'_>, (near, far): &mut Ends, size: usize) -> Result<Vec<u64>, BenchError> {
    let calls = || {
        let mut value = vec![1; size];
        let mut one = || {
            let start = now_ns();
            send(&**near, &value)?;
            receive(&**near, &mut value)?;
            Ok::<_, io::Error>((now_ns() - start) / 2)
        };
        (0..20).try_for_each(|_| one().map(drop))?;
        (0..BLOCK).map(|_| one()).collect()
    };
    let echo = || {
        let mut value = vec![0; size];
        (0..BLOCK + 20).try_for_each(|_| {
            receive(&**far, &mut value)?;
            send(&**far, &value)
        })
    };
    on_two(cx, calls, echo)
}

/// How long so many octets take, in pieces.
fn stream(cx: &Context<'_>, (near, far): &mut Ends, size: usize, octets: usize) -> Result<u64, BenchError> {
    let pieces = octets / size;
    let sending = || {
        let piece = vec![1; size];
        let start = now_ns();
        (0..pieces).try_for_each(|_| send(&**near, &piece))?;
        // The other end says that all of it is there.
        receive(&**near, &mut [0])?;
        Ok(now_ns() - start)
    };
    let receiving = || {
        let mut piece = vec![0; size];
        (0..pieces).try_for_each(|_| receive(&**far, &mut piece))?;
        send(&**far, &[1])
    };
    on_two(cx, sending, receiving)
}

fn send(stream: &dyn Stream, mut octets: &[u8]) -> io::Result<()> {
    while !octets.is_empty() {
        octets = &octets[stream.send(&[IoSlice::new(octets)], Wait::Block)?..];
    }
    Ok(())
}

fn receive(stream: &dyn Stream, into: &mut [u8]) -> io::Result<()> {
    let mut filled = 0;
    while filled < into.len() {
        match stream.recv(&mut into[filled..], Wait::Block)? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            n => filled += n,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn octets_cross_both_transports() {
        for (near, far) in [connect(&Segments::default()), connect(&Unix::default())].map(Result::unwrap) {
            send(&*near, b"value").unwrap();
            let mut value = [0; 5];
            receive(&*far, &mut value).unwrap();
            assert_eq!(&value, b"value");
        }
    }
}
