//! Serves a thermometer as `lab/t1`:
//! `sensors-server -ORBInitRef NameService=corbaloc::localhost/NameService`.

use isorb_example_sensors::{Thermometer, sensors::ProbeRef};
use std::sync::Arc;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let orb = isorb::Orb::init(std::env::args())?;
    let probe: ProbeRef = orb.root_poa()?.activate(Arc::new(Thermometer::default()))?;
    println!("{probe}");
    isorb_naming::Naming::initial(&orb)?.bind("lab/t1", &probe)?;
    orb.run();
    Ok(())
}
