//! What a harness and its peers say to each other, on the peer's side.
//!
//! A server prints `ready ADDRESS` once it can be called and ends when its input does. A client
//! gets that address as its last argument, prints `ready`, and then obeys lines:
//!
//! `block NAME SIZE WARM N` makes WARM calls that are not measured and N that are timed one by one,
//! and answers `samples N` and a line's end, followed by N times 8 octets: nanoseconds in the order
//! of the machine. In a case of bursts, the N calls together are one sample: the mean nanoseconds
//! a call.
//!
//! The C++ peers in `peers/` speak the same.

use std::fmt::Display;
use std::io::{self, BufRead, ErrorKind, Read, Write};
use std::thread::sleep;
use std::time::Duration;

use isorb_rt::time::now_ns;

use crate::cases::Case;

/// The calls of one subject.
pub trait Client {
    /// What a call can end in.
    type Error: Display;

    /// Gets ready for `calls` calls of `case`, which end with [`arrived`](Self::arrived) if they
    /// are oneways.
    fn prepare(&mut self, case: Case, calls: usize) -> Result<(), Self::Error>;

    /// Makes one two-way call, or sends one oneway.
    fn call(&mut self) -> Result<(), Self::Error>;

    /// Returns when all oneways since [`prepare`](Self::prepare) have arrived.
    fn arrived(&mut self) -> Result<(), Self::Error>;
}

/// Obeys the harness until standard input ends.
pub fn obey<C: Client>(client: &mut C) -> io::Result<()> {
    let mut output = io::stdout().lock();
    writeln!(output, "ready")?;
    output.flush()?;
    let mut samples = Vec::new();
    for line in io::stdin().lock().lines() {
        let block = Block::parse(&line?).ok_or(ErrorKind::InvalidData)?;
        block.run(client, &mut samples).map_err(|e| io::Error::other(e.to_string()))?;
        write_samples(&mut output, &samples)?;
        output.flush()?;
    }
    Ok(())
}

/// The answer with these samples.
pub fn write_samples(output: &mut impl Write, samples: &[u64]) -> io::Result<()> {
    writeln!(output, "samples {}", samples.len())?;
    samples.iter().try_for_each(|sample| output.write_all(&sample.to_ne_bytes()))
}

/// Starts a thread that ends the process when standard input ends.
pub fn exit_at_end_of_input() {
    std::thread::spawn(|| {
        // Whatever is said to a server, only the end matters; a failure is one.
        let _ = io::stdin().lock().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
}

/// Says that a server can be called.
pub fn ready(address: impl Display) -> io::Result<()> {
    let mut output = io::stdout().lock();
    writeln!(output, "ready {address}")?;
    output.flush()
}

/// One order to a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Block {
    /// What to call.
    pub case: Case,
    /// Calls before the clock starts.
    pub warm: usize,
    /// Calls that count.
    pub calls: usize,
    /// Microseconds of sleep before each of these.
    pub gap_us: u32,
}

impl Block {
    /// The line that orders it.
    pub fn line(&self) -> String {
        let case = self.case.to_string();
        let name = case.split(':').next().unwrap_or_default();
        let gap = if self.gap_us == 0 { String::new() } else { format!(" {}", self.gap_us) };
        format!("block {name} {} {} {}{gap}", self.case.size, self.warm, self.calls)
    }

    fn parse(line: &str) -> Option<Block> {
        let mut words = line.split_ascii_whitespace();
        if words.next()? != "block" {
            return None;
        }
        let (name, size) = (words.next()?, words.next()?);
        let case = if name == "void" { name.parse() } else { format!("{name}:{size}").parse() };
        let (warm, calls) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let gap_us = words.next().map_or(Some(0), |gap| gap.parse().ok())?;
        words.next().is_none().then_some(Block { case: case.ok()?, warm, calls, gap_us })
    }

    fn run<C: Client>(self, client: &mut C, samples: &mut Vec<u64>) -> Result<(), C::Error> {
        let timed = if self.case.is_burst() { self.calls.min(1) } else { self.calls };
        // Touched here, so that the first call of a block does not pay for the page.
        samples.clear();
        samples.resize(timed, 0);
        if self.case.is_burst() {
            self.burst(client, self.warm)?;
            let took = self.burst(client, self.calls)?;
            if let [sample] = samples.as_mut_slice() {
                *sample = took / self.calls as u64;
            }
            return Ok(());
        }
        client.prepare(self.case, self.warm + self.calls)?;
        for _ in 0..self.warm {
            client.call()?;
        }
        let gap = Duration::from_micros(self.gap_us.into());
        for sample in samples {
            if !gap.is_zero() {
                sleep(gap);
            }
            let start = now_ns();
            client.call()?;
            *sample = now_ns() - start;
        }
        Ok(())
    }

    fn burst<C: Client>(self, client: &mut C, calls: usize) -> Result<u64, C::Error> {
        if calls == 0 {
            return Ok(0);
        }
        client.prepare(self.case, calls)?;
        let start = now_ns();
        for _ in 0..calls {
            client.call()?;
        }
        client.arrived()?;
        Ok(now_ns() - start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Counter {
        prepared: usize,
        calls: usize,
        arrived: usize,
    }

    impl Client for Counter {
        type Error = &'static str;
        fn prepare(&mut self, _: Case, calls: usize) -> Result<(), Self::Error> {
            self.prepared += calls;
            Ok(())
        }
        fn call(&mut self) -> Result<(), Self::Error> {
            self.calls += 1;
            if self.calls > self.prepared { Err("more than prepared") } else { Ok(()) }
        }
        fn arrived(&mut self) -> Result<(), Self::Error> {
            self.arrived += 1;
            Ok(())
        }
    }

    #[test]
    fn lines_lead_back_to_their_block() {
        for case in Case::all() {
            for gap_us in [0, 50] {
                let block = Block { case, warm: 20, calls: 300, gap_us };
                assert_eq!(Block::parse(&block.line()), Some(block));
            }
        }
        for bad in
            ["", "block", "block void 0 1", "block void 0 1 2 3 4", "block void 0 -1 2", "stop void 0 1 2"]
        {
            assert_eq!(Block::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_block_makes_its_calls_and_times_those_that_count() {
        let mut samples = vec![];
        let mut c = Counter::default();
        Block::parse("block octets 64 5 7").unwrap().run(&mut c, &mut samples).unwrap();
        assert_eq!((c.calls, c.arrived, samples.len()), (12, 0, 7));

        let mut c = Counter::default();
        Block::parse("block oneway 64 5 7").unwrap().run(&mut c, &mut samples).unwrap();
        assert_eq!((c.calls, c.arrived, samples.len()), (12, 2, 1));

        let mut c = Counter::default();
        Block::parse("block oneway 64 5 0").unwrap().run(&mut c, &mut samples).unwrap();
        assert_eq!((c.calls, c.arrived, samples.len()), (5, 1, 0), "only warm");
    }
}
