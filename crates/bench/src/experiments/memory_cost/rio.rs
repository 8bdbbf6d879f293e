//! The object RIO in its own process: what an ordinary CORBA call that is collocated costs beside
//! the Rust call that it ends in.

use std::hint::black_box;
use std::time::Duration;

use isorb::Reference;
use isorb_reflective_memory::Rio;
use isorb_reflective_memory::idl::{Area, RIORef, WriterQoS};
use isorb_rt::sched::SchedClass;
use isorb_rt::time::now_ns;

use super::attach::READER_QOS;
use super::remote::Nodes;
use super::{Context, joined, refused, row, thread};
use crate::blocks::keep;
use crate::experiments::BenchError;
use crate::figure::Measured;
use crate::stats::Samples;

/// What is called, and how.
pub const DIRECT: [&str; 2] = ["direct-write", "direct-read"];
pub const DYNAMIC: [&str; 2] = ["dynamic-write", "dynamic-read"];
pub const COLLOCATED: [&str; 2] = ["rio-write", "rio-read"];
/// The control: the same object by GIOP.
pub const BY_GIOP: [&str; 2] = ["giop-write", "giop-read"];

const SIZE: usize = 64;
const BLOCKS: usize = 10;
/// Calls that are timed together.
const TOGETHER: u32 = 20;

type Call = Box<dyn FnMut() + Send>;

pub fn measure(cx: &mut Context<'_>, out: &mut Measured) -> Result<(), BenchError> {
    cx.progress("crm-cost: RIO in its process".to_owned());
    let nodes = Nodes::start(cx)?;
    let library = nodes.near.1.clone();
    let (near, other) = (nodes.orb(1), nodes.orb(0));
    let (here, _) = Rio::activate(near, &library).map_err(refused)?;
    let there: RIORef = other.resolve(&here.object().to_string())?;
    let area = |name: &str| {
        let what = Area::new(name, SIZE as u32, 1);
        library.create_area(&what).map_err(refused)
    };
    let promise = WriterQoS { period: 0, size: 0, type_hash: 0 };
    area("rio")?;
    let (to, from) = (
        here.map_writer("rio", promise).map_err(refused)?,
        here.attach_reader("rio", READER_QOS).map_err(refused)?,
    );
    area("direct")?;
    let mut writer = library.map_writer("direct", promise).map_err(refused)?;
    let mut reader = library.attach_reader("direct", READER_QOS).map_err(refused)?;
    let calls = cx.ms(200, 1_000) as usize;
    let work = move || {
        let value = [7; SIZE];
        let by = |rio: RIORef| -> [Call; 2] {
            let reads = rio.clone();
            let writes = move || drop(black_box(rio.write(to, black_box(&value))));
            [Box::new(writes), Box::new(move || drop(black_box(reads.read_latest(from, 0, 0))))]
        };
        let mut calls_by: Vec<(&'static str, Call, Samples)> = Vec::new();
        for (names, pair) in [(COLLOCATED, by(here)), (BY_GIOP, by(there))] {
            calls_by.extend(names.into_iter().zip(pair).map(|(name, call)| (name, call, Samples::new())));
        }
        let mut own =
            [DIRECT, DYNAMIC].concat().into_iter().map(|name| (name, Samples::new())).collect::<Vec<_>>();
        let mut write = || keep(writer.write(black_box(&value)));
        let mut out = [0; SIZE];
        let mut read = || keep(reader.latest(black_box(&mut out)));
        for _ in 0..BLOCKS {
            for (_, call, samples) in &mut calls_by {
                timed(calls, samples, call);
            }
            timed(calls, &mut own[0].1, &mut write);
            timed(calls, &mut own[1].1, &mut read);
            timed(calls, &mut own[2].1, black_box(&mut write as &mut dyn FnMut()));
            timed(calls, &mut own[3].1, black_box(&mut read as &mut dyn FnMut()));
        }
        calls_by.into_iter().map(|(name, _, samples)| (name, samples)).chain(own).collect::<Vec<_>>()
    };
    let measured = joined(thread(cx, 0, SchedClass::Other, work)?)?;
    measured.iter().for_each(|(name, samples)| row(out, "rio", name, SIZE as f64, samples));
    // What its calls left under way.
    std::thread::sleep(Duration::from_millis(10));
    Ok(())
}

fn timed(calls: usize, samples: &mut Samples, mut call: impl FnMut()) {
    for _ in 0..calls / TOGETHER as usize {
        let start = now_ns();
        (0..TOGETHER).for_each(|_| call());
        samples.add((now_ns() - start) / u64::from(TOGETHER));
    }
}
