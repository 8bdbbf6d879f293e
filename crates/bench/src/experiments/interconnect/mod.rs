//! Reading and writing a value through a mapped segment, on a line of the cache and across two.
//!
//! The segment is an area of reflective memory: written through the writer's mapping, read through
//! a read-only mapping of its own. The control is private memory. Between two processors, values go
//! over the [`ring`] of the segment transport.

mod ring;

use std::hint::black_box;
use std::time::Duration;

use isorb_memory_area::{Geometry, Reader, Segment, Writer};
use isorb_rt::time::now_ns;

use super::catalogue::Experiment;
use super::{BenchError, Context};
use crate::claim::{Above, AtLeast, AtMost, Cells, Claim, Within, aim, claims, control, least, most, paper};
use crate::figure::{Figure, Measured, Values, times};
use crate::stats::{Samples, Summary};

pub const EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "A char, an int and a double through a mapped segment, aligned and not; between two processors; octets a second",
    source: "Lankes, Pfeiffer, Bemmerl (ROFES): table 1",
    paper: "writing an int or a double across a border takes longer than writing it aligned; writing a char does not",
    seconds: (8, 40),
    run,
    claims,
};

const NAME: &str = "interconnect";
/// The subjects, and how far from the beginning of a line of the cache their values lie.
const SUBJECTS: [(&str, usize); 4] = [(ALIGNED, 0), (AGAIN, 0), (ACROSS, LINE - 3), (PRIVATE, 0)];
const ALIGNED: &str = "aligned";
const AGAIN: &str = "aligned-again";
const ACROSS: &str = "unaligned";
const PRIVATE: &str = "private";
/// Octets of a line of the cache, and of SCI's stream buffers.
const LINE: usize = 64;
const SIZE: usize = 4096;
/// Accesses to a sample: one alone takes less than reading the clock.
const TOGETHER: usize = 32;
/// Samples of a subject before it is another's turn.
const BLOCK: usize = 200;

fn run(cx: &mut Context<'_>, out: &mut Measured) -> Result<(), BenchError> {
    let rounds = cx.ms(300, 2_000);
    cx.progress(NAME);
    let measured = cx.on_thread(move || {
        let mut memory = Memory::new()?;
        let mut out = Measured::default();
        memory.measure::<1>(rounds, &mut out);
        memory.measure::<4>(rounds, &mut out);
        memory.measure::<8>(rounds, &mut out);
        Ok::<_, std::io::Error>(out)
    })?;
    *out = measured?;
    ring::measure(cx, out)?;
    let draw = &["mean_ns", "max_minus_min_ns"];
    let figure =
        |id, title| Figure::new(id, title, "octets: char, int, double", "nanoseconds", draw).divide(1.0);
    out.figures = vec![figure("write", "Writing a value"), figure("read", "Reading a value")];
    if out.rows.iter().any(|row| row.figure == ring::BETWEEN) {
        let (one_way, streamed) = ("A value from processor to processor", "Octets over the transport");
        out.figures.push(
            Figure::new(ring::BETWEEN, one_way, "octets", "nanoseconds", &["p50_ns", "p99_ns"]).divide(1.0),
        );
        let figure = Figure::new(
            ring::BANDWIDTH,
            streamed,
            "octets of a piece",
            "megabytes a second",
            &["megabytes_per_s"],
        );
        out.figures.push(figure.divide(1.0));
    }
    out.notes.extend([
        format!(
            "A sample is the mean of {TOGETHER} accesses, each to a line of its own, so maximum and minimum are of such means."
        ),
        format!(
            "Unaligned is {} octets into a line: an int and a double lie on two lines, a char does not.",
            LINE - 3
        ),
        "The paper's segment is in another machine (SCI, 2 to 27 us); this one is in memory of this machine. \
         From processor to processor is half of a round trip of ends that poll."
            .to_owned(),
    ]);
    Ok(())
}

/// The segment in its two mappings, and memory of the process alone.
struct Memory {
    writer: Writer,
    reader: Reader,
    private: Vec<u8>,
}

impl Memory {
    fn new() -> std::io::Result<Memory> {
        let geometry = Geometry::new(SIZE, 1).map_err(std::io::Error::other)?;
        let segment = Segment::create(NAME, geometry).map_err(std::io::Error::other)?;
        let seen = Segment::attach(segment.read_only_fd()?).map_err(std::io::Error::other)?;
        let mut writer = segment.writer().map_err(std::io::Error::other)?;
        let reader = seen.reader().map_err(std::io::Error::other)?;
        // All pages are there before anything is measured, in both mappings.
        for _ in 0..geometry.buffers() {
            writer.write(&[1; SIZE]).map_err(std::io::Error::other)?;
        }
        Ok(Memory { writer, reader, private: vec![1; SIZE] })
    }

    /// Values of `N` octets, all subjects in turn.
    fn measure<const N: usize>(&mut self, rounds: u32, out: &mut Measured) {
        let mut writes: [Samples; SUBJECTS.len()] = Default::default();
        let mut reads: [Samples; SUBJECTS.len()] = Default::default();
        for _ in 0..rounds.max(1) {
            for (i, (subject, offset)) in SUBJECTS.into_iter().enumerate() {
                for k in 0..BLOCK {
                    let value = black_box([k as u8; N]);
                    let (write, read) = match subject {
                        PRIVATE => (self.write_private(value, offset), self.read_private::<N>(offset)),
                        _ => (self.write(value, offset), self.read::<N>(offset)),
                    };
                    writes[i].add(write);
                    reads[i].extend(read);
                }
            }
            // Other threads of the machine run between blocks, not within.
            std::thread::sleep(Duration::from_micros(100));
        }
        for (figure, all) in [("write", writes), ("read", reads)] {
            for ((subject, _), samples) in SUBJECTS.into_iter().zip(all) {
                out.row(figure, subject, N as f64, each(&samples.summary()));
            }
        }
    }

    /// Into the value that comes next, and makes it the latest.
    fn write<const N: usize>(&mut self, value: [u8; N], offset: usize) -> u64 {
        let cells = self.writer.draft();
        let start = now_ns();
        for place in places(offset) {
            // All places are within the value.
            let _ = cells.put(place, black_box(&value));
        }
        let took = now_ns() - start;
        let _ = self.writer.publish(SIZE, start);
        took
    }

    /// From the latest value; `None` if there is none, which [`Memory::new`] has seen to.
    fn read<const N: usize>(&mut self, offset: usize) -> Option<u64> {
        let look = self.reader.read_with(|view| {
            let start = now_ns();
            for place in places(offset) {
                black_box(view.bytes::<N>(place).unwrap_or([0; N]));
            }
            now_ns() - start
        });
        look.ok().map(|(took, _)| took)
    }

    fn write_private<const N: usize>(&mut self, value: [u8; N], offset: usize) -> u64 {
        let start = now_ns();
        for place in places(offset) {
            if let Some(to) = black_box(&mut self.private).get_mut(place..place + N) {
                to.copy_from_slice(black_box(&value));
            }
        }
        now_ns() - start
    }

    fn read_private<const N: usize>(&mut self, offset: usize) -> Option<u64> {
        let start = now_ns();
        for place in places(offset) {
            black_box(
                black_box(&self.private)
                    .get(place..place + N)
                    .and_then(|from| from.first_chunk::<N>().copied()),
            );
        }
        Some(now_ns() - start)
    }
}

/// Where the accesses of a sample go.
fn places(offset: usize) -> impl Iterator<Item = usize> {
    (0..TOGETHER).map(move |k| k * LINE + offset)
}

/// The values of one access, of samples of [`TOGETHER`].
fn each(summary: &Summary) -> Values {
    let mut values = times(summary);
    for (name, value) in &mut values {
        if name.ends_with("_ns") {
            *value = (*value * 1000.0 / TOGETHER as f64).round() / 1000.0;
        }
    }
    values
}

/// A value of a subject over the aligned one.
fn to_aligned(r: &dyn Cells, figure: &str, subject: &str, octets: f64) -> f64 {
    r.at(figure, subject, "p50_ns", octets) / r.at(figure, ALIGNED, "p50_ns", octets)
}

fn has_two_processors(r: &dyn Cells) -> bool {
    !r.series(ring::BETWEEN, ring::RING, "p50_ns").is_empty()
}

fn claims() -> Vec<Claim> {
    let write =
        |r: &dyn Cells, subject: &str| [4.0, 8.0].map(|octets| to_aligned(r, "write", subject, octets));
    claims! {
        paper Above(1.2), "unaligned, writing an int takes {1:.2} and a double {2:.2} times as long \
             (each {limit}; the paper: 13 and 11)",
            move |r| {
                let [int, double] = write(r, ACROSS);
                [least([int, double]), int, double]
            };
        paper Within(0.67, 1.5), "a char {0:.2} times ({limit}; the paper: 1)",
            |r| [to_aligned(r, "write", ACROSS, 1.0)];
        // A value on one line must not look as if it lay on two.
        control AtMost(1.2), "aligned once more, an int takes {1:.2} and a double {2:.2} times as long \
             (each {limit})",
            move |r| {
                let [int, double] = write(r, AGAIN);
                [most([int, double]), int, double]
            };
        aim AtMost(3.0), "reading a double takes {0:.2} times as long ({limit}); aligned against itself \
             {1:.2}", |r| [to_aligned(r, "read", ACROSS, 8.0), to_aligned(r, "write", AGAIN, 8.0)];
        paper AtMost(1.5), "from processor to processor a double takes {1:.0} ns over the ring, {0:.2} times as \
             long as a char ({limit}; over the ring again {2:.0} ns)",
            |r| {
                let [char, double] = [1.0, 8.0].map(|octets| r.at(ring::BETWEEN, ring::RING, "p50_ns", octets));
                [double / char, double, r.at(ring::BETWEEN, ring::AGAIN, "p50_ns", 8.0)]
            }, when has_two_processors;
        control AtLeast(2.0), "over a unix socket it takes {0:.0} times as long ({limit})",
            |r| {
                let [ring, unix] = [ring::RING, ring::CONTROL].map(|of| r.at(ring::BETWEEN, of, "p50_ns", 8.0));
                [unix / ring]
            }, when has_two_processors;
        aim AtLeast(1000.0), "in pieces of 64 KiB the ring carries {0:.0} megabytes a second ({limit}), a unix \
             socket {1:.0}",
            |r| {
                [ring::RING, ring::CONTROL].map(|of| r.at(ring::BANDWIDTH, of, "megabytes_per_s", 65_536.0))
            }, when has_two_processors;
        aim AtMost(20.0), "an aligned double costs {0:.1} ns more than in private memory ({limit})",
            |r| [r.at("write", ALIGNED, "p50_ns", 8.0) - r.at("write", PRIVATE, "p50_ns", 8.0)];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_in_one_mapping_is_read_in_the_other() {
        let mut memory = Memory::new().expect("memory files are to be had");
        for (_, offset) in SUBJECTS {
            memory.write([9, 8, 7, 6, 5, 4, 3, 2], offset);
            let read = memory.reader.read_with(|view| {
                places(offset).all(|place| view.bytes(place) == Ok([9u8, 8, 7, 6, 5, 4, 3, 2]))
            });
            assert!(read.is_ok_and(|(all, _)| all), "{offset}");
        }
    }

    #[test]
    fn everybody_has_as_many_samples() {
        let mut out = Measured::default();
        Memory::new().expect("memory files are to be had").measure::<8>(1, &mut out);
        assert_eq!(out.rows.len(), 2 * SUBJECTS.len());
        assert!(out.rows.iter().all(|row| row.value("n") == Some(BLOCK as f64)));
    }
}
