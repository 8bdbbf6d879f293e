//! Two lanes at work, and a trace of what ran when.
#![forbid(unsafe_code)]

use generated::plant::{Job, JobRef};
use isorb::poa::PoaPolicies;
use isorb::prelude::*;
use isorb::rt::policy::{PriorityBand, PriorityModel, RtPolicy};
use isorb::rt::{Overrides, ThreadpoolLane, ThreadpoolOptions};
use isorb_trace::{Participant, Record, RecordKind, Recorder, RecorderLimits, Recording, Role};
use std::sync::Arc;
use std::time::{Duration, Instant};

#[allow(missing_docs)]
mod generated {
    isorb::include_idl!("plant");
}

const ROUTINE: i16 = 1_000;
const URGENT: i16 = 20_000;

/// Computes, and records when.
struct Computer {
    recorder: Recorder,
    start: Instant,
}

impl Computer {
    fn record(&self, kind: RecordKind, level: u8, a: u64) -> Record {
        let at = self.start.elapsed().as_nanos() as u64;
        Record { at, kind, level, id: u32::from(level), a, b: 0 }
    }
}

impl Job for Computer {
    fn run(&self, cx: Upcall<'_>, microseconds: u32) -> Result<()> {
        // 0 is the less urgent level.
        let level = u8::from(cx.priority().map(i16::from) == Some(URGENT));
        let begun = Instant::now();
        let run = self.recorder.begin(self.record(RecordKind::Begin, level, 0));
        while begun.elapsed() < Duration::from_micros(u64::from(microseconds)) {
            std::hint::spin_loop();
        }
        let took = begun.elapsed().as_nanos() as u64;
        self.recorder.end(run, self.record(RecordKind::End, level, took));
        Ok(())
    }
}

/// Calls a number of times at a priority, with pauses.
fn call(job: &JobRef, client: &Orb, priority: i16, times: u32, work: u32, pause: u64) -> Result<()> {
    client.rt_current().set_the_priority(priority)?;
    for _ in 0..times {
        job.run(work)?;
        std::thread::sleep(Duration::from_millis(pause));
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The server: a lane with one thread for each priority.
    let server = Orb::builder().build()?;
    let lanes = [ThreadpoolLane::new(ROUTINE, 1), ThreadpoolLane::new(URGENT, 1)];
    let pool = server.rt().create_threadpool_with_lanes(&lanes, &ThreadpoolOptions::default())?;
    let policies =
        PoaPolicies::new().threadpool(pool).priority_model(PriorityModel::ClientPropagated, ROUTINE);
    let root = server.root_poa()?;
    let poa = root.create_poa("plant", Some(&root.manager()), policies)?;
    root.manager().activate()?;
    let limits = RecorderLimits { threads: 4, records: 1024, processors: 64, levels: 2 };
    let computer = Arc::new(Computer { recorder: Recorder::new(limits, true), start: Instant::now() });
    let job: JobRef = poa.activate(computer.clone())?;
    let reference = job.to_string();

    // The client: a band of priorities for each lane.
    let client = Orb::builder().build()?;
    let bands = [PriorityBand { low: 0, high: 9_999 }, PriorityBand { low: 10_000, high: 32_767 }];
    let overrides = Overrides::new(&[RtPolicy::PriorityBands(bands.into())])?;
    let object = client.string_to_object(&reference)?.with_rt_overrides(&overrides);
    object.validate_connection()?;
    let job: JobRef = object.unchecked_narrow();

    // Long work at the low priority, short work at the high one.
    std::thread::scope(|scope| {
        let routine = scope.spawn(|| call(&job, &client, ROUTINE, 10, 30_000, 1));
        let urgent = scope.spawn(|| call(&job, &client, URGENT, 30, 2_000, 8));
        urgent.join().expect("it does not panic").and(routine.join().expect("it does not panic"))
    })?;
    client.shutdown(true)?;
    server.shutdown(true)?;
    println!("10 calls at {ROUTINE}, 30 calls at {URGENT}");

    let named = |id, name: &str| Participant { role: Role::Consumer, id, name: name.into(), deadline: None };
    let recording = Recording {
        name: "lanes".into(),
        participants: vec![named(0, "routine lane"), named(1, "urgent lane")],
        tracks: computer.recorder.snapshot(),
        ..Recording::default()
    };
    if let Some(file) = std::env::args().nth(1) {
        std::fs::write(&file, isorb_trace::encode(&recording))?;
        println!("the trace is in {file}");
    }
    Ok(())
}
