//! How long a value takes from one process half to the other, beside a raw copy through the same
//! kind of memory.
//!
//! `cargo run --release -p isorb-memory-area --example visible [values]`: two threads hand a value
//! to and fro, spinning; a round trip is two writes and two reads. The raw control copies with
//! `memcpy`'s speed into plain shared words with a flag. Areas and controls alternate in blocks.
//! Numbers are half of the round trip.

use isorb_memory_area::{Geometry, Segment};
use isorb_rt::sync::atomic::{AtomicU64, Ordering};
use isorb_rt::time::{Deadline, now_ns};
use std::hint::{black_box, spin_loop};

fn main() {
    let rounds: usize = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(2_000);
    println!("idle reader: {:.1} ns a look", idle());
    println!(
        "{:>8} {:>12} {:>12} {:>7} {:>14} {:>14}",
        "bytes", "area p50 ns", "raw p50 ns", "ratio", "futex p50 ns", "area wait p50"
    );
    for size in [64, 1024, 8192, 65_536, 1 << 20] {
        let rounds = if size > 100_000 { rounds / 8 } else { rounds };
        let (mut area, mut raw) = (Vec::new(), Vec::new());
        for _ in 0..6 {
            area.extend(area_block(size, rounds, false));
            raw.extend(raw_block(size, rounds));
        }
        let (mut waited, mut handed) = (Vec::new(), Vec::new());
        for _ in 0..4 {
            waited.extend(area_block(size, rounds / 2, true));
            handed.extend(futex_block(size, rounds / 2));
        }
        let (a, r) = (p50(&mut area), p50(&mut raw));
        println!(
            "{size:>8} {a:>12} {r:>12} {:>7.2} {:>14} {:>14}",
            a as f64 / r as f64,
            p50(&mut handed),
            p50(&mut waited)
        );
    }
}

fn p50(samples: &mut [u64]) -> u64 {
    samples.sort_unstable();
    samples[samples.len() / 2]
}

fn idle() -> f64 {
    let segment = Segment::create("idle", Geometry::new(64, 1).unwrap()).unwrap();
    segment.writer().unwrap().write(b"x").unwrap();
    let mut reader = segment.reader().unwrap();
    reader.latest(&mut [0; 64]).unwrap();
    let start = now_ns();
    let looks = 10_000_000;
    for _ in 0..looks {
        assert!(!black_box(&reader).has_new());
    }
    (now_ns() - start) as f64 / f64::from(looks)
}

fn area_block(size: usize, rounds: usize, wait: bool) -> Vec<u64> {
    let segments = [(); 2].map(|()| Segment::create("visible", Geometry::new(size, 1).unwrap()).unwrap());
    let [there, back] = segments.clone();
    let echo = std::thread::spawn(move || {
        let (mut reader, mut writer) = (there.reader().unwrap(), back.writer().unwrap());
        writer.set_wake(wait);
        let mut value = vec![0; size];
        for _ in 0..rounds {
            await_new(&mut reader, wait);
            reader.latest(&mut value).unwrap();
            writer.write(&value).unwrap();
        }
    });
    let (mut writer, mut reader) = (segments[0].writer().unwrap(), segments[1].reader().unwrap());
    writer.set_wake(wait);
    let mut value = vec![1; size];
    let samples = (0..rounds)
        .map(|_| {
            let start = now_ns();
            writer.write(&value).unwrap();
            await_new(&mut reader, wait);
            reader.latest(&mut value).unwrap();
            (now_ns() - start) / 2
        })
        .collect();
    echo.join().unwrap();
    samples
}

fn await_new(reader: &mut isorb_memory_area::Reader, wait: bool) {
    if wait {
        reader.wait(Deadline::NONE).unwrap();
    } else {
        while !reader.has_new() {
            spin_loop();
        }
    }
}

/// One direction of the control: a turn word and the bytes, copied word by word without any
/// protocol.
struct Raw {
    turn: AtomicU64,
    words: Vec<AtomicU64>,
}

impl Raw {
    fn new(size: usize) -> Raw {
        Raw { turn: AtomicU64::new(0), words: (0..size / 8).map(|_| AtomicU64::new(0)).collect() }
    }

    fn put(&self, value: &[u64], turn: u64) {
        for (to, from) in self.words.iter().zip(value) {
            to.store(*from, Ordering::Relaxed);
        }
        self.turn.store(turn, Ordering::Release);
    }

    fn take(&self, value: &mut [u64]) {
        for (to, from) in value.iter_mut().zip(&self.words) {
            *to = from.load(Ordering::Relaxed);
        }
    }
}

fn raw_block(size: usize, rounds: usize) -> Vec<u64> {
    raw_rounds(size, rounds, |raw, turn| {
        while raw.turn.load(Ordering::Acquire) != turn {
            spin_loop();
        }
    })
}

/// The same with a sleep on a futex, which here is std's parking.
fn futex_block(size: usize, rounds: usize) -> Vec<u64> {
    use std::sync::{Arc, mpsc};
    let ways = Arc::new([Raw::new(size), Raw::new(size)]);
    let (to_echo, at_echo) = mpsc::sync_channel::<()>(1);
    let (to_us, at_us) = mpsc::sync_channel::<()>(1);
    let other = ways.clone();
    let echo = std::thread::spawn(move || {
        let mut value = vec![0; size / 8];
        for turn in 1..=rounds as u64 {
            at_echo.recv().unwrap();
            other[0].take(&mut value);
            other[1].put(&value, turn);
            to_us.send(()).unwrap();
        }
    });
    let mut value = vec![1; size / 8];
    let samples = (1..=rounds as u64)
        .map(|turn| {
            let start = now_ns();
            ways[0].put(&value, turn);
            to_echo.send(()).unwrap();
            at_us.recv().unwrap();
            ways[1].take(&mut value);
            (now_ns() - start) / 2
        })
        .collect();
    echo.join().unwrap();
    samples
}

fn raw_rounds(size: usize, rounds: usize, wait: fn(&Raw, u64)) -> Vec<u64> {
    use std::sync::Arc;
    let ways = Arc::new([Raw::new(size), Raw::new(size)]);
    let other = ways.clone();
    let echo = std::thread::spawn(move || {
        let mut value = vec![0; size / 8];
        for turn in 1..=rounds as u64 {
            wait(&other[0], turn);
            other[0].take(&mut value);
            other[1].put(&value, turn);
        }
    });
    let mut value = vec![1; size / 8];
    let samples = (1..=rounds as u64)
        .map(|turn| {
            let start = now_ns();
            ways[0].put(&value, turn);
            wait(&ways[1], turn);
            ways[1].take(&mut value);
            (now_ns() - start) / 2
        })
        .collect();
    echo.join().unwrap();
    samples
}
