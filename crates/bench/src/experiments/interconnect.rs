//! Reading and writing a value through a mapped segment, on a line of the cache and across two.
//!
//! The segment is an area of reflective memory: written through the writer's mapping, read through a read-only mapping of its own. The
//! control is memory that nobody shares.

use std::hint::black_box;
use std::time::Duration;

use isorb_memory_area::{Geometry, Reader, Segment, Writer};
use isorb_rt::time::now_ns;

use super::catalogue::Experiment;
use super::{BenchError, Context};
use crate::figure::{Claim, Figure, Outcome, Row, Verdict, at, times};
use crate::stats::{Samples, Summary};

/// The entry of the catalogue.
pub const EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "Reading and writing a char, an int and a double through a mapped segment, aligned and not",
    source: "Lankes, Pfeiffer, Bemmerl (ROFES): table 1",
    paper: PAPER,
    seconds: (3, 10),
    run,
};

const NAME: &str = "interconnect";
const PAPER: &str = "writing an int or a double across a border takes longer than writing it aligned; writing a char does not";
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

fn run(cx: &mut Context<'_>) -> Result<Outcome, BenchError> {
    let rounds = cx.ms(300, 2_000);
    cx.step(NAME);
    let measured = cx.on_thread(move || {
        let mut memory = Memory::new()?;
        let mut rows = Vec::new();
        memory.measure::<1>(rounds, &mut rows);
        memory.measure::<4>(rounds, &mut rows);
        memory.measure::<8>(rounds, &mut rows);
        Ok::<_, std::io::Error>(rows)
    })?;
    let rows = measured?;
    let figure = |id, title| Figure {
        id,
        title,
        x: "octets: char, int, double",
        y: "nanoseconds",
        draw: &["mean_ns", "max_minus_min_ns"],
        divide: 1.0,
        log: true,
    };
    let figures = vec![figure("write", "Writing a value"), figure("read", "Reading a value")];
    let notes = vec![
        format!(
            "A sample is the mean of {TOGETHER} accesses, each to a line of its own, so maximum and minimum are of such means."
        ),
        format!(
            "Unaligned is {} octets into a line: an int and a double lie on two lines, a char does not.",
            LINE - 3
        ),
        "The paper's segment is in another machine (SCI, 2 to 27 us); this one is in memory of this machine."
            .to_owned(),
    ];
    let verdict = Verdict::new(NAME, PAPER, judge(&rows));
    Ok(Outcome { figures, rows, notes, verdict })
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
    fn measure<const N: usize>(&mut self, rounds: u32, rows: &mut Vec<Row>) {
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
            // Others of the machine are let in between blocks, not within.
            std::thread::sleep(Duration::from_micros(100));
        }
        for (figure, all) in [("write", writes), ("read", reads)] {
            for ((subject, _), samples) in SUBJECTS.into_iter().zip(all) {
                rows.push(Row {
                    experiment: NAME,
                    figure,
                    subject,
                    x: N as f64,
                    values: each(&samples.summary()),
                });
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
fn each(summary: &Summary) -> Vec<(&'static str, f64)> {
    let mut values = times(summary);
    for (name, value) in &mut values {
        if name.ends_with("_ns") {
            *value = (*value * 1000.0 / TOGETHER as f64).round() / 1000.0;
        }
    }
    values
}

fn judge(rows: &[Row]) -> Vec<Claim> {
    let p50 = |figure: &str, subject: &str, octets: f64| at(rows, figure, subject, "p50_ns", octets);
    let ratio = |figure: &str, of: &str, octets: f64| p50(figure, of, octets) / p50(figure, ALIGNED, octets);
    let [char, int, double] = [1.0, 4.0, 8.0].map(|octets| ratio("write", ACROSS, octets));
    let [noise, read] = [ratio("write", AGAIN, 8.0), ratio("read", ACROSS, 8.0)];
    let again = [4.0, 8.0].map(|octets| ratio("write", AGAIN, octets));
    let private = p50("write", ALIGNED, 8.0) - p50("write", PRIVATE, 8.0);
    vec![
        Claim::paper(
            int > 1.2 && double > 1.2,
            format!(
                "unaligned, writing an int takes {int:.2} and a double {double:.2} times as long (above 1.2; the paper: 13 and 11)"
            ),
        ),
        Claim::paper(
            (0.67..=1.5).contains(&char),
            format!("a char {char:.2} times (0.67 to 1.5; the paper: 1)"),
        ),
        // What crosses no border must not look as if it did.
        Claim::control(
            again.iter().all(|ratio| *ratio <= 1.2),
            format!(
                "aligned once more, an int takes {:.2} and a double {:.2} times as long (not above 1.2)",
                again[0], again[1]
            ),
        ),
        Claim::aim(
            read <= 3.0,
            format!(
                "reading a double takes {read:.2} times as long (at most 3); aligned against itself {noise:.2}"
            ),
        ),
        Claim::aim(
            private <= 20.0,
            format!(
                "an aligned double costs {private:.1} ns more than in memory of the process (at most 20)"
            ),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(ns: impl Fn(&str, f64) -> f64) -> Verdict {
        let mut rows = Vec::new();
        for figure in ["write", "read"] {
            for (subject, _) in SUBJECTS {
                for x in [1.0, 4.0, 8.0] {
                    let values = vec![("p50_ns", ns(subject, x))];
                    rows.push(Row { experiment: NAME, figure, subject, x, values });
                }
            }
        }
        Verdict::new(NAME, PAPER, judge(&rows))
    }

    fn holds(ns: impl Fn(&str, f64) -> f64) -> bool {
        verdict(ns).shape_holds
    }

    #[test]
    fn shapes_are_told_apart() {
        assert!(holds(|subject, x| if subject == ACROSS && x > 1.0 { 27.0 } else { 2.0 }));
        assert!(!holds(|_, _| 2.0));
        assert!(
            !holds(|subject, _| if subject == ACROSS { 27.0 } else { 2.0 }),
            "a char is never on two lines"
        );
        assert!(!holds(|_, _| f64::NAN));
    }

    #[test]
    fn what_lies_on_one_line_is_the_control() {
        let ns = |slower: f64| move |subject: &str, _: f64| if subject == AGAIN { slower } else { 2.0 };
        assert_eq!(verdict(ns(2.0)).control_fails, Some(true));
        assert_eq!(verdict(ns(3.0)).control_fails, Some(false), "then it is not the border that costs");
    }

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
        let mut rows = Vec::new();
        Memory::new().expect("memory files are to be had").measure::<8>(1, &mut rows);
        assert_eq!(rows.len(), 2 * SUBJECTS.len());
        assert!(rows.iter().all(|row| row.value("n") == Some(BLOCK as f64)));
    }
}
