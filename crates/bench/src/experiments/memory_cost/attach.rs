//! What it takes to set channels up, and to be refused one, where there are many already.

use std::time::{Duration, Instant};

use isorb_reflective_memory::idl::{Area, Mode, Path, ReaderQoS, WriterQoS};
use isorb_reflective_memory::{AreaReader, AreaWriter, Error, Library};
use isorb_rt::time::now_ns;

use super::flow::{self, Flow};
use super::remote::Nodes;
use super::{Context, MEMORY, refused, row};
use crate::experiments::BenchError;
use crate::figure::Measured;
use crate::stats::Samples;

/// A reader of its writer's node.
pub const WITHIN: &str = "within";
/// A reader of another node, best effort.
pub const BETWEEN: &str = "between";
/// A reader of another node, admitted.
pub const GUARANTEED: &str = "guaranteed";

const AREAS: u32 = 1_000;
const READERS: u32 = 10_000;
/// Of one of the areas.
const MANY_OF_ONE: u32 = 1_000;
const PERIOD_NS: u64 = 1_000_000_000;
const DEADLINE_NS: u64 = PERIOD_NS / 10 * 9;

pub const READER_QOS: ReaderQoS = ReaderQoS {
    how: Mode::PushOnWrite,
    period: 0,
    deadline: 0,
    histories: 1,
    guaranteed: false,
    soft: true,
    through: Path::PathUdp,
    parity: 0,
    type_hash: 0,
};

pub fn measure(cx: &mut Context<'_>, out: &mut Measured) -> Result<(), BenchError> {
    allow_files();
    let nodes = Nodes::start(cx)?;
    let (near, far) = (&nodes.near.1, &nodes.far.1);
    let (areas, many) = (cx.ms(AREAS, AREAS) as usize, cx.ms(READERS, READERS) as usize);
    cx.progress(format!("crm-cost: {areas} areas, an admitted reader each"));
    let flow = Flow::start(cx, PERIOD_NS)?;
    let (mut admitted, mut readers) = (Vec::new(), Vec::new());
    let mut samples = Samples::new();
    let wish = ReaderQoS { guaranteed: true, deadline: DEADLINE_NS, ..READER_QOS };
    for number in 1..=areas {
        let name = name(number);
        flow.add(area(near, &name)?);
        admitted.push(timed(&mut samples, || far.attach_reader(&name, wish))?);
        if number.is_multiple_of(areas / 10) {
            row(out, "attach", GUARANTEED, number as f64, &samples);
            samples = Samples::new();
        }
    }
    refusals(cx, near, far, areas, out)?;
    cx.progress("crm-cost: best effort among them");
    for number in 0..cx.pick(100, 200) {
        // Another parity each time, so that no replica is shared.
        let wish = ReaderQoS { parity: number, ..READER_QOS };
        readers.push(timed(&mut samples, || far.attach_reader(&name(1), wish))?);
    }
    row(out, "attach", BETWEEN, areas as f64, &samples);
    cx.progress(format!("crm-cost: {many} readers of one node"));
    for part in 1..=10 {
        samples = Samples::new();
        for number in 0..many / 10 {
            let name = name(1 + number % areas);
            readers.push(timed(&mut samples, || near.attach_reader(&name, READER_QOS))?);
        }
        row(out, "attach", WITHIN, (part * many / 10) as f64, &samples);
    }
    cx.progress("crm-cost: values with all of them there");
    // Each has been written again since the last came.
    std::thread::sleep(Duration::from_nanos(2 * PERIOD_NS));
    flow::ages(out, &mut admitted, PERIOD_NS + DEADLINE_NS);
    let writers = flow.end()?;
    cx.progress("crm-cost: a write by the number of readers");
    let writes = |writer: &mut AreaWriter| {
        let mut samples = Samples::new();
        for _ in 0..2_000 {
            let start = now_ns();
            let _ = writer.write(&[7; 64]);
            samples.add(now_ns() - start);
        }
        samples
    };
    let watched = &name(0);
    let mut writer = area(near, watched)?;
    readers.push(near.attach_reader(watched, READER_QOS).map_err(refused)?);
    row(out, "many", MEMORY, 1.0, &writes(&mut writer));
    for _ in 1..MANY_OF_ONE {
        readers.push(near.attach_reader(watched, READER_QOS).map_err(refused)?);
    }
    row(out, "many", MEMORY, MANY_OF_ONE as f64, &writes(&mut writer));
    drop((writers, readers, admitted));
    Ok(())
}

/// As many open files as the system grants: each reader has one. Where that is not enough,
/// attaching says so.
fn allow_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

fn name(number: usize) -> String {
    format!("area-{number}")
}

fn area(library: &Library, name: &str) -> Result<AreaWriter, BenchError> {
    library.create_area(&Area::new(name, 64, 1)).map_err(refused)?;
    library.map_writer(name, WriterQoS { period: PERIOD_NS, size: 0, type_hash: 0 }).map_err(refused)
}

fn timed(
    samples: &mut Samples,
    attach: impl FnOnce() -> Result<AreaReader, Error>,
) -> Result<AreaReader, BenchError> {
    let start = Instant::now();
    let reader = attach().map_err(refused)?;
    samples.add(nanoseconds(start.elapsed()));
    Ok(reader)
}

/// Wishes that neither node can grant, for one reason and the other.
fn refusals(
    cx: &mut Context<'_>,
    near: &Library,
    far: &Library,
    areas: usize,
    out: &mut Measured,
) -> Result<(), BenchError> {
    cx.progress("crm-cost: refusals");
    let mut samples = Samples::new();
    let mut writers = Vec::new();
    for number in 0..cx.pick(5, 20) {
        let name = format!("refused-{number}");
        let size = 100_000 << (number % 3);
        near.create_area(&Area::new(&name, size, 1)).map_err(refused)?;
        let period = [PERIOD_NS, PERIOD_NS / 200][number % 2];
        writers.push(near.map_writer(&name, WriterQoS { period, size: 0, type_hash: 0 }).map_err(refused)?);
        let wish = ReaderQoS { guaranteed: true, deadline: PERIOD_NS / 100, ..READER_QOS };
        let start = Instant::now();
        match far.attach_reader(&name, wish) {
            Err(Error::NotAdmitted(_)) => samples.add(nanoseconds(start.elapsed())),
            Err(error) => return Err(refused(error)),
            Ok(_) => return Err(BenchError::Memory("what cannot be admitted was".into())),
        }
    }
    row(out, "refuse", GUARANTEED, areas as f64, &samples);
    Ok(())
}

fn nanoseconds(took: Duration) -> u64 {
    u64::try_from(took.as_nanos()).unwrap_or(u64::MAX)
}
