//! Results of an experiment: rows, the figures that show them, notes, and the verdict on the paper.
//!
//! A [`Row`] is one point: a subject at one place of the horizontal axis, with all values that were
//! measured there. A [`Figure`] names the values that are drawn.

use std::fmt::Write;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::claim::{Kind, Ruling, Verdict};
use crate::stats::Summary;

/// Values by name. Names that end in `_ns` are times.
pub type Values = Vec<(&'static str, f64)>;

/// One point: a subject at one place.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    pub figure: &'static str,
    pub subject: &'static str,
    pub x: f64,
    pub values: Values,
}

/// How to draw rows.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Figure {
    /// Its name within the experiment; rows refer to it.
    pub id: &'static str,
    pub title: &'static str,
    /// What the horizontal axis counts, with its unit.
    pub x: &'static str,
    /// What the vertical axis counts, with its unit.
    pub y: &'static str,
    /// The values of a row that are drawn, a line for each value and subject.
    pub draw: &'static [&'static str],
    /// Drawn values are divided by this: 1000 makes microseconds of nanoseconds.
    pub divide: f64,
    /// Is the vertical axis logarithmic?
    pub log: bool,
}

/// What an experiment measured.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Measured {
    pub figures: Vec<Figure>,
    /// The points of all figures.
    pub rows: Vec<Row>,
    /// What a reader must know beside: subjects that are missing, what was left out.
    pub notes: Vec<String>,
}

/// What was measured, and the verdict.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    pub measured: Measured,
    pub verdict: Verdict,
}

impl Row {
    /// The value called `name`.
    pub fn value(&self, name: &str) -> Option<f64> {
        self.values.iter().find(|(n, _)| *n == name).map(|&(_, value)| value)
    }
}

impl Figure {
    /// Times in microseconds on a logarithmic axis.
    pub const fn new(
        id: &'static str,
        title: &'static str,
        x: &'static str,
        y: &'static str,
        draw: &'static [&'static str],
    ) -> Figure {
        Figure { id, title, x, y, draw, divide: 1000.0, log: true }
    }

    /// With another divisor.
    pub const fn divide(self, divide: f64) -> Figure {
        Figure { divide, ..self }
    }

    /// On a linear axis.
    pub const fn linear(self) -> Figure {
        Figure { log: false, ..self }
    }
}

impl Measured {
    pub fn row(&mut self, figure: &'static str, subject: &'static str, x: impl Into<f64>, values: Values) {
        self.rows.push(Row { figure, subject, x: x.into(), values });
    }

    pub fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }
}

/// The values of a distribution, as every experiment names them.
pub fn times(s: &Summary) -> Values {
    let exact = |ns: u64| ns as f64;
    let s = s.rounded();
    vec![
        ("n", exact(s.n)),
        ("min_ns", exact(s.min_ns)),
        ("mean_ns", s.mean_ns),
        ("stddev_ns", s.stddev_ns),
        ("p50_ns", exact(s.p50_ns)),
        ("p99_ns", exact(s.p99_ns)),
        ("p999_ns", exact(s.p999_ns)),
        ("p9999_ns", exact(s.p9999_ns)),
        ("max_ns", exact(s.max_ns)),
        ("max_minus_min_ns", exact(s.max_ns.saturating_sub(s.min_ns))),
    ]
}

/// A row as one flat object.
pub struct Line<'a>(pub &'static str, pub &'a Row);

impl Serialize for Line<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Line(experiment, row) = self;
        let mut map = serializer.serialize_map(Some(4 + row.values.len()))?;
        map.serialize_entry("experiment", experiment)?;
        map.serialize_entry("figure", row.figure)?;
        map.serialize_entry("subject", row.subject)?;
        map.serialize_entry("x", &row.x)?;
        row.values.iter().try_for_each(|(name, value)| map.serialize_entry(name, value))?;
        map.end()
    }
}

impl Outcome {
    /// All rows for JSON.
    pub fn lines(&self) -> impl Iterator<Item = Line<'_>> {
        self.measured.rows.iter().map(|row| Line(self.verdict.experiment, row))
    }

    /// The figures without those that draw the rows of an earlier one.
    pub fn tables(&self) -> impl Iterator<Item = &Figure> {
        let figures = &self.measured.figures;
        figures
            .iter()
            .enumerate()
            .filter(|(i, figure)| !figures[..*i].iter().any(|f| f.id == figure.id))
            .map(|(_, figure)| figure)
    }

    /// For a terminal: a table for each figure, the notes, the verdict.
    pub fn text(&self) -> String {
        let mut text: String = self.tables().map(|figure| table(figure, &self.measured.rows)).collect();
        // Writing to a String cannot fail.
        for note in &self.measured.notes {
            let _ = writeln!(text, "  {note}");
        }
        let verdict = &self.verdict;
        let _ = writeln!(text, "paper: {}", verdict.paper);
        for claim in &verdict.claims {
            let of = match claim.of {
                Kind::Paper => "shape",
                Kind::Control => "control",
                Kind::Worst => "worst",
                Kind::Aim => "aim",
            };
            let holds = claim.holds.map_or("?", |holds| if holds { "yes" } else { "NO" });
            let _ = writeln!(text, "  {of:<8} {holds:<4} {}", claim.wording);
        }
        let _ = writeln!(text, "{}: {}", verdict.experiment, self.summary());
        text
    }

    /// The verdict in a line.
    pub fn summary(&self) -> String {
        let control = match self.verdict.control_fails {
            Some(true) => "the control fails, as it must",
            Some(false) => "the control does NOT fail",
            None => "no control",
        };
        let shape = if self.verdict.shape_holds { "the shape holds" } else { "the shape does NOT hold" };
        let worst = match self.verdict.worst_case {
            Some(Ruling::Holds) => ", the worst case holds",
            Some(Ruling::Breaks) => ", the worst case does NOT hold",
            Some(Ruling::Inconclusive) => ", the worst case is inconclusive: the machine is too noisy",
            None => "",
        };
        format!("{shape}, {control}{worst}")
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
            let precision = if value.fract() == 0.0 { 0 } else { 2 };
            let _ = write!(text, " {value:>11.precision$}");
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::{Above, judge, paper};

    fn row(subject: &'static str, x: f64, p50: f64) -> Row {
        Row { figure: "f", subject, x, values: vec![("n", 3.0), ("p50_ns", p50)] }
    }

    #[test]
    fn a_row_is_one_flat_object() {
        assert_eq!(
            serde_json::to_string(&Line("e", &row("a", 2.0, 1500.0))).unwrap(),
            r#"{"experiment":"e","figure":"f","subject":"a","x":2.0,"n":3.0,"p50_ns":1500.0}"#
        );
    }

    #[test]
    fn the_text_has_tables_notes_and_the_verdict() {
        let rows = vec![row("a", 1.0, 1500.0)];
        let verdict = judge("e", "flat", &[paper(Above(2.0), "it is flat", |_| [1.0])], &rows);
        let figures = vec![Figure::new("f", "Title", "depth", "us", &["p50_ns"])];
        let measured = Measured { figures, rows, notes: vec!["note".to_owned()] };
        let text = Outcome { measured, verdict }.text();
        let parts = [
            "Title (us)",
            "p50",
            "1.50",
            "note",
            "paper: flat",
            "NO   it is flat",
            "does NOT hold, no control",
        ];
        for part in parts {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
    }
}
