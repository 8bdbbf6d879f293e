//! The naming service and the memory coordinator on etcd, as processes.

use isorb::Reference;
use isorb_etcd::{Cluster, EtcdNames, EtcdRegister};
use isorb_naming::store::Capacity;
use isorb_naming::{Limits, NamingService};
use isorb_reflective_memory::coordinator::Coordinator;
use std::error::Error;
use std::sync::Arc;

const USAGE: &str =
    "isorb-etcd naming|memory-coordinator --etcd URL[,URL...] [--prefix TEXT] [-ORB... arguments]

Runs a naming service or a memory coordinator that keeps what it acknowledged in etcd. Several of one
kind may run at a time. It prints its reference when it is ready.";

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let service = arguments.next().unwrap_or_default();
    let (mut members, mut prefix, mut rest) = (Vec::new(), "isorb".to_string(), Vec::new());
    while let Some(argument) = arguments.next() {
        match &*argument {
            "--etcd" => members = arguments.next().ok_or(USAGE)?.split(',').map(str::to_string).collect(),
            "--prefix" => prefix = arguments.next().ok_or(USAGE)?,
            _ => rest.push(argument),
        }
    }
    if members.is_empty() || !matches!(&*service, "naming" | "memory-coordinator") {
        return Err(USAGE.into());
    }
    let cluster = Arc::new(Cluster::new(members, prefix)?);
    let orb = isorb::Orb::init(rest)?;
    match &*service {
        "naming" => {
            let names = EtcdNames::open(cluster, Capacity::default())?;
            let service = NamingService::start(&orb, Arc::new(names), Limits::default())?;
            println!("{}", service.object());
            orb.run();
        }
        _ => {
            let coordinator = Coordinator::start(&orb, Arc::new(EtcdRegister::new(cluster)))?;
            println!("{}", coordinator.object().object());
            orb.run();
        }
    }
    Ok(())
}
