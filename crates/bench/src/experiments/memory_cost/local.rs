//! Within a node: two threads hand a value to and fro, through areas and through bare memory, in
//! blocks that take turns.

use std::hint::{black_box, spin_loop};
use std::sync::Arc;
use std::time::Duration;

use isorb_memory_area::{Geometry, Reader, Segment};
use isorb_rt::sched::SchedClass;
use isorb_rt::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use isorb_rt::time::{Deadline, now_ns};
use rustix::thread::futex;

use super::{AGAIN, BARE, COPYING, Context, MEMORY, joined, refused, row, rows, thread};
use crate::blocks::{Rounds, interleave_all};
use crate::experiments::BenchError;
use crate::figure::Measured;
use crate::stats::Samples;

/// Octets of a value.
const SIZES: [usize; 5] = [64, 1 << 10, 8 << 10, 64 << 10, 1 << 20];
/// Where hand-overs cost more than copies.
const BLOCKING_SIZES: [usize; 3] = [64, 1 << 10, 8 << 10];
const BLOCKS: usize = 12;
/// Octets of a value that the control copies at each look.
const COPIED: usize = 8 << 10;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Waits {
    Spinning,
    Sleeping,
}

/// Each thread on a processor of its own.
pub fn spinning(cx: &mut Context<'_>, out: &mut Measured) -> Result<(), BenchError> {
    if cx.machine.cpus.len() < 2 {
        // Two threads that spin on one processor wait for the scheduler, not for each other.
        return Ok(());
    }
    measure(cx, "spin", Waits::Spinning, &SIZES, out)
}

/// Both threads on one processor.
pub fn blocking(cx: &mut Context<'_>, out: &mut Measured) -> Result<(), BenchError> {
    measure(cx, "block", Waits::Sleeping, &BLOCKING_SIZES, out)
}

fn measure(
    cx: &mut Context<'_>,
    figure: &'static str,
    waits: Waits,
    sizes: &[usize],
    out: &mut Measured,
) -> Result<(), BenchError> {
    for &size in sizes {
        cx.progress(format!("crm-cost: {figure}, {size} octets"));
        // As many as take about the same time at every size.
        let rounds = (cx.ms(4_000, 20_000) as usize * 64 / (64 + size / 512)).max(20) / 10;
        let mut subjects = [MEMORY, BARE, AGAIN];
        let exchange = Exchange { class: SchedClass::Other, size, rounds, gap: Duration::ZERO, waits };
        let all = interleave_all(&mut subjects, Rounds::of(BLOCKS), |subject| match *subject {
            MEMORY => exchange.by_areas(cx),
            _ => exchange.by_bare_memory(cx),
        })?;
        rows(out, figure, size, &subjects, &all);
    }
    Ok(())
}

/// What a reader pays that finds nothing.
pub fn looking(cx: &mut Context<'_>, out: &mut Measured) -> Result<(), BenchError> {
    const TOGETHER: u32 = 10_000;
    let segment = segment(64)?;
    segment.writer().map_err(refused)?.write(b"x").map_err(refused)?;
    let mut reader = segment.reader().map_err(refused)?;
    reader.latest(&mut [0; 64]).map_err(refused)?;
    let mut samples = Samples::new();
    for _ in 0..cx.pick(100, 1_000) {
        let start = now_ns();
        for _ in 0..TOGETHER {
            black_box(black_box(&reader).has_new());
        }
        samples.add((now_ns() - start) / u64::from(TOGETHER));
    }
    row(out, "look", MEMORY, 64.0, &samples);
    row(out, "look", COPYING, COPIED as f64, &copying(cx)?);
    Ok(())
}

/// The control: a reader that copies the value to see whether it has changed.
fn copying(cx: &Context<'_>) -> Result<Samples, BenchError> {
    const TOGETHER: u32 = 100;
    let segment = segment(COPIED)?;
    segment.writer().map_err(refused)?.write(&[1; COPIED]).map_err(refused)?;
    let (mut reader, mut value) = (segment.reader().map_err(refused)?, [0; COPIED]);
    let mut samples = Samples::new();
    for _ in 0..cx.pick(100, 1_000) {
        let start = now_ns();
        for _ in 0..TOGETHER {
            let _ = black_box(reader.latest(black_box(&mut value)));
        }
        samples.add((now_ns() - start) / u64::from(TOGETHER));
    }
    Ok(samples)
}

fn segment(size: usize) -> Result<Segment, BenchError> {
    Segment::create("crm-cost", Geometry::new(size, 1).map_err(refused)?).map_err(refused)
}

/// Two threads that hand a value to and fro.
#[derive(Clone, Copy)]
pub struct Exchange {
    pub class: SchedClass,
    /// Octets of the value.
    pub size: usize,
    pub rounds: usize,
    /// Sleep between two round trips.
    pub gap: Duration,
    pub waits: Waits,
}

impl Exchange {
    /// Half round trips: `echo` answers a round until it fails, `call` makes one.
    fn run(
        self,
        cx: &Context<'_>,
        mut echo: impl FnMut(u32) -> bool + Send + 'static,
        mut call: impl FnMut(u32) + Send + 'static,
    ) -> Result<Vec<u64>, BenchError> {
        let Exchange { class, rounds, gap, waits, .. } = self;
        let last = u32::try_from(rounds).unwrap_or(u32::MAX);
        let echo = thread(cx, other(waits), class, move || _ = (1..=last).all(&mut echo))?;
        let us = thread(cx, 0, class, move || {
            let mut samples = Vec::with_capacity(rounds);
            for round in 1..=last {
                rest(gap);
                let start = now_ns();
                call(round);
                samples.push((now_ns() - start) / 2);
            }
            samples
        })?;
        let samples = joined(us)?;
        joined(echo)?;
        Ok(samples)
    }

    /// Through two areas.
    pub fn by_areas(self, cx: &Context<'_>) -> Result<Vec<u64>, BenchError> {
        let Exchange { size, waits, .. } = self;
        let [there, back] = [segment(size)?, segment(size)?];
        let ends = |from: &Segment, to: &Segment| -> Result<_, BenchError> {
            let mut writer = to.writer().map_err(refused)?;
            writer.set_wake(waits == Waits::Sleeping);
            Ok((from.reader().map_err(refused)?, writer))
        };
        let ((mut at_echo, mut echoes), (mut at_us, mut ours)) = (ends(&there, &back)?, ends(&back, &there)?);
        let (mut echoed, mut value) = (vec![0; size], vec![1; size]);
        let echo = move |_| {
            await_new(&mut at_echo, waits);
            at_echo.latest(&mut echoed).is_ok() && echoes.write(&echoed).is_ok()
        };
        self.run(cx, echo, move |_| {
            let _ = ours.write(&value);
            await_new(&mut at_us, waits);
            let _ = at_us.latest(&mut value);
        })
    }

    /// Through bare memory.
    pub fn by_bare_memory(self, cx: &Context<'_>) -> Result<Vec<u64>, BenchError> {
        let Exchange { size, waits, .. } = self;
        let ways = Arc::new([Bare::new(size), Bare::new(size)]);
        let (theirs, mut echoed, mut value) = (ways.clone(), vec![0; size / 8], vec![1; size / 8]);
        let echo = move |round| {
            theirs[0].take(&mut echoed, round, waits);
            theirs[1].put(&echoed, round, waits);
            true
        };
        self.run(cx, echo, move |round| {
            ways[0].put(&value, round, waits);
            ways[1].take(&mut value, round, waits);
        })
    }
}

/// Leaves the processor to others between round trips.
fn rest(gap: Duration) {
    if !gap.is_zero() {
        std::thread::sleep(gap);
    }
}

fn await_new(reader: &mut Reader, waits: Waits) {
    match waits {
        Waits::Spinning => {
            while !reader.has_new() {
                spin_loop();
            }
        }
        Waits::Sleeping => {
            let _ = reader.wait(Deadline::NONE);
        }
    }
}

fn other(waits: Waits) -> usize {
    usize::from(waits == Waits::Spinning)
}

/// One direction of the control: the words of a value, and the side that has the turn. Each in
/// cache lines of its own, wherever the memory comes from: else blocks differ by the lines that a
/// value happens to lie across.
#[repr(align(128))]
struct Bare {
    turn: AtomicU32,
    lines: Vec<Line>,
}

#[derive(Default)]
#[repr(align(64))]
struct Line([AtomicU64; LINE_WORDS]);

const LINE_WORDS: usize = 8;

impl Bare {
    fn new(size: usize) -> Bare {
        let lines = (0..size.div_ceil(8 * LINE_WORDS)).map(|_| Line::default()).collect();
        Bare { turn: AtomicU32::new(0), lines }
    }

    fn put(&self, value: &[u64], turn: u32, waits: Waits) {
        for (line, from) in self.lines.iter().zip(value.chunks(LINE_WORDS)) {
            for (to, from) in line.0.iter().zip(from) {
                to.store(*from, Ordering::Relaxed);
            }
        }
        self.turn.store(turn, Ordering::Release);
        if waits == Waits::Sleeping {
            // Between processes, as areas are.
            let _ = futex::wake(&self.turn, futex::Flags::empty(), 1);
        }
    }

    fn take(&self, value: &mut [u64], turn: u32, waits: Waits) {
        loop {
            let seen = self.turn.load(Ordering::Acquire);
            if seen == turn {
                break;
            }
            match waits {
                Waits::Spinning => spin_loop(),
                Waits::Sleeping => {
                    let _ = futex::wait(&self.turn, futex::Flags::empty(), seen, None);
                }
            }
        }
        for (to, line) in value.chunks_mut(LINE_WORDS).zip(&self.lines) {
            for (to, from) in to.iter_mut().zip(&line.0) {
                *to = from.load(Ordering::Relaxed);
            }
        }
    }
}
