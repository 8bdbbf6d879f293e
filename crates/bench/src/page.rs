//! The report: one HTML page that needs nothing else, with the results of every experiment beside
//! what the paper saw.
//!
//! Results stand in the page as text and tables, which need no script; plots are drawn from
//! embedded data.

use std::fmt::{Result, Write};
use std::io;
use std::path::Path;

use isorb_page::{Page, Text, plot};
use serde::Serialize;
use serde_json::Value;

use crate::claim::{ClaimResult, Kind, Ruling};
use crate::experiments::catalogue::Experiment;
use crate::experiments::worst;
use crate::figure::{Figure, Line, Outcome, Row};
use crate::machine::Machine;

/// The source that the binary was built from: a commit, with a plus where files had been changed.
pub const COMMIT: &str = match option_env!("ISORB_COMMIT") {
    Some(commit) => commit,
    None => "unknown",
};

/// The contents of a report.
#[derive(Debug)]
pub struct Report<'a> {
    /// The machine that it was measured on.
    pub machine: &'a Machine,
    /// Seconds since 1970.
    pub when: u64,
    /// Was it a quick run?
    pub quick: bool,
    /// The experiments that ran, or why one did not.
    pub results: &'a [(&'static Experiment, std::result::Result<Outcome, String>)],
    /// Runs that were measured before, here or elsewhere.
    pub earlier: &'a [Earlier],
}

/// The lines of JSON of an experiment, the verdict last.
#[derive(Debug)]
pub struct Earlier {
    /// The file.
    name: String,
    rows: Vec<Value>,
    verdict: Value,
}

impl Earlier {
    /// Reads a file.
    pub fn read(file: &Path) -> io::Result<Earlier> {
        Earlier::parse(file.display().to_string(), &std::fs::read_to_string(file)?)
    }

    fn parse(name: String, text: &str) -> io::Result<Earlier> {
        let no_result = |why: String| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                format!("{name}: {why}; expected the output of --json"),
            )
        };
        let lines = text.lines().map(serde_json::from_str).collect::<serde_json::Result<Vec<Value>>>();
        let mut rows = lines.map_err(|error| no_result(error.to_string()))?;
        match rows.pop().filter(|last| last["claims"].is_array() && last["experiment"].is_string()) {
            Some(verdict) => Ok(Earlier { name, rows, verdict }),
            None => Err(no_result("there is no verdict".to_owned())),
        }
    }

    /// The machine as its lines said, if they did.
    fn machine(&self) -> String {
        let part = |name: &str| self.verdict["machine"][name].as_str().unwrap_or("?").to_owned();
        format!("{}, {}, preemption {}", part("kernel"), part("processor"), part("preemption"))
    }
}

/// The data that the script draws from.
#[derive(Serialize)]
struct Data<'a> {
    figures: &'a [Figure],
    rows: Vec<Line<'a>>,
    verdict: Name,
}

#[derive(Serialize)]
struct Name {
    experiment: &'static str,
}

impl Report<'_> {
    /// The page.
    pub fn render(&self) -> serde_json::Result<String> {
        let outcomes = self.results.iter().filter_map(|(_, result)| result.as_ref().ok());
        let data: Vec<Data<'_>> = outcomes
            .map(|outcome| Data {
                figures: &outcome.measured.figures,
                rows: outcome.lines().collect(),
                verdict: Name { experiment: outcome.verdict.experiment },
            })
            .collect();
        let mut body = String::with_capacity(256 * 1024);
        // Writing to a String cannot fail.
        let _ = self.write(&mut body);
        let page = Page {
            title: "isorb: experiments",
            styles: &[plot::STYLE, include_str!("report.css")],
            body: &body,
            data: Some(&serde_json::to_string(&data)?),
            scripts: &[plot::UPLOT, plot::SCRIPT],
        };
        Ok(page.to_string())
    }

    fn write(&self, page: &mut String) -> Result {
        let length = if self.quick { "a quick run" } else { "a full run" };
        writeln!(
            page,
            "<h1>The papers' experiments on isorb</h1>\n<p class=\"soft\">commit {}, {length}, \
             <span id=\"when\" data-seconds=\"{}\"></span></p>\n<pre tabindex=\"0\" aria-label=\"the machine\">{}</pre>",
            Text(COMMIT),
            self.when,
            Text(&self.machine.to_string())
        )?;
        self.worst_cases(page)?;
        let headings = ["experiment", "worst case", "shape holds", "control fails", "what the paper saw"];
        write!(
            page,
            "<div class=\"scroll\" role=\"group\" tabindex=\"0\" aria-label=\"table\"><table><thead><tr>"
        )?;
        headings.iter().try_for_each(|heading| write!(page, "<th scope=\"col\">{heading}</th>"))?;
        writeln!(page, "</tr></thead><tbody>")?;
        for (experiment, result) in self.results {
            let (worst, shape, control) = match result {
                Ok(Outcome { verdict, .. }) => (
                    verdict.worst_case.map_or(answer(None), |ruling| match ruling {
                        Ruling::Holds => answer(Some(true)),
                        Ruling::Breaks => answer(Some(false)),
                        Ruling::Inconclusive => INCONCLUSIVE,
                    }),
                    answer(Some(verdict.shape_holds)),
                    answer(verdict.control_fails),
                ),
                Err(_) => (answer(None), "<span class=\"bad\">not run</span>", answer(None)),
            };
            let (name, paper) = (experiment.name, Text(experiment.paper));
            writeln!(
                page,
                "<tr><td><a href=\"#{name}\">{name}</a></td><td>{worst}</td><td>{shape}</td><td>{control}</td><td>{paper}</td></tr>",
            )?;
        }
        writeln!(page, "</tbody></table></div>")?;
        self.results.iter().try_for_each(|(experiment, result)| section(page, experiment, result))?;
        self.earlier.iter().try_for_each(|run| earlier_section(page, run))?;
        writeln!(
            page,
            "<details><summary>Licence of the plotting library</summary><p>uPlot</p><pre tabindex=\"0\" aria-label=\"licence\">{}</pre></details>",
            Text(plot::LICENCE)
        )
    }
}

impl Report<'_> {
    /// One table of the longest calls: of `worst` each subject, of other experiments that have a
    /// tail the subject with the longest.
    fn worst_cases(&self, page: &mut String) -> Result {
        let ours = self.results.iter().filter_map(|(_, result)| result.as_ref().ok());
        let ours = ours.map(|outcome| {
            let rows = outcome.lines().filter_map(|line| serde_json::to_value(line).ok()).collect();
            ("this machine", rows)
        });
        let all = ours.chain(self.earlier.iter().map(|run| (run.name.as_str(), run.rows.clone())));
        let rows: Vec<(&str, Value)> =
            all.flat_map(|(of, rows)| longest(rows).into_iter().map(move |row| (of, row))).collect();
        if rows.is_empty() {
            return Ok(());
        }
        writeln!(
            page,
            "<h2>Worst cases</h2><p class=\"soft\">Microseconds.</p><div class=\"scroll\" role=\"group\" tabindex=\"0\" aria-label=\"table\">"
        )?;
        write!(page, "<table id=\"worst-cases\"><thead><tr>")?;
        ["measured on", "experiment", "figure", "subject"]
            .iter()
            .try_for_each(|heading| write!(page, "<th scope=\"col\">{heading}</th>"))?;
        let times = ["p999_ns", "p9999_ns", "max_ns"];
        ["n", "p99.9", "p99.99", "maximum"]
            .iter()
            .try_for_each(|heading| write!(page, "<th class=\"number\" scope=\"col\">{heading}</th>"))?;
        writeln!(page, "</tr></thead><tbody>")?;
        for (of, row) in rows {
            write!(page, "<tr><td>{}</td>", Text(of))?;
            for name in ["experiment", "figure", "subject"] {
                write!(page, "<td>{}</td>", Text(row[name].as_str().unwrap_or_default()))?;
            }
            write!(page, "<td class=\"number\">{}</td>", row["n"].as_f64().unwrap_or(f64::NAN))?;
            for name in times {
                write!(
                    page,
                    "<td class=\"number\">{:.1}</td>",
                    row[name].as_f64().unwrap_or(f64::NAN) / 1000.0
                )?;
            }
            writeln!(page, "</tr>")?;
        }
        writeln!(page, "</tbody></table></div>")
    }
}

/// Of the rows of an experiment that have a tail, those for the table of worst cases.
fn longest(rows: Vec<Value>) -> Vec<Value> {
    let max = |row: &Value| row["max_ns"].as_f64().unwrap_or_default();
    let tails: Vec<Value> = rows.into_iter().filter(|row| row["range_ns"].is_number()).collect();
    if tails.first().is_some_and(|row| row["experiment"] == worst::NAME) {
        return tails;
    }
    tails.into_iter().max_by(|a, b| max(a).total_cmp(&max(b))).into_iter().collect()
}

/// A run that was measured before: its machine, its verdict and its values.
fn earlier_section(page: &mut String, run: &Earlier) -> Result {
    let name = run.verdict["experiment"].as_str().unwrap_or_default();
    writeln!(page, "<section><h2>{}: {}</h2><p>{}</p>", Text(name), Text(&run.name), Text(&run.machine()))?;
    writeln!(page, "<table class=\"claims\"><tbody>")?;
    for claim in run.verdict["claims"].as_array().into_iter().flatten() {
        let text = |name: &str| claim[name].as_str().unwrap_or_default();
        let holds = claim["holds"].as_bool().map_or(INCONCLUSIVE, |holds| answer(Some(holds)));
        writeln!(
            page,
            "<tr><th scope=\"row\">{}</th><td>{holds}</td><td>{}</td></tr>",
            Text(text("of")),
            Text(text("wording"))
        )?;
    }
    writeln!(
        page,
        "</tbody></table><details><summary>All values</summary><pre tabindex=\"0\" aria-label=\"all values\">"
    )?;
    run.rows.iter().try_for_each(|row| writeln!(page, "{}", Text(&row.to_string())))?;
    writeln!(page, "</pre></details></section>")
}

fn section(
    page: &mut String,
    experiment: &Experiment,
    result: &std::result::Result<Outcome, String>,
) -> Result {
    let Experiment { name, about, paper, source, .. } = experiment;
    writeln!(
        page,
        "<section id=\"{name}\">\n<h2>{name}</h2>\n<p>{}</p>\n<blockquote>{}. <span class=\"soft\">({})</span></blockquote>",
        Text(about),
        Text(paper),
        Text(source)
    )?;
    match result {
        Err(why) => writeln!(page, "<p class=\"bad\">not run: {}</p>", Text(why))?,
        Ok(outcome) => {
            claims(page, &outcome.verdict.claims)?;
            writeln!(page, "<div class=\"plots\">")?;
            for (i, figure) in outcome.measured.figures.iter().enumerate() {
                writeln!(
                    page,
                    "<div><h3>{}</h3><div class=\"plot\" data-experiment=\"{name}\" data-figure=\"{i}\"></div></div>",
                    Text(figure.title)
                )?;
            }
            writeln!(page, "</div>")?;
            for note in &outcome.measured.notes {
                writeln!(page, "<p class=\"soft\">{}</p>", Text(note))?;
            }
            writeln!(
                page,
                "<details><summary>All values</summary><div class=\"scroll\" role=\"group\" tabindex=\"0\" aria-label=\"table\">"
            )?;
            outcome.tables().try_for_each(|figure| table(page, figure, &outcome.measured.rows))?;
            writeln!(page, "</div></details>")?;
        }
    }
    writeln!(page, "</section>")
}

fn claims(page: &mut String, claims: &[ClaimResult]) -> Result {
    writeln!(page, "<table class=\"claims\"><tbody>")?;
    for claim in claims {
        let of = match claim.of {
            Kind::Paper => "the paper's shape",
            Kind::Control => "the control is worse",
            Kind::Worst => "the worst case",
            Kind::Aim => "our aim",
        };
        let holds = claim.holds.map_or(INCONCLUSIVE, |holds| answer(Some(holds)));
        let sentence = Text(&claim.wording);
        writeln!(page, "<tr><th scope=\"row\">{of}</th><td>{holds}</td><td>{sentence}</td></tr>")?;
    }
    writeln!(page, "</tbody></table>")
}

fn table(page: &mut String, figure: &Figure, rows: &[Row]) -> Result {
    let rows: Vec<&Row> = rows.iter().filter(|row| row.figure == figure.id).collect();
    let Some(first) = rows.first() else { return Ok(()) };
    write!(page, "<h3>{}</h3><table><thead><tr><th scope=\"col\">subject</th>", Text(figure.title))?;
    let headings = [figure.x].into_iter().chain(first.values.iter().map(|(name, _)| *name));
    headings
        .into_iter()
        .try_for_each(|text| write!(page, "<th class=\"number\" scope=\"col\">{}</th>", Text(text)))?;
    writeln!(page, "</tr></thead><tbody>")?;
    for row in rows {
        write!(page, "<tr><td>{}</td>", Text(row.subject))?;
        let numbers = [row.x].into_iter().chain(row.values.iter().map(|&(_, value)| value));
        numbers.into_iter().try_for_each(|number| write!(page, "<td class=\"number\">{number}</td>"))?;
        writeln!(page, "</tr>")?;
    }
    writeln!(page, "</tbody></table>")
}

const INCONCLUSIVE: &str = "<span class=\"soft\">inconclusive</span>";

fn answer(holds: Option<bool>) -> &'static str {
    match holds {
        Some(true) => "<span class=\"good\">yes</span>",
        Some(false) => "<span class=\"bad\">no</span>",
        None => "<span class=\"soft\">none</span>",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::{Below, judge, paper};
    use crate::figure::Measured;

    fn page() -> String {
        let [experiment, other] = ["demux", "scope"].map(|name| Experiment::named(name).unwrap());
        let row = Row {
            figure: "f",
            subject: "scope",
            x: 1.0,
            values: vec![("p50_ns", 1500.0), ("max_ns", 7_250.0), ("range_ns", 1.0)],
        };
        let measured = Measured {
            figures: vec![Figure::new("f", "A <title>", "depth", "us", &["p50_ns"])],
            rows: vec![row],
            notes: vec!["</script><b>".to_owned()],
        };
        let claims = [paper(Below(2.0), "1 < {limit} & so on", |_| [1.0])];
        let verdict = judge("demux", "p", &claims, &measured.rows);
        let results = [(experiment, Ok(Outcome { measured, verdict })), (other, Err("no right".to_owned()))];
        let machine = Machine::read(None);
        let earlier = [Earlier::parse("other.jsonl".to_owned(), EARLIER).unwrap()];
        let report =
            Report { machine: &machine, when: 1_000_000, quick: true, results: &results, earlier: &earlier };
        report.render().unwrap()
    }

    const EARLIER: &str = r#"{"experiment":"worst","figure":"idle","subject":"unix","x":1,"max_ns":9100,"range_ns":2}
{"experiment":"worst","claims":[{"of":"worst","wording":"a < b","holds":null}],"machine":{"kernel":"Linux rt"}}"#;

    #[test]
    fn worst_cases_come_first_and_earlier_runs_are_read() {
        let page = page();
        let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text} is missing"));
        let table = at("id=\"worst-cases\"");
        assert!(table < at("7.2") && at("9.1") < at("what the paper saw") && at("Linux rt, ?") > table);
        assert!(at("a &lt; b") > at(INCONCLUSIVE));
        for text in ["", "x", r#"{"experiment":"worst","x":1}"#] {
            let error = Earlier::parse("f".to_owned(), text).unwrap_err().to_string();
            assert!(error.contains("expected the output of --json"), "{error}");
        }
    }

    #[test]
    fn everything_is_on_the_page_and_nothing_is_fetched() {
        let page = page();
        for part in [
            "1 &lt; below 2 &amp; so on",
            "A &lt;title&gt;",
            "not run: no right",
            "SCHED_OTHER",
            "a quick run",
            COMMIT,
            "Leon Sorokin",
        ] {
            assert!(page.contains(part), "{part} is missing");
        }
        for fetched in ["<script src", "<link", "@import", "url(http"] {
            assert!(!page.contains(fetched), "{fetched}");
        }
    }

    #[test]
    fn data_is_that_of_the_figures() {
        let page = page();
        let data = page.split_once("id=\"data\">").unwrap().1;
        let data: serde_json::Value = serde_json::from_str(data.split_once("</script>").unwrap().0).unwrap();
        assert_eq!(
            (&data[0]["rows"][0]["p50_ns"], &data[0]["verdict"]["experiment"]),
            (&1500.0.into(), &"demux".into())
        );
        assert_eq!(page.matches("<script").count(), 3);
    }
}
