//! Findings for people and for programs.

use std::fmt::Write;

use serde::Serialize;

use crate::probe::Latency;
use crate::{Finding, Level};

/// Everything that was found out.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The worst of the findings.
    pub verdict: Level,
    /// One for each check.
    pub findings: Vec<Finding>,
    /// How late threads woke up, one for each class; empty if it was not measured.
    pub wake_up: Vec<Latency>,
    /// Why it was not measured, where that was not asked for.
    pub not_measured: Option<String>,
}

impl Report {
    /// Of these.
    pub fn new(findings: Vec<Finding>, wake_up: Vec<Latency>, not_measured: Option<String>) -> Report {
        let verdict = findings.iter().map(|finding| finding.level).max().unwrap_or(Level::Good);
        Report { verdict, findings, wake_up, not_measured }
    }

    /// For a terminal, the problems first; `all` also shows the checks that passed.
    pub fn text(&self, all: bool) -> String {
        let mut text = String::new();
        let mut sorted: Vec<&Finding> = self.findings.iter().collect();
        sorted.sort_by_key(|finding| std::cmp::Reverse(finding.level));
        // Writing to a String cannot fail.
        for finding in sorted.into_iter().filter(|finding| all || finding.level != Level::Good) {
            let _ = writeln!(text, "{:<9} {:<22} {}", finding.level, finding.check, finding.found);
            if !finding.matters.is_empty() {
                let _ = writeln!(text, "          {}", finding.matters);
            }
            for command in &finding.fix {
                let _ = writeln!(text, "            $ {command}");
            }
        }
        let good = self.findings.iter().filter(|finding| finding.level == Level::Good).count();
        let _ = writeln!(text, "{good} of {} checks found nothing in the way", self.findings.len());
        if !self.wake_up.is_empty() {
            let _ = writeln!(text, "\nwake-up latency, microseconds");
            let _ = writeln!(
                text,
                "  {:<16} {:>8} {:>9} {:>9} {:>9} {:>9} {:>9}  worst on",
                "class", "n", "min", "p50", "p99", "p99.9", "max"
            );
        }
        for latency in &self.wake_up {
            let class =
                latency.fifo.map_or("SCHED_OTHER".to_owned(), |priority| format!("SCHED_FIFO {priority}"));
            let _ = write!(text, "  {class:<16} {:>8}", latency.n);
            for ns in [latency.min_ns, latency.p50_ns, latency.p99_ns, latency.p999_ns, latency.max_ns] {
                let _ = write!(text, " {:>9.1}", ns as f64 / 1000.0);
            }
            let _ = writeln!(text, "  processor {}", latency.worst_cpu);
        }
        if let Some(latency) = self.wake_up.iter().find(|latency| latency.fifo.is_some()) {
            let [p999, max] = [latency.p999_ns, latency.max_ns].map(|ns| ns as f64 / 1000.0);
            let _ = writeln!(
                text,
                "floor: a real-time thread that does nothing else woke up as much as {max:.1} us late (p99.9 \
                 {p999:.1} us); no program on this machine keeps a shorter bound. A longer --seconds finds rarer delays"
            );
        }
        if let Some(why) = &self.not_measured {
            let _ = writeln!(text, "wake-up latency: {why}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_comes_first_and_is_the_verdict() {
        let findings = vec![
            Finding::good("a", "well"),
            Finding::new("b", Level::Note, "odd", "so what").fix("do"),
            Finding::new("c", Level::Blocking, "bad", "stops").fix("mend").fix("or this"),
        ];
        let report = Report::new(findings, vec![], Some("was refused".to_owned()));
        assert_eq!(report.verdict, Level::Blocking);
        let text = report.text(false);
        let at = |word| text.find(word).unwrap_or_else(|| panic!("{word} is not in\n{text}"));
        assert!(at("bad") < at("odd") && at("$ mend") < at("$ or this"));
        assert!(!text.contains("well") && report.text(true).contains("well"));
        assert!(text.contains("1 of 3 checks") && text.contains("was refused"));
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!((&json["verdict"], &json["findings"][2]["fix"][0]), (&"blocking".into(), &"mend".into()));
    }

    #[test]
    fn figures_are_in_microseconds() {
        let latency = Latency {
            fifo: Some(90),
            n: 3,
            min_ns: 1500,
            p50_ns: 2000,
            p99_ns: 3000,
            p999_ns: 3000,
            max_ns: 3040,
            worst_cpu: 1,
        };
        let text = Report::new(vec![], vec![latency], None).text(false);
        assert!(text.contains("SCHED_FIFO 90") && text.contains("1.5") && text.contains("3.0"), "{text}");
        assert!(
            text.contains("floor: a real-time thread") && text.contains("as much as 3.0 us late"),
            "{text}"
        );
        let ordinary = Latency { fifo: None, ..latency };
        assert!(!Report::new(vec![], vec![ordinary], None).text(false).contains("floor"), "no bound at all");
    }
}
