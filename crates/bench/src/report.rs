//! Results as a table for people and as lines of JSON for programs.

use std::fmt::Write;

use serde::Serialize;

use crate::stats::Summary;

/// Where client and server of a subject ran.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// Both on one processor.
    OneCore,
    /// Each on its own.
    TwoCore,
}

impl Placement {
    /// As the results spell it.
    pub fn name(self) -> &'static str {
        match self {
            Placement::OneCore => "one-core",
            Placement::TwoCore => "two-core",
        }
    }
}

/// One line of the results: a subject in an experiment. Times in nanoseconds.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Row {
    pub experiment: &'static str,
    pub subject: &'static str,
    pub placement: Placement,
    /// Payload in bytes.
    pub size: usize,
    #[serde(flatten)]
    pub times: Summary,
    /// Median over the rounds of this subject's median over that of raw in the same round; null
    /// without raw.
    pub ratio_to_raw_p50: Option<f64>,
}

/// Rows of one experiment, placement and size as a table, in microseconds. Of a burst, which has a
/// rate, the calls a second as well.
pub fn table(rows: &[Row], absent: &[(&str, String)], rate: bool) -> String {
    let mut text = String::new();
    let Some(first) = rows.first() else { return text };
    let size = if first.size == 0 { String::new() } else { format!(" {} B", first.size) };
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{}{size}, {}, microseconds", first.experiment, first.placement.name());
    let _ = write!(
        text,
        "  {:<14} {:>8} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>7}",
        "subject", "n", "min", "mean", "stddev", "p50", "p99", "p99.9", "max", "max-min", "/raw"
    );
    let _ = writeln!(text, "{}", if rate { format!(" {:>10}", "calls/s") } else { String::new() });
    for row in rows {
        let _ = write!(text, "  {:<14} {:>8}", row.subject, row.times.n);
        let s = row.times;
        let exact = [s.min_ns, s.p50_ns, s.p99_ns, s.p999_ns, s.max_ns, s.max_ns - s.min_ns];
        let [min, p50, p99, p999, max, range] = exact.map(|ns| ns as f64);
        for ns in [min, s.mean_ns, s.stddev_ns, p50, p99, p999, max, range] {
            let _ = write!(text, " {:>9.2}", ns / 1000.0);
        }
        let ratio = row.ratio_to_raw_p50.map_or("-".to_owned(), |r| format!("{r:.3}"));
        let _ = write!(text, " {ratio:>7}");
        if rate && s.mean_ns > 0.0 {
            let _ = write!(text, " {:>10.0}", 1e9 / s.mean_ns);
        }
        text.push('\n');
    }
    for (subject, why) in absent {
        let _ = writeln!(text, "  {subject:<14} {why}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> Row {
        let times = Summary {
            n: 2,
            min_ns: 14_000,
            mean_ns: 14_500.04,
            stddev_ns: 707.1068,
            p50_ns: 14_000,
            p99_ns: 15_000,
            p999_ns: 15_000,
            p9999_ns: 15_000,
            max_ns: 15_000,
        };
        Row {
            experiment: "two-way-void",
            subject: "omniorb",
            placement: Placement::OneCore,
            size: 0,
            times: times.rounded(),
            ratio_to_raw_p50: Some(1.2346),
        }
    }

    #[test]
    fn a_line_of_json_has_the_agreed_fields_in_their_order() {
        assert_eq!(
            serde_json::to_string(&row()).unwrap(),
            r#"{"experiment":"two-way-void","subject":"omniorb","placement":"one-core","size":0,"n":2,"min_ns":14000,"mean_ns":14500.0,"stddev_ns":707.1,"p50_ns":14000,"p99_ns":15000,"p999_ns":15000,"max_ns":15000,"ratio_to_raw_p50":1.2346}"#
        );
        assert_eq!(Placement::TwoCore.name(), "two-core");
        assert_eq!(serde_json::to_string(&Placement::TwoCore).unwrap(), "\"two-core\"");
    }

    #[test]
    fn a_table_shows_every_row_and_what_is_missing() {
        let text = table(&[row()], &[("other", "not installed".to_owned())], true);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4);
        assert_eq!(lines[0], "two-way-void, one-core, microseconds");
        let words: Vec<&str> = lines[2].split_whitespace().collect();
        assert_eq!(
            words,
            [
                "omniorb", "2", "14.00", "14.50", "0.71", "14.00", "15.00", "15.00", "15.00", "1.00",
                "1.235", "68966"
            ]
        );
        assert_eq!(lines[3].trim(), "other          not installed");
        assert_eq!(table(&[], &[], false), "");
    }
}
