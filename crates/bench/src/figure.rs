//! What an experiment comes to: points, the figures that show them, and a verdict on the paper's claim.
//!
//! A [`Row`] is one point: a subject at one place of the horizontal axis, with every value that was taken there. A
//! [`Figure`] says which of the values to draw. A [`Verdict`] is made of [`Claim`]s, each a sentence that was computed from
//! the rows: nobody looks at a picture to find out whether the paper's shape is there.

use std::fmt::Write;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::stats::Summary;

/// One point: a subject at one place.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    /// Name of the experiment.
    pub experiment: &'static str,
    /// The figure that it belongs to.
    pub figure: &'static str,
    /// Who was measured.
    pub subject: &'static str,
    /// Where on the horizontal axis.
    pub x: f64,
    /// What was measured, by name. Names that end in `_ns` are times.
    pub values: Vec<(&'static str, f64)>,
}

/// How to draw rows.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Figure {
    /// Its name within the experiment; rows refer to it.
    pub id: &'static str,
    /// Above it.
    pub title: &'static str,
    /// What the horizontal axis counts, with its unit.
    pub x: &'static str,
    /// What the vertical axis counts, with its unit.
    pub y: &'static str,
    /// The values of a row that are drawn, a line for each and subject.
    pub draw: &'static [&'static str],
    /// Drawn values are divided by this: 1000 makes microseconds of nanoseconds.
    pub divide: f64,
    /// Is the vertical axis logarithmic?
    pub log: bool,
}

/// A sentence, computed from rows, that holds or does not.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Claim {
    /// Whose sentence it is.
    pub of: Of,
    /// The sentence, with what was measured.
    pub says: String,
    /// Does it hold?
    pub holds: bool,
}

/// Whose sentence a claim is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Of {
    /// The paper's: what its figure shows.
    Paper,
    /// The negative control's: that it does worse, as it must.
    Control,
    /// Ours: a figure that we aim at. It does not decide whether the paper's shape holds.
    Aim,
}

/// The last line of an experiment.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Verdict {
    /// Name of the experiment.
    pub experiment: &'static str,
    /// Do all claims of the paper hold?
    pub shape_holds: bool,
    /// Do all claims of the control hold? `None` where there is no control.
    pub control_fails: Option<bool>,
    /// The paper's claim in words.
    pub paper: &'static str,
    /// What that was computed from.
    pub claims: Vec<Claim>,
}

/// Everything that an experiment came to.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Outcome {
    /// The figures, in their order.
    pub figures: Vec<Figure>,
    /// The points of all figures.
    pub rows: Vec<Row>,
    /// What a reader must know beside: subjects that are missing, what was left out.
    pub notes: Vec<String>,
    /// The verdict.
    pub verdict: Verdict,
}

impl Row {
    /// The value called `name`.
    pub fn value(&self, name: &str) -> Option<f64> {
        self.values.iter().find(|(n, _)| *n == name).map(|&(_, value)| value)
    }
}

/// The values of a distribution, as every experiment names them.
pub fn times(s: &Summary) -> Vec<(&'static str, f64)> {
    let exact = |ns: u64| ns as f64;
    let tenth = |ns: f64| (ns * 10.0).round() / 10.0;
    vec![
        ("n", exact(s.n)),
        ("min_ns", exact(s.min_ns)),
        ("mean_ns", tenth(s.mean_ns)),
        ("stddev_ns", tenth(s.stddev_ns)),
        ("p50_ns", exact(s.p50_ns)),
        ("p99_ns", exact(s.p99_ns)),
        ("p999_ns", exact(s.p999_ns)),
        ("max_ns", exact(s.max_ns)),
        ("max_minus_min_ns", exact(s.max_ns.saturating_sub(s.min_ns))),
    ]
}

/// A value of `subject` at each place where it was taken, in the rows' order.
pub fn series(rows: &[Row], figure: &str, subject: &str, value: &str) -> Vec<(f64, f64)> {
    let of = rows.iter().filter(|row| row.figure == figure && row.subject == subject);
    of.filter_map(|row| Some((row.x, row.value(value)?))).collect()
}

/// A value of `subject` at `x`; not a number where it was not taken, so that no claim on it holds.
pub fn at(rows: &[Row], figure: &str, subject: &str, value: &str, x: f64) -> f64 {
    let found = series(rows, figure, subject, value).into_iter().find(|&(place, _)| place == x);
    found.map_or(f64::NAN, |(_, value)| value)
}

impl Verdict {
    /// Of these claims. Without any of the paper's, the shape does not hold: nothing was computed.
    pub fn new(experiment: &'static str, paper: &'static str, claims: Vec<Claim>) -> Verdict {
        let all = |of: Of| {
            let mut claims = claims.iter().filter(|claim| claim.of == of).peekable();
            claims.peek().is_some().then(|| claims.all(|claim| claim.holds))
        };
        Verdict {
            experiment,
            shape_holds: all(Of::Paper).unwrap_or(false),
            control_fails: all(Of::Control),
            paper,
            claims,
        }
    }
}

impl Claim {
    /// A claim of the paper's.
    pub fn paper(holds: bool, says: impl Into<String>) -> Claim {
        Claim { of: Of::Paper, says: says.into(), holds }
    }

    /// A claim of the negative control's.
    pub fn control(holds: bool, says: impl Into<String>) -> Claim {
        Claim { of: Of::Control, says: says.into(), holds }
    }

    /// A claim of ours.
    pub fn aim(holds: bool, says: impl Into<String>) -> Claim {
        Claim { of: Of::Aim, says: says.into(), holds }
    }
}

impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(4 + self.values.len()))?;
        map.serialize_entry("experiment", self.experiment)?;
        map.serialize_entry("figure", self.figure)?;
        map.serialize_entry("subject", self.subject)?;
        map.serialize_entry("x", &self.x)?;
        for (name, value) in &self.values {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl Outcome {
    /// For a terminal: a table for each figure, the notes, the verdict.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (i, figure) in self.figures.iter().enumerate() {
            // Two figures may draw the same rows.
            if !self.figures[..i].iter().any(|before| before.id == figure.id) {
                text.push_str(&table(figure, &self.rows));
            }
        }
        // Writing to a String cannot fail.
        for note in &self.notes {
            let _ = writeln!(text, "  {note}");
        }
        let verdict = &self.verdict;
        let _ = writeln!(text, "paper: {}", verdict.paper);
        for claim in &verdict.claims {
            let of = match claim.of {
                Of::Paper => "shape",
                Of::Control => "control",
                Of::Aim => "aim",
            };
            let _ = writeln!(text, "  {of:<8} {:<4} {}", if claim.holds { "yes" } else { "NO" }, claim.says);
        }
        let control = match verdict.control_fails {
            Some(true) => "the control fails, as it must",
            Some(false) => "the control does NOT fail",
            None => "no control",
        };
        let shape = if verdict.shape_holds { "the shape holds" } else { "the shape does NOT hold" };
        let _ = writeln!(text, "{}: {shape}, {control}", verdict.experiment);
        text
    }
}

fn table(figure: &Figure, rows: &[Row]) -> String {
    let rows: Vec<&Row> = rows.iter().filter(|row| row.figure == figure.id).collect();
    let Some(first) = rows.first() else { return String::new() };
    let mut text = format!("{} ({})\n", figure.title, figure.y);
    let width = rows.iter().map(|row| row.subject.len()).max().unwrap_or(0).max(8);
    let _ = write!(text, "  {:<width$} {:>12}", "subject", "x");
    for (name, _) in &first.values {
        let _ = write!(text, " {:>11}", name.trim_end_matches("_ns"));
    }
    let _ = writeln!(text, "      x: {}", figure.x);
    for row in rows {
        let _ = write!(text, "  {:<width$} {:>12}", row.subject, row.x);
        for (name, value) in &row.values {
            let value = if name.ends_with("_ns") { value / figure.divide } else { *value };
            let _ = if value.fract() == 0.0 {
                write!(text, " {value:>11.0}")
            } else {
                write!(text, " {value:>11.2}")
            };
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(subject: &'static str, x: f64, p50: f64) -> Row {
        Row { experiment: "e", figure: "f", subject, x, values: vec![("n", 3.0), ("p50_ns", p50)] }
    }

    #[test]
    fn a_row_is_one_flat_object() {
        assert_eq!(
            serde_json::to_string(&row("a", 2.0, 1500.0)).unwrap(),
            r#"{"experiment":"e","figure":"f","subject":"a","x":2.0,"n":3.0,"p50_ns":1500.0}"#
        );
    }

    #[test]
    fn series_keep_their_places() {
        let rows = [row("a", 1.0, 10.0), row("b", 1.0, 20.0), row("a", 2.0, 30.0)];
        assert_eq!(series(&rows, "f", "a", "p50_ns"), [(1.0, 10.0), (2.0, 30.0)]);
        assert!(series(&rows, "g", "a", "p50_ns").is_empty());
        assert_eq!(at(&rows, "f", "b", "p50_ns", 1.0), 20.0);
        assert!(at(&rows, "f", "b", "p50_ns", 2.0).is_nan());
    }

    #[test]
    fn a_verdict_is_what_its_claims_are() {
        let of = |claims| {
            let v = Verdict::new("e", "p", claims);
            (v.shape_holds, v.control_fails)
        };
        assert_eq!(of(vec![]), (false, None));
        assert_eq!(of(vec![Claim::paper(true, "a"), Claim::aim(false, "b")]), (true, None));
        assert_eq!(of(vec![Claim::paper(true, "a"), Claim::paper(false, "b")]), (false, None));
        assert_eq!(of(vec![Claim::paper(true, "a"), Claim::control(false, "c")]), (true, Some(false)));
        assert_eq!(of(vec![Claim::paper(true, "a"), Claim::control(true, "c")]), (true, Some(true)));
    }

    #[test]
    fn the_text_has_tables_notes_and_the_verdict() {
        let figure = Figure {
            id: "f",
            title: "Title",
            x: "depth",
            y: "us",
            draw: &["p50_ns"],
            divide: 1000.0,
            log: false,
        };
        let outcome = Outcome {
            figures: vec![figure],
            rows: vec![row("a", 1.0, 1500.0)],
            notes: vec!["note".to_owned()],
            verdict: Verdict::new("e", "flat", vec![Claim::paper(false, "it is flat")]),
        };
        let text = outcome.text();
        for part in [
            "Title (us)",
            "p50",
            "1.50",
            "note",
            "paper: flat",
            "NO   it is flat",
            "does NOT hold, no control",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
    }
}
