//! The timeline of a schedule as a page: a row for each task, with bars for its runs, and marks for
//! arrivals, deadlines and misses.

use crate::Nanos;
use crate::schedule::Schedule;
use crate::sim::{Run, SimError, Trace};
use isorb_page::{GESTURES, Page, Text};
use std::fmt::Write;

/// The greatest number of runs on a page. A longer span is cut there, and the page says so.
const MOST_BARS: usize = 20_000;
/// Heights in pixels; plot.css has the same.
const ROW: usize = 44;
const TOP: usize = 30;

const STYLE: &str = include_str!("plot.css");
const SCRIPT: &str = include_str!("plot.js");

/// The signs of the plot, for the rows and for the legend. Their foot is 32 below the row's edge.
const SIGNS: &str = "<defs><path id=\"arrival\" d=\"M0 32v-26m-3 5l3 -5l3 5\"/>\
<path id=\"deadline\" d=\"M0 6v26m-3 -5l3 5l3 -5\"/>\
<path id=\"missed\" d=\"M0 6v26m-4 -4l8 8m0 -8l-8 8\"/></defs>";

const LEGEND: &str = "<h2>Legend</h2>\n<ul class=\"legend\">\
<li><svg class=\"sign\" aria-hidden=\"true\"><rect class=\"run c0\" x=\"1\" y=\"14\" width=\"26\" height=\"18\"/></svg>runs</li>\
<li><svg class=\"sign\" aria-hidden=\"true\"><rect class=\"run c0 late\" x=\"2\" y=\"14\" width=\"24\" height=\"18\"/></svg>runs, and will be late</li>\
<li><svg class=\"sign\" aria-hidden=\"true\"><use class=\"arrival\" href=\"#arrival\" x=\"14\"/></svg>arrival</li>\
<li><svg class=\"sign\" aria-hidden=\"true\"><use class=\"deadline\" href=\"#deadline\" x=\"14\"/></svg>deadline</li>\
<li><svg class=\"sign\" aria-hidden=\"true\"><use class=\"deadline late\" href=\"#missed\" x=\"14\"/></svg>missed deadline</li></ul>";

impl Schedule {
    /// The page, complete in one file.
    ///
    /// # Errors
    /// [`SimError`] where the span cannot be simulated.
    pub fn page(&self, title: &str, until: Nanos) -> Result<String, SimError> {
        let trace = self.replay(until)?;
        let until = trace.runs.get(MOST_BARS).map_or(until, |run| run.start);
        let mut body = String::new();
        // Writing to a string does not fail.
        let _ = self.write_body(&mut body, title, &trace, until);
        Ok(Page { title, styles: &[STYLE], body: &body, scripts: &[GESTURES, SCRIPT], ..Page::default() }
            .to_string())
    }

    fn write_body(&self, page: &mut String, title: &str, trace: &Trace, until: Nanos) -> std::fmt::Result {
        let height = TOP + self.tasks.len() * ROW + 6;
        let missed = trace.jobs.iter().filter(|served| served.missed(trace.until)).count();
        writeln!(page, "<h1>{}</h1>", Text(title))?;
        let (verdict, sentence) = match self.schedulable() {
            true => ("good", "every deadline is met"),
            false => ("bad", "deadlines cannot be met"),
        };
        writeln!(
            page,
            "<p><span class=\"{verdict}\">{sentence}</span> &middot; {} of the processor &middot; policy {} &middot; {until} shown, {missed} late</p>",
            self.analysis.utilisation, self.config.policy,
        )?;
        writeln!(
            page,
            "<div id=\"tools\" class=\"tools\" role=\"toolbar\" aria-label=\"the time shown\"></div>\n<div class=\"chart\"><div class=\"names\">"
        )?;
        for scheduled in &self.tasks {
            let (name, cost, period) =
                (Text(&scheduled.task.name), scheduled.task.cost, scheduled.task.period);
            writeln!(page, "<div><b>{name}</b><span>{cost} every {period}</span></div>")?;
        }
        writeln!(
            page,
            "</div><div id=\"view\" class=\"scroll\" role=\"group\" tabindex=\"0\" aria-label=\"the runs of each task; the table below has their numbers\">\
             <svg id=\"runs\" height=\"{height}\" data-until=\"{}\">{SIGNS}<g id=\"axis\" data-height=\"{height}\"></g>",
            until.ns()
        )?;
        for place in 0..self.tasks.len() {
            let y = TOP + place * ROW + 32;
            writeln!(page, "<line class=\"base\" x1=\"0\" x2=\"100%\" y1=\"{y}\" y2=\"{y}\"/>")?;
        }
        for run in trace.runs.iter().take(MOST_BARS) {
            self.bar(page, trace, run, until)?;
        }
        for served in trace.jobs.iter().filter(|served| served.job.arrival < until) {
            let y = TOP + served.job.task * ROW;
            let x = across(served.job.arrival, until);
            writeln!(page, "<use class=\"arrival\" href=\"#arrival\" x=\"{x:.4}%\" y=\"{y}\"/>")?;
            if served.deadline <= until {
                let x = across(served.deadline, until);
                let (late, sign, end) = match served.missed(trace.until) {
                    true => (" late", "missed", ", missed"),
                    false => ("", "deadline", ""),
                };
                writeln!(
                    page,
                    "<use class=\"deadline{late}\" href=\"#{sign}\" x=\"{x:.4}%\" y=\"{y}\" data-t=\"{} #{}: deadline at {}{end}\"/>",
                    Text(&self.tasks[served.job.task].task.name),
                    served.job.number,
                    served.deadline,
                )?;
            }
        }
        writeln!(page, "</svg></div></div>\n{LEGEND}\n<h2>Numbers</h2>")?;
        writeln!(
            page,
            "<pre tabindex=\"0\" aria-label=\"table of the tasks\">{}</pre>",
            Text(&self.table())
        )?;
        writeln!(page, "<div id=\"tip\" role=\"status\" hidden></div>")
    }

    fn bar(&self, page: &mut String, trace: &Trace, run: &Run, until: Nanos) -> std::fmt::Result {
        if run.start >= until {
            return Ok(());
        }
        let served = &trace.jobs[run.job];
        let (x, end) = (across(run.start, until), across(run.end, until));
        let late = if served.missed(trace.until) { " late" } else { "" };
        let response = match served.response() {
            Some(response) => format!("response {response}"),
            None => "not done in the span shown".to_string(),
        };
        writeln!(
            page,
            "<rect class=\"run c{}{late}\" x=\"{x:.4}%\" y=\"{}\" width=\"{:.4}%\" height=\"18\" data-t=\"{} #{}: {} to {}, {response}, arrived {}, deadline {}\"/>",
            run.task % 8,
            TOP + run.task * ROW + 14,
            end - x,
            Text(&self.tasks[run.task].task.name),
            served.job.number,
            run.start,
            run.end,
            served.job.arrival,
            served.deadline,
        )
    }
}

/// The horizontal position of a time, in percent.
fn across(time: Nanos, until: Nanos) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a place on a picture")]
    let share = time.ns().min(until.ns()) as f64 / until.ns().max(1) as f64;
    100.0 * share
}
