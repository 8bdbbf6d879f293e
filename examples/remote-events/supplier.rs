//! A supplier of an event channel in another process.
#![forbid(unsafe_code)]

use isorb_event::remote::RemoteChannel;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let orb = isorb::Orb::init(std::env::args())?;
    let url = orb.arguments().get(1).ok_or("give the URL of the channel")?;
    let gps = RemoteChannel::connect(&orb, url)?.supplier()?;
    for height in [2961.5, 2962.0, 2962.06] {
        gps.push_value(16, 1, &height)?;
    }
    println!("{} pushed, {} lost", gps.pushed(), gps.lost());
    Ok(())
}
