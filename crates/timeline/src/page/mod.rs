//! The timeline as one page without external resources: the numbers as JSON, drawn by its script.

use crate::rows::{Row, Run, Timeline};
use isorb_page::{Page, Text};
use isorb_trace::RecordKind;
use serde_json::{Value, json};

/// The most runs and marks of a page. The earliest are left out, and the page says so.
const MAX_ITEMS: usize = 200_000;

const STYLE: &str = include_str!("page.css");
/// The parts of the script, in the order in which they run.
const SCRIPTS: [&str; 7] = [
    isorb_page::GESTURES,
    include_str!("model.js"),
    include_str!("shapes.js"),
    include_str!("draw.js"),
    include_str!("under.js"),
    include_str!("numbers.js"),
    include_str!("controls.js"),
];

impl Timeline {
    /// The timeline as an HTML page.
    pub fn page(&self) -> String {
        self.page_of(MAX_ITEMS)
    }

    fn page_of(&self, most: usize) -> String {
        let from = self.cut(most);
        let body = format!(
            "<h1>{}</h1>\n<p id=\"about\"></p>\n<ul id=\"refused\"></ul>\n\
             <div id=\"tools\" class=\"tools\" role=\"toolbar\" aria-label=\"the time shown\"></div>\n\
             <div id=\"stage\"><canvas id=\"lines\" tabindex=\"0\" role=\"application\" \
             aria-label=\"timeline; arrow keys move and choose a row, comma and point choose a run; the table below has its numbers\"></canvas>\
             <div id=\"tip\" role=\"status\" hidden></div></div>\n\
             <h2>Legend</h2>\n<ul id=\"legend\" class=\"legend\"></ul>\n\
             <p id=\"keys\">Drag or swipe to move, pinch or turn the wheel with Ctrl to zoom, tap for numbers. Keys: + and &minus; zoom, \
             left and right move, 0 shows all, N goes to the next missed deadline, up and down choose a row, comma and point a run.</p>\n\
             <h2>Numbers</h2>\n<div class=\"scroll\" role=\"group\" aria-label=\"table of numbers\" tabindex=\"0\"><table id=\"numbers\"></table></div>",
            Text(&self.title)
        );
        let page = Page {
            title: &self.title,
            styles: &[STYLE],
            body: &body,
            data: Some(&self.data(from).to_string()),
            scripts: &SCRIPTS,
        };
        page.to_string()
    }

    /// The time from which on there are at most `most` runs and marks.
    fn cut(&self, most: usize) -> u64 {
        let mut ends: Vec<u64> = self
            .rows
            .iter()
            .flat_map(|row| row.runs.iter().map(|run| run.end).chain(row.marks.iter().map(|mark| mark.at)))
            .collect();
        if ends.len() <= most {
            return 0;
        }
        let last_left_out = ends.len() - most - 1;
        *ends.select_nth_unstable(last_left_out).1 + 1
    }

    fn data(&self, from: u64) -> Value {
        let rows: Vec<Value> = self.rows.iter().map(|row| row_data(row, from)).collect();
        json!({
            "span": self.span, "cut": from, "lost": self.lost,
            "channels": self.channels, "threads": self.threads, "rows": rows,
            "phases": self.phases.iter().map(|p| json!([p.channel, p.from, p.to, p.caption])).collect::<Vec<_>>(),
            "refused": self.refused.iter().map(|r| json!([r.channel, r.name, r.why])).collect::<Vec<_>>(),
        })
    }
}

fn row_data(row: &Row, from: u64) -> Value {
    let runs: Vec<Value> = row.runs.iter().filter(|run| run.end >= from).map(run_data).collect();
    let mut pushes: Vec<Value> = Vec::new();
    let mut marks: Vec<Value> = Vec::new();
    for mark in row.marks.iter().filter(|mark| mark.at >= from) {
        match mark.kind {
            RecordKind::Push => pushes.push(json!([mark.at, (mark.a >> 32) as i32, mark.a as i32])),
            RecordKind::Timeout => marks.push(json!([mark.at, "timeout", mark.a, mark.b])),
            RecordKind::Drop => marks.push(json!([mark.at, "lost", mark.a, 0])),
            // The Perfetto trace shows the length of queues.
            _ => {}
        }
    }
    let s = row.summary();
    json!({
        "name": row.name, "channel": row.channel, "supplier": row.supplier, "consumer": row.consumer, "level": row.level,
        "runs": runs, "pushes": pushes, "marks": marks,
        "numbers": [s.pushes, s.runs, s.ran_p50, s.ran_max, s.response_p50, s.response_p99, s.response_max, s.preempted, s.missed, s.dropped],
    })
}

/// Begin, end, waiting time, thread, lateness, flags (1 failed, 2 incomplete, 4 moved), overrun,
/// pre-emptions, deadline or null, the row of the push that released it or null.
fn run_data(run: &Run) -> Value {
    let flags = u8::from(run.failed) | u8::from(run.open) << 1 | u8::from(run.moved) << 2;
    let overran = run.overran.map_or(Value::from(0), |(used, declared)| json!([used, declared]));
    let gaps: Vec<Value> = run.gaps.iter().map(|gap| json!([gap.from, gap.to, gap.by])).collect();
    json!([
        run.start,
        run.end,
        run.waited,
        run.thread,
        run.late,
        flags,
        overran,
        gaps,
        run.deadline,
        run.cause
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::tests::upcalls;

    fn data_of(page: &str) -> Value {
        let data = page.split_once("id=\"data\">").and_then(|(_, rest)| rest.split_once("</script>"));
        serde_json::from_str(data.expect("the page has its data").0).expect("they are JSON")
    }

    #[test]
    fn a_page_carries_its_numbers() {
        let page = Timeline::of("a <b> & \"c\"", &[upcalls()]).page();
        assert!(page.contains("<title>a &lt;b&gt; &amp; &quot;c&quot;</title>"));
        let data = data_of(&page);
        assert_eq!(data["span"], 3_100);
        assert_eq!(data["rows"][0]["pushes"], json!([[0, 16, 4]]));
        let slow = json!([[500, 3_000, 500, 1, 800, 0, [2_000, 1_000], [[1_000, 1_600, 1]], 2_200, 0]]);
        assert_eq!(data["rows"][2]["runs"], slow);
        assert!(!page.contains("http"), "nothing is fetched");
    }

    #[test]
    fn names_cannot_end_the_data_element() {
        let mut recording = upcalls();
        recording.participants[1].name = "</script><script>alert(1)</script><!--".into();
        let page = Timeline::of("t", &[recording]).page();
        // The data, and the parts of the script.
        assert_eq!(page.matches("<script").count(), 1 + SCRIPTS.len());
        assert_eq!(data_of(&page)["rows"][2]["name"], "</script><script>alert(1)</script><!--");
    }

    #[test]
    fn the_latest_items_are_shown() {
        let timeline = Timeline::of("t", &[upcalls()]);
        let data = data_of(&timeline.page_of(1));
        let runs = |row: usize| data["rows"][row]["runs"].as_array().expect("a list").len();
        assert_eq!((runs(1), runs(2), data["cut"].as_u64()), (0, 1, Some(1_601)));
        // The table counts all runs, also those that the picture leaves out.
        assert_eq!(data["rows"][1]["numbers"][1], 1);
    }
}
