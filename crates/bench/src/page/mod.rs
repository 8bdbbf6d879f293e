//! The report: one HTML page that needs nothing else, with every experiment beside what the paper saw.
//!
//! What was found stands in the page as text and tables, so that it can be read without a script; the plots are drawn by
//! uPlot, which is embedded, from data that is embedded.

mod html;

use std::fmt::Write;

use html::{Text, script_safe};
use serde::Serialize;

use crate::experiments::catalogue::Experiment;
use crate::figure::{Claim, Figure, Of, Outcome, Row};
use crate::machine::Machine;

const STYLE: &str = include_str!("../../assets/report/page.css");
const SCRIPT: &str = include_str!("../../assets/report/page.js");
const PLOT_STYLE: &str = include_str!("../../assets/uplot/uPlot.min.css");
const PLOT_SCRIPT: &str = include_str!("../../assets/uplot/uPlot.iife.min.js");
const PLOT_LICENCE: &str = include_str!("../../assets/uplot/LICENSE");

/// The source that the binary was built from: a commit, with a plus where files had been changed.
pub const COMMIT: &str = match option_env!("ISORB_COMMIT") {
    Some(commit) => commit,
    None => "unknown",
};

/// What stands on a page.
#[derive(Debug)]
pub struct Page<'a> {
    /// What it was measured on.
    pub machine: &'a Machine,
    /// Seconds since 1970.
    pub when: u64,
    /// Was it a quick run?
    pub quick: bool,
    /// The experiments that ran, and why one did not.
    pub results: &'a [(&'static Experiment, Result<Outcome, String>)],
}

/// What the script draws from.
#[derive(Serialize)]
struct Data<'a> {
    figures: &'a [Figure],
    rows: &'a [Row],
    verdict: Name,
}

#[derive(Serialize)]
struct Name {
    experiment: &'static str,
}

impl Page<'_> {
    /// The page.
    ///
    /// # Errors
    /// None that rows of numbers and names can have.
    pub fn render(&self) -> serde_json::Result<String> {
        let outcomes =
            self.results.iter().filter_map(|(experiment, result)| Some((experiment, result.as_ref().ok()?)));
        let data: Vec<Data<'_>> = outcomes
            .map(|(experiment, outcome)| Data {
                figures: &outcome.figures,
                rows: &outcome.rows,
                verdict: Name { experiment: experiment.name },
            })
            .collect();
        let data = script_safe(&serde_json::to_string(&data)?);
        let mut page = String::with_capacity(256 * 1024);
        // Writing to a String cannot fail.
        let _ = self.write(&mut page, &data);
        Ok(page)
    }

    fn write(&self, page: &mut String, data: &str) -> std::fmt::Result {
        write!(
            page,
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <title>isorb: experiments</title>\n<style>{PLOT_STYLE}</style>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        )?;
        let length = if self.quick { "a quick run" } else { "a full run" };
        writeln!(
            page,
            "<h1>The papers' experiments on isorb</h1>\n<p class=\"dim\">commit {}, {length}, <span id=\"when\" data-seconds=\"{}\"></span></p>",
            Text(COMMIT),
            self.when
        )?;
        writeln!(page, "<pre>{}</pre>", Text(&self.machine.to_string()))?;
        self.overview(page)?;
        for (experiment, result) in self.results {
            section(page, experiment, result)?;
        }
        writeln!(
            page,
            "<details><summary>Licence of the plotting library</summary><p>uPlot</p><pre>{}</pre></details>",
            Text(PLOT_LICENCE)
        )?;
        writeln!(page, "<script id=\"data\" type=\"application/json\">{data}</script>")?;
        writeln!(page, "<script>{PLOT_SCRIPT}</script>\n<script>{SCRIPT}</script>\n</body>\n</html>")
    }

    fn overview(&self, page: &mut String) -> std::fmt::Result {
        writeln!(
            page,
            "<div class=\"scroll\"><table><thead><tr><th>experiment</th><th>shape holds</th><th>control fails</th><th>what the paper saw</th></tr></thead><tbody>"
        )?;
        for (experiment, result) in self.results {
            let (shape, control) = match result {
                Ok(outcome) => {
                    (answer(Some(outcome.verdict.shape_holds)), answer(outcome.verdict.control_fails))
                }
                Err(_) => ("<span class=\"no\">not run</span>", answer(None)),
            };
            writeln!(
                page,
                "<tr><td><a href=\"#{0}\">{0}</a></td><td>{shape}</td><td>{control}</td><td>{1}</td></tr>",
                experiment.name,
                Text(experiment.paper)
            )?;
        }
        writeln!(page, "</tbody></table></div>")
    }
}

fn section(page: &mut String, experiment: &Experiment, result: &Result<Outcome, String>) -> std::fmt::Result {
    let name = experiment.name;
    writeln!(page, "<section id=\"{name}\">\n<h2>{name}</h2>\n<p>{}</p>", Text(experiment.about))?;
    writeln!(
        page,
        "<blockquote>{}. <span class=\"dim\">({})</span></blockquote>",
        Text(experiment.paper),
        Text(experiment.source)
    )?;
    match result {
        Err(why) => writeln!(page, "<p class=\"no\">not run: {}</p>", Text(why))?,
        Ok(outcome) => {
            claims(page, &outcome.verdict.claims)?;
            writeln!(page, "<div class=\"plots\">")?;
            for (i, figure) in outcome.figures.iter().enumerate() {
                writeln!(
                    page,
                    "<div><h3>{}</h3><div class=\"plot\" data-experiment=\"{name}\" data-figure=\"{i}\"></div></div>",
                    Text(figure.title)
                )?;
            }
            writeln!(page, "</div>")?;
            for note in &outcome.notes {
                writeln!(page, "<p class=\"dim\">{}</p>", Text(note))?;
            }
            writeln!(page, "<details><summary>All values</summary><div class=\"scroll\">")?;
            let mut shown: Vec<&str> = Vec::new();
            for figure in &outcome.figures {
                if !shown.contains(&figure.id) {
                    shown.push(figure.id);
                    table(page, figure, &outcome.rows)?;
                }
            }
            writeln!(page, "</div></details>")?;
        }
    }
    writeln!(page, "</section>")
}

fn claims(page: &mut String, claims: &[Claim]) -> std::fmt::Result {
    writeln!(page, "<table class=\"claims\"><tbody>")?;
    for claim in claims {
        let of = match claim.of {
            Of::Paper => "the paper's shape",
            Of::Control => "the control is worse",
            Of::Aim => "our aim",
        };
        writeln!(
            page,
            "<tr><td>{of}</td><td>{}</td><td>{}</td></tr>",
            answer(Some(claim.holds)),
            Text(&claim.says)
        )?;
    }
    writeln!(page, "</tbody></table>")
}

fn table(page: &mut String, figure: &Figure, rows: &[Row]) -> std::fmt::Result {
    let rows: Vec<&Row> = rows.iter().filter(|row| row.figure == figure.id).collect();
    let Some(first) = rows.first() else { return Ok(()) };
    write!(
        page,
        "<h3>{}</h3><table><thead><tr><th>subject</th><th class=\"number\">{}</th>",
        Text(figure.title),
        Text(figure.x)
    )?;
    for (name, _) in &first.values {
        write!(page, "<th class=\"number\">{}</th>", Text(name))?;
    }
    writeln!(page, "</tr></thead><tbody>")?;
    for row in rows {
        write!(page, "<tr><td>{}</td><td class=\"number\">{}</td>", Text(row.subject), row.x)?;
        for (_, value) in &row.values {
            write!(page, "<td class=\"number\">{value}</td>")?;
        }
        writeln!(page, "</tr>")?;
    }
    writeln!(page, "</tbody></table>")
}

fn answer(holds: Option<bool>) -> &'static str {
    match holds {
        Some(true) => "<span class=\"yes\">yes</span>",
        Some(false) => "<span class=\"no\">no</span>",
        None => "<span class=\"dim\">none</span>",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::Verdict;

    fn page() -> String {
        let experiment = Experiment::named("demux").unwrap();
        let other = Experiment::named("scope").unwrap();
        let figure = Figure {
            id: "f",
            title: "A <title>",
            x: "depth",
            y: "us",
            draw: &["p50_ns"],
            divide: 1000.0,
            log: false,
        };
        let row = Row {
            experiment: "demux",
            figure: "f",
            subject: "scope",
            x: 1.0,
            values: vec![("p50_ns", 1500.0)],
        };
        let outcome = Outcome {
            figures: vec![figure],
            rows: vec![row],
            notes: vec!["</script><b>".to_owned()],
            verdict: Verdict::new("demux", "p", vec![Claim::paper(true, "1 < 2 & so on")]),
        };
        let results = [(experiment, Ok(outcome)), (other, Err("no right".to_owned()))];
        let machine = Machine::read(None);
        Page { machine: &machine, when: 1_000_000, quick: true, results: &results }.render().unwrap()
    }

    #[test]
    fn everything_is_on_the_page_and_nothing_is_fetched() {
        let page = page();
        for part in [
            "1 &lt; 2 &amp; so on",
            "A &lt;title&gt;",
            "not run: no right",
            "SCHED_OTHER",
            "a quick run",
            COMMIT,
        ] {
            assert!(page.contains(part), "{part} is missing");
        }
        for fetched in ["<script src", "<link", "@import", "url(http"] {
            assert!(!page.contains(fetched), "{fetched}");
        }
        assert!(page.contains("Leon Sorokin"), "the licence's notice");
    }

    #[test]
    fn data_cannot_end_its_script() {
        let page = page();
        let data = page.split_once("type=\"application/json\">").unwrap().1;
        let data: serde_json::Value = serde_json::from_str(data.split_once("</script>").unwrap().0).unwrap();
        assert_eq!(
            (&data[0]["rows"][0]["p50_ns"], &data[0]["verdict"]["experiment"]),
            (&1500.0.into(), &"demux".into())
        );
        assert_eq!(page.matches("<script").count(), 3);
    }
}
