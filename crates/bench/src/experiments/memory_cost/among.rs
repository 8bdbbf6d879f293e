//! To another node, beside other areas of the writer's process that are pushed, too: a write must
//! cost as much as if its area were the only one.

use std::time::Duration;

use isorb_reflective_memory::idl::{Area, WriterQoS};
use isorb_reflective_memory::{AreaReader, AreaWriter};

use super::attach::READER_QOS;
use super::remote::{Nodes, service};
use super::{Context, MEMORY, refused, row};
use crate::experiments::BenchError;
use crate::figure::Measured;
use crate::stats::Samples;

/// The control: all the others are written just before.
pub const BUSY: &str = "all-written";

const AREAS: u32 = 1_000;
const SIZE: usize = 64;
const BLOCKS: usize = 10;
/// Heartbeats are rare: a thousand of them would be another experiment.
const QUIET: Duration = Duration::from_secs(10);

/// Areas of one process, each read on the other node.
struct Process {
    nodes: Nodes,
    writer: Option<AreaWriter>,
    others: Vec<AreaWriter>,
    readers: Vec<AreaReader>,
}

impl Process {
    fn start(cx: &Context<'_>, areas: u32) -> Result<Process, BenchError> {
        let nodes = Nodes::with_heartbeat(cx, QUIET)?;
        let (mut writers, mut readers) = (Vec::new(), Vec::new());
        for number in 0..areas {
            let name = format!("among-{number}");
            let what = Area::new(&name, SIZE as u32, 1);
            nodes.near.1.create_area(&what).map_err(refused)?;
            writers.push(
                nodes
                    .near
                    .1
                    .map_writer(&name, WriterQoS { period: 0, size: 0, type_hash: 0 })
                    .map_err(refused)?,
            );
            readers.push(nodes.far.1.attach_reader(&name, READER_QOS).map_err(refused)?);
        }
        // The measured one is neither the first nor the last.
        let middle = writers.len() / 2;
        let writer = Some(writers.swap_remove(middle));
        readers.swap(0, middle);
        Ok(Process { nodes, writer, others: writers, readers })
    }

    fn values(
        &mut self,
        cx: &Context<'_>,
        values: usize,
        all: bool,
        samples: &mut Samples,
    ) -> Result<(), BenchError> {
        let Some(writer) = self.writer.take() else { return Ok(()) };
        let reader = self.readers.swap_remove(0);
        let mut others = if all { std::mem::take(&mut self.others) } else { Vec::new() };
        let before = move || {
            for other in &mut others {
                let _ = other.write(&[1; SIZE]);
            }
        };
        let (block, writer, reader) = service(cx, writer, reader, SIZE, values, before)?;
        samples.extend(block);
        self.writer = Some(writer);
        self.readers.push(reader);
        let last = self.readers.len() - 1;
        self.readers.swap(0, last);
        Ok(())
    }
}

pub fn measure(cx: &mut Context<'_>, out: &mut Measured) -> Result<(), BenchError> {
    cx.progress(format!("crm-cost: one of {AREAS} areas is written"));
    let (mut one, mut many) = (Process::start(cx, 1)?, Process::start(cx, AREAS)?);
    let values = cx.ms(200, 1_000) as usize;
    let (mut alone, mut among, mut busy) = (Samples::new(), Samples::new(), Samples::new());
    for _ in 0..BLOCKS {
        one.values(cx, values, false, &mut alone)?;
        many.values(cx, values, false, &mut among)?;
    }
    many.values(cx, values / 10, true, &mut busy)?;
    row(out, "among", MEMORY, 1.0, &alone);
    row(out, "among", MEMORY, f64::from(AREAS), &among);
    row(out, "among", BUSY, f64::from(AREAS), &busy);
    drop((one.nodes, many.nodes));
    Ok(())
}
