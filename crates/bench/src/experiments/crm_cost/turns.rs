//! Subjects that take turns in blocks, each compared with the control's block of the same turn.

use super::BARE;
use crate::figure::{Measured, times};
use crate::stats::{Samples, median, ratio_of_medians};

/// What a subject's turns came to.
struct Taken {
    subject: &'static str,
    samples: Samples,
    medians: Vec<Option<u64>>,
}

/// All turns of all subjects; one of them is [`BARE`].
pub struct Turns(Vec<Taken>);

impl Turns {
    /// None yet.
    pub fn new(subjects: &[&'static str]) -> Turns {
        let none = |&subject: &&'static str| Taken { subject, samples: Samples::new(), medians: Vec::new() };
        Turns(subjects.iter().map(none).collect())
    }

    /// A subject's turn.
    pub fn add(&mut self, subject: &str, block: Vec<u64>) {
        if let Some(taken) = self.0.iter_mut().find(|taken| taken.subject == subject) {
            taken.medians.push(median(&block));
            taken.samples.extend(block);
        }
    }

    /// A row a subject. `of_bare` is the median over the turns of what a subject's median was to the control's: who was measured while the
    /// machine was slower for both is compared with who was, too.
    pub fn rows(&self, out: &mut Measured, figure: &'static str, x: f64) {
        let bare = self.0.iter().find(|taken| taken.subject == BARE).map_or(&[][..], |taken| &taken.medians);
        for taken in &self.0 {
            let mut values = times(&taken.samples.summary());
            values.extend(ratio_of_medians(&taken.medians, bare).map(|ratio| ("of_bare", ratio)));
            out.row(figure, taken.subject, x, values);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::MEMORY;
    use super::*;

    #[test]
    fn turns_are_compared_with_their_own() {
        let mut turns = Turns::new(&[MEMORY, BARE]);
        // The machine is ten times as slow in the second turn, which is longer.
        for (ns, calls) in [(100, 3), (1_000, 9), (100, 3)] {
            turns.add(MEMORY, vec![2 * ns; calls]);
            turns.add(BARE, vec![ns; calls]);
        }
        let mut out = Measured::default();
        turns.rows(&mut out, "spin", 64.0);
        let rows = out.rows;
        let of_bare: Vec<_> = rows.iter().map(|row| row.value("of_bare")).collect();
        assert_eq!(of_bare, [Some(2.0), Some(1.0)]);
        assert_eq!(rows[0].value("n"), Some(15.0));
    }
}
