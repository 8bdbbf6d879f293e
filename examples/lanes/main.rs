//! A server with two lanes, and a client with two priority bands.
#![forbid(unsafe_code)]

use generated::brakes::{Wheel, WheelRef};
use isorb::poa::PoaPolicies;
use isorb::prelude::*;
use isorb::rt::policy::{PriorityBand, PriorityModel, RtPolicy};
use isorb::rt::{Overrides, ThreadpoolLane, ThreadpoolOptions};
use std::sync::Arc;

#[allow(missing_docs)]
mod generated {
    isorb::include_idl!("brakes");
}

const ROUTINE: i16 = 1_000;
const URGENT: i16 = 20_000;

struct Front;

impl Wheel for Front {
    fn priority(&self, cx: Upcall<'_>) -> Result<i16> {
        Ok(cx.priority().map_or(0, i16::from))
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The server: one lane for each priority, each with its own threads, port and connections.
    let server = Orb::builder().build()?;
    let lanes = [ThreadpoolLane::new(ROUTINE, 2), ThreadpoolLane::new(URGENT, 1)];
    let pool = server.rt().create_threadpool_with_lanes(&lanes, &ThreadpoolOptions::default())?;
    let policies =
        PoaPolicies::new().threadpool(pool).priority_model(PriorityModel::ClientPropagated, ROUTINE);
    let root = server.root_poa()?;
    let poa = root.create_poa("brakes", Some(&root.manager()), policies)?;
    root.manager().activate()?;
    let wheel: WheelRef = poa.activate(Arc::new(Front))?;
    let reference = wheel.to_string();

    // The client: one connection for each band, opened before the first call.
    let client = Orb::builder().build()?;
    let bands = [PriorityBand { low: 0, high: 9_999 }, PriorityBand { low: 10_000, high: 32_767 }];
    let overrides = Overrides::new(&[RtPolicy::PriorityBands(bands.into())])?;
    let wheel = client.string_to_object(&reference)?.with_rt_overrides(&overrides);
    wheel.validate_connection()?;
    let wheel: WheelRef = wheel.unchecked_narrow();

    for priority in [ROUTINE, URGENT] {
        client.rt_current().set_the_priority(priority)?;
        println!("called at {priority}, served at {}", wheel.priority()?);
    }
    for lane in server.rt().threadpool_status(pool)? {
        println!("lane {}: {} connection", lane.lane_priority, lane.connections);
    }
    client.shutdown(true)?;
    server.shutdown(true)?;
    Ok(())
}
