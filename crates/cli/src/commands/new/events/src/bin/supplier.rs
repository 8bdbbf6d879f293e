//! Pushes a climb of ten positions to an event channel.

mod generated {
    isorb::include_idl!("flight");
}
use generated::flight::{GPS, POSITIONS, Position};
use isorb_event::remote::RemoteChannel;
use std::time::Duration;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let orb = isorb::Orb::init(std::env::args())?;
    let url = orb.arguments().get(1).ok_or("give the URL of the channel")?;
    let gps = RemoteChannel::connect(&orb, url)?.supplier()?;
    for step in 0..10_u8 {
        let altitude = 500.0 + 20.0 * f32::from(step);
        gps.push_value(POSITIONS, GPS, &Position { latitude: 48.2, longitude: 16.3, altitude })?;
        std::thread::sleep(Duration::from_millis(50));
    }
    println!("{} pushed, {} lost", gps.pushed(), gps.lost());
    Ok(())
}
