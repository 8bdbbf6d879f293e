//! A consumer of an event channel in another process.
#![forbid(unsafe_code)]

use isorb_event::Filter;
use isorb_event::remote::RemoteChannel;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let orb = isorb::Orb::init(std::env::args())?;
    let url = orb.arguments().get(1).ok_or("give the URL of the channel")?;
    let channel = RemoteChannel::connect(&orb, url)?;
    let _display = channel.consume_values(Filter::of(16, 1), |_, height: f64| println!("{height} m"))?;
    orb.run();
    Ok(())
}
