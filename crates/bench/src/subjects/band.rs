//! isorb as Real-Time CORBA has it: a thread pool with two lanes, a connection in bands, the
//! client's priority in every request.
//!
//! Both processes run at whatever native priority the harness has put them, all of their threads,
//! so that the comparison with the other subjects is one of paths and not of priorities; CORBA
//! priorities choose the band and the lane all the same.

use std::io;
use std::sync::Arc;

use isorb::poa::{Poa, PoaPolicies};
use isorb::rt::policy::{PriorityBand, PriorityModel};
use isorb::rt::{ThreadpoolId, ThreadpoolLane};
use isorb::{Config, Orb, Reference, Result};
use isorb_rt::priority::{Priority, PriorityMapping};
use isorb_rt::sched::{RealTime, SchedClass};

use super::isorb::generated::bench::TargetRef;
use super::isorb::{Caller, Echo, Logging, failed};
use crate::protocol::{exit_at_end_of_input, obey, ready};

/// CORBA priorities of the two lanes, each a band.
const LANES: [i16; 2] = [10_000, 20_000];
/// What the client has: the upper lane's.
const URGENT: i16 = LANES[1];

/// Serves one object at an address of this host until standard input ends.
pub fn serve(host: &str, logging: Logging) -> io::Result<()> {
    let orb = orb(host)?;
    let (poa, _) = poa(&orb).map_err(failed)?;
    let target: TargetRef =
        poa.activate(Arc::new(Echo::new(&orb).logging(logging))).map_err(io::Error::other)?;
    exit_at_end_of_input();
    ready(target.object())?;
    orb.run();
    Ok(())
}

fn poa(orb: &Orb) -> Result<(Poa, ThreadpoolId)> {
    // The longest message of the cases, its reply and a few more.
    let lanes = LANES.map(|priority| ThreadpoolLane::new(priority, 1).messages(1 << 20, 4));
    let pool = orb.rt().create_threadpool_with_lanes(&lanes, &Default::default())?;
    let bands = LANES.map(|priority| PriorityBand { low: priority, high: priority });
    let policies = PoaPolicies::new()
        .priority_model(PriorityModel::ClientPropagated, LANES[0])
        .threadpool(pool)
        .priority_bands(bands.to_vec());
    let root = orb.root_poa()?;
    let poa = root.create_poa("lanes", Some(&root.manager()), policies)?;
    root.manager().activate()?;
    Ok((poa, pool))
}

/// Calls the object of the reference as the harness orders.
pub fn call(reference: &str) -> io::Result<()> {
    let orb = orb("127.0.0.1")?;
    orb.rt_current().set_the_priority(URGENT).map_err(failed)?;
    let target: TargetRef = orb.resolve(reference).map_err(failed)?;
    target.ping().map_err(failed)?;
    obey(&mut Caller::new(orb, target))
}

fn orb(host: &str) -> io::Result<Orb> {
    let native = SchedClass::current().ok().and_then(SchedClass::native_priority);
    let mut config = Config { endpoints: vec![format!("{host}:0")], ..Config::default() };
    // Not requested again where the harness could not have it.
    config.real_time.mode = if native.is_some() { RealTime::Require } else { RealTime::Off };
    let orb = Orb::with_config(config).map_err(failed)?;
    if let Some(native) = native {
        orb.rt().set_priority_mapping(Arc::new(Only(native)));
    }
    Ok(orb)
}

/// All CORBA priorities are one native priority.
struct Only(u8);

impl PriorityMapping for Only {
    fn to_native(&self, _: Priority) -> Option<u8> {
        Some(self.0)
    }

    fn to_corba(&self, native: u8) -> Option<Priority> {
        if native == self.0 { Priority::new(URGENT) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_go_through_the_lane_of_their_band() {
        let orb = orb("127.0.0.1").unwrap();
        let (poa, pool) = poa(&orb).unwrap();
        let target: TargetRef = poa.activate(Arc::new(Echo::new(&orb))).unwrap();
        let reference = target.object().to_string();
        let caller = std::thread::spawn(move || {
            // Of an ORB of its own, so that the call is none within a process.
            let client = super::orb("127.0.0.1").unwrap();
            client.rt_current().set_the_priority(URGENT).unwrap();
            let target: TargetRef = client.resolve(&reference).unwrap();
            target.ping().unwrap();
            (client, target)
        });
        let client = caller.join().unwrap();
        let lanes = orb.rt().threadpool_status(pool).unwrap();
        let connections: Vec<(i16, usize)> =
            lanes.iter().map(|lane| (lane.lane_priority, lane.connections)).collect();
        assert_eq!(connections, [(LANES[0], 0), (LANES[1], 1)]);
        drop(client);
        orb.shutdown(true).unwrap();
    }
}
