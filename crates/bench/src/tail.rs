//! The tail of a subject beside that of a bare program with the same threads and priorities,
//! interleaved in the same run.
//!
//! p99.9 is judged always. p99.99 is judged of at least [`MANY`] calls, and the median of the
//! blocks' ranges of at least [`BLOCKS`] blocks, so that short runs make no claim that they cannot
//! support. The bare program is measured twice: where it differs from itself by more than
//! [`NOISE`](crate::claim::NOISE), the claims are inconclusive.

use crate::claim::{AtMost, Cells, Claim, worst};

/// Calls from which on p99.99 is judged.
const MANY: f64 = 100_000.0;
/// Blocks from which on their range is judged.
const BLOCKS: f64 = 9.0;

/// A subject with its bare program, at one place of a figure.
#[derive(Clone, Copy)]
pub struct Tail {
    pub figure: &'static str,
    pub subject: &'static str,
    pub bare: &'static str,
    pub again: &'static str,
    pub x: f64,
}

/// Value, its name in a sentence, the highest ratio, and a value of the row that must be so large.
type Judged = (&'static str, &'static str, f64, (&'static str, f64));

const JUDGED: [Judged; 3] = [
    ("p999_ns", "p99.9", 1.2, ("n", 0.0)),
    ("p9999_ns", "p99.99", 1.2, ("n", MANY)),
    ("range_ns", "a block's maximum less its minimum", 1.5, ("blocks", BLOCKS)),
];

impl Tail {
    /// The claims on it; `words` begin their sentences.
    pub fn claims(self, words: &str) -> Vec<Claim> {
        JUDGED.into_iter().map(|judged| self.claim(words, judged)).collect()
    }

    /// The claims that p99 and the longest call take at most so many times the bare program's.
    pub fn of_few(self, words: &str, [p99, longest]: [f64; 2]) -> [Claim; 2] {
        [("p99_ns", "p99", p99), ("max_ns", "the longest", longest)]
            .map(|(value, name, limit)| self.claim(words, (value, name, limit, ("n", 0.0))))
    }

    fn claim(self, words: &str, (value, name, limit, (count, least)): Judged) -> Claim {
        let Tail { figure, subject, bare, again, x } = self;
        let at = move |r: &dyn Cells, of| r.at(figure, of, value, x);
        let sentence =
            format!("{words}: {name} is {{1:.1}} us, {{0:.2}} times the bare program's {{2:.1}} ({{limit}})");
        worst(AtMost(limit), sentence, move |r| {
            let [of, bare] = [subject, bare].map(|subject| at(r, subject));
            [of / bare, of / 1000.0, bare / 1000.0]
        })
        .unless_noisy(move |r| differs(at(r, bare), at(r, again)))
        .when(move |r| least == 0.0 || r.at(figure, subject, count, x) >= least)
    }
}

/// By what factor two values differ, whichever is larger.
pub fn differs(one: f64, other: f64) -> f64 {
    (one / other).max(other / one)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::{Ruling, judge};
    use crate::figure::Row;

    fn verdict(n: f64, ours: f64, again: f64) -> (usize, Option<Ruling>) {
        let row = |subject, ns| Row {
            figure: "f",
            subject,
            x: 6.0,
            values: vec![
                ("n", n),
                ("p999_ns", ns),
                ("p9999_ns", ns),
                ("range_ns", ns),
                ("blocks", n / 1000.0),
            ],
        };
        let rows = vec![row("ours", ours), row("bare", 100.0), row("again", again)];
        let tail = Tail { figure: "f", subject: "ours", bare: "bare", again: "again", x: 6.0 };
        let verdict = judge("e", "p", &tail.claims("w"), &rows);
        (verdict.claims.len(), verdict.worst_case)
    }

    #[test]
    fn a_short_run_makes_fewer_claims() {
        assert_eq!(verdict(1e5, 119.0, 110.0), (3, Some(Ruling::Holds)));
        assert_eq!(verdict(9e3, 119.0, 110.0), (2, Some(Ruling::Holds)));
        assert_eq!(verdict(300.0, 130.0, 110.0), (1, Some(Ruling::Breaks)));
        assert_eq!(verdict(1e5, 119.0, 70.0), (3, Some(Ruling::Inconclusive)));
    }
}
