//! The server of a workload: one object, in lanes or in one pool.

use std::hint::black_box;
use std::io;
use std::sync::Arc;

use clap::Args;
use isorb::poa::PoaPolicies;
use isorb::rt::policy::{PriorityBand, PriorityModel, Protocol, ProtocolProperties, TcpProperties};
use isorb::rt::{ClassSelectors, ThreadpoolLane, ThreadpoolOptions, UpcallMemory};
use isorb::{Orb, Reference};
use isorb_rt::sched::{SchedClass, ThreadSpec};

use super::setup::Setup;
use super::{layers, raw_probe};
use crate::process::limit_spinning;
use crate::protocol::{exit_at_end_of_input, ready};
use crate::subjects::isorb::generated::bench::{LayeredRef, TargetRef};
use crate::subjects::isorb::{Echo, failed};

/// Arguments of the server.
#[derive(Args, Debug)]
pub struct ServerArgs {
    /// How the workload is set up, in JSON
    setup: Setup,
}

/// Serves until standard input ends.
pub fn serve(args: &ServerArgs) -> io::Result<()> {
    limit_spinning()?;
    let setup = &args.setup;
    let (orb, layered) = if setup.layers {
        let (orb, servant) = layers::server(setup.config()).map_err(failed)?;
        (orb, Some(servant))
    } else {
        (Orb::with_config(setup.config()).map_err(failed)?, None)
    };
    let root = orb.root_poa().map_err(failed)?;
    let policies = policies(&orb, setup).map_err(failed)?;
    let poa = root.create_poa("workload", Some(&root.manager()), policies).map_err(io::Error::other)?;
    let target: TargetRef = poa.activate(Arc::new(Echo::new(&orb))).map_err(io::Error::other)?;
    let layered: Option<LayeredRef> =
        layered.map(|servant| poa.activate(Arc::new(servant))).transpose().map_err(io::Error::other)?;
    exit_at_end_of_input();
    (0..setup.allocating).try_for_each(allocate)?;
    root.manager().activate().map_err(io::Error::other)?;
    if setup.probe || setup.layers {
        let probe = raw_probe::serve(&orb, setup)?;
        let layered = layered.map_or_else(String::new, |it| format!(" {}", it.object()));
        ready(format_args!("{} {probe}{layered}", target.object()))?;
    } else {
        ready(target.object())?;
    }
    orb.run();
    Ok(())
}

/// Starts an ordinary thread that does what the rest of a program does to its heap: blocks of 1 to
/// 5 KiB come and go.
fn allocate(seed: u32) -> io::Result<()> {
    let thread = ThreadSpec::new("allocate").class(SchedClass::Other).spawn(move || {
        let mut held: Vec<Vec<u8>> = vec![Vec::new(); 64];
        let mut x = 0x9e37_79b9u32 ^ seed;
        loop {
            // Xorshift.
            x ^= x << 13;
            x ^= x >> 17;
            x ^= x << 5;
            let place = x as usize % held.len();
            held[place] = black_box(Vec::with_capacity(1024 + (x >> 20) as usize));
        }
    });
    thread.map(drop).map_err(io::Error::other)
}

/// A lane for each priority or one pool, connections in bands or shared. The client says how urgent
/// a request is, or all requests are equal.
fn policies(orb: &Orb, setup: &Setup) -> isorb::Result<PoaPolicies> {
    let memory = if setup.heap { UpcallMemory::Heap } else { UpcallMemory::Scope };
    let region_bytes = setup.region_bytes;
    let options = ThreadpoolOptions { memory: Some(memory), region_bytes, ..ThreadpoolOptions::default() };
    let lowest = setup.lanes.first().copied().unwrap_or(0);
    if setup.marked {
        orb.set_network_priority_mapping(Arc::new(ClassSelectors));
    }
    let model = if setup.declared { PriorityModel::ServerDeclared } else { PriorityModel::ClientPropagated };
    let mut policies = PoaPolicies::new().priority_model(model, lowest);
    if setup.transport != "tcp" && !setup.sorted && !setup.banded {
        // The one connection has one thread, which takes on the priority of each request that it
        // has read.
        return Ok(PoaPolicies::new().priority_model(PriorityModel::ClientPropagated, lowest));
    }
    let pool = if setup.sorted {
        // A connection for a band that comes in elsewhere is moved to the band's lane.
        let lane = |&priority| ThreadpoolLane::new(priority, 1).endpoint(setup.lane_endpoint());
        let lanes: Vec<ThreadpoolLane> = setup.lanes.iter().map(lane).collect();
        orb.rt().create_threadpool_with_lanes(&lanes, &options)?
    } else {
        let threads = u32::try_from(setup.lanes.len()).unwrap_or(u32::MAX);
        orb.rt().create_threadpool(ThreadpoolLane::new(lowest, threads), &options)?
    };
    policies = policies.threadpool(pool);
    if setup.banded {
        policies = policies.priority_bands(bands(&setup.lanes));
    }
    if setup.transport != "tcp" {
        return Ok(policies);
    }
    let tcp = TcpProperties { network_priority: setup.marked, ..TcpProperties::default() };
    Ok(policies.server_protocols([Protocol { tag: 0, properties: ProtocolProperties::Tcp(tcp) }]))
}

/// A band for each lane, each with nothing but the lane's priority.
fn bands(lanes: &[i16]) -> Vec<PriorityBand> {
    lanes.iter().map(|&priority| PriorityBand { low: priority, high: priority }).collect()
}
