//! The verdict on a schedule as a table for people.

use crate::Preemption;
use crate::schedule::{Config, Schedule, Severity};
use std::fmt::{self, Write};

impl Schedule {
    /// A row for each task with its numbers, longest response, slack and verdict; then the
    /// anomalies.
    #[must_use]
    pub fn table(&self) -> String {
        let heads = [
            "task", "level", "thread", "cost", "period", "deadline", "jitter", "blocking", "response",
            "slack", "verdict",
        ];
        let mut rows = vec![heads.map(str::to_string)];
        for (scheduled, verdict) in self.tasks.iter().zip(&self.analysis.verdicts) {
            let task = &scheduled.task;
            let slack = verdict.slack().map_or("-".to_string(), |slack| slack.to_string());
            let message = match (verdict.met(), verdict.response) {
                (true, _) => "met",
                (false, crate::Response::Undecided(_)) => "NOT SHOWN",
                (false, _) => "MISSED",
            };
            rows.push([
                task.name.clone(),
                scheduled.queue.level.to_string(),
                scheduled.queue.thread_priority.to_string(),
                task.cost.to_string(),
                task.period.to_string(),
                task.deadline.to_string(),
                task.jitter.to_string(),
                verdict.blocking.to_string(),
                verdict.response.to_string(),
                slack,
                message.to_string(),
            ]);
        }
        let widths: Vec<usize> = (0..heads.len())
            .map(|at| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0))
            .collect();
        let mut table = String::new();
        for row in rows {
            let mut line = String::new();
            for (at, (cell, width)) in row.iter().zip(&widths).enumerate() {
                // Names and verdicts to the left, numbers to the right.
                let padded = if at == 0 || at == heads.len() - 1 {
                    format!("{cell:<width$}  ")
                } else {
                    format!("{cell:>width$}  ")
                };
                line.push_str(&padded);
            }
            table.push_str(line.trim_end());
            table.push('\n');
        }
        // Writing to a string does not fail.
        let _ = self.summary(&mut table);
        table
    }

    fn summary(&self, text: &mut String) -> fmt::Result {
        let met = self.analysis.verdicts.iter().filter(|verdict| verdict.met()).count();
        writeln!(
            text,
            "\n{} of {} tasks meet every deadline; {} of the processor is used\nanalysis: {}",
            met,
            self.tasks.len(),
            self.analysis.utilisation,
            self.method()
        )?;
        for anomaly in &self.anomalies {
            let severity = match anomaly.severity {
                Severity::Warning => "warning",
                Severity::Error => "error",
                Severity::Fatal => "fatal",
            };
            writeln!(text, "{severity}: {}", anomaly.description)?;
        }
        Ok(())
    }
    /// What was analysed: the policy, the preemption and the threads.
    fn method(&self) -> String {
        let Config { policy, preemption, one_thread_per_level, .. } = &self.config;
        let preemption = match preemption {
            Preemption::Full => "full",
            Preemption::Deferred => "deferred",
            Preemption::None => "no",
        };
        match (one_thread_per_level, self.queues.len()) {
            (true, 0 | 1) => format!(
                "{policy}, one thread for all tasks, so that none preempts another \
                 (one_thread_per_level = false analyses {preemption} preemption)"
            ),
            (true, _) => format!("{policy}, {preemption} preemption between levels, one thread per level"),
            (false, _) => format!("{policy}, {preemption} preemption, also within a level"),
        }
    }
}
