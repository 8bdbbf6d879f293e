//! Values that flow while something else is measured: a thread that writes each of its areas once a
//! period.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use isorb_reflective_memory::{AreaReader, AreaWriter};
use isorb_rt::sched::{SchedClass, Thread};
use isorb_rt::time::now_ns;

use super::{Context, joined, thread};
use crate::experiments::BenchError;
use crate::figure::{Measured, times};
use crate::stats::Samples;

/// The writers; they write until this is ended.
pub struct Flow {
    give: Sender<AreaWriter>,
    thread: Thread<Vec<AreaWriter>>,
}

impl Flow {
    /// None yet. At the node of the writers.
    pub fn start(cx: &Context<'_>, period_ns: u64) -> Result<Flow, BenchError> {
        let (give, take) = channel();
        let thread = thread(cx, 0, SchedClass::Other, move || write_all(&take, period_ns))?;
        Ok(Flow { give, thread })
    }

    /// One more, which is written at once.
    pub fn add(&self, writer: AreaWriter) {
        // It takes them as long as it runs.
        let _ = self.give.send(writer);
    }

    /// Ends it.
    pub fn end(self) -> Result<Vec<AreaWriter>, BenchError> {
        drop(self.give);
        joined(self.thread)
    }
}

fn write_all(take: &Receiver<AreaWriter>, period_ns: u64) -> Vec<AreaWriter> {
    let mut writers: Vec<AreaWriter> = Vec::new();
    let mut due: Vec<u64> = Vec::new();
    loop {
        match take.recv_timeout(Duration::from_millis(1)) {
            Ok(writer) => {
                writers.push(writer);
                due.push(now_ns());
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return writers,
        }
        for (writer, due) in writers.iter_mut().zip(&mut due) {
            let now = now_ns();
            if now >= *due {
                let _ = writer.write(&[7; 64]);
                *due = now + period_ns;
            }
        }
    }
}

/// How old the values of all `readers` are, and how many of these have one younger than `fresh_ns`.
pub fn ages(out: &mut Measured, readers: &mut [AreaReader], fresh_ns: u64) {
    let (mut samples, mut fresh, mut value) = (Samples::new(), 0, [0; 64]);
    for reader in readers.iter_mut() {
        // One that has none yet has no age.
        if let Ok(sample) = reader.latest(&mut value) {
            let age = now_ns().saturating_sub(sample.written_ns);
            samples.add(age);
            fresh += u32::from(age < fresh_ns);
        }
    }
    let all = readers.len() as f64;
    let mut values = times(&samples.summary());
    values.push(("fresh_percent", f64::from(fresh) / all * 100.0));
    out.row("flow", super::MEMORY, all, values);
}
