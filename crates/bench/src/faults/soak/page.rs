//! The result as text, and as a page with plots.

use std::fmt::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use isorb_page::{Page, Text, plot};
use serde_json::json;

use super::samples::{Growth, Quantity, Samples};
use super::{driver, links};

/// What was done, and what held, as Markdown.
pub fn summary(
    length: Duration,
    machine: &str,
    reports: &[driver::Report],
    linked: Option<&links::Report>,
    flat: &[Growth],
    notes: &[String],
) -> String {
    let minutes = length.as_secs_f64() / 60.0;
    let mut text = format!(
        "{minutes:.0} minutes. {machine}.\n\n| service | clients | writes acknowledged | refused | kills | broken promises |\n\
         |---|---|---|---|---|---|\n"
    );
    // Writing to a String cannot fail.
    for report in reports {
        let name = report.subject.map_or("-", |subject| subject.name());
        let life = if report.kills > 0 { ", killed" } else { "" };
        let driver::Report { clients, acknowledged, refused, kills, broken, .. } = report;
        let _ = writeln!(
            text,
            "| {name}{life} | {clients} | {acknowledged} | {refused} | {kills} | {} |",
            broken.len()
        );
    }
    if let Some(links::Report { unplugged, arrived, broken }) = linked {
        let _ = writeln!(
            text,
            "\nThe link between two nodes was unplugged {unplugged} times; {arrived} values that were written\n\
             meanwhile arrived, {} promises were broken.",
            broken.len()
        );
    }
    let _ = write!(
        text,
        "\nMedians of the second and of the last quarter of the time, of the processes that were never\n\
         killed. Flat is at most 5 % or 2 MiB, 8 descriptors and 4 threads more, or memory that grew by no\n\
         more than a store's cache of 16 MiB, and by half as much since the third quarter.\n\n\
         | service | resident MiB | descriptors | threads | flat |\n|---|---|---|---|---|\n"
    );
    for service in flat.chunks(3) {
        let pair = |growth: &Growth| {
            let shown = |value| growth.quantity.shown(value);
            let digits = if growth.quantity == Quantity::Resident { 1 } else { 0 };
            format!("{:.digits$} → {:.digits$}", shown(growth.before), shown(growth.after))
        };
        let cells: Vec<String> = service.iter().map(pair).collect();
        let is_flat = if service.iter().all(Growth::is_flat) { "yes" } else { "no" };
        let name = service.first().map_or("-", |growth| growth.subject.name());
        let _ = writeln!(text, "| {name} | {} | {is_flat} |", cells.join(" | "));
    }
    notes.iter().for_each(|note| _ = writeln!(text, "\nNote: {note}."));
    text
}

/// The page with the summary and the plots.
///
/// # Errors
/// The data cannot be written as JSON.
pub fn html(summary: &str, samples: &Samples) -> serde_json::Result<String> {
    let figures =
        [("resident", "resident memory, MiB"), ("descriptors", "descriptors"), ("threads", "threads")];
    let figure = |(id, y): (&str, &str)| {
        json!({
            "id": id, "title": y, "x": "minutes", "y": y, "draw": ["value"], "divide": 1, "log": false,
        })
    };
    let mut rows = Vec::new();
    for (subject, of) in samples.iter() {
        for (at, usage) in of {
            let values = [
                ("resident", Quantity::Resident.shown(usage.resident)),
                ("descriptors", usage.descriptors as f64),
                ("threads", usage.threads as f64),
            ];
            rows.extend(values.map(|(figure, value)| {
                let x = (at.as_secs_f64() / 0.6).round() / 100.0;
                json!({ "figure": figure, "subject": subject.name(), "x": x, "value": value })
            }));
        }
    }
    let figures_json: Vec<_> = figures.into_iter().map(figure).collect();
    let data = json!([{ "figures": figures_json, "rows": rows, "verdict": { "experiment": "soak" } }]);
    let when = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let mut body = format!(
        "<h1>isorb: endurance</h1>\n<p class=\"soft\"><span id=\"when\" data-seconds=\"{when}\"></span></p>\n<pre tabindex=\"0\" aria-label=\"summary\">{}</pre>\n",
        Text(summary)
    );
    for (number, (_, title)) in figures.into_iter().enumerate() {
        let _ = writeln!(
            body,
            "<h2>{}</h2>\n<div class=\"plot\" data-experiment=\"soak\" data-figure=\"{number}\"></div>",
            Text(title)
        );
    }
    let _ = writeln!(
        body,
        "<details><summary>The plotting library</summary><pre tabindex=\"0\" aria-label=\"licence\">{}</pre></details>",
        Text(plot::LICENCE)
    );
    let page = Page {
        title: "isorb: endurance",
        styles: &[plot::STYLE],
        body: &body,
        data: Some(&serde_json::to_string(&data)?),
        scripts: &[plot::UPLOT, plot::SCRIPT],
    };
    Ok(page.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::daemon::Usage;
    use crate::faults::subjects::Subject;

    #[test]
    fn the_page_has_the_numbers_and_the_text_says_what_is_not_flat() {
        let mut samples = Samples::default();
        for second in 0..16 {
            let usage = Usage { resident: (second + 1) << 22, descriptors: 12, threads: 5 };
            samples.add(Subject::Naming, Duration::from_secs(second), usage);
        }
        let report = driver::Report {
            subject: Some(Subject::Naming),
            kills: 2,
            clients: 7,
            ..driver::Report::default()
        };
        let linked = links::Report { unplugged: 3, arrived: 3, broken: Vec::new() };
        let notes = ["<nothing>".to_owned()];
        let flat = samples.judge();
        let text = summary(Duration::from_secs(600), "a machine", &[report], Some(&linked), &flat, &notes);
        assert!(text.starts_with("10 minutes. a machine."), "{text}");
        assert!(text.contains("| naming, killed | 7 | 0 | 0 | 2 | 0 |"), "{text}");
        assert!(text.contains("| naming | 28.0 → 60.0 | 12 → 12 | 5 → 5 | no |"), "{text}");
        let html = html(&text, &samples).unwrap();
        assert!(html.contains("&lt;nothing&gt;") && html.contains(r#""subject":"naming""#));
        assert_eq!(html.matches("class=\"plot\"").count(), 3);
    }
}
