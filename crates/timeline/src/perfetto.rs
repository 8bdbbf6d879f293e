//! The timeline in Chrome's JSON trace format, which Perfetto opens. A channel is a process, a
//! thread a track, a run a slice, a queue a counter.

use crate::rows::{Gap, Mark, Row, Run, Timeline};
use isorb_trace::RecordKind;
use serde_json::{Value, json};

impl Timeline {
    /// The timeline as a trace for Perfetto.
    pub fn perfetto(&self) -> String {
        let mut events: Vec<Value> = Vec::new();
        let mut named = std::collections::BTreeSet::new();
        for (index, name) in self.channels.iter().enumerate() {
            events.push(json!({"ph": "M", "name": "process_name", "pid": index + 1, "args": {"name": name}}));
        }
        for row in &self.rows {
            let pid = row.channel + 1;
            for run in &row.runs {
                if named.insert((pid, run.thread)) {
                    let name = self.threads.get(run.thread).map_or("", String::as_str);
                    let tid = run.thread + 1;
                    events.push(json!({"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": name}}));
                }
                events.push(self.slice(row, run));
                events.extend(run.gaps.iter().map(|gap| self.gap(row, run, gap)));
                if run.late > 0 {
                    events.push(json!({
                        "ph": "i", "s": "t", "name": format!("{}: deadline missed", row.name), "pid": pid, "tid": run.thread + 1,
                        "ts": micros(run.end), "args": {"late_us": micros(run.late)},
                    }));
                }
            }
            events.extend(row.marks.iter().map(|mark| instant(row, mark)));
        }
        // One event on a line, so that tools such as grep can search the file.
        let lines: Vec<String> = events.iter().map(Value::to_string).collect();
        format!("{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n{}\n]}}\n", lines.join(",\n"))
    }

    fn row_name(&self, row: usize) -> &str {
        self.rows.get(row).map_or("", |row| row.name.as_str())
    }

    /// A slice within that of the pre-empted run.
    fn gap(&self, row: &Row, run: &Run, gap: &Gap) -> Value {
        json!({
            "ph": "X", "name": format!("pre-empted by {}", self.row_name(gap.by)), "cat": "pre-emption", "pid": row.channel + 1,
            "tid": run.thread + 1, "ts": micros(gap.from), "dur": micros(gap.to - gap.from),
        })
    }

    fn slice(&self, row: &Row, run: &Run) -> Value {
        let preempted: Vec<Value> = run
            .gaps
            .iter()
            .map(|gap| json!({"by": self.row_name(gap.by), "from_us": micros(gap.from), "for_us": micros(gap.to - gap.from)}))
            .collect();
        let mut args = json!({"level": row.level, "waited_us": micros(run.waited)});
        let mut put = |key: &str, value: Value, there: bool| {
            if there {
                args[key] = value;
            }
        };
        put("preempted", preempted.into(), !run.gaps.is_empty());
        put("late_us", micros(run.late).into(), run.late > 0);
        put("failed", true.into(), run.failed);
        put("incomplete", true.into(), run.open);
        put("moved", true.into(), run.moved);
        if let Some((used, declared)) = run.overran {
            put("used_us", micros(used).into(), true);
            put("declared_us", micros(declared).into(), true);
        }
        json!({
            "ph": "X", "name": row.name, "cat": "run", "pid": row.channel + 1, "tid": run.thread + 1,
            "ts": micros(run.start), "dur": micros(run.end - run.start), "args": args,
        })
    }
}

fn instant(row: &Row, mark: &Mark) -> Value {
    let (pid, ts) = (row.channel + 1, micros(mark.at));
    let (what, args) = match mark.kind {
        RecordKind::Queue => {
            let name = format!("{}: waiting", row.name);
            return json!({"ph": "C", "name": name, "pid": pid, "ts": ts, "args": {"pushes": mark.a}});
        }
        RecordKind::Push => ("push", json!({"type": (mark.a >> 32) as i32, "source": mark.a as i32})),
        RecordKind::Timeout => ("time-out", json!({"late_us": micros(mark.a), "deadline": mark.b == 1})),
        RecordKind::Drop => ("lost", json!({"reason": mark.a})),
        _ => ("?", json!({})),
    };
    json!({"ph": "i", "s": "p", "name": format!("{}: {what}", row.name), "pid": pid, "ts": ts, "args": args})
}

fn micros(ns: u64) -> f64 {
    ns as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use crate::Timeline;
    use crate::rows::tests::upcalls;

    #[test]
    fn perfetto_format() {
        let expected = r#"{"displayTimeUnit":"ns","traceEvents":[
{"args":{"name":"main"},"name":"process_name","ph":"M","pid":1}
{"args":{"source":4,"type":16},"name":"gps: push","ph":"i","pid":1,"s":"p","ts":0.0}
{"args":{"name":"worker"},"name":"thread_name","ph":"M","pid":1,"tid":2}
{"args":{"level":3,"waited_us":0.05},"cat":"run","dur":0.5,"name":"fast","ph":"X","pid":1,"tid":2,"ts":1.1}
{"args":{"declared_us":1.0,"late_us":0.8,"level":0,"preempted":[{"by":"fast","for_us":0.6,"from_us":1.0}],"used_us":2.0,"waited_us":0.5},"cat":"run","dur":2.5,"name":"slow","ph":"X","pid":1,"tid":2,"ts":0.5}
{"cat":"pre-emption","dur":0.6,"name":"pre-empted by fast","ph":"X","pid":1,"tid":2,"ts":1.0}
{"args":{"late_us":0.8},"name":"slow: deadline missed","ph":"i","pid":1,"s":"t","tid":2,"ts":3.0}
]}
"#;
        let trace = Timeline::of("t", &[upcalls()]).perfetto();
        assert_eq!(trace.replace("},\n", "}\n"), expected);
        serde_json::from_str::<serde_json::Value>(&trace).unwrap();
    }
}
