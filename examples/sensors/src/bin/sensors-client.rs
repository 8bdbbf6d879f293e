//! Reads the thermometer: `sensors-client corbaname::localhost#lab/t1`.

use isorb_example_sensors::sensors::{ProbeRef, probe::SampleError};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let orb = isorb::Orb::init(std::env::args())?;
    let url = orb.arguments().get(1).ok_or("which object? give its URL")?;
    let probe: ProbeRef = orb.resolve(url)?;
    println!("{}:", probe.name()?);
    for channel in 0..8 {
        match probe.sample(channel) {
            Ok((reading, unit)) => println!("  channel {channel}: {} {unit}", reading.value),
            Err(SampleError::Offline(offline)) => println!("  channel {channel}: {}", offline.reason),
            Err(SampleError::System(exception)) => return Err(exception.into()),
        }
    }
    Ok(())
}
