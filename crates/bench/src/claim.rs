//! Claims of experiments: a table for each experiment, and one evaluator for all tables.
//!
//! A [`Claim`] is a value expression over the rows, a comparison with a limit, a kind and the
//! template of a sentence. The verdict is computed; plots only illustrate it. A claim holds,
//! breaks, or is inconclusive: where the bare program differs from itself by more than [`NOISE`],
//! the run says nothing about it. The test at the end tries each claim of each experiment on
//! synthetic rows that meet it and on rows that break it.

use serde::Serialize;

use crate::figure::Row;

/// The rows that claims read.
pub trait Cells {
    /// A value of a subject at each x where it was measured, in the order of the rows.
    fn series(&self, figure: &str, subject: &str, value: &str) -> Vec<(f64, f64)>;

    /// A value of a subject at `x`; not a number where it was not measured, so that no claim holds.
    fn at(&self, figure: &str, subject: &str, value: &str, x: f64) -> f64 {
        let found = self.series(figure, subject, value).into_iter().find(|&(at, _)| at == x);
        found.map_or(f64::NAN, |(_, value)| value)
    }

    /// The values of [`series`](Self::series) alone.
    fn values(&self, figure: &str, subject: &str, value: &str) -> Vec<f64> {
        self.series(figure, subject, value).into_iter().map(|(_, value)| value).collect()
    }

    /// The factor by which a value grows from one x to another.
    fn growth(&self, figure: &str, subject: &str, value: &str, [from, to]: [f64; 2]) -> f64 {
        self.at(figure, subject, value, to) / self.at(figure, subject, value, from)
    }
}

impl Cells for Vec<Row> {
    fn series(&self, figure: &str, subject: &str, value: &str) -> Vec<(f64, f64)> {
        let of = self.iter().filter(|row| row.figure == figure && row.subject == subject);
        of.filter_map(|row| Some((row.x, row.value(value)?))).collect()
    }
}

/// The origin of a claim.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The paper's: what its figure shows. These decide whether the shape holds.
    Paper,
    /// The negative control's: that it does worse, as it must.
    Control,
    /// Ours: the worst case beside that of a bare program in the same run.
    Worst,
    /// Ours: a figure that we aim at. It decides nothing.
    Aim,
}

/// Above this ratio of the bare program to itself a claim that has a bare program is inconclusive.
pub const NOISE: f64 = 1.3;

/// The comparison of a claim's first value with a limit. A NaN meets none of them.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Limit {
    Below(f64),
    AtMost(f64),
    Above(f64),
    AtLeast(f64),
    Within(f64, f64),
}

pub use Limit::{Above, AtLeast, AtMost, Below, Within};

impl Limit {
    fn is_met(self, value: f64) -> bool {
        match self {
            Below(limit) => value < limit,
            AtMost(limit) => value <= limit,
            Above(limit) => value > limit,
            AtLeast(limit) => value >= limit,
            Within(low, high) => (low..=high).contains(&value),
        }
    }

    fn text(self) -> String {
        match self {
            Below(limit) => format!("below {limit}"),
            AtMost(limit) => format!("at most {limit}"),
            Above(limit) => format!("above {limit}"),
            AtLeast(limit) => format!("at least {limit}"),
            Within(low, high) => format!("{low} to {high}"),
        }
    }
}

/// One line of an experiment's table of claims.
pub struct Claim {
    kind: Kind,
    limit: Limit,
    wording: String,
    values: Box<OfCells<Vec<f64>>>,
    applies: Box<OfCells<bool>>,
    /// The ratio of the bare program to itself, at least 1.
    noise: Option<Box<OfCells<f64>>>,
}

/// Computes a value from the rows of an experiment.
type OfCells<T> = dyn Fn(&dyn Cells) -> T;

/// A claim of the paper. The first of `values` is compared with `limit`. In `says`, `{0:.2}` stands
/// for the first value with two decimals, and `{limit}` for the comparison and its limit.
pub fn paper<const N: usize>(
    limit: Limit,
    wording: impl Into<String>,
    values: impl Fn(&dyn Cells) -> [f64; N] + 'static,
) -> Claim {
    Claim {
        kind: Kind::Paper,
        limit,
        wording: wording.into(),
        values: Box::new(move |cells| values(cells).to_vec()),
        applies: Box::new(|_| true),
        noise: None,
    }
}

/// A claim on the negative control; otherwise as [`paper`].
pub fn control<const N: usize>(
    limit: Limit,
    wording: impl Into<String>,
    values: impl Fn(&dyn Cells) -> [f64; N] + 'static,
) -> Claim {
    Claim { kind: Kind::Control, ..paper(limit, wording, values) }
}

/// A claim on the worst case; otherwise as [`paper`].
pub fn worst<const N: usize>(
    limit: Limit,
    wording: impl Into<String>,
    values: impl Fn(&dyn Cells) -> [f64; N] + 'static,
) -> Claim {
    Claim { kind: Kind::Worst, ..paper(limit, wording, values) }
}

/// A claim of our own; otherwise as [`paper`].
pub fn aim<const N: usize>(
    limit: Limit,
    wording: impl Into<String>,
    values: impl Fn(&dyn Cells) -> [f64; N] + 'static,
) -> Claim {
    Claim { kind: Kind::Aim, ..paper(limit, wording, values) }
}

/// A table of claims, one after the other: kind, limit, sentence, values, and where it applies.
macro_rules! claims {
    ($($kind:ident $limit:expr, $wording:expr, $values:expr $(, when $when:expr)?;)*) => {
        vec![$($kind($limit, $wording, $values)$(.when($when))?),*]
    };
}
pub(crate) use claims;

impl Claim {
    /// The claim is made only where `applies` says so, as well as all that were given before: where
    /// an optional subject was measured.
    pub fn when(self, applies: impl Fn(&dyn Cells) -> bool + 'static) -> Claim {
        let before = self.applies;
        Claim { applies: Box::new(move |cells| before(cells) && applies(cells)), ..self }
    }

    /// The claim is inconclusive where this ratio, of the bare program to itself, is above
    /// [`NOISE`]. Its sentence ends with the ratio.
    pub fn unless_noisy(self, ratio: impl Fn(&dyn Cells) -> f64 + 'static) -> Claim {
        Claim { noise: Some(Box::new(ratio)), ..self }
    }

    fn judge(&self, cells: &dyn Cells) -> Option<ClaimResult> {
        (self.applies)(cells).then(|| {
            let values = (self.values)(cells);
            let mut wording = sentence(&self.wording, &values, self.limit);
            let noise = self.noise.as_ref().map(|noise| noise(cells));
            if let Some(noise) = noise {
                wording += &sentence("; the bare program beside itself {0:.2}", &[noise], self.limit);
            }
            let noisy = noise.is_some_and(|noise| noise > NOISE);
            ClaimResult { of: self.kind, wording, holds: (!noisy).then(|| self.is_met(&values)) }
        })
    }

    fn is_met(&self, values: &[f64]) -> bool {
        values.first().is_some_and(|&value| self.limit.is_met(value))
    }
}

/// A claim with what was measured.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ClaimResult {
    pub of: Kind,
    pub wording: String,
    /// `None` is inconclusive.
    pub holds: Option<bool>,
}

/// What all claims of a kind come to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ruling {
    Holds,
    Breaks,
    /// None breaks, and the machine was too noisy for some.
    Inconclusive,
}

impl Ruling {
    fn of(claims: &[ClaimResult], kind: Kind) -> Option<Ruling> {
        let mut of = claims.iter().filter(|claim| claim.of == kind).peekable();
        of.peek()?;
        Some(of.fold(Ruling::Holds, |all, claim| match (all, claim.holds) {
            (_, Some(false)) | (Ruling::Breaks, _) => Ruling::Breaks,
            (_, None) => Ruling::Inconclusive,
            (all, Some(true)) => all,
        }))
    }
}

/// The last line of an experiment.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Verdict {
    pub experiment: &'static str,
    /// Do all claims of the paper hold? False where none was made.
    pub shape_holds: bool,
    /// Do all claims on the control hold? `None` where there is no control.
    pub control_fails: Option<bool>,
    /// The worst case beside the bare program; `None` where nothing is claimed of it.
    pub worst_case: Option<Ruling>,
    pub paper: &'static str,
    pub claims: Vec<ClaimResult>,
}

/// Judges all claims of a table.
pub fn judge(experiment: &'static str, paper: &'static str, claims: &[Claim], cells: &dyn Cells) -> Verdict {
    let claims: Vec<ClaimResult> = claims.iter().filter_map(|claim| claim.judge(cells)).collect();
    let all = |kind: Kind| Ruling::of(&claims, kind);
    let shape_holds = all(Kind::Paper) == Some(Ruling::Holds);
    let control_fails = all(Kind::Control).map(|ruling| ruling == Ruling::Holds);
    let worst_case = all(Kind::Worst);
    Verdict { experiment, shape_holds, control_fails, worst_case, paper, claims }
}

/// Replaces `{N}`, `{N:.P}` and `{limit}` in a template.
fn sentence(template: &str, values: &[f64], limit: Limit) -> String {
    let mut parts = template.split('{');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (place, rest) = part.split_once('}').unwrap_or((part, ""));
        let (index, precision) = place.split_once(":.").unwrap_or((place, ""));
        let value = index.parse().ok().and_then(|index: usize| values.get(index));
        text += &match (value, precision.parse::<usize>()) {
            (None, _) if place == "limit" => limit.text(),
            (None, _) => format!("{{{place}}}"),
            (Some(value), _) if value.is_nan() => "?".to_owned(),
            (Some(value), _) if value.is_infinite() => "none".to_owned(),
            (Some(value), Ok(precision)) => format!("{value:.precision$}"),
            (Some(value), Err(_)) => value.to_string(),
        };
        text += rest;
    }
    text
}

/// The largest value; not a number of none, or where one is not a number.
pub fn most(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().reduce(|a, b| if a.is_nan() || a > b { a } else { b }).unwrap_or(f64::NAN)
}

/// The smallest value; not a number of none, or where one is not a number.
pub fn least(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().reduce(|a, b| if a.is_nan() || a < b { a } else { b }).unwrap_or(f64::NAN)
}

/// The median; not a number of none.
pub fn median_of(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::collections::BTreeMap;

    use super::*;
    use crate::experiments::catalogue::{ALL, Experiment};

    /// Where synthetic series have points.
    const XS: [f64; 22] = [
        0.0, 1.0, 5.0, 10.0, 20.0, 25.0, 40.0, 50.0, 80.0, 92.0, 94.0, 96.0, 98.0, 100.0, 104.0, 150.0, 1e3,
        2e4, 5e4, 1e5, 1e6, 5e6,
    ];

    /// How a synthetic value depends on x.
    #[derive(Clone, Copy, Debug)]
    enum Shape {
        Constant(f64),
        /// One value up to an x, another one after it.
        Step(f64, f64, f64),
        Linear(f64, f64),
    }

    impl Shape {
        fn at(self, x: f64) -> f64 {
            match self {
                Shape::Constant(value) => value,
                Shape::Step(x0, below, above) => {
                    if x <= x0 {
                        below
                    } else {
                        above
                    }
                }
                Shape::Linear(value, slope) => value * (1.0 + slope * x),
            }
        }
    }

    impl Shape {
        fn scaled(self, by: f64) -> Shape {
            match self {
                Shape::Constant(value) => Shape::Constant(value * by),
                Shape::Step(x0, below, above) => Shape::Step(x0, below * by, above * by),
                Shape::Linear(value, slope) => Shape::Linear(value * by, slope),
            }
        }
    }

    type Key = (String, String, String);

    /// Rows that are made up when a claim asks for them.
    #[derive(Default)]
    struct Synthetic {
        shapes: RefCell<BTreeMap<Key, Shape>>,
        seed: Cell<u64>,
        /// All subjects are alike.
        alike: bool,
    }

    impl Synthetic {
        fn new(seed: u64, alike: bool) -> Synthetic {
            Synthetic { seed: Cell::new(seed * 2 + 0x9e37_79b9), alike, ..Synthetic::default() }
        }

        /// Marsaglia's xorshift, from 0 to 1.
        fn random(&self) -> f64 {
            let mut x = self.seed.get();
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            self.seed.set(x);
            (x >> 11) as f64 / (1u64 << 53) as f64
        }

        fn index(&self, below: usize) -> usize {
            (self.random() * below as f64) as usize
        }

        fn value(&self) -> f64 {
            match (self.random() * 10.0) as u32 {
                0 => 0.0,
                1 => 100.0,
                2 => 1.0,
                3..5 => 10f64.powf(self.random() - 0.5),
                5 => 100.0 * self.random(),
                _ => 10f64.powf(11.0 * self.random() - 2.0),
            }
        }

        fn shape(&self) -> Shape {
            let x = XS[self.index(XS.len())];
            match (self.random() * 4.0) as u32 {
                0 | 1 => Shape::Constant(self.value()),
                2 => Shape::Step(x, self.value(), self.value()),
                _ => Shape::Linear(self.value(), self.random() * 0.1),
            }
        }

        fn of(&self, figure: &str, subject: &str, value: &str) -> Shape {
            let subject = if self.alike { "" } else { subject };
            let key = (figure.to_owned(), subject.to_owned(), value.to_owned());
            *self.shapes.borrow_mut().entry(key).or_insert_with(|| self.shape())
        }
    }

    impl Cells for Synthetic {
        fn series(&self, figure: &str, subject: &str, value: &str) -> Vec<(f64, f64)> {
            let shape = self.of(figure, subject, value);
            XS.map(|x| (x, shape.at(x))).to_vec()
        }

        fn at(&self, figure: &str, subject: &str, value: &str, x: f64) -> f64 {
            self.of(figure, subject, value).at(x)
        }
    }

    fn holds(claim: &Claim, cells: &dyn Cells) -> bool {
        claim.judge(cells).is_some_and(|judged| judged.holds == Some(true))
    }

    fn verdict(experiment: &Experiment, cells: &dyn Cells) -> Verdict {
        judge(experiment.name, experiment.paper, &(experiment.claims)(), cells)
    }

    /// A claim that cannot fail says nothing, and one that cannot hold is a mistake. One with a
    /// bare program must be inconclusive where that is noisy.
    #[test]
    fn every_claim_holds_on_some_rows_and_breaks_on_others() {
        for experiment in ALL {
            for claim in (experiment.claims)() {
                // Breaks, holds, is inconclusive.
                let mut seen = [false, false, claim.noise.is_none()];
                for seed in 0..200_000 {
                    let judged = claim.judge(&Synthetic::new(seed, false));
                    seen[judged.map_or(0, |judged| judged.holds.map_or(2, usize::from))] = true;
                    if seen == [true; 3] {
                        break;
                    }
                }
                assert_eq!(seen, [true; 3], "{}: {}", experiment.name, claim.wording);
                assert!(!holds(&claim, &Vec::new()), "{}, without rows: {}", experiment.name, claim.wording);
            }
        }
    }

    #[test]
    fn every_value_in_a_sentence_exists() {
        for experiment in ALL {
            for judged in verdict(experiment, &Synthetic::new(1, false)).claims {
                assert!(!judged.wording.contains(['{', '}']), "{}: {}", experiment.name, judged.wording);
            }
        }
    }

    /// The shape of the paper and a failing control are possible at the same time.
    #[test]
    fn all_claims_of_an_experiment_can_hold_together() {
        for experiment in ALL {
            let claims = (experiment.claims)();
            let needed: Vec<&Claim> = claims.iter().filter(|claim| claim.kind != Kind::Aim).collect();
            let count = |rows: &Synthetic| needed.iter().filter(|claim| holds(claim, rows)).count();
            // Climbs a hill: one series after the other is changed, unless claims break by it.
            let found = (0..20).any(|seed| {
                let rows = Synthetic::new(seed, false);
                let mut best = count(&rows);
                for _ in 0..5_000 {
                    if best == needed.len() {
                        return true;
                    }
                    let before = rows.shapes.borrow().clone();
                    let value = before.keys().nth(rows.index(before.len())).map_or("", |key| &key.2);
                    let (alone, changed, factor) = (rows.random() < 0.8, rows.shape(), rows.value());
                    let (one, scaled) = (rows.index(before.len()), rows.random() < 0.5);
                    for (i, (key, shape)) in rows.shapes.borrow_mut().iter_mut().enumerate() {
                        // One series, or all series of a value.
                        if if alone { i == one } else { key.2 == value } {
                            *shape = if scaled { shape.scaled(factor) } else { changed };
                        }
                    }
                    let now = count(&rows);
                    if now < best {
                        *rows.shapes.borrow_mut() = before;
                    }
                    best = best.max(now);
                }
                false
            });
            assert!(found, "{}", experiment.name);
        }
    }

    /// Where subjects do not differ, no verdict says that the paper's shape holds and the control
    /// fails.
    #[test]
    fn subjects_that_are_alike_prove_nothing() {
        // Their controls are other figures, or grow as subjects of the paper do.
        const OTHERWISE: [&str; 1] = ["scope"];
        for experiment in ALL.iter().filter(|experiment| !OTHERWISE.contains(&experiment.name)) {
            for seed in 0..2_000 {
                let verdict = verdict(experiment, &Synthetic::new(seed, true));
                let proves = verdict.shape_holds && verdict.control_fails == Some(true);
                assert!(!proves, "{}: {:?}", experiment.name, verdict.claims);
            }
        }
    }

    #[test]
    fn a_verdict_is_what_its_claims_are() {
        let of = |claims: &[(Kind, bool)]| {
            let claim = |&(kind, holds): &(Kind, bool)| Claim {
                kind,
                ..paper(Above(0.5), "it is {0:.1} ({limit}), {1}", move |_| [f64::from(u8::from(holds)), 2.0])
            };
            let v = judge("e", "p", &claims.iter().map(claim).collect::<Vec<_>>(), &Vec::new());
            assert_eq!(v.worst_case, None);
            (v.shape_holds, v.control_fails)
        };
        use Kind::{Aim, Control, Paper};
        assert_eq!(of(&[]), (false, None));
        assert_eq!(of(&[(Paper, true), (Aim, false)]), (true, None));
        assert_eq!(of(&[(Paper, true), (Paper, false)]), (false, None));
        assert_eq!(of(&[(Paper, true), (Control, false)]), (true, Some(false)));
        assert_eq!(of(&[(Paper, true), (Control, true)]), (true, Some(true)));
    }

    #[test]
    fn where_the_bare_program_is_noisy_nothing_is_proved() {
        let claim = |value, noise| {
            worst(AtMost(1.5), "{0:.1} ({limit})", move |_| [value]).unless_noisy(move |_| noise)
        };
        let of = |claims: &[Claim]| judge("e", "p", claims, &Vec::new());
        let noisy = of(&[claim(1.0, 1.4)]);
        assert_eq!(noisy.claims[0].wording, "1.0 (at most 1.5); the bare program beside itself 1.40");
        assert_eq!((noisy.claims[0].holds, noisy.worst_case), (None, Some(Ruling::Inconclusive)));
        assert_eq!(of(&[claim(1.0, 1.2), claim(1.0, 1.1)]).worst_case, Some(Ruling::Holds));
        assert_eq!(of(&[claim(9.0, 1.2), claim(1.0, 2.0)]).worst_case, Some(Ruling::Breaks));
        let paper = Claim { kind: Kind::Paper, ..claim(1.0, 1.4) };
        assert!(!of(&[paper]).shape_holds, "inconclusive is not passed");
        assert_eq!(of(&[claim(f64::NAN, f64::NAN)]).worst_case, Some(Ruling::Breaks), "without rows");
    }

    #[test]
    fn a_sentence_has_what_was_measured() {
        let text = sentence("{1:.2} of {0}, {2} ({limit})", &[3.0, 1.0 / 3.0, f64::NAN], AtMost(1.5));
        assert_eq!(text, "0.33 of 3, ? (at most 1.5)");
    }

    #[test]
    fn values_keep_their_places() {
        let row = |subject, x, value| Row { figure: "f", subject, x, values: vec![("p50_ns", value)] };
        let rows = vec![row("a", 1.0, 10.0), row("b", 1.0, 20.0), row("a", 2.0, 30.0)];
        assert_eq!(rows.series("f", "a", "p50_ns"), [(1.0, 10.0), (2.0, 30.0)]);
        assert!(rows.series("g", "a", "p50_ns").is_empty());
        assert_eq!(
            (rows.at("f", "b", "p50_ns", 1.0), rows.growth("f", "a", "p50_ns", [1.0, 2.0])),
            (20.0, 3.0)
        );
        assert!(rows.at("f", "b", "p50_ns", 2.0).is_nan());
        assert!(most([1.0, f64::NAN, 3.0]).is_nan() && least([]).is_nan());
        assert_eq!((most([1.0, 3.0]), least([2.0, 1.0]), median_of(vec![3.0, 1.0, 2.0])), (3.0, 1.0, 2.0));
    }
}
