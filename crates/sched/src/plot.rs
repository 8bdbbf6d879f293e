//! The timeline of a schedule as a page: a row for each task, with bars for its runs, and marks for
//! arrivals, deadlines and misses.

use crate::Nanos;
use crate::schedule::Schedule;
use crate::sim::{Run, SimError, Trace};
use isorb_page::{Page, Text};
use std::fmt::Write;

/// The greatest number of runs on a page. A longer span is cut there, and the page says so.
const MOST_BARS: usize = 20_000;
const ROW: usize = 44;
const LEFT: usize = 190;
const WIDTH: usize = 1400;
const TOP: usize = 34;

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
        Ok(Page { title, styles: &[STYLE], body: &body, scripts: &[SCRIPT], ..Page::default() }.to_string())
    }

    fn write_body(&self, page: &mut String, title: &str, trace: &Trace, until: Nanos) -> std::fmt::Result {
        let height = TOP + self.tasks.len() * ROW + 30;
        let missed = trace.jobs.iter().filter(|served| served.missed(trace.until)).count();
        writeln!(page, "<h1>{}</h1>", Text(title))?;
        let verdict = if self.schedulable() { "good" } else { "bad" };
        writeln!(
            page,
            "<p><span class=\"{verdict}\">{}</span> &middot; {} of the processor &middot; policy {} &middot; {} shown, {missed} late</p>",
            if self.schedulable() { "every deadline is met" } else { "deadlines cannot be met" },
            self.analysis.utilisation,
            self.config.policy,
            until,
        )?;
        writeln!(
            page,
            "<div class=\"scroll\"><svg viewBox=\"0 0 {} {height}\" width=\"{}\" height=\"{height}\">",
            LEFT + WIDTH + 20,
            LEFT + WIDTH + 20
        )?;
        axis(page, until, height)?;
        for (place, scheduled) in self.tasks.iter().enumerate() {
            let y = TOP + place * ROW;
            writeln!(
                page,
                "<line class=\"base\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{1}\" y2=\"{1}\"/>",
                LEFT + WIDTH,
                y + 32
            )?;
            writeln!(
                page,
                "<text class=\"name\" x=\"{}\" y=\"{}\">{}</text>",
                LEFT - 12,
                y + 20,
                Text(&scheduled.task.name)
            )?;
            let (cost, period) = (scheduled.task.cost, scheduled.task.period);
            writeln!(
                page,
                "<text class=\"sub\" x=\"{}\" y=\"{}\">{cost} every {period}</text>",
                LEFT - 12,
                y + 33
            )?;
        }
        for run in trace.runs.iter().take(MOST_BARS) {
            self.bar(page, trace, run, until)?;
        }
        for served in trace.jobs.iter().filter(|served| served.job.arrival < until) {
            let y = TOP + served.job.task * ROW;
            let x = across(served.job.arrival, until);
            writeln!(page, "<path class=\"arrival\" d=\"M{x:.2} {}v-26m-3 5l3 -5l3 5\"/>", y + 32)?;
            if served.deadline <= until {
                let x = across(served.deadline, until);
                let late = if served.missed(trace.until) { " late" } else { "" };
                writeln!(
                    page,
                    "<path class=\"deadline{late}\" d=\"M{x:.2} {}v26m-3 -5l3 5l3 -5\" data-t=\"{} #{}: deadline at {}{}\"/>",
                    y + 6,
                    Text(&self.tasks[served.job.task].task.name),
                    served.job.number,
                    served.deadline,
                    if late.is_empty() { "" } else { ", missed" },
                )?;
            }
        }
        writeln!(page, "</svg></div>\n<pre>{}</pre>", Text(&self.table()))?;
        writeln!(page, "<div id=\"tip\"></div>")
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
            "<rect class=\"run c{}{late}\" x=\"{x:.2}\" y=\"{}\" width=\"{:.2}\" height=\"18\" data-t=\"{} #{}: {} to {}, {response}, arrived {}, deadline {}\"/>",
            run.task % 8,
            TOP + run.task * ROW + 14,
            (end - x).max(0.4),
            Text(&self.tasks[run.task].task.name),
            served.job.number,
            run.start,
            run.end,
            served.job.arrival,
            served.deadline,
        )
    }
}

/// The horizontal position of a time.
fn across(time: Nanos, until: Nanos) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a place on a picture")]
    let share = time.ns().min(until.ns()) as f64 / until.ns().max(1) as f64;
    LEFT as f64 + share * WIDTH as f64
}

/// About ten lines at round times.
fn axis(page: &mut String, until: Nanos, height: usize) -> std::fmt::Result {
    let rounds =
        (0..).flat_map(|power| [1_u64, 2, 5].map(|digit| digit.saturating_mul(10_u64.saturating_pow(power))));
    let step = rounds.into_iter().find(|step| until.ns() / step <= 12).unwrap_or(u64::MAX);
    for mark in 0..=until.ns() / step {
        let time = Nanos::new(mark * step);
        let x = across(time, until);
        writeln!(
            page,
            "<line class=\"grid\" x1=\"{x:.2}\" x2=\"{x:.2}\" y1=\"{}\" y2=\"{}\"/>",
            TOP - 8,
            height - 24
        )?;
        writeln!(page, "<text class=\"time\" x=\"{x:.2}\" y=\"{}\">{time}</text>", height - 8)?;
    }
    Ok(())
}

const STYLE: &str = "p{color:var(--soft)}.name{text-anchor:end;fill:var(--ink);font-weight:600;font-size:13px}.sub{text-anchor:end;fill:var(--soft);font-size:10px}
.time{text-anchor:middle;fill:var(--soft);font-size:11px}.grid{stroke:var(--line)}.base{stroke:var(--soft);stroke-width:.6}
.run{rx:2}.run:hover{filter:brightness(1.15);stroke:var(--ink)}.run.late{stroke:var(--bad);stroke-width:1.6}
.c0{fill:#4c78dd}.c1{fill:#e39b2d}.c2{fill:#3aa675}.c3{fill:#b65fc9}.c4{fill:#d5626a}.c5{fill:#35a7b9}.c6{fill:#8a8f3c}.c7{fill:#7d6bd6}
.arrival{stroke:var(--soft);fill:none}.deadline{stroke:var(--ink);fill:none;stroke-opacity:.55}.deadline.late{stroke:var(--bad);stroke-width:2.2;stroke-opacity:1}
pre{font:12px/1.6 ui-monospace,monospace;border-top:1px solid var(--line);padding-top:12px}
#tip{position:fixed;display:none;background:var(--ink);color:var(--back);padding:4px 8px;border-radius:4px;font-size:12px;pointer-events:none}
";

const SCRIPT: &str = "const tip=document.getElementById('tip');
document.querySelector('svg').addEventListener('mousemove',e=>{
const text=e.target.dataset&&e.target.dataset.t;
tip.style.display=text?'block':'none';
if(text){tip.textContent=text;tip.style.left=Math.min(e.clientX+14,innerWidth-tip.offsetWidth-8)+'px';tip.style.top=(e.clientY+14)+'px'}
});
";
